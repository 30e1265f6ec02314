"""Remember the kind of sandbox that this system allows, so that a run can describe it before it is set up.

Setting up a sandbox takes longer than all else that a short answer needs, and the first request only has to
describe it. The description may be wrong: a setting of the system has changed, or the file was damaged or
forged. So it only chooses words for the model. No command is judged or run by it, but by what the sandbox
itself reports once it is set up; then the words and the file are corrected.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import DecodeError, Struct, json

from transcripts.storage import opened_fd, replace_file

from .profile import SandboxLevel
from .supervisor import installed_bwrap

_MAX_BYTES = 4_096
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class SandboxKind(Struct, frozen=True):
    """A kind of sandbox, and whether commands outside it cannot see the project's transcripts."""

    level: SandboxLevel
    hides_records: bool


class KindMemory(Struct, frozen=True):
    """A file with the kind of sandbox that the last run found here.

    version  the program's version
    environ  its environment, which can disable namespaces
    """

    path: Path
    version: str
    environ: Mapping[str, str]

    def recall(self) -> SandboxKind | None:
        """Return the kind; None if it is unknown, or was found by another version or on another system."""
        with suppress(OSError, DecodeError), opened_fd(self.path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            entry = json.decode(os.read(fd, _MAX_BYTES), type=_Entry)
            if entry.system == self._system():
                return entry.kind
        return None

    def remember(self, kind: SandboxKind) -> None:
        """Store the kind for the next run, if it can be stored."""
        with suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.path, json.encode(_Entry(self._system(), kind)), durable=False)

    def _system(self) -> tuple[str, ...]:
        """Return what the kind depends on: this boot of the kernel, container, user, programs, settings."""
        found = [self.version, os.uname().release, str(os.geteuid()), installed_bwrap() or ""]
        found.append(self.environ.get("MAKEROOM_NAMESPACE", ""))
        with suppress(OSError):  # other systems have none of these
            found.append(_BOOT_ID.read_text())
            # Others within a container.
            found += map(os.readlink, ("/proc/self/ns/mnt", "/proc/self/ns/user"))
        return tuple(found)


class _Entry(Struct, frozen=True):
    system: tuple[str, ...]
    kind: SandboxKind

"""What a checkout brings is off until the person approves it: the decisions, kept by the hash of the content.

They lie in the person's own state folder. A changed byte, another name or another folder is another item.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transcripts.disk import make_private_folders, opened_fd, read_regular, replace_file

MAX_APPROVALS_BYTES = 8 * 1024 * 1024
EVERYWHERE = "*"  # under which the file has what was decided for all projects


@dataclass(frozen=True, slots=True)
class ProjectItem:
    """Something of a project that could act unasked.

    kind     what it is, in a word or two: "hook", "MCP server", "command"
    name     what it is called
    shows    what it runs or grants, in one line without secret values
    content  all of what is approved: the file's bytes, or canonical JSON
    everywhere  it is the person's own and not the project's: one decision counts in all projects
    """

    kind: str
    name: str
    shows: str
    content: bytes
    everywhere: bool = False


# Lists the items of the project in a folder (a real path), given the environment of the program. It raises
# nothing, and is called in a thread.
ItemSource = Callable[[Path, Mapping[str, str]], Iterable[ProjectItem]]


class Approvals:
    """The decisions about the items of the project in `folder`; `path` is the file that keeps them.

    Made once for a run, which reads the file: that blocks on the disk.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        self.path, self.folder = path, str(folder.resolve())
        stored = _stored(path)
        self._decisions = {**stored.get(EVERYWHERE, {}), **stored.get(self.folder, {})}

    def decided(self, item: ProjectItem) -> bool | None:
        """Whether the item is allowed; None where nobody has decided."""
        found = self._decisions.get(self._key(item))
        return found if isinstance(found, bool) else None

    def allows(self, item: ProjectItem) -> bool:
        """Whether the item may act: what nobody has decided about may not."""
        return self.decided(item) is True

    def record(self, items: Iterable[ProjectItem], allowed: bool) -> None:
        """Decide about items from now on. Raises OSError where that cannot be kept; it holds for this run."""
        decided = list(items)
        self._decisions |= {self._key(item): allowed for item in decided}
        with _locked(self.path):
            kept = _stored(self.path)
            for item in decided:
                kept.setdefault(self._place(item), {})[self._key(item)] = allowed
            replace_file(self.path, json.dumps(kept, indent=1).encode())

    def undecided(self, items: Iterable[ProjectItem]) -> list[ProjectItem]:
        """The items that nobody has decided about."""
        return [item for item in items if self.decided(item) is None]

    def _place(self, item: ProjectItem) -> str:
        return EVERYWHERE if item.everywhere else self.folder

    def _key(self, item: ProjectItem) -> str:
        parts = (
            os.fsencode(self._place(item)),
            item.kind.encode(),
            item.name.encode("utf-8", "surrogateescape"),
        )
        digest = hashlib.sha256(b"\0".join((*parts, b"")))
        digest.update(item.content)
        return digest.hexdigest()


def _stored(path: Path) -> dict[str, Any]:
    """What the file holds, by folder; nothing where it cannot be read: then all is asked about again."""
    try:
        found = json.loads(read_regular(path, MAX_APPROVALS_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {folder: kept for folder, kept in entries if isinstance(kept, dict)}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file meanwhile."""
    make_private_folders(path.parent)
    with opened_fd(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield

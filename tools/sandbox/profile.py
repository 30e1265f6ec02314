"""The sandbox around commands: what it lets through, and what it refused. Plain data.

A sandboxed command may write in the project and in a private folder for temporary files, and read the rest
but for secrets and our own records; it reaches no network but through the session's proxy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

# What holds sandboxed commands: mount, PID and network namespaces; Landlock and seccomp (weaker); macOS's
# sandbox-exec; nothing.
SandboxLevel = Literal["namespaces", "landlock", "sandbox-exec", "none"]
SandboxSetting = Literal["auto", "require", "off"]


class SandboxProfile(Struct, frozen=True):
    """The accesses of a session's sandboxed commands.

    All paths are real; those that do not exist are left out.

    folder         the project
    shown          git folders of its repository, as they are, where commands had a private layer otherwise
    writable       besides the project and the private TMPDIR: what the user allowed
    read_only      within what is writable: hooks, configuration, whatever runs or grants rights later
    hidden         not to be read either: secrets, other homes
    records        our own records, hidden from open commands too
    caches         folders of package managers, each with a private layer over it, kept in `cache_layers`
    project_writable  False in plan mode and with `sandbox.project = "read-only"`
    proxy          the Unix socket of the session's network proxy; None: no network
    """

    folder: Path
    shown: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    records: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    cache_layers: Path | None = None
    project_writable: bool = True
    proxy: Path | None = None

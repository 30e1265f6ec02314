"""The accesses that the sandbox permits to commands. Plain data.

A sandboxed command may write in the project and in a private directory for temporary files. It may read
everything else except secrets and our transcripts. It only reaches the network through the session's proxy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

# The kinds of sandbox: mount, PID and network namespaces; Landlock and seccomp (weaker); macOS's
# sandbox-exec; none.
SandboxLevel = Literal["namespaces", "landlock", "sandbox-exec", "none"]
SandboxSetting = Literal["auto", "require", "off"]


class SandboxProfile(Struct, frozen=True):
    """The accesses of a session's sandboxed commands.

    All paths are real paths that exist.

    folder            the project
    shown             git directories of its repository to show unchanged where commands have a private layer
    writable          paths that the user allowed, besides the project and the private TMPDIR
    read_only         paths within writable ones: hooks, configuration, anything that runs or grants
                      permissions
    program           those of them that this program itself consists of
    linked            files of the project that our settings are links to
    pinned            directories that must not be moved, since they lead to our own or to withheld paths
    held              directories that are moved back afterwards, since they lead to read-only paths of rules
    hidden            unreadable paths: secrets, other homes
    records           our own transcripts, hidden from commands outside the sandbox too
    caches            directories of package managers, each under a private layer, kept in `cache_layers`
    project_writable  False in plan mode and with `sandbox.project = "read-only"`
    proxy             the Unix socket of the session's network proxy; None for no network
    ports             Unix sockets that lead to ports of this machine, each named for its port
    """

    folder: Path
    shown: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    read_only: tuple[Path, ...] = ()
    program: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()
    pinned: tuple[Path, ...] = ()
    held: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    records: tuple[Path, ...] = ()
    caches: tuple[Path, ...] = ()
    cache_layers: Path | None = None
    project_writable: bool = True
    proxy: Path | None = None
    ports: tuple[Path, ...] = ()

    @property
    def holds_git_settings(self) -> bool:
        """Return whether commands cannot change the settings of the project's repository."""
        return self.folder / ".git/config" in self.read_only

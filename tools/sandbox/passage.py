"""Find the access that a sandbox would have to allow so that it does not block the same again."""

# ruff: noqa: PTH110, PTH112 - unlike os.path, a Path raises errors

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from tools.guarded import steers_git, worktree_places

from .blocked_access import BlockedAccess, short_path
from .profile import SandboxProfile
from .proxy.hosts import host_name, hosts_with, local_port


class Passage(Struct, frozen=True):
    """An access that the sandbox can allow: to "write" or "read" the path `target`, or to "reach" that host.

    `parts` limits it to these paths in the target. If it is a host, they are the others of its service.
    """

    action: str
    target: str
    parts: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts to reach; () for a path."""
        return (self.target, *self.parts) if self.action == "reach" else ()

    def shown(self, folder: str) -> str:
        """Describe the access in a few words, for a user who works in the project `folder`."""
        if self.hosts:
            return f"reach {' and '.join(self.hosts)}"
        parts = ", ".join(part.removeprefix(f"{self.target}/") for part in self.parts)
        return f"{self.action} {short_path(self.target, folder)}{f' ({parts})' if parts else ''}"


def passage_for(refusal: BlockedAccess, profile: SandboxProfile, home: Path) -> Passage | None:
    """Return the access that would have to be allowed; None if that would allow too much.

    To write a file, its directory is needed; for a commit in a worktree, the parts of the repository that
    commits write. A home directory, directories directly below the root, our transcripts and files that grant
    rights later are never allowed.
    """
    target = Path(refusal.target)
    if refusal.action == "reach":
        # No proxy connects them, so allowing a host does not help.
        return None if refusal.program in ("ssh", "scp", "sftp", "rsync") else _way_to_host(refusal.target)
    if any(target.is_relative_to(place) for place in (*profile.records, *profile.read_only)):
        return None
    if refusal.action == "read":
        place = next((place for place in profile.hidden if target.is_relative_to(place)), None)
        return None if place is None or _is_too_much(place, home) else Passage("read", str(place))
    if steers_git(str(target)):
        return None
    parts = worktree_places(str(profile.folder))
    if any(target.is_relative_to(part) for part in parts):
        shared = str(Path(parts[0]).parent)
        return (
            None if _is_too_much(Path(shared), home) else Passage("write", target=shared, parts=tuple(parts))
        )
    there = next(place for place in (target, *target.parents) if os.path.exists(place))
    folder = there if os.path.isdir(there) else there.parent
    place = there if _is_too_much(folder, home) else folder
    return None if _is_too_much(place, home) else Passage("write", str(place))


def _way_to_host(host: str) -> Passage | None:
    if local_port(host):
        return Passage("reach", host)
    with suppress(ValueError):
        name = host_name(host)
        return Passage("reach", name, hosts_with(name))
    return None  # not a host name, or an IP address


def _is_too_much(place: Path, home: Path) -> bool:
    return len(place.parts) <= 2 or home.is_relative_to(place)

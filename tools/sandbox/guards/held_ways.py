"""Move directories back that lead to files which rules make read-only.

Such a file is a mount in the sandbox, so no command can change or move it. But a command could rename a
directory above it, after which the rule no longer matches or another file is in its place. A mount on that
directory would prevent this, but then programs could not rename files from one such directory to another. So
each of them stays open here, and the descriptor leads to wherever it was moved:

    mv db old && cp -r old db && echo x >>db/schema.rb     afterwards db is renamed to db.replaced-1f2e3d4c,
                                                           and old to db
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tools.files import FOLDER_FLAGS, closing, one_line_path, safe_open

from .git_backup import BY_WHOM

MAX_HELD = 256  # directories that stay open, those nearest to the root first
_PASSING = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HeldWays:
    """The directories of a project that are moved back after commands. The methods block."""

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def hold(self, ways: Iterable[Path], *, first: bool) -> None:
        """Keep these directories open. With `first`, no command runs yet that could have moved others."""
        wanted = sorted(ways, key=lambda way: (len(way.parts), way))[:MAX_HELD]
        if first:
            for way in self._held.keys() - set(wanted):
                os.close(self._held.pop(way))
        for way in wanted:
            if way in self._held and (not first or self._is_in_place(way)):
                continue
            with suppress(OSError):
                opened = safe_open(str(way), _PASSING)
                if way in self._held:
                    os.close(self._held[way])
                self._held[way] = opened

    def move_back(self, folder: Path) -> list[str]:
        """Move directories of the project `folder` back; return a line about each."""
        moved = [way for way in self._held if not self._is_in_place(way)]  # outer ones first
        return [line for way in moved if (line := self._move_back(way, folder))]

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held = {}

    def _is_in_place(self, way: Path) -> bool:
        with suppress(OSError):
            return os.path.samestat(way.lstat(), os.fstat(self._held[way]))
        return False

    def _move_back(self, way: Path, folder: Path) -> str:
        shown = one_line_path(str(way.relative_to(folder)))
        if self._is_in_place(way) or os.fstat(self._held[way]).st_nlink == 0:
            return ""  # it was moved back with a directory above it, or removed with all that was in it
        try:
            replaced = self._exchange(way)
        except OSError as error:
            why = f"which could not be undone: {error.strerror}"
            return f"[{BY_WHOM} moved {shown}, which leads to files that a rule protects, {why}]"
        now = f"; what was in its place is now {one_line_path(replaced)}" if replaced else ""
        return f"[{BY_WHOM} moved {shown}, which leads to files that a rule protects: moved back{now}]"

    def _exchange(self, way: Path) -> str:
        """Move a directory back; return the new name of what was in its place, "" for nothing."""
        state = os.fstat(self._held[way])
        source = os.readlink(f"/proc/self/fd/{self._held[way]}")  # noqa: PTH115 - not a usual link
        above, name = os.path.split(source)
        replaced = ""
        with (
            closing(safe_open(str(way.parent), FOLDER_FLAGS)) as here,
            closing(safe_open(above, FOLDER_FLAGS)) as there,
        ):
            found = os.stat(name, dir_fd=there, follow_symlinks=False)
            if not os.path.samestat(found, state) or not stat.S_ISDIR(found.st_mode):
                raise FileNotFoundError(2, "it no longer exists")
            with suppress(FileNotFoundError):
                aside = f"{way.name}.replaced-{os.urandom(4).hex()}"
                os.rename(way.name, aside, src_dir_fd=here, dst_dir_fd=here)
                replaced = aside
            os.rename(name, way.name, src_dir_fd=there, dst_dir_fd=here)
        return replaced

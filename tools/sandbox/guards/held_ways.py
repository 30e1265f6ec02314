"""Move directories back that lead to protected files.

A file that a rule makes read-only is a mount in the sandbox, so no command can change or move it. But a
command could rename a directory above it, after which the rule no longer matches or another file is in its
place. A mount on that directory would prevent this, but then programs could not rename files from one such
directory to another. Landlock has no mounts, so there a command can also rename the directories above guarded
files. Each of these directories stays open here, and the descriptor leads to wherever it was moved:

    mv db old && cp -r old db && echo x >>db/schema.rb     afterwards db is renamed to db.replaced-1f2e3d4c,
                                                           and old to db
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, closing, one_line_path, safe_open
from transcripts.wording import cause_of

from .git_backup import BY_WHOM
from .guarded_state import rename_aside

MAX_HELD = 256  # directories that stay open, those nearest to the root first


class HeldWays(Struct):
    """The directories that are moved back after commands. The methods block."""

    _held: dict[Path, int] = field(default_factory=dict)
    _shown: dict[Path, str] = field(default_factory=dict)
    _is_full: bool = False

    def hold(self, ways: Mapping[Path, str], *, first: bool) -> list[str]:
        """Keep these directories open; the values are their names in reports.

        With `first`, no command runs yet that could have moved others. Returns a line, the first time that
        there are too many.
        """
        wanted = sorted(ways, key=lambda way: (len(way.parts), way))[:MAX_HELD]
        if first:
            self._shown.clear()
            for way in self._held.keys() - set(wanted):
                os.close(self._held.pop(way))
        self._shown.update(ways)
        for way in wanted:
            if way in self._held and (not first or self._is_in_place(way)):
                continue
            with suppress(OSError):
                opened = safe_open(str(way), FOLDER_FLAGS)
                if way in self._held:
                    os.close(self._held[way])
                self._held[way] = opened
        more = len(ways) - len(wanted)
        if more <= 0 or self._is_full:
            return []
        self._is_full = True
        count = f"{more:,} more directories" if more > 1 else "1 more directory"
        return [f"[{count} on the way to protected files cannot be moved back after a command: too many]"]

    def move_back(self) -> list[str]:
        """Move directories back; return a line about each."""
        moved = [way for way in self._held if not self._is_in_place(way)]  # outer ones first
        return [line for way in moved if (line := self._move_back(way))]

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held = {}

    def _is_in_place(self, way: Path) -> bool:
        with suppress(OSError):
            return os.path.samestat(way.lstat(), os.fstat(self._held[way]))
        return False

    def _move_back(self, way: Path) -> str:
        state = os.fstat(self._held[way])
        is_gone = state.st_nlink == 0
        if self._is_in_place(way) or (is_gone and not _is_replaced(way)):
            return ""  # it was moved back with a directory above it, or removed with all that was in it
        what = f"{'removed' if is_gone else 'moved'} {self._shown[way]}, which leads to protected files"
        try:
            with closing(safe_open(str(way.parent), FOLDER_FLAGS)) as here:
                replaced = _put_aside(way.name, here) if is_gone else self._exchange(way, here, state)
        except OSError as error:
            return f"[{BY_WHOM} {what}, which could not be undone: {cause_of(error)}]"
        done = "it no longer exists" if is_gone else "moved back"
        now = f"; what was in its place is now {one_line_path(replaced)}" if replaced else ""
        return f"[{BY_WHOM} {what}: {done}{now}]"

    def _exchange(self, way: Path, here: int, state: os.stat_result) -> str:
        """Move a directory back to `here`; return the new name of what was in its place, "" for nothing."""
        source = os.readlink(f"/proc/self/fd/{self._held[way]}")  # noqa: PTH115 - not a usual link
        above, name = os.path.split(source)
        with closing(safe_open(above, FOLDER_FLAGS)) as there:
            found = os.stat(name, dir_fd=there, follow_symlinks=False)
            if not os.path.samestat(found, state) or not stat.S_ISDIR(found.st_mode):
                raise FileNotFoundError(2, "it no longer exists")
            replaced = _put_aside(way.name, here)
            os.rename(name, way.name, src_dir_fd=there, dst_dir_fd=here)
        return replaced


def _is_replaced(way: Path) -> bool:
    """Return whether something else is in the place of a directory."""
    with suppress(OSError):
        return not stat.S_ISDIR(way.lstat().st_mode)
    return False


def _put_aside(name: str, folder: int) -> str:
    """Rename an entry of an open directory; return its new name, "" if there is none."""
    with suppress(FileNotFoundError):
        return rename_aside(folder, name, "replaced")
    return ""

"""Back up the essential files of a repository outside of it, while sandboxed commands may write there.

References, HEAD and the index are copied. Objects, which never change, are linked if the copies are on the
same file system. So a `.git` that a command emptied can be restored completely. Other files in it are
ignored.
"""

# ruff: noqa: PTH208

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, closing, safe_open
from transcripts.patterns import lazy_pattern

from .git_files import (
    Seen,
    copy_state_file,
    is_whole,
    link_object,
    names_in,
    needed_folders,
    object_names,
    opened_git,
    state_files,
)
from .guarded_state import LISTED_FOLDER

BY_WHOM = "a sandboxed command or another process"  # in reports, since it is not known which
_MAX_MORE_LINKS = 1_000  # at once, for which a command may have to wait
_LOOSE_FOLDER = lazy_pattern(r"[0-9a-f]{2}")


class GitBackup(Struct):
    """Copies of the git directory `git` (or that of a worktree) in our own directory `kept`, PROJECT-PID.

    `shown` is its name for users. `max_links` limits the objects that are linked the first time (15 µs each);
    `unlinked` is true if there are more, for `link_more`. The methods block.
    """

    git: Path
    kept: Path
    shown: str = ".git"
    max_links: int = 20_000
    unlinked: bool = False
    _copied: dict[str, Seen] = field(default_factory=dict)  # by path from the repository
    _listed: dict[str, int] = field(default_factory=dict)  # directories of objects: their time of change

    def keep(self) -> None:
        """Update the copies. Files that cannot be copied are not kept."""
        self.unlinked = False
        if not is_whole(self.git):
            return
        if not self._copied:
            self._drop_leftovers()
        with suppress(OSError), closing(opened_git(self.git)) as top:
            present = state_files(top)
            for path in present:
                known = self._copied.get(path)
                with suppress(OSError):
                    if seen := copy_state_file(top, path, target=self.kept / path, known=known):
                        self._copied[path] = seen
            for path in self._copied.keys() - set(present):
                del self._copied[path]
                with suppress(OSError):
                    (self.kept / path).unlink()
            self._link_objects(top, min(self.max_links, _MAX_MORE_LINKS) if self._listed else self.max_links)

    def link_more(self) -> None:
        """Link objects for which there was no time yet."""
        self.unlinked = False
        with suppress(OSError), closing(opened_git(self.git)) as top:
            self._link_objects(top, min(self.max_links, _MAX_MORE_LINKS))

    def restore(self) -> list[str]:
        """Restore the missing parts of a repository that was emptied; return a line about it for the user."""
        if not self._copied or is_whole(self.git):
            return []
        with suppress(OSError), closing(opened_git(self.git)) as top:
            for name in needed_folders(self.git):
                _put_aside_if_replaced(top, name)
            back = [path for path in self._kept_paths() if self._put_back(top, path)]
            for name in needed_folders(self.git):
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=top)
            self._listed.clear()
            kinds = ", ".join(sorted({path.split("/")[0] for path in back}))
            return [f"[{BY_WHOM} emptied {self.shown}: {kinds} were restored]"] if back else []
        return [f"[{BY_WHOM} removed {self.shown}, which could not be restored]"]

    def drop(self) -> None:
        """Remove the copies."""
        shutil.rmtree(self.kept, ignore_errors=True)

    def _drop_leftovers(self) -> None:
        """Remove the copies of killed sessions. A directory is named by the process of its session."""
        project, _, _ = self.kept.name.rpartition("-")
        for other in self.kept.parent.glob(f"{project}-*"):
            try:
                os.kill(int(other.name.rpartition("-")[2]), 0)
            except (ProcessLookupError, ValueError):
                shutil.rmtree(other, ignore_errors=True)
            except PermissionError:
                continue  # another user's process has this pid

    def _link_objects(self, git: int, most: int) -> None:
        """Link new objects. Raises OSError if the copies are on another file system."""
        left = most
        for name in ("pack", *filter(_LOOSE_FOLDER.fullmatch, names_in(git, "objects"))):
            try:
                opened = safe_open(f"objects/{name}", LISTED_FOLDER, base=git)
            except OSError:
                continue  # it is a link or a file, or has just been removed
            with closing(opened) as folder:
                changed = os.fstat(folder).st_mtime_ns
                if changed == self._listed.get(name):
                    continue
                here = self.kept / "objects" / name
                here.mkdir(mode=0o700, parents=True, exist_ok=True)
                new = set(object_names(folder)) - set(os.listdir(here))
                with closing(os.open(here, LISTED_FOLDER)) as target:
                    for each in islice(new, left):
                        link_object(folder, each, target)
            if name == "pack" and "pack" in self._listed and new:
                _let_go(here)
            if len(new) > left:
                self.unlinked = True
                return
            left -= len(new)
            self._listed[name] = changed

    def _kept_paths(self) -> Iterator[str]:
        yield from self._copied
        folder = self.kept / "objects"
        for name in os.listdir(folder) if folder.is_dir() else ():
            yield from (f"objects/{name}/{each}" for each in os.listdir(folder / name))

    def _put_back(self, top: int, path: str) -> bool:
        """Restore one file below the open directory `top`, without following links; False if it exists."""
        *folders, name = path.split("/")
        place = os.dup(top)
        try:
            for folder in folders:
                with suppress(FileExistsError):
                    os.mkdir(folder, dir_fd=place)
                inner = os.open(folder, FOLDER_FLAGS, dir_fd=place)
                os.close(place)
                place = inner
            if folders and folders[0] == "objects":
                os.link(self.kept / path, name, dst_dir_fd=place, follow_symlinks=False)
            else:
                _write_new(place, name, (self.kept / path).read_bytes())
        except OSError:
            return False
        finally:
            os.close(place)
        return True


def _put_aside_if_replaced(top: int, name: str) -> None:
    """Rename an entry of an open directory that should be a directory and is not. Raises OSError."""
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            os.rename(name, f"{name}.replaced-{os.urandom(4).hex()}", src_dir_fd=top, dst_dir_fd=top)


def _write_new(folder: int, name: str, data: bytes) -> None:
    """Write a new file into an open directory, all of it or none. Raises OSError."""
    with closing(
        os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
    ) as made:
        try:
            with open(made, "wb", closefd=False) as file:
                file.write(data)
        except OSError:
            os.unlink(name, dir_fd=folder)
            raise


def _let_go(packs: Path) -> None:
    """Remove our links to packs that git has replaced, which would keep them on disk."""
    for pack in packs.iterdir():
        if pack.lstat().st_nlink == 1:
            pack.unlink()

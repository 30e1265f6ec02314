"""Back up the essential files of a repository outside of it, while sandboxed commands may write there.

References, HEAD and the index are copied. Objects, which never change, are linked if the copies are on the
same file system. So a `.git` that a command emptied can be restored completely. Other files in it are
ignored.
"""

# ruff: noqa: PTH208

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, closing

BY_WHOM = "a sandboxed command or another process"  # in reports, since it is not known which
_STATE_FILES = ("HEAD", "packed-refs", "index", "shallow", "gitdir")
_STATE_FOLDERS = ("refs", "reftable")
_MAX_REFERENCES = 5_000  # loose references that are copied
_MAX_COPIED_BYTES = 256 << 20  # of one file, such as the index of a very large project
_LOOSE_FOLDER = re.compile(r"[0-9a-f]{2}")
_OBJECT = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?|pack-[0-9a-f]{40,64}\.\w+|multi-pack-index")

Seen = tuple[int, int, int]  # of a copied file: inode, size, time of change


class GitBackup(Struct):
    """Copies of the git directory `git` (or that of a worktree) in our own directory `kept`, PROJECT-PID.

    `shown` is its name for users. `max_links` limits the objects that are linked at once (10 µs each). The
    methods block.
    """

    git: Path
    kept: Path
    shown: str = ".git"
    max_links: int = 20_000
    _copied: dict[str, Seen] = field(default_factory=dict)  # by path from the repository
    _listed: dict[str, int] = field(default_factory=dict)  # directories of objects: their time of change

    def keep(self) -> None:
        """Update the copies. Files that cannot be copied are not kept."""
        if not _is_whole(self.git):
            return
        if not self._copied:
            self._drop_leftovers()
        present = _state_of(self.git)
        for path in present:
            with suppress(OSError):
                self._copy(path)
        for path in self._copied.keys() - set(present):
            del self._copied[path]
            with suppress(OSError):
                (self.kept / path).unlink()
        with suppress(OSError):
            self._link_objects()

    def restore(self) -> list[str]:
        """Restore the missing parts of a repository that was emptied; return a line about it for the user."""
        if not self._copied or _is_whole(self.git):
            return []
        with suppress(OSError), closing(os.open(self.git, FOLDER_FLAGS)) as top:
            back = [path for path in self._kept_paths() if self._put_back(top, path)]
            for name in _needed_folders(self.git):
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

    def _copy(self, path: str) -> None:
        fd = os.open(self.git / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            state = os.fstat(fd)
            seen = (state.st_ino, state.st_size, state.st_ctime_ns)
            plain = stat.S_ISREG(state.st_mode) and state.st_size <= _MAX_COPIED_BYTES
            if plain and seen != self._copied.get(path):
                target = self.kept / path
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with target.open("wb") as copy:
                    shutil.copyfileobj(file, copy)
                self._copied[path] = seen

    def _link_objects(self) -> None:
        """Link new objects. Raises OSError if the copies are on another file system."""
        top = self.git / "objects"
        left = self.max_links
        for name in ("pack", *filter(_LOOSE_FOLDER.fullmatch, os.listdir(top))):
            changed = os.lstat(top / name).st_mtime_ns
            if changed == self._listed.get(name):
                continue
            here = self.kept / "objects" / name
            here.mkdir(mode=0o700, parents=True, exist_ok=True)
            new = set(_objects_in(top / name)) - set(os.listdir(here))
            for path in islice(new, left):
                os.link(top / name / path, here / path, follow_symlinks=False)
            left -= min(left, len(new))
            if name == "pack" and "pack" in self._listed and new:
                _let_go(here)
            if left:
                self._listed[name] = changed

    def _kept_paths(self) -> Iterator[str]:
        yield from self._copied
        folder = self.kept / "objects"
        for name in os.listdir(folder) if folder.is_dir() else ():
            yield from (f"objects/{name}/{each}" for each in _objects_in(folder / name))

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
                os.link(self.kept / path, name, dst_dir_fd=place)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                with closing(os.open(name, flags, 0o644, dir_fd=place)) as made:
                    os.write(made, (self.kept / path).read_bytes())
        except OSError:
            return False
        finally:
            os.close(place)
        return True


def _is_whole(git: Path) -> bool:
    """Return whether git accepts it as a repository, and its essential directories are not empty."""
    if git.is_symlink() or not (git / "HEAD").exists():
        return False
    with suppress(OSError):
        return all(os.listdir(git / name) for name in _needed_folders(git))
    return False


def _needed_folders(git: Path) -> tuple[str, ...]:
    """Return the necessary directories of a repository; a worktree's directory has none of its own."""
    return () if git.parent.name == "worktrees" else ("objects", "refs")


def _state_of(git: Path) -> list[str]:
    """Return the files with the state of a repository, including references."""
    found = [name for name in _STATE_FILES if (git / name).is_file()]
    walks = (os.walk(git / name) for name in _STATE_FOLDERS)
    loose = (f"{place}/{name}" for walk in walks for place, _, names in walk for name in names)
    return [*found, *(path[len(str(git)) + 1 :] for path in islice(loose, _MAX_REFERENCES))]


def _objects_in(folder: Path) -> Iterator[str]:
    """Return the names of objects in a directory of loose ones or of packs."""
    with suppress(OSError):
        yield from filter(_OBJECT.fullmatch, os.listdir(folder))


def _let_go(packs: Path) -> None:
    """Remove our links to packs that git has replaced, which would keep them on disk."""
    for pack in packs.iterdir():
        if pack.lstat().st_nlink == 1:
            pack.unlink()

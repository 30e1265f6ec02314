"""Links to files that are too large to be copied, so that a command cannot delete their contents.

A link takes no time and no space. It is made before a command and removed after it, unless the file is no
longer in its place: then /rewind moves the link there. What is written into the file itself changes a hard
link too, so its name says what the file was like. On file systems that can share blocks (Btrfs, XFS) a clone
takes the place of the link: it keeps the contents whatever is written into the file.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from tools.files import closing, safe_open
from transcripts.storage import set_own_mode

from .large_contents import clone
from .store_folder import FRESH_CONTENT_S, make_store_folder, needed_stamps

_MAX_FILES = 256  # take 5 ms
_CLONE = ".clone"  # ends the name of one
_TO_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class HeldFiles(Struct):
    """Links in `folder`. The methods block on the disk; only `put_back` raises OSError.

    clones  whether the links are clones; None until that was tried
    """

    folder: Path
    clones: bool | None = None
    wall: Callable[[], float] = time.time  # the clock of the file system
    _held: dict[Path, Path] = field(default_factory=dict)  # the links of this process -> their files

    def holdable(self, paths: Iterable[Path]) -> list[Path]:
        """Return the regular files that can have a link, the largest first."""
        found: list[tuple[int, Path]] = []
        with suppress(OSError):
            records = self.folder.parents[1]
            device = (records if records.exists() else records.parent).stat().st_dev
            links = self._links()
            deleted = sum(link.st_size for link in links if link.st_nlink == 1)
            if deleted > shutil.disk_usage(records.parent).free // 2:
                return []
            names = Counter(link.st_ino for link in links)
            for path in paths:
                with suppress(OSError):
                    file = path.lstat()
                    # Linux lets ordinary users link their own files only. A file with another name is not
                    # lost, and a new link would look like a change of what other projects share.
                    is_own = os.geteuid() in (0, file.st_uid)
                    is_alone = file.st_nlink - names[file.st_ino] == 1
                    if stat.S_ISREG(file.st_mode) and file.st_dev == device and is_own and is_alone:
                        found.append((file.st_size, path))
        largest = [path for _, path in sorted(found, reverse=True)[:_MAX_FILES]]
        if largest and self.clones is None and make_store_folder(self.folder):
            with suppress(OSError), closing(safe_open(str(largest[0]), _TO_READ)) as opened:
                probe = self.folder / f"probe-{os.getpid()}"
                self.clones = _made_clone(opened, probe)
                probe.unlink(missing_ok=True)
        return largest

    def hold(self, paths: Iterable[Path]) -> None:
        """Make links to files, where that is possible."""
        wanted = self.holdable(paths)
        if wanted and make_store_folder(self.folder):
            for path in wanted:
                # A command in the background may put links in the place of directories meanwhile.
                flags = os.O_RDONLY | os.O_DIRECTORY
                with suppress(OSError), closing(safe_open(str(path.parent), flags)) as fd:
                    file = os.stat(path.name, dir_fd=fd, follow_symlinks=False)
                    link = self.folder / f"{_beginning(stamp_of(file))}{os.getpid()}"
                    if self.clones:
                        link = link.with_suffix(_CLONE)
                        with closing(os.open(path.name, _TO_READ | os.O_NOFOLLOW, dir_fd=fd)) as opened:
                            if stamp_of(os.fstat(opened)) != stamp_of(file) or not _made_clone(opened, link):
                                continue
                    else:
                        os.link(path.name, link, src_dir_fd=fd, follow_symlinks=False)
                    self._held[link] = path

    def holds(self, path: Path) -> bool:
        return path in self._held.values()

    def release(self) -> list[Path]:
        """Remove the links to files that are still in their places, and unchanged if they are clones.

        Returns the other files.
        """
        deleted = []
        for link in list(self._held):
            path = self._held.pop(link)
            with suppress(OSError):
                if path.exists() and (_had(link, path.lstat()) or path.samefile(link)):
                    link.unlink()
                elif link.lstat().st_nlink == 1:
                    deleted.append(path)
        return deleted

    def find(self, stamp: str) -> Path | None:
        """Return the link to a file that had this stamp, unless something has been written to it since."""
        with suppress(OSError):
            for link in [] if self.folder.is_symlink() else self.folder.glob(f"{_beginning(stamp)}*"):
                file = link.lstat()
                is_as_before = link.suffix == _CLONE or stamp_of(file) == stamp
                if stat.S_ISREG(file.st_mode) and is_as_before:
                    return link
        return None

    def put_back(self, stamp: str, mode: int, folder: int, name: str) -> None:
        """Move a link to the place of its file in an open directory. Raises OSError."""
        link = self.find(stamp)
        if link is None:
            raise FileNotFoundError("its contents are missing")
        set_own_mode(link, mode)
        os.rename(link, name, dst_dir_fd=folder)

    def prune(self) -> None:
        """Remove the links that no recent session needs."""
        with suppress(OSError):
            links = [] if self.folder.is_symlink() else list(self.folder.iterdir())
            needed = needed_stamps(self.folder.parent) if links else set()
            for link in links:
                is_fresh = self.wall() - link.lstat().st_ctime < FRESH_CONTENT_S
                if " ".join(link.name.split("-")[:3]) not in needed and not is_fresh:
                    link.unlink()

    def _links(self) -> list[os.stat_result]:
        """Return the states of all links, those of other processes too."""
        with suppress(OSError), os.scandir(self.folder) as links:
            return [link.stat(follow_symlinks=False) for link in links]
        return []


def _made_clone(file: int, target: Path) -> bool:
    """Make a clone of an open file; return False if that is not possible. Raises OSError."""
    with closing(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)) as made:
        if clone(file, made):
            if os.geteuid() == 0:
                found = os.fstat(file)
                os.fchown(made, found.st_uid, found.st_gid)
            return True
    target.unlink()
    return False


def _had(link: Path, file: os.stat_result) -> bool:
    """Return whether a link is a clone of a file in its present state."""
    return link.name.startswith(_beginning(stamp_of(file))) and link.suffix == _CLONE


def _beginning(stamp: str) -> str:
    """Return the beginning of the names of links to a file with this stamp."""
    return f"{stamp.replace(' ', '-')}-"


def stamp_of(file: os.stat_result) -> str:
    """Return what identifies the contents of a file without reading them."""
    return f"{file.st_size} {file.st_mtime_ns} {file.st_ino}"

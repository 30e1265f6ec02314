"""Keep individual files outside the project: a hard link, a copy of their beginning, or both."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from .file_states import Stamp, stamp_of
from .session_lock import ensure_private_folder
from .storage.disk import (
    DISK,
    FileEndsEarly,
    append_whole,
    has_same_start,
    make_private_folders,
    opened_fd,
    opened_unread,
    read_pieces,
    replace_and_open,
    set_own_mode,
    sync_folders,
)


class SpareFile(Struct, frozen=True):
    """The kept parts of one file.

    stamp     the stamp of the file when it was last found intact
    size      the number of bytes copied from its beginning
    checksum  CRC-32 of these bytes; None if there is no copy
    linked    there is a hard link
    """

    stamp: Stamp
    size: int
    checksum: int | None
    linked: bool


class SpareFiles(Struct, frozen=True):
    """Files of the project `home`, kept in the private directory `place` by their paths below the project."""

    home: Path
    place: Path
    _made: set[Path] = field(default_factory=set)

    def path_of(self, name: str, kind: Literal["copies", "links"] = "copies") -> Path:
        """Return the path of a file's copy or link, creating its directory. Raises OSError."""
        path = self.place / kind / name
        if path.parent not in self._made:
            make_private_folders(path.parent)
            self._made.add(path.parent)
        return path

    def link(self, name: str) -> bool:
        """Create a hard link; return False if the file system is another one or has no hard links."""
        with suppress(OSError):
            target = self.path_of(name, "links")
            target.unlink(missing_ok=True)
            os.link(self.home / name, target)
            return True
        return False

    def copy(self, name: str, known: SpareFile | None, linked: bool) -> SpareFile:
        """Copy what was appended to a file since it was last copied, or all of it. Raises OSError."""
        target = self.path_of(name)
        with opened_unread(self.home / name) as source:
            now = os.fstat(source)
            start = 0
            checksum = 0
            if known is None or known.checksum is None:
                target.unlink(missing_ok=True)
            with opened_fd(target, os.O_RDWR | os.O_APPEND | os.O_CREAT) as copy:
                if known is not None and known.checksum is not None and now.st_size >= known.size:
                    is_grown = has_same_start(DISK, source, copy, known.size)
                    start, checksum = (known.size, known.checksum) if is_grown else (0, 0)
                os.ftruncate(copy, start)
                for piece in read_pieces(source, start, now.st_size):
                    checksum = zlib.crc32(piece, checksum)
                    start = append_whole(DISK, copy, piece, start)
        return SpareFile(stamp_of(now), size=now.st_size, checksum=checksum, linked=linked)

    def without_copy(self, name: str, linked: bool) -> SpareFile:
        """Keep a file by its hard link only, removing any copy. Raises OSError if there is no link either."""
        if not linked:
            raise FileNotFoundError(name)
        with suppress(OSError):
            self.path_of(name).unlink()
        now = (self.home / name).lstat()
        return SpareFile(stamp_of(now), size=now.st_size, checksum=None, linked=linked)

    def stamp_if_whole(self, name: str, spare: SpareFile) -> Stamp | None:
        """Return the stamp of a file that begins with what was kept of it; None for a changed file."""
        path = self.home / name
        try:
            set_own_mode(path, 0o600)
            with opened_unread(path) as fd:
                return stamp_of(os.fstat(fd)) if self._is_as_kept(name, spare, fd) else None
        except OSError:
            return None

    def _is_as_kept(self, name: str, spare: SpareFile, fd: int) -> bool:
        """Return whether an open file begins with what was kept of it. Raises OSError."""
        now = os.fstat(fd)
        if spare.checksum is None:
            return (now.st_ino, now.st_size, now.st_mtime_ns) == spare.stamp[:3]
        with opened_fd(self.path_of(name), os.O_RDONLY) as copy:
            return now.st_size >= spare.size and has_same_start(DISK, fd, copy, spare.size)

    def put_back(self, name: str, spare: SpareFile) -> Stamp:
        """Restore a file durably and return its new stamp. Raises OSError and StoreError."""
        path = self.home / name
        _make_folders_of(self.home, name)
        if spare.linked and self._link_back(name, spare, path):
            return stamp_of(path.lstat())
        if spare.checksum is None:
            raise FileEndsEarly("the file was changed in place, and only a hard link was kept")
        with opened_fd(self.path_of(name), os.O_RDONLY) as source:
            pieces = _checked(read_pieces(source, 0, spare.size), spare.checksum)
            os.close(replace_and_open(path, pieces, DISK, path.parent)[0])
        os.utime(path, ns=(spare.stamp[2], spare.stamp[2]))  # lists are sorted by it
        return stamp_of(path.lstat())

    def _link_back(self, name: str, spare: SpareFile, path: Path) -> bool:
        """Restore the file itself from its hard link, unless it was changed in place. Raises OSError."""
        link = self.path_of(name, "links")
        with opened_unread(link) as fd:
            if not self._is_as_kept(name, spare, fd):
                return False
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        os.link(link, temporary)
        temporary.replace(path)
        sync_folders(DISK, path.parent)
        return True

    def drop(self, name: str) -> None:
        """Remove the copy and the link of a file."""
        for kind in ("copies", "links"):
            with suppress(OSError):
                (self.place / kind / name).unlink()


def _make_folders_of(home: Path, name: str) -> None:
    """Create the directories of one of our files, with mode 0700. Raises OSError and StoreError."""
    top, *inner, _ = name.split("/")
    folder = home / top
    _remove_link(folder)
    ensure_private_folder(folder)
    for each in inner:
        folder /= each
        _remove_link(folder)
        with suppress(FileExistsError):
            folder.mkdir(0o700)
        set_own_mode(folder, 0o700)


def _remove_link(folder: Path) -> None:
    """Remove what a command has put in the place of a directory that it moved away."""
    if folder.is_symlink():
        folder.unlink()


def _checked(pieces: Iterable[bytes], checksum: int) -> Iterator[bytes]:
    """Yield the pieces, then raise FileEndsEarly if they are not what was copied, as after a power loss."""
    found = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
        yield piece
    if found != checksum:
        raise FileEndsEarly("the copy is damaged")

"""Copy the contents of objects, since a program can write to an object in place, and so to each link to it.

Objects are read-only. But `chmod -R u+w .` is quickly said, and then a script that rewrites each file of a
directory damages them. Loose objects and small packs are copied into one file, in order of their names:

    object_copies    <content of 4b/825d...><content of 5e/1309...>...

An object is compared with its copy if the time of its last change differs, which no program can set.
"""

# ruff: noqa: PTH208

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, field

from tools.files import FOLDER_FLAGS, LISTED_FOLDER, closing, replace_in, safe_open
from transcripts.patterns import lazy_pattern

from .git_files import object_names

LOOSE_FOLDER = lazy_pattern(r"[0-9a-f]{2}")
MAX_READ_BYTES = 64 << 20  # of an object that is compared
_MAX_COPIED_BYTES = 32 << 20  # of one object
_MAX_BYTES = 64 << 20  # of all copies
_MAX_BYTES_AT_ONCE = 8 << 20
_MAX_COPIES = 10_000  # git packs more than 6,700 loose objects by itself
_MAX_LOOKED_AT = 1_500  # objects at once: 3 µs each


class _Stamp(NamedTuple):
    """The state of an object, whose times no program can set all."""

    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class _Copy(Struct):
    """An object with its stamp, and the place of its content in the copies; `at` is -1 if there is none."""

    stamp: _Stamp
    at: int = -1


class ObjectCopies(Struct):
    """Copies of the objects of a repository in the file `kept`, by paths such as `4b/825d...`.

    The descriptor `git` is that of the git directory. The methods block.
    """

    kept: Path
    max_bytes: int = _MAX_BYTES
    _copies: dict[str, _Copy] = field(default_factory=dict)
    _listed: dict[str, int] = field(default_factory=dict)  # directories of objects: their time of change
    _size: int = 0  # of the file
    _next: int = 0  # the object to look at first the next time

    def add(self, git: int, most: int) -> bool:
        """Copy new objects, loose ones first; return whether there are more. Raises OSError."""
        if not (changed := self._changed(git)):
            return False
        self.kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (0 if self._size else os.O_TRUNC)
        size = self._size
        with closing(os.open(self.kept, flags, 0o600)) as kept:
            for folder, path in self._new_objects(git, changed):
                if most <= 0 or self._size - size >= _MAX_BYTES_AT_ONCE:
                    return True
                with suppress(OSError):
                    self._add(folder, path, kept)
                most -= 1
        return False

    def _new_objects(self, git: int, names: Iterable[str]) -> Iterator[tuple[int, str]]:
        """Yield objects without a copy, each with its open directory, while there may be more copies.

        Copies of objects that are gone are dropped.
        """
        for name in names:
            with suppress(OSError), closing(safe_open(f"objects/{name}", LISTED_FOLDER, base=git)) as folder:
                time_of_change = os.fstat(folder).st_ctime_ns
                present = {f"{name}/{each}" for each in object_names(folder)}
                if name in self._listed:
                    for path in [path for path in self._copies if path.startswith(f"{name}/")]:
                        if path not in present:
                            del self._copies[path]
                for path in sorted(present - self._copies.keys()):
                    if len(self._copies) >= _MAX_COPIES:
                        return
                    yield folder, path
                self._listed[name] = time_of_change

    def _changed(self, git: int) -> list[str]:
        """Return the directories that have changed since their objects were copied, loose ones first."""
        found = list[str]()
        if len(self._copies) >= _MAX_COPIES:
            return found
        with closing(os.open("objects", LISTED_FOLDER, dir_fd=git)) as objects:
            for name in (*sorted(filter(LOOSE_FOLDER.fullmatch, os.listdir(objects))), "pack"):
                with suppress(OSError):
                    state = os.stat(name, dir_fd=objects, follow_symlinks=False)
                    if self._listed.get(name) != state.st_ctime_ns:
                        found.append(name)
        return found

    def _add(self, folder: int, path: str, kept: int) -> None:
        """Copy an object of an open directory to the open file `kept`. Raises OSError."""
        opened = safe_open(path[path.index("/") + 1 :], _READING, base=folder)
        with os.fdopen(opened, "rb") as file:
            state = os.fstat(file.fileno())
            copied = self._copies[path] = _Copy(_stamp(state))
            most = min(_MAX_COPIED_BYTES, self.max_bytes - self._size)
            if not stat.S_ISREG(state.st_mode) or state.st_size > most:
                return
            content = file.read(state.st_size)
        if os.pwrite(kept, content, self._size) == len(content) == state.st_size:
            copied.at = self._size
            self._size += len(content)

    def overwritten(self, git: int) -> list[str]:
        """Return the paths of objects that were written to. Of very many, some are looked at each time."""
        found = list(self._overwritten(git, _MAX_LOOKED_AT))
        return sorted({*found, *self._overwritten(git, len(self._copies))}) if found else []

    def _overwritten(self, git: int, most: int) -> Iterator[str]:
        paths = list(self._copies)
        first = self._next % len(paths) if most < len(paths) else 0
        self._next = first + most
        with suppress(OSError), closing(os.open("objects", FOLDER_FLAGS, dir_fd=git)) as objects:
            for path in (*paths[first : first + most], *paths[: max(0, first + most - len(paths))]):
                copied = self._copies[path]
                try:
                    now = _stamp(os.stat(path, dir_fd=objects, follow_symlinks=False))
                except OSError:
                    continue
                if now == copied.stamp or now.inode != copied.stamp.inode:
                    continue  # another file is in its place: the link to the object is still sound
                if self.is_sound(objects, path):
                    copied.stamp = now
                else:
                    yield path

    def is_sound(self, folder: int, path: str) -> bool:
        """Return whether an object below the open directory has the content that it had."""
        copied = self._copies.get(path)
        if copied is None:
            return True
        try:
            with os.fdopen(safe_open(path, _READING, base=folder), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size != copied.stamp.size or size > MAX_READ_BYTES:
                    return size == copied.stamp.size
                content = file.read(MAX_READ_BYTES)
        except OSError:
            return False
        if copied.at >= 0:
            return content == self._content(copied)
        return path.startswith("pack/") or is_object(content, path.replace("/", ""))

    def put_back(self, git: int, path: str) -> bool:
        """Replace an object with its copy; return False if there is none, or it cannot be written."""
        copied = self._copies.get(path)
        folder, _, name = path.partition("/")
        temporary = f"tmp_obj_{os.urandom(8).hex()}"  # git removes those that are left over
        try:
            if copied is None or copied.at < 0 or len(content := self._content(copied)) != copied.stamp.size:
                return False
            with closing(safe_open(f"objects/{folder}", FOLDER_FLAGS, base=git)) as here:
                self.mend(here, name, path)
                replace_in(here, name, content, temporary, mode=0o444)
                copied.stamp = _stamp(os.stat(name, dir_fd=here, follow_symlinks=False))
        except OSError:
            return False
        return True

    def mend(self, folder: int, name: str, path: str) -> None:
        """Write an object in place, below an open directory, so that it is whole at its other names too.

        A clone on the same disk has hard links to the objects of its original. If a command has put another
        file there, that has another inode: our link keeps this one from being used again.
        """
        copied = self._copies[path]
        with suppress(OSError), closing(safe_open(name, _READING, base=folder)) as file:
            content = self._content(copied)
            found = os.fstat(file)
            if found.st_ino != copied.stamp.inode or found.st_nlink < 2 or len(content) != copied.stamp.size:
                return
            os.fchmod(file, 0o644)
            Path(f"/proc/self/fd/{file}").write_bytes(content)
            os.fchmod(file, 0o444)

    def _content(self, copied: _Copy) -> bytes:
        with self.kept.open("rb") as file:
            file.seek(copied.at)
            return file.read(copied.stamp.size)


_READING = os.O_RDONLY | os.O_NONBLOCK


def is_object(content: bytes, id: str) -> bool:
    """Return whether the content of a file is that of the loose object with this id."""
    try:
        data = zlib.decompressobj().decompress(content, MAX_READ_BYTES)
    except zlib.error:
        return False
    hashed = hashlib.sha1(data, usedforsecurity=False) if len(id) == 40 else hashlib.sha256(data)
    return hashed.hexdigest() == id


def _stamp(state: os.stat_result) -> _Stamp:
    return _Stamp(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)

"""Find a project's transcripts and stored outputs, and detect which of these files have changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from msgspec import Struct, field

from .session_lock import RECORDS_FOLDER
from .storage.disk import set_own_mode
from .stored_outputs import OUTPUTS_TOP

RECORD_FOLDERS = (RECORDS_FOLDER, OUTPUTS_TOP)
WRITTEN_ONCE = f"{RECORDS_FOLDER}/checkpoints/objects/"  # files that never change, in their own directories
SEARCH_FOLDER = f"{RECORDS_FOLDER}/search"
CACHE_FOLDER = f"{RECORDS_FOLDER}/cache"  # see load_cache.py
_NOT_COPIED = (SEARCH_FOLDER, CACHE_FOLDER)  # they can be made again

Stamp = tuple[int, int, int, int]  # inode, size in bytes, mtime in ns, mode


class RecordFiles(Struct):
    """The transcripts and stored outputs of the project `home`, except temporary files."""

    home: Path
    _settled: dict[str, Stamp] = field(default_factory=dict)  # WRITTEN_ONCE directories at the last scan

    def scan(self, known: Iterable[str]) -> dict[str, dict[str, Stamp]]:
        """Return the stamps of the files: directory -> path -> stamp, paths below the project.

        No symbolic link is followed. Directories of `known` that no longer exist have no files. A directory
        below WRITTEN_ONCE that has not changed since the last scan is omitted.
        """
        found: dict[str, dict[str, Stamp]] = {base: {} for base in known}
        folders = [f"{name}/" for name in RECORD_FOLDERS if not (self.home / name).is_symlink()]
        while folders:
            base = folders.pop()
            if base.startswith(WRITTEN_ONCE) and base != WRITTEN_ONCE and self._is_settled(base):
                found.pop(base, None)
                continue
            found[base], inner = _look_into(self.home, base)
            folders += inner
        return found

    def _is_settled(self, base: str) -> bool:
        """Return whether a directory is unchanged since the last call, and remember its current stamp."""
        with suppress(FileNotFoundError):
            now = stamp_of(os.lstat(f"{self.home}/{base}"))
            before = self._settled.get(base)
            self._settled[base] = now
            return before == now
        return False


def _look_into(home: Path, base: str) -> tuple[dict[str, Stamp], list[str]]:
    """Return the stamps of the files in one directory, and its subdirectories."""
    files: dict[str, Stamp] = {}
    folders: list[str] = []
    with suppress(OSError), _opened(home / base) as entries:
        for entry in entries:
            name = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                folders += [f"{name}/"] if name not in _NOT_COPIED else []
            elif entry.is_file(follow_symlinks=False) and not _comes_and_goes(entry.name):
                with suppress(FileNotFoundError):
                    files[name] = stamp_of(entry.stat(follow_symlinks=False))
    return files, folders


def _opened(folder: Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
    """List one of our directories, even if a command removed our permissions for it. Raises OSError."""
    try:
        return os.scandir(folder)
    except PermissionError:
        set_own_mode(folder, 0o700)
        return os.scandir(folder)


def _comes_and_goes(name: str) -> bool:
    """Return whether a file is temporary: a lock, a snapshot before a command, a cache, or being written."""
    return name.endswith((".lock", ".look", ".stamps", ".tmp")) or name.rpartition(".")[2].isdigit()


def stamp_of(found: os.stat_result) -> Stamp:
    """Return the stamp of a file from the result of `os.lstat`."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)

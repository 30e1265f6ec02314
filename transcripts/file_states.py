"""The files that hold a project's records: which there are, and whether they are as they were."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from msgspec import Struct, field

from .session_lock import RECORDS_FOLDER
from .stored_outputs import OUTPUTS_TOP

RECORD_FOLDERS = (RECORDS_FOLDER, OUTPUTS_TOP)
WRITTEN_ONCE = f"{RECORDS_FOLDER}/checkpoints/objects/"  # files that never change, in folders of their own
SEARCH_FOLDER = f"{RECORDS_FOLDER}/search"  # a cache, of which no copy is kept

Stamp = tuple[int, int, int, int]  # inode, size in bytes, time of change of the content in ns, mode


class RecordFiles(Struct):
    """The files of the records in the project `home`, but for those of a moment only."""

    home: Path
    _settled: dict[str, Stamp] = field(default_factory=dict)  # folders of contents, as they were last

    def scan(self, known: Iterable[str]) -> dict[str, dict[str, Stamp]]:
        """The stamps of the files, by their paths below the project, by folders. No link is followed.

        `known` are folders that are looked for; one that is gone has no files. A folder of contents in which
        nothing was made or removed since the last scan is left out.
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
        """Return whether a folder is as it was last; how it is now is kept."""
        with suppress(FileNotFoundError):
            now = stamp_of(os.lstat(f"{self.home}/{base}"))
            before = self._settled.get(base)
            self._settled[base] = now
            return before == now
        return False


def _look_into(home: Path, base: str) -> tuple[dict[str, Stamp], list[str]]:
    """The stamps of the files in one folder, and the folders in it."""
    files: dict[str, Stamp] = {}
    folders: list[str] = []
    with suppress(OSError), _opened(home / base) as entries:
        for entry in entries:
            name = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                folders += [f"{name}/"] if name != SEARCH_FOLDER else []
            elif entry.is_file(follow_symlinks=False) and not _comes_and_goes(entry.name):
                with suppress(FileNotFoundError):
                    files[name] = stamp_of(entry.stat(follow_symlinks=False))
    return files, folders


def _opened(folder: Path) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
    """Open a directory of ours and list it, also where a command removed our rights to it. Raises OSError."""
    try:
        return os.scandir(folder)
    except PermissionError:
        folder.chmod(0o700)
        return os.scandir(folder)


def _comes_and_goes(name: str) -> bool:
    """Return whether a file is of a moment only: a lock, a snapshot before a command, a cache, one being
    written.
    """
    return name.endswith((".lock", ".look", ".stamps", ".tmp")) or name.rpartition(".")[2].isdigit()


def stamp_of(found: os.stat_result) -> Stamp:
    """The stamp of a file by what `os.lstat` says of it."""
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode)

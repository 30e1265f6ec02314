"""Restore the transcripts of a project after makeroom was killed while it ran commands without a sandbox.

The killed process left its spare copy (spare_copy.py) with a mark that a command was running.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from .codec import BadLine, decode_line
from .errors import StoreError
from .file_states import RECORD_FOLDERS
from .session_lock import RECORDS_FOLDER, ensure_private_folder, lock_holder
from .spare_copy import Restored, SpareCopy, is_ours, lock_folder
from .spare_files import SpareFile
from .storage.disk import DISK, opened_fd, project_key, read_pieces, replace_and_open, set_own_mode


def recover_transcripts(home: Path, places: Iterable[Path]) -> Restored:
    """Restore the transcripts that commands changed before the process that ran them was killed."""
    back: list[str] = []
    lost: list[str] = []
    for folder in [each for place in places for each in _folders_in(place)]:
        is_here = folder.name.startswith(project_key(home))
        with suppress(OSError):
            # An abandoned copy of another project is removed after a month.
            if not is_here and time.time() - folder.stat().st_mtime < 30 * 86_400.0:
                continue
            copy = SpareCopy(home, folder, lock_folder(folder))
            if is_here and (folder / "running").exists():
                copy.index = _read_index(folder / "index")
                restored = copy.restore()
                back += [*restored.files, *_recover_live(copy)]
                lost += restored.lost
            copy.close()
    return Restored(tuple(back), tuple(lost))


def _recover_live(copy: SpareCopy) -> Iterator[str]:
    """Restore the transcripts that the killed process wrote to, if their copies contain more.

    Yields their paths below the project.
    """
    files = copy.place / "copies" / RECORDS_FOLDER
    for lock in (copy.home / RECORDS_FOLDER).glob("*.lock"):
        with suppress(OSError):
            set_own_mode(lock, 0o600)  # otherwise it could not be acquired
    indexed = copy.index.get(f"{RECORDS_FOLDER}/", {})
    for kept in [path for path in files.glob("*.jsonl") if f"{RECORDS_FOLDER}/{path.name}" not in indexed]:
        path = copy.home / RECORDS_FOLDER / kept.name
        with suppress(OSError, StoreError):
            ensure_private_folder(path.parent)
            is_there = path.is_file() and not path.is_symlink()
            if is_there:
                set_own_mode(path, 0o600)
            good = _whole_records_size(kept)
            if lock_holder(path) is not None or good <= (_whole_records_size(path) if is_there else 0):
                continue
            if is_there:
                path.replace(path.with_suffix(".damaged"))
            with opened_fd(kept, os.O_RDONLY) as source:
                os.close(replace_and_open(path, read_pieces(source, 0, good), DISK, path.parent)[0])
            yield f"{RECORDS_FOLDER}/{kept.name}"


def _whole_records_size(path: Path) -> int:
    """Return the size in bytes of the valid lines at the beginning of a transcript."""
    size = 0
    with path.open("rb") as file:
        for line in file:
            try:
                decode_line(line)
            except BadLine:
                break
            size += len(line)
    return size


def _read_index(path: Path) -> dict[str, dict[str, SpareFile]]:
    """Read the index that a process wrote; invalid lines are skipped."""
    index: dict[str, dict[str, SpareFile]] = {}
    with suppress(OSError):
        for line in path.read_bytes().splitlines():
            with suppress(ValueError, TypeError):
                name, *about = json.loads(line)
                folder = index.setdefault(name[: name.rindex("/") + 1], {})
                folder.pop(name, None)
                if about and name.startswith(RECORD_FOLDERS) and ".." not in name.split("/"):
                    stamp, size, checksum, linked = about
                    folder[name] = SpareFile(tuple(stamp), size=size, checksum=checksum, linked=linked)
    return index


def _folders_in(place: Path) -> list[Path]:
    """Return the spare copies in a directory, or [] if others can write to it."""
    with suppress(OSError):
        if is_ours(place):
            return [path for path in place.iterdir() if path.is_dir() and not path.is_symlink()]
    return []

"""A spare copy of a project's records, for where no wall keeps commands away from them.

Commands run in the project, and so do `sed -i` over a recursive search and `git clean -fdx`. Before one the
copy takes over what is there (`adopt`), after it what was changed or removed is put back (`restore`); what
only grew is left. The copy lies outside of the project, belongs to one process and goes with it. Where that
is killed while a command runs, the next one in the project puts back what is needed (recovery.py).

A hard link keeps a file that is removed or replaced; it costs nothing, and other processes that have the file
open go on with the same one. A file that is changed in place needs a true copy. There is none of the contents
of checkpoints, of which there are thousands, which no search finds a word in, and which are checked when they
are read; and none beyond MAX_COPIED_BYTES. Of the records that this process writes to, the journal keeps the
copies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from .errors import StoreError
from .file_states import WRITTEN_ONCE, RecordFiles, Stamp
from .spare_files import SpareFile, SpareFiles
from .storage.disk import append_line, make_private_folders

MAX_NAMED_FILES = 3  # in a line about what was put back
MAX_COPIED_BYTES = 256 << 20  # of older files there are hard links at best


class Restored(Struct, frozen=True):
    """The files that were restored, and those that could not be; paths below the project."""

    files: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Describe the files, a line for each kind; empty where there are none."""
        ends = {self.files: "put back as before", self.lost: "there is no whole copy to put back"}
        return [
            f"{_named(names)} changed or removed by a command: {end}" for names, end in ends.items() if names
        ]


class SpareCopy:
    """The copy, in the private folder `place`, of the records in the project `home`.

    The methods block on the disk. One call at a time.

    index      the files that are kept, by their paths below the project, by folders
    uncovered  the files that could not be kept: too much for MAX_COPIED_BYTES, or the disk is full
    """

    def __init__(self, home: Path, place: Path, lock: int) -> None:
        self.home = home
        self.place = place
        self.lock = lock
        self.index: dict[str, dict[str, SpareFile]] = {}
        self.uncovered: set[str] = set()
        self.files = SpareFiles(home, place)
        self._records = RecordFiles(home)
        self._copied_bytes = 0
        self._lines: list[bytes] = []  # of the index, for after a crash

    def path_of(self, name: str) -> Path:
        """Return the place of a file's copy; its directory is made. Raises OSError."""
        return self.files.path_of(name)

    def newest_texts(self) -> list[str]:
        """The records and outputs that are kept, the last changed first."""
        folders = (kept for base, kept in self.index.items() if not base.startswith(WRITTEN_ONCE))
        texts = [item for kept in folders for item in kept.items() if item[0].endswith((".jsonl", ".txt"))]
        return [name for name, _ in sorted(texts, key=lambda item: -item[1].stamp[2])]

    def begin(self) -> None:
        """A command is about to run: after a crash from now on, what it changed is put back."""
        with suppress(OSError):
            (self.place / "running").touch(0o600)

    def end(self) -> None:
        """Remove the mark of running commands, after `restore` was called."""
        (self.place / "running").unlink(missing_ok=True)

    def adopt(self, live: Collection[str] = ()) -> None:
        """Bring the copy up to date; `live` are the records that this process writes to."""
        scanned = self._records.scan(self.index)
        new = list[tuple[str, Stamp]]()
        for base, found in scanned.items():
            kept = self.index.setdefault(base, {})
            for name in [name for name in kept if name not in found or name in live]:
                self._forget(name, is_kept_otherwise=name in live)
            new += (
                (name, now)
                for name, now in found.items()
                if name not in live and _is_new(kept.get(name), now)
            )
        self.uncovered &= {name for found in scanned.values() for name in found}
        for name, now in sorted(new, key=lambda item: -item[1][2]):  # the last changed first
            self._take(name, now)
        self._write_lines()

    def _take(self, name: str, now: Stamp) -> None:
        """Keep a file as it is now, by a hard link, a copy, or both."""
        known = self.index[_folder_of(name)].get(name)
        linked = known is not None and known.linked and known.stamp[0] == now[0]
        linked = linked or self.files.link(name)
        more = now[1] - (known.size if known and known.checksum is not None else 0)
        is_copied = self._copied_bytes + more <= MAX_COPIED_BYTES and not (
            linked and name.startswith(WRITTEN_ONCE)
        )
        try:
            if is_copied:
                kept = self.files.copy(name, known, linked)
            else:
                kept = self.files.without_copy(name, linked)
        except OSError:
            self._forget(name)
            self.uncovered.add(name)
        else:
            self._remember(name, kept)

    def restore(self, live: Collection[str] = ()) -> Restored:
        """Put back what is not as it was; a file that only grew is left as it is."""
        back = list[str]()
        lost = list[str]()
        for base, found in self._records.scan(self.index).items():
            for name, spare in list(self.index.get(base, {}).items()):
                if name in live or found.get(name) == spare.stamp:
                    continue
                now = self.files.stamp_if_whole(name, spare) if name in found else None
                if now is None:
                    try:
                        now = self.files.put_back(name, spare)
                        back.append(name)
                    except (OSError, StoreError):
                        lost.append(name)
                        continue
                self._remember(name, replace(spare, stamp=now))
        self._write_lines()
        return Restored(tuple(back), tuple(lost))

    def close(self) -> None:
        """Remove the copy, and the folder that it lies in where there is no other one."""
        shutil.rmtree(self.place, ignore_errors=True)
        os.close(self.lock)
        with suppress(OSError):
            self.place.parent.rmdir()

    def _remember(self, name: str, spare: SpareFile) -> None:
        kept = self.index.setdefault(_folder_of(name), {})
        self._copied_bytes += _copied(spare) - _copied(kept.get(name))
        kept[name] = spare
        self._note([name, spare.stamp, spare.size, spare.checksum, spare.linked])

    def _forget(self, name: str, is_kept_otherwise: bool = False) -> None:
        spare = self.index[_folder_of(name)].pop(name, None)
        if spare is not None:
            self._copied_bytes -= _copied(spare)
            self._note([name])
            if not is_kept_otherwise:  # the journal's copy lies in the same place
                self.files.drop(name)

    def _note(self, line: list[object]) -> None:
        self._lines.append(json.dumps(line).encode())

    def _write_lines(self) -> None:
        if self._lines:
            with suppress(OSError):
                append_line(self.place / "index", b"\n".join(self._lines))
            self._lines.clear()


def _folder_of(name: str) -> str:
    return name[: name.rindex("/") + 1]


def _copied(spare: SpareFile | None) -> int:
    return spare.size if spare is not None and spare.checksum is not None else 0


def _is_new(known: SpareFile | None, now: Stamp) -> bool:
    return known is None or (known.stamp, known.size) != (now, now[1])


def make_spare_copy(home: Path, places: Iterable[Path]) -> SpareCopy | None:
    """An empty copy in the first of `places` that is outside of the project and can be written to."""
    for place in places:
        if place.resolve().is_relative_to(home):
            continue
        with suppress(OSError):
            make_private_folders(place)
            if not is_ours(place):
                continue
            folder = place / f"{project_key(home)}-{os.getpid()}-{time.monotonic_ns():x}"
            folder.mkdir(0o700)
            return SpareCopy(home, folder, lock_folder(folder))
    return None


def is_ours(place: Path) -> bool:
    """Return whether nobody else can write to a folder: what is in it is written to the project.

    Raises OSError.
    """
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _named(names: tuple[str, ...]) -> str:
    """Some of the names, how many more, and "was" or "were"."""
    some = ", ".join(names[:MAX_NAMED_FILES])
    more = len(names) - MAX_NAMED_FILES
    return f"{some}{f' and {more} more' if more > 0 else ''} {'was' if len(names) == 1 else 'were'}"


def lock_folder(folder: Path) -> int:
    """Lock a copy's folder for as long as this process lives. Raises OSError where another one holds it."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd


def project_key(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]

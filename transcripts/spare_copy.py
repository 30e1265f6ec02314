"""A spare copy of a project's transcripts and stored outputs, used when no sandbox hides them from commands.

Commands run in the project, including `sed -i` over a recursive search and `git clean -fdx`. Before a command
the copy is brought up to date (`adopt`); afterwards changed and removed files are restored (`restore`), and
files that only grew are left alone. The copy is outside the project and belongs to one process, which removes
it on exit. If that process is killed while a command runs, the next one in the project restores the files
(recovery.py).

A hard link preserves a file that is removed or replaced. It costs nothing, and other processes that have the
file open continue with the same file. A file that is changed in place needs a real copy. Two kinds of files
are not copied: the contents of checkpoints, of which there are thousands, which no text search matches and
which are verified when they are read, and files beyond MAX_COPIED_BYTES. The journal keeps the copies of the
transcripts that this process writes to.
"""

from __future__ import annotations

import fcntl
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
from .storage.disk import append_line, make_private_folders, project_key

MAX_NAMED_FILES = 3  # in a line about restored files
MAX_COPIED_BYTES = 256 << 20  # older files have at most a hard link


class Restored(Struct, frozen=True):
    """The files that were restored, and those that could not be; paths below the project."""

    files: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Describe the files, one line for each kind; [] if there are none."""
        ends = {self.files: "restored", self.lost: "cannot restore without an intact copy"}
        return [
            f"{_named(names)} changed or removed by a command: {end}" for names, end in ends.items() if names
        ]


class SpareCopy:
    """The spare copy of the project `home` in the private directory `place`.

    The methods block on the disk and must not be called concurrently.

    index      directory -> path -> the kept file; paths below the project
    uncovered  the files that could not be kept: MAX_COPIED_BYTES is exceeded, or the disk is full
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

    def newest_texts(self) -> list[str]:
        """Return the transcripts and outputs that are kept, most recently changed first."""
        folders = (kept for base, kept in self.index.items() if not base.startswith(WRITTEN_ONCE))
        texts = [item for kept in folders for item in kept.items() if item[0].endswith((".jsonl", ".txt"))]
        return [name for name, _ in sorted(texts, key=lambda item: -item[1].stamp[2])]

    def begin(self) -> None:
        """Mark that a command is running, so that its changes are undone even after a crash."""
        with suppress(OSError):
            (self.place / "running").touch(0o600)

    def end(self) -> None:
        """Remove the mark of running commands, after `restore` was called."""
        (self.place / "running").unlink(missing_ok=True)

    def adopt(self, live: Collection[str] = ()) -> None:
        """Bring the copy up to date; `live` are the transcripts that this process writes to."""
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
        for name, now in sorted(new, key=lambda item: -item[1][2]):  # most recently changed first
            self._take(name, now)
        self._write_lines()

    def _take(self, name: str, now: Stamp) -> None:
        """Keep the current state of a file by a hard link, a copy, or both."""
        earlier = self.index[_folder_of(name)].get(name)
        linked = earlier is not None and earlier.linked and earlier.stamp[0] == now[0]
        linked = linked or self.files.link(name)
        more = now[1] - (earlier.size if earlier and earlier.checksum is not None else 0)
        is_copied = self._copied_bytes + more <= MAX_COPIED_BYTES and not (
            linked and name.startswith(WRITTEN_ONCE)
        )
        try:
            if is_copied:
                kept = self.files.copy(name, earlier, linked)
            else:
                kept = self.files.without_copy(name, linked)
        except OSError:
            self._forget(name)
            self.uncovered.add(name)
        else:
            self._remember(name, kept)

    def restore(self, live: Collection[str] = ()) -> Restored:
        """Restore files that were changed or removed; files that only grew are left alone."""
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
        """Remove the copy, and its parent directory if that is empty."""
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
            if not is_kept_otherwise:  # the journal's copy has the same path
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
    """Create an empty copy in the first of `places` that is outside the project and writable; else None."""
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
    """Return whether only we can write to a directory, whose contents are restored to the project.

    Raises OSError.
    """
    found = place.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _named(names: tuple[str, ...]) -> str:
    """Return some of the names, the number of others, and "was" or "were"."""
    some = ", ".join(names[:MAX_NAMED_FILES])
    more = len(names) - MAX_NAMED_FILES
    return f"{some}{f' and {more} more' if more > 0 else ''} {'was' if len(names) == 1 else 'were'}"


def lock_folder(folder: Path) -> int:
    """Lock a copy's directory until this process ends. Raises OSError if another process holds the lock."""
    fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd

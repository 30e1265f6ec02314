"""Keep the records of a project from the commands that run in it, where no wall hides them.

What a command did to them is undone after it, and the model is told; so it is where the command read the
record of this very conversation, which holds the words of the command and is found by every recursive search.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from .file_states import RECORD_FOLDERS
from .session_lock import RECORDS_FOLDER, lock_holder
from .spare_copy import Restored, SpareCopy, make_spare_copy
from .store import Store

READ_MARK_NS = 1_000_000_000  # by which a file that nobody read was read before its last change
MAX_MARKED_FILES = 200  # whose times of reading are looked at
READ_NOTE = (
    "[this command read {path}: there stand the words of this conversation, the command's own too. Leave "
    + " and ".join(RECORD_FOLDERS)
    + " out of searches (grep --exclude-dir=NAME, find -name NAME -prune)]"
)


class RecordsGuard(Struct):
    """Puts back what commands change in the records of the project `home`.

    `places` are folders for the copy that this takes, the preferred first; `tell` takes one line for the
    person. `before` and `after` stand around each command; `busy` tells whether others go on running.
    """

    home: Path
    places: tuple[Path, ...]
    tell: Callable[[str], None]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stores: list[Store] = field(default_factory=list)
    _copy: SpareCopy | None = None
    _is_tried: bool = False
    _running: int = 0  # commands between `before` and `after`
    _unchecked: bool = False  # whether a command may have gone on after the last look
    _marked: list[Path] = field(default_factory=list)  # as not read
    _notes: list[str] = field(default_factory=list)

    def watch(self, store: Store) -> None:
        """A session's record is written from now on by this process."""
        self._stores.append(store)

    async def before(self, busy: bool) -> None:
        """A command is about to run."""
        async with self._turn:
            if (copy := await asyncio.to_thread(self._made)) is None:
                return
            for store in self._stores:
                with suppress(OSError):
                    store.keep_spare(copy.path_of(self._name(store)))
            if self._running or busy or self._unchecked:
                self._tell_of(await asyncio.to_thread(copy.restore, self._live()))
            await asyncio.to_thread(copy.adopt, self._live())
            copy.begin()
            self._running += 1
            self._mark_unread(copy)

    async def after(self, busy: bool) -> None:
        """A command has ended, or was begun in the background; with `busy` it may also go on for a moment."""
        self._running -= self._running > 0
        await self.later(busy)
        self._notes += self._reading_notes()

    async def later(self, busy: bool) -> None:
        """A command in the background has ended: put back what is not as it was."""
        async with self._turn:
            if self._copy is None:
                return
            restored = await asyncio.to_thread(self._copy.restore, self._live())
            own = tuple(self._name(store) for store in self._stores if store.put_back())
            self._unchecked = busy or self._running > 0
            if not self._unchecked:
                self._copy.end()
            self._tell_of(Restored((*own, *restored.files), restored.lost))

    def take_notes(self) -> tuple[str, ...]:
        """Return the notes for the model about the commands so far, a line each."""
        notes = tuple(self._notes)
        self._notes = []
        return notes

    def close(self) -> None:
        """Put back what is to be; no command runs any more. The copy is removed."""
        if self._copy is not None:
            if self._unchecked:
                self._tell_of(self._copy.restore(self._live()))
            self._copy.close()
            self._copy = None

    def _made(self) -> SpareCopy | None:
        """The copy; None, told once, where there is no place for one."""
        if not self._is_tried:
            self._is_tried = True
            self._copy = make_spare_copy(self.home, self.places)
            if self._copy is None:
                where = " and ".join(map(str, self.places)) or "no folder"
                folders = " and ".join(RECORD_FOLDERS)
                self.tell(f"what commands change in {folders} cannot be undone: {where} cannot be written to")
        return self._copy

    def _name(self, store: Store) -> str:
        return f"{RECORDS_FOLDER}/{store.path.name}"

    def _live(self) -> frozenset[str]:
        return frozenset(self._name(store) for store in self._stores if store.is_written_to)

    def _tell_of(self, restored: Restored) -> None:
        for line in restored.lines():
            self.tell(line)
            self._notes.append(f"[{line}: these are the program's own records, leave them alone]")

    def _mark_unread(self, copy: SpareCopy) -> None:
        """Set the times of reading so that the next read changes them, where the file system keeps them."""
        self._marked.clear()
        for name in (*self._live(), *copy.newest_texts()[:MAX_MARKED_FILES]):
            with suppress(OSError):
                path = self.home / name
                now = path.stat()
                unread = (now.st_mtime_ns - READ_MARK_NS, now.st_mtime_ns)
                os.utime(path, ns=unread, follow_symlinks=False)
                self._marked.append(path)

    def _reading_notes(self) -> list[str]:
        """Return the notes about transcripts that were read; none where another session may have done so."""
        locks = (self.home / RECORDS_FOLDER).glob("*.lock")
        others = {f"{RECORDS_FOLDER}/{path.stem}.jsonl" for path in locks} - self._live()
        if any(lock_holder(self.home / name) is not None for name in others):
            return []
        for path in self._marked:
            with suppress(OSError):
                now = path.stat()
                if now.st_atime_ns > now.st_mtime_ns - READ_MARK_NS:
                    return [READ_NOTE.format(path=path.relative_to(self.home))]
        return []

"""Protect the transcripts of a project from commands that run in it, when no sandbox hides them.

After each command its changes to them are undone and the model is notified. The model is also notified if a
command read the transcript of this conversation: it contains the command itself, so that every recursive
search finds it.
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

READ_MARK_NS = 1_000_000_000  # the atime of an unread file is set this long before its mtime
READ_NOTE = (
    "[this command read {path}, the transcript of this conversation, which contains the command itself. "
    f"Exclude {' and '.join(RECORD_FOLDERS)} from searches "
    "(grep --exclude-dir=NAME, find -name NAME -prune)]"
)


class RecordsGuard(Struct):
    """Restores transcripts and stored outputs of the project `home` that commands change.

    `places` are directories for the spare copy, in order of preference; `tell` shows one line to the user.
    Call `before` and `after` around each command, with `busy` if other commands keep running.
    """

    home: Path
    places: tuple[Path, ...]
    tell: Callable[[str], None]
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _stores: list[Store] = field(default_factory=list)
    _copy: SpareCopy | None = None
    _is_tried: bool = False
    _running: int = 0  # commands between `before` and `after`
    _unchecked: bool = False  # a command may have continued after the last check
    _marked: list[Path] = field(default_factory=list)  # files whose atime marks them as unread
    _notes: list[str] = field(default_factory=list)

    def watch(self, store: Store) -> None:
        """Protect the transcript that this process writes through `store` as well."""
        self._stores.append(store)

    async def before(self, busy: bool) -> None:
        """Bring the spare copy up to date before a command runs."""
        async with self._turn:
            if (copy := await asyncio.to_thread(self._made)) is None:
                return
            for store in self._stores:
                with suppress(OSError):
                    store.keep_spare(copy.files.path_of(self._name(store)))
            if self._running or busy or self._unchecked:
                self._tell_of(await asyncio.to_thread(copy.restore, self._live()))
            await asyncio.to_thread(copy.adopt, self._live())
            copy.begin()
            self._running += 1
            self._mark_unread(copy)

    async def after(self, busy: bool) -> None:
        """Restore changed files after a command has ended or moved to the background.

        With `busy`, commands may still be running, so that the next call checks again.
        """
        self._running -= self._running > 0
        await self.later(busy)
        self._notes += self._reading_notes()

    async def later(self, busy: bool) -> None:
        """Restore changed files after a background command has ended."""
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
        """Return the notes for the model about the commands so far, one line each, and clear them."""
        notes = tuple(self._notes)
        self._notes = []
        return notes

    def close(self) -> None:
        """Restore changed files a last time, when no command is running, and remove the copy."""
        if self._copy is not None:
            if self._unchecked:
                self._tell_of(self._copy.restore(self._live()))
            self._copy.close()
            self._copy = None

    def _made(self) -> SpareCopy | None:
        """Return the copy; None, with one warning, if there is no place for it."""
        if not self._is_tried:
            self._is_tried = True
            self._copy = make_spare_copy(self.home, self.places)
            if self._copy is None:
                where = " or ".join(map(str, self.places)) or "any directory"
                folders = " and ".join(RECORD_FOLDERS)
                self.tell(f"cannot protect {folders} from commands: cannot write a copy to {where}")
        return self._copy

    def _name(self, store: Store) -> str:
        return f"{RECORDS_FOLDER}/{store.path.name}"

    def _live(self) -> frozenset[str]:
        return frozenset(self._name(store) for store in self._stores if store.is_written_to)

    def _tell_of(self, restored: Restored) -> None:
        for line in restored.lines():
            self.tell(line)
            self._notes.append(f"[{line}. These files belong to makeroom: do not modify them]")

    def _mark_unread(self, copy: SpareCopy) -> None:
        """Set the atime of transcripts so that the next read changes it, if the file system records it."""
        self._marked.clear()
        for name in (*self._live(), *copy.newest_texts()[:200]):  # whose atime is set
            with suppress(OSError):
                path = self.home / name
                now = path.stat()
                unread = (now.st_mtime_ns - READ_MARK_NS, now.st_mtime_ns)
                os.utime(path, ns=unread, follow_symlinks=False)
                self._marked.append(path)

    def _reading_notes(self) -> list[str]:
        """Return notes about transcripts that were read; none if another session may have read them."""
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

"""Sessions on disk: which folder they are in, making one, opening one again, copying one.

Without a record (`--no-session`) everything goes to a temporary folder that is removed at the end.
"""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from agent.checkpoints.recorder import Checkpoints, inherit
from agent.errors import UsageError
from transcripts.codec import VERSION, BadLine
from transcripts.facts import Fact
from transcripts.fold import Folded, fold
from transcripts.importers import load
from transcripts.lazy_results import LazyResults, whole
from transcripts.originals import Originals
from transcripts.record_errors import RecordTooNew, StoreError
from transcripts.session_lock import RECORDS_FOLDER
from transcripts.store import (
    LoadedRecord,
    SessionSummary,
    Store,
    create,
    new_sid,
    newest,
    read_record,
    resolve,
    resume,
    sessions,
)

from .session import BlockCounter, Session

OUTPUTS = Path(".task_outputs") / "tool-results"
Begun = tuple[str, Store, Folded, LazyResults]


@dataclass(slots=True)
class SessionRepository:
    """The records of a project. `tell` takes one line when something is wrong with the disk."""

    project: Path
    keep: bool
    tell: Callable[[str], None]
    _temporary: list[Path] = field(default_factory=list)

    @property
    def home(self) -> Path:
        """The folder that holds .transcripts and .task_outputs."""
        if self.keep:
            return self.project
        if not self._temporary:
            self._temporary.append(Path(tempfile.mkdtemp(prefix="makeroom-")).resolve())
        return self._temporary[0]

    @property
    def outputs(self) -> Path:
        return self.home / OUTPUTS

    def new(self, now: float) -> Begun:
        """A session with no facts yet; its file is made with the first words."""
        sid = new_sid(now, secrets.token_hex(2))
        return sid, create(self.home, sid, self.tell), Folded(), LazyResults()

    def reopen(self, path: Path) -> Begun:
        """A recorded session, to be gone on with. Raises StoreError."""
        store, loaded = resume(path, self.tell)
        self._tell_damage(loaded)
        return loaded.sid, store, fold(loaded.facts), loaded.shelf

    def fork(self, path: Path, now: float) -> Begun:
        """A new session that begins with the facts of a recorded one, which another process may be writing.

        Raises StoreError.
        """
        loaded = read_record(path)
        if loaded.version > VERSION:
            raise RecordTooNew(loaded.sid, loaded.version)
        begun = self._begun(loaded.facts, now)
        self.inherit(loaded.sid, begun[0])
        return begun

    def inherit(self, old: str, new: str) -> None:
        """Give a copy the checkpoints of its original, so that going back reaches the files as well."""
        if not self.keep:
            return
        try:
            inherit(self.project, old, new)
        except OSError as error:
            self.tell(f"the copy cannot take files back to before it was made: {error}")

    def copy(self, folded: Folded, now: float, deferred: LazyResults) -> Begun:
        """A new session that begins with the facts of another."""
        return self._begun(with_deferred_results(folded, deferred).facts, now)

    def adopt(self, path: Path, now: float, count: BlockCounter) -> Begun:
        """A new session that begins with a recording: of another agent, or of ours in another place.

        Raises UsageError.
        """
        try:
            data = path.read_bytes()
            imported = load(data, count.blocks)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot go on with {path}: {error}") from error
        return self.copy(fold(imported.facts), now, LazyResults())

    def newest(self) -> Path:
        """The newest session of this folder with a prompt in it. Raises UsageError."""
        path = newest(self.home)
        if path is None:
            raise UsageError("there is no session in this folder to continue; start one without --continue")
        return path

    def named(self, wanted: str) -> Path:
        """The session that an id, the beginning of one, a name, or its file stands for. Raises UsageError."""
        if (path := self._own_file(wanted)) is not None:
            return path
        try:
            return resolve(self.home, wanted)
        except StoreError as error:
            raise UsageError(str(error)) from error

    def listed(self) -> list[SessionSummary]:
        """The sessions with a prompt in them, newest first. Blocks on the disk."""
        return [one for one in sessions(self.home) if one.turns]

    def holder_of(self, name: str, but: str) -> str | None:
        """The id of a session other than `but` that is found by this name, in any case."""
        wanted = name.casefold()
        others = (one for one in sessions(self.home) if one.sid != but)
        return next((one.sid for one in others if wanted in (one.name.casefold(), one.sid)), None)

    def copy_name(self, name: str) -> str:
        """A name for a copy of the session of this name that no other session has."""
        name = re.sub(r" \(copy(?: \d+)?\)$", "", name)
        names = (f"{name} (copy)" if number == 1 else f"{name} (copy {number})" for number in count(1))
        taken = {one.name.casefold() for one in sessions(self.home)}
        return next(each for each in names if each.casefold() not in taken)

    def is_recording(self, wanted: str) -> bool:
        """Whether a file was named that is no session of this folder: a copy of it is gone on with."""
        path = Path(wanted).expanduser()
        if "/" not in wanted and path.suffix not in (".jsonl", ".traj", ".json"):
            return False
        return path.is_file() and self._own_file(wanted) is None

    def _own_file(self, wanted: str) -> Path | None:
        """The file of a session of this folder, if one is named by its path."""
        path = Path(wanted).expanduser()
        real = self.home / RECORDS_FOLDER / path.name
        is_own = path.suffix == ".jsonl" and real.is_file() and path.exists() and path.samefile(real)
        return real if is_own else None

    def make_whole(self, session: Session) -> None:
        """Put what was left in the file back in its place: before something is given back."""
        if session.shelf:
            session.folded = with_deferred_results(session.folded, session.shelf)
            session.shelf = LazyResults()

    def checkpoints(self, session: Session) -> Checkpoints | None:
        """Who keeps the files of the project as they were; nobody without a record."""
        if not self.keep:
            return None
        return Checkpoints(self.project, session.sid, lambda: session.folded.last_seq)

    def close(self) -> None:
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)

    def _begun(self, facts: list[Fact], now: float) -> Begun:
        sid, store, fresh, _ = self.new(now)
        for fact in facts:
            store.append(fact)
            fresh.apply(fact)
        store.sync()
        return sid, store, fresh, LazyResults()

    def _tell_damage(self, loaded: LoadedRecord) -> None:
        if loaded.torn:
            self.tell(f"the last record was cut off ({loaded.torn} bytes): kept aside in {loaded.sid}.torn")
        if loaded.bad:
            self.tell(
                f"{len(loaded.bad)} damaged records are skipped; the first is line {loaded.bad[0].line}"
            )


def with_deferred_results(folded: Folded, deferred: LazyResults) -> Folded:
    """The session with everything in place. Raises StoreError where the record has changed under it."""
    try:
        return whole(folded, deferred)
    except (OSError, BadLine) as error:
        raise StoreError(
            f"{deferred.path} was changed since it was read ({error}): resume it anew"
        ) from error


@dataclass(frozen=True, slots=True)
class SessionLookup:
    """The record of a session in use, for the recall tool: whatever it holds at the moment of asking."""

    session: Session
    outputs: Path

    def original(self, id: str) -> str:
        """See tools.base.Library."""
        return self._recall.original(id)

    def find(self, words: str) -> list[tuple[str, str]]:
        """See tools.base.Library."""
        return self._recall.find(words)

    @property
    def _recall(self) -> Originals:
        return Originals(self.session.folded, self.outputs, self.session.shelf)

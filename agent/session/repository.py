"""The sessions of a project on disk: make one, open one again, copy one, find one.

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

from agent.checkpoints.change_log import copy_log
from agent.checkpoints.recorder import Checkpoints
from agent.errors import UsageError
from transcripts.codec import FORMAT_VERSION, BadLine
from transcripts.facts import Fact
from transcripts.fold import Folded, fold
from transcripts.importers import import_session
from transcripts.listing import SessionSummary, find_session, newest_session, recorded_sessions
from transcripts.load import LazyResults, LoadedRecord, fetch_everything, read_record
from transcripts.masking import SecretMasks
from transcripts.originals import Originals
from transcripts.record_errors import RecordTooNew, StoreError
from transcripts.session_lock import RECORDS_FOLDER, new_sid
from transcripts.store import Store, create_store, resume_store

from .session import BlockCounter, Session

OUTPUTS_FOLDER = Path(".task_outputs") / "tool-results"
RECORDING_SUFFIXES = (".jsonl", ".traj", ".json")


@dataclass(frozen=True, slots=True)
class OpenedRecord:
    """A record that can be appended to, what its facts come to, and the results left in its file."""

    sid: str
    store: Store
    folded: Folded = field(default_factory=Folded)
    deferred: LazyResults = field(default_factory=LazyResults)


@dataclass(slots=True)
class SessionRepository:
    """The records of a project. `tell` takes one line when something is wrong with the disk.

    `masks` are values that no record may hold.
    """

    project: Path
    keep: bool
    tell: Callable[[str], None]
    masks: SecretMasks = field(default_factory=SecretMasks)
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
        return self.home / OUTPUTS_FOLDER

    def new(self, now: float) -> OpenedRecord:
        """A session with no facts yet; its file is made with the first fact."""
        sid = new_sid(now, secrets.token_hex(2))
        store = create_store(self.home, sid, self.tell)
        store.hide(self.masks)
        return OpenedRecord(sid, store)

    def reopen(self, path: Path) -> OpenedRecord:
        """A recorded session, to be continued. Raises StoreError."""
        store, loaded = resume_store(path, self.tell)
        store.hide(self.masks)
        self._tell_damage(loaded)
        return OpenedRecord(loaded.sid, store, fold(loaded.facts), loaded.lazy_results)

    def fork(self, path: Path, now: float) -> OpenedRecord:
        """A new session that begins with the facts of a recorded one, which another process may be writing.

        Raises StoreError.
        """
        loaded = read_record(path)
        if loaded.version > FORMAT_VERSION:
            raise RecordTooNew(loaded.sid, loaded.version)
        record = self._with_facts(loaded.facts, now)
        self.inherit(loaded.sid, record.sid)
        return record

    def copy(self, folded: Folded, now: float, deferred: LazyResults) -> OpenedRecord:
        """A new session that begins with the facts of another."""
        return self._with_facts(with_deferred_results(folded, deferred).facts, now)

    def adopt(self, path: Path, now: float, count: BlockCounter) -> OpenedRecord:
        """A new session that begins with a recording: of another agent, or of ours in another place.

        Raises UsageError.
        """
        try:
            imported = import_session(path.read_bytes(), count.blocks)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot go on with {path}: {error}") from error
        return self._with_facts(fold(imported.facts).facts, now)

    def _with_facts(self, facts: list[Fact], now: float) -> OpenedRecord:
        record = self.new(now)
        for fact in facts:
            record.store.append(fact)
            record.folded.apply(fact)
        record.store.sync()
        return record

    def inherit(self, original: str, copy: str) -> None:
        """Give a copy the checkpoints of its original, so that rewinding reaches the files as well."""
        if not self.keep:
            return
        try:
            copy_log(self.project, original, copy)
        except OSError as error:
            self.tell(f"the copy cannot take files back to before it was made: {error}")

    def newest(self) -> Path:
        """The newest session of this folder with a prompt in it. Raises UsageError."""
        path = newest_session(self.home)
        if path is None:
            raise UsageError("there is no session in this folder to continue; start one without --continue")
        return path

    def named(self, wanted: str) -> Path:
        """The session that an id, the beginning of one, a name, or its file stands for. Raises UsageError."""
        if (path := self._own_file(wanted)) is not None:
            return path
        try:
            return find_session(self.home, wanted)
        except StoreError as error:
            raise UsageError(str(error)) from error

    def listed(self) -> list[SessionSummary]:
        """The sessions with a prompt in them but for nested ones, newest first. Blocks on the disk."""
        return [one for one in recorded_sessions(self.home) if one.prompts and one.parent is None]

    def holder_of(self, name: str, but: str) -> str | None:
        """The id of a session other than `but` that is found by this name, in any case."""
        wanted = name.casefold()
        others = (one for one in recorded_sessions(self.home) if one.sid != but)
        return next((one.sid for one in others if wanted in (one.name.casefold(), one.sid)), None)

    def copy_name(self, name: str) -> str:
        """A name for a copy of the session of this name that no other session has."""
        name = re.sub(r" \(copy(?: \d+)?\)$", "", name)
        names = (f"{name} (copy)" if number == 1 else f"{name} (copy {number})" for number in count(1))
        taken = {one.name.casefold() for one in recorded_sessions(self.home)}
        return next(each for each in names if each.casefold() not in taken)

    def is_recording(self, wanted: str) -> bool:
        """Whether a file was named that is no session of this folder: a copy of it is continued."""
        path = Path(wanted).expanduser()
        if "/" not in wanted and path.suffix not in RECORDING_SUFFIXES:
            return False
        return path.is_file() and self._own_file(wanted) is None

    def _own_file(self, wanted: str) -> Path | None:
        """The file of a session of this folder, if one is named by its path."""
        path = Path(wanted).expanduser()
        real = self.home / RECORDS_FOLDER / path.name
        is_own = path.suffix == ".jsonl" and real.is_file() and path.exists() and path.samefile(real)
        return real if is_own else None

    def checkpoints(self, session: Session) -> Checkpoints | None:
        """The recorder of file checkpoints for a session; None without a record."""
        if not self.keep:
            return None
        return Checkpoints(self.project, session.sid, lambda: session.folded.last_seq)

    def close(self) -> None:
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)

    def _tell_damage(self, loaded: LoadedRecord) -> None:
        if torn := loaded.torn_size:
            self.tell(f"the last record was cut off ({torn} bytes): kept aside in {loaded.sid}.torn")
        if bad := loaded.damaged:
            self.tell(f"{len(bad)} damaged records are skipped; the first is line {bad[0].line}")


def load_deferred(session: Session) -> None:
    """Put the results that were left in the file back in their places: needed before edits are undone."""
    if session.deferred:
        session.folded = with_deferred_results(session.folded, session.deferred)
        session.deferred = LazyResults()


def with_deferred_results(folded: Folded, deferred: LazyResults) -> Folded:
    """The session with every result in place. Raises StoreError where the record has changed meanwhile."""
    try:
        return fetch_everything(folded, deferred)
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
        """See tools.base.RecordLookup."""
        return self._originals.original(id)

    def find(self, words: str) -> list[tuple[str, str]]:
        """See tools.base.RecordLookup."""
        return self._originals.find(words)

    @property
    def _originals(self) -> Originals:
        return Originals(self.session.folded, self.outputs, self.session.deferred)

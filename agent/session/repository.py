"""The sessions of a project on disk: make one, open one again, copy one, find one.

Without a record (`--no-session`) everything goes to a temporary folder that is removed at the end.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from agent.checkpoints import Checkpoints, copy_log
from agent.errors import UsageError
from compact import TokenCounter, load_counter
from transcripts import (
    FORK_TOPIC,
    RECORDS_FOLDER,
    Charge,
    Fact,
    LazyResults,
    LoadedTranscript,
    Opened,
    Originals,
    ProjectRecords,
    RecordsGuard,
    SessionSummary,
    Store,
    StoreError,
    Usage,
    create_store,
    fold,
    read_transcript,
    resume_store,
)
from transcripts.importers import MAX_RECORDING_BYTES, import_session
from transcripts.search import IndexThread
from transcripts.secrets import SecretMasks
from transcripts.storage import read_regular

from .session import CHARGE_TOPIC, Session

RECORDING_SUFFIXES = (".jsonl", ".traj", ".json")


class SessionRepository(Struct):
    """The records of a project. `tell` takes one line when something is wrong with the disk.

    `now` gives seconds since the epoch; `masks` are values that no record may hold; `guard` keeps the records
    from commands, where they can reach them; `first_sid` is the id of the first session to be made.
    """

    project: Path
    keep: bool
    tell: Callable[[str], None]
    counter: TokenCounter = field(default_factory=load_counter)
    now: Callable[[], float] = time.time
    masks: SecretMasks = field(default_factory=SecretMasks)
    guard: RecordsGuard | None = None
    indexing: IndexThread = field(default_factory=IndexThread)
    first_sid: str | None = None
    home: Path = Path()  # the folder that holds .transcripts and .task_outputs

    def __post_init__(self) -> None:
        self.home = self.project if self.keep else Path(tempfile.mkdtemp(prefix="makeroom-")).resolve()

    @property
    def records(self) -> ProjectRecords:
        return ProjectRecords(self.home)

    @property
    def outputs(self) -> Path:
        return self.records.outputs

    def new(self) -> Session:
        """A session with no facts yet; its file is made with the first fact."""
        return self._with_facts(())

    def reopen(self, path: Path) -> Session:
        """A recorded session, to be continued. Raises StoreError."""
        store, loaded = resume_store(path, self.tell)
        if torn := loaded.torn_size:
            self.tell(f"the last record was cut off ({torn} bytes): kept aside in {loaded.sid}.torn")
        if bad := loaded.damaged:
            self.tell(damaged_text(len(bad), bad[0].line))
        self._take(store)
        session = Session(store.sid, store, fold(loaded.facts), self.counter, self.now)
        session.deferred = loaded.lazy_results
        return session

    def fork(self, path: Path, at: int | None = None) -> Session:
        """A copy of a recorded session, up to the fact `at`. Raises StoreError, and UsageError without it."""
        loaded = read_transcript(path)
        loaded.require_known_format()
        return self._copy(loaded.sid, loaded.facts if at is None else _facts_up_to(loaded, at), at)

    def copy(self, session: Session) -> Session:
        """A copy of a session in use. Raises StoreError."""
        load_deferred(session)
        return _charged(self._copy(session.sid, session.folded.facts), session.folded.charges)

    def copy_for_agent(self, session: Session, about: Mapping[str, Any]) -> Session:
        """Copy a session in use for an agent, with `about` in its opening. Raises StoreError."""
        load_deferred(session)
        facts = list(session.folded.facts)
        at, opened = next((at, fact) for at, fact in enumerate(facts) if isinstance(fact, Opened))
        facts[at] = replace(opened, parent=session.sid, about={**opened.about, **about})
        return self._with_facts(facts)

    def adopt(self, path: Path) -> Session:
        """A new session that begins with a recording: another agent's, or ours. Raises UsageError."""
        try:
            imported = import_session(read_regular(path, MAX_RECORDING_BYTES), self.counter.blocks)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot go on with {path}: {error}") from error
        return self._with_facts(fold(imported.facts).facts)

    def _copy(self, original: str, facts: Sequence[Fact], at: int | None = None) -> Session:
        """A session with these facts, those up to `at`, and its original's checkpoints; its name differs."""
        session = self._with_facts(_of_a_user(facts))
        try:
            if self.keep:
                copy_log(self.project, original, session.sid)
        except OSError as error:
            self.tell(f"the copy cannot take files back to before it was made: {error}")
        session.add_metadata(FORK_TOPIC, {"of": original} if at is None else {"of": original, "at": at})
        if name := session.folded.name:
            session.add_metadata("name", {"name": self.copy_name(name)})
        return session

    def _with_facts(self, facts: Sequence[Fact]) -> Session:
        store = create_store(self.home, unused_sid(self), self.tell)
        self._take(store)
        for fact in facts:
            store.append(fact)
        store.sync()
        return Session(store.sid, store, fold(facts), self.counter, self.now)

    def _take(self, store: Store) -> None:
        store.hide(self.masks)
        if self.guard is not None:
            self.guard.watch(store)

    def newest(self) -> Path:
        """The newest session of this folder with a prompt in it. Raises UsageError."""
        listed = self.listed()
        if not listed:
            raise UsageError("there is no session in this folder to continue; start one without --continue")
        return listed[0].path

    def named(self, wanted: str) -> Path:
        """The session that an id, the beginning of one, a name, or its file stands for. Raises UsageError."""
        if (path := self._own_file(wanted)) is not None:
            return path
        try:
            return self.records.find(wanted)
        except StoreError as error:
            raise UsageError(str(error)) from error

    def listed(self) -> list[SessionSummary]:
        """The sessions with a prompt in them but for nested ones, newest first. Blocks on the disk."""
        return self.records.continuable()

    def holder_of(self, name: str, but: str) -> str | None:
        """The id of a session other than `but` that is found by this name, in any case."""
        others = (one for one in self.records.sessions() if one.sid != but)
        return next((one.sid for one in others if name.casefold() in (one.name.casefold(), one.sid)), None)

    def copy_name(self, name: str) -> str:
        """A name for a copy of the session of this name that no other session has."""
        name = re.sub(r" \(copy(?: \d+)?\)$", "", name)
        taken = {one.name.casefold() for one in self.records.sessions()}
        names = (f"{name} (copy)" if number == 1 else f"{name} (copy {number})" for number in count(1))
        return next(each for each in names if each.casefold() not in taken)

    def is_recording(self, wanted: str) -> bool:
        """Return whether a file was named that is no session of this folder: a copy of it is continued."""
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

    def originals(self, session: Session) -> Originals:
        """The record of a session in use as it is now, for the recall tool."""
        return Originals(
            session.folded,
            outputs=self.outputs,
            lazy_results=session.deferred,
            sid=session.sid,
            home=self.home,
            project=self.project,
        )

    def checkpoints(self, session: Session) -> Checkpoints | None:
        """The recorder of file checkpoints for a session; None without a record."""
        if not self.keep:
            return None
        return Checkpoints(self.project, sid=session.sid, seq=lambda: session.folded.last_seq)

    def close(self) -> None:
        """Remove the temporary folder and the copy of the records, where there are such."""
        if self.guard is not None:
            self.guard.close()
        self.indexing.end(wait=not self.keep)
        if not self.keep:
            shutil.rmtree(self.home, ignore_errors=True)


def _of_a_user(facts: Iterable[Fact]) -> list[Fact]:
    """The facts of a session that a person begins, also where they are of one that an agent worked in."""
    return [replace(fact, parent=None) if isinstance(fact, Opened) else fact for fact in facts]


def _charged(session: Session, charges: Sequence[Charge]) -> Session:
    """The session, with those charges of the one that it is a copy of that none of its facts tells."""
    told = Counter(session.folded.charges)
    for each in charges:
        if told[each]:
            told[each] -= 1
        elif each.usage != Usage():
            about = {"model": each.model, "usage": asdict(each.usage), "dollars": each.dollars}
            session.add_metadata(CHARGE_TOPIC, about)
    return session


def unused_sid(repository: SessionRepository) -> str | None:
    """The id that was asked for, once, then None. Raises UsageError where there is such a session."""
    wanted = repository.first_sid
    repository.first_sid = None
    if wanted is not None and repository.records.path_of(wanted).exists():
        raise UsageError(f"there is a session {wanted} already; --resume {wanted} goes on with it")
    return wanted


def _facts_up_to(loaded: LoadedTranscript, at: int) -> list[Fact]:
    """The facts of a record up to one of them. Raises UsageError where there is no such fact."""
    if all(fact.seq != at for fact in loaded.facts):
        last = loaded.facts[-1].seq if loaded.facts else 0
        raise UsageError(f"{loaded.sid} has no r{at}: its last is r{last}; makeroom recall finds moments")
    return [fact for fact in loaded.facts if fact.seq <= at]


def load_deferred(session: Session) -> None:
    """Put the results that were left in the file back in their places: needed before edits are undone.

    Raises StoreError where the record has changed meanwhile.
    """
    session.folded = session.deferred.complete(session.folded)
    session.deferred = LazyResults()


def damaged_text(count: int, line: int) -> str:
    """Describe the lines that cannot be read to the user, the first of them in `line`."""
    if count == 1:
        return f"1 damaged record is skipped: line {line}"
    return f"{count:,} damaged records are skipped; the first is line {line}"

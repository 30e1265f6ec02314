"""The sessions of a project on disk: create, reopen, copy and find them.

With `--no-session` everything is written to a temporary directory, which is removed at the end.
"""

from __future__ import annotations

import asyncio
import gc
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from agent.checkpoints import Checkpoints, copy_log
from agent.errors import UsageError
from compact import TokenCounter
from transcripts import (
    RECORDS_FOLDER,
    Block,
    ChannelBlock,
    Fact,
    LoadedTranscript,
    Metadata,
    Opened,
    ProjectRecords,
    RecordsGuard,
    Reply,
    Result,
    Rewound,
    SessionFiles,
    Store,
    StoreError,
    TextBlock,
    Usage,
    User,
    fold,
    read_transcript,
    search,
    without_garbage_collection,
)
from transcripts.search import Originals
from transcripts.secrets import SecretMasks
from transcripts.storage import expand_home

from .deferred_results import load_deferred, read_all
from .session import CHARGE_TOPIC, Session


class SessionRepository(Struct):
    """The transcripts of a project.

    keep       False: with --no-session
    tell       takes one line about a problem with the disk
    now        returns seconds since the epoch
    masks      secrets that no transcript may contain
    guard      protects transcripts from commands that could reach them
    first_sid  the id of the first new session
    files      opens the transcripts
    state_dir  our own files, which checkpoints leave out if the directory is in the project
    home       the directory that contains .transcripts and .task_outputs
    """

    project: Path
    keep: bool
    tell: Callable[[str], None]
    counter: TokenCounter = field(default_factory=TokenCounter.load)
    now: Callable[[], float] = time.time
    masks: SecretMasks = field(default_factory=SecretMasks)
    guard: RecordsGuard | None = None
    indexing: search.IndexThread | None = None
    files: SessionFiles = field(default_factory=SessionFiles)
    first_sid: str | None = None
    state_dir: Path | None = None
    home: Path = Path()
    _held: list[str] | None = None  # lines for the user, while a thread opens a session

    def __post_init__(self) -> None:
        self.home = self.project if self.keep else Path(tempfile.mkdtemp(prefix="makeroom-")).resolve()

    @property
    def records(self) -> ProjectRecords:
        return ProjectRecords(self.home)

    @property
    def outputs(self) -> Path:
        return self.records.outputs

    def new(self) -> Session:
        """Return a session without facts; its file is created with the first fact."""
        return self._with_facts(())

    async def in_thread(self, work: Callable[[], Session]) -> Session:
        """Return the session that `work` opens in a thread, while the screen stays responsive.

        A long transcript takes seconds. Lines for the user are shown when the session is open.
        """
        held = self._held = list[str]()
        opening = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(StoreError, UsageError):  # there is no session to close then
                (await opening).close()
            raise
        finally:
            self._held = None
            for text in held:
                self.tell(text)

    def _tell(self, text: str) -> None:
        """Show one line to the user, in the thread of the event loop."""
        if self._held is None:
            self.tell(text)
        else:
            self._held.append(text)

    def reopen(self, path: Path) -> Session:
        """Return a recorded session, to be continued. Raises StoreError."""
        with without_garbage_collection():
            session = self._reopened(path)
            if len(session.folded.facts) > 20_000:  # looking through them all would block the event loop
                gc.freeze()  # all of them stay
        self.cache_start(session)
        return session

    def _reopened(self, path: Path) -> Session:
        store, loaded = self.files.resume(path, self._tell)
        if torn := loaded.torn_size:
            self._tell(f"moved an incomplete last line of the transcript ({torn} bytes) to {loaded.sid}.torn")
        if bad := loaded.damaged:
            self._tell(damaged_text(len(bad), bad[0].line))
        self._take(store)
        session = self._session(store, loaded.facts)
        session.deferred = loaded.lazy_results
        if loaded.second_tails:
            self._separate_tails(session, path)
        read_all(session.folded)
        _ = session.spending  # summed up here, as well
        return session

    def cache_start(self, session: Session) -> None:
        """Begin to keep what loading the transcript of a session yields, if it has grown by much."""
        if self.keep:
            self.files.cache_growth(self.records.path_of(session.sid))

    def _separate_tails(self, session: Session, path: Path) -> None:
        """Make a session of each second tail of a transcript, and note in that where the tail is."""
        loaded = read_transcript(path)
        for tail in loaded.second_tails:
            at = tail.facts[0].seq
            earlier = [fact for fact in loaded.facts if fact.seq < at]
            fork = self._copy(session.sid, [*earlier, *tail.facts], at)
            fork.close()
            session.add_metadata(Metadata.TAIL, {"start": tail.start, "end": tail.end, "session": fork.sid})
            self._tell(
                f"two processes continued this session from r{at}: it continues with the first, and the"
                f" second is now session {fork.sid}"
            )

    def fork(self, path: Path, at: int | None = None) -> Session:
        """Return a copy of a recorded session, up to fact `at`. Raises StoreError and UsageError."""
        self.files.require_own(path)
        if at is None and (copy := self._copy_of_file(path)) is not None:
            return copy
        loaded = read_transcript(path)
        loaded.require_known_format()
        return self._copy(loaded.sid, loaded.facts if at is None else _facts_up_to(loaded, at), at)

    def copy(self, session: Session) -> Session:
        """Return a copy of a session in use. Raises StoreError."""
        session.sync()
        if session.is_in_file:
            copy = self._copy_of_file(self.records.path_of(session.sid))
            if copy is not None:
                return copy
        load_deferred(session)
        return _charged(self._copy(session.sid, session.folded.facts), of=session)

    def copy_for_agent(self, session: Session, about: Mapping[str, Any]) -> Session:
        """Copy a session in use for an agent, with `about` in its opening. Raises StoreError."""
        facts = session.folded.facts
        at, opened = next((at, fact) for at, fact in enumerate(facts) if isinstance(fact, Opened))
        opened = replace(opened, parent=session.sid, about={**opened.about, **about})
        if at == 0 and (copy := self._copy_of_lines(session, opened)) is not None:
            return copy
        load_deferred(session)
        facts = list(session.folded.facts)
        facts[at] = opened
        return self._with_facts(facts)

    def _copy_of_lines(self, session: Session, opened: Opened) -> Session | None:
        """Return a copy of a session in use whose first fact is `opened`; None if its file cannot be used.

        Its lines are not encoded again, and what is not in memory stays in the file.
        """
        session.sync()
        path = self.records.path_of(session.sid)
        facts = session.folded.facts
        is_plain = not any(isinstance(fact, Rewound) for fact in facts)  # what was rewound is in the file
        is_plain = is_plain and all(note.topic != Metadata.TAIL for note in session.folded.metadata)
        if not (session.is_in_file and is_plain and self.files.is_signed(path)):
            return None
        note = Metadata(
            session.folded.last_seq + 1, ts=self.now(), topic=Metadata.FORK, about={"of": session.sid}
        )
        sid = self._unused_sid()
        store = self.files.create(self.home, sid, self._tell)
        self._take(store)
        try:
            moved = store.begin_as(opened, path, session.written_size, note)
        except (OSError, StoreError):
            store.close()
            self.first_sid = sid
            return None
        copy = self._session(store, [opened, *facts[1:], note])
        copy.deferred = session.deferred.moved(store.path, moved)
        return copy

    def adopt(self, path: Path) -> Session:
        """Return a new session that begins with the session in a file, ours or another agent's.

        Its system prompt, tools and compactions are left behind, and makeroom's own words in it are data.
        Raises UsageError.
        """
        from transcripts.importers import import_file  # saves other sessions 5 ms

        try:
            imported = import_file(path, self.counter.blocks)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot continue {path}: {error}") from error
        forks = imported.take_forks()
        if skipped := imported.skipped_text:
            self._tell(f"skipped in {path.name}: {skipped}")
        session = self._with_facts([_as_data(fact) for fact in fold(imported.facts).facts])
        for other in forks:
            self._adopt_fork(session, [_as_data(fact) for fact in fold(other.facts).facts])
        return session

    def _adopt_fork(self, session: Session, facts: Sequence[Fact]) -> None:
        """Make a session of the continuation that a second writer added to an adopted one."""
        pairs = zip(session.folded.facts, facts, strict=False)
        at = next((one.seq for one, other in pairs if one != other), len(facts))
        fork = self._with_facts(facts)
        fork.add_metadata(Metadata.FORK, {"of": session.sid, "at": at})
        fork.close()
        self._tell(
            f"two processes continued this session from r{at}: it continues with the one that wrote last,"
            f" and the other is now session {fork.sid}"
        )

    def _copy_of_file(self, path: Path) -> Session | None:
        """Return a session that begins with the lines of a file, None if they cannot be used as they are.

        In a large transcript it would take seconds to decode, encode and sign all lines.
        """
        if not self.files.is_signed(path):
            return None
        loaded = self.files.read(path)
        loaded.require_known_format()
        is_nested = any(isinstance(fact, Opened) and fact.parent is not None for fact in loaded.facts)
        is_plain = not (is_nested or loaded.damaged or loaded.second_tails) and loaded.ends_with_newline
        if not (loaded.facts and is_plain):
            return None
        note = Metadata(
            loaded.facts[-1].seq + 1, ts=self.now(), topic=Metadata.FORK, about={"of": loaded.sid}
        )
        sid = self._unused_sid()
        store = self.files.create(self.home, sid, self._tell)
        try:
            self.files.begin_copy(store, path, loaded.whole_size, note)
        except OSError:
            store.close()
            self.first_sid = sid
            return None
        self._take(store)
        with without_garbage_collection():
            session = self._session(store, [*loaded.facts, note])
            read_all(session.folded)
        session.deferred = loaded.lazy_results.moved(store.path)
        self._inherit(session, loaded.sid)
        return session

    def _copy(self, original: str, facts: Sequence[Fact], at: int | None = None) -> Session:
        """Return a session with these facts (up to `at`), its original's checkpoints and a new name."""
        session = self._with_facts(_of_a_user(facts))
        session.add_metadata(Metadata.FORK, {"of": original} if at is None else {"of": original, "at": at})
        self._inherit(session, original)
        return session

    def _inherit(self, session: Session, original: str) -> None:
        """Give a copy the checkpoints of its original, and a name like its name."""
        try:
            if self.keep:
                copy_log(self.project, original, session.sid)
        except OSError as error:
            self._tell(f"cannot copy the checkpoints, so the fork cannot undo earlier file changes: {error}")
        if name := session.folded.name:
            session.add_metadata("name", {"name": self.copy_name(name)})

    def _with_facts(self, facts: Sequence[Fact]) -> Session:
        store = self.files.create(self.home, self._unused_sid(), self._tell)
        self._take(store)
        for fact in facts:
            store.append(fact)
        store.sync()
        return self._session(store, facts)

    def _session(self, store: Store, facts: Sequence[Fact]) -> Session:
        """Return the session with these facts, which the store contains."""
        return Session(store.sid, record=store, folded=fold(facts), count=self.counter, now=self.now)

    def _unused_sid(self) -> str | None:
        """Return the id set for the first session, then None. Raises UsageError if that session exists."""
        wanted = self.first_sid
        self.first_sid = None
        if wanted is not None and self.records.path_of(wanted).exists():
            raise UsageError(f"session {wanted} already exists; continue it with --resume {wanted}")
        return wanted

    def _take(self, store: Store) -> None:
        store.hide(self.masks)
        if self.guard is not None:
            self.guard.watch(store)

    def newest(self, scripted: bool) -> Path:
        """Return the newest session of this directory with a prompt, see `ProjectRecords.newest`.

        Raises UsageError.
        """
        newest = self.records.newest(scripted)
        if newest is None:
            raise UsageError("no session to continue in this directory; start one without --continue")
        return newest.path

    def named(self, wanted: str) -> Path:
        """Return the session with an id, the beginning of an id, a name or a file. Raises UsageError."""
        if (path := self._own_file(wanted)) is not None:
            return path
        try:
            return self.records.find(wanted)
        except StoreError as error:
            raise UsageError(str(error)) from error

    def holder_of(self, name: str, but: str) -> str | None:
        """Return the id of a session other than `but` with this name in any letter case, or None."""
        others = (one for one in self.records.sessions() if one.sid != but)
        return next((one.sid for one in others if name.casefold() in (one.name.casefold(), one.sid)), None)

    def copy_name(self, name: str) -> str:
        """Return an unused name for a copy of the session with this name."""
        name = re.sub(r" \(copy(?: \d+)?\)$", "", name)
        taken = {one.name.casefold() for one in self.records.sessions()}
        names = (f"{name} (copy)" if number == 1 else f"{name} (copy {number})" for number in count(1))
        return next(each for each in names if each.casefold() not in taken)

    def is_recording(self, wanted: str) -> bool:
        """Return whether `wanted` is a file other than this directory's sessions, which is to be copied."""
        path = expand_home(wanted)
        if "/" not in wanted and path.suffix not in (".jsonl", ".traj", ".json"):
            return False
        return path.is_file() and self._own_file(wanted) is None

    def _own_file(self, wanted: str) -> Path | None:
        """Return the file of a session of this directory if `wanted` is its path, else None."""
        path = expand_home(wanted)
        real = self.home / RECORDS_FOLDER / path.name
        is_own = path.suffix == ".jsonl" and real.is_file() and path.exists() and path.samefile(real)
        return real if is_own else None

    def originals(self, session: Session) -> Originals:
        """Return the current facts of a session in use, for the recall tool."""
        return Originals(
            session.folded,
            outputs=self.outputs,
            lazy_results=session.deferred,
            sid=session.sid,
            home=self.home,
            project=self.project,
        )

    def checkpoints(self, session: Session) -> Checkpoints | None:
        """Return the recorder of file checkpoints for a session; None with --no-session."""
        if not self.keep:
            return None
        excluded = ""
        if self.state_dir is not None and (own := self.state_dir.resolve()).is_relative_to(self.project):
            excluded = own.relative_to(self.project).as_posix()
        return Checkpoints(
            self.project, sid=session.sid, seq=lambda: session.folded.last_seq, excluded=excluded
        )

    def update_index(self) -> None:
        """Begin to update the search index in the background."""
        if self.indexing is None:
            self.indexing = search.IndexThread()
        self.indexing.begin(self.home)

    def close(self) -> None:
        """Remove the temporary directory and the spare copy of the transcripts, if they exist."""
        if self.guard is not None:
            self.guard.close()
        if self.indexing is not None:
            self.indexing.end(wait=not self.keep)
        self.files.close()
        if not self.keep:
            shutil.rmtree(self.home, ignore_errors=True)


def _as_data(fact: Fact) -> Fact:
    """Return a fact without makeroom's own words, which anyone may have written."""
    if isinstance(fact, User | Reply):
        return replace(fact, blocks=tuple(map(_plain, fact.blocks)))
    return replace(fact, content=tuple(map(_plain, fact.content))) if isinstance(fact, Result) else fact


def _plain(block: Block) -> Block:
    return TextBlock(block.text) if isinstance(block, ChannelBlock) else block


def _of_a_user(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts as those of a user's session, even if they come from an agent's session."""
    return [replace(fact, parent=None) if isinstance(fact, Opened) else fact for fact in facts]


def _charged(session: Session, of: Session) -> Session:
    """Add the original session's charges that the facts of its copy do not contain, and return the copy."""
    remaining = Counter(session.folded.charges)
    for each in of.folded.charges:
        if remaining[each]:
            remaining[each] -= 1
        elif each.usage != Usage():
            about = {"model": each.model, "usage": asdict(each.usage), "dollars": each.dollars}
            session.add_metadata(CHARGE_TOPIC, about)
    return session


def _facts_up_to(loaded: LoadedTranscript, at: int) -> list[Fact]:
    """Return the facts of a transcript up to one of them. Raises UsageError if there is no such fact."""
    if all(fact.seq != at for fact in loaded.facts):
        last = loaded.facts[-1].seq if loaded.facts else 0
        raise UsageError(
            f"session {loaded.sid} has no r{at}, its last id is r{last}; search ids with makeroom recall"
        )
    return [fact for fact in loaded.facts if fact.seq <= at]


def damaged_text(count: int, line: int) -> str:
    """Return the notice about damaged lines in a transcript, the first of which is `line`."""
    if count == 1:
        return f"skipped 1 damaged line in the transcript: line {line}"
    return f"skipped {count:,} damaged lines in the transcript; the first is line {line}"

"""List the sessions of a project, reading only the beginning and the end of large transcripts.

Transcripts are read whole, newest first, up to 64 MB in total, so that a name given in the middle is found
and prompts are counted exactly. Of the others, only the beginning and the end are read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from .codec import BadLine, decode_line
from .errors import AmbiguousSession, NoSuchSession, Unreadable
from .facts import Fact, Metadata, Opened, User, name_of
from .render_text import agent_label, agent_task, prompt_title
from .session_lock import RECORDS_FOLDER, lock_holder, path_of
from .stored_outputs import OUTPUTS_FOLDER
from .wording import cause_of

MAX_HEAD_BYTES = 1 << 21  # read from the beginning, to find the first prompt
MAX_LISTING_BYTES = 64 << 20  # total size of the files that one listing reads whole
MAX_CLOCK_SKEW_S = 300.0  # between the clocks of machines that share a directory
_KIND_BYTES = 200  # the kind of a line is within its first bytes
_USER_KIND = b'"kind":"user"'


class SessionSummary(Struct, frozen=True):
    """A session in a list.

    last_active  seconds since the epoch; in the future if a clock was wrong and there is no better source
    first_prompt on one line; for a nested session its task, since a copy begins with its parent's prompt
    prompts      the number of prompts; for a large file a lower bound
    size         in bytes
    folder       the working directory of the session
    name         on one line; "" for nested sessions, since a copy contains the name of its parent
    parent       the session that started it as a nested one, None if the user started it
    agent        the name of a nested session in its parent: "explore #2"
    fork_of      the session that it is a copy of, or ""
    scripted     whether scripts or programs sent all of its prompts
    """

    sid: str
    path: Path
    name: str
    first_prompt: str
    last_active: float
    prompts: int
    size: int
    folder: str
    parent: str | None = None
    agent: str = ""
    fork_of: str = ""
    scripted: bool = False

    @property
    def is_continuable(self) -> bool:
        """Return whether the session has a prompt and is not nested."""
        return bool(self.prompts) and self.parent is None


class ProjectRecords(Struct, frozen=True):
    """The sessions and outputs stored in the directory `home` of a project.

    A project that was moved, renamed or copied keeps its sessions.
    """

    home: Path

    @property
    def outputs(self) -> Path:
        """The directory of stored outputs."""
        return self.home / OUTPUTS_FOLDER

    def path_of(self, sid: str) -> Path:
        """Return the path of a session's transcript. Raises Unreadable for an invalid id."""
        return path_of(self.home, sid)

    def paths(self) -> list[Path]:
        """Return the transcripts, most recently written first. Raises StoreError."""
        return [path for path, _ in transcript_files(self.home)]

    def sids(self) -> tuple[str, ...]:
        """Return the ids of the sessions, most recently written first. Raises StoreError."""
        return tuple(path.stem for path in self.paths())

    def sessions(self) -> list[SessionSummary]:
        """Return the sessions, most recently active first. Unreadable files are omitted.

        Raises StoreError like `transcript_files`.
        """
        left = MAX_LISTING_BYTES
        listed = []
        for path, found in transcript_files(self.home):
            is_whole = found.st_size <= left
            left -= found.st_size if is_whole else 0
            if (one := _summary(path, found, is_whole)) is not None:
                listed.append(one)
        now = time.time()
        return sorted(listed, key=lambda one: (*_newest_first(one.last_active, now), one.sid))

    def title_of(self, sid: str) -> str:
        """Return the name of a session, or its first prompt; "" if it cannot be read."""
        path = self.path_of(sid)
        with suppress(OSError):
            one = _summary(path, path.stat(), is_whole=False)
            return one.name or one.first_prompt if one is not None else ""
        return ""

    def is_open(self, sid: str) -> bool:
        """Return whether a process has this session open."""
        return lock_holder(self.path_of(sid)) is not None

    def holder(self) -> int | None:
        """Return the pid of a process that has a session open, 0 if unknown; None if there is none."""
        locks = (self.home / RECORDS_FOLDER).glob("*.lock")
        holders = (lock_holder(path.with_suffix(".jsonl")) for path in locks)
        return next((pid for pid in holders if pid is not None), None)

    def continuable(self) -> list[SessionSummary]:
        """Return the sessions with a prompt that are not nested, most recent first. Raises StoreError."""
        return [one for one in self.sessions() if one.is_continuable]

    def newest(self, scripted: bool) -> SessionSummary | None:
        """Return the continuable session that was active last, or None. Raises StoreError.

        A user does not mean the sessions that scripts started, unless there are no others; a script
        (`scripted`) continues any. Both ends of a transcript show this, unless a long beginning hides its
        first prompt.
        """
        now = time.time()
        listed = list[SessionSummary]()
        for path, about in transcript_files(self.home):
            one = _summary(path, about, is_whole=False)
            if one is not None and not one.prompts and one.parent is None:
                one = _summary(path, about, is_whole=True)
            if one is not None and one.is_continuable:
                listed.append(one)
        typed = [one for one in listed if scripted or not one.scripted]
        found = typed or listed
        return min(found, key=lambda one: (*_newest_first(one.last_active, now), one.sid), default=None)

    def last_written(self) -> SessionSummary | None:
        """Return the continuable session that was written to last, or None. Reads few other files.

        Those of scripts are left out, like in `newest`.
        """
        scripted = list[SessionSummary]()
        for path, found in transcript_files(self.home):
            # Each start reads the newest file: whole if that takes at most 10 ms.
            one = _summary(path, found, is_whole=found.st_size <= 4 << 20)
            if one is None or not one.is_continuable:
                continue
            if not one.scripted:
                return one
            scripted.append(one)
            if len(scripted) == 8:  # sessions of scripts in a row
                break
        return scripted[0] if scripted else None

    def find(self, wanted: str) -> Path:
        """Return the transcript of the session with this id or name, or with this unique prefix of an id.

        Raises NoSuchSession and AmbiguousSession.
        """
        for path, _ in transcript_files(self.home):
            if path.stem == wanted:
                return path  # without reading all the others
        listed = self.sessions()
        fits = [one for one in listed if wanted and wanted == one.name]
        fits = fits or [one for one in listed if wanted and one.sid.startswith(wanted)]
        fits = fits or [one for one in listed if wanted and one.name.casefold() == wanted.casefold()]
        if not fits:
            none = f"no sessions are stored in {self.home / RECORDS_FOLDER}"
            hint = f"the most recent one is {listed[0].sid}" if listed else none
            raise NoSuchSession(f"no session {wanted!r} in this project; {hint}")
        if len(fits) > 1:
            names = ", ".join(one.sid for one in fits[:8])
            raise AmbiguousSession(f"{wanted!r} matches {len(fits)} sessions: {names}")
        return fits[0].path


def transcript_files(project: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the transcripts of a project, most recently written first.

    Raises StoreError if the directory cannot be read.
    """
    folder = project / RECORDS_FOLDER
    found = list[tuple[Path, os.stat_result]]()
    try:
        paths = list(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Unreadable(f"cannot read {folder}: {cause_of(error)}") from error
    for path in (path for path in paths if path.name.endswith(".jsonl")):
        with suppress(OSError):  # it was removed in between
            if stat.S_ISREG((about := path.lstat()).st_mode):
                found.append((path, about))
    now = time.time()
    return sorted(found, key=lambda each: (*_newest_first(each[1].st_mtime, now), each[0].name))


def _newest_first(at: float, now: float) -> tuple[bool, float]:
    """Return a key that sorts times newest first; times in the future, from a wrong clock, come last."""
    return at > now + MAX_CLOCK_SKEW_S, -at


MAX_END_BYTES = 1 << 16  # read from the end of a large file


def _summary(path: Path, found: os.stat_result, is_whole: bool) -> SessionSummary | None:
    """Describe one file for a list, read whole or at both ends; None if it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb", buffering=1 << 16) as file:
            facts = list(_decoded(_head(file)))
            opened = next((fact for fact in facts if isinstance(fact, Opened)), None)
            facts.extend(_decoded_end(file, found.st_size, found.st_size if is_whole else MAX_END_BYTES))
    except OSError:
        return None
    nested = opened is not None and opened.parent is not None
    notes = sorted((fact for fact in facts if isinstance(fact, Metadata)), key=lambda fact: fact.seq)
    forks = [note.about.get("of") for note in notes if note.topic == Metadata.FORK]
    prompts = {fact.seq: fact for fact in facts if isinstance(fact, User) and fact.source == "user"}
    task = agent_task(opened) if opened else ""
    return SessionSummary(
        sid=path.stem,
        path=path,
        name="" if nested else name_of(notes),
        first_prompt=task or (prompt_title(prompts[min(prompts)]) if prompts else ""),
        last_active=_last_active([fact.ts for fact in facts], found.st_mtime),
        prompts=len(prompts),
        size=found.st_size,
        folder=opened.folder if opened else str(path.parent.parent),
        parent=opened.parent if opened else None,
        agent=agent_label(opened) if opened else "",
        fork_of=str(forks[-1]) if forks and not nested else "",
        scripted=bool(prompts) and all(prompt.scripted for prompt in prompts.values()),
    )


def _last_active(stamps: Sequence[float], written: float) -> float:
    """Return the time of a session's last activity, or the file's mtime if a fact is in the future."""
    newest = max(stamps, default=written)
    return written if newest > time.time() + MAX_CLOCK_SKEW_S else newest


def _head(file: BinaryIO) -> Iterator[bytes]:
    """Yield the first lines, up to the first prompt."""
    left = MAX_HEAD_BYTES
    for _ in range(12):  # lines
        line = file.readline(left)
        left -= len(line)
        if not line or left <= 0:
            return
        yield line
        if _USER_KIND in line[:_KIND_BYTES]:
            return


def _decoded_end(file: BinaryIO, size: int, most: int) -> list[Fact]:
    """Return the prompts, the metadata and the last fact of the last `most` bytes, or of more if need be.

    Without a fact at the end, the session would seem to have been active last when it began.
    """
    while True:
        file.seek(max(0, size - most))
        facts = list(_decoded(_prompts_metadata_and_last(file)))
        if facts or most >= size:
            return facts
        most *= 8


def _prompts_metadata_and_last(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of prompts and metadata in the rest of a file, and its last line."""
    last = b""
    for line in file:
        last = line if line.strip() else last
        head = line[:_KIND_BYTES]
        if _USER_KIND in head or b'"kind":"noted"' in head:
            yield line
    yield last


def _decoded(lines: Iterable[bytes]) -> Iterator[Fact]:
    for line in lines:
        with suppress(BadLine):
            yield decode_line(line)[0]

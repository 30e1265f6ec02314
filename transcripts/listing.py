"""The sessions of a project, found quickly: by the two ends of a file, never by all of a large one.

Small files, newest first and 64 MB in all, are looked through whole, so that a name given in the middle
is found and prompts are counted exactly; of the others only what stands at their ends is known.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .codec import BadLine, decode
from .facts import Fact, Metadata, Opened, User
from .injected_context import without_injected
from .messages import TextBlock
from .record_errors import AmbiguousSession, NoSuchSession
from .session_lock import RECORDS_FOLDER

END = 1 << 16  # bytes read of the end
HEAD_LINES, HEAD = 12, 1 << 21  # as much is read of the beginning, to find the first prompt
BUDGET = 64 << 20  # bytes looked through in one listing
_USER, _NAME = b'"kind":"user"', b'"kind":"noted"'


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session in a list. `first` is the first prompt, `at` the last activity (seconds since the epoch).

    `turns` counts prompts; for a file too large to look through it is at least that many. `folder` is
    where the session works, `size` in bytes.
    """

    sid: str
    path: Path
    name: str
    first: str
    at: float
    turns: int
    size: int
    folder: str


def sessions(project: Path) -> list[SessionSummary]:
    """The sessions kept in a project's folder, the newest activity first. An unreadable file is left out."""
    found = sorted(_files(project / RECORDS_FOLDER), key=lambda each: -each[1].st_mtime)
    left, listed = BUDGET, []
    for path, about in found:
        whole = about.st_size <= left
        left -= about.st_size if whole else 0
        if (one := summary(path, about, whole=whole)) is not None:
            listed.append(one)
    return sorted(listed, key=lambda one: (-one.at, one.sid))


def newest(project: Path) -> Path | None:
    """The newest session of exactly this folder that has a prompt, or None."""
    here = os.path.realpath(project)
    for one in sessions(project):
        if one.turns and os.path.realpath(one.folder) == here:
            return one.path
    return None


def resolve(project: Path, wanted: str) -> Path:
    """The file of the session with this id, name, or unique beginning of an id.

    Raises NoSuchSession, AmbiguousSession.
    """
    listed = sessions(project)
    exact = [one for one in listed if wanted == one.sid]
    fits = exact or [one for one in listed if wanted and wanted == one.name]
    fits = fits or [one for one in listed if wanted and one.sid.startswith(wanted)]
    fits = fits or [one for one in listed if wanted and one.name.casefold() == wanted.casefold()]
    if not fits:
        there = f"the newest is {listed[0].sid}" if listed else f"none are kept in {project / RECORDS_FOLDER}"
        raise NoSuchSession(f"no session {wanted!r} here: {there}")
    if len(fits) > 1:
        raise AmbiguousSession(wanted, tuple(one.sid for one in fits))
    return fits[0].path


def summary(path: Path, about: os.stat_result, *, whole: bool) -> SessionSummary | None:
    """What a list says of one file; None where it cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(fd, "rb", buffering=1 << 16) as file:
            head = [fact for line in _head(file) if (fact := _maybe(line)) is not None]
            file.seek(0 if whole else max(0, about.st_size - END))
            rest = list(_telling(file))
    except OSError:
        return None
    opened = next((fact for fact in head if isinstance(fact, Opened)), None)
    prompts = {fact.seq: fact for fact in head + rest if _is_prompt(fact)}
    return SessionSummary(
        sid=path.stem,
        path=path,
        name=_name(head + rest),
        first=first_words(prompts[min(prompts)]) if prompts else "",
        at=max((fact.ts for fact in head + rest), default=about.st_mtime),
        turns=len(prompts),
        size=about.st_size,
        folder=opened.folder if opened else str(path.parent.parent),
    )


def first_words(fact: Fact) -> str:
    """The words of a prompt, without the surroundings that we put before them."""
    blocks = getattr(fact, "blocks", ())
    texts = [block.text for block in without_injected(blocks) or blocks if isinstance(block, TextBlock)]
    return " ".join((texts or [""])[0].split())


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl"):
                    about = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        yield Path(entry.path), about
    except FileNotFoundError:
        return


def _head(file: Any) -> Iterator[bytes]:
    """The first lines, until there is a prompt among them."""
    left = HEAD
    for _ in range(HEAD_LINES):
        line = file.readline(left)
        left -= len(line)
        if not line or left <= 0:
            return
        yield line
        if _USER in line[:200]:
            return


def _telling(file: Any) -> Iterator[Fact]:
    """The facts that a list is made of: prompts, names, and the last one, whatever it is."""
    last = b""
    for line in file:
        last = line if line.strip() else last
        if (_USER in line[:200] or _NAME in line[:200]) and (fact := _maybe(line)) is not None:
            yield fact
    if (fact := _maybe(last)) is not None:
        yield fact


def _maybe(line: bytes) -> Fact | None:
    try:
        return decode(line)[0]
    except (BadLine, json.JSONDecodeError):
        return None


def _is_prompt(fact: Fact) -> bool:
    return isinstance(fact, User) and fact.source == "user"


def _name(facts: list[Fact]) -> str:
    names = [fact for fact in facts if isinstance(fact, Metadata) and fact.topic == "name"]
    return str(max(names, key=lambda fact: fact.seq).about.get("name", "")) if names else ""

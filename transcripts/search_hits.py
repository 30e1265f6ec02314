"""What a search found, as people and models read it: where, how old, what it was, and the lines that fit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .disk import read_regular
from .facts import Result
from .messages import ADDED_TAGS, ToolUseBlock
from .render_text import format_age, speaker_of
from .search import Found

EXCERPT_LINES = 2
MAX_EXCERPT_LINE_CHARS = 160  # of a line of an excerpt
MAX_CALL_CHARS = 80  # of a call that a result answers
UUID_CHARS, SHORT_SID_CHARS = 36, 8  # of a session's id, and of the beginning by which people know it
LINE_LEAD_CHARS = 40  # shown before the match in a line that is cut
MAX_UNPAGED_CHARS = 30_000  # a longer text is recalled in pages, so that a hit in it needs its offset
MAX_HASHED_BYTES = 64 << 20  # of a file that is compared with what was recorded


@dataclass(frozen=True, slots=True)
class Hit:
    """One place that fits a query.

    id       recalls the original; that of another session begins with the session's id
    kind     who spoke, or the call that a result answers
    changed  whether the file is another one now than what was recorded; None where no file was, or one that
             is outside of the project
    offset   characters into the original where the match is, if that has several pages; else 0
    beside   whether what is beside it in the conversation has the words
    rewound  whether a rewind took it out of the conversation
    """

    id: str
    session: str
    ts: float
    kind: str
    excerpt: tuple[str, ...]
    score: float
    path: str = ""
    changed: bool | None = None
    offset: int = 0
    beside: bool = False
    rewound: bool = False

    def lines(self, now: float) -> list[str]:
        """The hit as lines of text."""
        offset = f", from character {self.offset:,}" if self.offset else ""
        changed = {True: ", the file has changed since", False: ", the file is as it was", None: ""}
        beside = ", beside what fits" if self.beside else ""
        sid, slash, place = self.id.rpartition("/")
        shown = f"{short_sid(sid)}{slash}{place}"
        rewound = ", rewound" if self.rewound else ""
        about = f"{rewound}{beside}{offset}{changed[self.changed]}"
        head = f"{shown}  {format_age(self.ts, now)}  {self.kind}{about}"
        return [head, *(f"    {line}" for line in self.excerpt)]

    def to_json(self, now: float) -> dict[str, Any]:
        """The hit as plain data; `age_s` in seconds."""
        names = ("id", "session", "ts", "kind", "path", "changed", "offset", "beside", "rewound")
        about = {name: getattr(self, name) for name in names}
        score, age = round(self.score, 3), round(now - self.ts, 1)
        return {**about, "age_s": age, "score": score, "excerpt": "\n".join(self.excerpt)}


def short_sid(sid: str) -> str:
    """A session's id as people are told it."""
    return sid[:SHORT_SID_CHARS] if len(sid) == UUID_CHARS else sid


def make_hits(
    found: Sequence[Found], here: str, project: Path, mask: Callable[[str], str] = str
) -> list[Hit]:
    """Hits of what was found; `here` is the session whose ids need no prefix. Files are read to compare."""
    return [_hit(one, here, project, mask) for one in found]


def _hit(one: Found, here: str, project: Path, mask: Callable[[str], str]) -> Hit:
    about = one.fact.about if isinstance(one.fact, Result) else {}
    path = about.get("path")
    return Hit(
        id=f"r{one.fact.seq}" if one.sid == here else f"{one.sid}/r{one.fact.seq}",
        session=one.sid,
        ts=one.fact.ts,
        kind=mask(_kind(one)),
        excerpt=tuple(map(mask, _excerpt(one.text, one.start))),
        score=one.score,
        path=path if isinstance(path, str) else "",
        changed=_has_changed(project, one.folder, path, about.get("sha256")),
        offset=one.start if len(one.text) > MAX_UNPAGED_CHARS else 0,
        beside=one.beside,
        rewound=one.rewound,
    )


def _kind(one: Found) -> str:
    if one.call is None:
        return speaker_of(one.fact)
    failed = "error of" if isinstance(one.fact, Result) and one.fact.error else "result of"
    return f"{failed} {_call_label(one.call)}"


def _call_label(call: ToolUseBlock) -> str:
    """A call in a few words: its name and the first text among its arguments."""
    texts = (value for value in call.input.values() if isinstance(value, str) and value.strip())
    words = " ".join(next(texts, "")[: 4 * MAX_CALL_CHARS].split())
    shown = words if len(words) <= MAX_CALL_CHARS else f"{words[: MAX_CALL_CHARS - 1]}…"
    return f"{call.name} {shown}".strip()


def _excerpt(text: str, start: int) -> list[str]:
    """The line of the match and the next one that is not blank, each cut to its length; no bare tags."""
    begin = text.rfind("\n", 0, start) + 1
    begin = max(begin, start - LINE_LEAD_CHARS) if start - begin > MAX_EXCERPT_LINE_CHARS // 2 else begin
    shown: list[str] = []
    for line in text[begin : begin + 20 * MAX_EXCERPT_LINE_CHARS].split("\n"):
        if (words := " ".join(line.split())) and words.strip("</>") not in ADDED_TAGS:
            shown.append(
                words if len(words) <= MAX_EXCERPT_LINE_CHARS else f"{words[: MAX_EXCERPT_LINE_CHARS - 1]}…"
            )
        if len(shown) == EXCERPT_LINES:
            break
    return shown


def _has_changed(project: Path, folder: str, path: object, sha256: object) -> bool | None:
    """Whether a file of the project is another one now than what was recorded; None where that is not known.

    `folder` is where the session worked: the project may have been moved or copied since.
    """
    if not isinstance(path, str) or not isinstance(sha256, str):
        return None
    recorded = Path(path)
    inside = recorded.relative_to(folder) if folder and recorded.is_relative_to(folder) else recorded
    try:
        found = Path(os.path.realpath(project / inside))
        if not found.is_relative_to(os.path.realpath(project)):
            return None  # what is outside is not read, neither by a link
        return hashlib.sha256(read_regular(found, MAX_HASHED_BYTES)).hexdigest() != sha256
    except (OSError, ValueError):
        return True  # gone, or no file that could be the same

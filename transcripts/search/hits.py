"""Format search hits for the user and the model: their id, age, kind, and the matching lines."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from ..data_tags import ADDED_TAGS
from ..facts import Result
from ..listing import ProjectRecords
from ..render_text import format_age
from ..session_lock import short_sid
from ..storage.disk import read_regular
from ..wording import shorten
from .ranking import Found, search_records

MAX_LINE_CHARS = 160  # of a line of an excerpt
MAX_BEFORE_CHARS = 60  # of a match in its line: it must stay on a screen of 80 columns
MAX_CALL_CHARS = 120
MAX_MASKED_CHARS = 10_000  # before and after a match: more than a private key has
MAX_TITLE_CHARS = 50
INDENT = "    "  # of the lines below the first line of a hit
WEAK_STRENGTH = 0.5  # of all words of the query: a fact with less, in it and around it, is a weak match


class Hit(Struct, frozen=True):
    """A fact that matches a query.

    id       the recall id; in another session it begins with the session's id
    kind     the speaker, or the call that a result answers
    changed  the file has changed since; None if there was no file, or one outside the project
    offset   of the match in the original, in characters, if that has several pages; otherwise 0
    rewound  a rewind removed the fact from the conversation
    title    of the best hit of another session: its name, or the beginning of its first prompt
    weak     there is little of the query in and around the fact and all that are ranked below it
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
    rewound: bool = False
    title: str = ""
    weak: bool = False

    def lines(self, now: float, columns: int = 0) -> list[str]:
        """Return the hit as lines of text, each cut to `columns` columns unless that is 0."""
        width = columns or 10_000
        sid, slash, place = self.id.rpartition("/")
        place = f"{short_sid(sid)}{slash}{place}  {format_age(self.ts, now)}  "
        state = ", weak match" if self.weak else ""
        state += ", rewound" if self.rewound else ""
        state += f", from character {self.offset:,}" if self.offset else ""
        state += {True: ", file changed since", False: ", file unchanged", None: ""}[self.changed]
        head = f"{place}{_middle_cut(self.kind, max(20, width - len(place) - len(state)))}{state}"
        title = f'in "{shorten(self.title, MAX_TITLE_CHARS)}"' if self.title else ""
        room = width - len(INDENT)
        below = self.excerpt
        if title and not columns:
            head = f"{head}  {title}"
        elif title:
            below = (title, *below)
        return [head, *(f"{INDENT}{shorten(line, room)}" for line in below)]

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the hit as plain data; `age_s` in seconds."""
        rounded = {"age_s": round(now - self.ts, 1), "score": round(self.score, 3)}
        return {**asdict(self), **rounded, "excerpt": "\n".join(self.excerpt)}


class SearchHits(Struct, frozen=True):
    """The hits of a query, the best first; `note` is a notice about the search, "" for none."""

    hits: tuple[Hit, ...] = ()
    note: str = ""

    def lines(self, now: float, columns: int = 0) -> list[str]:
        """Return the hits as lines of text, each cut to `columns` columns unless that is 0."""
        return [line for hit in self.hits for line in hit.lines(now, columns)]


class ProjectSearch(Struct, frozen=True):
    """A search of the transcripts in the directory `home` of a project.

    Hits name files relative to the directory `project`. `mask` hides secrets in a text.
    """

    home: Path
    project: Path
    mask: Callable[[str], str] = str

    def find(self, words: str, sids: Sequence[str], limit: int, here: str = "") -> SearchHits:
        """Return the facts of these sessions that match words or a question best. Blocks on the disk.

        Ids in the session `here` have no prefix, and it is not named.
        """
        result = search_records(self.home, words, sids, limit)
        records = ProjectRecords(self.home)
        titles = {sid: records.title_of(sid) for sid in {one.sid for one in result.found} - {here}}
        matches = enumerate(result.found)
        strong = max((at for at, one in matches if one.strength >= WEAK_STRENGTH), default=-1)
        hits = [
            self._hit(one, is_here=one.sid == here, title=titles.pop(one.sid, ""), weak=at > strong)
            for at, one in enumerate(result.found)
        ]
        return SearchHits(tuple(hits), result.note)

    def _hit(self, one: Found, is_here: bool, title: str, weak: bool) -> Hit:
        about = one.fact.about if isinstance(one.fact, Result) else {}
        path = about.get("path")
        return Hit(
            id=f"r{one.fact.seq}" if is_here else f"{one.sid}/r{one.fact.seq}",
            session=one.sid,
            ts=one.fact.ts,
            kind=self.mask(self._kind(one)),
            excerpt=_excerpt(*_masked_around(one.text, one.start, self.mask)),
            score=one.score,
            path=path if isinstance(path, str) else "",
            changed=self._has_changed(path, about.get("sha256")),
            offset=one.start if len(one.text) > 30_000 else 0,  # longer texts are recalled in pages
            rewound=one.rewound,
            title=self.mask(title),
            weak=weak,
        )

    def _kind(self, one: Found) -> str:
        """Return the speaker of a fact; of a result its call: its name and its first string argument."""
        if one.call is None:
            return one.fact.speaker
        texts = (value for value in one.call.input.values() if isinstance(value, str) and value.strip())
        text = " ".join(next(texts, "")[:320].replace(f"{self.project}/", "").split())
        failed = "error of" if isinstance(one.fact, Result) and one.fact.error else "result of"
        return f"{failed} {one.call.name} {shorten(text, MAX_CALL_CHARS)}".strip()

    def _has_changed(self, path: object, sha256: object) -> bool | None:
        """Return whether a file of the project has changed since it was recorded; None if unknown."""
        if not isinstance(path, str) or not isinstance(sha256, str):
            return None
        try:
            found = Path(os.path.realpath(self.project / path))
            if not found.is_relative_to(os.path.realpath(self.project)):
                return None  # files outside the project are not read, not even through a link
            return hashlib.sha256(read_regular(found, 64 << 20)).hexdigest() != sha256
        except (OSError, ValueError):
            return True  # removed, or no longer a regular file


def _masked_around(text: str, start: int, mask: Callable[[str], str]) -> tuple[str, int]:
    """Return the text around a match, and the offset of the match there, 0 if the match is in a secret.

    It is masked as a whole, since in a part of a secret, such as a line of a private key, none is recognized.
    """
    begin = max(0, start - MAX_MASKED_CHARS)
    around = text[begin : start + MAX_MASKED_CHARS]
    at = start - begin
    masked = mask(around)
    if masked == around:
        return around, at
    return masked, max(0, masked.find(around[at : at + 15]))


def _excerpt(text: str, start: int) -> tuple[str, ...]:
    """Return the line of the match and the next other one with a letter, cut to length, without bare tags."""
    begin = text.rfind("\n", 0, start) + 1
    around = text[begin : start + 20 * MAX_LINE_CHARS]
    if start - begin > MAX_BEFORE_CHARS:
        begin = text.rfind(" ", start - 40, start - 15) + 1 or start - 30
        around = f"…{text[begin : start + 20 * MAX_LINE_CHARS]}"
    lines = (" ".join(line.split()) for line in around.split("\n"))
    shown = (line for line in lines if any(map(str.isalpha, line)) and line.strip("</>") not in ADDED_TAGS)
    different = dict.fromkeys(shown)  # a reply may repeat what was thought before it
    return tuple(shorten(line, MAX_LINE_CHARS) for line in islice(different, 2))


def _middle_cut(text: str, most: int) -> str:
    """Return a text without its middle if it is long: a call may end with a path whose end tells most."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-((most + 1) // 2) :]}"

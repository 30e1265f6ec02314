"""Format search hits for the user and the model: their id, age, kind, and the matching lines."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ..data_tags import ADDED_TAGS
from ..facts import Result
from ..listing import ProjectRecords
from ..render_text import format_age
from ..session_lock import short_sid
from ..storage.disk import read_regular
from ..wording import shorten
from .index_file import INDEX_WAIT_S
from .ranking import Found, search_records

MAX_LINE_CHARS = 160  # of a line of an excerpt
MAX_CALL_CHARS = 120
MAX_MASKED_CHARS = 10_000  # before and after a match: more than a private key has
MAX_TITLE_CHARS = 50
MIN_MATCH_CHARS = 30  # of a line, shown from the match on
INDENT = "    "  # of the lines below the first line of a hit
WEAK_SHARE = 1 / 3  # of the query: a fact that contains less is a weak match


class Hit(Struct, frozen=True):
    """A fact that matches a query.

    id       the recall id; in another session it begins with the session's id
    kind     the speaker, or the call that a result answers
    changed  the file has changed since; None if there was no file, or one outside the project
    match    the offset of the match in the first line of the excerpt
    offset   of the match in the original, in characters, if that has several pages; otherwise 0
    rewound  a rewind removed the fact from the conversation
    title    the name of another session, or the beginning of its first prompt
    weak     the fact and all that are ranked below it contain little of the query
    """

    id: str
    session: str
    ts: float
    kind: str
    excerpt: tuple[str, ...]
    score: float
    path: str = ""
    changed: bool | None = None
    match: int = 0
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
        below = [_cut_around(line, self.match, room) for line in self.excerpt[:1]]
        below += (shorten(line, room) for line in self.excerpt[1:])
        if title and not columns:
            head = f"{head}  {title}"
        elif title:
            below.insert(0, shorten(title, room))
        return [head, *(f"{INDENT}{line}" for line in below)]

    def to_json(self, now: float) -> dict[str, Any]:
        """Return the hit as plain data; `age_s` in seconds."""
        rounded = {"age_s": round(now - self.ts, 1), "score": round(self.score, 3)}
        return {**asdict(self), **rounded, "excerpt": "\n".join(self.excerpt)}


class SearchHits(Struct, frozen=True):
    """The hits of a query, the best first; `note` is a notice about the search, "" for none."""

    hits: tuple[Hit, ...] = ()
    note: str = ""
    is_vague: bool = False  # other words are needed

    def lines(self, now: float, columns: int = 0) -> list[str]:
        """Return the hits as lines of text, each cut to `columns` columns unless that is 0.

        Each session is named only once.
        """
        lines = list[str]()
        named = set[str]()
        for hit in self.hits:
            lines += (replace(hit, title="") if hit.session in named else hit).lines(now, columns)
            named.add(hit.session)
        return lines


class ProjectSearch(Struct, frozen=True):
    """A search of the transcripts in the directory `home` of a project.

    Hits name files relative to the directory `project`. `mask` hides secrets in a text.
    After `index_wait_s`, an index that another process uses is not waited for any longer.
    """

    home: Path
    project: Path
    mask: Callable[[str], str] = str
    index_wait_s: float = INDEX_WAIT_S

    def find(self, words: str, sids: Sequence[str], limit: int, here: str = "") -> SearchHits:
        """Return the facts of these sessions that match words or a question best. Blocks on the disk.

        Ids in the session `here` have no prefix, and its name is not repeated.
        """
        result = search_records(self.home, words, sids, limit, wait_s=self.index_wait_s)
        # One with few of the words can be the best, for those around it: only the last are called weak.
        strong = max((at for at, one in enumerate(result.found) if one.share >= WEAK_SHARE), default=-1)
        hits = [
            replace(_hit(one, here, self.project, self.mask), weak=at > strong)
            for at, one in enumerate(result.found)
        ]
        records = ProjectRecords(self.home)
        titles = {sid: self.mask(records.title_of(sid)) for sid in {hit.session for hit in hits} - {here}}
        titled = (replace(hit, title=titles.get(hit.session, "")) for hit in hits)
        return SearchHits(tuple(titled), result.note, is_vague=result.is_vague)


def _hit(one: Found, here: str, project: Path, mask: Callable[[str], str]) -> Hit:
    about = one.fact.about if isinstance(one.fact, Result) else {}
    path = about.get("path")
    match, excerpt = _excerpt(*_masked_around(one.text, one.start, mask))
    return Hit(
        id=f"r{one.fact.seq}" if one.sid == here else f"{one.sid}/r{one.fact.seq}",
        session=one.sid,
        ts=one.fact.ts,
        kind=mask(_kind(one)),
        excerpt=tuple(excerpt),
        score=one.score,
        path=path if isinstance(path, str) else "",
        changed=_has_changed(project, one.folder, path, about.get("sha256")),
        match=match,
        offset=one.start if len(one.text) > 30_000 else 0,  # longer texts are recalled in pages
        rewound=one.rewound,
    )


def _kind(one: Found) -> str:
    """Return the speaker of a fact; of a result its call: its name and its first string argument."""
    if one.call is None:
        return one.fact.speaker
    texts = (value for value in one.call.input.values() if isinstance(value, str) and value.strip())
    text = next(texts, "")[:320]
    if one.folder:
        text = text.replace(f"{one.folder}/", "")
    failed = "error of" if isinstance(one.fact, Result) and one.fact.error else "result of"
    return f"{failed} {one.call.name} {shorten(' '.join(text.split()), MAX_CALL_CHARS)}".strip()


def _masked_around(text: str, start: int, mask: Callable[[str], str]) -> tuple[str, int]:
    """Return the text around a match, and the offset of the match there.

    It is masked as a whole, since in a part of a secret, such as a line of a private key, none is recognized.
    """
    begin = max(0, start - MAX_MASKED_CHARS)
    around = text[begin : start + MAX_MASKED_CHARS]
    at = start - begin
    masked = mask(around)
    if masked == around:
        return around, at
    place = masked.find(around[at : at + MIN_MATCH_CHARS // 2])
    if place < 0:  # the match is in a secret
        same = enumerate(zip(around, masked, strict=False))
        place = next((at for at, (ours, theirs) in same if ours != theirs), 0)
    return masked, place


def _excerpt(text: str, start: int) -> tuple[int, list[str]]:
    """Return the line of the match and the next other one with a letter, cut to length, without bare tags.

    The number is the offset of the match in the first line.
    """
    begin = text.rfind("\n", 0, start) + 1
    if start - begin > MAX_LINE_CHARS // 2:
        begin = text.find(" ", start - 50, start - 30) + 1 or start - 40
    before = " ".join(text[begin:start].split())
    lines = (" ".join(line.split()) for line in text[begin : begin + 20 * MAX_LINE_CHARS].split("\n"))
    shown = (line for line in lines if any(map(str.isalpha, line)) and line.strip("</>") not in ADDED_TAGS)
    different = dict.fromkeys(shown)  # a reply may repeat what was thought before it
    return len(before), [shorten(line, MAX_LINE_CHARS) for line in islice(different, 2)]


def _middle_cut(text: str, most: int) -> str:
    """Return a text without its middle if it is long: a call may end with a path whose end tells most."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-((most + 1) // 2) :]}"


def _cut_around(line: str, match: int, most: int) -> str:
    """Return a line cut to length at both ends, so that the match stays."""
    if match + MIN_MATCH_CHARS <= most:
        return shorten(line, most)
    begin = line.rfind(" ", 0, match - most // 3) + 1
    return f"…{shorten(line[begin:], most - 1)}"


def _has_changed(project: Path, folder: str, path: object, sha256: object) -> bool | None:
    """Return whether a file of the project has changed since it was recorded; None if unknown.

    `folder` is the directory of the session; the project may have been moved or copied since.
    """
    if not isinstance(path, str) or not isinstance(sha256, str):
        return None
    recorded = Path(path)
    inside = recorded.relative_to(folder) if folder and recorded.is_relative_to(folder) else recorded
    try:
        found = Path(os.path.realpath(project / inside))
        if not found.is_relative_to(os.path.realpath(project)):
            return None  # files outside the project are not read, not even through a link
        return hashlib.sha256(read_regular(found, 64 << 20)).hexdigest() != sha256
    except (OSError, ValueError):
        return True  # removed, or no longer a regular file

"""Search transcripts for the facts that match a query best.

FTS5 ranks the facts (bm25). The words of the facts before and after one, and of the best facts of its
session, count a little for it. The best are then read from the transcript, and those with more of the words
come first. If the index cannot be used, one is made in memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from heapq import nlargest
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..codec import BadLine, decode_line
from ..errors import StoreError
from ..facts import Fact, Opened, Result
from ..load import MAX_LINE_BYTES
from ..messages import ToolUseBlock
from ..render_text import indexed_text
from ..session_lock import path_of
from ..storage.disk import opened_regular
from ..stored_outputs import OUTPUTS_FOLDER
from .filling import FILE_BITS, IndexFiller
from .index_file import INDEX_WAIT_S, IndexUnavailable, memory_database, open_database
from .placing import Matcher
from .words import USER_TERM, QueryTerm, query_terms

if TYPE_CHECKING:
    import sqlite3

# The weights were chosen on the questions in tests/bench/recorded_questions.py and the dialogues of LoCoMo.
MAX_RANKED = 1_500  # facts that FTS5 ranks; each takes more than a microsecond
MAX_SCORED = 4_000  # facts with a term, all of which FTS5 reads to weigh it
MAX_COMMON = 3  # terms of more facts that count; each takes one more query
NEIGHBOUR_WEIGHTS = {1: 0.15, 2: 0.1}  # of the better fact at this distance
SESSION_WEIGHT = 0.4  # of each of the best four facts of the session; less if one fact answers the query
SHARE_WEIGHT = 0.15  # of the share of the query that a fact contains; the best score by FTS5 counts as 1
RESULT_WEIGHT = 0.08  # of a result of a call: more often the source than what was said about it
NAME_WEIGHT = 1.0  # of a fact with the name that was asked for; twice for a result, which shows what it is
REWOUND_WEIGHT = 0.5  # of a fact that a rewind removed from the conversation
UPDATE_S = 2.0  # spent on indexing recently appended facts; the rest is not found yet
MEMORY_INDEX_S = 10.0  # spent on indexing for one search, if the index cannot be used: about 100 MB


class Found(Struct, frozen=True):
    """A fact that matches a query; the best match in `text` is at the offset `start`.

    `call`: the call that a result answers. `folder`: the directory of the session then, "" if unknown.
    `share`: of the query that the fact contains, from 0 to 1; rare words count more.
    """

    sid: str
    fact: Fact
    text: str
    start: int
    score: float
    share: float = 1.0
    call: ToolUseBlock | None = None
    folder: str = ""
    rewound: bool = False


class SearchResult(Struct, frozen=True):
    """The facts found, the best first; `note` is a notice about the search, "" for none."""

    found: tuple[Found, ...] = ()
    note: str = ""
    is_vague: bool = False  # the query has no words but those that are not indexed


VAGUE = SearchResult(note="the words are too short or too common to search for", is_vague=True)


def search_records(
    home: Path,
    query: str,
    sids: Sequence[str],
    limit: int,
    update_s: float = UPDATE_S,
    *,
    wait_s: float = INDEX_WAIT_S,
) -> SearchResult:
    """Return the facts of these sessions of the project `home` that match words or a question best.

    If another process uses the index for longer than `wait_s`, or it cannot be written, one is made in
    memory. Blocks on the disk. Raises nothing; a transcript that cannot be read is omitted.
    """
    if not query_terms(query):
        return VAGUE
    if not sids:
        return SearchResult()

    def search(database: sqlite3.Connection, seconds: float) -> SearchResult:
        unread = IndexFiller(home, database).update(sids, seconds)
        return _Search(database, home, sids).run(query, limit, unread)

    with suppress(IndexUnavailable), open_database(home, wait_s) as database:
        return search(database, update_s)
    try:
        with memory_database() as database:
            return search(database, MEMORY_INDEX_S)
    except IndexUnavailable as error:
        return SearchResult(note=f"transcripts cannot be searched: {error}")


class _Search:
    """A search of an open index."""

    def __init__(self, database: sqlite3.Connection, home: Path, sids: Sequence[str]) -> None:
        self._db = database
        self._db.execute("BEGIN")  # one transaction for all queries: one for each would take longer
        self._home = home
        self._read = cache(self._read_anew)  # hits of a session share its opening
        self._order = {sid: place for place, sid in enumerate(sids)}
        rows = self._db.execute("SELECT id, sid, facts FROM files WHERE sid IS NOT NULL")
        self._files = {id: (sid, facts) for id, sid, facts in rows if sid in self._order}
        first = min(self._files, default=0)
        self._ids = range(first << FILE_BITS, max(self._files, default=0) + 1 << FILE_BITS)

    def run(self, query: str, limit: int, unread: int) -> SearchResult:
        """Return the best facts for a query with terms; `unread` bytes of the transcripts are not indexed."""
        counts = self._counts(query_terms(query))
        (total,) = self._db.execute("SELECT total(facts) FROM files").fetchone()
        weights = {t: math.log(1 + (total - count + 0.5) / (count + 0.5)) for t, count in counts.items()}
        matcher = Matcher(weights)
        name = query.strip().strip("`'\"")
        name = name if len(name) >= 3 and len(name.split()) == 1 else ""
        whole = sum(weights[term] for term in counts if counts[term])
        ranked = self._ranked(counts, weights, limit=max(3 * limit, 100), is_name=bool(name))
        scores = self._weighed(ranked, whole)
        top = max(scores.values(), default=1.0)
        best = dict[tuple[int, float, str], tuple[Found, int]]()
        for id in sorted(scores, key=lambda id: -scores[id]):
            if len(best) >= max(limit, 60 if name else 12):  # facts read from the transcripts
                break
            if (one := self._found(id, scores[id] / top, matcher, name)) is None:
                continue
            # If a session and its copies share a fact, keep that of the first session.
            key = (one.fact.seq, one.fact.ts, one.text)
            if key not in best or self._order[one.sid] < self._order[best[key][0].sid]:
                best[key] = one, id
        merit = nlargest(limit, best.values(), key=lambda each: (each[0].score, each[0].fact.ts, each[1]))
        size = f"{max(0.1, unread / 1e6):,.1f} MB"
        note = f"{size} of transcripts are not indexed yet: search again later" if unread else ""
        return SearchResult(tuple(self._with_origin(*each) for each in merit), note)

    def _counts(self, terms: Sequence[QueryTerm]) -> dict[QueryTerm, int]:
        """Count the facts with each term, or with the first of its other forms that facts contain."""
        counts = dict[QueryTerm, int]()
        for term in terms:
            counted = ({form: self._count(form) for form in forms} for forms in _forms(term))
            counts |= next((found for found in counted if all(found.values())), {term: 0})
        return counts

    def _count(self, term: QueryTerm) -> int:
        """Count the facts that contain a term; beyond MAX_SCORED the number is an estimate."""
        query = """
            SELECT count(*), max(rowid) FROM (
                SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? LIMIT ?
            )
        """
        values = (_expression([term]), self._ids.start, self._ids.stop, MAX_SCORED)
        count, last = self._db.execute(query, values).fetchone()
        if count < MAX_SCORED:
            return int(count)
        return int(count * len(self._ids) // (last - self._ids.start + 1))

    def _ranked(
        self, counts: Mapping[QueryTerm, int], weights: Mapping[QueryTerm, float], limit: int, is_name: bool
    ) -> dict[int, float]:
        """Return the ids of the best facts with their scores by bm25.

        Only facts with one of the rarest terms are ranked; if all terms are common, those with the two
        rarest, and for a name those with all of its parts, if there are any. A term of more than MAX_SCORED
        facts counts as in a text of average length.
        """
        ordered = sorted((term for term, count in counts.items() if count), key=lambda term: counts[term])
        if not ordered:
            return {}
        sums = accumulate(counts[term] for term in ordered)
        telling = [term for term, sum in zip(ordered, sums, strict=True) if sum <= MAX_RANKED] or ordered[:1]
        scored = [term for term in ordered if counts[term] < MAX_SCORED] or ordered[:1]
        any_telling = _expression(telling)
        choices = [any_telling]
        if is_name or counts[ordered[0]] > MAX_RANKED:
            # Two common words say more than one.
            choices.insert(0, " AND ".join(_expression([term]) for term in ordered[: None if is_name else 2]))
        query = """
            SELECT rowid, -bm25(words) FROM words WHERE words MATCH ? AND +rowid IN (
                SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ?
                ORDER BY rowid DESC LIMIT ?
            )
        """
        # Who wrote a fact is no reason to find it, only to rank it higher.
        matched = _expression([*scored, QueryTerm(USER_TERM)])
        ids = (self._ids.start, self._ids.stop)
        scores = dict[int, float]()
        for chosen in choices:
            rows = self._db.execute(query, (matched, chosen, *ids, MAX_RANKED))
            if scores := {id: score for id, score in rows if id >> FILE_BITS in self._files}:
                break
        query = "SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ?"
        for term in () if is_name else ordered[len(scored) :][:MAX_COMMON]:
            for (id,) in self._db.execute(query, (f"({chosen}) AND {_expression([term])}", *ids)):
                if id in scores:
                    scores[id] += weights[term]
        return dict(nlargest(limit, scores.items(), key=lambda each: each[1]))

    def _weighed(self, ranked: Mapping[int, float], whole: float) -> dict[int, float]:
        """Return the scores of facts by their words, those of their neighbours and those of their session.

        The more facts a session has, the more of them match by chance. `whole` is the weight of all terms.
        """
        scores = dict[int, float]()
        sessions = defaultdict[int, list[float]](list)
        for id, score in ranked.items():
            for distance, weight in NEIGHBOUR_WEIGHTS.items():
                score += weight * max(ranked.get(id - distance, 0.0), ranked.get(id + distance, 0.0))
            scores[id] = score
            sessions[id >> FILE_BITS].append(score)
        share = SESSION_WEIGHT * min(1.0, 0.7 * whole / max(ranked.values(), default=1.0))
        extra = {
            file: share * sum(nlargest(4, each)) / self._files[file][1] ** 0.25
            for file, each in sessions.items()
        }
        return {id: score + extra[id >> FILE_BITS] for id, score in scores.items()}

    def _found(self, id: int, score: float, matcher: Matcher, name: str) -> Found | None:
        """Return a fact as read from its transcript, scored by its text too; None if it is gone."""
        sid, _ = self._files[id >> FILE_BITS]
        query = "SELECT seq, at, rewound FROM facts WHERE id = ?"
        seq, at, rewound = self._db.execute(query, (id,)).fetchone()
        fact = self._read(sid, at)
        if fact is None or fact.seq != seq:
            return None
        text = indexed_text(fact, self._home / OUTPUTS_FOLDER)
        share, start = matcher.place(text)
        is_result = isinstance(fact, Result)
        score += SHARE_WEIGHT * share + RESULT_WEIGHT * is_result
        if name and (at := text.find(name)) >= 0:
            start = at
            score += (1 + is_result) * NAME_WEIGHT
        if rewound:
            score *= REWOUND_WEIGHT
        return Found(
            sid=sid, fact=fact, text=text, start=start, score=score, share=share, rewound=bool(rewound)
        )

    def _with_origin(self, one: Found, id: int) -> Found:
        """Return a fact with the call that it answers, and the directory of its session at that time."""
        if not isinstance(one.fact, Result):
            return one
        query = "SELECT at, opened FROM facts WHERE id BETWEEN ? AND ? AND seq = ?"
        seq = one.fact.of if 0 < one.fact.of < one.fact.seq else 0
        row = self._db.execute(query, (id - 200, id, seq)).fetchone()
        reply, opened = (self._read(one.sid, at) for at in row) if row else (None, None)
        folder = opened.folder if isinstance(opened, Opened) else ""
        return replace(one, call=one.fact.call_in(reply), folder=folder)

    def _read_anew(self, sid: str, at: int) -> Fact | None:
        """Return the fact at an offset of a transcript; None if there is none any more."""
        with suppress(OSError, BadLine, StoreError), opened_regular(path_of(self._home, sid)) as file:
            file.seek(at)
            return decode_line(file.readline(MAX_LINE_BYTES))[0]
        return None


def _forms(term: QueryTerm) -> Iterator[list[QueryTerm]]:
    """Yield a term, and then what it may mean: the beginning of words, or a name without its capitals."""
    yield [term]
    word = term.text
    if len(word) >= 4:
        yield [QueryTerm(word, is_prefix=True)]
        yield from ([QueryTerm(word[:at]), QueryTerm(word[at:])] for at in range(3, len(word) - 2))


def _expression(terms: Sequence[QueryTerm]) -> str:
    """Return the FTS5 expression that matches any of these terms."""
    return " OR ".join(f'"{term.text}"{"*" if term.is_prefix else ""}' for term in terms)

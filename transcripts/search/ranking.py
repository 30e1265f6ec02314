"""Search transcripts for the facts that match a query best.

FTS5 ranks the facts (bm25). The words of the facts before and after one, and of the best facts of its
session, count a little for it. The best are then read from the transcript, and those with more of the words
come first.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from heapq import nlargest
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..codec import BadLine, decode_line
from ..errors import StoreError
from ..facts import Fact, Result
from ..load import MAX_LINE_BYTES
from ..messages import ToolUseBlock
from ..render_text import indexed_text
from ..session_lock import path_of
from ..storage.disk import opened_regular
from ..stored_outputs import OUTPUTS_FOLDER
from .filling import FILE_BITS, SAMPLED, IndexFiller
from .index_file import IndexUnavailable, use_index
from .words import USER_TERM, query_terms

if TYPE_CHECKING:
    import sqlite3

# The weights were chosen on the questions in tests/bench/recorded_questions.py and the dialogues of LoCoMo.
MIN_RANKED = 1_500  # facts that FTS5 ranks, each of which takes two microseconds; a hundredth of all if more
MAX_SCORED = 30_000  # facts with the terms that count, all of which FTS5 reads to weigh them
MIN_SAMPLED = 64  # facts of the sample with a term, by which all are counted; fewer are too inaccurate
NEIGHBOUR_WEIGHTS = {1: 0.15, 2: 0.1}  # of the better fact at this distance
SESSION_WEIGHT = 0.4  # of each of the best four facts of the session; less if one fact answers the query
SHARE_WEIGHT = 0.15  # of the share of the query that a fact contains; the best score by FTS5 counts as 1
RESULT_WEIGHT = 0.08  # of a result of a call: more often the source than what was said about it
NAME_WEIGHT = 1.0  # of a fact with the name or the quoted words; twice for a result, which shows what it is
REWOUND_WEIGHT = 0.5  # of a fact that a rewind removed from the conversation
MAX_PLACES = 30  # of a term in a text, of which the best is shown
SPAN_CHARS = 300  # in which words belong together
UPDATE_S = 2.0  # spent on indexing recently appended facts; the rest is not found yet


class Found(Struct, frozen=True):
    """A fact that matches a query; the best match in `text` is at the offset `start`.

    `call`: the call that a result answers. `strength`: 1 for as much as all words of the query once, in the
    fact and around it.
    """

    id: int
    sid: str
    fact: Fact
    text: str
    start: int
    score: float
    rewound: bool
    strength: float = 0.0
    call: ToolUseBlock | None = None


class SearchResult(Struct, frozen=True):
    """The facts found, the best first; `note` is a notice about the search, "" for none."""

    found: tuple[Found, ...] = ()
    note: str = ""


def search_records(
    home: Path, query: str, sids: Sequence[str], limit: int, update_s: float = UPDATE_S
) -> SearchResult:
    """Return the facts of these sessions of the project `home` that match words or a question best.

    Blocks on the disk. Raises nothing; a transcript that cannot be read is omitted.
    """
    if not query_terms(query):
        return SearchResult(note="the words are too short or too common to search for")
    if not sids:
        return SearchResult()

    def search(database: sqlite3.Connection) -> SearchResult:
        unread = IndexFiller(home, database).update(sids, update_s)
        found = _Search(database, home, sids).run(query, limit)
        size = f"{max(0.1, unread / 1e6):,.1f} MB"
        note = f"{size} of transcripts are not indexed yet: search again later" if unread else ""
        return SearchResult(tuple(found), note)

    try:
        return use_index(home, search)
    except IndexUnavailable as error:
        return SearchResult(note=f"transcripts cannot be searched: {error}")


class _Search:
    """A search of an open index."""

    def __init__(self, database: sqlite3.Connection, home: Path, sids: Sequence[str]) -> None:
        self._db = database
        self._db.execute("BEGIN")  # one transaction for all queries: one for each would take longer
        self._home = home
        self._read = cache(self._read_anew)  # a reply with several calls is read once
        rows = self._db.execute("SELECT id, sid, facts FROM files").fetchall()
        self._total = sum(facts for _, _, facts in rows)
        order = {sid: place for place, sid in enumerate(sids)}
        self._files = {id: (sid, facts) for id, sid, facts in rows if sid in order}
        self._order = {id: order[sid] for id, (sid, _) in self._files.items()}
        first = min(self._files, default=0)
        last = max(self._files, default=-1)
        self._ids = range(first << FILE_BITS, last + 1 << FILE_BITS)

    def run(self, query: str, limit: int) -> list[Found]:
        """Return the best facts for a query."""
        counts = self._counts(query_terms(query))
        odds = {term: (self._total - count + 0.5) / (count + 0.5) for term, count in counts.items()}
        weights = {term: math.log(1 + each) for term, each in odds.items()}
        asked = sum(max(1e-6, math.log(each)) for each in odds.values())  # as bm25 weighs terms
        typed = query.strip()
        name = typed.strip("`'\"")
        is_exact = len(name.split()) == 1 or len(typed) >= len(name) + 2  # one word, or in quotes
        name = name if is_exact and len(name) >= 3 else ""
        ranked = self._ranked(counts, is_name=bool(name))
        ranked = dict(nlargest(max(3 * limit, 100), ranked.items(), key=lambda each: each[1]))
        whole = sum(weights[term] for term in counts if counts[term])
        scores = self._distinct(self._weighed(ranked, whole))
        top = max(scores.values(), default=1.0)
        found = list[Found]()
        for id in sorted(scores, key=lambda id: -scores[id]):
            if len(found) >= max(limit, 60 if name else 12):  # facts read from the transcripts
                break
            if (one := self._found(id, scores[id] / top, weights, name)) is not None:
                found.append(replace(one, strength=scores[id] / asked))
        best = nlargest(limit, found, key=lambda one: (one.score, one.fact.ts))
        return [self._with_call(one) for one in best]

    def _counts(self, terms: Sequence[str]) -> dict[str, int]:
        """Count the facts with each term, or with the first of its other forms that facts contain."""
        counts = dict[str, int]()
        for term in terms:
            counted = ({form: self._count(form) for form in forms} for forms in _forms(term))
            counts |= next((found for found in counted if all(found.values())), {term: 0})
        return counts

    def _count(self, term: str) -> int:
        """Count the facts that contain a term, those with a common one in the sample."""
        values = (_any_of([term]), self._ids.start, self._ids.stop)
        query = "SELECT count(*) FROM {0} WHERE {0} MATCH ? AND rowid >= ? AND rowid < ?"
        sampled = int(self._db.execute(query.format("sample"), values).fetchone()[0])
        if sampled >= MIN_SAMPLED:
            return int(min(sampled * SAMPLED, self._total))
        return int(self._db.execute(query.format("words"), values).fetchone()[0])

    def _ranked(self, counts: Mapping[str, int], is_name: bool) -> dict[int, float]:
        """Return the ids of facts with their scores by bm25.

        Only facts with one of the rarest terms are ranked; if all terms are common, those with the two
        rarest, and for a name those with all of its parts, if there are any.
        """
        ordered = sorted((term for term, count in counts.items() if count), key=lambda term: counts[term])
        if not ordered:
            return {}
        most = max(MIN_RANKED, self._total // 100)
        telling = _rarest(counts, ordered, most)
        choices = [(_any_of(telling), telling)]
        if is_name:
            choices.insert(0, (_all_of(ordered), ordered))
        elif counts[ordered[0]] > most:
            choices.insert(0, (_all_of(ordered[:2]), ordered[:2]))  # two common words say more than one
        # Who wrote a fact is no reason to find it, only to rank it higher.
        scored = [*_rarest(counts, ordered, MAX_SCORED), USER_TERM]
        query = """
            SELECT rowid, -bm25(words) / 2 FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ?
            ORDER BY rowid DESC LIMIT ?
        """
        for chosen, terms in choices:
            others = [term for term in scored if term not in terms]
            # FTS5 weighs a term as often as the expression contains it: twice.
            matched = f"({chosen}) AND ({_any_of([*terms, *others, *others])})"
            rows = self._db.execute(query, (matched, self._ids.start, self._ids.stop, most))
            if scores := {id: score for id, score in rows if id >> FILE_BITS in self._files}:
                return scores
        return {}

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

    def _distinct(self, scores: Mapping[int, float]) -> dict[int, float]:
        """Return the scores of facts without those that are equal to one of a session that is named earlier.

        Of equal facts the best score counts.
        """
        wanted = ",".join(map(str, scores))
        hashes = dict(self._db.execute(f"SELECT id, hash FROM facts WHERE id IN ({wanted})"))
        chosen = dict[int, int]()
        best = dict[int, float]()
        for id in sorted(scores, key=lambda id: self._order[id >> FILE_BITS]):
            first = chosen.setdefault(hashes[id], id)
            best[first] = max(best.get(first, scores[id]), scores[id])
        return best

    def _found(self, id: int, score: float, weights: Mapping[str, float], name: str) -> Found | None:
        """Return a fact as read from its transcript, scored by its text too; None if it is gone."""
        sid, _ = self._files[id >> FILE_BITS]
        query = "SELECT seq, at, rewound FROM facts WHERE id = ?"
        seq, at, rewound = self._db.execute(query, (id,)).fetchone()
        fact = self._read(sid, at)
        if fact is None or fact.seq != seq:
            return None
        text = indexed_text(fact, self._home / OUTPUTS_FOLDER)
        share, start = locate(text, weights)
        is_result = isinstance(fact, Result)
        score += SHARE_WEIGHT * share + RESULT_WEIGHT * is_result
        if name and (at := text.find(name)) >= 0:
            start = at
            score += (1 + is_result) * NAME_WEIGHT
        if rewound:
            score *= REWOUND_WEIGHT
        return Found(id, sid=sid, fact=fact, text=text, start=start, score=score, rewound=bool(rewound))

    def _with_call(self, one: Found) -> Found:
        """Return a result with the call that it answers."""
        if not isinstance(one.fact, Result) or not 0 < one.fact.of < one.fact.seq:
            return one
        query = "SELECT at FROM facts WHERE id BETWEEN ? AND ? AND seq = ?"
        row = self._db.execute(query, (one.id - 200, one.id, one.fact.of)).fetchone()
        return replace(one, call=one.fact.call_in(self._read(one.sid, row[0]))) if row else one

    def _read_anew(self, sid: str, at: int) -> Fact | None:
        """Return the fact at an offset of a transcript; None if there is none any more."""
        with suppress(OSError, BadLine, StoreError), opened_regular(path_of(self._home, sid)) as file:
            file.seek(at)
            return decode_line(file.readline(MAX_LINE_BYTES))[0]
        return None


def locate(text: str, weights: Mapping[str, float]) -> tuple[float, int]:
    """Return the share of a query in a text, by the weights of its terms, and the offset of the best match.

    This is the rarest term where its line, and the text around it, contain most of the others.
    """
    folded = text.casefold()
    stems = {_stem(term): weight for term, weight in weights.items()}
    found = {stem: folded.count(stem) for stem in stems if stem in folded}
    if not found:
        return 0.0, 0

    def merit(start: int) -> float:
        before = folded[max(0, start - SPAN_CHARS) : start]
        after = folded[start : start + SPAN_CHARS]
        line = before.rpartition("\n")[2] + after.partition("\n")[0]
        around = before + after
        return sum(stems[stem] * ((stem in line) + (stem in around)) for stem in found)

    rarest = min(found, key=lambda stem: (found[stem], -stems[stem], folded.find(stem)))
    places = islice(re.finditer(re.escape(rarest), folded), MAX_PLACES)
    start = max((place.start() for place in places), key=merit)
    return sum(stems[stem] for stem in found) / sum(stems.values()), start


def _stem(term: str) -> str:
    """Return the beginning of a term without an ending, by which it is found in a text."""
    is_whole = len(term) < 5 or not term.isalpha()
    return term.rstrip("*") if is_whole else term[: max(3, len(term) - 3)]


def _forms(term: str) -> Iterator[list[str]]:
    """Yield a term, and then what it may mean: the beginning of words, or a name without its capitals."""
    yield [term]
    if len(term) >= 4:
        yield [f"{term}*"]
        yield from ([term[:at], term[at:]] for at in range(3, len(term) - 2))


def _rarest(counts: Mapping[str, int], ordered: Sequence[str], most: int) -> Sequence[str]:
    """Return the first of the terms, which so many facts at most contain together; at least one."""
    sums = accumulate(counts[term] for term in ordered)
    return [term for term, sum in zip(ordered, sums, strict=True) if sum <= most] or ordered[:1]


def _any_of(terms: Sequence[str]) -> str:
    """Return the FTS5 expression that matches any of these terms."""
    return " OR ".join(f'"{term}"'.replace('*"', '"*') for term in terms)


def _all_of(terms: Sequence[str]) -> str:
    return " AND ".join(_any_of([term]) for term in terms)

"""Search a project's records: by words or a question, the best first, each with where it is and what it says.

First the index gives the facts that have the words: own words count most, those of the turns next to them
less, and a little how much their whole session is about it. The best of them are then read from the record
and judged by how close together the words stand. Without an index the records are read through.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from heapq import heappushpop, nlargest
from itertools import chain, islice
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO

from .codec import BadLine, decode_line
from .disk import opened_unread
from .facts import Fact, Opened, Result, Rewound
from .listing import record_files
from .load import MAX_LINE_BYTES, read_record
from .messages import ToolUseBlock
from .record_errors import StoreError
from .render_text import call_of, indexed_text
from .search_index import (
    FILE_BITS,
    IndexUnavailable,
    Place,
    SearchIndex,
    begin_reading,
    merge_parts,
    name_beginnings,
    open_index,
    opening_before,
    terms_like,
)
from .search_terms import MIN_PREFIX_CHARS, Matcher, QueryTerm, Weights, query_terms, without_accents
from .session_lock import RECORDS_FOLDER
from .stored_outputs import OUTPUTS_FOLDER

MAX_FACTS_OF_TERM = 1_000  # the newest ones with a word that are looked at
MAX_CANDIDATES = 60  # that are weighed with their neighbours
MAX_READ_FACTS = 16  # that are read and judged by their texts
NEIGHBOUR_WEIGHTS = 0.5, 0.2  # of a word that stands one or two turns away
SESSION_WEIGHT = 0.15  # of how much the whole session is about the query
CLOSENESS_WEIGHT = 0.5  # of how much of the query stands in one place
BM25_K1, BM25_B = 1.2, 0.4  # each term counts once: what a long text holds more of is chance
MIN_SLIP_LIKENESS = 0.8  # of a word that nothing has and one that it is taken for
REWOUND_WEIGHT = 0.5  # of what is no part of the conversation any more
SLIP_WEIGHT = 0.7  # of the word that one which nothing has is taken for
SLICE_S = 0.2  # that the index is held for at once while it is brought up to date
UPDATE_S = 2.0  # that a search spends on what was appended since the last one; the rest is not found yet

Scores = Mapping[Place, float]


@dataclass(frozen=True, slots=True)
class Found:
    """A fact that fits a query; from `start` on its words stand together in `text`.

    `beside` tells that none does, but some in the facts beside it. `call` is the call that a result answers,
    `folder` where the session worked then ("": not known).
    """

    sid: str
    fact: Fact
    text: str
    start: int
    score: float
    beside: bool = False
    call: ToolUseBlock | None = None
    folder: str = ""
    rewound: bool = False


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found, the best first, and how many bytes of the records could not be looked through yet."""

    found: tuple[Found, ...] = ()
    unread: int = 0


def search_records(
    home: Path, query: str, sids: Sequence[str], limit: int, update_s: float = UPDATE_S
) -> SearchResult:
    """The facts of these sessions of the project `home` that fit best. `query`: words, or a question.

    Blocks on the disk. Raises nothing: a record that cannot be read is left out.
    """
    terms = query_terms(query)
    if not terms or not sids:
        return SearchResult()
    try:
        with open_index(home) as index, ExitStack() as files:
            unread = index.update(sids, time.monotonic() + update_s)
            begin_reading(index)
            scores, weights = _rank(index, terms, sids)
            records = RecordLines(home, files)
            best = _distinct(records, scores, sids, max(limit, MAX_READ_FACTS))
            scored = [(scores[place], place.sid, fact) for place, fact in best]
            judged = _judged(scored, weights, home / OUTPUTS_FOLDER, limit)
            at = {(place.sid, place.seq): place for place, _ in best}
            results = [_with_origin(index, records, one, at[one.sid, one.fact.seq]) for one in judged]
    except IndexUnavailable:
        return _search_without_index(home, query, sids, limit)
    return SearchResult(tuple(results), unread)


def search_facts(outputs: Path, query: str, sid: str, facts: Sequence[Fact], limit: int) -> tuple[Found, ...]:
    """The same among facts in memory, each word as telling as the others: for what no file holds."""
    weights = {term: term.weight for term in query_terms(query)}
    matcher = Matcher.of(weights)
    by_seq = {fact.seq: fact for fact in facts}
    openings = [fact for fact in facts if isinstance(fact, Opened)]
    stretches = [range(fact.to, fact.seq) for fact in facts if isinstance(fact, Rewound)]
    rewound = {fact.seq for fact in facts for stretch in stretches if fact.seq in stretch}
    weight_of = defaultdict(lambda: 1.0, dict.fromkeys(rewound, REWOUND_WEIGHT))
    scored = ((weight_of[fact.seq] * _plain_score(matcher, fact, outputs), sid, fact) for fact in facts)
    judged = _judged((each for each in scored if each[0]), weights, outputs, limit)
    made = []
    for one in judged:
        opened = next((each for each in reversed(openings) if each.seq < one.fact.seq), None)
        reply = by_seq.get(one.fact.of) if isinstance(one.fact, Result) else None
        made.append(_with_call(replace(one, rewound=one.fact.seq in rewound), reply, opened))
    return tuple(made)


def update_index(home: Path, is_over: Callable[[], bool]) -> bool:
    """Bring the project's index up to date, a little at a time so that searches come in between.

    Blocks; ends early once `is_over`, or where the index cannot be had: only then it is False.
    """
    with suppress(IndexUnavailable, StoreError):
        sids = recorded_sids(home)
        while not is_over():
            with open_index(home) as index:
                index.forget_all_but(sids)
                until = time.monotonic() + SLICE_S
                if not index.update(sids, until) and merge_parts(index, until):
                    return True
        return True
    return False


class IndexThread:
    """Brings a project's index up to date behind a session, which neither waits for it nor is ended late."""

    def __init__(self) -> None:
        self._over = Event()
        self._thread: Thread | None = None

    def begin(self, home: Path) -> None:
        """Begin, unless it is at work already."""
        if self._thread is None or not self._thread.is_alive():
            work = partial(update_index, home, self._over.is_set)
            self._thread = Thread(target=work, name="search index", daemon=True)
            self._thread.start()

    def end(self, wait: bool) -> None:
        """Have it end soon; with `wait`, return when it has ended."""
        self._over.set()
        if wait and self._thread is not None:
            self._thread.join()


def recorded_sids(home: Path) -> tuple[str, ...]:
    """The sessions of the project, the last written to first. Raises StoreError as `record_files` does."""
    return tuple(path.stem for path, _ in record_files(home))


def record_path(home: Path, sid: str) -> Path:
    """The record of a session of the project."""
    return home / RECORDS_FOLDER / f"{sid}.jsonl"


class RecordLines:
    """Single lines of a project's records, each record opened once; `files` closes them."""

    def __init__(self, home: Path, files: ExitStack) -> None:
        self._home, self._files = home, files
        self._open: dict[str, BinaryIO] = {}

    def fact_at(self, place: Place | None) -> Fact | None:
        """The fact that stands there; None where the record has changed meanwhile."""
        if place is None:
            return None
        try:
            file = self._open.get(place.sid) or self._opened(place.sid)
            file.seek(place.at)
            fact, _ = decode_line(file.readline(MAX_LINE_BYTES))
        except (OSError, BadLine):
            return None
        return fact if fact.seq == place.seq else None

    def _opened(self, sid: str) -> BinaryIO:
        fd = self._files.enter_context(opened_unread(record_path(self._home, sid)))
        self._open[sid] = self._files.enter_context(os.fdopen(fd, "rb", closefd=False))
        return self._open[sid]


def _rank(
    index: SearchIndex, terms: Sequence[QueryTerm], sids: Sequence[str]
) -> tuple[dict[Place, float], Weights]:
    """The scores of the facts that fit best, and how telling each term is (BM25's inverse frequency)."""
    within = index.ids_of(sids[0]) if len(sids) == 1 else None
    known = index.count() if within is None else len(within)
    having = {term: index.facts_with(term, within, MAX_FACTS_OF_TERM) for term in terms}
    for term in [term for term, ids in having.items() if not ids]:
        if (other := _other_form(index, term, within)) is not term:
            del having[term]
            having[other] = index.facts_with(other, within, MAX_FACTS_OF_TERM)
    weights = {
        term: term.weight * math.log(1 + (max(0, known - len(ids)) + 0.5) / (len(ids) + 0.5))
        for term, ids in having.items()
    }
    best = _most_telling(having, weights)
    places = index.places({id + step for id in best for step in (-1, 0, 1)})
    of_session = _session_scores(having, weights)
    scores = _own_and_neighbours(places, having, weights)
    wanted = frozenset(sids)
    return {
        place: (scores[id] + SESSION_WEIGHT * of_session[id >> FILE_BITS])
        * (REWOUND_WEIGHT if place.rewound else 1.0)
        for id, place in places.items()
        if place.sid in wanted
    }, weights


def _other_form(index: SearchIndex, term: QueryTerm, within: range | None) -> QueryTerm:
    """A term that nothing has, as the beginning of another, or else as what it is a slip for."""
    if len(term.text) < MIN_PREFIX_CHARS:
        return term
    spelt = without_accents(term.text)
    for beginning in chain((term.text,), name_beginnings(index, spelt)):
        longer = replace(term, text=beginning, is_prefix=True)
        if index.facts_with(longer, within, 1):
            return longer
    if within is not None and index.facts_with(term, None, 1):
        return term  # what another session has is no slip
    close = _slip_for(index, spelt)
    return QueryTerm(close, term.weight * SLIP_WEIGHT, is_prefix=True) if close else term


def _slip_for(index: SearchIndex, text: str) -> str:
    """The term that a word which nothing has is most like; "" for none."""
    from difflib import get_close_matches  # 3 ms that searches for words that are found save

    # Without the signs between parts: `resumesession` is found as `resume_session`.
    word, likely = text.replace("_", ""), dict[str, str]()
    without = str.maketrans("", "", word)
    for term in terms_like(index, text):
        letters = term.replace("_", "")
        common = len(letters) - len(letters.translate(without))  # at most so many characters are the same
        if 2 * common >= MIN_SLIP_LIKENESS * (len(word) + len(letters)):
            likely[letters] = term
    close = get_close_matches(word, likely, n=1, cutoff=MIN_SLIP_LIKENESS)
    return likely[close[0]] if close else ""


def _most_telling(having: Mapping[QueryTerm, list[int]], weights: Weights) -> list[int]:
    """The MAX_CANDIDATES facts whose own words count most, however long they are."""
    scores = dict[int, float]()
    for term, ids in having.items():
        weight = weights[term]
        for id in ids:
            scores[id] = scores.get(id, 0.0) + weight
    best = sorted(scores.values())[-MAX_CANDIDATES:]
    above = [id for id, score in scores.items() if score > best[0]]
    last = (id for id, score in scores.items() if score == best[0])
    return [*above, *islice(last, len(best) - len(above))]


def _own_and_neighbours(
    places: Mapping[int, Place], having: Mapping[QueryTerm, list[int]], weights: Weights
) -> dict[int, float]:
    """What each fact's own words and those of its neighbours count: of each word the nearest."""
    # A bit for each term that a fact has.
    terms = dict.fromkeys(chain.from_iterable(range(id - 2, id + 3) for id in places), 0)
    for at, ids in enumerate(having.values()):
        for id in terms.keys() & ids:
            terms[id] |= 1 << at

    values = [weights[term] for term in having]

    @cache
    def worth(bits: int) -> float:
        return sum(weight for at, weight in enumerate(values) if bits >> at & 1)

    beside, further = NEIGHBOUR_WEIGHTS
    mean = sum(place.terms for place in places.values()) / max(1, len(places))
    per_term = BM25_K1 * BM25_B / max(1, mean)
    scores = dict[int, float]()
    for id, place in places.items():
        own = terms[id]
        next_to = (terms[id - 1] | terms[id + 1]) & ~own
        near = (terms[id - 2] | terms[id + 2]) & ~own & ~next_to
        share = (BM25_K1 + 1) / (1 + BM25_K1 * (1 - BM25_B) + per_term * place.terms)
        share = max(share, beside)  # also of a very long text
        scores[id] = share * worth(own) + beside * worth(next_to) + further * worth(near)
    return scores


def _session_scores(having: Mapping[QueryTerm, list[int]], weights: Weights) -> dict[int, float]:
    """How much each session is about the query: how many of its facts have each word, with saturation."""
    scores: dict[int, float] = defaultdict(float)
    for term, ids in having.items():
        for file, count in Counter([id >> FILE_BITS for id in ids]).items():
            scores[file] += weights[term] * count / (count + BM25_K1)
    return scores


def _distinct(
    records: RecordLines, scores: Scores, sids: Sequence[str], most: int
) -> list[tuple[Place, Fact]]:
    """The facts that fit best; of one that a session and its copies share, that of the first of `sids`."""
    order, best = {sid: at for at, sid in enumerate(sids)}, list[tuple[Place, Fact]]()
    for place in sorted(scores, key=lambda each: -scores[each]):
        if len(best) == most:
            break
        fact = records.fact_at(place)
        at = next((at for at, (_, known) in enumerate(best) if known == fact), len(best))
        if fact is not None and (at == len(best) or order[place.sid] < order[best[at][0].sid]):
            best[at : at + 1] = [(place, fact)]
    return best


def _judged(
    scored: Iterable[tuple[float, str, Fact]], weights: Weights, outputs: Path, limit: int
) -> list[Found]:
    """The best facts by score and text; those where much of the query stands in one place come first."""
    matcher = Matcher.of(weights)
    judged, best = list[Found](), [0.0] * max(1, limit)  # `best`: a heap of the scores of those that are kept
    for score, sid, fact in scored:
        if score * (1 + CLOSENESS_WEIGHT) < best[0]:
            continue  # not even with all words in one place
        text = indexed_text(fact, outputs)
        closeness, start = matcher.closest(text)
        score *= 1 + CLOSENESS_WEIGHT * closeness
        judged.append(Found(sid, fact, text, start, score, beside=not closeness))
        heappushpop(best, score)
    return nlargest(limit, judged, key=lambda one: (one.score, one.fact.ts, one.fact.seq))


def _with_origin(index: SearchIndex, records: RecordLines, one: Found, place: Place) -> Found:
    """A result with the call that it answers, and with the folder that the session worked in then."""
    one = replace(one, rewound=place.rewound)
    if not isinstance(one.fact, Result):
        return one
    origins = index.place_before(place, one.fact.of), opening_before(index, place)
    reply, opened = map(records.fact_at, origins)
    return _with_call(one, reply, opened)


def _with_call(one: Found, reply: Fact | None, opened: Fact | None) -> Found:
    folder = opened.folder if isinstance(opened, Opened) else ""
    call = call_of(reply, one.fact) if isinstance(one.fact, Result) else None
    return replace(one, call=call, folder=folder)


def _search_without_index(home: Path, query: str, sids: Sequence[str], limit: int) -> SearchResult:
    """The same by reading the records through."""
    best, outputs = list[Found](), home / OUTPUTS_FOLDER
    for sid in sids:
        with suppress(StoreError):
            best += search_facts(outputs, query, sid, read_record(record_path(home, sid)).facts, limit)
    return SearchResult(tuple(nlargest(limit, best, key=lambda one: one.score)))


def _plain_score(matcher: Matcher, fact: Fact, outputs: Path) -> float:
    """What the different terms in a fact count."""
    stems = {stem for _, stem in matcher.matches(indexed_text(fact, outputs))}
    return sum(matcher.weights.get(stem, 0.0) for stem in stems)

"""Search transcripts for the facts that match a query best.

FTS5 ranks the facts (bm25). The words of the facts before and after one, and of the best facts of its
session, count a little for it. The best are then read from the transcript, and those with more of the words
come first. If the index cannot be used, the transcripts are read completely.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ..codec import BadLine, decode_line
from ..facts import Fact, Opened, Result
from ..load import MAX_LINE_BYTES
from ..messages import ToolUseBlock
from ..render_text import indexed_text
from ..storage.disk import opened_regular
from ..stored_outputs import OUTPUTS_FOLDER
from .filling import IndexFiller
from .index import Place, SearchIndex
from .index_file import INDEX_WAIT_S, IndexUnavailable, memory_database, open_database, record_path
from .placing import Matcher
from .words import MIN_PART_CHARS, QueryTerm, query_terms

if TYPE_CHECKING:
    import sqlite3

# The weights were chosen on the questions in tests/bench/recorded_questions.py and the dialogues of LoCoMo.
MAX_READ = 12  # facts read from the transcripts
MAX_READ_FOR_NAME = 60  # for a query that is one name
MIN_RANKED = 100  # facts among which the neighbours of one are looked for
NEIGHBOUR_WEIGHTS = {1: 0.15, 2: 0.1}  # of the better fact at this distance
# Of each of the best SESSION_FACTS facts of the session; divided by the fourth root of its number of facts,
# since the more a session has, the more of them match by chance. The weight is smaller if the best score is
# more than SESSION_QUERY_SHARE of the weight of all terms: then a single fact answers the query.
SESSION_WEIGHT = 0.4
SESSION_FACTS = 4
SESSION_QUERY_SHARE = 0.7
SHARE_WEIGHT = 0.15  # of the share of the query that a fact contains; the best score by FTS5 counts as 1
RESULT_WEIGHT = 0.08  # of a result of a call: more often the source than what was said about it
NAME_WEIGHT = 1.0  # of a fact with the name that was asked for; twice for a result, which shows what it is
REWOUND_WEIGHT = 0.5  # of a fact that a rewind removed from the conversation
MAX_TERMS_WITH_SLIPS = 8  # misspellings are corrected only in queries with at most this many terms
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

    def with_origin(self, reply: Fact | None, opened: Fact | None) -> Found:
        """Return it with the call that it answers, and the directory of its session at that time."""
        call = self.fact.call_in(reply) if isinstance(self.fact, Result) else None
        return replace(self, call=call, folder=opened.folder if isinstance(opened, Opened) else "")

    def as_rewound(self) -> Found:
        """Return it marked as removed from the conversation by a rewind."""
        return replace(self, score=self.score * REWOUND_WEIGHT, rewound=True)


class SearchResult(Struct, frozen=True):
    """The facts found, the best first.

    unread     bytes of the transcripts that could not be searched yet
    corrected  misspelt words, and the beginning of the words that were searched for instead
    is_vague   the query has no words but those that are not indexed
    failure    why nothing can be searched, "" if it can
    """

    found: tuple[Found, ...] = ()
    unread: int = 0
    corrected: tuple[tuple[str, str], ...] = ()
    is_vague: bool = False
    failure: str = ""

    def note(self) -> str:
        """Return a notice about what was not searched, or not for the words as they are; "" for none."""
        if self.is_vague:
            return "the words are too short or too common to search for"
        if self.failure:
            return f"transcripts cannot be searched: {self.failure}"
        notes = [f'nothing contains "{word}": searched for "{start}..."' for word, start in self.corrected]
        if self.unread:
            size = f"{max(0.1, self.unread / 1e6):,.1f} MB"
            notes.append(f"{size} of transcripts are not indexed yet: search again later")
        return "; ".join(notes)


class _Judge(Struct, frozen=True):
    """Judges facts by their text; `name` is a query that is a single name, "" for any other."""

    matcher: Matcher
    name: str

    def found(self, sid: str, fact: Fact, text: str, score: float) -> Found:
        """Return a fact with its final score; `score` is that of its words relative to the best fact."""
        share, start = self.matcher.place(text)
        is_result = isinstance(fact, Result)
        score += SHARE_WEIGHT * share + is_result * RESULT_WEIGHT
        if self.name and (at := text.find(self.name)) >= 0:
            start = at
            score += (1 + is_result) * NAME_WEIGHT
        return Found(sid=sid, fact=fact, text=text, start=start, score=score, share=share)


class _Source(Struct, frozen=True):
    """The source of found facts: `fact_at` returns None if the fact no longer exists."""

    fact_at: Callable[[Place], Fact | None]
    outputs: Path

    def text_of(self, fact: Fact) -> str:
        return indexed_text(fact, self.outputs)

    def with_origin(self, one: Found, place: Place, index: SearchIndex) -> Found:
        """Return a fact with the call that it answers, and the directory of its session at that time."""
        if not isinstance(one.fact, Result):
            return one
        reply = index.place_before(place, one.fact.of)
        opened = index.opening_before(place)
        return one.with_origin(reply and self.fact_at(reply), opened and self.fact_at(opened))


def _read_fact(home: Path, place: Place) -> Fact | None:
    """Return the fact at a place; None if the transcript has changed meanwhile."""
    with suppress(OSError, BadLine), opened_regular(record_path(home, place.sid)) as file:
        file.seek(place.at)
        fact, _ = decode_line(file.readline(MAX_LINE_BYTES))
        return fact if fact.seq == place.seq else None
    return None


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
    terms = query_terms(query)
    if not terms or not sids:
        return SearchResult(is_vague=not terms)
    name = _one_name(query)
    source = _Source(partial(_read_fact, home), home / OUTPUTS_FOLDER)

    def search(database: sqlite3.Connection, seconds: float) -> SearchResult:
        filler = IndexFiller(home, database)
        unread = filler.unread_bytes(filler.update(sids, time.monotonic() + seconds))
        return replace(_ranked(SearchIndex(database), source, terms, sids, limit, name), unread=unread)

    with suppress(IndexUnavailable), open_database(home, wait_s) as database:
        return search(database, update_s)
    try:
        with memory_database() as database:
            return search(database, MEMORY_INDEX_S)
    except IndexUnavailable as error:
        return SearchResult(failure=str(error))


def search_facts(outputs: Path, query: str, sid: str, facts: Sequence[Fact], limit: int) -> SearchResult:
    """Search facts in memory in the same way, for a session without a file. Raises nothing."""
    terms = query_terms(query)
    if not terms:
        return SearchResult(is_vague=True)
    by_seq = {fact.seq: fact for fact in facts}
    source = _Source(lambda place: by_seq.get(place.seq), outputs)
    try:
        with memory_database() as database:
            IndexFiller(outputs.parent, database, outputs).add_facts(sid, facts)
            return _ranked(SearchIndex(database), source, terms, [sid], limit, _one_name(query))
    except IndexUnavailable as error:
        return SearchResult(failure=str(error))


def _one_name(query: str) -> str:
    """Return a query that is a single name, as it is written; "" for any other query."""
    name = query.strip().strip("`'\"")
    return name if len(name) >= 3 and not any(map(str.isspace, name)) else ""


def _ranked(
    index: SearchIndex,
    source: _Source,
    terms: Sequence[QueryTerm],
    sids: Sequence[str],
    limit: int,
    name: str,
) -> SearchResult:
    """Return the best facts; those that contain `name` come first."""
    index.begin_reading()
    files = index.files(sids)
    if not files:
        return SearchResult()
    ids = range(min(each.start for each in files.values()), max(each.stop for each in files.values()))
    counts = _counts(index, terms, ids)
    if not counts:
        return SearchResult()
    total = index.count()
    weights = {term: _weight(total, count) for term, count in counts.items()}
    known = sum(weights.values())
    unknown = max(0, len(terms) - len(counts)) * _weight(total, 0)
    judge = _Judge(Matcher(weights), name)
    order = {sid: at for at, sid in enumerate(sids)}
    ranked = index.rank(counts, ids, max(3 * limit, MIN_RANKED))
    places = _weighed([place for place in ranked if place.file in files], files, known)
    if name:  # those with all of its parts come first
        every = index.rank(counts, ids, MAX_READ_FOR_NAME, every=True)
        whole = {place.id: place for place in every if place.file in files}
        places = [*whole.values(), *(place for place in places if place.id not in whole)]
    best = dict[tuple[int, float, str], tuple[Found, Place]]()
    for place in places:
        if len(best) >= max(limit, MAX_READ_FOR_NAME if name else MAX_READ):
            break
        fact = source.fact_at(place)
        if fact is None:
            continue
        text = source.text_of(fact)
        one = judge.found(place.sid, fact, text, place.score / places[0].score)
        if index.is_rewound(place.file, fact.seq):
            one = one.as_rewound()
        # If a session and its copies share a fact, keep that of the first session.
        key = (fact.seq, fact.ts, text)
        if key not in best or order[one.sid] < order[best[key][0].sid]:
            best[key] = one, place
    best_facts = nlargest(limit, best.values(), key=lambda each: _merit(each[0]))
    share = known / (known + unknown)
    found = (
        replace(source.with_origin(one, place, index), share=one.share * share) for one, place in best_facts
    )
    corrected = ((term.corrects, term.text) for term in counts if term.corrects)
    return SearchResult(tuple(found), corrected=tuple(corrected))


def _weighed(places: Sequence[Place], files: dict[int, range], whole: float) -> list[Place]:
    """Rank facts by their words, those of their neighbours and those of their session, the best first.

    `files` has the ids of the facts of each session, `whole` is the weight of all terms.
    """
    ranked = {place.id: place for place in places}
    scores = dict[int, float]()
    by_session = dict[int, list[float]]()
    for place in places:
        score = place.score
        for distance, weight in NEIGHBOUR_WEIGHTS.items():
            near = (ranked.get(place.id + step) for step in (-distance, distance))
            score += weight * max((one.score for one in near if one and one.file == place.file), default=0.0)
        scores[place.id] = score
        by_session.setdefault(place.file, []).append(score)
    best = max((place.score for place in places), default=0.0)
    weight = SESSION_WEIGHT * min(1.0, SESSION_QUERY_SHARE * whole / best) if best else 0.0
    extra = {
        file: weight * sum(nlargest(SESSION_FACTS, each)) / len(files[file]) ** 0.25
        for file, each in by_session.items()
    }
    weighed = [place._replace(score=scores[place.id] + extra[place.file]) for place in places]
    return sorted(weighed, key=lambda place: -place.score)


def _weight(facts: int, count: int) -> float:
    """Return the significance of a term that `count` of all facts contain."""
    return math.log(1 + (max(0, facts - count) + 0.5) / (count + 0.5))


def _merit(one: Found) -> tuple[float, float, int]:
    return one.score, one.fact.ts, one.fact.seq


def _counts(index: SearchIndex, terms: Sequence[QueryTerm], ids: range) -> dict[QueryTerm, int]:
    """Count the facts with each term.

    A term without any is tried as a prefix, as a misspelling, and as two terms written together.
    """
    counts = dict[QueryTerm, int]()
    for term in terms:
        count = index.count_with(term, ids)
        if not count and len(term.text) >= 4:
            term = replace(term, is_prefix=True)
            count = index.count_with(term, ids)
            # A term that another session contains is not a misspelling.
            is_known = count or index.count_with(term, range(1 << 62))
            if not is_known and len(terms) <= MAX_TERMS_WITH_SLIPS:
                stem = _slip_for(index, term.text)
                term = QueryTerm(stem, is_prefix=True, corrects=term.text) if stem else term
                count = index.count_with(term, ids)
        if count:
            counts[term] = count
        elif len(term.text) >= 2 * MIN_PART_CHARS:
            counts |= _joined_terms(index, term.text, ids)
    return counts


def _joined_terms(index: SearchIndex, word: str, ids: range) -> dict[QueryTerm, int]:
    """Count the facts with each of the two terms that a word joins, as in `maxtries`; {} if it joins none."""
    for at in range(MIN_PART_CHARS, len(word) - MIN_PART_CHARS + 1):
        parts = QueryTerm(word[:at]), QueryTerm(word[at:])
        counts = {part: count for part in parts if (count := index.count_with(part, ids))}
        if len(counts) == len(parts):
            return counts
    return {}


def _slip_for(index: SearchIndex, word: str) -> str:
    """Return the stem that is most similar to a word that is not in the index; "" for none."""
    from difflib import SequenceMatcher, get_close_matches  # saves 3 ms in searches for words that are found

    stems = index.stems_beginning(word[: max(2, len(word) // 3)], range(len(word) - 5, len(word) + 2))
    likely = {stem + word[len(stem) :]: stem for stem in stems}  # stem with the ending of the word
    for close in get_close_matches(word, likely, n=3, cutoff=0.8):
        if SequenceMatcher(None, likely[close], word).ratio() >= 0.68:  # not `post` for `postgres`
            return likely[close]
    return ""

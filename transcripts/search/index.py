"""Query the search index: the facts of the transcripts, their terms and their offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from .words import USER_TERM, QueryTerm

if TYPE_CHECKING:
    import sqlite3

MAX_RANKED = 1_500  # approximate number of facts that FTS5 ranks; each takes a microsecond
MAX_SCORED = 4_000  # facts with a term: FTS5 reads all of them to weigh it and to rank others
_PLACE = "facts.id, file, sid, seq, at"


class Place(NamedTuple):
    """A fact of a session: the offset of its line in the transcript (`at`), and its score by FTS5's bm25."""

    id: int
    file: int
    sid: str
    seq: int
    at: int
    score: float = 0.0


class SearchIndex:
    """An open and locked index. Its methods raise sqlite3.Error."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._db = database

    def begin_reading(self) -> None:
        """Begin one transaction for all queries: one per statement would take longer than the queries."""
        self._db.execute("BEGIN")

    def count(self) -> int:
        """Return about how many facts can be found."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM facts").fetchone()[0])

    def files(self, sids: Collection[str]) -> dict[int, range]:
        """Return the ids of the facts of these sessions, by the id of the file."""
        wanted = frozenset(sids)
        rows = self._db.execute("SELECT id, sid, lowest, highest FROM files WHERE lowest IS NOT NULL")
        return {id: range(lowest, highest + 1) for id, sid, lowest, highest in rows if sid in wanted}

    def count_with(self, term: QueryTerm, ids: range) -> int:
        """Count the facts among these that contain a term; beyond MAX_SCORED the number is an estimate."""
        query = """
            SELECT count(*), max(rowid) FROM (
                SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ? LIMIT ?
            )
        """
        values = (_expression([term]), ids.start, ids.stop, MAX_SCORED)
        count, last = self._db.execute(query, values).fetchone()
        return int(count if count < MAX_SCORED else count * len(ids) // (last - ids.start + 1))

    def rank(self, counts: dict[QueryTerm, int], ids: range, limit: int, every: bool = False) -> list[Place]:
        """Return the best facts by FTS5's bm25. `counts` has the number of facts with each term.

        Facts with only the most frequent terms are omitted if enough have others; with `every`, those that
        lack any of the terms. Terms of more than MAX_SCORED facts do not count unless there is no other.
        """
        ordered = sorted(counts, key=lambda term: counts[term])
        telling = ordered[:1]
        total = counts[ordered[0]]
        for term in ordered[1:]:
            total += counts[term]
            if total > MAX_RANKED:
                break
            telling.append(term)
        scored = [term for term in ordered if counts[term] < MAX_SCORED] or ordered[:1]
        # Who wrote a fact is no reason to find it, only to rank it higher.
        matched = _expression([*scored, QueryTerm(USER_TERM)])
        query = f"""
            SELECT {_PLACE}, score FROM (
                SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH ? AND +rowid IN (
                    SELECT rowid FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ?
                ) ORDER BY score DESC LIMIT ?
            ) AS best JOIN facts ON facts.id = best.rowid JOIN files ON files.id = file ORDER BY score DESC
        """
        required = " AND ".join(map(_expression, ([term] for term in ordered)))
        chosen = required if every else _expression(telling)
        values = (matched, chosen, ids.start, ids.stop, limit)
        return [Place(*row) for row in self._db.execute(query, values)]

    def is_rewound(self, file: int, seq: int) -> bool:
        """Return whether a rewind removed a fact from the conversation."""
        query = "SELECT 1 FROM rewound WHERE file = ? AND ? BETWEEN first AND last"
        return self._db.execute(query, (file, seq)).fetchone() is not None

    def place_before(self, place: Place, seq: int) -> Place | None:
        """Return the place of an earlier fact `seq` of the same session, or None if it is far away."""
        if not 0 < seq < place.seq:
            return None
        query = f"""
            SELECT {_PLACE} FROM facts JOIN files ON files.id = file
            WHERE facts.id BETWEEN ? AND ? AND file = ? AND seq = ?
        """
        row = self._db.execute(query, (place.id - 200, place.id, place.file, seq)).fetchone()
        return Place(*row) if row else None

    def opening_before(self, place: Place) -> Place | None:
        """Return the place of the last opening of the session before a fact, or None."""
        query = "SELECT seq, at FROM opened WHERE file = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
        row = self._db.execute(query, (place.file, place.seq)).fetchone()
        return place._replace(seq=row[0], at=row[1]) if row else None

    def stems_beginning(self, start: str, lengths: range) -> list[str]:
        """Return the stems in the index that begin with `start` and have one of these lengths."""
        self._db.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, words, row)"
        )
        query = "SELECT term FROM vocabulary WHERE term BETWEEN ? AND ? AND length(term) BETWEEN ? AND ?"
        found = self._db.execute(query, (start, start + chr(0x10FFFF), lengths[0], lengths[-1]))
        return [term for (term,) in found]


def _expression(terms: Iterable[QueryTerm]) -> str:
    """Return the FTS5 expression that matches any of these terms."""
    return " OR ".join(f'"{term.text}"{"*" if term.is_prefix else ""}' for term in terms)

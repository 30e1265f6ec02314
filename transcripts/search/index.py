"""Query the search index: the passages of the transcripts, their terms and their offsets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from .words import QueryTerm

if TYPE_CHECKING:
    import sqlite3

MAX_RANKED = 3_000  # approximate number of passages that FTS5 ranks; each takes a microsecond
_PASSAGE = "passages.id, file, sid, first, last, at"


class FoundPassage(NamedTuple):
    """The facts `first` to `last` of a session, the offset of their first line (`at`), and their score."""

    id: int
    file: int
    sid: str
    first: int
    last: int
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
        """Count the passages that can be found."""
        return int(self._db.execute("SELECT count(*) FROM passages").fetchone()[0])

    def ids_of(self, sids: Collection[str]) -> range:
        """Return the ids from the first to the last passage of these sessions."""
        wanted = frozenset(sids)
        rows = self._db.execute("SELECT sid, lowest, highest FROM files WHERE lowest IS NOT NULL")
        ends = [end for sid, lowest, highest in rows if sid in wanted for end in (lowest, highest)]
        return range(min(ends), max(ends) + 1) if ends else range(0)

    def count_with(self, term: QueryTerm, ids: range) -> int:
        """Count the passages among these that contain a term."""
        query = "SELECT count(*) FROM words WHERE words MATCH ? AND rowid >= ? AND rowid < ?"
        return int(self._db.execute(query, (_expression([term]), ids.start, ids.stop)).fetchone()[0])

    def rank(self, counts: dict[QueryTerm, int], ids: range, limit: int) -> list[FoundPassage]:
        """Return the best passages by FTS5's bm25. `counts` has the number of passages with each term.

        Passages with only the most frequent terms are omitted if enough have others.
        """
        ordered = sorted(counts, key=lambda term: counts[term])
        telling = ordered[:1]
        total = counts[ordered[0]]
        for term in ordered[1:]:
            total += counts[term]
            if total > MAX_RANKED:
                break
            telling.append(term)
        matched = _expression(ordered)
        if len(telling) < len(ordered):
            matched = f"({_expression(telling)}) AND ({matched})"
        query = f"""
            SELECT {_PASSAGE}, -bm25(words) FROM words CROSS JOIN passages ON passages.id = words.rowid
            JOIN files ON files.id = file
            WHERE words MATCH ? AND words.rowid >= ? AND words.rowid < ? ORDER BY words.rank LIMIT ?
        """
        return [FoundPassage(*row) for row in self._db.execute(query, (matched, ids.start, ids.stop, limit))]

    def is_rewound(self, file: int, seq: int) -> bool:
        """Return whether a rewind removed a fact from the conversation."""
        query = "SELECT 1 FROM rewound WHERE file = ? AND ? BETWEEN first AND last"
        return self._db.execute(query, (file, seq)).fetchone() is not None

    def passage_before(self, passage: FoundPassage, seq: int) -> FoundPassage | None:
        """Return the passage of an earlier fact `seq` of the same session, or None if it is far away."""
        query = f"""
            SELECT {_PASSAGE} FROM passages JOIN files ON files.id = file
            WHERE passages.id BETWEEN ? AND ? AND file = ? AND ? BETWEEN first AND last
        """
        row = self._db.execute(query, (passage.id - 200, passage.id, passage.file, seq)).fetchone()
        return FoundPassage(*row) if row else None

    def opening_before(self, passage: FoundPassage, seq: int) -> FoundPassage | None:
        """Return the last opening of the session before fact `seq` as a passage, or None."""
        query = "SELECT seq, at FROM opened WHERE file = ? AND seq < ? ORDER BY seq DESC LIMIT 1"
        row = self._db.execute(query, (passage.file, seq)).fetchone()
        return passage._replace(first=row[0], last=row[0], at=row[1]) if row else None

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

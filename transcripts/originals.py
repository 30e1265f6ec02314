"""Recall: the original text of anything that was left out of the conversation, by its id, or found by words.

Ids: `r12` a fact, `r12.0` one block of it, `r12-r40` a stretch, `c41` what a compaction left out. A whole
output that was kept beside the record is read from there when its hash still fits. Gives what the recall
tool expects of a library.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .codec import BadLine
from .facts import Clear, Compacted, Fact, Fold, Result, StoredOutput
from .fold import Folded
from .lazy_results import LazyResults
from .render_text import block_text, fact_text, speaker_of

_ID = re.compile(r"r(\d{1,15})(?:\.(\d{1,9}))?(?:-r(\d{1,15}))?\Z|c(\d{1,15})\Z")
PIECE = 4_000  # characters of one fact in a stretch; `r<seq>` gives the rest
STRETCH = 400_000  # characters of a stretch in all
EXCERPT = 160
FOUND = 20
LONG = 30_000  # characters; a longer text is recalled in pages, so that a hit in it needs its place
LARGEST = 64 << 20  # bytes; outputs are kept up to 50 MB


@dataclass(frozen=True, slots=True)
class Originals:
    """The record of a running session. `folded` is the live one; `outputs` the folder of stored outputs."""

    folded: Folded
    outputs: Path
    shelf: LazyResults = field(default_factory=LazyResults)

    def original(self, id: str) -> str:
        """The original text of a recall id. Raises KeyError with the ids that are near."""
        match = _ID.match(id.strip())
        if match is None:
            raise KeyError(f"{id!r} is no recall id: r12, r12.0, r12-r40 or c41")
        first, block, last, compaction = match.groups()
        if compaction is not None:
            return self._left_out(int(compaction))
        if last is not None:
            return self._stretch(self._between(int(first), int(last)))
        fact = self._fact(int(first))
        return self._whole(fact) if block is None else _one_block(fact, int(block), id)

    def find(self, words: str) -> list[tuple[str, str]]:
        """(id, excerpt) of at most 20 facts that hold all the words, most hits first, then the newest.

        Outputs that are kept beside the record are looked through as well; the excerpt of a long text
        begins with the character where it stands.
        """
        wanted = words.casefold().split()
        hits: list[tuple[int, int, str]] = []
        for fact in self._all() if wanted else ():
            text = self._kept(fact) or fact_text(fact)
            folded = text.casefold()
            counts = [folded.count(word) for word in wanted]
            if all(counts):
                hits.append((-sum(counts), -fact.seq, _excerpt(text, folded, wanted)))
        return [(f"r{-seq}", excerpt) for _, seq, excerpt in sorted(hits)[:FOUND]]

    def _all(self) -> Iterator[Fact]:
        """Every fact of the conversation, whole."""
        away = [fact.seq for fact in self.folded.facts if fact.seq in self.shelf]
        yield from (fact for fact in self.folded.facts if fact.seq not in self.shelf)
        try:
            yield from self.shelf.fetch_all(away) if away else ()
        except (OSError, BadLine):
            return  # what the disk does not give any more cannot be found

    def _fact(self, seq: int) -> Fact:
        facts = self.folded.facts
        at = bisect_left(facts, seq, key=lambda fact: fact.seq)
        if at < len(facts) and facts[at].seq == seq:
            return self._fetched(facts[at])
        near = [f"r{fact.seq}" for fact in facts[max(0, at - 3) : at + 3] if speaker_of(fact)]
        raise KeyError(f"there is no r{seq}; near it are {', '.join(near) or 'none'}")

    def _fetched(self, fact: Fact) -> Fact:
        if fact.seq not in self.shelf:
            return fact
        try:
            return self.shelf.fetch(fact.seq)
        except (OSError, BadLine) as error:
            raise KeyError(f"r{fact.seq} cannot be read from the record any more: {error}") from error

    def _between(self, first: int, last: int) -> list[Fact]:
        return [fact for fact in self.folded.facts if first <= fact.seq <= last and speaker_of(fact)]

    def _whole(self, fact: Fact) -> str:
        if isinstance(fact, Compacted):
            return self._left_out(fact.seq)
        text = fact_text(fact)
        if isinstance(fact, Result) and fact.stored is not None:
            return self._kept(fact) or f"{text}\n\n{_missing(fact.stored)}"
        return text or "(nothing was said there)"

    def _kept(self, fact: Fact) -> str | None:
        """The whole output of a fact that has one beside the record, if it is still there."""
        if isinstance(fact, Result) and fact.stored is not None:
            return stored_text(fact.stored, self.outputs)
        return None

    def _stretch(self, facts: Iterable[Fact]) -> str:
        pieces, size = [], 0
        for fact in facts:
            text = fact_text(self._fetched(fact))
            if len(text) > PIECE:
                text = f"{text[:PIECE]}\n[... {len(text) - PIECE:,} more characters: recall r{fact.seq}]"
            pieces.append(f"[r{fact.seq} {speaker_of(fact)}]\n{text}")
            size += len(text)
            if size > STRETCH:
                pieces.append(f"[... and more: recall the stretch behind r{fact.seq}]")
                break
        return "\n\n".join(pieces) or "(nothing was said there)"

    def _left_out(self, seq: int) -> str:
        made = next((one for one in self.folded.compactions if one.seq == seq), None)
        if made is None:
            known = ", ".join(one.id for one in self.folded.compactions[-6:]) or "none"
            raise KeyError(f"there is no compaction c{seq}; the newest are {known}")
        seqs = {edit.seq for edit in made.edits if isinstance(edit, Clear)}
        folds = [edit for edit in made.edits if isinstance(edit, Fold)]
        return self._stretch(
            fact
            for fact in self.folded.facts
            if speaker_of(fact) and (fact.seq in seqs or any(f.first <= fact.seq <= f.last for f in folds))
        )


def stored_text(stored: StoredOutput, outputs: Path) -> str | None:
    """A whole output from the folder of outputs; None where it is missing, elsewhere, or has changed."""
    path = outputs / Path(stored.path).name
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            about = os.fstat(fd)
            if not stat.S_ISREG(about.st_mode) or about.st_size > LARGEST:
                return None
            content = file.read()
    except OSError:
        return None
    if hashlib.sha256(content).hexdigest() != stored.sha256:
        return None
    return content.decode("utf-8", "replace")


def _missing(stored: StoredOutput) -> str:
    return f"[the whole output, {stored.size:,} bytes, is not in {stored.path} any more, or has changed]"


def _one_block(fact: Fact, index: int, id: str) -> str:
    blocks = fact.content if isinstance(fact, Result) else getattr(fact, "blocks", ())
    if index >= len(blocks):
        raise KeyError(f"there is no {id}; r{fact.seq} has {len(blocks)} blocks")
    return block_text(blocks[index])


def _excerpt(text: str, folded: str, words: list[str]) -> str:
    """The surroundings of the first hit, on one line. (Folding the case may move places by a little.)"""
    at = max(0, folded.find(words[0]) - EXCERPT // 3)
    line = " ".join(text[at : at + EXCERPT].split())
    where = f"[offset {at}] " if len(text) > LONG else ""
    return f"{where}{'…' if at else ''}{line}{'…' if at + EXCERPT < len(text) else ''}"

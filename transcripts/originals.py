"""Recall: the original text of anything that was left out of the conversation, by its id or found by words.

Ids: `r12` a fact, `r12.0` one block of it, `r12-r40` a stretch, `c41` what a compaction left out; with
`SESSION/` before it, the same of an earlier session of the project. A whole output that was stored beside the
record is read from there if its hash still fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from transcripts.patterns import lazy_pattern

from .errors import NoSuchSession, StoreError
from .facts import FACT_TYPES, Clear, Compacted, Fact, Fold, Reply, Result, Started, User
from .folding import Folded, fold
from .listing import ProjectRecords
from .load import LazyResults, read_transcript
from .messages import typed_blocks
from .render_text import block_text, content_text, fact_text, speaker_of
from .search import Found, Hit, make_hits, record_path, recorded_sids, search_facts, search_records, short_sid
from .stored_outputs import OutputsFolder

_RECALL_ID = lazy_pattern(r"r(\d{1,15})(?:\.(\d{1,9}))?(?:-r(\d{1,15}))?\Z|c(\d{1,15})\Z")
MAX_FACT_CHARS = 4_000  # of one fact in a stretch; `r<seq>` gives the rest
MAX_STRETCH_CHARS = 400_000
NOTHING_SAID = "(nothing was said there)"
REWOUND_NOTE = "[rewound: no part of the conversation now; makeroom -r {} --at r{} is a copy up to there]"


Scope = Literal["session", "project"]


class Originals(Struct, frozen=True):
    """The record of a running session `sid`: its live `folded`, and the folder of its stored outputs.

    `home` is the folder that holds the records, `project` the one that paths are relative to; None where no
    files are searched. With `typed`, prompts are shown without what was added to them, as people want them.
    """

    folded: Folded
    outputs: Path
    lazy_results: LazyResults = field(default_factory=LazyResults)
    sid: str = ""
    home: Path | None = None
    project: Path = Path()
    typed: bool = False

    def original(self, id: str) -> str:
        """The original text of a recall id. Raises KeyError, which names ids that exist."""
        sid, slash, rest = id.strip().rpartition("/")
        if slash and (wanted := self._whole_sid(sid)) != self.sid:
            return self._of_session(wanted).original(rest)
        return self._own_original(rest)

    def find(self, words: str, scope: Scope = "session", limit: int = 10) -> list[Hit]:
        """The facts that fit words or a question best, stored outputs included. Blocks on the disk.

        With the scope "project" the sessions that were recorded earlier are searched too.
        """
        home = self.home
        is_recorded = home is not None and record_path(home, self.sid).exists()
        found: list[Found] = []
        if not is_recorded:  # as before the first prompt
            found += search_facts(self.outputs, words, self.sid, list(self._whole_facts()), limit)
        if home is not None and (is_recorded or scope == "project"):
            every = recorded_sids(home) if scope == "project" else (self.sid,)
            sids = sorted(every, key=lambda sid: sid != self.sid)  # of copies the own one counts
            found += search_records(home, words, sids, limit).found
        return make_hits(found[:limit], self.sid, self.project)

    def prompt_in_view(self) -> str:
        """The id of what the person said last, "" where the context does not show all of it."""
        prompts = (fact for fact in reversed(self.folded.facts) if isinstance(fact, User))
        said = next((fact for fact in prompts if fact.source == "user"), None)
        edits = self.folded.edits
        if said is None or edits.covering(said.seq) is not None:
            return ""
        is_cleared = any(edits.clears.get((said.seq, at)) for at in range(len(said.blocks)))
        return "" if is_cleared else f"r{said.seq}"

    def _whole_sid(self, sid: str) -> str:
        """The id of the session with this id or name, or whose id begins so. Raises KeyError."""
        try:
            if self.home is None or sid == self.sid or ProjectRecords(self.home).path_of(sid).exists():
                return sid
            return ProjectRecords(self.home).find(sid).stem
        except StoreError as error:
            raise KeyError(str(error)) from error

    def _of_session(self, sid: str) -> Originals:
        """The record of an earlier session. Raises KeyError."""
        try:
            if self.home is None:
                raise NoSuchSession("no records are kept")
            loaded = read_transcript(ProjectRecords(self.home).path_of(sid))
        except StoreError as error:
            raise KeyError(str(error)) from error
        return replace(self, folded=fold(loaded.facts), lazy_results=loaded.lazy_results, sid=sid)

    def _own_original(self, id: str) -> str:
        match = _RECALL_ID.match(id.strip())
        if match is None:
            raise KeyError(f"{id!r} is no recall id: r12, r12.0, r12-r40 or c41")
        first, block, last, compaction = match.groups()
        if compaction is not None:
            return self._left_out(int(compaction))
        if rewound := _rewound(self, int(first), int(last or first)):
            note = REWOUND_NOTE.format(short_sid(self.sid), rewound[-1].seq)
            return f"{note}\n{replace(self, folded=Folded(rewound), home=None)._own_original(id)}"
        if last is not None:
            return self._stretch(fact for fact in self.folded.facts if int(first) <= fact.seq <= int(last))
        fact = self._fact(int(first))
        if block is None:
            return self._text(fact)
        blocks = fact.content if isinstance(fact, Result) else getattr(fact, "blocks", ())
        if int(block) >= len(blocks):
            raise KeyError(f"there is no {id}; r{fact.seq} has {len(blocks)} blocks")
        return block_text(blocks[int(block)])

    def _whole_facts(self) -> Iterator[Fact]:
        lazy = [fact.seq for fact in self.folded.facts if fact.seq in self.lazy_results]
        yield from (fact for fact in self.folded.facts if fact.seq not in self.lazy_results)
        with suppress(StoreError):  # what the disk no longer gives cannot be found
            yield from self.lazy_results.fetch(*lazy) if lazy else ()

    def _fact(self, seq: int) -> Fact:
        facts = self.folded.facts
        at = bisect_left(facts, seq, key=lambda fact: fact.seq)
        if at < len(facts) and facts[at].seq == seq:
            return self._fetched(facts[at])
        near = [f"r{fact.seq}" for fact in facts[max(0, at - 3) : at + 3] if speaker_of(fact)]
        told = f"near it are {', '.join(near)}" if near else "nothing was said in this session yet"
        raise KeyError(f"there is no r{seq}; {told}")

    def _fetched(self, fact: Fact) -> Fact:
        if fact.seq not in self.lazy_results:
            return fact
        try:
            return next(self.lazy_results.fetch(fact.seq))
        except StoreError as error:
            raise KeyError(f"r{fact.seq} cannot be read from the record any more: {error}") from error

    def _text(self, fact: Fact) -> str:
        if isinstance(fact, Compacted):
            return self._left_out(fact.seq)
        if isinstance(fact, Result) and fact.stored is not None:
            size = fact.stored.size
            path = fact.stored.path
            lost = f"[the whole output, {size:,} bytes, is not in {path} any more, or has changed]"
            return self._stored_output(fact) or f"{fact_text(fact)}\n\n{lost}"
        if isinstance(fact, Result):
            return "".join(map(block_text, fact.content)) or NOTHING_SAID  # byte for byte
        return self._words(fact) or _what_it_is(fact, self.folded.facts)

    def _words(self, fact: Fact) -> str:
        if self.typed and isinstance(fact, User):
            return content_text(typed_blocks(fact.blocks))
        return fact_text(fact)

    def _stored_output(self, fact: Fact) -> str | None:
        """The whole output of a fact that has one beside the record, if it is still there."""
        if isinstance(fact, Result) and fact.stored is not None:
            return OutputsFolder(self.outputs).read(fact.stored)
        return None

    def _stretch(self, facts: Iterable[Fact]) -> str:
        pieces = []
        size = 0
        for fact in facts:
            if not (speaker := speaker_of(fact)):
                continue
            text = self._words(self._fetched(fact))
            if len(text) > MAX_FACT_CHARS:
                left = len(text) - MAX_FACT_CHARS
                text = f"{text[:MAX_FACT_CHARS]}\n[... {left:,} more characters: recall r{fact.seq}]"
            pieces.append(f"[r{fact.seq} {speaker}]\n{text}")
            size += len(text)
            if size > MAX_STRETCH_CHARS:
                pieces.append(f"[... and more: recall the stretch behind r{fact.seq}]")
                break
        return "\n\n".join(pieces) or NOTHING_SAID

    def _left_out(self, seq: int) -> str:
        compaction = next((one for one in self.folded.compactions if one.seq == seq), None)
        if compaction is None:
            known = ", ".join(one.id for one in self.folded.compactions[-6:]) or "none"
            raise KeyError(f"there is no compaction c{seq}; the newest are {known}")
        cleared = {edit.seq for edit in compaction.edits if isinstance(edit, Clear)}
        folds = [edit for edit in compaction.edits if isinstance(edit, Fold)]
        return self._stretch(
            fact
            for fact in self.folded.facts
            if fact.seq in cleared or any(fold.first <= fact.seq <= fold.last for fold in folds)
        )


def is_recall_id(text: str) -> bool:
    """Return whether a text has the form of a recall id; one of another session begins with that and `/`."""
    return _RECALL_ID.match(text.rpartition("/")[2]) is not None


def _rewound(record: Originals, first: int, last: int) -> list[Fact]:
    """The facts of a stretch of which a rewind has left none, from the record's file."""
    facts = record.folded.facts
    home = record.home
    at = bisect_left(facts, first, key=lambda fact: fact.seq)
    if home is None or last >= record.folded.last_seq or (at < len(facts) and facts[at].seq <= last):
        return []
    with suppress(StoreError):
        return [
            fact
            for fact in read_transcript(ProjectRecords(home).path_of(record.sid)).facts
            if first <= fact.seq <= last
        ]
    return []


def _what_it_is(fact: Fact, facts: Iterable[Fact]) -> str:
    """Describe a fact without words to somebody who asks for its text."""
    if isinstance(fact, User | Reply):
        return NOTHING_SAID
    if isinstance(fact, Started):
        answers = (one for one in facts if isinstance(one, Result))
        result = next((one for one in answers if (one.of, one.block) == (fact.of, fact.block)), None)
        end = f"its result is r{result.seq}" if result is not None else "it has no result"
        return f"(r{fact.seq} notes that the call r{fact.of}.{fact.block} began to act; {end})"
    kind = next((name for name, made in FACT_TYPES.items() if type(fact) is made), "unknown")
    return f"(r{fact.seq} is a line of kind {kind!r} of the record, in which nothing is said)"

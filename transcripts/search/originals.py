"""Recall the original text of anything that was removed from the conversation, by id or by search.

Ids: `r12` is a fact, `r12.0` one of its blocks, `r12-r40` a range, and `c41` everything that a compaction
removed. With the prefix `SESSION/` they refer to an earlier session of the project. A full output that is
stored in a file of its own is read from there if its hash still matches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from transcripts import search  # most of which a session without a search never loads
from transcripts.patterns import lazy_pattern

from ..errors import NoSuchSession, StoreError
from ..facts import FACT_TYPES, Clear, Compacted, Fact, Fold, Reply, Result, User
from ..folding import Folded, fold
from ..listing import ProjectRecords
from ..load import LazyResults, read_transcript
from ..messages import typed_blocks
from ..render_text import block_text, content_text, fact_text
from ..session_lock import short_sid
from ..stored_outputs import OutputsFolder
from ..wording import pluralize

_RECALL_ID = lazy_pattern(r"r(\d{1,15})(?:\.(\d{1,9}))?(?:-r(\d{1,15}))?\Z|c(\d{1,15})\Z")
MAX_FACT_CHARS = 4_000  # of one fact in a range; `r<seq>` returns the whole text
NOTHING_SAID = "(no text)"
REWOUND_NOTE = (
    "[rewound: no longer part of the conversation. To continue from this point in a copy, "
    "run {}-r {} --at r{}]"
)


Scope = Literal["session", "project"]


class Originals(Struct, frozen=True):
    """The facts of a running session `sid` (its live `folded`) and the directory of its stored outputs.

    `home` is the directory with the transcripts, None if none are stored; paths are relative to `project`.
    With `typed`, prompts are shown to the user without what makeroom and hooks added. `program` is the
    command that starts makeroom, with a space at its end.
    """

    folded: Folded
    outputs: Path
    lazy_results: LazyResults = field(default_factory=LazyResults)
    sid: str = ""
    home: Path | None = None
    project: Path = Path()
    typed: bool = False
    program: str = "makeroom "

    def original(self, id: str) -> str:
        """Return the original text of a recall id. Raises KeyError with a message that lists valid ids."""
        sid, slash, rest = id.strip().rpartition("/")
        if slash and sid != self.sid:
            return self._of_session(sid)._own_original(rest)
        return self._own_original(rest)

    def find(self, words: str, scope: Scope = "session", limit: int = 10) -> search.SearchHits:
        """Return the facts that match words or a question best, stored outputs included. Blocks on the disk.

        The scope "project" includes the earlier sessions of the project.
        """
        if self.home is None:
            return search.SearchHits()
        every = ProjectRecords(self.home).sids() if scope == "project" else (self.sid,)
        sids = sorted(every, key=lambda sid: sid != self.sid)  # this session comes before its copies
        return search.ProjectSearch(self.home, self.project).find(words, sids, limit, here=self.sid)

    def prompt_in_view(self) -> str:
        """Return the id of the user's latest prompt, "" if the context does not show all of it."""
        prompts = (fact for fact in reversed(self.folded.facts) if isinstance(fact, User))
        said = next((fact for fact in prompts if fact.source == "user"), None)
        edits = self.folded.edits
        if said is None or edits.covering(said.seq) is not None:
            return ""
        is_cleared = any(edits.clears.get((said.seq, at)) for at in range(len(said.blocks)))
        return "" if is_cleared else f"r{said.seq}"

    def _of_session(self, sid: str) -> Originals:
        """Return the facts of the session with this id, name, or prefix of an id. Raises KeyError."""
        try:
            if self.home is None:
                raise NoSuchSession("this session has no transcript, so no other session can be recalled")
            path = ProjectRecords(self.home).find(sid)
            loaded = read_transcript(path, defer=True)
        except StoreError as error:
            raise KeyError(str(error)) from error
        return replace(self, folded=fold(loaded.facts), lazy_results=loaded.lazy_results, sid=path.stem)

    def _own_original(self, id: str) -> str:
        match = _RECALL_ID.match(id.strip())
        if match is None:
            raise KeyError(f"invalid recall id {id!r}. Valid forms: r12, r12.0, r12-r40, c41")
        first, block, last, compaction = match.groups()
        if compaction is not None:
            return self._left_out(int(compaction))
        if rewound := _rewound(self, int(first), int(last or first)):
            note = REWOUND_NOTE.format(self.program, short_sid(self.sid), rewound[-1].seq)
            return f"{note}\n{replace(self, folded=Folded(rewound), home=None)._own_original(id)}"
        if last is not None:
            return self._stretch(fact for fact in self.folded.facts if int(first) <= fact.seq <= int(last))
        fact = self._fact(int(first))
        if block is None:
            return self._text(fact)
        blocks = fact.content if isinstance(fact, Result) else getattr(fact, "blocks", ())
        if int(block) >= len(blocks):
            raise KeyError(f"unknown recall id {id}: r{fact.seq} has {pluralize(len(blocks), 'block')}")
        return block_text(blocks[int(block)])

    def _fact(self, seq: int) -> Fact:
        facts = self.folded.facts
        at = bisect_left(facts, seq, key=lambda fact: fact.seq)
        if at < len(facts) and facts[at].seq == seq:
            return self._fetched(facts[at])
        before = islice((fact for fact in reversed(facts[:at]) if fact.speaker), 3)
        after = islice((fact for fact in facts[at:] if fact.speaker), 3)
        near = [f"r{fact.seq}" for fact in (*reversed([*before]), *after)]
        hint = f"Closest ids: {', '.join(near)}" if near else "This session has no messages yet"
        raise KeyError(f"unknown recall id r{seq}. {hint}")

    def _fetched(self, fact: Fact) -> Fact:
        if fact.seq not in self.lazy_results:
            return fact
        try:
            return next(self.lazy_results.fetch(fact.seq))
        except StoreError as error:
            raise KeyError(f"cannot read r{fact.seq} from the transcript: {error}") from error

    def _text(self, fact: Fact) -> str:
        if isinstance(fact, Compacted):
            return self._left_out(fact.seq)
        if isinstance(fact, Result) and fact.stored is not None:
            stored = fact.stored
            lost = f"[the full output ({stored.size:,} bytes) is lost: {stored.path} was removed or changed]"
            return OutputsFolder(self.outputs).read(stored) or f"{fact_text(fact)}\n\n{lost}"
        if isinstance(fact, Result):
            return "".join(map(block_text, fact.content)) or NOTHING_SAID  # byte for byte
        if isinstance(fact, User | Reply):
            return self._words(fact) or NOTHING_SAID
        kind = next((name for name, made in FACT_TYPES.items() if type(fact) is made), "unknown")
        return f"(r{fact.seq} is a transcript entry of kind {kind!r}, without text)"

    def _words(self, fact: Fact) -> str:
        if self.typed and isinstance(fact, User):
            return content_text(typed_blocks(fact.blocks))
        return fact_text(fact)

    def _stretch(self, facts: Iterable[Fact]) -> str:
        pieces = []
        size = 0
        for fact in facts:
            if not (speaker := fact.speaker):
                continue
            text = self._words(self._fetched(fact))
            if len(text) > MAX_FACT_CHARS:
                left = len(text) - MAX_FACT_CHARS
                text = f"{text[:MAX_FACT_CHARS]}\n[... {left:,} more characters: recall r{fact.seq}]"
            pieces.append(f"[r{fact.seq} {speaker}]\n{text}")
            size += len(text)
            if size > 400_000:  # characters
                pieces.append(f"[... more follows: recall the range after r{fact.seq}]")
                break
        return "\n\n".join(pieces) or NOTHING_SAID

    def _left_out(self, seq: int) -> str:
        compaction = next((one for one in self.folded.compactions if one.seq == seq), None)
        if compaction is None:
            latest = ", ".join(one.id for one in self.folded.compactions[-6:]) or "none"
            raise KeyError(f"unknown compaction c{seq}. Latest compactions: {latest}")
        cleared = {edit.seq for edit in compaction.edits if isinstance(edit, Clear)}
        folds = [edit for edit in compaction.edits if isinstance(edit, Fold)]
        return self._stretch(
            fact
            for fact in self.folded.facts
            if fact.seq in cleared or any(fold.first <= fact.seq <= fold.last for fold in folds)
        )


def is_recall_id(text: str) -> bool:
    """Return whether a text has the form of a recall id, with or without `SESSION/`."""
    return _RECALL_ID.match(text.rpartition("/")[2]) is not None


def _rewound(record: Originals, first: int, last: int) -> list[Fact]:
    """Return the facts of a range that a rewind removed entirely, read from the transcript; else []."""
    facts = record.folded.facts
    home = record.home
    at = bisect_left(facts, first, key=lambda fact: fact.seq)
    if home is None or last >= record.folded.last_seq or facts[at].seq <= last:
        return []
    with suppress(StoreError):
        return [
            fact
            for fact in read_transcript(ProjectRecords(home).path_of(record.sid)).facts
            if first <= fact.seq <= last
        ]
    return []

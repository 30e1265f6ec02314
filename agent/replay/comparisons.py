"""Simple policies to compare the policies of makeroom with: two rules of a few lines, and an oracle.

`older` and `cliff` show what the machinery of `thrifty` buys; `oracle` shows what is left to gain. None of
them is a setting. The oracle has read the recording to its end: it clears what no later call needs, or what
costs clearly more to carry until then than to read again. It is not a lower bound: it makes the batch that
pays most now, and never summarizes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from compact import (
    CompactionPlan,
    Flow,
    Situation,
    Trigger,
    block_texts,
    cache_breakpoints,
    call_label,
    clear_candidates,
    placeholder_edit,
    plan,
    propose,
)
from transcripts import Clear, Edit, Exchange, Fold, Metadata, Prompt, Reply, Result, TextBlock, User

from .policies import Planner
from .simulation import Recording

OLD_CALLS = 20  # after which `older` clears a block
OLD_BATCH_TOKENS = 20_000  # that a batch of `older` frees
CLIFF_TOKENS = 50_000  # of a prompt, system and tools included, over which `cliff` folds
CLIFF_TAIL_SHARE = 0.25  # of them, that stay as they are
CLIFF_DIGEST_TOKENS = 4_000  # of the text that is shown instead of the rest
ORACLE_CALLS = 40  # at the standard price, within which a batch of the oracle pays for itself
ORACLE_MARGIN = 2  # of the cost of reading again over that of carrying, below which it carries

Choice = Callable[[Situation], Sequence[Edit]]
Block = tuple[int, int, str]
"""(seq, block, field) of a recorded text."""
_APPLIED = (User, Result, Reply, Metadata)  # facts of a recording that a replay applies


def comparison_planner(policy: str, recorded: Recording) -> Planner:
    """Return the planner of one of COMPARISON_POLICIES. Raises KeyError for another name."""
    choices: Mapping[str, Choice] = {"older": _older, "cliff": _cliff, "oracle": _Oracle.of(recorded).choose}
    return _planner_of(choices[policy])


def _planner_of(choose: Choice) -> Planner:
    def planner(situation: Situation, trigger: Trigger, focus: str, rung: int) -> Flow:
        if trigger != "auto":  # the prompt was refused
            return (yield from plan(situation, trigger, focus, rung))
        edits = tuple(choose(situation))
        return CompactionPlan((propose(situation, "micro", trigger, edits),) if edits else ())

    return planner


class _Clearable(Struct, frozen=True):
    """A block that could be cleared: the index of its message, what clearing it frees, and its place."""

    index: int
    gain: int
    block: Block


def _clearable(situation: Situation) -> Iterator[_Clearable]:
    folded = situation.folded
    for one in clear_candidates(folded):
        if one.part.seq <= folded.last_reply_seq:
            yield _Clearable(one.index, gain=one.gain, block=(one.part.seq, one.part.index, one.field))


def _clears(situation: Situation, blocks: Sequence[_Clearable]) -> Iterator[Clear]:
    """Yield the edits that show placeholders for these blocks."""
    folded = situation.folded
    for one in blocks:
        seq, index, name = one.block
        part = next(each for each in folded.view[one.index].parts if (each.seq, each.index) == (seq, index))
        if (edit := placeholder_edit(folded, part, name, situation.counter)) is not None:
            yield edit


def _older(situation: Situation) -> Sequence[Edit]:
    """Clear everything that is older than OLD_CALLS, once that frees OLD_BATCH_TOKENS."""
    exchanges = [entry for entry in situation.folded.entries if isinstance(entry, Exchange)]
    if len(exchanges) <= OLD_CALLS:
        return ()
    first_kept = exchanges[-OLD_CALLS].seq
    old = [one for one in _clearable(situation) if one.block[0] < first_kept]
    return tuple(_clears(situation, old)) if sum(one.gain for one in old) >= OLD_BATCH_TOKENS else ()


def _cliff(situation: Situation) -> Sequence[Edit]:
    """Fold everything but the newest part into a digest, once the prompt has CLIFF_TOKENS."""
    if situation.tokens < CLIFF_TOKENS:
        return ()
    entries = situation.folded.entries
    view = situation.view
    at = len(entries) - 1
    while at > 0 and view.tokens - view.tokens_before(view.index_of(entries[at - 1].seq)) <= (
        CLIFF_TAIL_SHARE * CLIFF_TOKENS
    ):
        at -= 1
    if at < 2:
        return ()
    digest = _digest(situation, at)
    tokens = situation.counter.text(digest)
    return (Fold(entries[0].seq, last=entries[at].seq - 1, blocks=(TextBlock(digest),), tokens=tokens),)


def _digest(situation: Situation, at: int) -> str:
    """Return the user's words and a line for each call of the first `at` entries, the newest that fit."""
    room = CLIFF_DIGEST_TOKENS
    lines: list[str] = []
    for entry in reversed(situation.folded.entries[:at]):
        if isinstance(entry, Prompt):
            added = [f"user: {text[:2_000]}" for text in block_texts(entry.fact.blocks)]
        else:
            added = [call_label(use) for use in entry.uses.values()]
        room -= situation.counter.text("\n".join(added))
        if room < 0:
            break
        lines[:0] = added
    return "[summarized: earlier messages]\n" + "\n".join(lines)


class _Oracle(Struct, frozen=True):
    """The future of a recording: the seqs of the replies that need each block, and of all replies."""

    needed_by: Mapping[Block, Sequence[int]]
    facts: Sequence[int]  # seqs of those that a replay applies
    replies: Sequence[int]

    @classmethod
    def of(cls, recorded: Recording) -> "_Oracle":
        needed_by: dict[Block, list[int]] = {}
        for seq, found in recorded.references.items():
            for reference in found:
                needed_by.setdefault((reference.sources[-1], 0, "content"), []).append(seq)
        for seq, edits in recorded.edits.items():
            for need in (need for edit in edits for need in edit.needs):
                needed_by.setdefault(need[-1], []).append(seq)
        facts = [fact.seq for fact in recorded.facts if isinstance(fact, _APPLIED)]
        replies = [fact.seq for fact in recorded.facts if isinstance(fact, Reply)]
        return cls({block: sorted(seqs) for block, seqs in needed_by.items()}, facts, replies)

    def choose(self, situation: Situation) -> Sequence[Edit]:
        """Return the batch that pays most within the calls that are left, at most ORACLE_CALLS."""
        folded = situation.folded
        view = situation.view
        prices = situation.prices
        done = self._not_worth_carrying(situation)
        asked = sum(isinstance(fact, Reply) for fact in folded.facts)
        left = min(len(self.replies) - asked, round(ORACLE_CALLS * (0.1 / prices.read) ** 0.5))
        best: Sequence[_Clearable] = ()
        most = 0.0
        for start in {0, *(place + 1 for place in cache_breakpoints(folded))}:
            going = [one for one in done if one.index >= start]
            freed = sum(one.gain for one in going)
            behind = view.tokens - view.tokens_before(start) - freed
            worth = freed * prices.read * left - behind * (prices.write - prices.read)
            if worth > most:
                best = going
                most = worth
        return tuple(_clears(situation, best))

    def _not_worth_carrying(self, situation: Situation) -> list[_Clearable]:
        """Return the blocks that cost more to carry to the call that needs them than to read again then."""
        folded = situation.folded
        applied = (fact.seq for fact in folded.facts if isinstance(fact, _APPLIED))
        numbers = dict(zip(applied, self.facts, strict=False))
        asked = sum(isinstance(fact, Reply) for fact in folded.facts)
        now = self.replies[asked]
        read = situation.prices.read
        write = situation.prices.write
        found = []
        for one in _clearable(situation):
            seq, index, name = one.block
            needed = self.needed_by.get((numbers[seq], index, name), ())
            at = bisect_left(needed, now)
            if at < len(needed):
                calls = bisect_left(self.replies, needed[at]) - asked
                reread = situation.tokens * read + one.gain * write
                if one.gain * read * calls <= ORACLE_MARGIN * reread:
                    continue
            found.append(one)
        return found

"""Decide for the thrifty policy whether to clear old results and inputs before this call, and which.

Before every call it compares the cost of keeping each block until the next batch with the expected cost of
losing it: the hazard that it is needed (hazards.py) times the cost of one more call and of the text again. A
block is clearable if keeping it costs more. Blocks are cleared in batches, because everything after an edit
is written to the prompt cache again. A batch takes all that is clearable, and summarizes the old messages in
which nothing is likely to be needed (settled_runs.py). It is due when it pays for the rewrite within a share
of the calls since the last one and the rewrite is a small share of what the session has cost, when the cache
has expired anyway, or when the window leaves no choice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from transcripts import Clear, PartKind

from .block_tracker import BlockTracker, TrackedBlock, loss_base, tracker_of
from .clearing import part_at, placeholder_edit
from .hazards import OLDEST_AGE, Cell, hazard_curves
from .settings import CompactSettings, ContextWindow
from .settled_runs import SettledRuns, settled_runs
from .situation import Situation
from .uncompact import Exemptions, Growth, exemptions, growth_since_compaction

PAYBACK_SHARE = 0.25  # of the calls since the last batch, within which the next one has to pay for itself
MAX_STAKE = 0.04  # of the cost of the session so far, that the rewrite of one batch may cost
MIN_BATCH_SHARE = 0.02  # of the window, that a batch frees, if that is less than batch_min_tokens
# Of the trigger: if a forced batch leaves more, blocks that are likelier needed go too.
MAX_FORCED_SHARE = 0.75
MIN_FORCED_SHARE = 0.5  # of the trigger: a forced batch before the first edit need not leave less than that
FORCED_CALLS = 5  # for which it makes room then, if they are as large as those since the last compaction
CORRECTED_CALLS = 3  # the newest calls, whose arguments the model may have to correct
BLOCKS_PER_LOOK = 300  # with more blocks, a batch is considered only every second call, and so on


class _Outlook(Struct, frozen=True):
    """The basis of a decision: the blocks as they are now, and the model's prices."""

    situation: Situation
    tracker: BlockTracker
    mean: Mapping[Cell, Sequence[float]]  # rates by age, over the calls that a cleared block is away
    prompt: int  # in our tokens
    exempt: Exemptions

    def rate(self, block: TrackedBlock) -> float:
        """Return the hazard of a block per token and call."""
        age = self.tracker.calls - block.touched
        return self.mean[block.cell][age if age < OLDEST_AGE else OLDEST_AGE]

    def open_blocks(self) -> Iterator[TrackedBlock]:
        """Yield the blocks that may be cleared, oldest first.

        The model has seen them, no newer result refers to them, and the user did not restore them. Arguments
        of the newest calls are left out, since the model may have to correct them.
        """
        seen = self.situation.folded.last_reply_seq
        calls = self.tracker.calls
        is_exempt = bool(self.exempt)
        for block in self.tracker.shown(self.situation.folded):
            exempt = is_exempt and self.exempt.holds(block.seq, block.index, block.field)
            is_new = block.cell is Cell.ARGUMENT and calls - block.touched < CORRECTED_CALLS
            if block.seq <= seen and block.needed_by <= seen and not (exempt or is_new):
                yield block


class Batch(NamedTuple):
    """The blocks to clear, in order, and the reason: "price", "cold cache" or "window".

    `settled` are the entries that a summary may replace; none if the user or a hook forbids it.
    """

    edits: tuple[Clear, ...]
    why: str
    settled: SettledRuns


def choose_batch(situation: Situation) -> Batch | None:
    """Return the batch that is due before this call, usually None.

    While the user has restored blocks, the trigger forces no batch, which would clear what is needed next.
    """
    forced = situation.tokens >= situation.trigger_tokens and not exemptions(situation)
    tracker = tracker_of(situation.folded)
    if not (forced or situation.cache_is_cold) and not _looks_now(situation, tracker):
        return None
    outlook = _outlook(situation, tracker)
    blocks = _clearable(outlook)
    chosen = _with_likelier(outlook, blocks) if forced else blocks
    if not chosen:
        return None
    summarizes = not (situation.vetoed or outlook.exempt)
    settled = settled_runs(situation, _staying(outlook, blocks)) if summarizes else SettledRuns()
    freed = _freed(situation, chosen, settled)
    if freed < max(1, situation.unscaled(min_batch_tokens(situation.settings, situation.window))):
        return None
    if not (forced or situation.cache_is_cold or _pays(situation, chosen, freed)):
        return None
    edits = tuple(filter(None, (_placeholder(situation, block) for block in chosen if not block.small)))
    why = "cold cache" if situation.cache_is_cold else "price"
    why = "window" if forced else why
    return Batch(edits, why=why, settled=settled) if edits else None


def _staying(outlook: _Outlook, clearable: Sequence[TrackedBlock]) -> list[int]:
    """Return the seqs of the facts with blocks that are likely to be needed."""
    going = set(map(id, clearable))
    shown = outlook.tracker.shown(outlook.situation.folded)
    return [block.seq for block in shown if id(block) not in going]


def _freed(situation: Situation, blocks: Sequence[TrackedBlock], settled: SettledRuns) -> int:
    """Return the approximate number of tokens that a batch frees, by our count."""
    folded = situation.folded
    alone = sum(block.gain for block in blocks)
    inside = sum(block.gain for block in blocks if settled.contain(block.seq))
    return alone + max(0, settled.tokens - inside - settled.summary_tokens(folded))


def _pays(situation: Situation, blocks: Sequence[TrackedBlock], freed: int) -> bool:
    """Return whether not reading what is freed pays for the rewrite within PAYBACK_SHARE of the calls.

    A session may end with any call, so the rewrite is never more than MAX_STAKE of what it has cost.
    """
    folded = situation.folded
    view = situation.view
    prices = situation.prices
    calls = _growth(situation).calls
    left = view.tokens - freed - (_dropped_thinking(situation, blocks[0].seq) if blocks else 0)
    cost = max(0, left) * (prices.write - prices.read)
    spent = prices.plain(folded.usage)
    if spent < situation.tokens:  # some servers report no usage
        spent = situation.tokens * (1 + prices.read * folded.conversation.reply_count / 2)
    if situation.scaled(round(cost)) > MAX_STAKE * spent:
        return False
    return PAYBACK_SHARE * calls * freed * prices.read >= cost


def min_batch_tokens(settings: CompactSettings, window: ContextWindow) -> int:
    """Return the minimum number of the model's tokens that a batch frees."""
    return min(settings.batch_min_tokens, int(MIN_BATCH_SHARE * window.size))


def _looks_now(situation: Situation, tracker: BlockTracker) -> bool:
    """Return whether to consider a batch for its price before this call; less often with many blocks."""
    return tracker.calls % (1 + len(tracker.shown(situation.folded)) // BLOCKS_PER_LOOK) == 0


def _outlook(situation: Situation, tracker: BlockTracker) -> _Outlook:
    """Return the outlook, with the expected references up to date."""
    prices = situation.prices
    prompt = situation.unscaled(situation.tokens)
    curves = hazard_curves(prices.read, situation.settings.batch_interval_calls)
    tracker.expect(situation.folded, curves)
    mean = {cell: tracker.rates(curves.mean, cell) for cell in Cell}
    return _Outlook(situation, tracker=tracker, mean=mean, prompt=prompt, exempt=exemptions(situation))


def _clearable(outlook: _Outlook) -> list[TrackedBlock]:
    """Return the blocks that cost more to keep than to lose, oldest first."""
    prices = outlook.situation.prices
    rate = outlook.rate
    base = loss_base(outlook.prompt, prices)
    write = prices.write
    read = prices.read
    return [block for block in outlook.open_blocks() if rate(block) * (base + block.tokens * write) < read]


def _dropped_thinking(situation: Situation, seq: int) -> int:
    """Return the tokens of the thinking that an edit of fact `seq` makes unusable."""
    view = situation.view
    return view.between(PartKind.THINKING, view.index_of(seq), len(view)) if situation.binds else 0


def _with_likelier(outlook: _Outlook, blocks: Sequence[TrackedBlock]) -> Sequence[TrackedBlock]:
    """Return the clearable blocks, and if they do not free enough, those least likely to be needed."""
    most = outlook.situation.unscaled(_most_left(outlook))
    left = outlook.prompt - sum(block.gain for block in blocks)
    if left <= most:
        return blocks
    taken = set(map(id, blocks))
    for block in sorted(outlook.open_blocks(), key=outlook.rate):
        if left <= most:
            break
        if id(block) not in taken and not block.small:
            taken.add(id(block))
            left -= block.tokens
    return [block for block in outlook.open_blocks() if id(block) in taken]


def _most_left(outlook: _Outlook) -> int:
    """Return the most of the model's tokens that a forced batch should leave.

    While the model only reads, a batch that leaves more would be followed by the next one within a few calls.
    After the first edit, more of what is in view is needed again.
    """
    trigger = outlook.situation.trigger_tokens
    most = MAX_FORCED_SHARE * trigger
    if not outlook.tracker.edited:
        growth = _growth(outlook.situation)
        room = FORCED_CALLS * growth.tokens / max(1, growth.calls)
        most = min(most, max(MIN_FORCED_SHARE * trigger, trigger - room))
    return round(most)


def _growth(situation: Situation) -> Growth:
    """Return the growth since the newest compaction, or since the beginning."""
    beginning = Growth(
        situation.folded.conversation.reply_count, situation.tokens - situation.scaled(situation.overhead)
    )
    return growth_since_compaction(situation) or beginning


def _placeholder(situation: Situation, block: TrackedBlock) -> Clear | None:
    shown = part_at(situation.view, block.seq, block.index)
    return shown and placeholder_edit(situation.folded, shown[1], block.field, situation.counter)

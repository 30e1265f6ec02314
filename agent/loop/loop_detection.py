"""Notice a call that is repeated and has the same result each time, and tell the model so."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from compact.put_back import is_put_back
from transcripts.entries import Exchange
from transcripts.fold import Folded
from transcripts.messages import Block, TextBlock, ToolUseBlock

TIMES = 3
MAX_COUNTED_TIMES = 20  # a reply may repeat a call two thousand times, and each one is looked at
NOTE = (
    "[the same call had the same result {times} times in a row; it will not change by itself: do something "
    "else, or say what is in the way]"
)


def with_repeat_note(folded: Folded, use: ToolUseBlock, content: tuple[Block, ...]) -> tuple[Block, ...]:
    """What a call came to; with a note where the calls before it were the same and ended so."""
    times = 1
    for before, outcome in islice(_latest(folded), MAX_COUNTED_TIMES):
        same = (before.name, before.input, _bare(outcome)) == (use.name, use.input, content)
        if not same:
            break
        times += 1
    told = times if times <= MAX_COUNTED_TIMES else f"more than {MAX_COUNTED_TIMES}"
    return content if times < TIMES else (*content, TextBlock(NOTE.format(times=told)))


def _latest(folded: Folded) -> Iterator[tuple[ToolUseBlock, tuple[Block, ...]]]:
    """Calls with their results, the newest first."""
    for entry in reversed(folded.entries):
        if isinstance(entry, Exchange):
            for block in sorted(entry.results, reverse=True):
                if block in entry.uses:
                    yield entry.uses[block], entry.results[block].content
        else:
            return


def _bare(content: tuple[Block, ...]) -> tuple[Block, ...]:
    content = tuple(block for block in content if not is_put_back(block))
    last = content[-1] if content else None
    told = isinstance(last, TextBlock) and last.text.startswith(NOTE[: NOTE.index("{")])
    return content[:-1] if told else content

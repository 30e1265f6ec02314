"""Detect a call that is repeated with the same result, add a note for the model, and finally end the turn.

The calls in the transcript are counted, so that a compaction between them hides none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from compact import is_result_id
from transcripts import Block, Exchange, Folded, TextBlock, ToolUseBlock

TIMES = 3
MAX_COUNTED_TIMES = 20  # a reply may repeat a call two thousand times, and the count is made for each
MAX_TIMES = 50  # after which the turn ends
STUCK = f"ended the turn: the same call returned the same result {MAX_TIMES} times in a row"
NOTE = (
    "[the same call had the same result {times} times in a row; it will not change by itself: try something "
    "else, or say what blocks you]"
)


def with_repeat_note(folded: Folded, use: ToolUseBlock, content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the result of a call, with a note if the calls before it were the same with the same result."""
    times = 1 + _equal(folded, use, content, MAX_COUNTED_TIMES)
    shown_times = times if times <= MAX_COUNTED_TIMES else f"more than {MAX_COUNTED_TIMES}"
    return content if times < TIMES else (*content, TextBlock(NOTE.format(times=shown_times)))


def is_stuck(folded: Folded) -> bool:
    """Return whether the newest MAX_TIMES calls were the same and had the same result."""
    newest = next(_latest(folded), None)
    return newest is not None and _equal(folded, newest[0], _bare(newest[1]), MAX_TIMES) == MAX_TIMES


def _equal(folded: Folded, use: ToolUseBlock, content: tuple[Block, ...], most: int) -> int:
    """Count the newest calls in a row that match this call and its result, up to `most`."""
    times = 0
    for before, outcome in islice(_latest(folded), most):
        if (before.name, before.input, _bare(outcome)) != (use.name, use.input, content):
            break
        times += 1
    return times


def _latest(folded: Folded) -> Iterator[tuple[ToolUseBlock, tuple[Block, ...]]]:
    """Yield the calls since the user's last prompt with their results, the newest first."""
    for entry in reversed(folded.conversation.entries):
        if isinstance(entry, Exchange):
            uses = entry.uses
            results = entry.results
            for block in sorted(results, reverse=True):
                if block in uses:
                    yield uses[block], results[block].content
        elif entry.fact.source == "user":
            return


def _bare(content: tuple[Block, ...]) -> tuple[Block, ...]:
    content = tuple(block for block in content if not (block.is_put_back or is_result_id(block)))
    last = content[-1] if content else None
    has_note = isinstance(last, TextBlock) and last.text.startswith(NOTE[: NOTE.index("{")])
    return content[:-1] if has_note else content

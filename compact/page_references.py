"""The lines by which results refer to each other: write them, and find them in a result.

A page of a file that repeats lines in view refers to the result that shows them, by its recall id:

    [lines 1-60 are unchanged since r6 above]
    [lines 62-161 are unchanged since r6 above, where they are lines 61-160]

So that the model finds that result, every page of a file ends with its own id: `[this result: r6]`.
"""

import re
from collections.abc import Sequence

from transcripts import Block, Result, TextBlock, ToolUseBlock
from transcripts.patterns import lazy_pattern

from .identifiers import joined_text

RESULT_ID_START = "[this result: r"
_FIRST_NUMBER = lazy_pattern(r" *(\d+)(?:→|\t)")
_UNCHANGED_IDS = lazy_pattern(
    r"^\[lines \d+-\d+ are (?:unchanged since r(\d+) above(?:, where they are lines \d+-\d+)?"
    r"|not repeated: as in (?:lines \d+-\d+ of )?r(\d+) above)\]$",  # as earlier versions wrote it
    re.MULTILINE,
)


def unchanged_lines(first: int, last: int, ident: str, there: int) -> str:
    """Return the line that replaces lines first..last of a page; result `ident` shows them from `there`."""
    moved = f", where they are lines {there}-{there + last - first}" if there != first else ""
    return f"[lines {first}-{last} are unchanged since {ident} above{moved}]"


def with_result_id(content: tuple[Block, ...], seq: int) -> tuple[Block, ...]:
    """Return the content of a result with a last line that names it, for results that refer to it later."""
    return (*content, TextBlock(f"{RESULT_ID_START}{seq}]"))


def is_result_id(block: Block) -> bool:
    """Return whether a block of a result is the line that names it."""
    return isinstance(block, TextBlock) and block.text.startswith(RESULT_ID_START)


def lines_shown(use: ToolUseBlock, result: Result) -> tuple[int, int]:
    """Return the first and last line of its file that a read shows: as recorded, or by numbers and offset."""
    first = result.about.get("first")
    last = result.about.get("last")
    if isinstance(first, int) and isinstance(last, int):
        return first, last
    text = joined_text(result.content)
    told = _FIRST_NUMBER.match(text)
    begin = use.input.get("offset")
    first = int(told[1]) if told else begin if isinstance(begin, int) and begin > 0 else 1
    return first, first + text.count("\n")


def pages_referred_to(content: Sequence[Block]) -> set[int]:
    """Return the seqs of the results that a page refers to for lines that it does not repeat."""
    found = _UNCHANGED_IDS.findall(joined_text(content))
    return {int(ident or old_ident) for ident, old_ident in found}

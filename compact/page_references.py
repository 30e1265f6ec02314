"""The line in a page that refers to another page for lines that are in view: its form, and how it is read."""

import re
from collections.abc import Sequence

from transcripts import (
    Block,
    Result,
    ToolUseBlock,
)
from transcripts.patterns import lazy_pattern

from .identifiers import joined_text

SHOWN_IN = "[lines {first}-{last} are not repeated: as in {where} above]"  # of a page whose lines are in view
_FIRST_NUMBER = lazy_pattern(r" *(\d+)(?:→|\t)")
_SHOWN_IN_IDS = lazy_pattern(r"^\[lines \d+-\d+ are not repeated: as in .*\br(\d+) above\]$", re.MULTILINE)


def lines_shown(use: ToolUseBlock, result: Result) -> tuple[int, int]:
    """The first and last line of its file that a read shows, as it tells them or by its offset."""
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
    """The seqs of the results that a page refers to for lines that it does not repeat."""
    return {int(ident) for ident in _SHOWN_IN_IDS.findall(joined_text(content))}

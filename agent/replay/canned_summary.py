"""The summary that replay answers with in the model's place.

The rule: nine sections under the headings that a summary has, filled in turn with the beginning of every
message of the person (up to 200 characters) and with the string inputs of the newest tool calls (up to 120
characters each), newest first, until 1,800 tokens; the same view gives the same text. Names that only tool
results had are not in it, so a canned summary never helps a reference: what a view keeps of them, the code
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from compact.identifiers import strings
from transcripts.entries import Exchange, Prompt
from transcripts.fold import Folded
from transcripts.messages import TextBlock

TOKENS = 1_800  # between 1.5k and 2k, the size of a usual summary
USER_CHARS = 200
INPUT_CHARS = 120
SECTIONS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code Sections",
    "Errors and Fixes",
    "Problem Solving",
    "All User Messages",
    "Pending Tasks",
    "Current Work",
    "Next Step",
)


def canned(folded: Folded, count: Callable[[str], int]) -> str:
    """An answer to a summary request, as a model would give it: analysis, then the summary."""
    rows: list[list[str]] = [[] for _ in SECTIONS]
    room = TOKENS - count(_written(rows))
    for section, line in _lines(folded):
        room -= count(line) + 2
        if room < 0:
            break
        rows[section].append(line)
    return _written(rows)


def _written(rows: list[list[str]]) -> str:
    parts = [
        f"{number}. {heading}:\n" + "\n".join(f"   - {line}" for line in lines or ["(nothing more)"])
        for number, (heading, lines) in enumerate(zip(SECTIONS, rows, strict=True), 1)
    ]
    return "<analysis>\nGone through in order.\n</analysis>\n<summary>\n" + "\n".join(parts) + "\n</summary>"


def _lines(folded: Folded) -> Iterator[tuple[int, str]]:
    for entry in folded.entries:
        if isinstance(entry, Prompt):
            for block in entry.fact.blocks:
                if isinstance(block, TextBlock):
                    yield 5, _one_line(block.text, USER_CHARS)
    turns = (0, 2, 3, 4, 7)
    number = 0
    for entry in reversed(folded.entries):
        if isinstance(entry, Exchange):
            for use in entry.uses.values():
                for text in strings(use.input):
                    yield turns[number % len(turns)], _one_line(text, INPUT_CHARS)
                    number += 1


def _one_line(text: str, limit: int) -> str:
    return " ".join(text[: 2 * limit].split())[:limit]

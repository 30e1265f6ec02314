"""Answer summary requests of a replay with the same text each time."""

from collections.abc import Callable, Iterator

from compact import strings
from transcripts import Exchange, Folded, Prompt, TextBlock

CANNED_SUMMARY_TOKENS = 1_800  # typical summaries have 1,500 to 2,000
SUMMARY_SECTIONS = (
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
INPUT_SECTIONS = (0, 2, 3, 4, 7)  # of SUMMARY_SECTIONS: those that receive tool inputs


def canned_summary(folded: Folded, count: Callable[[str], int]) -> str:
    """Return an answer to a summary request in the form of a model's answer: an analysis, then the summary.

    Its sections contain the first words of the user's messages and, in turn, of the newest tool inputs, up to
    CANNED_SUMMARY_TOKENS. The same view gives the same text. It contains no names that occurred only in
    results, so that it never resolves a reference: only the local summary keeps such names.
    """
    rows: list[list[str]] = [[] for _ in SUMMARY_SECTIONS]
    room = CANNED_SUMMARY_TOKENS - count(_formatted(rows))
    for section, line in _section_lines(folded):
        room -= count(line) + 2
        if room < 0:
            break
        rows[section].append(line)
    return _formatted(rows)


def _formatted(rows: list[list[str]]) -> str:
    parts = [
        f"{number}. {heading}:\n" + "\n".join(f"   - {line}" for line in lines or ["(nothing more)"])
        for number, (heading, lines) in enumerate(zip(SUMMARY_SECTIONS, rows, strict=True), 1)
    ]
    return "<analysis>\nGone through in order.\n</analysis>\n<summary>\n" + "\n".join(parts) + "\n</summary>"


USER_SECTION = 5


def _section_lines(folded: Folded) -> Iterator[tuple[int, str]]:
    """Yield (section index, line): the user's messages, oldest first, then the tool inputs, newest first."""
    for entry in folded.entries:
        if isinstance(entry, Prompt):
            for block in entry.fact.blocks:
                if isinstance(block, TextBlock):
                    yield USER_SECTION, _one_line(block.text, 200)
    exchanges = (entry for entry in reversed(folded.entries) if isinstance(entry, Exchange))
    texts = (text for entry in exchanges for use in entry.uses.values() for text in strings(use.input))
    for number, text in enumerate(texts):
        yield INPUT_SECTIONS[number % len(INPUT_SECTIONS)], _one_line(text, 120)


def _one_line(text: str, limit: int) -> str:
    return " ".join(text[: 2 * limit].split())[:limit]

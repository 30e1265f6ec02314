"""The lines by which results refer to each other: write them, find them, and keep them true.

A repeated read of the same page is answered by a reference to the result that shows it, by its recall id
(tools/read.py). In earlier versions, a page that repeated lines in view referred to them as well:

    File unchanged since r6 above. That result is still current and in this conversation: ...
    [lines 1-60 are unchanged since r6 above]
    [lines 62-161 are unchanged since r6 above, where they are lines 61-160]

So that the model finds that result, every page of a file ends with its own id: `[this result: r6]`. When a
compaction removes that result from the view, it also rewrites the references that stay:

    [lines 1-60 are unchanged since r6, which is no longer shown: read them again, or recall("r6")]

write and edit refuse text of these forms (tools/patch.py): change both together.
"""

import re
from collections.abc import Callable, Sequence

from transcripts import (
    Block,
    Clear,
    Folded,
    Part,
    PartKind,
    Result,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    View,
)
from transcripts.patterns import lazy_pattern

from .identifiers import joined_text

RESULT_ID_START = "[this result: r"
_RESULT_ID_LINE = lazy_pattern(r"^\[this result: r(\d+)\]$", re.MULTILINE)
_REFERRING_KINDS = frozenset({"reads", "recalls"})
_REFERENCE_MARKS = ("unchanged since", "not repeated: as in")  # each reference contains one of these
_FIRST_NUMBER = lazy_pattern(r" *(\d+)(?:→|\t)")
_UNCHANGED_IDS = lazy_pattern(
    r"^\[lines (\d+-\d+) are (?:unchanged since r(\d+) above(?:, where they are lines \d+-\d+)?"
    r"|not repeated: as in (?:lines \d+-\d+ of )?r(\d+) above)\]$",
    re.MULTILINE,
)
_UNCHANGED_FILE = lazy_pattern(r"\AFile unchanged since (?:r(\d+)|the user attached it) above\.[^\n]*")


def with_result_id(content: tuple[Block, ...], seq: int) -> tuple[Block, ...]:
    """Return the content of a result with a last line that names it, for results that refer to it later."""
    return (*content, TextBlock(f"{RESULT_ID_START}{seq}]"))


def is_result_id(block: Block) -> bool:
    """Return whether a block of a result is the line that names it."""
    return isinstance(block, TextBlock) and block.text.startswith(RESULT_ID_START)


def lines_shown(use: ToolUseBlock, result: Result) -> tuple[int, int]:
    """Return the first and last line of its file that a read shows: as recorded, or by numbers and offset."""
    if (lines := recorded_lines(result)) is not None:
        return lines
    text = joined_text(result.content)
    begin = use.input.get("offset")
    first = begin if isinstance(begin, int) and begin > 0 else 1
    if number := _FIRST_NUMBER.match(text):
        first = int(number[1])
    return first, first + text.count("\n")


def recorded_lines(result: Result) -> tuple[int, int] | None:
    """Return the first and last line of its file that a read shows, None if they were not recorded."""
    first = result.about.get("first")
    last = result.about.get("last")
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


def pages_referred_to(content: Sequence[Block]) -> set[int]:
    """Return the seqs of the results that a page refers to for lines that it does not repeat."""
    found = _UNCHANGED_IDS.findall(joined_text(content))
    return {int(ident or old_ident) for _, ident, old_ident in found}


def longest_own_stretch(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the longest stretch of lines of a page that neither refer to another one nor name this one."""
    patterns = (_UNCHANGED_IDS, _UNCHANGED_FILE, _RESULT_ID_LINE)
    stretches: list[list[str]] = [[]]
    for line in lines:
        if any(pattern.match(line) for pattern in patterns):
            stretches.append([])
        else:
            stretches[-1].append(line)
    longest: list[str] = max(stretches, key=len)
    return tuple(longest)


def refers_to_a_page(view: View) -> bool:
    """Return whether any result in the view may refer to another one."""
    parts = (part for message in view if message.role == "user" for part in message.parts)
    return any(_may_refer(part) for part in parts)


def resolved_references(folded: Folded, count: Callable[[str], int]) -> tuple[Clear, ...]:
    """Return the edits that rewrite the references in the view to results that it does not show.

    `count` returns our count of the tokens of a text.
    """
    view = folded.view
    shown: set[int] | None = None
    edits = list[Clear]()
    for message in view:
        for part in message.parts:
            if not _may_refer(part) or part.use is None or not isinstance(part.block, ToolResultBlock):
                continue
            result = folded.fact_at(part.seq)
            if folded.kind_of(part.use.name) not in _REFERRING_KINDS or not isinstance(result, Result):
                continue
            shown = _results_shown(view) if shown is None else shown
            same = result.about.get("unchanged")  # older records: True
            text = joined_text(part.block.content)
            resolved = _resolved(text, shown, None if same is True else same)
            if resolved != text:
                saves = sum(result.tokens) - count(resolved)
                edits.append(Clear(part.seq, block=part.index, field="content", text=resolved, saves=saves))
    return tuple(edits)


def with_resolved_references(folded: Folded, content: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return recalled content, with its references to results that the view does not show rewritten."""
    if not any(map(_refers, content)):
        return content
    shown = _results_shown(folded.view)
    return tuple(
        TextBlock(_resolved(block.text, shown)) if isinstance(block, TextBlock) and _refers(block) else block
        for block in content
    )


def _may_refer(part: Part) -> bool:
    return isinstance(part.block, ToolResultBlock) and any(map(_refers, part.block.content))


def _refers(block: Block) -> bool:
    return isinstance(block, TextBlock) and any(mark in block.text for mark in _REFERENCE_MARKS)


def _results_shown(view: View) -> set[int]:
    """Return the seqs of the results and prompts that the view shows, also those that a summary repeats."""
    whole = set[int]()
    changed = set[int]()
    repeated = set[int]()
    for part in (part for message in view for part in message.parts):
        if part.kind is not PartKind.PLACEHOLDER:
            whole.add(part.seq)
            continue
        changed.add(part.seq)
        blocks = part.block.content if isinstance(part.block, ToolResultBlock) else (part.block,)
        repeated.update(map(int, _RESULT_ID_LINE.findall(joined_text(blocks))))
    return (whole - changed) | repeated


def _resolved(text: str, shown: set[int], attached: int | None = None) -> str:
    """Return the text of a result, with each reference to a result that is not `shown` rewritten.

    `attached` is the prompt that a reference to an attachment means, None if that is not recorded.
    """

    def lines_line(found: re.Match[str]) -> str:
        lines, ident, old_ident = found.groups()
        page = int(ident or old_ident)
        return found[0] if page in shown else f"[lines {lines} are unchanged since {_remedy(page, 'them')}]"

    def file_line(found: re.Match[str]) -> str:
        page = int(found[1]) if found[1] else attached
        if page is None:
            return "[file unchanged since the user attached it: read it again]"
        if page in shown:
            return found[0]
        return f"[file unchanged since {_remedy(page, 'it')}]"

    return _UNCHANGED_FILE.sub(file_line, _UNCHANGED_IDS.sub(lines_line, text))


def _remedy(page: int, what: str) -> str:
    return f'r{page}, which is no longer shown: read {what} again, or recall("r{page}")'

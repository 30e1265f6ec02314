"""What can be cleared in a stretch of the view, and the edits that clear it.

Finding is cheap, by the counts that the parts carry; an edit's exact saving is counted only when it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transcripts.facts import Clear, Reply, Result, User
from transcripts.fold import Folded
from transcripts.messages import Block, ImageBlock, TextBlock, ToolResultBlock, ToolUseBlock
from transcripts.view import Part, PartKind

from .invariants import fact_at
from .placeholders import head_and_tail, input_line, is_placeholder, pasted_line, result_line
from .tokens import TokenCounter

LINE = 30  # tokens of a placeholder, about; exact when the edit is made
MIN_FIELD = 160  # characters of a tool input's field below which its placeholder would be hardly shorter
KEPT_FIELDS = frozenset({"file_path", "path", "notebook_path", "pattern", "description", "url", "glob"})


@dataclass(frozen=True, slots=True)
class ClearCandidate:
    """Something that could be cleared, in message `index` of the view; `gain` in tokens, about."""

    index: int
    part: Part
    field: str
    gain: int

    @property
    def key(self) -> tuple[int, int, str]:
        return self.part.seq, self.part.index, self.field


def candidates(folded: Folded, first: int, last: int, least: int) -> Iterator[ClearCandidate]:
    """Seen results and long inputs in the messages first..last-1 that would free `least` tokens each."""
    view, seen = folded.view, folded.last_reply_seq
    for index in range(first, last):
        for part in view[index].parts:
            if part.tokens < least + LINE:
                continue
            if part.kind is PartKind.RESULT:
                if part.seq <= seen and not shown_by_us(part):
                    yield ClearCandidate(index, part, "content", part.tokens - LINE)
            elif part.kind is PartKind.INPUT:
                yield from _fields(index, part, least)


def _fields(index: int, part: Part, least: int) -> Iterator[ClearCandidate]:
    if not isinstance(part.block, ToolUseBlock):
        return
    texts = {name: value for name, value in part.block.input.items() if isinstance(value, str)}
    characters = sum(len(value) for value in texts.values()) or 1
    for name, value in texts.items():
        gain = part.tokens * len(value) // characters - LINE
        if gain >= least and clearable(name, value):
            yield ClearCandidate(index, part, name, gain)


def clearable(name: str, value: object) -> bool:
    """Whether a field of a tool input is a long text that says nothing of where or what."""
    return (
        isinstance(value, str)
        and name not in KEPT_FIELDS
        and len(value) >= MIN_FIELD
        and not is_placeholder(value)
    )


def shown_by_us(part: Part) -> bool:
    """Whether what is shown is a placeholder or a preview already, or has no fact behind it."""
    return part.kind is PartKind.PLACEHOLDER or is_placeholder(text_of(part.block))


def text_of(block: Block) -> str:
    """The text of a result, or of a text."""
    if isinstance(block, ToolResultBlock):
        return "\n".join(piece.text for piece in block.content if isinstance(piece, TextBlock))
    return block.text if isinstance(block, TextBlock) else ""


def clear(folded: Folded, part: Part, field: str, count: TokenCounter) -> Clear | None:
    """The edit that shows a placeholder instead; None where that is not shorter.

    `saves` is against the original, whatever an earlier edit shows there now.
    """
    fact = fact_at(folded, part.seq)
    if isinstance(fact, Result) and field == "content":
        return made(part, field, result_line(part, sum(fact.tokens)), sum(fact.tokens), count)
    if isinstance(fact, Reply) and isinstance(part.block, ToolUseBlock):
        value = part.block.input.get(field)
        if not isinstance(value, str):
            return None
        line = input_line(part, field, value, count.text(value))
        return made(part, field, line, count.value(value), count)  # within JSON, as it is sent
    return None


def made(part: Part, field: str, text: str, original: int, count: TokenCounter) -> Clear | None:
    """The edit that shows `text` in place of `original` tokens; None where it is not shorter."""
    shown = count.value(text) if isinstance(part.block, ToolUseBlock) else count.text(text)
    saves = original - shown
    return Clear(part.seq, part.index, field, text, saves) if saves > 0 else None


def clear_pasted(folded: Folded, part: Part, characters: int, count: TokenCounter) -> Clear | None:
    """A long text of the user shown by its head and tail, an image by a line: a last resort."""
    fact = fact_at(folded, part.seq)
    if not isinstance(fact, User) or part.index >= len(fact.blocks):
        return None
    original = fact.blocks[part.index]
    tokens = fact.tokens[part.index] if part.index < len(fact.tokens) else part.tokens
    if isinstance(original, ImageBlock):
        return made(part, "source", pasted_line(part, tokens), tokens, count)
    if isinstance(original, TextBlock):
        text = head_and_tail(original.text, characters, f"r{part.seq}.{part.index}")
        return made(part, "text", text, tokens, count)
    return None


def path_in(use: ToolUseBlock) -> str:
    """The file that a call names, "" for none."""
    for name in ("file_path", "path", "notebook_path"):
        value = use.input.get(name)
        if isinstance(value, str):
            return value
    return ""

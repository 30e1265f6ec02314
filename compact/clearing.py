"""What can be cleared in a stretch of the view, and the edit that clears it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transcripts.facts import Clear
from transcripts.messages import Image, Text, ToolResult, ToolUse
from transcripts.view import Kind, Message, Part, View

from .budget import text_of
from .placeholders import TOKENS, input_line, pasted_line, result_line
from .tokens import Counter

MIN_FIELD = 400  # characters of a tool input's field below which clearing is not worth its placeholder
_PLACEHOLDERS = ("[cleared:", "<persisted-output")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An edit that could be made, in message `index`; `path` is the file that a result shows, if it is one."""

    index: int
    edit: Clear
    path: str = ""


def results(view: View, first: int, last: int, seen: int, least: int) -> Iterator[Candidate]:
    """Results in the messages first..last-1 that the model has seen and that are longer than `least` characters."""
    for index in range(first, last):
        for part in view[index].parts:
            if part.kind is Kind.RESULT and part.seq <= seen and (edit := clear_result(part, least)):
                yield Candidate(index, edit, path_of(part))


def inputs(view: View, first: int, last: int, count: Counter) -> Iterator[Candidate]:
    """Long string fields of tool inputs in the messages first..last-1."""
    for index in range(first, last):
        message: Message = view[index]
        if message.role == "assistant":
            for part in message.parts:
                for edit in clear_fields(part, count):
                    yield Candidate(index, edit)


def clear_result(part: Part, least: int) -> Clear | None:
    """The edit that clears a result, or None where it is short, cleared already, or an error worth keeping."""
    block = part.block
    if not isinstance(block, ToolResult):
        return None
    text = text_of(part)
    media = any(not isinstance(piece, Text) for piece in block.content)
    if (len(text) <= least and not media) or text.startswith(_PLACEHOLDERS):
        return None
    saves = part.tokens - TOKENS
    if saves <= 0:
        return None
    return Clear(part.seq, part.index, "content", result_line(part, part.tokens), saves)


def clear_fields(part: Part, count: Counter) -> Iterator[Clear]:
    """The edits that clear the long fields of a tool input; what says where and what stays."""
    block = part.block
    if not isinstance(block, ToolUse) or part.tokens < TOKENS * 2:
        return
    for name, value in block.input.items():
        if isinstance(value, str) and len(value) >= MIN_FIELD and not value.startswith(_PLACEHOLDERS):
            tokens = count.text(value)
            if tokens > TOKENS:
                yield Clear(part.seq, part.index, name, input_line(part, name, tokens), tokens - TOKENS)


def clear_pasted(part: Part) -> Clear | None:
    """The edit that clears a block of the user: a last resort."""
    if part.kind is not Kind.USER or part.tokens <= TOKENS:
        return None
    field = "source" if isinstance(part.block, Image) else "text"
    return Clear(part.seq, part.index, field, pasted_line(part, part.tokens), part.tokens - TOKENS)


def path_of(part: Part) -> str:
    """The file that a result is about, by the call that it answers; "" for none."""
    return "" if part.use is None else path_in(part.use)


def path_in(use: ToolUse) -> str:
    """The file that a call names, "" for none."""
    for name in ("file_path", "path", "notebook_path"):
        value = use.input.get(name)
        if isinstance(value, str):
            return value
    return ""

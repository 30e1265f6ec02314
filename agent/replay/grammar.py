"""The grammar of a request, checked a second time and apart from sound.py, message by message as they change.

Two checks written apart do not share a mistake: what this one finds and sound.py does not is a fault in one
of them. It knows the rules of the Messages API only, and nothing of how a view is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from transcripts.messages import (
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    is_thinking,
)
from transcripts.view import Message


@dataclass(frozen=True, slots=True)
class _Checked:
    """What the rules need of one message: its calls, the results it gives, and its own faults."""

    message: Message
    uses: tuple[str, ...]
    results: tuple[str, ...]
    faults: tuple[str, ...]


@dataclass(slots=True)
class Grammar:
    """The last request as checked; the next one is looked at from the first message that changed."""

    _rows: list[_Checked] = field(default_factory=list)
    _ids: Counter[str] = field(default_factory=Counter)

    def problems(self, messages: Sequence[Message], same: int) -> list[str]:
        """What the API would refuse. The first `same` messages are those of the call before."""
        for row in self._rows[same:]:
            self._ids.subtract(row.uses)
        del self._rows[same:]
        for message in messages[same:]:
            row = _check(message)
            self._rows.append(row)
            self._ids.update(row.uses)
        found = [fault for row in self._rows for fault in row.faults]
        found += self._order()
        return found + [f"tool id {ident} is used {n} times" for ident, n in self._ids.items() if n > 1]

    def _order(self) -> Iterator[str]:
        rows = self._rows
        if not rows or rows[0].message.role != "user":
            yield "the first message is not the user's"
        if rows and rows[-1].message.role != "user":
            yield "the last message is not the user's"
        for index, row in enumerate(rows):
            before = rows[index - 1] if index else None
            if before is not None and before.message.role == row.message.role:
                yield f"message {index} has the role of the one before"
            asked = before.uses if before is not None else ()
            if sorted(asked) != sorted(row.results):
                yield f"message {index} answers {row.results}, asked were {asked}"


def _check(message: Message) -> _Checked:
    blocks = [part.block for part in message.parts]
    uses = tuple(block.id for block in blocks if isinstance(block, ToolUseBlock))
    results = tuple(block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock))
    return _Checked(message, uses, results, tuple(_faults(message)))


def _faults(message: Message) -> Iterator[str]:
    blocks = [part.block for part in message.parts]
    if not blocks:
        yield "a message without content"
    words = False
    for block in blocks:
        match block:
            case TextBlock() if not block.text.strip():
                yield "an empty text block"
            case ToolResultBlock() if message.role != "user" or words:
                yield "a result behind other content, or said by the assistant"
            case ToolResultBlock(content=()):
                yield "a result without content"
            case ToolUseBlock() if message.role != "assistant":
                yield "a call by the user"
            case ThinkingBlock(signature=""):
                yield "thinking without its signature"
            case _:
                pass
        words = words or isinstance(block, TextBlock | ImageBlock)
    if message.role == "user" and any(is_thinking(block) for block in blocks):
        yield "thinking of the user"
    if message.role == "assistant" and blocks and all(is_thinking(block) for block in blocks):
        yield "an answer of thinking alone"

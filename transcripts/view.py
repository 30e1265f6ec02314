"""The view: the messages that are sent to the model; each part refers to the fact that it shows.

A view grows at its end and is truncated to the first message that an edit changes. It keeps a running tally
of tokens for each message, so that the size of any range is one subtraction.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, ClassVar, Literal

from msgspec import Struct, field

from .messages import Block, ToolResultBlock, ToolUseBlock


class PartKind(IntEnum):
    """The kind of a part; its value is its index in a tally."""

    USER = 0
    ASSISTANT = 1
    THINKING = 2
    INPUT = 3
    RESULT = 4
    PLACEHOLDER = 5


Tally = tuple[int, ...]
"""Tokens of the parts of each kind, indexed by the value of PartKind."""
NO_TOKENS: Tally = (0,) * len(PartKind)


class Part(Struct, frozen=True):
    """One block as shown.

    `seq` and `index` address the fact that it shows; `tokens` is our count of the block; `use` is the call
    that a result answers. A part that an edit inserted has the kind PLACEHOLDER.
    """

    block: Block
    seq: int
    index: int
    kind: PartKind
    tokens: int
    use: ToolUseBlock | None = None


class Message(Struct, frozen=True, eq=False):
    """One message of the view, showing the facts first..last.

    `encoded` caches the bytes of the message in each model adapter's format, by the name of the format.
    """

    CALL_ID_TOKENS: ClassVar = 24  # of the id of a call or result: 30 random characters
    FRAME_TOKENS: ClassVar = 4  # role and framing of one message, as in tiktoken's recipe

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]
    first: int
    last: int
    encoded: dict[str, bytes] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        shown = (self.role, self.parts)
        others = (other.role, other.parts)
        return shown == others and self.first == other.first and self.last == other.last

    def __hash__(self) -> int:
        return hash((self.role, self.parts, self.first, self.last))

    def joined_with(self, after: Message) -> Message:
        """Return one message with the parts of both."""
        return Message(self.role, parts=self.parts + after.parts, first=self.first, last=after.last)

    @property
    def tokens(self) -> int:
        ids = ids_in(self.parts) * self.CALL_ID_TOKENS
        return sum(part.tokens for part in self.parts) + ids + self.FRAME_TOKENS


def ids_in(parts: Iterable[Part]) -> int:
    """Count the parts that contain the id of a call: calls and results."""
    return sum(isinstance(part.block, ToolUseBlock | ToolResultBlock) for part in parts)


_to_text = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json_bytes(value: Any) -> bytes:
    """Encode a value as compact UTF-8 JSON with keys in the given order; equal values give equal bytes.

    Lone surrogates are replaced as in the transcript, so that a resumed session sends the same bytes.
    """
    return _to_text(value).encode("utf-8", "replace")


class View(list[Message]):
    """The messages as sent, with running tallies. Only `view_renderer.render_view` changes it.

    `starts` has for each rendered entry the index of its first message; -1 if it has none, or if it begins
    within the last message of the previous entry.
    """

    __slots__ = ("_ids", "_tallies", "_tokens", "starts")

    def __init__(self) -> None:
        self._tallies: list[Tally] = []
        self._ids: list[int] = []  # number of ids of calls in the messages up to each
        self._tokens: list[int] = []  # our count of the messages up to each, including framing
        self.starts: list[int] = []

    @property
    def tally(self) -> Tally:
        """Our count of all parts."""
        return self._tallies[-1] if self._tallies else NO_TOKENS

    @property
    def tokens(self) -> int:
        """Our count of all messages including framing, without system prompt and tools."""
        return self.tokens_before(len(self))

    def sendable(self) -> Sequence[Message]:
        """Return the messages up to the last user message, since models do not continue a reply."""
        end = len(self)
        while end and self[end - 1].role == "assistant":
            end -= 1
        return self[:end] if end < len(self) else self

    def tokens_before(self, index: int) -> int:
        """Return our count of the messages before `index`."""
        return self._tokens[index - 1] if index > 0 else 0

    def last_before(self, tokens: int) -> int:
        """Return the index of the last message that has at most `tokens` before it, by our count."""
        return bisect_right(self._tokens, tokens)

    def ids_before(self, index: int) -> int:
        """Return the number of ids of calls and results in the messages before `index`."""
        return self._ids[index - 1] if index > 0 else 0

    def between(self, kind: PartKind, first: int, last: int) -> int:
        """Return our count of the parts of one kind in the messages first..last-1."""
        if last <= first:
            return 0
        before = self._tallies[first - 1][kind] if first > 0 else 0
        return self._tallies[last - 1][kind] - before

    def index_of(self, seq: int) -> int:
        """Return the index of the first message that shows fact `seq` or a later one, else len(self)."""
        return bisect_left(self, seq, key=lambda message: message.last)

    def add(self, message: Message) -> bool:
        """Add a message at the end. Returns False if it was merged into the last one of the same role."""
        is_joined = bool(self) and self[-1].role == message.role
        if is_joined:
            last = self[-1]
            self.cut(len(self) - 1)
            message = last.joined_with(message)
        counts = list(self.tally)
        ids = self._ids[-1] if self._ids else 0
        for part in message.parts:
            counts[part.kind] += part.tokens
            ids += isinstance(part.block, ToolUseBlock | ToolResultBlock)  # like `ids_in`, in the same pass
        self.append(message)
        self._tallies.append(tuple(counts))
        self._ids.append(ids)
        self._tokens.append(sum(counts) + len(self) * Message.FRAME_TOKENS + ids * Message.CALL_ID_TOKENS)
        return not is_joined

    def copy(self) -> View:
        """Return an independent view of the same messages."""
        made = View()
        made.extend(self)
        made._tallies = list(self._tallies)
        made.starts = list(self.starts)
        made._ids = list(self._ids)
        made._tokens = list(self._tokens)
        return made

    def cut(self, length: int) -> None:
        """Drop the messages from `length` on."""
        del self[length:]
        del self._tallies[length:]
        del self._ids[length:]
        del self._tokens[length:]

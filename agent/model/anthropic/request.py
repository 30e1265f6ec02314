"""A view as the bytes of a request. Pure; the same view under the same frame gives the same bytes.

A message is encoded once, when it is first sent, and joined ever after; only the few messages that carry
a cache mark are encoded anew. Everything that stays the same in a session is in the frame, and comes
before the messages, so that each request is a byte-wise extension of the one before as far as the marks
allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transcripts.view import Message, dump

# Fields of a request that a compatible server may not take. One that is refused is dropped for the session.
OPTIONAL = ("thinking", "output_config", "cache_control", "eager_input_streaming")


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """What every request of a session has in common.

    system    the texts of the system prompt; tools: their definitions, in order
    thinking  the thinking field, or None; effort: low..max, or None for the model's default
    cache     "5m", "1h", or None for no cache marks
    without   optional fields that the server refused
    """

    model: str
    max_tokens: int
    system: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    thinking: Mapping[str, Any] | None = None
    effort: str | None = None
    cache: str | None = "5m"
    eager: bool = False
    without: frozenset[str] = frozenset()

    @property
    def mark(self) -> dict[str, Any] | None:
        """The cache_control of this session, or None."""
        if self.cache is None or "cache_control" in self.without:
            return None
        return {"type": "ephemeral"} if self.cache == "5m" else {"type": "ephemeral", "ttl": self.cache}

    def dropping(self, field: str) -> RequestFrame:
        """The frame without an optional field that the server refused."""
        return replace(self, without=self.without | {field})

    @property
    def head(self) -> dict[str, Any]:
        """The request without its messages, fields in the order in which they are sent."""
        head: dict[str, Any] = {"model": self.model, "max_tokens": self.max_tokens}
        if self.system:
            head["system"] = [{"type": "text", "text": text} for text in self.system]
            if self.mark:
                head["system"][-1]["cache_control"] = self.mark
        if self.tools:
            head["tools"] = [self._tool(tool) for tool in self.tools]
        if self.thinking and "thinking" not in self.without:
            head["thinking"] = dict(self.thinking)
        if self.effort and "output_config" not in self.without:
            head["output_config"] = {"effort": self.effort}
        return head

    def _tool(self, tool: Mapping[str, Any]) -> dict[str, Any]:
        if self.eager and "eager_input_streaming" not in self.without:
            return {**tool, "eager_input_streaming": True}
        return dict(tool)


def build(
    frame: RequestFrame,
    view: Sequence[Message],
    marks: Sequence[int] = (),
    ask: str = "",
    stream: bool = True,
) -> bytes:
    """The body of a request.

    `marks` are indices of messages that carry a cache mark besides the last one (system has its own; at
    most four in all). `ask` is one more user message at the end, without a mark: the last mark stays on
    the view, where the next request finds it.
    """
    pieces = [message.json for message in view]
    if (mark := frame.mark) is not None and view:
        for index in {*tuple(marks)[-2:], len(view) - 1}:
            pieces[index] = view[index].encode(mark)
    if ask:
        pieces.append(dump({"role": "user", "content": [{"type": "text", "text": ask}]}))
    head = dump({**frame.head, "stream": stream})
    return b'%b,"messages":[%b]}' % (head[:-1], b",".join(pieces))


def without_tail(view: Sequence[Message]) -> Sequence[Message]:
    """The view up to its last user message: the API takes no prefill."""
    end = len(view)
    while end and view[end - 1].role == "assistant":
        end -= 1
    return view[:end] if end < len(view) else view

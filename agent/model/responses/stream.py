"""Build one reply from the events of the Responses API: items, in order, each finished by its last event.

The item of `response.output_item.done` is authoritative; deltas are shown until it arrives. A block is
finished only by that event or by a response that ends as incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model.answer_reader import (
    MAX_BLOCKS,
    MAX_CALL_NAME_CHARS,
    ReplySize,
    name_reply,
    openai_usage,
    parsed_input,
    reply_label,
    too_large,
)
from agent.model_port import IncomingReply, PendingBlock
from transcripts import Block, TextBlock, ToolUseBlock, block_from_json, replace_surrogates

from .request import ReasoningItem

_KINDS: Mapping[str, Literal["text", "thinking", "tool input"]] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "tool input",
}
_PARAGRAPH = "\n\n"  # between the parts of a summary


class _OpenItem(PendingBlock):
    """An item, as far as it is known, and the size of its text so far."""

    item: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0


class ItemReader(Struct):
    """Fills `reply`; implements openai_http.ReplyReader. The items are numbered by the service."""

    reply: IncomingReply
    done: bool = False
    _open: dict[int, _OpenItem] = field(default_factory=dict)
    _begun: int = 0
    _size: ReplySize = field(default_factory=ReplySize)
    _calls: bool = False
    _refused: bool = False

    def feed(self, event: Mapping[str, Any]) -> Iterator[Event]:
        """See ReplyReader."""
        match event["type"]:
            case "response.created":
                name_reply(self.reply, event["response"])
            case "response.output_item.added":
                yield from self._begin(int(event["output_index"]), event["item"])
            case "response.output_text.delta" | "response.refusal.delta":
                yield TextDelta(self._extend(event))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield ThinkingDelta(self._extend(event))
            case "response.reasoning_summary_part.added" if self._opened(event).size:
                yield ThinkingDelta(self._extend({**event, "delta": _PARAGRAPH}))
            case "response.function_call_arguments.delta":
                self._extend(event)
                call = self._opened(event)
                yield ToolCallDelta(str(call.item["name"]), call.size)
            case "response.output_item.done":
                yield from self._end_item(int(event["output_index"]), event["item"])
            case "response.completed" | "response.incomplete":
                self._finish(event["response"])
            case "" if event.get("object") == "response":  # a server that does not stream
                name_reply(self.reply, event)
                for index, item in enumerate(event["output"]):
                    yield from self._end_item(index, item)
                self._finish(event)

    def end(self, announced: bool) -> None:
        """See ReplyReader. Only the last event of the service makes a reply complete."""

    def _opened(self, event: Mapping[str, Any]) -> _OpenItem:
        return self._open[int(event["output_index"])]

    def _begin(self, index: int, item: Mapping[str, Any]) -> Iterator[Event]:
        """Begin an item. Raises ValueError for an item that could neither be used nor sent back."""
        if self._begun >= MAX_BLOCKS:
            raise too_large(f"more than {MAX_BLOCKS:,} blocks")
        if index in self._open:
            raise ValueError("an item began twice")
        self._begun += 1
        opened = _OpenItem(_KINDS.get(item["type"], "other"), item=item)
        if opened.kind == "tool input":
            _check_call(item)
            yield ToolCallDelta(item["name"], 0)
        self._open[index] = self.reply.pending[index] = opened

    def _extend(self, event: Mapping[str, Any]) -> str:
        """Add the text of a delta to its item, and return it."""
        opened = self._opened(event)
        text = event["delta"]
        if not isinstance(text, str):
            raise TypeError("the delta is not a string")
        self._size.add(len(text))
        opened.pieces.append(text)
        opened.size += len(text)
        return text

    def _end_item(self, index: int, item: Mapping[str, Any]) -> Iterator[Event]:
        """Finish an item, and yield its text if no deltas have shown it."""
        if index not in self._open:
            yield from self._begin(index, item)
        opened = self._open[index]
        shown = opened.text
        text = _text_of(item) or shown
        if opened.kind == "text" and not shown and text:
            yield TextDelta(text)
        if opened.kind == "thinking" and not shown and text:
            yield ThinkingDelta(text)
        self._size.add(max(0, len(text) - opened.size) + len(str(item.get("encrypted_content") or "")))
        self._close(index, item, text)

    def _close(self, index: int, item: Mapping[str, Any], text: str) -> None:
        kind = self._open[index].kind
        block = _finished(kind, item, text)
        if block is not None:
            self.reply.blocks.append(block)
        self._calls = self._calls or kind == "tool input"
        self._refused = self._refused or _refuses(item)
        del self._open[index]
        del self.reply.pending[index]

    def _finish(self, response: Mapping[str, Any]) -> None:
        """End the reply with the last event, which has its usage and the reason why it ended."""
        self.done = True
        self.reply.usage = openai_usage(response.get("usage"), "input_tokens", "output_tokens")
        if response.get("status") != "incomplete":
            ended = "refusal" if self._refused else "end_turn"
            self.reply.stop = "tool_use" if self._calls else ended
        else:
            for index, opened in sorted(self._open.items()):
                self._close(index, {**opened.item, "status": "incomplete"}, opened.text)
            reason = str((response.get("incomplete_details") or {}).get("reason") or "incomplete")
            stops = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}
            self.reply.stop = stops.get(reason, reply_label(reason))
        self.reply.complete = not self._open


def _check_call(item: Mapping[str, Any]) -> None:
    name = item["name"]
    ident = item["call_id"]
    if not isinstance(name, str) or not isinstance(ident, str) or not name or not ident:
        raise ValueError("function call without a name or an id")
    if max(len(name), len(ident)) > MAX_CALL_NAME_CHARS:
        raise ValueError(f"the name or id of a call has more than {MAX_CALL_NAME_CHARS} characters")


def _text_of(item: Mapping[str, Any]) -> str:
    """Return the text of an item: what a message says, a summary of reasoning, the arguments of a call."""
    match item["type"]:
        case "message":
            return "".join(str(part.get("text") or part.get("refusal") or "") for part in item["content"])
        case "reasoning":
            parts = item.get("summary") or item.get("content") or ()
            return _PARAGRAPH.join(str(part.get("text") or "") for part in parts)
        case "function_call":
            return str(item.get("arguments") or "")
    return ""


def _refuses(item: Mapping[str, Any]) -> bool:
    return item["type"] == "message" and any(part.get("type") == "refusal" for part in item["content"])


def _finished(kind: str, item: Mapping[str, Any], text: str) -> Block | None:
    """Return the block of an item; None for reasoning without content, and for items of no use here.

    A call that was cut off is never one with arguments, not even if it stops before the first.
    """
    raw: dict[str, Any]
    match kind:
        case "tool input":
            _check_call(item)
            cut = item.get("status") == "incomplete"
            given = {ToolUseBlock.INVALID_JSON: text} if cut else parsed_input(text)
            raw = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": given}
        case "thinking":
            encrypted = item.get("encrypted_content")
            signature = ReasoningItem(str(item["id"]), str(encrypted)).as_signature() if encrypted else ""
            if not signature and not text:
                return None
            raw = {"type": "thinking", "thinking": text, "signature": signature}
        case "text":
            raw = {"type": "text", "text": text}
            if isinstance(phase := item.get("phase"), str):
                raw[TextBlock.PHASE] = reply_label(phase)
        case _:
            return None
    return block_from_json(replace_surrogates(raw))

"""Build one reply from the raw events of the Messages API.

The SDK's accumulator parses a tool's whole input again at each delta, aborts the stream on malformed JSON and
shows unfinished inputs as complete. This one joins strings, parses once when a block ends, and separates
finished from unfinished blocks: no tool may run from a block without its `content_block_stop` or from a reply
without `message_stop`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from agent.events import Event, Notice, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model.answer_reader import (
    MAX_BLOCKS,
    MAX_CALL_NAME_CHARS,
    MAX_USAGE_TOKENS,
    ReplySize,
    name_reply,
    parsed_input,
    reply_label,
    too_large,
)
from agent.model_port import IncomingReply, PendingBlock
from tools.text import printable
from transcripts import (
    CacheMiss,
    ThinkingBlock,
    Usage,
    block_from_json,
    check_shape,
    replace_surrogates,
)

# delta type -> (the field with its text, the kind of its block)
_DELTAS: dict[str, tuple[str, Literal["text", "thinking", "tool input"]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool input"),
}


class _OpenBlock(PendingBlock):
    """A block with its first event's object, the pieces of its signature, and the input's size so far."""

    raw: dict[str, Any] = field(default_factory=dict)
    signature: list[str] = field(default_factory=list)
    size: int = 0


class MessageAccumulator(Struct):
    """Fills `reply`, which is complete only after message_stop, with a stop reason and no open block.

    `marks_unsigned`: thinking without a signature is marked to be sent back, which other servers require.
    """

    reply: IncomingReply = field(default_factory=IncomingReply)
    marks_unsigned: bool = False
    _open: dict[int, _OpenBlock] = field(default_factory=dict)
    _usage: dict[str, int] = field(default_factory=dict)
    _size: ReplySize = field(default_factory=ReplySize)

    def feed(self, event: Mapping[str, Any]) -> Event | None:
        """Add one raw event, and return the event to show for it. Unknown events are ignored.

        Raises KeyError, TypeError, ValueError or AttributeError for an invalid event, and RequestRejected for
        a reply that exceeds the limits.
        """
        match event["type"]:
            case "message_start":
                name_reply(self.reply, event["message"])
                self._count(event["message"].get("usage"))
                diagnostics = event["message"].get("diagnostics")
                if isinstance(diagnostics, dict):
                    self.reply.cache_miss = CacheMiss.from_json(diagnostics.get("cache_miss_reason"))
            case "content_block_start":
                return self._start_block(int(event["index"]), event["content_block"])
            case "content_block_delta":
                return self._extend_block(int(event["index"]), event["delta"])
            case "content_block_stop":
                self._end_block(int(event["index"]))
            case "message_delta":
                stop = event["delta"].get("stop_reason")
                self.reply.stop = reply_label(stop) if stop else self.reply.stop
                self._count(event.get("usage"))
                details = event["delta"].get("stop_details")
                return _refusal_notice(details) if isinstance(details, dict) else None
            case "message_stop":
                self.reply.complete = self.reply.stop is not None and not self._open
        return None

    def _count(self, usage: Any) -> None:
        """Update the cumulative usage: later figures replace earlier ones, invalid ones are ignored."""
        known = self._usage
        for name, count in _figures(usage):
            known[name] = count
        self.reply.usage = Usage(
            input=known.get("input_tokens", 0),
            output=known.get("output_tokens", 0),
            cache_read=known.get("cache_read_input_tokens", 0),
            cache_written=known.get("cache_creation_input_tokens", 0),
            cache_written_hour=known.get("ephemeral_1h_input_tokens", 0),
            searches=known.get("web_search_requests", 0),
            thinking=min(known.get("thinking_tokens", 0), known.get("output_tokens", 0)),
        )

    def _start_block(self, index: int, raw: Mapping[str, Any]) -> Event | None:
        kinds: Mapping[str, Any] = {"text": "text", "thinking": "thinking", "tool_use": "tool input"}
        if len(self.reply.blocks) + len(self._open) >= MAX_BLOCKS:
            raise too_large(f"more than {MAX_BLOCKS:,} blocks")
        self._size.add(len(json.dumps(raw)))
        _check_block(raw)
        if (before := self._open.get(index)) is not None:  # Ollama does not end a text before thinking
            if before.kind == "tool input":
                raise ValueError("the call at this index has not ended")
            self._end_block(index)
        block = _OpenBlock(kinds.get(raw["type"], "other"), raw=dict(raw))
        self._open[index] = self.reply.pending[index] = block
        if raw["type"] == "tool_use":
            block.raw["id"] = raw.get("id") or f"call_{index}"
        if raw["type"] in ("tool_use", "server_tool_use"):
            return ToolCallDelta(str(raw.get("name")), 0)
        if isinstance(text := raw.get("text"), str) and text:
            block.pieces.append(text)
            return TextDelta(text)
        return None

    def _end_block(self, index: int) -> None:
        """Add a block to the reply."""
        block = self._open.pop(index)
        del self.reply.pending[index]
        raw = block.raw
        text = "".join(block.pieces)
        raw.pop(ThinkingBlock.UNSIGNED, None)  # a mark of our own, which no server sets
        match raw["type"]:
            case "text":
                raw["text"] = text
            case "thinking":
                raw["thinking"] = raw.get("thinking", "") + text
                raw["signature"] = (raw.get("signature") or "") + "".join(block.signature)
                if self.marks_unsigned and raw["thinking"] and not raw["signature"]:
                    raw[ThinkingBlock.UNSIGNED] = "thinking"
            case "tool_use" | "server_tool_use":
                raw["input"] = parsed_input(text, raw.get("input"))
        self.reply.blocks.append(block_from_json(replace_surrogates(raw)))

    def _extend_block(self, index: int, delta: Mapping[str, Any]) -> Event | None:
        block = self._open[index]
        if delta["type"] == "signature_delta":
            signature = str(delta["signature"])
            self._size.add(len(signature))
            block.signature.append(signature)
            return None
        if delta["type"] == "citations_delta":
            self._size.add(len(json.dumps(delta["citation"])))
            block.raw["citations"] = [*(block.raw.get("citations") or ()), delta["citation"]]
            return None
        if delta["type"] == "compaction_delta":
            self._size.add(len(json.dumps(delta)))
            block.raw.update((name, text) for name, text in delta.items() if name != "type")
            return None
        if delta["type"] not in _DELTAS:
            return None
        name, kind = _DELTAS[delta["type"]]
        piece = delta.get(name)
        if not isinstance(piece, str):
            return None
        if piece and {block.kind, kind} == {"text", "thinking"}:  # LiteLLM sends both in one block
            self._start_block(index, {"type": kind, name: ""})
            block = self._open[index]
        self._size.add(len(piece))
        block.pieces.append(piece)
        block.size += len(piece)
        if kind == "tool input":
            return ToolCallDelta(str(block.raw.get("name")), block.size)
        return TextDelta(piece) if kind == "text" else ThinkingDelta(piece)


def message_events(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the stream events of a complete message, since some servers do not stream."""
    yield {"type": "message_start", "message": message}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": message, "usage": message.get("usage")}
    yield {"type": "message_stop"}


def _refusal_notice(details: Mapping[str, Any]) -> Notice | None:
    """Return the notice about the reason for a refusal: its category, its explanation, or both."""
    if details.get("type") != "refusal":
        return None
    parts = [details.get("category"), details.get("explanation")]
    words = [each for each in parts if isinstance(each, str) and each.strip()]
    if not words:
        return None
    category = f" ({words[0][:100]})" if len(words) > 1 else ""
    text = f"the provider refused the request{category}: {words[-1][:500]}"
    return Notice(" ".join(printable(replace_surrogates(text)).split()), "warning")


def _check_block(raw: Mapping[str, Any]) -> None:
    """Raise ValueError for a block of a known type that could neither be used nor sent back."""
    check_shape(raw)
    if not isinstance(raw["type"], str):
        raise ValueError("the type of a block is not a string")
    if raw["type"] == "tool_use":
        if not raw.get("name"):
            raise ValueError("tool call without a name")
        if max(len(str(raw["name"])), len(str(raw.get("id")))) > MAX_CALL_NAME_CHARS:
            raise ValueError(f"the name or id of a tool call has more than {MAX_CALL_NAME_CHARS} characters")
    if raw["type"] == "redacted_thinking" and not (isinstance(raw.get("data"), str) and raw["data"]):
        raise ValueError("redacted thinking without data")


def _figures(usage: Any) -> Iterator[tuple[str, int]]:
    """Yield (name, tokens) of each valid figure of usage, nested ones under their own names.

    If the API worked in several steps with a compaction among them, the figures outside the steps do not
    include it, so the sums of all steps come last.
    """
    for name, count in usage.items() if isinstance(usage, dict) else ():
        if name in ("cache_creation", "server_tool_use", "output_tokens_details"):
            yield from _figures(count)
        elif isinstance(count, int | float) and 0 <= count <= MAX_USAGE_TOKENS:
            yield name, int(count)
    steps = usage.get("iterations") if isinstance(usage, dict) else None
    if isinstance(steps, list) and any(isinstance(step, dict) for step in steps):
        total = Counter[str]()
        for step in steps:
            total.update(dict(_figures(step)))
        yield from total.items()

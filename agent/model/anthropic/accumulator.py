"""Build one reply from the raw events of the Messages API.

The SDK's accumulator parses the whole of a tool's input again at each delta, aborts the stream on malformed
JSON and shows unfinished inputs as if they were whole. This one joins strings, parses once when a block
ends, and keeps finished and unfinished blocks apart: no tool may run from a block without its
`content_block_stop` or from a reply without `message_stop`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model_port import IncomingReply, PendingBlock
from transcripts.messages import INVALID_JSON, Block, Usage, block_from_json, replace_surrogates_in_json

# delta type -> (the field that holds its text, the kind of block that it belongs to)
_DELTAS: dict[str, tuple[str, Literal["text", "thinking", "tool input"]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "input_json_delta": ("partial_json", "tool input"),
}


@dataclass(slots=True)
class _OpenBlock(PendingBlock):
    """With the object of its first event, the pieces of its signature, and the size of its input so far."""

    raw: dict[str, Any] = field(default_factory=dict)
    signature: list[str] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class MessageAccumulator:
    """Fills `reply`; `reply.complete` only after message_stop, with a stop reason and no block open."""

    reply: IncomingReply = field(default_factory=IncomingReply)
    _open: dict[int, _OpenBlock] = field(default_factory=dict)
    _usage: dict[str, Any] = field(default_factory=dict)

    def feed(self, event: Mapping[str, Any]) -> Event | None:
        """Take in one raw event; returns what a watcher should see of it. Unknown events are ignored.

        Raises KeyError, TypeError or ValueError where the event is not what the API sends.
        """
        match event["type"]:
            case "message_start":
                self.reply.model = str(event["message"].get("model") or "unknown")
                self._count(event["message"].get("usage"))
            case "content_block_start":
                return self._start_block(int(event["index"]), event["content_block"])
            case "content_block_delta":
                return self._extend_block(self._open[int(event["index"])], event["delta"])
            case "content_block_stop":
                index = int(event["index"])
                self.reply.blocks.append(_finished(self._open.pop(index)))
                del self.reply.pending[index]
            case "message_delta":
                self.reply.stop = event["delta"].get("stop_reason") or self.reply.stop
                self._count(event.get("usage"))
            case "message_stop":
                self.reply.complete = self.reply.stop is not None and not self._open
        return None

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        """Usage is cumulative: later figures replace earlier ones, absent ones stay."""
        known = self._usage
        for name, count in (usage or {}).items():
            if count is not None:
                known[name] = count
        self.reply.usage = Usage(
            int(known.get("input_tokens") or 0),
            int(known.get("output_tokens") or 0),
            int(known.get("cache_read_input_tokens") or 0),
            int(known.get("cache_creation_input_tokens") or 0),
            int(known.get("cache_creation", {}).get("ephemeral_1h_input_tokens") or 0),
        )

    def _start_block(self, index: int, raw: Mapping[str, Any]) -> Event | None:
        kinds: Mapping[str, Any] = {"text": "text", "thinking": "thinking", "tool_use": "tool input"}
        block = _OpenBlock(kinds.get(str(raw["type"]), "other"), raw=dict(raw))
        self._open[index] = self.reply.pending[index] = block
        if raw["type"] == "tool_use":
            return ToolCallDelta(str(raw.get("name")), 0)
        if isinstance(text := raw.get("text"), str) and text:
            block.pieces.append(text)
            return TextDelta(text)
        return None

    def _extend_block(self, block: _OpenBlock, delta: Mapping[str, Any]) -> Event | None:
        if delta["type"] == "signature_delta":
            block.signature.append(str(delta["signature"]))
            return None
        if delta["type"] not in _DELTAS:
            return None
        name, kind = _DELTAS[delta["type"]]
        piece = delta.get(name)
        if not isinstance(piece, str):
            return None
        block.pieces.append(piece)
        block.size += len(piece)
        if kind == "tool input":
            return ToolCallDelta(str(block.raw.get("name")), block.size)
        return TextDelta(piece) if kind == "text" else ThinkingDelta(piece)


def _finished(block: _OpenBlock) -> Block:
    raw, text = block.raw, "".join(block.pieces)
    match raw["type"]:
        case "text":
            raw["text"] = text
        case "thinking":
            raw["thinking"] = raw.get("thinking", "") + text
            raw["signature"] = raw.get("signature", "") + "".join(block.signature)
        case "tool_use":
            raw["input"] = _parsed_input(text, raw.get("input"))
    return block_from_json(replace_surrogates_in_json(raw))


def _parsed_input(text: str, initial: Any) -> Mapping[str, Any]:
    if not text.strip():
        return initial if isinstance(initial, dict) else {}
    try:
        value = json.loads(text)
    except ValueError:
        return {INVALID_JSON: text}
    return value if isinstance(value, dict) else {INVALID_JSON: text}

"""A draft: one reply as it streams in. Our own accumulator over the raw events of the Messages API.

The SDK's parses the whole of a tool's input again at each delta, aborts the stream on malformed JSON and
shows unfinished inputs as if they were whole. This one joins strings, parses once when a block ends, and
keeps apart what is finished and what is not: no tool may run from a block without its
`content_block_stop` or from a reply without `message_stop`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from transcripts.messages import (
    INVALID_JSON,
    Block,
    TextBlock,
    Usage,
    block_from_json,
    replace_surrogates_in_json,
)


@dataclass(slots=True)
class _OpenBlock:
    """A content block on its way: its first event's object, and the pieces since by kind of delta."""

    raw: dict[str, Any]
    pieces: dict[str, list[str]] = field(default_factory=dict)
    size: int = 0

    def joined(self, kind: str) -> str:
        return "".join(self.pieces.get(kind, ()))


@dataclass(slots=True)
class MessageAccumulator:
    """What has come of a reply. `blocks` are finished ones; `complete` only after message_stop."""

    blocks: list[Block] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    stop: str | None = None
    complete: bool = False
    model: str = ""
    request_id: str = ""
    _open: dict[int, _OpenBlock] = field(default_factory=dict)
    _usage: dict[str, Any] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        return bool(self.blocks or self._open or self.model)

    @property
    def partial(self) -> str:
        """The bytes of blocks that never finished, for the record."""
        return "".join(block.joined(kind) for block in self._open.values() for kind in block.pieces)

    @property
    def text(self) -> str:
        """All text so far, finished or not."""
        done = "".join(block.text for block in self.blocks if isinstance(block, TextBlock))
        return done + "".join(block.joined("text_delta") for block in self._open.values())

    def kept(self) -> tuple[Block, ...]:
        """The blocks for the record: the finished ones, and text that was cut short."""
        cut = [
            TextBlock(text) for block in self._open.values() if (text := block.joined("text_delta")).strip()
        ]
        return (*self.blocks, *cut)

    def feed(self, event: Mapping[str, Any]) -> Event | None:
        """Take one raw event in; returns what a watcher should see of it. Unknown events are passed over.

        Raises KeyError, TypeError or ValueError where the event is not what the API sends.
        """
        match event["type"]:
            case "message_start":
                self._start(event["message"])
            case "content_block_start":
                return self._begin(int(event["index"]), event["content_block"])
            case "content_block_delta":
                return self._grow(self._open[int(event["index"])], event["delta"])
            case "content_block_stop":
                self._finish(int(event["index"]))
            case "message_delta":
                self.stop = event["delta"].get("stop_reason") or self.stop
                self._count(event.get("usage"))
            case "message_stop":
                self.complete = self.stop is not None and not self._open
        return None

    def _start(self, message: Mapping[str, Any]) -> None:
        self.model = str(message.get("model") or "unknown")
        self._count(message.get("usage"))

    def _count(self, usage: Mapping[str, Any] | None) -> None:
        self._usage.update({key: value for key, value in (usage or {}).items() if value is not None})
        hour = (self._usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
        self.usage = Usage(
            int(self._usage.get("input_tokens") or 0),
            int(self._usage.get("output_tokens") or 0),
            int(self._usage.get("cache_read_input_tokens") or 0),
            int(self._usage.get("cache_creation_input_tokens") or 0),
            int(hour),
        )

    def _begin(self, index: int, raw: Mapping[str, Any]) -> Event | None:
        block = self._open[index] = _OpenBlock(dict(raw))
        if text := raw.get("text"):
            block.pieces["text_delta"] = [text]
            return TextDelta(text)
        if raw["type"] == "tool_use":
            return ToolCallDelta(str(raw.get("name")), 0)
        return None

    def _grow(self, block: _OpenBlock, delta: Mapping[str, Any]) -> Event | None:
        kind = str(delta["type"])
        for name in ("text", "thinking", "partial_json", "signature"):
            if isinstance(delta.get(name), str):
                piece: str = delta[name]
                block.pieces.setdefault(kind, []).append(piece)
                block.size += len(piece)
                return _told(kind, piece, block)
        return None

    def _finish(self, index: int) -> None:
        block = self._open.pop(index)
        self.blocks.append(_whole(block))


def _told(kind: str, piece: str, block: _OpenBlock) -> Event | None:
    match kind:
        case "text_delta":
            return TextDelta(piece)
        case "thinking_delta":
            return ThinkingDelta(piece)
        case "input_json_delta":
            return ToolCallDelta(str(block.raw.get("name")), block.size)
    return None


def _whole(block: _OpenBlock) -> Block:
    raw = block.raw
    match raw["type"]:
        case "text":
            raw["text"] = block.joined("text_delta")
        case "thinking":
            raw["thinking"] = raw.get("thinking", "") + block.joined("thinking_delta")
            raw["signature"] = raw.get("signature", "") + block.joined("signature_delta")
        case "tool_use":
            raw["input"] = _input(block.joined("input_json_delta"), raw.get("input"))
    return block_from_json(replace_surrogates_in_json(raw))


def _input(text: str, start: Any) -> Mapping[str, Any]:
    if not text.strip():
        return start if isinstance(start, dict) else {}
    try:
        value = json.loads(text)
    except ValueError:
        return {INVALID_JSON: text}
    return value if isinstance(value, dict) else {INVALID_JSON: text}

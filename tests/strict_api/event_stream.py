"""Encode a message as server-sent events, in the order and shape of the real stream, or as one JSON body."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .reply import RAW_JSON, Block

_PIECE_CHARS = 24
_MAX_PIECES = 400  # about: a longer text comes in larger pieces

Message = Mapping[str, Any]


def event(name: str, payload: Mapping[str, Any]) -> bytes:
    """One event. A lone surrogate, which UTF-8 cannot carry, is sent as a JSON escape."""
    try:
        line = json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        line = json.dumps(payload, separators=(",", ":")).encode("ascii")
    return b"event: " + name.encode() + b"\ndata: " + line + b"\n\n"


PING = event("ping", {"type": "ping"})


def events(message: Message) -> Iterator[bytes]:
    """The whole stream of one message."""
    usage = message.get("usage")
    early = {**usage, "output_tokens": 1} if usage else usage
    start = {**message, "content": [], "stop_reason": None, "stop_details": None, "usage": early}
    start.pop("input_transformations", None)
    if usage is None:
        del start["usage"]
    yield event("message_start", {"type": "message_start", "message": start})
    yield PING
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    delta = {name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    ending: dict[str, Any] = {"type": "message_delta", "delta": delta}
    if usage is not None:
        ending["usage"] = usage
    if "input_transformations" in message:
        ending["input_transformations"] = message["input_transformations"]
    yield event("message_delta", ending)
    yield event("message_stop", {"type": "message_stop"})


def _block_events(index: int, block: Block) -> Iterator[bytes]:
    opening, deltas = _opened(block)
    yield event(
        "content_block_start", {"type": "content_block_start", "index": index, "content_block": opening}
    )
    for delta in deltas:
        yield event("content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta})
    yield event("content_block_stop", {"type": "content_block_stop", "index": index})


def _opened(block: Block) -> tuple[Block, list[dict[str, Any]]]:
    """A block as it starts, and the deltas that complete it."""
    kind = block["type"]
    if kind == "text":
        told = [{"type": "text_delta", "text": part} for part in _pieces(block["text"])]
        cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations") or ()]
        empty: Block = {"citations": []} if cited else {}
        return {**block, "text": "", **empty}, [*told, *cited]
    if kind == "compaction":
        told_whole = {"type": "compaction_delta", "content": block["content"]}
        return {**block, "content": None}, [told_whole]
    if kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in _pieces(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": kind, "thinking": "", "signature": ""}, [*deltas, signature]
    if kind in ("tool_use", "server_tool_use"):
        parts = ["", *_pieces(raw_input(block))]
        opening = {name: value for name, value in block.items() if name != RAW_JSON}
        return {**opening, "input": {}}, [
            {"type": "input_json_delta", "partial_json": part} for part in parts
        ]
    return block, []


def _pieces(text: str) -> Sequence[str]:
    size = max(_PIECE_CHARS, len(text) // _MAX_PIECES)
    return [text[at : at + size] for at in range(0, len(text), size)]


def raw_input(block: Block) -> str:
    """A call's input as the stream carries it."""
    raw = block.get(RAW_JSON)
    return raw if isinstance(raw, str) else json.dumps(block.get("input", {}), ensure_ascii=False)


def whole(message: Message) -> bytes:
    """The message as the body of an answer that is not streamed."""
    content = [_whole_block(block) for block in message["content"]]
    return json.dumps({**message, "content": content}).encode("ascii")


def _whole_block(block: Block) -> Block:
    if RAW_JSON not in block:
        return block
    try:
        given = json.loads(block[RAW_JSON])
    except ValueError:
        given = {}
    return {**{name: value for name, value in block.items() if name != RAW_JSON}, "input": given}

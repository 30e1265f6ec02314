"""Convert items and messages of OpenAI's APIs to blocks, for the readers of agents that record them."""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from ..messages import Block, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock, block_from_json
from ..patterns import lazy_pattern
from .recording import UNREADABLE_CALLS, Skip, read_parts

_DATA_URL = lazy_pattern(r"data:(image/\w+);base64,(.+)")
_TEXT_TYPES = ("text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal")


def content_parts(content: Any, skip: Skip) -> tuple[Block, ...]:
    """Return the texts and images of a message or an output: a text, a list of parts, or one part."""
    if content is None:
        return ()
    return read_parts(content if isinstance(content, list) else [content], _part, skip)


def _part(raw: Mapping[str, Any]) -> tuple[Block, ...] | None:
    """Return a text that is not blank, or an image; None for a part that cannot be read."""
    match raw:
        case {"type": kind, "text": str(text)} if kind in _TEXT_TYPES:
            return (TextBlock(text),) if text.strip() else ()
        case {"type": "refusal", "refusal": str(text)}:
            return (TextBlock(text),)
        case {"type": "input_image", "image_url": str(url)} | {
            "type": "image_url",
            "image_url": {"url": str(url)},
        }:
            return (image_at(url),)
    return None


def image_at(url: str) -> Block:
    """Return the image in a data URL, or a text that names any other URL or path."""
    found = _DATA_URL.fullmatch(url)
    return ImageBlock(found[1], found[2]) if found else TextBlock(f"[image: {url[:200]}]")


def reasoning(item: Mapping[str, Any], skip: Skip) -> tuple[Block, ...]:
    """Return the readable part of a reasoning item: its summary and its text."""
    parts = (*content_parts(item.get("summary"), skip), *content_parts(item.get("content"), skip))
    text = "\n\n".join(block.text for block in parts if isinstance(block, TextBlock))
    if not text:
        skip("encrypted reasoning")
    return (ThinkingBlock(text, ""),) if text else ()


def tool_call(ident: Any, name: Any, arguments: Any) -> ToolUseBlock | None:
    """Return a call whose arguments are an object or its JSON text; None without an id."""
    if not isinstance(ident, str) or not ident:
        return None
    if isinstance(arguments, str):
        with suppress(ValueError, RecursionError):
            arguments = json.loads(arguments or "{}")
    raw = {"type": "tool_use", "id": ident, "name": str(name or "unnamed"), "input": arguments}
    block = block_from_json(raw)
    return block if isinstance(block, ToolUseBlock) else None


def readable_calls(calls: Iterable[ToolUseBlock | None], skip: Skip) -> list[ToolUseBlock]:
    """Return the calls that could be read; the others are counted as skipped."""
    readable: list[ToolUseBlock] = []
    for call in calls:
        if call is None:
            skip(UNREADABLE_CALLS)
        else:
            readable.append(call)
    return readable


def chat_calls(calls: Iterable[Any], skip: Skip) -> list[ToolUseBlock]:
    """Return the `tool_calls` of a message of Chat Completions. Those without an id are skipped."""
    return readable_calls(map(_chat_call, calls), skip)


def _chat_call(call: Any) -> ToolUseBlock | None:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return None
    return tool_call(call.get("id"), function.get("name"), function.get("arguments"))

"""The offline model's own tokens: pieces of words, digits and punctuation, about 1.3 times cl100k on code.

It is deliberately not tiktoken: whoever estimates sizes must learn the ratio from the replies, as elsewhere.
"""

import json
import re
from typing import Any

_PIECE = re.compile(r"[A-Za-z]{1,6}|[0-9]{1,3}|[^\sA-Za-z0-9]|\n\s*")
_SLICE = 1 << 16
IMAGE_TOKENS = 1_500
"""Flat, near what the real API charges for a large picture (width * height / 750, capped)."""
MESSAGE_OVERHEAD = 4
BLOCK_OVERHEAD = 6
TOOLS_OVERHEAD = 300
"""Paid once a request carries any tool, as the real API adds its own tool prompt."""


def count_text(text: str) -> int:
    """How many tokens a text is. Sliced so that a huge text does not become a huge list."""
    if len(text) <= _SLICE:
        return len(_PIECE.findall(text))
    return sum(len(_PIECE.findall(text[at : at + _SLICE])) for at in range(0, len(text), _SLICE))


def count_block(block: dict[str, Any]) -> int:
    """How many tokens one content block, system block or tool definition is."""
    kind = block.get("type")
    if kind == "text":
        return count_text(block["text"])
    if kind == "thinking":
        return BLOCK_OVERHEAD + count_text(block["thinking"])
    if kind == "tool_use":
        return BLOCK_OVERHEAD + count_text(block["name"]) + count_text(_json(block["input"]))
    if kind == "tool_result":
        return BLOCK_OVERHEAD + _count_content(block.get("content") or "")
    if kind in ("image", "document"):
        return IMAGE_TOKENS
    return BLOCK_OVERHEAD + count_text(_json(block))


def _count_content(content: str | list[dict[str, Any]]) -> int:
    return count_text(content) if isinstance(content, str) else sum(map(count_block, content))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

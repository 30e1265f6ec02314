"""Facts as plain text, for the recall tool, for search and for exports: one rendering of each block."""

from __future__ import annotations

import json

from .facts import Fact, Reply, Result, User
from .messages import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)


def block_text(block: Block) -> str:
    """The block as text: the words as they are, arguments as indented JSON, an image by type and size."""
    match block:
        case TextBlock(text=text) | ThinkingBlock(thinking=text):
            return text
        case ToolUseBlock():
            return f"{block.name} {json.dumps(dict(block.input), ensure_ascii=False, indent=2)}"
        case ToolResultBlock():
            return content_text(block.content)
        case ImageBlock():
            return f"[image, {block.media_type}, {len(block.data) * 3 // 4:,} bytes]"
        case RedactedThinkingBlock():
            return ""
        case UnknownBlock():
            return json.dumps(dict(block.raw), ensure_ascii=False)


def content_text(blocks: tuple[Block, ...]) -> str:
    """Several blocks, a blank line between two."""
    return "\n\n".join(text for text in map(block_text, blocks) if text)


def fact_text(fact: Fact) -> str:
    """What a fact says in words; empty for facts that are no part of the conversation."""
    match fact:
        case User(blocks=blocks) | Reply(blocks=blocks) | Result(content=blocks):
            return content_text(blocks)
    return ""


def call_of(reply: Fact | None, result: Result) -> ToolUseBlock | None:
    """The call that a result answers, from the reply that holds it; None where the record lost it."""
    blocks = reply.blocks if isinstance(reply, Reply) else ()
    use = blocks[result.block] if result.block < len(blocks) else None
    return use if isinstance(use, ToolUseBlock) else None


def speaker_of(fact: Fact) -> str:
    """Who says it, in one word."""
    match fact:
        case User(source="user"):
            return "user"
        case User():
            return "harness"
        case Reply():
            return "assistant"
        case Result(error=True):
            return "error"
        case Result():
            return "result"
    return ""

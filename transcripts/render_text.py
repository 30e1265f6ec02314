"""Facts as plain text, for the recall tool, for search and for exports: one rendering of each block."""

from __future__ import annotations

import json

from .facts import Fact, Reply, Result, User
from .messages import Block, Image, Opaque, RedactedThinking, Text, Thinking, ToolResult, ToolUse


def block_text(block: Block) -> str:
    """The block as text: the words as they are, arguments as indented JSON, an image by type and size."""
    match block:
        case Text(text=text) | Thinking(thinking=text):
            return text
        case ToolUse():
            return f"{block.name} {json.dumps(dict(block.input), ensure_ascii=False, indent=2)}"
        case ToolResult():
            return content_text(block.content)
        case Image():
            return f"[image, {block.media_type}, {len(block.data) * 3 // 4:,} bytes]"
        case RedactedThinking():
            return ""
        case Opaque():
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


def call_of(reply: Fact | None, result: Result) -> ToolUse | None:
    """The call that a result answers, from the reply that holds it; None where the record lost it."""
    blocks = reply.blocks if isinstance(reply, Reply) else ()
    use = blocks[result.block] if result.block < len(blocks) else None
    return use if isinstance(use, ToolUse) else None


def speaker(fact: Fact) -> str:
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

"""Facts and blocks as plain text, the same for recall, search, lists and exports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice

from .facts import Fact, Metadata, Reply, Result, User
from .messages import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    said_by_person,
)

NO_DATE = "no date"
MAX_TITLE_OF_SESSION_CHARS = 80  # of its first prompt
MAX_SHOWN_CHARS = 20_000  # of one text in an export for people


def block_text(block: Block) -> str:
    """A text as it is, a call with its arguments as indented JSON, an image by its type and size."""
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
    """The texts of several blocks, a blank line between two."""
    return "\n\n".join(text for text in map(block_text, blocks) if text)


def fact_text(fact: Fact) -> str:
    """The text of a fact; empty for one that is no part of the conversation."""
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
    """Who or what speaks in a fact, in one word; empty for one that is no part of the conversation."""
    match fact:
        case User():
            return "user" if fact.source == "user" else "harness"
        case Reply():
            return "assistant"
        case Result():
            return "error" if fact.error else "result"
    return ""


def shortened(text: str) -> str:
    """The text, without its middle where it is long."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    half = MAX_SHOWN_CHARS // 2
    gap = f"[... {len(text) - 2 * half:,} characters: whole in the JSONL export ...]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"


def session_title(facts: Sequence[Fact], sid: str) -> str:
    """The name that a session was given last, else the beginning of its first prompt, else its id."""
    name = name_of(one for one in facts if isinstance(one, Metadata))
    return name or first_words(facts) or f"Session {sid}"


def name_of(notes: Iterable[Metadata]) -> str:
    """The name that the person gave a session last, on one line, or ""."""
    names = [note.about.get("name", "") for note in notes if note.topic == "name"]
    return " ".join(str(names[-1]).split()) if names else ""


def first_words(facts: Iterable[Fact]) -> str:
    """The beginning of a session's first prompt, on one line; "" where there is none."""
    prompts = (one for one in facts if isinstance(one, User) and one.source == "user")
    title = " ".join(" ".join(content_text(said_by_person(one.blocks)) for one in islice(prompts, 1)).split())
    return title if len(title) <= MAX_TITLE_OF_SESSION_CHARS else f"{title[:MAX_TITLE_OF_SESSION_CHARS]}…"


def utc_time(ts: float) -> str:
    """Seconds since the epoch as a date and a time."""
    return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_age(at: float, now: float) -> str:
    """`5 min ago`, `3 h ago` (today), `yesterday 14:02`, `Mon 14:02`, `12 Nov 14:02`, `2025-11-12`.

    Both in seconds since the epoch, shown in local time; at most 15 characters. `no date` for a moment
    that no calendar has.
    """
    try:
        then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    except (OverflowError, OSError, ValueError):
        return NO_DATE
    spent, days = now - at, (today.date() - then.date()).days
    if 0 <= spent < 60:
        return "just now"
    if 0 <= spent < 3600:
        return f"{int(spent // 60)} min ago"
    if days == 0 and spent > 0:
        return f"{int(spent // 3600)} h ago"
    if days == 1:
        return f"yesterday {then:%H:%M}"
    if 1 < days < 7:
        return f"{then:%a %H:%M}"
    return f"{then:%d %b %H:%M}" if then.year == today.year else f"{then:%Y-%m-%d}"

"""Convert facts and blocks to plain text, the same for recall, search, lists and exports.

Also contains the table of invisible characters, and the rule for where such a character is harmless.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from unicodedata import normalize

from .data_tags import DataTag, split_pastes, unquoted_data, with_paste_labels
from .facts import Fact, Metadata, Opened, Reply, Result, User, name_of
from .messages import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    blocks_of_user,
    typed_blocks,
    without_added,
)
from .stored_outputs import OutputsFolder
from .tool_kinds import tool_kind
from .wording import shorten

MAX_TITLE_OF_SESSION_CHARS = 80  # of its first prompt
MAX_SHOWN_CHARS = 20_000  # of one text in a Markdown or HTML export


def block_text(block: Block) -> str:
    """Return a text unchanged, a call with its arguments as indented JSON, an image as its type and size."""
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
    """Return the texts of several blocks, separated by blank lines."""
    return "\n\n".join(text for text in map(block_text, blocks) if text)


def fact_text(fact: Fact) -> str:
    """Return the text of a fact; "" for a fact that is not part of the conversation."""
    match fact:
        case User(blocks=blocks) | Reply(blocks=blocks) | Result(content=blocks):
            return content_text(blocks)
    return ""


def indexed_text(fact: Fact, outputs: Path) -> str:
    """Return the searchable text of a fact, including a full output that is stored in a file.

    Recalled text, the calls that recalled it and to-do lists are excluded: otherwise searches would find
    what repeats a text instead of the text.
    Characters are composed (NFC), so that a word is found however its accents are encoded.
    """
    return normalize("NFC", _searchable_text(fact, outputs))


def _searchable_text(fact: Fact, outputs: Path) -> str:
    match fact:
        case User():
            return content_text(without_added(fact.blocks))
        case Result() if fact.stored is not None:
            return OutputsFolder(outputs).read(fact.stored) or fact_text(fact)
        case Reply():
            return "\n\n".join(_searchable_block(block) for block in fact.blocks if not _repeats(block))
        case Result() if not fact.about.get(Result.RECALLED):
            return content_text(tuple(block for block in fact.content if not block.is_injected))
    return ""


def _searchable_block(block: Block) -> str:
    """Return the text of a block of a reply; of a call its values, as all calls have the same keys."""
    if not isinstance(block, ToolUseBlock):
        return block_text(block)
    values = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in block.input.values()
    )
    return " ".join((block.name, "\n".join(values))).rstrip()


def _repeats(block: Block) -> bool:
    return isinstance(block, ToolUseBlock) and tool_kind(block.name) in ("recalls", "plans")


def shortened(text: str) -> str:
    """Return the text, without its middle if it is long."""
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    half = MAX_SHOWN_CHARS // 2
    gap = f"[... {len(text) - 2 * half:,} characters omitted; the JSONL export contains them ...]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"


def session_title(facts: Sequence[Fact], sid: str) -> str:
    """Return the latest name of a session, otherwise the beginning of its first prompt, otherwise its id.

    A nested session is named after its agent: a copy contains the name of its parent.
    """
    opened = next((one for one in facts if isinstance(one, Opened)), None)
    if opened is not None and (label := agent_label(opened)):
        return f"[{label}] {agent_task(opened) or first_words(facts)}".rstrip()
    name = name_of(one for one in facts if isinstance(one, Metadata))
    return name or first_words(facts) or f"Session {sid}"


def agent_label(opened: Opened) -> str:
    """Return the name of a nested session in its parent, such as "explore #2"; "" if it is not nested."""
    about = opened.about
    return f"{about['agent']} #{about.get('number')}" if opened.parent and "agent" in about else ""


def agent_task(opened: Opened) -> str:
    """Return the task of a nested session in a few words on one line; "" if it is not nested."""
    return " ".join(str(opened.about.get("task", "")).split()) if opened.parent else ""


def prompt_title(prompt: User) -> str:
    """Return what the user said with a prompt on one line, or else the command that they ran.

    Labels stand for what they pasted, unless they only pasted something.
    """
    texts = map(block_text, blocks_of_user(prompt.blocks) or typed_blocks(prompt.blocks))
    title = "\n".join(_without_output(text) for text in texts)
    pieces = split_pastes(title)
    typed = "".join(pieces[::2]).strip()
    return " ".join((with_paste_labels(title) if typed else "".join(pieces)).split())


def _without_output(text: str) -> str:
    """Return a text of a prompt: of a command that the user ran only its line."""
    own = unquoted_data(text, DataTag.OWN_COMMAND)
    return text if own is None else own.partition("\n")[0]


def first_words(facts: Iterable[Fact]) -> str:
    """Return the beginning of a session's first prompt, on one line; "" if there is none."""
    prompts = (one for one in facts if isinstance(one, User) and one.source == "user")
    title = "".join(map(prompt_title, islice(prompts, 1)))
    return shorten(title, MAX_TITLE_OF_SESSION_CHARS)


def utc_time(ts: float) -> str:
    """Format seconds since the epoch as a date and time in UTC."""
    return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_age(at: float, now: float) -> str:
    """Format an age: `5 min ago`, `3 h ago` (today), `yesterday 14:02`, `12 Nov 14:02`, `2025-11-12`.

    Both arguments are in seconds since the epoch. The result is in local time and has at most 15 characters;
    it is `no date` for a time outside the calendar.
    """
    try:
        then = datetime.fromtimestamp(at)
        today = datetime.fromtimestamp(now)
    except (OverflowError, OSError, ValueError):
        return "no date"
    spent = now - at
    days = (today.date() - then.date()).days
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

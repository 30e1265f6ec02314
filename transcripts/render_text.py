"""Facts and blocks as plain text, the same for recall, search, lists and exports.

And the one table of characters that cannot be seen, with the rule where such a character is harmless.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from unicodedata import normalize

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
    said_by_user,
    without_added,
    without_injected,
)
from .stored_outputs import OutputsFolder
from .tool_kinds import RECALLED_KEY, tool_kind

NO_DATE = "no date"
MAX_TITLE_OF_SESSION_CHARS = 80  # of its first prompt
MAX_SHOWN_CHARS = 20_000  # of one text in an export for people
# As in a character class of `re`. Joiners, direction marks and selectors that emoji and scripts need:
JOINERS = "\u180b-\u180d\u180f\u200c-\u200f\ufe0e\ufe0f"
# Everything that draws nothing: the joiners, fillers, format characters, variation selectors, tags.
INVISIBLE = (
    JOINERS + "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_FOREIGN = f"[^\x00-\x9f\\s\ud800-\udfff{INVISIBLE}]"  # what is seen, and is not ASCII
_EMOJI = "[\u00a9\u00ae\u203c\u2049\u2100-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
_IDEOGRAPH = "[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
# The flags of England, Scotland and Wales, whose letters are tags.
_TAG_FLAGS = [
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(char)) for char in f"gb{land}\x7f")
    for land in ("eng", "sct", "wls")
]
_EVERYDAY = (
    f"(?:(?<={_FOREIGN})[\u200c\u200d]"  # within a word or an emoji; also at a word's end
    f"|(?<={_EMOJI})[\ufe0e\ufe0f]"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180d\u180f]"  # behind Mongolian letters
    # No ideograph has more variants. The other selectors could stand for the letters of a hidden text.
    f"|(?<={_IDEOGRAPH})[\U000e0100-\U000e012f])(?![{INVISIBLE}])"
    f"|(?<=[!-~])\u200c(?={_FOREIGN})"  # between an English word and its Persian ending
    f"|(?<={_EMOJI})\ufe0f(?=\u200d{_EMOJI})|(?<={_EMOJI}\ufe0f)\u200d(?={_EMOJI})"
    "|(?<=[0-9#*])\ufe0f(?=\u20e3)|"  # of a key
    + "|".join(f"(?<={flag[:at]}){flag[at:]}" for flag in _TAG_FLAGS for at in range(1, len(flag)))
)


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


def indexed_text(fact: Fact, outputs: Path) -> str:
    """Return the searchable text of a fact: its words, and the whole of an output stored beside it.

    Not what was recalled, nor the calls that asked for it: else every search would find the ones before it.
    Its characters are composed, so that a word is found however its accents are written.
    """
    return normalize("NFC", _told_text(fact, outputs))


def _told_text(fact: Fact, outputs: Path) -> str:
    match fact:
        case User():
            return content_text(without_added(fact.blocks))
        case Result() if fact.stored is not None:
            return OutputsFolder(outputs).read(fact.stored) or fact_text(fact)
        case Reply():
            said = (block for block in fact.blocks if not _is_recall(block))
            return content_text(tuple(said))
        case Result() if not fact.about.get(RECALLED_KEY):
            return content_text(without_injected(fact.content))
    return ""


def _is_recall(block: Block) -> bool:
    return isinstance(block, ToolUseBlock) and tool_kind(block.name) == "recalls"


def call_of(reply: Fact | None, result: Result) -> ToolUseBlock | None:
    """The call that a result answers, from the reply that holds it; None where the record lost it."""
    blocks = reply.blocks if isinstance(reply, Reply) else ()
    use = blocks[result.block] if result.block < len(blocks) else None
    return use if isinstance(use, ToolUseBlock) else None


def speaker_of(fact: Fact) -> str:
    """Return the speaker of a fact in one word; "" if the fact is not part of the conversation."""
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
    """The name that a session was given last, else the beginning of its first prompt, else its id.

    A nested one is told by its agent: in a copy that it works in, the name is that of its session.
    """
    opened = next((one for one in facts if isinstance(one, Opened)), None)
    if opened is not None and (label := agent_label(opened)):
        return f"[{label}] {agent_task(opened) or first_words(facts)}".rstrip()
    name = name_of(one for one in facts if isinstance(one, Metadata))
    return name or first_words(facts) or f"Session {sid}"


def agent_label(opened: Opened) -> str:
    """Return the name that the calling session gave to a nested one, "explore #2"; "" where a user
    began it.
    """
    about = opened.about
    return f"{about['agent']} #{about.get('number')}" if opened.parent and "agent" in about else ""


def agent_task(opened: Opened) -> str:
    """Return the task of a nested session, in a few words on one line; "" where a user began it."""
    return " ".join(str(opened.about.get("task", "")).split()) if opened.parent else ""


def first_words(facts: Iterable[Fact]) -> str:
    """The beginning of a session's first prompt, on one line; "" where there is none."""
    prompts = (one for one in facts if isinstance(one, User) and one.source == "user")
    title = " ".join(" ".join(content_text(said_by_user(one.blocks)) for one in islice(prompts, 1)).split())
    return title if len(title) <= MAX_TITLE_OF_SESSION_CHARS else f"{title[:MAX_TITLE_OF_SESSION_CHARS]}…"


def is_harmless(found: re.Match[str]) -> bool:
    """Return whether an invisible character that was found is an everyday part of the writing where it
    stands.

    One joiner or variation selector behind a character that it shapes, the letters of a flag. A run of them,
    one that stands alone, and what turns the direction of text are not: they can hide text from people.
    """
    return _harmless().match(found.string, found.start()) is not None


@cache
def _harmless() -> re.Pattern[str]:
    return re.compile(_EVERYDAY)  # takes 4 ms, which only a session with such characters pays


def utc_time(ts: float) -> str:
    """Seconds since the epoch as a date and a time."""
    return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%d %H:%M:%S} UTC"


def format_age(at: float, now: float) -> str:
    """`5 min ago`, `3 h ago` (today), `yesterday 14:02`, `Mon 14:02`, `12 Nov 14:02`, `2025-11-12`.

    Both in seconds since the epoch, shown in local time; at most 15 characters. `no date` for a moment
    that no calendar has.
    """
    try:
        then = datetime.fromtimestamp(at)
        today = datetime.fromtimestamp(now)
    except (OverflowError, OSError, ValueError):
        return NO_DATE
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

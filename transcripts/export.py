"""A session for people and other programs: markdown, JSON, JSONL. The HTML page is made in export_html.py.

Secrets are masked in all of them, before anything else is made of the facts. Long outputs are shortened in
what people read and whole in the JSONL, whose lines are facts again and can be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from .codec import BadLine, encode, from_raw
from .export_words import moment, shortened, title
from .facts import Compacted, Fact, Opened, Reply, Result, User
from .fold import Folded, fold
from .injected_context import injected_texts, without_injected
from .lazy_results import LazyResults, whole
from .masking import SecretMasks, mask_json
from .messages import Block, ImageBlock, TextBlock, ToolUseBlock, block_to_json, is_thinking
from .render_text import block_text, content_text

NONE = SecretMasks()
ENDINGS = (".md", ".html", ".json", ".jsonl")


def export_text(
    folded: Folded,
    sid: str,
    suffix: str = ".md",
    deferred: LazyResults | None = None,
    masks: SecretMasks = NONE,
) -> str:
    """The session as text in the form that a file's ending names.

    `deferred` are those that the session was loaded with, `masks` hides exact values besides the known forms
    of secrets. Raises ValueError for another ending.
    """
    from .export_html import page  # a third of the time it takes to list sessions, and rarely needed

    makers: dict[str, Callable[[Folded, str], str]] = {
        ".md": markdown,
        ".html": page,
        ".json": conversation,
        ".jsonl": lines,
    }
    if suffix not in makers:
        raise ValueError(f"no export for {suffix or 'a file without an ending'}: use {', '.join(ENDINGS)}")
    with suppress(OSError, BadLine):  # the record went away while it was in use: what is left is exported
        folded = whole(folded, deferred)
    return makers[suffix](masked(folded, sid, masks), sid)


def write_private(path: Path, text: str) -> None:
    """Write an export that only its owner may read: outputs can hold what no pattern knows for a secret.

    Raises FileExistsError, never written over, and other OSErrors.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
        file.write(text)


def masked(folded: Folded, sid: str, masks: SecretMasks) -> Folded:
    """The session without what `masks` hides and without known shapes of secrets."""
    return fold(from_raw(mask_json(_payload(fact, sid), masks.all))[0] for fact in folded.facts)


def lines(folded: Folded, sid: str) -> str:
    """The facts, one line each, as in the record."""
    return b"".join(encode(fact, sid) for fact in folded.facts).decode()


def _payload(fact: Fact, sid: str) -> dict[str, object]:
    payload: dict[str, object] = json.loads(encode(fact, sid))
    payload.pop("crc", None)
    return payload


def conversation(folded: Folded, sid: str) -> str:
    """The conversation as the API would be sent it, before any compaction."""
    plain = fold(fact for fact in folded.facts if isinstance(fact, Opened | User | Reply | Result))
    opened = folded.opened
    value = {
        "session": sid,
        "model": opened.model if opened else "",
        "folder": opened.folder if opened else "",
        "system": list(opened.system) if opened else [],
        "messages": [
            {"role": message.role, "content": [block_to_json(part.block) for part in message.parts]}
            for message in plain.view
        ],
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def markdown(folded: Folded, sid: str) -> str:
    """The conversation as markdown: prompts as headings, calls and results in fences."""
    return "\n\n".join(piece for piece in _markdown(folded, sid) if piece) + "\n"


def _markdown(folded: Folded, sid: str) -> Iterable[str]:
    opened = folded.opened
    yield f"# {title(folded, sid)}"
    if opened is not None:
        yield f"{opened.model} in `{opened.folder}`, {moment(opened.ts)}"
    for fact in folded.facts:
        match fact:
            case User(source="user"):
                yield from map(quoted, injected_texts(fact.blocks))
                yield f"## You\n\n{content_text(without_injected(fact.blocks))}"
            case User():
                yield from map(quoted, fact.blocks)
            case Reply():
                yield from _reply(fact)
            case Result():
                name = "Error" if fact.error else "Result"
                words = fenced(shortened(content_text(fact.content)))
                yield f"{name} of `r{fact.of}.{fact.block}`\n\n{words}"
            case Compacted():
                undone = " (taken back)" if fact.id in folded.undone else ""
                yield f"---\n\n*Room was made: {fact.id}, {fact.layer}, {fact.trigger}{undone}*\n\n---"


def _reply(fact: Reply) -> Iterable[str]:
    for index, block in enumerate(fact.blocks):
        match block:
            case TextBlock(text=text):
                yield text
            case ToolUseBlock():
                yield f"Call `r{fact.seq}.{index}`\n\n{fenced(shortened(block_text(block)))}"
            case ImageBlock():
                yield block_text(block)
            case _ if is_thinking(block) and block_text(block):
                yield quoted(block)
    if not fact.complete:
        yield "*(interrupted)*"


def quoted(block: Block) -> str:
    """A block as a quote: nobody's words to the model, or the model's to itself."""
    return f"> {block_text(block)}".replace("\n", "\n> ")


def fenced(text: str) -> str:
    """The text in a fence that is longer than any within it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"

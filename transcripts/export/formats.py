"""Export a session as Markdown, JSON, JSONL or one HTML page, each with secrets masked."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name

from ..codec import encode_fact, fact_from_json
from ..errors import StoreError
from ..facts import Compacted, Fact, Opened, Reply, Result, User
from ..folding import Folded, fold
from ..load import LazyResults
from ..messages import (
    Block,
    ImageBlock,
    TextBlock,
    ToolUseBlock,
    is_added,
    map_strings,
    without_added,
)
from ..render_text import block_text, content_text, session_title, shortened, utc_time
from ..secrets.masking import SecretMasks
from .size_chart import compaction_words

# Suffix -> the function that returns the text of such a file. The module for HTML loads a Markdown parser.
EXPORTERS: Mapping[str, str] = {
    ".md": "transcripts.export.formats:session_markdown",
    ".html": "transcripts.export.html_page:session_page",
    ".json": "transcripts.export.formats:session_json",
    ".jsonl": "transcripts.export.formats:session_lines",
}


def export_text(
    folded: Folded,
    sid: str,
    suffix: str = ".md",
    lazy_results: LazyResults | None = None,
    masks: SecretMasks | None = None,
) -> str:
    """Return the session as text in the format of a file with this suffix.

    `lazy_results` are those that the session was loaded with; `masks` masks exact values in addition to the
    known forms of secrets. Raises ValueError for an unknown suffix.
    """
    if suffix not in EXPORTERS:
        suffixes = ", ".join(EXPORTERS)
        wanted = f"a {suffix} file" if suffix else "a file without an extension"
        raise ValueError(f"cannot export to {wanted}: use one of {suffixes}")
    with suppress(StoreError):  # if the transcript was removed meanwhile, export the facts in memory
        folded = lazy_results.complete(folded) if lazy_results else folded
    text: str = resolve_name(EXPORTERS[suffix])(mask_session(folded, sid, masks or SecretMasks()), sid)
    return text


def mask_session(folded: Folded, sid: str, masks: SecretMasks) -> Folded:
    """Return the session with the values of `masks` and every known form of a secret masked."""
    return fold(
        fact_from_json(map_strings(json.loads(encode_fact(fact, sid)), masks.all, keys=False))[0]
        for fact in folded.facts
    )


def write_private(path: Path, text: str) -> None:
    """Write an export with mode 0600, since not every secret has a known form.

    Raises FileExistsError instead of overwriting a file, and other OSErrors, after which there is no file.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def session_lines(folded: Folded, sid: str) -> str:
    """Return the facts as in a transcript, one per line."""
    return b"".join(encode_fact(fact, sid) for fact in folded.facts).decode()


def session_json(folded: Folded, sid: str) -> str:
    """Return the conversation before any compaction as JSON, in the format of the Messages API."""
    plain = fold(fact for fact in folded.facts if isinstance(fact, Opened | User | Reply | Result))
    opened = folded.opened
    value = {
        "session": sid,
        "model": opened.model if opened else "",
        "folder": opened.folder if opened else "",
        "system": list(opened.system) if opened else [],
        "messages": [
            {"role": message.role, "content": [part.block.to_json() for part in message.parts]}
            for message in plain.view
        ],
    }
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def session_markdown(folded: Folded, sid: str) -> str:
    """Return the conversation as Markdown: prompts with headings, calls and results in fences."""
    pieces = [f"# {session_title(folded.facts, sid)}"]
    if (opened := folded.opened) is not None:
        pieces.append(f"{opened.model} in `{opened.folder}`, {utc_time(began_at(folded))}")
    for fact in folded.facts:
        pieces.extend(_fact_markdown(fact, folded))
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def began_at(folded: Folded) -> float:
    """Return the time at which a session was first opened, in seconds since the epoch; 0 if unknown."""
    return next((fact.ts for fact in folded.facts if isinstance(fact, Opened)), 0.0)


def _fact_markdown(fact: Fact, folded: Folded) -> Iterator[str]:
    match fact:
        case User(source="user"):
            yield from (blockquote(block) for block in fact.blocks if is_added(block))
            yield f"## You\n\n{content_text(without_added(fact.blocks))}"
        case User():
            yield from map(blockquote, fact.blocks)
        case Reply():
            for index, block in enumerate(fact.blocks):
                if isinstance(block, ToolUseBlock):
                    yield f"Call `r{fact.seq}.{index}`\n\n{fenced(shortened(block_text(block)))}"
                elif isinstance(block, TextBlock | ImageBlock):
                    yield block_text(block)
                elif block.is_thinking and block_text(block):
                    yield blockquote(block)
            yield "" if fact.complete else "*(interrupted)*"
        case Result():
            name = "Error" if fact.error else "Result"
            yield f"{name} of `r{fact.of}.{fact.block}`\n\n{fenced(shortened(content_text(fact.content)))}"
        case Compacted():
            undone = " (undone)" if fact.id in folded.undone else ""
            words = f"{compaction_words(fact)} ({fact.trigger}){undone}"
            yield f"---\n\n*Compaction {fact.id}: {words}*\n\n---"


def blockquote(block: Block) -> str:
    """Return a block as a quote, for text that neither the user nor the model wrote to the other."""
    return f"> {block_text(block)}".replace("\n", "\n> ")


def fenced(text: str) -> str:
    """Return the text in a fence that is longer than any within it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"

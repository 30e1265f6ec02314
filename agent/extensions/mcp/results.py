"""What a server answers, as the model is sent it: text within a limit, checked images, files for the rest."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.base import ToolContext, ToolResult
from tools.files.images import BadImage, load_image, media_type
from tools.processes.spool import Spool
from tools.truncate import cut_at_lines, printable
from transcripts.disk import replace_file
from transcripts.facts import StoredOutput
from transcripts.masking import SecretMasks
from transcripts.messages import Block, TextBlock
from transcripts.stored_outputs import make_outputs_folder

from .entries import ServerEntry

MAX_MCP_HEAD_CHARS = 16_000  # of a result that is cut: shown of its beginning
MAX_MCP_TAIL_CHARS = 8_000
MAX_MCP_RESULT_CHARS = 25_000
MAX_MCP_IMAGES = 10
MAX_MCP_BLOB_BYTES = 50 * 1024 * 1024
MAX_MIME_CHARS = 80
_NO_KIND = "application/octet-stream"  # of bytes whose server names none


@dataclass(frozen=True, slots=True)
class ResultPlace:
    """Whose result it is, where files go, and how they are named."""

    entry: ServerEntry
    context: ToolContext
    ident: str

    @property
    def server(self) -> str:
        return self.entry.name

    @property
    def masks(self) -> SecretMasks:
        """The secrets that the result may not repeat: ours, and those that the server was given."""
        return SecretMasks((*self.context.masks.values, *self.entry.masks.values))

    def path(self, extension: str, number: int = 0) -> Path:
        """A new file's path; the folder is there once something is kept."""
        ident = self.ident.replace(".", "-")
        suffix = f"-{number}" if number else ""
        return self.context.outputs / f"{self.context.session}-mcp-{ident}{suffix}{extension}"


async def mcp_result(answer: Mapping[str, Any], place: ResultPlace, about: Mapping[str, Any]) -> ToolResult:
    """The result of `tools/call`. `about` is for the record."""
    content = answer.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return await made_result(parts, place, about, answer)


async def resource_result(
    answer: Mapping[str, Any], place: ResultPlace, about: Mapping[str, Any]
) -> ToolResult:
    """The result of `resources/read`."""
    content = answer.get("contents")
    found = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    parts = [{"type": "resource", "resource": part} for part in found]
    return await made_result(parts, place, about, {})


async def made_result(
    parts: list[dict[str, Any]], place: ResultPlace, about: Mapping[str, Any], answer: Mapping[str, Any]
) -> ToolResult:
    """The parts as blocks: first what is text, then the images."""
    pieces = await asyncio.to_thread(lambda: list(_pieces(parts, place)))
    texts = [piece for piece in pieces if isinstance(piece, str)]
    structured = answer.get("structuredContent")
    if structured is not None and not texts:
        texts = [json.dumps(structured, ensure_ascii=False)]
    images = [piece for piece in pieces if not isinstance(piece, str)]
    text, stored = await asyncio.to_thread(_limited, "\n".join(texts), place)
    blocks: list[Block] = [TextBlock(text)] if text.strip() else []
    blocks += await asyncio.to_thread(lambda: [_image(each) for each in images[:MAX_MCP_IMAGES]])
    if (more := len(images) - MAX_MCP_IMAGES) > 0:
        blocks.append(TextBlock(f"[{more} more images were left out]"))
    return ToolResult(
        tuple(blocks) or (TextBlock("(no output)"),),
        error=answer.get("isError") is True,
        human={"text": text},
        about=about,
        stored=stored,
    )


def _pieces(parts: list[dict[str, Any]], place: ResultPlace) -> Iterator[str | bytes]:
    """What is text, and the bytes of images, as they came."""
    for number, part in enumerate(parts, 1):
        match part:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "image" | "audio", "data": str(data)}:
                yield _from_base64(data, str(part.get("mimeType") or _NO_KIND), place, number)
            case {"type": "resource", "resource": {"text": str(text)}}:
                yield f"@{place.server}:{_uri(part['resource'])}\n{text}"
            case {"type": "resource", "resource": {"blob": str(data)}}:
                kind = str(part["resource"].get("mimeType") or _NO_KIND)
                yield f"@{place.server}:{_uri(part['resource'])}"
                yield _from_base64(data, kind, place, number)
            case {"type": "resource_link"}:
                about = part.get("description") or part.get("title") or part.get("name") or ""
                yield f"@{place.server}:{_uri(part)} {about}".rstrip()
            case _:
                yield json.dumps(part, ensure_ascii=False)


def _uri(part: Mapping[str, Any]) -> str:
    return str(part.get("uri", ""))


def _from_base64(data: str, kind: str, place: ResultPlace, number: int) -> str | bytes:
    """An image, or the words for a file that holds what is none."""
    kind = kind[:MAX_MIME_CHARS]
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return f"[{kind}: what the server sent is no base64]"
    if media_type(raw[:16]) is not None:
        return raw
    if len(raw) > MAX_MCP_BLOB_BYTES:
        return f"[{kind}, {len(raw):,} bytes: too large to be kept]"
    path = place.path(_extension(kind), number)
    try:
        make_outputs_folder(path.parent)
        replace_file(path, raw)
    except OSError as error:
        return f"[{kind}, {len(raw):,} bytes: it cannot be kept ({error.strerror})]"
    return f"[{kind}, {len(raw):,} bytes: {_shown_path(path, place)}]"


def _extension(kind: str) -> str:
    """How the name of a file of a media type ends: audio/wav gives .wav."""
    subtype = kind.partition("/")[2].partition(";")[0].strip().lower()
    return f".{subtype}" if re.fullmatch(r"[a-z0-9]{1,8}", subtype) else ".bin"


def _shown_path(path: Path, place: ResultPlace) -> str:
    folder = place.context.folder
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


def _image(raw: bytes) -> Block:
    """An image that a request can carry, or why it cannot: a broken one would spoil every request."""
    try:
        block, _ = load_image(raw, media_type(raw[:16]) or "image/png")
    except BadImage as error:
        return TextBlock(f"[an image was left out here: {error}]")
    return block


def _limited(text: str, place: ResultPlace) -> tuple[str, StoredOutput | None]:
    """The text as it is shown, and all of it in a file where that is more."""
    shown = printable(text)
    if len(shown) <= MAX_MCP_RESULT_CHARS:
        return place.masks.text(shown), None
    spool = Spool(place.path(".txt"), masks=place.masks)
    spool.feed(text.encode("utf-8", "replace"))
    spool.keep()
    spool.close()
    stored = spool.stored(place.context.folder)
    where = f"all of it: {stored.path}" if stored else f"it could not be kept: {spool.error}"
    head, tail = cut_at_lines(shown[:MAX_MCP_HEAD_CHARS], shown[-MAX_MCP_TAIL_CHARS:])
    left = len(shown) - len(head) - len(tail)
    cut = f"{head}\n[{left:,} of {len(shown):,} characters left out here; {where}]\n{tail}"
    return place.masks.text(cut), stored

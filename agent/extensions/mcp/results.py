"""The result of a server for the model: text within a limit, valid images, files for the rest."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from tools.base import ToolContext, ToolResult
from tools.files import BadImage, load_image, media_type
from tools.processes import Spool
from tools.text import cut_at_lines, printable
from transcripts import Block, Display, OutputsFolder, StoredOutput, TextBlock
from transcripts.secrets import SecretMasks
from transcripts.wording import cause_of

from .entries import ServerEntry
from .session import objects_in

MAX_MCP_IMAGES = 10
MAX_MCP_DATA_PARTS = 30  # images, sounds and other files of one result


class ResultPlace(Struct, frozen=True):
    """The server of a result, and the directory and name of the files that store parts of it."""

    entry: ServerEntry
    context: ToolContext
    ident: str

    @property
    def server(self) -> str:
        return self.entry.name

    @property
    def masks(self) -> SecretMasks:
        """The secrets to mask in the result: ours, and those that the server was given."""
        return SecretMasks((*self.context.masks.values, *self.entry.masks.values))

    def path(self, extension: str, number: int = 0) -> Path:
        """Return the path of a new file, whose directory is made when it is written."""
        ident = self.ident.replace(".", "-")
        suffix = f"-{number}" if number else ""
        return self.context.outputs / f"{self.context.session}-mcp-{ident}{suffix}{extension}"

    def shown(self, path: Path) -> str:
        """Return a path as the model sees it."""
        folder = self.context.folder
        return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)


async def mcp_result(answer: Mapping[str, Any], place: ResultPlace, about: Mapping[str, Any]) -> ToolResult:
    """Return the result of `tools/call`. `about` is for the transcript."""
    return await _made_result(
        objects_in(answer.get("content")),
        place,
        about,
        structured=answer.get("structuredContent"),
        error=answer.get("isError") is True,
    )


async def resource_result(
    answer: Mapping[str, Any], place: ResultPlace, about: Mapping[str, Any]
) -> ToolResult:
    """Return the result of `resources/read`."""
    parts = [{"type": "resource", "resource": part} for part in objects_in(answer.get("contents"))]
    return await _made_result(parts, place, about)


async def _made_result(
    parts: Sequence[dict[str, Any]],
    place: ResultPlace,
    about: Mapping[str, Any],
    *,
    structured: object = None,
    error: bool = False,
) -> ToolResult:
    """Return the parts as blocks: text first, then the images."""
    pieces = await asyncio.to_thread(lambda: list(_pieces(_without_excess(parts), place)))
    texts = [piece for piece in pieces if isinstance(piece, str)]
    images = [piece for piece in pieces if not isinstance(piece, str)]
    if structured is not None and not texts:
        texts = [json.dumps(structured, ensure_ascii=False)]
    limited = await asyncio.to_thread(_limited, "\n".join(texts), place)
    blocks: list[Block] = [TextBlock(limited.text)] if limited.text.strip() else []
    blocks += await asyncio.to_thread(lambda: [_image(each) for each in images[:MAX_MCP_IMAGES]])
    more = len(images) - MAX_MCP_IMAGES
    if more > 0:
        blocks.append(TextBlock(f"[{more} more images omitted]"))
    return ToolResult(
        tuple(blocks) or (TextBlock("(no output)"),),
        error=error,
        human=Display(text=limited.text),
        about=about,
        stored=limited.stored,
    )


def _without_excess(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts with at most MAX_MCP_DATA_PARTS images and files, and a line about the others."""
    data = [at for at, part in enumerate(parts) if part.get("type") != "text" and _has_data(part)]
    excess = set(data[MAX_MCP_DATA_PARTS:])
    kept = [part for at, part in enumerate(parts) if at not in excess]
    line = {"type": "text", "text": f"[{len(excess):,} more images and files omitted]"}
    return [*kept, line] if excess else kept


def _has_data(part: Mapping[str, Any]) -> bool:
    resource = part.get("resource")
    return "data" in part or (isinstance(resource, dict) and "blob" in resource)


def _pieces(parts: Sequence[dict[str, Any]], place: ResultPlace) -> Iterator[str | bytes]:
    """Yield the texts, and the bytes of images."""
    for number, part in enumerate(parts, 1):
        match part:
            case {"type": "text", "text": str(text)}:
                yield text
            case {"type": "image" | "audio", "data": str(data)}:
                yield _from_base64(data, _kind(part), place, number)
            case {"type": "resource", "resource": {"text": str(text)}}:
                yield f"@{place.server}:{_uri(part['resource'])}\n{text}"
            case {"type": "resource", "resource": {"blob": str(data)}}:
                yield f"@{place.server}:{_uri(part['resource'])}"
                yield _from_base64(data, _kind(part["resource"]), place, number)
            case {"type": "resource_link"}:
                about = part.get("description") or part.get("title") or part.get("name") or ""
                yield f"@{place.server}:{_uri(part)} {about}".rstrip()
            case _:
                yield json.dumps(part, ensure_ascii=False)


def _uri(part: Mapping[str, Any]) -> str:
    return str(part.get("uri", ""))


def _kind(part: Mapping[str, Any]) -> str:
    """Return the media type of a part."""
    return str(part.get("mimeType") or "application/octet-stream")[:80]


def _from_base64(data: str, kind: str, place: ResultPlace, number: int) -> str | bytes:
    """Return the bytes of an image, or a line about the file that stores other data."""
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return f"[{kind}: the server sent invalid base64]"
    if media_type(raw[:16]) is not None:
        return raw
    if len(raw) > 50 * 1024 * 1024:
        return f"[{kind}, {len(raw):,} bytes: too large to save]"
    path = place.path(_extension(kind), number)
    try:
        OutputsFolder(path.parent).write(path.name, raw)
    except OSError as error:
        return f"[{kind}, {len(raw):,} bytes: cannot be saved ({cause_of(error)})]"
    return f"[{kind}, {len(raw):,} bytes: {place.shown(path)}]"


def _extension(kind: str) -> str:
    """Return the extension for a media type: .wav for audio/wav."""
    subtype = kind.partition("/")[2].partition(";")[0].strip().lower()
    return f".{subtype}" if re.fullmatch(r"[a-z0-9]{1,8}", subtype) else ".bin"


def _image(raw: bytes) -> Block:
    """Return a valid image for a request, or the reason why it is not: an invalid one fails requests."""
    try:
        block, _ = load_image(raw)
    except BadImage as error:
        return TextBlock(f"[image omitted: {error}]")
    return block


class _Limited(NamedTuple):
    """A text within the limit, and the file with the full text if that is longer."""

    text: str
    stored: StoredOutput | None = None


def _limited(text: str, place: ResultPlace) -> _Limited:
    shown = printable(text)
    if len(shown) <= 25_000:
        return _Limited(place.masks.text(shown))
    spool = Spool(place.path(".txt"), masks=place.masks)
    spool.feed(text.encode("utf-8", "replace"))
    spool.keep()
    spool.close()
    stored = spool.stored(place.context.folder)
    where = f"full text: {stored.path}" if stored else f"the full text could not be saved: {spool.error}"
    head, tail = cut_at_lines(shown[:16_000], shown[-8_000:])
    left = len(shown) - len(head) - len(tail)
    cut = f"{head}\n[{left:,} of {len(shown):,} characters omitted; {where}]\n{tail}"
    return _Limited(place.masks.text(cut), stored)

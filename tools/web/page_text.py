"""The text of a fetched document: HTML as Markdown, other text as it is."""

from __future__ import annotations

import codecs
import re
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from tools.processes import CommandContext, command_runner, filter_environment
from tools.sandbox import SupervisorLost
from tools.search import run_program
from tools.text import decode_text, seems_binary

from .fetching import Document, WebError

_MAX_CONVERTED_BYTES = 8_000_000
MAX_TEXT_BYTES = 3_000_000  # Markdown of so much is longer than any result
MAX_PDF_BYTES = 20_000_000  # a part of a document cannot be read
PDF = "application/pdf"
_HTML = ("text/html", "application/xhtml+xml")
# Media types that are text, besides text/*.
_TEXT = re.compile(r"application/(?:.*[+.-])?(?:json|xml|yaml|toml|javascript|ecmascript|graphql|sql|x-sh)")


def readable_bytes(kind: str) -> int:
    """Return how many bytes of a document of a media type can be shown; without a type it may be text."""
    if kind == PDF:
        return MAX_PDF_BYTES
    return MAX_TEXT_BYTES if _is_text(kind) else 0


def _is_text(kind: str) -> bool:
    return not kind or kind.startswith("text/") or kind in _HTML or _TEXT.fullmatch(kind) is not None


async def document_text(context: CommandContext, document: Document) -> str:
    """Return the text of a document. Raises WebError if it is not text."""
    if not _is_text(document.kind):
        raise WebError(f"{document.address} is {document.kind[:80]}, not text.")
    begins_as_page = re.match(rb"\s*(?:<!doctype html|<html)", document.content[:500], re.IGNORECASE)
    if document.kind in _HTML or (not document.kind and begins_as_page):
        return await _converted(context, document)
    decoded = decode_text(document.content, document.charset)
    if decoded is None or seems_binary(decoded[0]):
        raise WebError(f"{document.address} is binary data, not text.")
    return decoded[0]


def _charset_of(page: Document) -> str:
    """Return the charset of a page; "" if the parser has to find it in the page, or assume windows-1252."""
    with suppress(LookupError):
        if page.charset:
            return codecs.lookup(page.charset).name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(page.content)  # the last character may be cut
    except UnicodeDecodeError:
        return ""
    return "utf-8"


_CONVERSION_LIMIT_S = 20.0  # the parser takes 1.3 s a megabyte on an old machine


async def _converted(context: CommandContext, document: Document) -> str:
    """Return a page as Markdown, below its title. Raises WebError if that takes too long or fails."""
    found = find_spec("justhtml")
    assert found is not None and found.origin is not None, "a dependency of makeroom"
    libraries = str(Path(found.origin).parents[1])
    program = str(Path(__file__).with_name("html_program.py"))
    output = bytearray()

    def take(data: bytes) -> bool:
        output.extend(data)
        return len(output) <= _MAX_CONVERTED_BYTES

    try:
        place = (await command_runner(context).supervisor()).private
        with tempfile.NamedTemporaryFile(dir=place, prefix="page-") as page:
            page.write(document.content)
            page.flush()
            argv = [sys.executable, "-I", "-S", "-X", "utf8", program, libraries, page.name]
            end = await run_program(
                context,
                [*argv, _charset_of(document)],
                environ=filter_environment(context.environ),
                folder=str(place),
                take=take,
                limit_s=_CONVERSION_LIMIT_S,
            )
    except (SupervisorLost, OSError) as error:
        raise WebError(f"The page cannot be converted: {error}.\nTry again.") from error
    if end.status != 0 and len(output) <= _MAX_CONVERTED_BYTES:
        why = end.stopped or "the parser failed"
        raise WebError(f"The page cannot be converted to Markdown: {why}.\nUse another source.")
    title, _, text = output[:_MAX_CONVERTED_BYTES].decode("utf-8", "replace").partition("\n")
    return f"# {title}\n\n{text}" if title and f"# {title}" not in text else text

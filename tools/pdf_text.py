"""The text of a PDF document, page by page, with pypdf (the extra `makeroom[pdf]`)."""

from __future__ import annotations

import hashlib
import io
import logging
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tools.files import one_line_path
from tools.text import printable
from transcripts import Display
from transcripts.wording import pluralize

from .base import ToolError, ToolResult, text_result

PDF_MARK = b"%PDF-"
MAX_PDF_BYTES = 64 * 1024 * 1024
_MAX_PAGE_CHARS = 20_000  # of one page, shown at most
_ERRORS_OF_DAMAGE = (
    *(ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RuntimeError, AssertionError),
    *(EOFError, OSError, zlib.error, struct.error),
)
_BY_COMMAND = "Use bash: pdftotext FILE -."


def read_pdf(
    path: str, data: bytes, wanted: tuple[int, int] | None, max_bytes: int, abandoned: threading.Event
) -> ToolResult:
    """Return the text of pages. `wanted`: the first page, from 1, or from the end if negative; how many.

    Blocks: a page takes about 10 ms. Raises ToolError.
    """
    name = one_line_path(path)
    pages = _open(name, data)
    total = len(pages)
    offset, count = wanted or (1, total)
    first = max(1, total + offset + 1 if offset < 0 else offset)
    if first > total:
        past = f"[offset {first} is past the end: the document has {pluralize(total, 'page')}]"
        return text_result(past, human=Display(note="past the end"), about={"path": path})
    texts: list[str] = []
    size = 0
    for number in range(first, min(total, first + count - 1) + 1):
        text = _page_text(name, pages, number)
        size += len(text.encode("utf-8", "replace"))
        if texts and (size > max_bytes or abandoned.is_set()):
            break
        texts.append(text)
    last = first + len(texts) - 1
    following = f"; continue with offset={last + 1}" if last < total else ""
    shown = f"pages {first}-{last} of {total}" if last > first else f"page {first} of {total}"
    note = f"[a PDF document: text of {shown}{following}; offset and limit count pages]"
    about: dict[str, Any] = {"path": path, "pdf": hashlib.sha256(data).hexdigest(), "last_page": last}
    return text_result("\n\n".join([*texts, note]), human=Display(note=shown), about=about)


_INSTALL = "Install the extra (pip install 'makeroom[pdf]')"


def _open(name: str, data: bytes) -> Any:
    """Return the pages of a document. Raises ToolError."""
    try:
        import pypdf  # 200 ms, and rarely needed
    except ImportError as error:
        problem = f"{name} is a PDF document: {len(data):,} bytes. {_INSTALL} to read its text."
        raise ToolError(problem, _BY_COMMAND, tools="bash") from error
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns of each small defect of a document
    with _damage_explained(name):
        document = pypdf.PdfReader(io.BytesIO(data))
        if document.is_encrypted and not document.decrypt(""):
            raise ToolError(f"{name} is a PDF document that needs a password.\nAsk the user for its text.")
        if not len(document.pages):
            raise ValueError("it has no pages")
        return document.pages


def _page_text(name: str, pages: Any, number: int) -> str:
    """Return the text of a page below a line with its number. Raises ToolError."""
    with _damage_explained(name):
        text = printable(pages[number - 1].extract_text()).strip()
    if len(text) > _MAX_PAGE_CHARS:
        left = len(text) - _MAX_PAGE_CHARS
        text = f"{text[:_MAX_PAGE_CHARS]}…[+{left:,} chars]"
    return f"[page {number}]\n{text or '(no text, perhaps an image)'}"


@contextmanager
def _damage_explained(name: str) -> Iterator[None]:
    """Turn the errors of pypdf into a ToolError; a damaged document also causes others than its own."""
    from pypdf.errors import PyPdfError

    try:
        yield
    except (PyPdfError, *_ERRORS_OF_DAMAGE) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        problem = f"{name} is a PDF document that cannot be read: {reason}"
        raise ToolError(problem, _BY_COMMAND, tools="bash") from error

"""Fetch pages from the web, from public addresses only, and convert them to Markdown."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .fetching import *
    from .page_text import *
    from .unpacking import *
    from .web_address import *

__getattr__ = lazy_door(
    __name__,
    {
        "fetching": "Document WebError fetch_document",
        "page_text": "PDF document_text readable_bytes",
        "unpacking": "CODINGS Unpacker",
        "web_address": "WebAddress parse_address",
    },
)

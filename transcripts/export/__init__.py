"""Write a session as Markdown, JSON, JSONL or one HTML page, with secrets masked."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .formats import EXPORTERS, export_text, fenced, mask_session, write_private

__all__ = [
    "EXPORTERS",
    "export_text",
    "fenced",
    "mask_session",
    "write_private",
]
__getattr__ = lazy_door(
    __name__,
    {
        "formats": "EXPORTERS export_text fenced mask_session write_private",
    },
)

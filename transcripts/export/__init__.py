"""Write a session as Markdown, JSON, JSONL or one HTML page, with secrets masked; read diffs for readers."""

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .code_languages import is_quickly_coloured
    from .formats import EXPORTERS, export_text, fenced, mask_session, write_private
    from .unified_diff import DiffRow, read_diff

__all__ = [
    "EXPORTERS",
    "DiffRow",
    "export_text",
    "fenced",
    "is_quickly_coloured",
    "mask_session",
    "read_diff",
    "write_private",
]
__getattr__ = lazy_door(
    __name__,
    {
        "code_languages": "is_quickly_coloured",
        "formats": "EXPORTERS export_text fenced mask_session write_private",
        "unified_diff": "DiffRow read_diff",
    },
)

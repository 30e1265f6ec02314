"""Decode text, make it safe to display, shorten it. Pure."""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .display import *
    from .encoding import *
    from .shortening import *
    from .words import *

__getattr__ = lazy_door(
    __name__,
    {
        "display": "as_drawn count_invisible escaped escaped_bytes is_plain printable without_tags",
        "encoding": (
            "BINARY_HEAD_BYTES TextForm decode_text guess_codec has_early_nul has_surrogate mark_stray_bytes "
            "seems_binary unify_newlines"
        ),
        "shortening": "NO_OUTPUT cut_around cut_at_lines last_lines shown_chars",
        "words": "word_set",
    },
)

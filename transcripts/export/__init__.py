"""Export a session as Markdown, JSON, JSONL, HTML, plain text or a session of Claude Code; read diffs.

Secrets are masked in all exports.
"""
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from transcripts.lazy_door import lazy_door

if TYPE_CHECKING:
    from .claude_code import *
    from .code_languages import *
    from .conversation import *
    from .formats import *
    from .markdown import *
    from .unified_diff import *

__getattr__ = lazy_door(
    __name__,
    {
        "claude_code": "claude_code_lines claude_code_path",
        "code_languages": "is_quickly_coloured",
        "conversation": "conversation_pieces conversation_text load_conversation",
        "formats": "EXPORTERS encoded export_pieces mask_session write_private",
        "markdown": "fenced",
        "unified_diff": "DiffRow read_diff",
    },
)

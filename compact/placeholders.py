"""Placeholders: the one line that stands where something was cleared. It names what, how much, and the id.

Models that see cleared inputs copy them, so write and edit refuse text of this form; it must not change
lightly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from transcripts.messages import ToolUse
from transcripts.view import Kind, Part

TOKENS = 28  # what one of them weighs, about
_SHORT = 60  # characters of an argument that are shown
_TELLING = (
    "file_path",
    "path",
    "notebook_path",
    "command",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)


def recall_id(part: Part) -> str:
    """The id that brings the original back: r<seq> of a result, r<seq>.<block> of anything else."""
    return f"r{part.seq}" if part.use is not None else f"r{part.seq}.{part.index}"


def result_line(part: Part, tokens: int) -> str:
    """The placeholder of a result."""
    what = describe(part.use) if part.use is not None else "a result"
    return f"[cleared: {what}, {tokens:,} tokens; recall {recall_id(part)} shows it]"


def input_line(part: Part, field: str, tokens: int) -> str:
    """The placeholder of one field of a tool input."""
    return f"[cleared: {field}, {tokens:,} tokens; recall {recall_id(part)} shows it]"


def pasted_line(part: Part, tokens: int) -> str:
    """The placeholder of a pasted text or image of the user."""
    what = "text of the user" if part.kind is Kind.USER else "a block"
    return f"[cleared: {what}, {tokens:,} tokens; recall {recall_id(part)} shows it]"


def describe(use: ToolUse) -> str:
    """A call in a few words: its name and its most telling argument, on one line."""
    argument = telling(use.input)
    return f"{use.name} {argument}".strip() if argument else use.name


def telling(arguments: Mapping[str, Any]) -> str:
    """The argument that says best what a call is about; paths whole, the rest cut short."""
    for name in _TELLING:
        value = arguments.get(name)
        if isinstance(value, str) and value:
            line = " ".join(value.split()).replace("[", "(").replace("]", ")")
            return line if "path" in name or len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"
    if not arguments:
        return ""
    line = " ".join(json.dumps(dict(arguments), ensure_ascii=False, default=str).split())
    line = line.replace("[", "(").replace("]", ")")
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"

"""Placeholders: the one line that stands where something was cleared. It names what, how much, and the id.

Models that see cleared inputs copy them, so write and edit refuse text of this form; it must not change
lightly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from transcripts.messages import ToolUseBlock
from transcripts.view import Part

LINE = "[cleared:"
BEGINS = (LINE, "<persisted-output")
_SHORT = 80  # characters of an argument that are shown
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


def is_placeholder(text: str) -> bool:
    """Whether the text is one of ours."""
    return text.startswith(BEGINS)


def is_line(text: str) -> bool:
    """Whether the text is a placeholder of one line: nothing of it can go."""
    return text.startswith(LINE)


def recall_id(part: Part) -> str:
    """The id that brings the original back: r<seq> of a result, r<seq>.<block> of anything else."""
    return f"r{part.seq}" if part.use is not None else f"r{part.seq}.{part.index}"


def result_line(part: Part, tokens: int) -> str:
    """The placeholder of a result."""
    what = describe(part.use) if part.use is not None else "a result"
    return _line(what, tokens, recall_id(part))


def input_line(part: Part, field: str, value: str, tokens: int) -> str:
    """The placeholder of one field of a tool input. A command keeps its beginning: it says what was done."""
    what = f"{field} {_cut(value)}" if field in ("command", "prompt", "query") else field
    return _line(what, tokens, recall_id(part))


def pasted_line(part: Part, tokens: int) -> str:
    """The placeholder of an image of the user."""
    return _line("image of the user", tokens, recall_id(part))


def _line(what: str, tokens: int, ident: str) -> str:
    return f"{LINE} {what}, {tokens:,} tokens; recall {ident} shows it]"


def describe(use: ToolUseBlock) -> str:
    """A call in a few words: its name and its most telling argument, on one line."""
    argument = telling(use.input)
    return f"{use.name} {argument}".strip() if argument else use.name


def telling(arguments: Mapping[str, Any]) -> str:
    """The argument that says best what a call is about; paths whole, the rest cut short."""
    for name in _TELLING:
        value = arguments.get(name)
        if isinstance(value, str) and value and not is_placeholder(value):
            return _flat(value) if "path" in name else _cut(value)
    if not arguments:
        return ""
    return _cut(json.dumps(dict(arguments), ensure_ascii=False, default=str))


def _flat(text: str) -> str:
    return " ".join(text[:4_000].split()).replace("[", "(").replace("]", ")")


def _cut(text: str) -> str:
    line = _flat(text)
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"


def head_and_tail(text: str, characters: int, ident: str) -> str:
    """The beginning and the end of a text, in about so many characters, with the way to the rest."""
    half = max(1, characters // 2)
    cut = len(text) - 2 * half
    if cut <= 0:
        return text
    gap = f"[... {cut:,} characters are left out here; recall {ident} shows it all ...]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"

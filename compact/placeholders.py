"""The texts that stand where something was cleared: what it was, its size, and the id that recalls it.

Models that see cleared inputs may copy them, so write and edit refuse text of this form; it must not change
lightly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from transcripts.messages import ToolUseBlock
from transcripts.view import Part

PLACEHOLDER_START = "[cleared:"
PREVIEW_START = "<persisted-output"
MAX_SHOWN_ARGUMENT_CHARS = 80  # of an argument that is shown; paths are shown whole
MAX_LINE_SOURCE_CHARS = 4_000  # of a text that is put on one line
PATH_ARGUMENTS = ("file_path", "path", "notebook_path")
_MAIN_ARGUMENTS = (*PATH_ARGUMENTS, "command", "pattern", "query", "url", "description", "prompt")


def is_placeholder(text: str) -> bool:
    """Whether the text is a placeholder or a preview of ours."""
    return text.startswith((PLACEHOLDER_START, PREVIEW_START))


def is_one_line(text: str) -> bool:
    """Whether the text is a placeholder of one line, of which nothing more can be cleared."""
    return text.startswith(PLACEHOLDER_START)


def recall_id(part: Part) -> str:
    """The id that brings the original back: r<seq> of a result, r<seq>.<block> of anything else."""
    return f"r{part.seq}" if part.use is not None else f"r{part.seq}.{part.index}"


def result_placeholder(part: Part, tokens: int) -> str:
    """What is shown instead of a result of `tokens` tokens."""
    what = call_label(part.use) if part.use is not None else "a result"
    return _placeholder(what, tokens, recall_id(part))


def input_placeholder(part: Part, field: str, value: str, tokens: int) -> str:
    """What is shown instead of one field of a tool input; the beginning of a command stays."""
    what = f"{field} {_shortened(value)}" if field in ("command", "prompt", "query") else field
    return _placeholder(what, tokens, recall_id(part))


def image_placeholder(part: Part, tokens: int) -> str:
    """What is shown instead of an image of the user."""
    return _placeholder("image of the user", tokens, recall_id(part))


def _placeholder(what: str, tokens: int, ident: str) -> str:
    return f"{PLACEHOLDER_START} {what}, {tokens:,} tokens; recall {ident} shows it]"


def preview_text(part: Part, text: str, path: str, characters: int) -> str:
    """What is shown instead of a result that is stored at `path`: its first `characters` characters."""
    ident = recall_id(part)
    return (
        f'{PREVIEW_START} path="{path}" characters="{len(text)}" recall="{ident}">\n'
        f"Preview (the first {min(characters, len(text)):,} of {len(text):,} characters; "
        f"recall {ident} pages through all of it):\n{text[:characters]}\n</persisted-output>"
    )


def head_and_tail(text: str, characters: int, ident: str) -> str:
    """The beginning and the end of a text, about `characters` in all, with the id of the whole."""
    half = max(1, characters // 2)
    omitted = len(text) - 2 * half
    if omitted <= 0:
        return text
    gap = f"[... {omitted:,} characters are left out here; recall {ident} shows it all ...]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"


def call_label(use: ToolUseBlock) -> str:
    """A call on one line: its name and its main argument."""
    argument = _main_argument(use.input)
    return f"{use.name} {argument}".strip() if argument else use.name


def _main_argument(arguments: Mapping[str, Any]) -> str:
    for name in _MAIN_ARGUMENTS:
        value = arguments.get(name)
        if isinstance(value, str) and value and not is_placeholder(value):
            return _on_one_line(value) if "path" in name else _shortened(value)
    if not arguments:
        return ""
    return _shortened(json.dumps(dict(arguments), ensure_ascii=False, default=str))


def _on_one_line(text: str) -> str:
    """The text without line breaks and square brackets, which delimit placeholders."""
    return " ".join(text[:MAX_LINE_SOURCE_CHARS].split()).replace("[", "(").replace("]", ")")


def _shortened(text: str) -> str:
    line = _on_one_line(text)
    return line if len(line) <= MAX_SHOWN_ARGUMENT_CHARS else f"{line[: MAX_SHOWN_ARGUMENT_CHARS - 1]}…"

"""What a person is told of the tools that the service runs: each search and each page, and what failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.events import Notice
from transcripts.messages import UnknownBlock

_TITLE_FIELDS = ("query", "url")
_MAX_TITLE_CHARS = 200


def server_tool_notice(block: UnknownBlock) -> Notice | None:
    """The line about a block that came; None where there is nothing to tell."""
    kind, content = str(block.raw.get("type")), block.raw.get("content")
    if kind == "server_tool_use":
        return Notice(f"{block.raw.get('name')}: {_title(block.raw.get('input'))}")
    if kind.endswith("_tool_result") and isinstance(content, Mapping) and "error_code" in content:
        return Notice(f"{kind.removesuffix('_tool_result')} failed: {content['error_code']}", "warning")
    return None


def _title(given: Any) -> str:
    found = (given.get(name) for name in _TITLE_FIELDS) if isinstance(given, Mapping) else iter(())
    return str(next(filter(None, found), given))[:_MAX_TITLE_CHARS]

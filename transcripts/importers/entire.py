"""Read compact transcripts of Entire: lines of {"v", "agent", "cli_version", "type", "ts", "content"}.

A result is part of the block of its call. Texts of the user have no `type`.
"""

from collections.abc import Mapping
from typing import Any

from ..messages import Block, ToolUseBlock
from .apply_patch import own_calls
from .openai_items import content_parts, tool_call
from .recording import UNREADABLE_CALLS, ImportedSession, ParsedFile, content_blocks, parse_time

_MESSAGE_TYPES = ("user", "assistant")


def recognizes(file: ParsedFile) -> bool:
    """Return whether the lines are messages with the version of the format."""
    return any(_is_message(raw) and ("agent" in raw or "cli_version" in raw) for raw in file.objects)


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation; calls of Codex become calls of makeroom's tools."""
    for number, raw in enumerate(file.objects):
        if not _is_message(raw):
            session.skip_line(raw)
            continue
        ts = parse_time(raw.get("ts"))
        blocks: list[Block] = []
        results: list[tuple[list[ToolUseBlock], Mapping[str, Any]]] = []
        for index, block in enumerate(_raw_blocks(raw.get("content"))):
            if not isinstance(block, Mapping) or block.get("type") != "tool_use":
                part = {"type": "text", **block} if isinstance(block, Mapping) else block
                blocks += content_blocks([part], session.skip) or ()
                continue
            ident = block.get("id") or f"line_{number}_{index}"
            use = tool_call(ident, block.get("name"), block.get("input") or {})
            if use is None:
                session.skip(UNREADABLE_CALLS)
                continue
            calls = own_calls(use)
            blocks += calls
            if isinstance(result := block.get("result"), Mapping):
                results.append((calls, result))
        if raw["type"] == "user":
            session.add_user(tuple(blocks), ts)
        else:
            session.add_reply(tuple(blocks), ts)
        for calls, result in results:
            failed = result.get("status") == "error"
            for call in calls:
                session.add_result(
                    call.id, content_parts(result.get("output"), session.skip), ts, error=failed
                )


def _is_message(raw: Mapping[str, Any]) -> bool:
    return raw.get("v") == 1 and raw.get("type") in _MESSAGE_TYPES and "content" in raw


def _raw_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"text": content}]
    return content if isinstance(content, list) else []

"""Reads sessions of pi: a {"type": "session"} header, then lines of {"type": "message", "message": {...}}.

Newer files are trees: each entry has `id` and `parentId`, and the conversation is the path from the last
entry to the root. Summaries are left out: a replay has the history itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transcripts.messages import Block, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock

from .recording import Count, FactAssembly, ImportedSession, Sample, parse_objects, parse_time

_PI_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom")


def recognizes(sample: Sample) -> bool:
    """Whether there is a header of a session, or messages wrapped as pi wraps them."""
    for raw in sample.objects:
        message = raw.get("message")
        if raw.get("type") == "message" and isinstance(message, Mapping) and message.get("role") in _PI_ROLES:
            return True
        if raw.get("type") == "session" and "cwd" in raw:
            return True
    return False


def read_session(text: str, count: Count) -> ImportedSession:
    """The conversation on the branch that the file ends on."""
    found, damaged = parse_objects(text)
    branch = _branch(found)
    assembly = FactAssembly(count, damaged=damaged, skipped=len(found) - len(branch))
    for raw in branch:
        message = raw.get("message")
        if raw.get("type") != "message" or not isinstance(message, Mapping):
            assembly.skipped += 1
            continue
        ts = parse_time(message.get("timestamp"))
        _add_message(message, ts if ts is not None else parse_time(raw.get("timestamp")), assembly)
    return assembly.finish("pi")


def _branch(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    entries = {raw["id"]: raw for raw in found if isinstance(raw.get("id"), str) and "parentId" in raw}
    if not entries:
        return found
    path: list[dict[str, Any]] = []
    at: Any = next(reversed(entries))
    while isinstance(at, str) and at in entries and len(path) <= len(entries):
        path.append(entries[at])
        at = entries[at]["parentId"]
    return path[::-1]


def _add_message(message: Mapping[str, Any], ts: float | None, assembly: FactAssembly) -> None:
    role = message.get("role")
    if role not in _PI_ROLES:
        assembly.skipped += 1
        return
    if role == "bashExecution":
        _add_command(message, ts, assembly)
        return
    blocks = _blocks(message.get("content"))
    if blocks is None:
        assembly.damaged += 1
    elif role == "assistant":
        assembly.reply(blocks, ts, str(message.get("model") or ""))
    elif role == "toolResult":
        call, error = str(message.get("toolCallId")), bool(message.get("isError"))
        assembly.result(call, blocks, ts, error=error)
    else:
        assembly.user(blocks, ts)


def _add_command(message: Mapping[str, Any], ts: float | None, assembly: FactAssembly) -> None:
    """A command that the user ran: it becomes a prompt, unless it was excluded from the context."""
    if message.get("excludeFromContext"):
        assembly.skipped += 1
        return
    shown = f"Ran `{message.get('command', '')}`\n```\n{message.get('output', '')}\n```"
    assembly.user((TextBlock(shown),), ts)


def _blocks(content: Any) -> tuple[Block, ...] | None:
    if isinstance(content, str):
        return (TextBlock(content),) if content.strip() else ()
    if not isinstance(content, list):
        return None
    made = (_block(raw) for raw in content if isinstance(raw, Mapping))
    return tuple(block for block in made if block is not None)


def _block(raw: Mapping[str, Any]) -> Block | None:
    match raw:
        case {"type": "text", "text": str(text)}:
            return TextBlock(text) if text.strip() else None
        case {"type": "thinking", "thinking": str(thinking)}:
            return ThinkingBlock(thinking, str(raw.get("thinkingSignature") or ""))
        case {"type": "toolCall", "id": str(ident), "name": str(name), "arguments": dict(arguments)}:
            return ToolUseBlock(ident, name, arguments)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return ImageBlock(kind, data)
    return None

"""Read sessions of pi: a {"type": "session"} header, then lines of {"type": "message", "message": {...}}.

Newer files are trees: each entry has `id` and `parentId`, and the conversation is the path from the root to
the last entry. Summaries are omitted, since a replay has the history itself.
"""

from collections.abc import Mapping
from typing import Any

from ..messages import Block, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from .recording import ImportedSession, ParsedFile, Skip, mapping_in, parse_time, read_parts

_PI_ROLES = ("user", "assistant", "toolResult", "bashExecution", "custom")


def recognizes(file: ParsedFile) -> bool:
    """Return whether the file has a session header, or messages wrapped as in pi."""
    return any(
        (raw.get("type") == "session" and "cwd" in raw) or _message(raw).get("role") in _PI_ROLES
        for raw in file.objects
    )


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation on the branch that the file ends on."""
    branch = _branch(file.objects)
    followed = set(map(id, branch))
    for raw in file.objects:
        if id(raw) not in followed and "parentId" in raw:
            session.skip("entries of other branches")
        elif id(raw) not in followed or not _message(raw):
            session.skip_line(raw)
    for raw in branch:
        if message := _message(raw):
            ts = parse_time(message.get("timestamp"))
            _add_message(message, ts if ts is not None else parse_time(raw.get("timestamp")), session)


def _message(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the message that a line wraps; {} if there is none."""
    return mapping_in(raw, "message") if raw.get("type") == "message" else {}


def _branch(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    entries = {raw["id"]: raw for raw in found if isinstance(raw.get("id"), str) and "parentId" in raw}
    if not entries:
        return found
    path: list[dict[str, Any]] = []
    at: Any = next(reversed(entries))
    while isinstance(at, str) and (entry := entries.pop(at, None)) is not None:
        path.append(entry)
        at = entry["parentId"]
    return path[::-1]


def _add_message(message: Mapping[str, Any], ts: float | None, session: ImportedSession) -> None:
    role = message.get("role")
    blocks = _blocks(message.get("content"), session.skip)
    if role not in _PI_ROLES:
        session.skip("messages of other roles")
    elif role == "bashExecution" and message.get("excludeFromContext"):
        session.skip("commands that the user kept from the model")
    elif role == "bashExecution":  # a command that the user ran
        shown = f"Ran `{message.get('command', '')}`\n```\n{message.get('output', '')}\n```"
        session.add_user((TextBlock(shown),), ts)
    elif blocks is None:
        session.damaged += 1
    elif role == "assistant":
        session.add_reply(blocks, ts, str(message.get("model") or ""))
    elif role == "toolResult":
        error = bool(message.get("isError"))
        session.add_result(str(message.get("toolCallId")), blocks, ts, error=error)
    else:
        session.add_user(blocks, ts)


def _blocks(content: Any, skip: Skip) -> tuple[Block, ...] | None:
    if isinstance(content, str):
        content = [content]
    return read_parts(content, _part, skip) if isinstance(content, list) else None


def _part(raw: Mapping[str, Any]) -> tuple[Block, ...] | None:
    match raw:
        case {"type": "text", "text": str(text)}:
            return (TextBlock(text),) if text.strip() else ()
        case {"type": "thinking", "thinking": str(thinking)}:
            return (ThinkingBlock(thinking, str(raw.get("thinkingSignature") or "")),)
        case {"type": "toolCall", "id": str(ident), "name": str(name), "arguments": dict(arguments)}:
            return (ToolUseBlock(ident, name=name, input=arguments),)
        case {"type": "image", "data": str(data), "mimeType": str(kind)}:
            return (ImageBlock(kind, data),)
    return None

"""Read messages of the Messages API, {"role", "content", "timestamp"?}: one per line, or a list of them."""

from collections.abc import Mapping
from typing import Any

from .recording import ImportedSession, ParsedFile, content_blocks, list_in, parse_time

_MESSAGE_ROLES = ("user", "assistant")


def recognizes(file: ParsedFile) -> bool:
    """Return whether the objects are messages."""
    return any(raw.get("role") in _MESSAGE_ROLES and "content" in raw for raw in _messages(file))


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the conversation, without messages of another role such as a system prompt."""
    for raw in _messages(file):
        if raw.get("role") not in _MESSAGE_ROLES:
            session.skip("messages of other roles")
            continue
        if (blocks := content_blocks(raw.get("content"), session.skip)) is None:
            session.damaged += 1
        else:
            session.add_message(raw["role"], blocks, parse_time(raw.get("timestamp", raw.get("ts"))))


def _messages(file: ParsedFile) -> list[Mapping[str, Any]]:
    listed = file.whole if isinstance(file.whole, list) else list_in(file.whole, "messages")
    return [raw for raw in listed if isinstance(raw, Mapping)] if listed else [*file.objects]

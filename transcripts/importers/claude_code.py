"""Read sessions of Claude Code: lines of {"type", "message", "uuid", "parentUuid", "timestamp", ...}.

A reply is split over several lines with one `message.id`; results of its first calls may come between them.
Side chains (subagents have their own context), lines marked as meta, summaries that replaced history (a
replay has the history itself) and messages that a second prompt on the same parent rewound are omitted.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from ..messages import Block, ToolResultBlock
from .recording import ImportedSession, ParsedFile, content_blocks, parse_time

_MESSAGE_TYPES = ("user", "assistant")
# Field -> what a message is in which it is true.
_LEFT_OUT = {
    "isSidechain": "subagent messages",
    "isMeta": "messages that Claude Code added",
    "isCompactSummary": "summaries",
}


class _Message(Struct):
    """A complete reply, or a message from the user."""

    role: str
    blocks: tuple[Block, ...]
    ts: float | None
    parent: str | None
    id: str
    model: str  # "" for a message from the user
    told: Any  # Claude Code's note on a result (`toolUseResult`)
    lines: int = 1

    @property
    def is_prompt(self) -> bool:
        return self.role == "user" and not any(isinstance(block, ToolResultBlock) for block in self.blocks)


def recognizes(file: ParsedFile) -> bool:
    """Return whether the lines wrap messages as Claude Code does."""
    return any(map(_holds_message, file.objects))


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add the main conversation in the order of the file."""
    messages: list[_Message] = []
    known: set[str] = set()
    for raw in file.objects:
        if not _holds_message(raw):
            session.skip_line(raw)
            continue
        ident = str(raw.get("uuid") or len(known))
        what = "repeated lines" if ident in known else _left_out(raw)
        if what:
            session.skip(what)
            continue
        known.add(ident)
        message = raw["message"]
        blocks = content_blocks(message.get("content"))
        if blocks is None:
            session.damaged += 1
        else:
            made = _Message(
                str(raw["type"]),
                blocks=blocks,
                ts=parse_time(raw.get("timestamp")),
                parent=raw.get("parentUuid"),
                id=str(message.get("id") or ""),
                model=str(message.get("model") or ""),
                told=raw.get("toolUseResult"),
            )
            session.skip("rewound messages", _add(made, messages))
    for each in messages:
        session.add_message(each.role, each.blocks, each.ts, told=each.told, model=each.model)


def _holds_message(raw: Mapping[str, Any]) -> bool:
    return raw.get("type") in _MESSAGE_TYPES and isinstance(raw.get("message"), Mapping)


def _left_out(raw: Mapping[str, Any]) -> str:
    """Return what a line is that does not belong to the main conversation, "" if it does."""
    return next((what for field, what in _LEFT_OUT.items() if raw.get(field)), "")


def _add(message: _Message, messages: list[_Message]) -> int:
    """Append a message, or join it to the reply that it continues; a prompt may rewind to an earlier one.

    Returns the number of lines whose messages were rewound.
    """
    if message.role == "assistant" and message.id:
        said = (old for old in reversed(messages) if old.role == "assistant" or old.is_prompt)
        newest = next(said, None)  # only results may come between the parts of a reply
        if newest is not None and newest.role == "assistant" and newest.id == message.id:
            newest.blocks += message.blocks
            newest.lines += 1
            return 0
    rewound: list[_Message] = []
    if message.is_prompt and message.parent is not None:
        prompts = (at for at, old in enumerate(messages) if old.is_prompt and old.parent == message.parent)
        start = next(prompts, len(messages))
        rewound = messages[start:]  # the user went back and wrote something else
        del messages[start:]
    messages.append(message)
    return sum(old.lines for old in rewound)

"""Reads sessions of Claude Code: lines of {"type", "message", "uuid", "parentUuid", "timestamp", ...}.

A reply is split over several lines with one `message.id`; results of its first calls may come between them.
Left out are side chains (subagents have a context of their own), lines marked as meta, summaries that
replaced history (a replay has the history itself), and what a second prompt on the same parent rewound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transcripts.messages import Block, ToolResultBlock

from .recording import (
    Count,
    FactAssembly,
    ImportedSession,
    Sample,
    content_blocks,
    parse_objects,
    parse_time,
)

_MESSAGE_TYPES = ("user", "assistant")


@dataclass(slots=True)
class _Message:
    """A whole reply, or a message of the user. `late` are results that came between a reply's lines."""

    role: str
    blocks: list[Block]
    ts: float | None
    parent: str | None
    id: str = ""
    late: list[Block] = field(default_factory=list)

    @property
    def is_prompt(self) -> bool:
        return self.role == "user" and not any(isinstance(block, ToolResultBlock) for block in self.blocks)


def recognizes(sample: Sample) -> bool:
    """Whether the lines wrap messages as Claude Code does."""
    return any(map(_holds_message, sample.objects))


def read_session(text: str, count: Count) -> ImportedSession:
    """The main conversation in the order of the file."""
    found, damaged = parse_objects(text)
    assembly = FactAssembly(count, damaged=damaged)
    for message in _messages(found, assembly):
        assembly.message(message.role, tuple(message.blocks), message.ts)
        if message.late:
            assembly.message("user", tuple(message.late), message.ts)
    return assembly.finish("claude-code")


def _messages(found: list[dict[str, Any]], assembly: FactAssembly) -> list[_Message]:
    messages: list[_Message] = []
    known: set[str] = set()
    for raw in found:
        ident = str(raw.get("uuid") or len(known))
        if not _is_conversation(raw) or ident in known:  # a resumed session repeats lines
            assembly.skipped += 1
            continue
        known.add(ident)
        message = _message(raw)
        if message is None:
            assembly.damaged += 1
        elif message.blocks:
            _add(message, messages)
    return messages


def _is_conversation(raw: Mapping[str, Any]) -> bool:
    is_aside = raw.get("isSidechain") or raw.get("isMeta") or raw.get("isCompactSummary")
    return _holds_message(raw) and not is_aside


def _holds_message(raw: Mapping[str, Any]) -> bool:
    return raw.get("type") in _MESSAGE_TYPES and isinstance(raw.get("message"), Mapping)


def _message(raw: Mapping[str, Any]) -> _Message | None:
    message = raw["message"]
    blocks = content_blocks(message.get("content"))
    if blocks is None:
        return None
    ts, parent = parse_time(raw.get("timestamp")), raw.get("parentUuid")
    return _Message(str(raw["type"]), list(blocks), ts, parent, str(message.get("id") or ""))


def _add(message: _Message, messages: list[_Message]) -> None:
    """Append a message, or join it to the reply that it continues; a prompt may rewind to an earlier one."""
    if message.role == "assistant" and (reply := _continued_reply(message, messages)) is not None:
        at = messages.index(reply)
        reply.blocks += message.blocks
        for between in messages[at + 1 :]:
            reply.late += between.blocks
        del messages[at + 1 :]
        return
    if message.is_prompt and message.parent is not None:
        for at, old in enumerate(messages):
            if old.is_prompt and old.parent == message.parent:  # the user went back and wrote something else
                del messages[at:]
                break
    messages.append(message)


def _continued_reply(message: _Message, messages: list[_Message]) -> _Message | None:
    """The newest reply if this message is part of it; only results may stand between them."""
    for old in reversed(messages):
        if old.role == "assistant":
            return old if message.id and old.id == message.id else None
        if old.is_prompt:
            return None
    return None

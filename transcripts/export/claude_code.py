"""Write a session as one of Claude Code, for the programs that read `~/.claude/projects`.

Each block of a reply is a line of its own with the `message.id` of the reply, and each line names the one
before it as its parent. What makeroom added to a prompt is marked as meta, so that lists of sessions begin
with the user's words. The conversation is written as it was before any compaction.
"""

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from msgspec import Struct

from ..facts import Fact, Reply, Result, User
from ..messages import Block, TextBlock, ToolResultBlock, ToolUseBlock, Usage, is_added
from .formats import ExportedSession

_MAX_FOLDER_CHARS = 200  # longer names end in a hash that only Claude Code can make


def claude_code_lines(session: ExportedSession, folder: Path) -> Iterator[str]:
    """Yield the lines of a session of the project `folder`."""
    uuid = str(session_uuid(session.sid))
    lines = _Lines(uuid, str(folder)).of(session.facts)
    if name := session.folded.name:
        lines = chain(lines, [{"type": "custom-title", "customTitle": name, "sessionId": uuid}])
    return (json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def claude_code_path(projects: Path, sid: str, folder: Path) -> Path:
    """Return the file in which Claude Code looks for a session of the project `folder`."""
    real = unicodedata.normalize("NFC", os.path.realpath(folder))
    name = re.sub(r"[^a-zA-Z0-9]", "-", real)
    if len(name) > _MAX_FOLDER_CHARS:
        start = f"{name[:_MAX_FOLDER_CHARS]}-"
        existing = sorted(path.name for path in projects.glob(f"{start}*"))
        name = existing[0] if existing else f"{start}makeroom"
    return projects / name / f"{session_uuid(sid)}.jsonl"


def session_uuid(sid: str) -> UUID:
    """Return the id of a session as Claude Code requires it, always the same for the same session."""
    try:
        return UUID(sid)
    except ValueError:
        return uuid5(NAMESPACE_OID, f"makeroom session {sid}")


class _Lines(Struct):
    """Makes the lines of a session, each with the id of the line before it."""

    session: str
    folder: str
    parent: str | None = None
    number: int = 0

    def of(self, facts: Iterable[Fact]) -> Iterator[dict[str, Any]]:
        calls: dict[tuple[int, int], str] = {}  # reply and index of the block -> id
        for fact in facts:
            match fact:
                case User():
                    yield from self._prompt(fact)
                case Reply():
                    yield from self._reply(fact)
                    for index, block in enumerate(fact.blocks):
                        if isinstance(block, ToolUseBlock):
                            calls[fact.seq, index] = block.id
                case Result() if (call := calls.get((fact.of, fact.block))) is not None:
                    result = ToolResultBlock(call, fact.content, fact.error)
                    yield self._user_line(fact, [result.to_json()])

    def _prompt(self, fact: User) -> Iterator[dict[str, Any]]:
        """Yield what makeroom added to a prompt, then the prompt."""
        from_user = fact.source == "user"
        added = [block for block in fact.blocks if not from_user or is_added(block)]
        typed = [block for block in fact.blocks if from_user and not is_added(block)]
        if added:
            yield {**self._user_line(fact, _content(added)), "isMeta": True}
        if typed:
            yield self._user_line(fact, _content(typed))

    def _user_line(self, fact: Fact, content: Any) -> dict[str, Any]:
        return self._line("user", {"role": "user", "content": content}, fact.ts)

    def _reply(self, fact: Reply) -> Iterator[dict[str, Any]]:
        """Yield a line for each block; the text of an unfinished block is the last."""
        head = {
            "id": f"msg_{UUID(self.session).hex}_{fact.seq}",
            "type": "message",
            "role": "assistant",
            "model": fact.model,
        }
        tail = {"stop_reason": fact.stop, "stop_sequence": None, "usage": _usage(fact.usage)}
        unfinished = (TextBlock(fact.partial),) if fact.partial else ()
        for block in (*fact.blocks, *unfinished):
            yield self._line("assistant", {**head, "content": [block.to_json()], **tail}, fact.ts)

    def _line(self, kind: str, message: Mapping[str, Any], ts: float) -> dict[str, Any]:
        ident = str(uuid5(UUID(self.session), str(self.number)))
        line = {
            "parentUuid": self.parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self.folder,
            "sessionId": self.session,
            "version": "2.1.330",  # of Claude Code, whose readers expect these fields
            "gitBranch": "",
            "type": kind,
            "message": message,
            "uuid": ident,
        }
        self.parent = ident
        self.number += 1
        return {**line, "timestamp": _timestamp(ts)} if ts else line


def _content(blocks: list[Block]) -> Any:
    """Return the content of a prompt: a text if it consists of one, otherwise its blocks."""
    match blocks:
        case [TextBlock(text=text, extra=extra)] if text.strip() and not extra:
            return text
    return [each.to_json() for each in blocks]


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_written,
        "cache_read_input_tokens": usage.cache_read,
        "output_tokens": usage.output,
    }


def _timestamp(ts: float) -> str:
    return datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

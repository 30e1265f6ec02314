"""Sessions of Claude Code: lines of {"type", "message", "uuid", "parentUuid", "timestamp", ...}.

An answer of the model is split over several lines with one `message.id`, with results of its first calls
possibly between them. Left out: side chains (sub-agents have a context of their own), lines marked as meta,
summaries that replaced history (replay has the history itself), and what a second prompt on the same parent
rewound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transcripts.messages import Block, ToolResultBlock

from .assembly import Count, FactAssembly, ImportedSession, content_blocks
from .lines import Sample, objects, seconds

_TURNS = ("user", "assistant")


@dataclass(slots=True)
class _Line:
    """One turn of the conversation: a whole answer, or a user message."""

    role: str
    blocks: list[Block]
    ts: float | None
    parent: str | None
    id: str = ""
    late: list[Block] = field(default_factory=list)  # results that came between the lines of this answer

    @property
    def prompt(self) -> bool:
        return self.role == "user" and not any(isinstance(block, ToolResultBlock) for block in self.blocks)


def matches(seen: Sample) -> bool:
    """Whether the lines wrap messages as Claude Code does."""
    return any(raw.get("type") in _TURNS and isinstance(raw.get("message"), Mapping) for raw in seen.objects)


def load(text: str, count: Count) -> ImportedSession:
    """The main conversation in the order of the file."""
    found, damaged = objects(text)
    assembly = FactAssembly(count, damaged=damaged)
    for line in _turns(found, assembly):
        assembly.message(line.role, tuple(line.blocks), line.ts)
        if line.late:
            assembly.message("user", tuple(line.late), line.ts)
    return assembly.done("claude-code")


def _turns(found: list[dict[str, Any]], assembly: FactAssembly) -> list[_Line]:
    turns: list[_Line] = []
    known: set[str] = set()
    for raw in found:
        ident = str(raw.get("uuid") or len(known))
        if not _counts(raw) or ident in known:  # a resumed session repeats lines
            assembly.skipped += 1
            continue
        known.add(ident)
        line = _line(raw)
        if line is None:
            assembly.damaged += 1
        elif line.blocks:
            _place(line, turns)
    return turns


def _counts(raw: Mapping[str, Any]) -> bool:
    if raw.get("type") not in _TURNS or not isinstance(raw.get("message"), Mapping):
        return False
    return not (raw.get("isSidechain") or raw.get("isMeta") or raw.get("isCompactSummary"))


def _line(raw: Mapping[str, Any]) -> _Line | None:
    message = raw["message"]
    blocks = content_blocks(message.get("content"))
    if blocks is None:
        return None
    ts, parent = seconds(raw.get("timestamp")), raw.get("parentUuid")
    return _Line(str(raw["type"]), list(blocks), ts, parent, str(message.get("id") or ""))


def _place(line: _Line, turns: list[_Line]) -> None:
    if line.role == "assistant":
        same = _open(line, turns)
        if same is None:
            turns.append(line)
            return
        at = turns.index(same)
        same.blocks += line.blocks
        for between in turns[at + 1 :]:
            same.late += between.blocks
        del turns[at + 1 :]
        return
    if line.prompt and line.parent is not None:
        for at, old in enumerate(turns):
            if old.prompt and old.parent == line.parent:  # the person went back and said something else
                del turns[at:]
                break
    turns.append(line)


def _open(line: _Line, turns: list[_Line]) -> _Line | None:
    """The answer that this line goes on with: the newest one, with nothing but results behind it."""
    for old in reversed(turns):
        if old.role == "assistant":
            return old if line.id and old.id == line.id else None
        if old.prompt:
            return None
    return None

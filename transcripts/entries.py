"""Entries: the conversation before any edit, one for each prompt and one for each exchange.

An exchange is a reply with the results of its calls. An entry is what the edits address and what the fold
renders; it only ever gains results. Mending happens here, so that it is the same every time: calls without
a result are answered, unusable blocks are left out, tool ids are made unique.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .facts import Reply, Result, User
from .messages import Block, Opaque, Text, Thinking, ToolResult, ToolUse, is_thinking
from .view import Kind, Part

INTERRUPTED = "[interrupted; may have run: check before you do it again]"
NOT_RUN = "[not run: the turn was interrupted before this call]"
NO_OUTPUT = "(no output)"
_BAD = re.compile(r"[^a-zA-Z0-9_-]")


@dataclass(slots=True)
class Prompt:
    """Words of the person or of the harness."""

    fact: User

    @property
    def seq(self) -> int:
        return self.fact.seq

    @property
    def last(self) -> int:
        return self.fact.seq


@dataclass(slots=True)
class Exchange:
    """A reply, the results of its calls by block index, and which of them had started."""

    fact: Reply
    uses: dict[int, ToolUse]  # block index -> the call, its id unique in the session
    results: dict[int, Result] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    superseded: bool = False  # an unfinished reply that another try replaced

    @property
    def seq(self) -> int:
        return self.fact.seq

    @property
    def last(self) -> int:
        return max((result.seq for result in self.results.values()), default=self.fact.seq)

    @property
    def open(self) -> bool:
        return any(index not in self.results for index in self.uses)


Entry = Prompt | Exchange


def exchange(fact: Reply, taken: set[str]) -> Exchange:
    """The exchange that a reply begins. `taken` holds the tool ids used so far and gains the new ones."""
    uses: dict[int, ToolUse] = {}
    if fact.complete:
        for index, block in enumerate(fact.blocks):
            if isinstance(block, ToolUse):
                uses[index] = _sound_use(block, fact.seq, index, taken)
    return Exchange(fact, uses)


def _sound_use(use: ToolUse, seq: int, index: int, taken: set[str]) -> ToolUse:
    ident, name = _BAD.sub("_", use.id), _BAD.sub("_", use.name)[:128] or "unnamed"
    if not ident or ident in taken:
        ident = f"{ident}_{seq}_{index}"
    taken.add(ident)
    if ident == use.id and name == use.name:
        return use
    return ToolUse(ident, name, use.input, use.extra)


def said(entry: Exchange, thinks: bool) -> list[Part]:
    """The assistant's parts of an exchange, unusable blocks left out; empty if nothing is left to say."""
    fact, parts = entry.fact, []
    if entry.superseded:
        return []
    for index, block in enumerate(fact.blocks):
        if (part := _said_part(entry, index, block)) is not None and (thinks or not is_thinking(block)):
            parts.append(part)
    if all(is_thinking(part.block) for part in parts):
        return []
    return parts


def _said_part(entry: Exchange, index: int, block: Block) -> Part | None:
    fact = entry.fact
    match block:
        case ToolUse():
            use = entry.uses.get(index)
            return None if use is None else Part(use, fact.seq, index, Kind.INPUT, count(fact, index))
        case Text():
            kind = Kind.ASSISTANT
            if not block.text.strip():
                return None
        case Thinking(signature=""):
            return None
        case ToolResult():
            return None
        case _:
            kind = Kind.THINKING if is_thinking(block) else Kind.ASSISTANT
    return Part(block, fact.seq, index, kind, count(fact, index))


def answers(entry: Exchange) -> Iterator[Part]:
    """The results of an exchange in call order, one for each call: what is missing is mended."""
    for index, use in entry.uses.items():
        result = entry.results.get(index)
        if result is None:
            text = INTERRUPTED if index in entry.started else NOT_RUN
            block = ToolResult(use.id, (Text(text),), is_error=True)
            yield Part(block, entry.seq, index, Kind.RESULT, 12, use)
        else:
            content = sound_content(result.content)
            block = ToolResult(use.id, content, is_error=result.error)
            yield Part(block, result.seq, 0, Kind.RESULT, sum(result.tokens) or rough(content), use)


def prompted(entry: Prompt) -> Iterator[Part]:
    """The user's parts of a prompt; empty texts are left out."""
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, Text) and not block.text.strip():
            continue
        if isinstance(block, ToolUse | ToolResult) or is_thinking(block):
            continue
        yield Part(block, entry.seq, index, Kind.USER, count(entry.fact, index))


def sound_content(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """The content of a result as the API takes it: no empty text, never nothing at all."""
    kept = tuple(b for b in content if not (isinstance(b, Text) and not b.text.strip()))
    return kept or (Text(NO_OUTPUT),)


def count(fact: User | Reply, index: int) -> int:
    """The block's tokens as counted when the fact was made, or a rough count where it was not."""
    if index < len(fact.tokens):
        return fact.tokens[index]
    return rough((fact.blocks[index],))


def rough(blocks: tuple[Block, ...]) -> int:
    """Tokens by length: 4 characters each, 1,600 for an image (the API's largest)."""
    total = 0
    for block in blocks:
        match block:
            case Text(text=text) | Thinking(thinking=text):
                total += len(text) // 4 + 1
            case ToolResult(content=content):
                total += rough(content)
            case ToolUse():
                total += len(str(block.input)) // 4 + 8
            case Opaque():
                total += len(str(block.raw)) // 4 + 1
            case _:
                total += 1600
    return total

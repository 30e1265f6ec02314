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
from .messages import (
    Block,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    is_thinking,
)
from .view import Part, PartKind

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
    uses: dict[int, ToolUseBlock]  # block index -> the call, its id unique in the session
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
    uses: dict[int, ToolUseBlock] = {}
    if fact.complete:
        for index, block in enumerate(fact.blocks):
            if isinstance(block, ToolUseBlock):
                uses[index] = _sound_use(block, fact.seq, index, taken)
    return Exchange(fact, uses)


def _sound_use(use: ToolUseBlock, seq: int, index: int, taken: set[str]) -> ToolUseBlock:
    ident, name = _BAD.sub("_", use.id), _BAD.sub("_", use.name)[:128] or "unnamed"
    if not ident or ident in taken:
        ident = f"{ident}_{seq}_{index}"
    taken.add(ident)
    if ident == use.id and name == use.name:
        return use
    return ToolUseBlock(ident, name, use.input, use.extra)


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
        case ToolUseBlock():
            use = entry.uses.get(index)
            return None if use is None else Part(use, fact.seq, index, PartKind.INPUT, count(fact, index))
        case TextBlock():
            kind = PartKind.ASSISTANT
            if not block.text.strip():
                return None
        case ThinkingBlock(signature=""):
            return None
        case ToolResultBlock():
            return None
        case _:
            kind = PartKind.THINKING if is_thinking(block) else PartKind.ASSISTANT
    return Part(block, fact.seq, index, kind, count(fact, index))


def answers(entry: Exchange) -> Iterator[Part]:
    """The results of an exchange in call order, one for each call: what is missing is mended."""
    for index, use in entry.uses.items():
        result = entry.results.get(index)
        if result is None:
            text = INTERRUPTED if index in entry.started else NOT_RUN
            block = ToolResultBlock(use.id, (TextBlock(text),), is_error=True)
            yield Part(block, entry.seq, index, PartKind.RESULT, 12, use)
        else:
            content = sound_content(result.content)
            block = ToolResultBlock(use.id, content, is_error=result.error)
            yield Part(block, result.seq, 0, PartKind.RESULT, sum(result.tokens) or rough(content), use)


def prompted(entry: Prompt) -> Iterator[Part]:
    """The user's parts of a prompt; empty texts are left out."""
    for index, block in enumerate(entry.fact.blocks):
        if isinstance(block, TextBlock) and not block.text.strip():
            continue
        if isinstance(block, ToolUseBlock | ToolResultBlock) or is_thinking(block):
            continue
        yield Part(block, entry.seq, index, PartKind.USER, count(entry.fact, index))


def sound_content(content: tuple[Block, ...]) -> tuple[Block, ...]:
    """The content of a result as the API takes it: no empty text, never nothing at all."""
    kept = tuple(b for b in content if not (isinstance(b, TextBlock) and not b.text.strip()))
    return kept or (TextBlock(NO_OUTPUT),)


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
            case TextBlock(text=text) | ThinkingBlock(thinking=text):
                total += len(text) // 4 + 1
            case ToolResultBlock(content=content):
                total += rough(content)
            case ToolUseBlock():
                total += len(str(block.input)) // 4 + 8
            case UnknownBlock():
                total += len(str(block.raw)) // 4 + 1
            case _:
                total += 1600
    return total

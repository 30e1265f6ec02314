"""Messages of a recording put together as facts: numbered, counted, every result paired with its call.

Numbers run from 1 without gaps. What does not fit (a result without a call, a second result for the same
call) is left out and counted, never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from transcripts.facts import Fact, Reply, Result, User
from transcripts.messages import Block, ToolResultBlock, ToolUseBlock, UnknownBlock, block_from_json

Count = Callable[[tuple[Block, ...]], tuple[int, ...]]


class UnreadableRecording(ValueError):
    """The bytes are no recording that we can read. The message says what to give instead."""


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A recording as facts.

    format   the name of the format it came in
    facts    users, replies and results in order, numbered from 1
    timed    whether the lines carried times; where they did not, every `ts` is 0
    damaged  lines or messages that could not be read or paired
    skipped  lines that are no part of the conversation
    """

    format: str
    facts: tuple[Fact, ...]
    timed: bool = False
    damaged: int = 0
    skipped: int = 0

    @property
    def calls(self) -> int:
        return sum(isinstance(fact, Reply) for fact in self.facts)


@dataclass(slots=True)
class FactAssembly:
    """Facts so far. `ts` of a message is None where the recording has no times."""

    count: Count
    facts: list[Fact] = field(default_factory=list)
    damaged: int = 0
    skipped: int = 0
    _calls: dict[str, tuple[int, int]] = field(default_factory=dict)  # tool id -> (reply, block)
    _answered: set[tuple[int, int]] = field(default_factory=set)
    _clock: float = 0.0
    _timed: bool = False

    def user(self, blocks: tuple[Block, ...], ts: float | None) -> None:
        """Words of the person; nothing happens where there are none."""
        if blocks:
            self.facts.append(User(self._next(), self._time(ts), blocks, self.count(blocks)))

    def reply(self, blocks: tuple[Block, ...], ts: float | None, model: str = "") -> None:
        """One answer of the model, whole."""
        if not blocks:
            self.skipped += 1
            return
        seq = self._next()
        for index, block in enumerate(blocks):
            if isinstance(block, ToolUseBlock):
                self._calls[block.id] = (seq, index)
        stop = "tool_use" if any(isinstance(block, ToolUseBlock) for block in blocks) else "end_turn"
        self.facts.append(
            Reply(seq, self._time(ts), blocks, self.count(blocks), stop=stop, model=model or "recorded")
        )

    def result(self, call: str, content: tuple[Block, ...], ts: float | None, *, error: bool = False) -> None:
        """The answer to the call with the tool id `call`."""
        place = self._calls.get(call)
        if place is None or place in self._answered:
            self.damaged += 1
            return
        self._answered.add(place)
        seq = self._next()
        tokens = self.count(content)
        self.facts.append(Result(seq, self._time(ts), *place, content, tokens, error=error))

    def message(self, role: str, blocks: tuple[Block, ...], ts: float | None) -> None:
        """A message of the Messages API: results among a user's blocks go to their calls, the rest stays."""
        if role == "assistant":
            self.reply(blocks, ts)
            return
        for block in blocks:
            if isinstance(block, ToolResultBlock):
                self.result(block.tool_use_id, block.content, ts, error=block.is_error)
        self.user(tuple(block for block in blocks if not isinstance(block, ToolResultBlock)), ts)

    def done(self, name: str) -> ImportedSession:
        """The recording as gathered."""
        return ImportedSession(name, tuple(self.facts), self._timed, self.damaged, self.skipped)

    def _next(self) -> int:
        return len(self.facts) + 1

    def _time(self, ts: float | None) -> float:
        if ts is not None:
            self._timed = True
            self._clock = max(self._clock, ts)  # a clock that jumps back is no pause
        return self._clock


def content_blocks(content: Any) -> tuple[Block, ...] | None:
    """Message content as blocks, or None where it is neither text nor a list of objects."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (block_from_json({"type": "text", "text": content}),) if content.strip() else ()
    if not isinstance(content, list):
        return None
    blocks = [block_from_json(raw) for raw in content if isinstance(raw, dict)]
    blocks += [block_from_json({"type": "text", "text": raw}) for raw in content if isinstance(raw, str)]
    return tuple(block for block in blocks if not _unusable(block))


def _unusable(block: Block) -> bool:
    # a known type with fields missing cannot be sent; only unknown types are kept as they came
    return isinstance(block, UnknownBlock) and block.raw.get("type") in (
        None,
        "text",
        "tool_use",
        "tool_result",
    )

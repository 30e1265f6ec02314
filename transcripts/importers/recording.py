"""What the readers of all formats share: parsing lines, and putting messages together as facts.

What cannot be parsed or paired is counted and left out, never guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from transcripts.facts import Fact, Reply, Result, User
from transcripts.messages import Block, ToolResultBlock, ToolUseBlock, UnknownBlock, block_from_json

MAX_SAMPLE_LINES = 40  # looked at to tell the format; headers and notes come before the conversation
_MAX_SECONDS = 1e11  # a larger time is in milliseconds: this is the year 5138
_UNUSABLE_TYPES = (None, "text", "tool_use", "tool_result")

Count = Callable[[tuple[Block, ...]], tuple[int, ...]]
"""Counts the tokens of blocks, one number each."""


class UnreadableRecording(ValueError):
    """The bytes are no recording that can be read. The message says what to give instead."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The beginning of a file: its first objects if it has one a line, or the one value that it is."""

    objects: tuple[Mapping[str, Any], ...]
    whole: Any = None


def take_sample(text: str) -> Sample:
    """The beginning of a file, parsed."""
    objects: list[Mapping[str, Any]] = []
    for line in text.split("\n", MAX_SAMPLE_LINES)[:MAX_SAMPLE_LINES]:
        if (value := _object_on(line)) is not None:
            objects.append(value)
    if objects and "\n" in text.strip():
        return Sample(tuple(objects))
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    return Sample(tuple(objects), whole)


def parse_objects(text: str) -> tuple[list[dict[str, Any]], int]:
    """Every object of a file with one a line, and how many lines that are not blank hold none."""
    lines = [line for line in text.split("\n") if line.strip()]
    found = [value for line in lines if (value := _object_on(line)) is not None]
    return found, len(lines) - len(found)


def _object_on(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_time(stamp: Any) -> float | None:
    """Seconds since the epoch, from ISO 8601, seconds or milliseconds; None if it is no time."""
    if isinstance(stamp, bool):
        return None
    if isinstance(stamp, int | float):
        return stamp / 1000 if stamp > _MAX_SECONDS else float(stamp)
    if not isinstance(stamp, str):
        return None
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """A recording as facts.

    format   the name of the format
    facts    users, replies and results in order, numbered from 1; `ts` is 0 where there are no times
    damaged  lines or messages that could not be read or paired
    skipped  lines that are no part of the conversation
    """

    format: str
    facts: tuple[Fact, ...]
    damaged: int = 0
    skipped: int = 0

    @property
    def calls(self) -> int:
        """How many replies of the model there are."""
        return sum(isinstance(fact, Reply) for fact in self.facts)


@dataclass(slots=True)
class FactAssembly:
    """Facts made from messages in order. `ts` of a message is None where the recording has no times."""

    count: Count
    facts: list[Fact] = field(default_factory=list)
    damaged: int = 0
    skipped: int = 0
    _calls: dict[str, tuple[int, int]] = field(default_factory=dict)  # tool id -> (reply, block)
    _answered: set[tuple[int, int]] = field(default_factory=set)
    _clock: float = 0.0

    def user(self, blocks: tuple[Block, ...], ts: float | None) -> None:
        """A prompt; one without blocks is left out."""
        if blocks:
            self.facts.append(User(self._next(), self._time(ts), blocks, self.count(blocks)))

    def reply(self, blocks: tuple[Block, ...], ts: float | None, model: str = "") -> None:
        """A whole reply of the model."""
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
        """The result of the call with the tool id `call`; a second one counts as damaged."""
        place = self._calls.get(call)
        if place is None or place in self._answered:
            self.damaged += 1
            return
        self._answered.add(place)
        tokens = self.count(content)
        self.facts.append(Result(self._next(), self._time(ts), *place, content, tokens, error=error))

    def message(self, role: str, blocks: tuple[Block, ...], ts: float | None) -> None:
        """A message of the Messages API: results among a user's blocks are joined to their calls."""
        if role == "assistant":
            self.reply(blocks, ts)
            return
        for block in blocks:
            if isinstance(block, ToolResultBlock):
                self.result(block.tool_use_id, block.content, ts, error=block.is_error)
        self.user(tuple(block for block in blocks if not isinstance(block, ToolResultBlock)), ts)

    def finish(self, format: str) -> ImportedSession:
        """The facts so far as an imported session."""
        return ImportedSession(format, tuple(self.facts), self.damaged, self.skipped)

    def _next(self) -> int:
        return len(self.facts) + 1

    def _time(self, ts: float | None) -> float:
        self._clock = max(self._clock, ts or 0.0)  # a clock that was set back is no pause
        return self._clock


def content_blocks(content: Any) -> tuple[Block, ...] | None:
    """Message content as blocks, or None where it is neither a text nor a list.

    A block of a known type that cannot be read could not be sent either and is left out; of an unknown type
    it is kept as it came.
    """
    if content is None:
        return ()
    if isinstance(content, str):
        return (block_from_json({"type": "text", "text": content}),) if content.strip() else ()
    if not isinstance(content, list):
        return None
    blocks = [block_from_json(raw) for raw in content if isinstance(raw, dict)]
    blocks += [block_from_json({"type": "text", "text": raw}) for raw in content if isinstance(raw, str)]
    return tuple(
        block
        for block in blocks
        if not (isinstance(block, UnknownBlock) and block.raw.get("type") in _UNUSABLE_TYPES)
    )

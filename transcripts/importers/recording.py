"""Parse a recording and convert its messages to facts, for the readers of all formats.

Lines and messages that cannot be parsed or paired are counted and omitted, never guessed. Everything else
that a reader leaves out is counted by kind, so that all of it can be reported to the user.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import Struct, field

from ..facts import Fact, Reply, Result, User
from ..messages import Block, TextBlock, ToolResultBlock, ToolUseBlock, UnknownBlock, block_from_json
from ..patterns import lazy_pattern

_MAX_SECONDS = 1e11  # the year 5138; a larger time is in milliseconds
# The texts that Claude Code puts around the user's words in a result.
_REFUSAL_START = "The user doesn't want to "
_ANSWERS_END = " You can now continue"
_ZSTD_START = b"\x28\xb5\x2f\xfd"
_TYPE_NAME = lazy_pattern(r"[\w.:-]{1,40}")

Count = Callable[[tuple[Block, ...]], tuple[int, ...]]
"""Counts the tokens of blocks, one number each."""

Skip = Callable[[str], None]
"""Counts something that is left out, named in the plural."""


def mapping_in(raw: Any, name: str) -> Mapping[str, Any]:
    """Return the object in a field of an object; {} if either is anything else."""
    found = raw.get(name) if isinstance(raw, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def list_in(raw: Any, name: str) -> list[Any]:
    """Return the list in a field of an object; [] if either is anything else."""
    found = raw.get(name) if isinstance(raw, Mapping) else None
    return found if isinstance(found, list) else []


class UnreadableRecording(ValueError):
    """The bytes are not a readable recording. The message names the defect."""


class ParsedFile(Struct, frozen=True):
    """The text of a file and its JSON values."""

    text: str
    whole: Any  # the JSON value of the whole file, None if it is not a single value
    objects: list[dict[str, Any]]  # the objects of the lines that contain one
    damaged: int  # number of non-blank lines without an object; 0 if `whole` is a value


def parse_file(raw: bytes) -> ParsedFile:
    """Parse the bytes of a file. Raises UnreadableRecording if it is empty or compressed."""
    if raw.startswith(_ZSTD_START):
        raise UnreadableRecording("the file is compressed; run zstd -d on it first")
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise UnreadableRecording("the file is empty")
    whole = _json_value(text)
    objects = [value for value in map(_json_value, lines) if isinstance(value, dict)]
    return ParsedFile(
        text, whole=whole, objects=objects, damaged=len(lines) - len(objects) if whole is None else 0
    )


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def parse_time(stamp: Any) -> float | None:
    """Convert ISO 8601, seconds or milliseconds to seconds since the epoch; None for anything else."""
    if isinstance(stamp, str):
        try:
            seconds = datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            return None
    elif isinstance(stamp, int | float) and not isinstance(stamp, bool):
        seconds = stamp / 1000 if _MAX_SECONDS < stamp <= 1000 * _MAX_SECONDS else stamp
    else:
        return None
    return float(seconds) if 0 <= seconds <= _MAX_SECONDS else None


SECOND_WRITER = "messages of a second writer"  # the reason to leave out what a fork contains
UNREADABLE_PARTS = "unreadable parts of messages"
UNREADABLE_CALLS = "calls without an id"


class ImportedSession(Struct):
    """A recording as facts, which its reader adds message by message, in order."""

    format: str  # a key of IMPORT_FORMATS
    count: Count
    facts: list[Fact] = field(default_factory=list)  # numbered from 1; `ts` never decreases, 0 if unknown
    damaged: int = 0  # lines or messages that could not be read or paired
    skipped: Counter[str] = field(default_factory=Counter)  # what was left out on purpose, in the plural
    forks: list["ImportedSession"] = field(default_factory=list)  # continuations by other writers
    _calls: dict[str, tuple[int, int]] = field(default_factory=dict)  # tool id -> (reply, block), unanswered
    _clock: float = 0.0

    def add_user(self, blocks: tuple[Block, ...], ts: float | None, source: str = "user") -> None:
        """Add a prompt unless it has no blocks. `ts` is None if the recording has no time."""
        if not blocks:
            self.skip("empty messages")
            return
        self.facts.append(User(*self._place(ts), blocks, self.count(blocks), source=source))

    def add_reply(self, blocks: tuple[Block, ...], ts: float | None, model: str = "") -> None:
        """Add a complete reply of the model unless it has no blocks."""
        if not blocks:
            self.skip("empty messages")
            return
        seq, at = self._place(ts)
        calls = {
            block.id: (seq, index) for index, block in enumerate(blocks) if isinstance(block, ToolUseBlock)
        }
        self._calls |= calls
        stop = "tool_use" if calls else "end_turn"
        tokens = self.count(blocks)
        self.facts.append(
            Reply(seq, ts=at, blocks=blocks, tokens=tokens, stop=stop, model=model or "recorded")
        )

    def add_result(
        self, call: str, content: tuple[Block, ...], ts: float | None, error: bool = False, note: Any = None
    ) -> None:
        """Add the result of the call with the tool id `call`; a second result counts as damaged.

        `note` is Claude Code's note on it, None if there is none.
        """
        if (called := self._calls.pop(call, None)) is None:
            self.damaged += 1
            return
        reply = self.facts[called[0] - 1]
        assert isinstance(reply, Reply), "calls belong to replies"
        text = "".join(each.text for each in content if isinstance(each, TextBlock))
        about = _said_in(text, reply.blocks[called[1]], error, note)
        counts = self.count(content)
        self.facts.append(Result(*self._place(ts), *called, content, counts, error=error, about=about))

    def add_message(
        self,
        role: str,
        blocks: tuple[Block, ...],
        ts: float | None,
        note: Any = None,
        model: str = "",
        source: str = "user",
    ) -> None:
        """Add a message of the Messages API; results among a user's blocks are added to their calls.

        `note` is that of `add_result`, `model` that of `add_reply`, `source` that of a prompt.
        """
        if role == "assistant":
            self.add_reply(blocks, ts, model)
            return
        for block in blocks:
            if isinstance(block, ToolResultBlock):
                self.add_result(block.tool_use_id, block.content, ts, block.is_error, note)
        rest = tuple(block for block in blocks if not isinstance(block, ToolResultBlock))
        if rest or not blocks:
            self.add_user(rest, ts, source)

    def skip(self, what: str, count: int = 1) -> None:
        """Count lines or messages that are left out, `what` in the plural."""
        if count:
            self.skipped[what] += count

    def skip_line(self, raw: Mapping[str, Any]) -> None:
        """Count a line that is left out, by its type."""
        kind = raw.get("type")
        named = isinstance(kind, str) and _TYPE_NAME.fullmatch(kind)
        self.skip(f"{kind} lines" if named else "lines of an unknown type")

    def drop_prompts(self, number: int) -> None:
        """Remove the last prompts and all facts after the first of them, since the user rewound."""
        start = len(self.facts)
        places = reversed(range(start))  # a recording may drop prompts as often as it has lines
        prompts = (at for at in places if isinstance(self.facts[at], User))
        for at in islice(prompts, max(0, min(number, start))):
            start = at
        if dropped := len(self.facts) - start:
            self.skip("rewound messages", dropped)
            del self.facts[start:]
            self._calls = {call: at for call, at in self._calls.items() if at[0] <= start}

    def take_forks(self) -> list["ImportedSession"]:
        """Return the continuations by other writers, which then do not count as left out."""
        forks = self.forks
        if forks:
            self.forks = []
            del self.skipped[SECOND_WRITER]
        return forks

    @property
    def skipped_text(self) -> str:
        """All that was left out and how much of it, for the user; "" for nothing."""
        damaged = {"damaged lines": self.damaged} if self.damaged else {}
        return describe_skipped({**damaged, **self.skipped})

    def _place(self, ts: float | None) -> tuple[int, float]:
        """Return the number and time of the next fact."""
        self._clock = max(self._clock, ts or 0.0)  # times never decrease, even if a clock was set back
        return len(self.facts) + 1, self._clock


def describe_skipped(skipped: Mapping[str, int]) -> str:
    """Return what was left out of a recording and how much of it, for the user; "" for nothing."""
    return ", ".join(f"{what} ({count:,})" for what, count in sorted(skipped.items()))


_REASON_START = "To tell you how to proceed, the user said:"


def _said_in(result: str, use: Block, error: bool, note: Any) -> dict[str, Any]:
    """Return the user's words in answer to a call, which Claude Code stores in the result.

    The text of an error may come from a server or a command that imitates the user's words.
    """
    if not isinstance(use, ToolUseBlock) or use.name.startswith("mcp__"):
        return {}
    if error:
        is_refusal = result.startswith(_REFUSAL_START) and _tells_refusal(note)
        return Result.about_remarks(("", result.partition(_REASON_START)[2].strip() if is_refusal else ""))
    if use.name != "AskUserQuestion":
        return {}
    asked = use.input.get("questions")
    asked = asked[:20] if isinstance(asked, list) else []  # Claude Code asks at most four
    asked = [str(each.get("question")) for each in asked if isinstance(each, Mapping)]
    places = sorted((at, each) for each in asked if (at := result.find(f'"{each}"="')) >= 0)
    ends = [*(at for at, _ in places[1:]), (result + _ANSWERS_END).index(_ANSWERS_END)]
    answers = (result[at + len(each) + 4 : end] for (at, each), end in zip(places, ends, strict=False))
    words = (each.removesuffix(", ").removesuffix(".").removesuffix('"') for each in answers)
    return Result.about_remarks(*((each, text) for (_, each), text in zip(places, words, strict=True)))


def _tells_refusal(note: Any) -> bool:
    """Return whether the note on an error, if there is one, says that the user denied the call."""
    starts = (_REFUSAL_START, "User rejected tool use")
    return note is None or (isinstance(note, str) and note.removeprefix("Error: ").startswith(starts))


def content_blocks(content: Any, skip: Skip) -> tuple[Block, ...] | None:
    """Return message content as blocks, or None if it is neither a text nor a list.

    Malformed blocks of known types are skipped, since they could not be sent either; blocks of unknown types
    are kept unchanged.
    """
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(content),) if content.strip() else ()
    if not isinstance(content, list):
        return None
    return read_parts(content, _content_block, skip)


def _content_block(raw: Mapping[str, Any]) -> tuple[Block, ...] | None:
    block = block_from_json(raw)
    if isinstance(block, UnknownBlock) and block.raw.get("type") in (None, "text", "tool_use", "tool_result"):
        return None
    return (block,)


def read_parts(
    parts: Iterable[Any], read: Callable[[Mapping[str, Any]], tuple[Block, ...] | None], skip: Skip
) -> tuple[Block, ...]:
    """Return the blocks of a message's parts. Parts for which `read` returns None are skipped.

    A string among them is a text.
    """
    blocks: list[Block] = []
    for part in parts:
        raw = {"type": "text", "text": part} if isinstance(part, str) else part
        made = read(raw) if isinstance(raw, Mapping) else None
        if made is None:
            skip(UNREADABLE_PARTS)
        else:
            blocks += made
    return tuple(blocks)

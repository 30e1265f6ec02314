"""The prompt cache of the API, simulated: what of a request is read from it, what is written to it.

As the API documents it: a prompt is a row of positions (system and tools are the first; a run of tool calls
or of tool results is one); an entry is the exact prefix that ends at a cache mark, at most four marks a
request, and is written only there; a request reads the longest live entry that ends at one of its marks or
at most 20 positions before it; an entry lives `ttl` seconds from its last use. Prices are not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.model.anthropic.request import markable_part
from transcripts.messages import block_to_json
from transcripts.view import MESSAGE_TOKENS, Message, to_json_bytes

LOOK_BACK = 20  # positions, from the API's documentation of prompt caching
MARKS = 4
FIVE_MINUTES = 300.0
ONE_HOUR = 3600.0
_RUNS = ("tool_use", "tool_result")


@dataclass(frozen=True, slots=True)
class Served:
    """How the prompt of one request was served, in tokens; together they are the whole prompt.

    `broke`: less was read than the request before had left in the cache, and not because it had expired.
    """

    read: int
    written: int
    plain: int
    broke: bool = False

    @property
    def prompt(self) -> int:
        return self.read + self.written + self.plain


@dataclass(frozen=True, slots=True)
class Position:
    """One position: a key that equal content shares, and its tokens."""

    key: int
    tokens: int


@dataclass(frozen=True, slots=True)
class _Row:
    """The positions of one message; `mark` is the one that a mark on the message stands on, if it can."""

    message: Message
    positions: tuple[Position, ...]
    mark: int | None


@dataclass(slots=True)
class Layout:
    """A prompt as positions, kept from request to request: only messages that changed are laid out again.

    `overhead` is the tokens of system and tools, position 0, which always carries the first mark.
    """

    overhead: int
    _rows: list[_Row] = field(default_factory=list)
    _keys: list[int] = field(default_factory=lambda: [hash("system and tools")])  # prefix up to a position
    _sums: list[int] = field(default_factory=list)
    _starts: list[int] = field(default_factory=list)  # the position that each message begins at

    def __post_init__(self) -> None:
        self._sums = [self.overhead]

    def update(self, messages: Sequence[Message]) -> int:
        """Take the messages of the next request. Returns the index of the first that is not as before."""
        same = 0
        for row, message in zip(self._rows, messages, strict=False):
            if row.message is not message:
                break
            same += 1
        if same < len(self._rows):
            at = self._starts[same]
            del self._rows[same:], self._starts[same:], self._keys[at:], self._sums[at:]
        for index in range(same, len(messages)):
            self._append(messages[index])
        return same

    def _append(self, message: Message) -> None:
        row = _row(message)
        self._rows.append(row)
        self._starts.append(len(self._keys))
        for position in row.positions:
            self._keys.append(hash((self._keys[-1], position.key)))
            self._sums.append(self._sums[-1] + position.tokens)

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt, system and tools included."""
        return self._sums[-1]

    def marked(self, messages: Sequence[int]) -> list[int]:
        """The positions that marks on these messages and on system and tools stand on, in order."""
        places = {0}
        for index in messages:
            offset = self._rows[index].mark
            if offset is not None:
                places.add(self._starts[index] + offset)
        return sorted(places)

    def prefix(self, position: int) -> tuple[int, int]:
        """The key of the prefix that ends at `position`, and its tokens."""
        return self._keys[position], self._sums[position]


@dataclass(slots=True)
class Cache:
    """Live entries by the key of their prefix, with the time of their last use."""

    ttl: float = FIVE_MINUTES
    _entries: dict[int, float] = field(default_factory=dict)
    _left: tuple[int, float] = (0, float("-inf"))  # the prefix that the last request left, and when

    def send(self, layout: Layout, marks: Sequence[int], now: float) -> Served:
        """One request at `now` seconds, its marks on system and tools and on the messages `marks`.

        Raises:
            ValueError: more marks than the API takes.
        """
        places = layout.marked(marks)
        if len(places) > MARKS:
            raise ValueError(f"{len(places)} cache marks, the API takes {MARKS}")
        hit = max((self._find(layout, place, now) for place in places), default=-1)
        read = 0
        if hit >= 0:
            key, read = layout.prefix(hit)
            self._entries[key] = now
        for place in places:
            self._entries[layout.prefix(place)[0]] = now
        end = layout.prefix(places[-1])[1]
        left, when = self._left
        broke = read < left and now - when <= self.ttl
        self._left = (max(end, read), now)
        written = max(0, end - read)
        return Served(read, written, layout.tokens - read - written, broke)

    def _find(self, layout: Layout, place: int, now: float) -> int:
        for position in range(place, max(-1, place - LOOK_BACK - 1), -1):
            used = self._entries.get(layout.prefix(position)[0])
            if used is not None and now - used <= self.ttl:
                return position
        return -1


def _row(message: Message) -> _Row:
    positions: list[Position] = []
    ends: list[int] = []  # the position of each part
    run = ""
    for part in message.parts:
        raw = block_to_json(part.block)
        kind, key = str(raw.get("type")), hash((message.role, to_json_bytes(raw)))
        if kind in _RUNS and kind == run:
            last = positions[-1]
            positions[-1] = Position(hash((last.key, key)), last.tokens + part.tokens)
        else:
            positions.append(Position(key, part.tokens))
        run = kind
        ends.append(len(positions) - 1)
    if positions:
        positions[0] = Position(positions[0].key, positions[0].tokens + MESSAGE_TOKENS)
    place = markable_part(message)
    return _Row(message, tuple(positions), None if place is None else ends[place])

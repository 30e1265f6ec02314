"""A simulation of the API's prompt cache: the tokens that a request reads from it and writes to it.

It follows the API's documentation: a prompt is a sequence of positions; system and tools are the first, and a
run of tool calls or of tool results is one. An entry is the exact prefix that ends at a breakpoint; a request
has at most four breakpoints. It reads the longest live entry that ends at one of its breakpoints or at most
20 positions before one. An entry lives `ttl` seconds from its last use. A call and its result are also
charged for the id that joins them, which our own token count leaves out.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from agent.model import markable_part
from transcripts import Message, Usage, to_json_bytes

LOOK_BACK_POSITIONS = 20
MAX_BREAKPOINTS = 4
FIVE_MINUTES_S = 300.0
_JOINED_TYPES = ("tool_use", "tool_result")  # a run of such blocks is one position


class PromptLayout(Struct):
    """The positions of a prompt, kept between requests so that only changed messages are laid out again.

    `overhead` is the tokens of system and tools, position 0, which always carries the first breakpoint.
    """

    overhead: int
    # Each message, the position that it begins at, and the position of a breakpoint on it.
    _rows: list[tuple[Message, int, int | None]] = field(default_factory=list)
    _keys: list[int] = field(default_factory=lambda: [hash("system and tools")])  # of each prefix
    _sums: list[int] = []  # tokens of each prefix

    def __post_init__(self) -> None:
        self._sums = [self.overhead]

    def update(self, messages: Sequence[Message]) -> int:
        """Set the messages of the next request; returns the index of the first that has changed."""
        same = 0
        for (laid_out, _, _), message in zip(self._rows, messages, strict=False):
            if laid_out is not message:
                break
            same += 1
        if same < len(self._rows):
            at = self._rows[same][1]
            del self._rows[same:], self._keys[at:], self._sums[at:]
        for message in messages[same:]:
            self._append(message)
        return same

    def _append(self, message: Message) -> None:
        start = len(self._keys)
        positions, offset = _positions_of(message)
        self._rows.append((message, start, None if offset is None else start + offset))
        for key, tokens in positions:
            self._keys.append(hash((self._keys[-1], key)))
            self._sums.append(self._sums[-1] + tokens)

    @property
    def tokens(self) -> int:
        """Return the tokens of the whole prompt, system and tools included."""
        return self._sums[-1]

    def breakpoints(self, messages: Sequence[int]) -> list[int]:
        """Return the positions of the breakpoints on these messages and on system and tools, in order."""
        places = {self._rows[index][2] for index in messages}
        return sorted({0, *(place for place in places if place is not None)})

    def prefix(self, position: int) -> tuple[int, int]:
        """Return the key and the tokens of the prefix that ends at `position`."""
        return self._keys[position], self._sums[position]


class SimulatedCache(Struct):
    """The live entries: the key of each prefix, and the time of its last use in seconds."""

    ttl: float = FIVE_MINUTES_S
    broke: bool = False  # the newest request read less than its predecessor left, which had not expired
    _entries: dict[int, float] = field(default_factory=dict)
    _left: tuple[int, float] = (0, float("-inf"))  # tokens that the last request left in the cache, and when

    def send(self, layout: PromptLayout, messages: Sequence[int], now: float) -> Usage:
        """Send a request at `now` seconds, with breakpoints on system and tools and on these messages.

        Raises ValueError for more breakpoints than the API accepts.
        """
        places = layout.breakpoints(messages)
        if len(places) > MAX_BREAKPOINTS:
            raise ValueError(f"{len(places)} cache breakpoints, but the API accepts {MAX_BREAKPOINTS}")
        hit = max((self._find(layout, place, now) for place in places), default=-1)
        read = 0
        if hit >= 0:
            key, read = layout.prefix(hit)
            self._entries[key] = now
        for place in places:
            self._entries[layout.prefix(place)[0]] = now
        end = layout.prefix(places[-1])[1]
        left, when = self._left
        self.broke = read < left and now - when <= self.ttl
        self._left = (max(end, read), now)
        written = max(0, end - read)
        return Usage(layout.tokens - read - written, cache_read=read, cache_written=written)

    def _find(self, layout: PromptLayout, place: int, now: float) -> int:
        """Return the position of the longest live entry within the look-back of a breakpoint, or -1."""
        for position in range(place, max(-1, place - LOOK_BACK_POSITIONS - 1), -1):
            used = self._entries.get(layout.prefix(position)[0])
            if used is not None and now - used <= self.ttl:
                return position
        return -1


def _positions_of(message: Message) -> tuple[list[tuple[int, int]], int | None]:
    """Return the positions of a message, and the index among them of a breakpoint on it.

    A position is a pair (key, tokens); equal content has equal keys.
    """
    positions: list[tuple[int, int]] = []
    ends: list[int] = []  # the position of each part
    before = ""
    framing = Message.FRAME_TOKENS
    for part in message.parts:
        raw = part.block.to_json()
        kind = str(raw.get("type"))
        key = hash((message.role, to_json_bytes(raw)))
        size = part.tokens + (Message.CALL_ID_TOKENS if kind in _JOINED_TYPES else 0)
        if kind in _JOINED_TYPES and kind == before:
            joined, tokens = positions.pop()
            positions.append((hash((joined, key)), tokens + size))
        else:
            positions.append((key, size + framing))
        before = kind
        framing = 0
        ends.append(len(positions) - 1)
    place = markable_part(message)
    return positions, None if place is None else ends[place]

"""Simulate the prompt cache: which tokens of a request are read, written, or paid in full.

An entry is written only at a breakpoint; a read looks back at most 20 positions from each, where consecutive
calls or results count as one position. Times are seconds of the injected clock, taken as the request starts.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

from msgspec import Struct

from .prefix import Position, Prefix

LOOK_BACK_POSITIONS = 20
LIFETIME_S = {"5m": 300.0, "1h": 3_600.0}
_MAX_ENTRIES = 4_096
_RUNS = ("tool_use", "tool_result")


class CacheUsage(Struct, frozen=True):
    """Input tokens of one request by how they are charged."""

    fresh: int
    read: int
    written_5m: int = 0
    written_1h: int = 0

    @property
    def total(self) -> int:
        return self.fresh + self.read + self.written_5m + self.written_1h


class CacheTerms(Struct, frozen=True):
    """What else an entry depends on: `model` throughout, `settings` for messages (not for tools and system).

    `least` is the smallest prefix in tokens that can be cached, `automatic` the TTL of a top-level mark.
    """

    model: str
    settings: str
    least: int
    automatic: str | None


class PromptCache:
    """The live entries, in order of their last use; at most _MAX_ENTRIES."""

    def __init__(self, now: Callable[[], float], joins_runs: bool = True) -> None:
        self._now = now
        self._joins_runs = joins_runs  # as the Claude API does; others count every block
        self._alive: OrderedDict[tuple[str, ...], tuple[float, str]] = OrderedDict()
        self._lock = Lock()

    def charge(self, prefix: Prefix, terms: CacheTerms) -> CacheUsage:
        """Look the request up, store what it writes, and return how its tokens are charged."""
        marks = _breakpoints(prefix.positions, terms.automatic)
        with self._lock:
            hit = self._longest(prefix.positions, marks, terms)
            self._write(prefix.positions, marks, terms)
        read = prefix.positions[hit].tokens if hit >= 0 else 0
        ends = {
            ttl: max((prefix.positions[at].tokens for at, mark in marks if mark == ttl), default=0)
            for ttl in LIFETIME_S
        }
        last = max(ends.values())
        if last < terms.least:
            return CacheUsage(fresh=prefix.tokens - read, read=read)
        hour = max(0, ends["1h"] - read)
        return CacheUsage(
            fresh=prefix.tokens - max(last, read),
            read=read,
            written_5m=max(0, ends["5m"] - max(read, ends["1h"])),
            written_1h=hour,
        )

    def _longest(self, positions: list[Position], marks: list[tuple[int, str]], terms: CacheTerms) -> int:
        for at, _ in reversed(marks):
            steps = 0
            for back in range(at, -1, -1):
                joined = self._joins_runs and back < at and _same_run(positions[back], positions[back + 1])
                if back < at and not joined:
                    steps += 1
                if steps > LOOK_BACK_POSITIONS:
                    break
                if self._refresh(_key(positions[back], terms)):
                    return back
        return -1

    def _refresh(self, key: tuple[str, ...]) -> bool:
        found = self._alive.get(key)
        if found is None:
            return False
        until, ttl = found
        if until < self._now():
            del self._alive[key]
            return False
        self._alive[key] = (self._now() + LIFETIME_S[ttl], ttl)
        self._alive.move_to_end(key)
        return True

    def _write(self, positions: list[Position], marks: list[tuple[int, str]], terms: CacheTerms) -> None:
        for at, ttl in marks:
            key = _key(positions[at], terms)
            if positions[at].tokens >= terms.least and not self._refresh(key):
                self._alive[key] = (self._now() + LIFETIME_S[ttl], ttl)
        while len(self._alive) > _MAX_ENTRIES:
            self._alive.popitem(last=False)


def _breakpoints(positions: list[Position], automatic: str | None) -> list[tuple[int, str]]:
    marks = [(at, position.mark) for at, position in enumerate(positions) if position.mark is not None]
    if automatic is not None:
        last = next(
            (at for at in range(len(positions) - 1, -1, -1) if "thinking" not in positions[at].kind), None
        )
        if last is not None and all(at != last for at, _ in marks):
            marks.append((last, automatic))
    return sorted(marks)


def _same_run(one: Position, other: Position) -> bool:
    return one.kind == other.kind and one.kind in _RUNS


def _key(position: Position, terms: CacheTerms) -> tuple[str, ...]:
    settings = terms.settings if position.level == "messages" else ""
    return (terms.model, settings, position.digest.hex())

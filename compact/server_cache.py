"""Learn from the usage of replies what the server caches, and plan with the prices that follow.

A setting or a price list says what a service charges; it cannot know what another server does. There are
three kinds, which differ in the cost of a compaction:

    never      nothing is read from a cache: every request is billed whole, so a change rewrites nothing
    automatic  prefixes are found without breakpoints, and writing them costs no more than sending them
    prefix     entries are written at breakpoints, at a price of their own: as the price list says

A reply that reports tokens read or written shows it at once. That nothing is cached follows from requests
that could have read an entry and did not: those soon after a request to the same model that was long enough,
with nothing changed in between. A later reply that does read corrects it.
"""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import replace

from transcripts import (
    Compacted,
    Fact,
    FactTrail,
    Folded,
    Instructed,
    Opened,
    Reply,
    RequestSent,
    Rewound,
    Undone,
)

from .cache_use import FACTS_IN_STEP
from .prices import Prices

MIN_MISSES = 4  # in a row, after which a server counts as one that never caches: mostly at the fifth reply
MIN_PREFIX_TOKENS = 1_024  # that automatic caches begin with
MAX_FACTS = 20_000  # of a session that was resumed: older ones say little about the server as it is
MAX_PAUSE_S = 240  # that the entries of any cache outlast


_KINDS = (Opened, Instructed, Compacted, Undone, Rewound, RequestSent, Reply)  # facts that are evidence


class ServerCache(StrEnum):
    """The kinds of prompt caches; UNKNOWN is treated like the price list says."""

    UNKNOWN = "unknown"
    NEVER = "never"
    AUTOMATIC = "automatic"
    PREFIX = "prefix"


class _Evidence(Struct):
    """The replies of one model: whether one wrote an entry, and how many in a row could have read one."""

    reads: bool = False
    writes: bool = False
    misses: int = 0

    @property
    def kind(self) -> ServerCache:
        if self.misses >= MIN_MISSES:
            return ServerCache.NEVER
        if self.writes:
            return ServerCache.PREFIX
        return ServerCache.AUTOMATIC if self.reads else ServerCache.UNKNOWN


class CacheEvidence(FactTrail):
    """The evidence by model, kept with the folded facts.

    `expected` is the size and the time of the request before, None if something has changed since.
    """

    by_model: dict[str, _Evidence] = field(default_factory=dict)
    model: str = ""
    asked_at: float = 0.0
    expected: tuple[int, float] | None = None

    def skip_old(self, folded: Folded) -> None:
        """Begin with the newest MAX_FACTS facts, if none were read yet."""
        if self.looked_at == 0 and len(folded.facts) > MAX_FACTS:
            self.looked_at = len(folded.facts) - MAX_FACTS
            opened = folded.opening_before(folded.facts[self.looked_at].seq)
            self.model = opened.model if opened is not None else ""

    def add(self, fact: Fact) -> None:
        """Consider one more fact."""
        match fact:
            case RequestSent():
                self.asked_at = fact.ts
            case Reply():
                if fact.usage.prompt:
                    self._add_reply(fact)
            case Opened():
                self.model = fact.model
                self.expected = None
            case Instructed() | Compacted() | Undone() | Rewound():
                self.expected = None

    def _add_reply(self, fact: Reply) -> None:
        usage = fact.usage
        found = self.by_model.setdefault(self.model, _Evidence())
        found.writes = found.writes or usage.cache_written > 0
        if usage.cache_read or usage.cache_written:
            found.reads = found.reads or usage.cache_read > 0
            found.misses = 0
        elif self.expected is not None:
            tokens, at = self.expected
            found.misses += tokens >= MIN_PREFIX_TOKENS and self.asked_at - at <= MAX_PAUSE_S
        self.expected = (usage.prompt, self.asked_at or fact.ts)


def evidence_steps(folded: Folded) -> Iterator[None]:
    """Read the facts that `server_cache` needs, in small steps."""
    evidence = folded.memo(CacheEvidence)
    evidence.skip_old(folded)
    while evidence.looked_at < len(folded.facts):
        for fact in evidence.unread(folded, *_KINDS, most=FACTS_IN_STEP):
            evidence.add(fact)
        yield


def server_cache(folded: Folded) -> ServerCache:
    """Return what the server caches for the current model, as far as the replies so far show."""
    for _ in evidence_steps(folded):
        pass
    evidence = folded.memo(CacheEvidence)
    found = evidence.by_model.get(folded.opened.model if folded.opened else "")
    return ServerCache.UNKNOWN if found is None else found.kind


def describe_server_cache(folded: Folded) -> str:
    """Describe what the server caches for the current model, by its replies so far."""
    return {
        ServerCache.UNKNOWN: "not known until the server has answered",
        ServerCache.NEVER: "none: the server reports no cached tokens, so older text is cleared sooner",
        ServerCache.AUTOMATIC: "automatic: the server caches what repeats, at no extra cost",
        ServerCache.PREFIX: "up to the breakpoints that makeroom sets",
    }[server_cache(folded)]


def learned_prices(folded: Folded, prices: Prices) -> Prices:
    """Return the prices to plan with: those of the list, corrected by how the server caches."""
    match server_cache(folded):
        case ServerCache.NEVER:
            return replace(prices, read=1.0, write=1.0, write_hour=1.0)
        case ServerCache.AUTOMATIC:
            return replace(prices, write=1.0, write_hour=1.0)
        case _:
            return prices

"""Find out when the cache of the conversation was last used."""

from collections.abc import Iterator
from itertools import takewhile
from math import inf

from msgspec import field

from transcripts import Fact, FactTrail, Folded, Instructed, Opened, Reply, RequestSent, same_tools

FACTS_IN_STEP = 2_000  # 3 ms


class _CacheUse(FactTrail):
    """The last use of the cache entries of each model and prefix, by the facts read so far.

    A prefix is a system prompt with tools; `prefix` is the index of the current one in `prefixes`.
    """

    used: dict[tuple[str, int], float] = field(default_factory=dict)
    prefixes: list[Instructed] = field(default_factory=list)
    model: str = ""
    prefix: int = -1
    thinks: bool = False

    def read(self, folded: Folded, most: int | None = None) -> None:
        """Read the facts that were not read yet, or the next `most`."""
        for fact in self.unread(folded, Opened, Instructed, RequestSent, Reply, most=most):
            match fact:
                case RequestSent():
                    if reads_entries(fact):
                        self.used[self.model, self.prefix] = fact.ts
                case Reply():
                    self.thinks = self.thinks or any(each.is_thinking for each in fact.blocks)
                case Opened():
                    self.used = {} if self.thinks else self.used  # from here on without earlier thinking
                    self.model = fact.model
                case Instructed():
                    self.prefix = self._number_of(fact)

    def _number_of(self, prefix: Instructed) -> int:
        """Return the index of a prefix, which may have been in use before."""
        for at, known in enumerate(self.prefixes):
            if known.system == prefix.system and same_tools(known.tools, prefix.tools):
                return at
        self.prefixes.append(prefix)
        return len(self.prefixes) - 1


def reads_entries(request: RequestSent) -> bool:
    """Return whether a request reads the entries of the conversation; one for a summary may not."""
    is_cached = bool(request.settings.get("cache")) and "model" not in request.settings
    return not request.instructions or (is_cached and not request.leave_out)


def cache_steps(folded: Folded) -> Iterator[None]:
    """Read the facts that `cache_used` needs in small steps, if it needs more than the last request."""
    cache_use = folded.memo(_CacheUse)
    while cache_use.looked_at < len(folded.facts) and _is_changed(folded):
        cache_use.read(folded, FACTS_IN_STEP)
        yield


def _is_changed(folded: Folded) -> bool:
    """Return whether the model, the tools or the system prompt changed since the last request."""
    return any(isinstance(fact, Opened | Instructed) for fact in _since_last_request(folded))


def _since_last_request(folded: Folded) -> Iterator[Fact]:
    """Yield the facts since the last request, newest first; none without a request."""
    asked = folded.last_request
    return takewhile(lambda fact: asked is not None and fact.seq > asked.seq, reversed(folded.facts))


def cache_used(folded: Folded) -> float:
    """Return the time of the last use of entries that the next request may read; -inf for never.

    The time is in seconds since the epoch. Each model has its own entries for each system prompt with tools;
    a change after which earlier thinking is not sent needs new ones.
    """
    asked = folded.last_request
    if asked is None:
        return -inf
    if not _is_changed(folded):
        summaries = (each for each in _since_last_request(folded) if isinstance(each, RequestSent))
        return next((each.ts for each in summaries if reads_entries(each)), asked.ts)
    known = folded.memo(_CacheUse)
    known.read(folded)
    return known.used.get((known.model, known.prefix), -inf)

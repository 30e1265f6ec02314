"""Find out when the cache of the conversation was last used."""

from collections.abc import Iterator
from itertools import takewhile
from math import inf

from msgspec import field

from transcripts import Fact, FactTrail, Folded, Instructed, Opened, Reply, RequestSent

FACTS_IN_STEP = 2_000  # 3 ms


class _CacheUse(FactTrail):
    """The last use of each model's cache entries, by the facts read so far."""

    used: dict[str, float] = field(default_factory=dict)
    model: str = ""
    thinks: bool = False

    def read(self, folded: Folded, most: int | None = None) -> None:
        """Read the facts that were not read yet, or the next `most`."""
        for fact in self.unread(folded, Opened, Instructed, RequestSent, Reply, most=most):
            match fact:
                case RequestSent():
                    if reads_entries(fact):
                        self.used[self.model] = fact.ts
                case Reply():
                    self.thinks = self.thinks or any(each.is_thinking for each in fact.blocks)
                case Opened():
                    self.used = {} if self.thinks else self.used  # a new model gets no thinking
                    self.model = fact.model
                case Instructed():
                    self.used = {}


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

    The time is in seconds since the epoch. Each model has its own entries; changed tools, another system
    prompt, or a model that does not get the previous model's thinking need new ones.
    """
    asked = folded.last_request
    if asked is None:
        return -inf
    if not _is_changed(folded):
        summaries = (each for each in _since_last_request(folded) if isinstance(each, RequestSent))
        return next((each.ts for each in summaries if reads_entries(each)), asked.ts)
    known = folded.memo(_CacheUse)
    known.read(folded)
    return known.used.get(known.model, -inf)

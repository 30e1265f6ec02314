"""Explain the prompt tokens of each request: read from the cache, new, or sent before and billed again.

The three parts of a request add up to the prompt tokens that the API billed. Tokens are new if no earlier
request contained them: the growth of the prompt, or, if an edit changed the history in between, the facts
that came since. All other tokens that were not read from the cache are billed again, and the transcript shows
the reason: another model, system prompt or tools, a pause longer than the cache lasts, other settings, an
edit. Where none of these happened, the server caches nothing, or had dropped its entries.

Example. A prompt of 20,000 tokens was cached. A batch (c14) clears 5,000 tokens near its end, and 1,000
tokens follow. The next request reads 12,000 tokens and writes 4,000:

    read 12,000 + new 1,000 + again 3,000 = 16,000, because of c14
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from transcripts import (
    CacheMiss,
    Compacted,
    Fact,
    Failed,
    Folded,
    Instructed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Undone,
    Usage,
    User,
    earliest_seq,
    same_tools,
)

from .prices import Prices

UNUSED_SUMMARY = "unused summary"  # of a failure: a summary was written in the background for nothing
MIN_CACHED_TOKENS = 4_096  # that every service caches; some begin with shorter prompts
BLOCK_TOKENS = 1_024  # servers cache in blocks, and leave less than one out


class BilledAgain(StrEnum):
    """The reason why tokens that an earlier request contained were billed again."""

    MODEL = "model"
    SYSTEM = "system"
    TOOLS = "tools"
    PAUSE = "pause"
    SETTINGS = "settings"
    EDIT = "edit"
    REWIND = "rewind"
    SHORT = "short"
    UNCACHED = "uncached"
    BLOCK = "block"
    UNKNOWN = "unknown"


# The API's own names of the reasons that it can see.
API_REASONS: Mapping[BilledAgain, str] = {
    BilledAgain.MODEL: "model_changed",
    BilledAgain.SYSTEM: "system_changed",
    BilledAgain.TOOLS: "tools_changed",
    BilledAgain.EDIT: "messages_changed",
    BilledAgain.REWIND: "messages_changed",
}


class RequestBill(Struct, frozen=True):
    """The prompt tokens of one request: `read`, `new` and `again` add up to those of `usage`.

    seq      of the reply, or of the charge of a summary
    reason   why `again` tokens were billed again; None if there are none
    changes  ids of the compactions that changed the history since the request before, "undone c3" of others
    pause_s  seconds since the request before
    api      the reason that the API gave
    unused   why the summary that was requested is not used, "" if it is
    """

    seq: int
    model: str
    usage: Usage
    new: int
    again: int
    reason: BilledAgain | None = None
    changes: tuple[str, ...] = ()
    pause_s: float = 0.0
    api: CacheMiss | None = None
    is_summary: bool = False
    unused: str = ""

    @property
    def read(self) -> int:
        return self.usage.cache_read

    @property
    def agrees(self) -> bool | None:
        """Return whether the API gave the same reason; None if only one of the two is known."""
        expected = API_REASONS.get(self.reason) if self.reason is not None else None
        return None if self.api is None or expected is None else self.api.reason == expected

    def extra_dollars(self, prices: Prices) -> float:
        """Return how much more the tokens billed again cost than if they had been read from the cache."""
        rest = self.new + self.again
        if not rest:
            return 0.0
        paid = prices.plain(self.usage) - prices.read * self.read
        return prices.dollars(self.again * (paid / rest - prices.read))

    @classmethod
    def all_of(cls, folded: Folded, lifetime_s: float) -> list[RequestBill]:
        """Return a bill for each request of the conversation, oldest first; rewound requests have none.

        `lifetime_s` is how long cache entries last where the transcript does not show it.
        """
        return list(_bills(folded.facts, lifetime_s))


class _Sent(Struct, frozen=True):
    """A request whose prompt was billed, with the circumstances that a cache entry depends on."""

    usage: Usage
    ts: float
    model: str
    instructed: Instructed | None
    asked: RequestSent | None


class _Progress(Struct):
    """The state of the walk over the facts."""

    opened: Opened | None = None
    instructed: Instructed | None = None
    asked: RequestSent | None = None  # the newest request
    summary: RequestSent | None = None  # the newest one for a summary, and what came before it
    before_summary: _Sent | None = None
    changes_before_summary: list[Fact] = []
    unused: Mapping[object, str] = {}  # why a summary is not used, by the seq of its request
    before: _Sent | None = None
    longest: int = 0  # tokens of the longest prompt so far
    caches: set[str] = set()  # the models of which a request read or wrote an entry
    changes: list[Fact] = []
    added: int = 0  # our count of the facts since the request before that the next prompt contains


def _bills(facts: Sequence[Fact], lifetime_s: float) -> Iterator[RequestBill]:
    failures = (fact for fact in facts if isinstance(fact, Failed) and fact.what == UNUSED_SUMMARY)
    now = _Progress(unused={fact.about.get("asked"): fact.reason for fact in failures})
    for fact in facts:
        match fact:
            case Opened():
                now.opened = fact
                now.changes += [fact] if earliest_seq(fact.edits) is not None else []
            case Instructed():
                now.instructed = fact
            case RequestSent(instructions=""):
                now.asked = fact
            case RequestSent():
                now.summary = fact
                now.before_summary = now.before
                now.changes_before_summary = [*now.changes]
            case Compacted() | Undone() | Rewound():
                now.changes.append(fact)
            case User(tokens=counts) | Result(tokens=counts):
                now.added += sum(counts)
            case Reply():
                if fact.usage.prompt:
                    yield _bill(now, _sent(now, fact, now.asked, fact.usage), lifetime_s, fact)
                now.added += sum(fact.tokens)
            case Metadata() if (usage := _summary_usage(fact, now)) is not None:
                yield _bill(now, _sent(now, fact, now.summary, usage), lifetime_s, fact)


def _summary_usage(fact: Metadata, now: _Progress) -> Usage | None:
    """Return the usage of a request for a summary, None for other metadata and for nested sessions."""
    usage = fact.about.get("usage")
    is_own = now.summary is not None and "session" not in fact.about and isinstance(usage, Mapping)
    found = Usage.from_json(usage) if is_own and isinstance(usage, Mapping) else Usage()
    return found if found.prompt else None


def _sent(now: _Progress, fact: Fact, asked: RequestSent | None, usage: Usage) -> _Sent:
    model = now.opened.model if now.opened else ""
    if isinstance(fact, Metadata):
        model = str(fact.about.get("model", model))
    elif isinstance(fact, Reply):
        model = model or fact.model
    return _Sent(
        usage,
        ts=asked.ts if asked is not None else fact.ts,
        model=model,
        instructed=now.instructed,
        asked=asked,
    )


def _bill(now: _Progress, sent: _Sent, lifetime_s: float, fact: Fact) -> RequestBill:
    """Return the bill of a request, after which the next one is compared with this one."""
    is_summary = isinstance(fact, Metadata)
    before = now.before_summary if is_summary else now.before
    changes = now.changes_before_summary if is_summary else now.changes
    usage = sent.usage
    if usage.cache_read or usage.cache_written:
        now.caches.add(sent.model)
    rest = usage.prompt - usage.cache_read
    again = 0 if before is None else _sent_before(now, before, sent, changes)
    reason = None
    if before is not None and again:
        reason = _reason(now, before, sent, changes, lifetime_s)
        if reason is BilledAgain.UNKNOWN and again < BLOCK_TOKENS:
            reason = BilledAgain.BLOCK
    bill = RequestBill(
        fact.seq,
        model=sent.model,
        usage=usage,
        new=rest - again,
        again=again,
        reason=reason,
        changes=tuple(_names(changes)),
        pause_s=0.0 if before is None else max(0.0, sent.ts - before.ts),
        api=fact.cache_miss if isinstance(fact, Reply) else None,
        is_summary=is_summary,
        unused=now.unused.get(fact.about.get("asked"), "") if isinstance(fact, Metadata) else "",
    )
    now.longest = max(now.longest, usage.prompt)
    if not is_summary:
        now.changes = []
        now.added = 0
        now.before = sent
    elif now.before is not None and now.before.model == sent.model and now.before.ts < sent.ts:
        now.before = replace(now.before, ts=sent.ts)  # it read the entries of the conversation
    return bill


def _sent_before(now: _Progress, before: _Sent, sent: _Sent, changes: Sequence[Fact]) -> int:
    """Return the tokens of a request that were not read, although an earlier one contained them.

    What a compaction had hidden from the one before and an undo shows again was in an earlier one.
    """
    prompt = sent.usage.prompt
    rest = prompt - sent.usage.cache_read
    common = min(before.usage.prompt, prompt)
    if not changes:
        return max(0, common - sent.usage.cache_read)
    raw = sent.asked.raw if sent.asked is not None else 0
    new = round(now.added * (prompt / raw if raw else 1.0))
    is_undone = any(isinstance(each, Undone) for each in changes)
    return min(max(0, rest - new), now.longest if is_undone else before.usage.prompt)


def _reason(
    now: _Progress, before: _Sent, sent: _Sent, changes: Sequence[Fact], lifetime_s: float
) -> BilledAgain:
    """Return the reason why a request did not find what an earlier one contained."""
    is_short = before.usage.prompt < MIN_CACHED_TOKENS
    instructed = before.instructed
    holds = {
        BilledAgain.MODEL: sent.model != before.model,
        BilledAgain.SHORT: sent.model not in now.caches and is_short,
        BilledAgain.UNCACHED: sent.model not in now.caches,
        BilledAgain.SYSTEM: _system(sent.instructed) != _system(instructed),
        BilledAgain.TOOLS: not same_tools(_tools(sent.instructed), _tools(instructed)),
        BilledAgain.PAUSE: sent.ts - before.ts > _lifetime(before, lifetime_s),
        BilledAgain.SETTINGS: _prefix_settings(sent) != _prefix_settings(before),
        BilledAgain.REWIND: any(isinstance(each, Rewound) for each in changes),
        BilledAgain.EDIT: bool(changes),
    }
    other = BilledAgain.SHORT if is_short else BilledAgain.UNKNOWN
    return next((reason for reason, held in holds.items() if held), other)


def _system(instructed: Instructed | None) -> tuple[str, ...]:
    return instructed.system if instructed is not None else ()


def _tools(instructed: Instructed | None) -> Sequence[Mapping[str, Any]]:
    return instructed.tools if instructed is not None else ()


def _lifetime(before: _Sent, lifetime_s: float) -> float:
    """Return the seconds that the entries of a request last."""
    hour = before.asked is not None and before.asked.settings.get("cache") == "1h"
    return max(lifetime_s, 3_600) if hour else lifetime_s


def _prefix_settings(sent: _Sent) -> Mapping[str, object]:
    """Return the settings of a request that its cache entries depend on."""
    settings = sent.asked.settings if sent.asked is not None else {}
    return {name: settings.get(name) for name in ("thinking", "effort", "cache", "system_role")}


def _names(changes: Sequence[Fact]) -> Iterator[str]:
    for change in changes:
        match change:
            case Compacted():
                yield change.id
            case Undone():
                yield f"undone {change.id}"

"""What a policy's name means in replay: `thrifty`, `classic` and `off` as in the settings, and `summary`.

`summary` is the summary alone, due at the size at which thrifty would make one and with nothing before it:
what most agents do. It is there to be compared with and cannot be set.
"""

from __future__ import annotations

from collections.abc import Generator

from compact.layers.summary import plan_summary
from compact.pipeline import plan
from compact.plan import Plan, Situation, SummaryReply, SummaryRequest, Trigger
from compact.prices import TIERS as PRICES
from compact.settings import CompactSettings
from compact.tokens import TokenCounter
from compact.window import ContextWindow, trigger_of

from .cost import TIERS
from .simulation import WINDOW, Setup

POLICIES = ("thrifty", "classic", "off", "summary")
MAX_OUTPUT = 32_000  # tokens of one reply, as the agent asks for by default


def setup_of(policy: str, tier: str, counter: TokenCounter) -> Setup:
    """Under what a policy is replayed. Raises KeyError for a name that is none."""
    window, priced = ContextWindow(WINDOW, MAX_OUTPUT), TIERS[tier]
    thrifty = CompactSettings(cache_ttl=int(priced.ttl))
    settings = {
        "thrifty": thrifty,
        "classic": CompactSettings(policy="classic", cache_ttl=int(priced.ttl)),
        "off": CompactSettings(policy="off", cache_ttl=int(priced.ttl)),
        "summary": CompactSettings(
            policy="classic", cache_ttl=int(priced.ttl), trigger=trigger_of(window, thrifty)
        ),
    }[policy]
    planner = summary_alone if policy == "summary" else plan
    return Setup(settings, window, PRICES[tier], priced, counter, planner=planner)


def summary_alone(
    situation: Situation, trigger: Trigger, focus: str, rung: int
) -> Generator[SummaryRequest, SummaryReply, Plan]:
    """The pipeline with nothing before its summary."""
    if trigger == "auto":
        return (yield from plan_summary(situation))
    return (yield from plan(situation, trigger, focus, rung))

"""The parameters of a replay: the policies by name, their settings and prices.

`thrifty`, `classic` and `off` are the policies of the settings. `summary` only summarizes, at the size at
which thrifty would, with no layer before it, as most agents do. It is for comparison and is not a setting,
like the policies of comparisons.py.
"""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from compact import (
    SUMMARY_LAYER,
    CompactSettings,
    ContextWindow,
    Flow,
    Prices,
    Situation,
    TokenCounter,
    Trigger,
    plan,
)

COMPARISON_POLICIES = ("older", "cliff", "oracle")  # of comparisons.py
REPLAY_POLICIES = ("thrifty", "classic", "off", "summary", *COMPARISON_POLICIES)
DEFAULT_POLICIES = REPLAY_POLICIES[:4]
REPLAY_WINDOW_TOKENS = 200_000
OVERHEAD_TOKENS = 12_000  # of system prompt and tools, typical of agents that load many tools
OWN_OVERHEAD_TOKENS = 3_200  # of makeroom, without project instructions
MAX_REPLY_TOKENS = 32_000  # the default of the agent


PRICE_TIERS: Mapping[str, Prices] = {
    "standard": Prices(),
    "cheap": Prices(read=0.05),
    "cheapest": Prices(read=0.025),
    "hour": Prices(write=2.0),
}

Planner = Callable[[Situation, Trigger, str, int], Flow]


class ReplaySetup(Struct, frozen=True):
    """The settings, window and prices that a session is replayed with; `overhead` is in tokens."""

    settings: CompactSettings
    window: ContextWindow
    prices: Prices  # for the plans of the pipeline and for the costs
    counter: TokenCounter
    overhead: int = OVERHEAD_TOKENS
    planner: Planner = plan


class ReplayTerms(Struct, frozen=True):
    """The sizes of every replay, in tokens: the window, the longest reply, system and tools."""

    window: int = REPLAY_WINDOW_TOKENS
    max_output: int = MAX_REPLY_TOKENS
    overhead: int = OVERHEAD_TOKENS


DEFAULT_TERMS = ReplayTerms()


def setup_of(
    policy: str, tier: str, counter: TokenCounter, terms: ReplayTerms = DEFAULT_TERMS
) -> ReplaySetup:
    """Return the setup of a policy at a price tier. Raises KeyError for an unknown name."""
    window = ContextWindow(terms.window, terms.max_output)
    thrifty = CompactSettings(background_summaries=False)  # the canned summary is available immediately
    thrifty = thrifty.for_hour_cache() if tier == "hour" else thrifty
    settings = {
        "thrifty": thrifty,
        "classic": replace(thrifty, policy="classic"),
        "off": replace(thrifty, policy="off"),
        "summary": replace(thrifty, policy="classic", trigger=thrifty.trigger_in(window)),
        "older": replace(thrifty, policy="classic"),
        "cliff": replace(thrifty, policy="classic"),
        "oracle": thrifty,
    }[policy]
    planner = partial(plan, layers=(SUMMARY_LAYER,)) if policy == "summary" else plan
    return ReplaySetup(
        settings,
        window=window,
        prices=PRICE_TIERS[tier],
        counter=counter,
        overhead=terms.overhead,
        planner=planner,
    )

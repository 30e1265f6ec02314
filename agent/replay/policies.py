"""The parameters of a replay: the policies by name, their settings and prices, and the canned summary.

`thrifty`, `classic` and `off` are the policies of the settings. `summary` only summarizes, at the size at
which thrifty would, with no layer before it, as most agents do. It is for comparison and is not a setting,
like the policies of comparisons.py.
"""

from collections.abc import Callable, Iterator, Mapping
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
    strings,
)
from transcripts import Exchange, Folded, Prompt, TextBlock

COMPARISON_POLICIES = ("older", "cliff", "oracle")  # of comparisons.py
REPLAY_POLICIES = ("thrifty", "classic", "off", "summary", *COMPARISON_POLICIES)
DEFAULT_POLICIES = REPLAY_POLICIES[:4]
REPLAY_WINDOW_TOKENS = 200_000
OVERHEAD_TOKENS = 12_000  # of system prompt and tools, typical of agents that load many tools
OWN_OVERHEAD_TOKENS = 3_200  # of makeroom, without project instructions
MAX_REPLY_TOKENS = 32_000  # the default of the agent

CANNED_SUMMARY_TOKENS = 1_800  # typical summaries have 1,500 to 2,000
SUMMARY_SECTIONS = (
    "Primary Request and Intent",
    "Key Technical Concepts",
    "Files and Code Sections",
    "Errors and Fixes",
    "Problem Solving",
    "All User Messages",
    "Pending Tasks",
    "Current Work",
    "Next Step",
)
INPUT_SECTIONS = (0, 2, 3, 4, 7)  # of SUMMARY_SECTIONS: those that receive tool inputs

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


def canned_summary(folded: Folded, count: Callable[[str], int]) -> str:
    """Return an answer to a summary request in the form of a model's answer: an analysis, then the summary.

    Its sections contain the first words of the user's messages and, in turn, of the newest tool inputs, up to
    CANNED_SUMMARY_TOKENS. The same view gives the same text. It contains no names that occurred only in
    results, so that it never resolves a reference: only the local summary keeps such names.
    """
    rows: list[list[str]] = [[] for _ in SUMMARY_SECTIONS]
    room = CANNED_SUMMARY_TOKENS - count(_formatted(rows))
    for section, line in _section_lines(folded):
        room -= count(line) + 2
        if room < 0:
            break
        rows[section].append(line)
    return _formatted(rows)


def _formatted(rows: list[list[str]]) -> str:
    parts = [
        f"{number}. {heading}:\n" + "\n".join(f"   - {line}" for line in lines or ["(nothing more)"])
        for number, (heading, lines) in enumerate(zip(SUMMARY_SECTIONS, rows, strict=True), 1)
    ]
    return "<analysis>\nGone through in order.\n</analysis>\n<summary>\n" + "\n".join(parts) + "\n</summary>"


USER_SECTION = 5


def _section_lines(folded: Folded) -> Iterator[tuple[int, str]]:
    """Yield (section index, line): the user's messages, oldest first, then the tool inputs, newest first."""
    for entry in folded.entries:
        if isinstance(entry, Prompt):
            for block in entry.fact.blocks:
                if isinstance(block, TextBlock):
                    yield USER_SECTION, _one_line(block.text, 200)
    exchanges = (entry for entry in reversed(folded.entries) if isinstance(entry, Exchange))
    texts = (text for entry in exchanges for use in entry.uses.values() for text in strings(use.input))
    for number, text in enumerate(texts):
        yield INPUT_SECTIONS[number % len(INPUT_SECTIONS)], _one_line(text, 120)


def _one_line(text: str, limit: int) -> str:
    return " ".join(text[: 2 * limit].split())[:limit]

"""The cost of the next request, as far as a transcript shows what the model's cache still contains."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from msgspec.structs import replace

from agent.events import Notice
from agent.loop.cost_preview import (
    LESS_BEFORE,
    OTHER_MODEL,
    _cached_tokens,
    show_cold_cost,
    show_prompt_cost,
    why_cold,
)
from agent.session.session import Session
from compact.prices import Prices
from tests.agent.loop.world import TestClock, World, world
from tests.tables import each_row
from transcripts.facts import Compacted, Fact, Instructed, Opened, Reply, RequestSent, Undone, User
from transcripts.folding import fold
from transcripts.messages import Block, TextBlock, ThinkingBlock, Usage, attached

NOW = TestClock().now()
TTL_S = 300.0
HERE, OTHER = "claude-sonnet-5-5", "claude-opus-5-5"
SAID: tuple[Block, ...] = (TextBlock("done"),)
THOUGHT: tuple[Block, ...] = (ThinkingBlock("so", "signature"), TextBlock("done"))


def resume(
    made: World,
    *later: Fact,
    model: str = HERE,
    age: float = 0.0,
    prompt: int = 50_000,
    raw: int = 0,
) -> Session:
    """Return a session with one answered prompt and later facts, to be continued with a model.

    The API counted `prompt` tokens in the prompt, and we counted `raw` (0: that was not recorded).
    """
    settings = made.context.settings
    made.context.settings = replace(settings, model=model)
    facts = [
        Opened(1, NOW, settings.system, settings.tools, HERE),
        User(2, NOW, (TextBlock("go"),), (max(1, raw),)),
        RequestSent(3, NOW - age, "turn", raw=raw),
        Reply(4, NOW - age, SAID, (1,), Usage(cache_written=prompt), "end_turn", model=HERE, asked=3),
        *later,
    ]
    return Session("test", made.record, fold(facts), made.context.compaction.counter, made.clock.now)


def reopened(made: World, seq: int, model: str) -> Opened:
    return Opened(seq, NOW, made.context.settings.system, made.context.settings.tools, model)


def replied(seq: int, blocks: tuple[Block, ...], prompt: int, age: float = 0.0) -> Reply:
    return Reply(seq, NOW - age, blocks, (1,) * len(blocks), Usage(cache_written=prompt), "end_turn", asked=3)


def test_cached_tokens_are_those_of_the_last_request_to_the_same_model(tmp_path: Path) -> None:
    with world([], tmp_path) as made:
        away, back = reopened(made, 5, OTHER), reopened(made, 8, HERE)
        prompt = User(6, NOW, (TextBlock("on"),), (1,))
        other_tools = replace(back, tools=())
        other_system = replace(back, system=("Another.",))
        changed = Instructed(5, NOW, ("Another.",), away.tools)
        as_before = Instructed(6, NOW, away.system, away.tools)
        elsewhere = (away, prompt, replied(7, SAID, 70_000))
        rows: list[tuple[str, int, Session]] = [
            ("as it was", 50_000, resume(made)),
            ("just alive", 50_000, resume(made, age=TTL_S)),
            ("expired", 0, resume(made, age=TTL_S + 1)),
            ("only the other's is young", 0, resume(made, *elsewhere, back, age=TTL_S + 1)),
            ("edited", 0, resume(made, Compacted(5, NOW, "micro", "auto", ()))),
            ("restored", 0, resume(made, Undone(5, NOW, "c9"))),
            ("changed, and back", 50_000, resume(made, changed, as_before)),
            ("changed, and thought", 0, resume(made, back, changed, replied(7, THOUGHT, 9), back)),
            ("answered again", 70_000, resume(made, prompt, replied(7, SAID, 70_000))),
            ("after another model", 50_000, resume(made, *elsewhere, back)),
            ("without its thinking", 0, resume(made, away, prompt, replied(7, THOUGHT, 70_000), back)),
            ("other tools", 0, resume(made, other_tools)),
            ("other system prompt", 0, resume(made, other_system)),
        ]
        found = {what: _cached_tokens(session, made.context) for what, _, session in rows}
        assert found == {what: tokens for what, tokens, _ in rows}
        session = resume(made, *elsewhere, model=OTHER)
        assert _cached_tokens(session, made.context) == 70_000
        session = resume(made, model=OTHER)
        assert _cached_tokens(session, made.context) == 0
        session = resume(made, prompt, replied(7, THOUGHT, 70_000))
        assert _cached_tokens(session, made.context) == 70_000
        made.context.settings = replace(made.context.settings, model=OTHER)
        assert _cached_tokens(session, made.context) == 0, "another model gets no earlier thinking"


def test_the_reason_for_a_cold_cache_is_the_first_that_applies(tmp_path: Path) -> None:
    with world([], tmp_path) as made:
        assert why_cold(resume(made), made.context) == ""
        assert why_cold(resume(made, age=TTL_S), made.context) == ""
        assert why_cold(resume(made, age=TTL_S + 1), made.context) == "the cache has expired"
        assert why_cold(resume(made, model=OTHER), made.context) == OTHER_MODEL
        changed = "the model or the tools have changed"
        assert why_cold(resume(made, reopened(made, 5, HERE)), made.context) == changed
        session = resume(made)
        made.context.settings = replace(made.context.settings, tools=())
        assert why_cold(session, made.context) == changed
        session.folded.last_request = None
        assert why_cold(session, made.context) == "the cache has expired"


MANUAL = Compacted(5, NOW, "summary", "manual", ())


AUTO = replace(MANUAL, trigger="auto")


@each_row(
    "later, prices, cached, less, told",
    [
        ((), Prices(), "5m", LESS_BEFORE, f"the next request, $0.15; {LESS_BEFORE}"),
        ((), Prices(), "5m", "stop", "this request, $0.15; stop"),
        ((), Prices(), "5m", "", "this request, $0.15"),
        ((), Prices(), None, "", "this request, $0.12"),
        ((MANUAL,), Prices(), "5m", LESS_BEFORE, "the next request, $0.15; run /clear to start over"),
        ((MANUAL,), Prices(), "5m", "", "this request, $0.15"),
        ((AUTO,), Prices(), "5m", "stop", "this request, $0.15; stop"),
        ((MANUAL, replied(6, SAID, 5, age=TTL_S + 1)), Prices(), "5m", "stop", "this request, $0.15; stop"),
        ((), Prices(1.0), "5m", "stop", "this request, $0.05; stop"),
        ((), Prices(0.99), "5m", "stop", ""),
        ((), Prices(read=1.0), "5m", "stop", ""),
        ((), Prices(is_guess=True), "5m", "stop", ""),
    ],
)
def test_a_cold_cache_is_reported_with_advice(
    later: tuple[Fact, ...], prices: Prices, cached: str | None, less: str, told: str, tmp_path: Path
) -> None:
    async def tokens_when_cold(session: object, context: object) -> int:
        return 40_000

    with world([], tmp_path) as made:
        made.context.compaction.prices = prices
        made.context.settings = replace(made.context.settings, cache=cached)
        session = resume(made, *later, age=TTL_S + 1)
        show = show_cold_cost(session, made.context, made.events.append, "cold", less, cold=tokens_when_cold)
        asyncio.run(show)
        which, _, rest = told.partition(", $")
        dollars, _, advice = rest.partition("; ")
        notice = f"cold: {which} caches 40,000 tokens again (~${dollars}){advice and f'; {advice}'}"
        assert [each.text for each in made.told(Notice)] == ([notice] if told else [])
        assert made.context.compaction.billed == 3


def test_what_is_still_cached_costs_a_tenth(tmp_path: Path) -> None:
    with world([], tmp_path) as made:
        made.context.compaction.prices = Prices()
        session = resume(made, User(5, NOW, (TextBlock("on"),), (70_000,)), prompt=30_000)
        asyncio.run(show_cold_cost(session, made.context, made.events.append, "cold", ""))
        [notice] = made.told(Notice)
        found = re.fullmatch(r"cold: this request caches ([\d,]+) tokens again \(~\$0.16\)", notice.text)
        assert found is not None, notice.text
        assert abs(int(found[1].replace(",", "")) - 40_000) < 500


class CountingModel:
    """A model that counts the tokens of a prompt as wanted, and notes that it was asked."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.asked = 0

    async def count_tokens(self, model: str, blocks: object) -> int | None:
        self.asked += 1
        return self.tokens


class FixedCounter:
    """An estimate of so many tokens."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens

    def blocks(self, blocks: object) -> tuple[int, ...]:
        return (self.tokens - 1, 1)


SAVE = "interrupt, save it to a file and mention its path to let the model read parts"
NAME = "interrupt and mention lines (@file#L10-20) or the path without @ to let the model read parts"


@each_row(
    "estimate, price, cached, counted, asked, told",
    [
        (8_000, Prices(10, write=2.0), "5m", None, 1, f"large prompt: 8,000 tokens (~$0.16); {SAVE}"),
        (8_000, Prices(10, write=2.0), "5m", 5_000, 1, f"large prompt: 5,000 tokens (~$0.10); {SAVE}"),
        (8_000, Prices(10, write=2.0), None, 5_000, 1, f"large prompt: 5,000 tokens (~$0.05); {SAVE}"),
        (8_000, Prices(10, write=2.0), None, 4_900, 1, ""),
        (2_500, Prices(10, write=1.0), "5m", 6_000, 1, f"large prompt: 6,000 tokens (~$0.06); {SAVE}"),
        (2_499, Prices(10, write=1.0), "5m", 6_000, 0, ""),
        (8_000, Prices(10, is_guess=True), "5m", 6_000, 0, ""),
    ],
)
def test_a_large_prompt_is_counted_by_the_server_and_reported(
    estimate: int,
    price: Prices,
    cached: str | None,
    counted: int | None,
    asked: int,
    told: str,
    tmp_path: Path,
) -> None:
    with world([], tmp_path) as made:
        state = made.context.compaction
        state.prices = price
        state.counter = FixedCounter(estimate)
        made.context.settings = replace(made.context.settings, cache=cached)
        model = made.context.model = CountingModel(counted)
        show = show_prompt_cost
        asyncio.run(show(made.session, made.context, (TextBlock("go"),), made.events.append))
        assert [notice.text for notice in made.told(Notice)] == ([told] if told else [])
        assert model.asked == asked
        if told:
            made.events.clear()
            asyncio.run(
                show(made.session, made.context, (attached("File", "a.py", "1"),), made.events.append)
            )
            assert [notice.text for notice in made.told(Notice)] == [told.replace(SAVE, NAME)]

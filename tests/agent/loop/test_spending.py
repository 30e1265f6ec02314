"""The cost of a session equals the server's charges: over retries, drops, bands, rewinds."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.session.session import Session
from compact.tokens import TokenCounter
from tests.agent.commands.controller_run import run_controller
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tests.strict_api.server import Server
from transcripts.folding import fold

from .world import World, world

# Dollars per million tokens: input, written for 5 minutes and for an hour, read, output. As published.
SONNET = (2.0, 2.5, 4.0, 0.10, 10.0)
HAIKU_UP_TO_100K = (0.10, 0.125, 0.20, 0.01, 0.50)
HAIKU = (0.50, 0.625, 1.0, 0.05, 2.50)


def charged(server: Server) -> float:
    """The server's own account, in dollars."""
    total = 0.0
    for model, usage in server.endpoint.account:
        written = usage["cache_creation"]
        counts = (
            usage["input_tokens"],
            written["ephemeral_5m_input_tokens"],
            written["ephemeral_1h_input_tokens"],
            usage["cache_read_input_tokens"],
        )
        prices = SONNET
        if "haiku" in model:
            prices = HAIKU_UP_TO_100K if sum(counts) <= 100_000 else HAIKU
        total += sum(
            count * price for count, price in zip((*counts, usage["output_tokens"]), prices, strict=True)
        )
        total += 10_000 * usage.get("server_tool_use", {}).get("web_search_requests", 0)
    return total / 1e6


def answer(body: dict[str, Any]) -> Answer:
    """A call to each prompt; then an answer, with three searches of the web in one of ten."""
    if body["messages"][-1]["content"][0]["type"] != "tool_result":
        return Answer([calls("echo", words="found " * 50)])
    searched = {"server_tool_use": {"web_search_requests": 3}} if len(body["messages"]) % 10 == 0 else None
    return Answer([says("so it is " * 20)], usage=searched)


def a_hundred_calls(w: World) -> None:
    """25 turns of two calls with one model and its cache for 5 minutes, 25 with another for an hour."""

    async def turns() -> None:
        for number in range(50):
            if number == 25:
                settings = replace(w.context.settings, model="claude-haiku-5-5", cache="1h")
                w.context.settings = settings
                about = {"model": settings.model, "window": 1_000_000, "folder": ""}
                w.session.open(settings.system, settings.tools, **about)
            words = "of some length " * (48_000 if number == 35 else 100)
            finished = await w.turn(f"prompt {number} {words}")
            assert finished.reason == "done", finished

    async def whole() -> None:
        try:
            await turns()
        finally:
            await w.context.model.close()

    asyncio.run(whole())


@pytest.mark.parametrize("drops", [True, pytest.param(False, marks=pytest.mark.sweep)])
def test_the_cost_is_the_server_s_over_a_hundred_calls(tmp_path: Path, drops: bool) -> None:
    with world([answer] * 140, tmp_path, window=1_000_000) as w:
        w.context.settings = replace(w.context.settings, thinking=False)
        w.server.faults.add(Fault("status", status=529, times=3), Fault("status", status=429, times=2))
        if drops:
            for start, kind, at in (
                (31, "drop", 900),
                (51, "truncate", 1_500),
                (71, "sse_error", 6),
                (111, "no_message_stop", None),
            ):
                due = partial(begins_at, start)
                w.server.faults.add(Fault(kind, at=at, times=2, when=due))
        a_hundred_calls(w)
        account = w.server.endpoint.account
        assert len(account) == 100 + (8 if drops else 0)
        assert {sum_of(usage) > 100_000 for model, usage in account if "haiku" in model} == {True, False}
        expected = charged(w.server)
        # The server also charges what it made of a reply behind the part that arrived.
        assert w.session.cost == pytest.approx(expected, rel=0.006 if drops else 1e-9)
        assert w.session.cost <= expected * (1 + 1e-9)
        again = Session("again", w.record, fold(w.record.facts), TokenCounter.load(), w.clock.now)
        assert again.cost == pytest.approx(w.session.cost, rel=1e-9)
        w.check()


def begins_at(start: int, body: dict[str, Any]) -> bool:
    return len(body["messages"]) >= start


def sum_of(usage: dict[str, Any]) -> int:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(int(usage[name]) for name in names)


def test_summaries_rewinds_and_resumes_cost_what_they_did(tmp_path: Path) -> None:
    told: list[float] = []

    async def first(run: Any) -> None:
        await run.do("hello", "what can you do?", "/compact", "and now?")
        session, _ = run.controller.in_use
        session.rewound(session.folded.entries[-1].seq, {})
        told.extend([session.cost, session.sid])
        assert run.controller.status().priced

    async def later(run: Any) -> None:
        told.append(run.controller.in_use[0].cost)

    server = run_controller(tmp_path, first)
    run_controller(tmp_path, later, resume=told[1])
    assert told[0] == pytest.approx(charged(server), rel=1e-9) and told[2] == pytest.approx(told[0], rel=1e-9)


def test_a_model_without_a_price_is_said_to_have_none(tmp_path: Path) -> None:
    with world(["hi"], tmp_path) as w:
        w.context.settings = replace(w.context.settings, model="makeroom-offline", thinking=False)
        w.session.open(("x",), (), model="llama-local", window=1, folder="")
        assert w.run().reason == "done"
        assert (w.session.cost, w.session.unpriced) == (0.0, ["llama-local"])

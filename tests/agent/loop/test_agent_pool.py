"""Limits of agents: how many a session may start, how many work at once, and their budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.loop.agent_pool import (
    AGENT_BUDGET_SHARE,
    AGENT_BUDGET_USD,
    AGENT_TOPIC,
    MAX_AGENTS_AT_ONCE,
    MAX_AGENTS_OF_SESSION,
    Agent,
    AgentPool,
)
from tools.base import ToolError, ToolInterrupted, text_result
from tools.spawning import CallPlace, SpawnRequest, SpawnResult
from transcripts.facts import Reply
from transcripts.messages import TextBlock, ToolUseBlock

from .world import World, world


@dataclass
class Work:
    """Agents that work until they are let go; `most` is how many worked at once."""

    go: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    most: int = 0
    budgets: list[float] = field(default_factory=list)

    async def run(self, agent: Agent, request: SpawnRequest) -> SpawnResult:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        self.budgets.append(agent.budget)
        try:
            await self.go.wait()
        finally:
            self.at_once -= 1
        return SpawnResult("done", "", 1, label=agent.label)


@pytest.fixture
def w(tmp_path: Path):
    with world([], tmp_path) as made:
        yield made


def test_four_work_at_once_and_the_others_wait_for_their_turn(w: World) -> None:
    async def whole() -> None:
        work = Work()
        pool = AgentPool(w.session, None, work.run)
        tasks = [asyncio.ensure_future(pool.spawn(SpawnRequest("x", agent="general"))) for _ in range(10)]
        while len(work.budgets) < MAX_AGENTS_AT_ONCE:
            await asyncio.sleep(0)
        assert [agent.label for agent in pool.running] == [f"general #{number}" for number in range(1, 11)]
        work.go.set()
        assert len(await asyncio.gather(*tasks)) == 10 and pool.running == []
        assert work.most == MAX_AGENTS_AT_ONCE and work.budgets == [AGENT_BUDGET_USD] * 10

    asyncio.run(whole())


def test_the_twenty_first_is_refused_also_when_the_others_ran_before_a_resume(w: World) -> None:
    async def whole() -> None:
        work = Work()
        work.go.set()
        pool = AgentPool(w.session, None, work.run)
        w.session.add_metadata(AGENT_TOPIC, {"number": MAX_AGENTS_OF_SESSION - 1})
        assert (await pool.spawn(SpawnRequest("x"))).label == f"agent #{MAX_AGENTS_OF_SESSION}"
        with pytest.raises(ToolError, match="limit of 20 per session"):
            await pool.spawn(SpawnRequest("x"))

    asyncio.run(whole())


def test_each_may_spend_a_fifth_of_what_no_other_may(w: World) -> None:
    async def whole() -> None:
        work = Work()
        pool = AgentPool(w.session, 1.0, work.run)
        tasks = [asyncio.ensure_future(pool.spawn(SpawnRequest("x"))) for _ in range(3)]
        while len(work.budgets) < 3:
            await asyncio.sleep(0)
        rest = 1 - AGENT_BUDGET_SHARE
        assert work.budgets == pytest.approx([0.2, 0.2 * rest, 0.2 * rest**2])
        work.go.set()
        await asyncio.gather(*tasks)
        pool.max_cost = 0.0
        with pytest.raises(ToolError, match="budget of this run is spent"):
            await pool.spawn(SpawnRequest("x"))

    asyncio.run(whole())


def test_an_agent_that_cannot_work_keeps_the_first_line_of_the_reason(w: World) -> None:
    async def fail(agent: Agent, request: SpawnRequest) -> SpawnResult:
        raise ToolError("there is no such model\nchoose another one")

    pool = AgentPool(w.session, None, fail)
    with pytest.raises(ToolError, match="choose another one"):
        asyncio.run(pool.spawn(SpawnRequest("x", agent="general")))
    assert [agent.error for agent in pool.agents] == ["there is no such model"]
    assert pool.running == []


def background(task: str = "look around") -> SpawnRequest:
    return SpawnRequest("x", agent="explore", task=task, background=True)


async def settle(done: Callable[[], bool]) -> None:
    """Let other tasks run until something is so."""
    while not done():
        await asyncio.sleep(0)


def test_an_agent_in_the_background_reports_to_the_inbox_and_the_user(w: World) -> None:
    async def whole() -> None:
        work = Work()
        told: list[str] = []
        states: list[tuple[str, bool]] = []
        pool = AgentPool(
            w.session,
            None,
            work.run,
            tell=lambda agent: states.append((agent.label, agent.ended)),
            notify=told.append,
        )
        started = await pool.spawn(background())
        assert started.label == "explore #1" and started.text.startswith(
            "explore #1 works in the background."
        )
        await settle(lambda: work.at_once == 1)
        assert pool.in_background == pool.running == pool.agents and not pool.inbox.waiting
        work.go.set()
        await settle(lambda: not pool.running and bool(told))
        [report] = pool.inbox.waiting.values()
        assert report.text.startswith("<agent-report>\n") and report.text.endswith("</agent-report>")
        start = (
            "The agent explore #1 that you started in the background (look around) has ended. Its report:\n"
        )
        assert start in report.text and "done" in report.text
        assert told == ["explore #1 has finished; its report is sent with the next request"]
        assert states == [("explore #1", False), ("explore #1", True)]

    asyncio.run(whole())


def test_agents_in_the_background_are_interrupted_alone_or_all(w: World) -> None:
    async def whole() -> None:
        work = Work()
        pool = AgentPool(w.session, None, work.run)
        for task in ("one", "two", "three"):
            await pool.spawn(background(task))
        await settle(lambda: work.at_once == 3)
        first, _, third = pool.agents
        assert pool.interrupt(first) == 1
        await settle(lambda: len(pool.inbox.waiting) == 1)
        assert (first.error, first.stopped) == ("interrupted", True) and not third.stopped
        assert pool.interrupt() == 2
        await pool.close()
        await settle(lambda: len(pool.inbox.waiting) == 3)
        for news in pool.inbox.waiting.values():
            assert "(no report: the user interrupted it)" in news.text
        assert pool.running == [] and pool.interrupt() == 0

    asyncio.run(whole())


def test_an_agent_in_the_background_that_fails_reports_why(w: World) -> None:
    async def fail(agent: Agent, request: SpawnRequest) -> SpawnResult:
        if request.task == "crash":
            raise RuntimeError("a fault within")
        raise ToolError("there is no such model\nchoose another one")

    async def whole() -> None:
        pool = AgentPool(w.session, None, fail)
        await pool.spawn(background("fail"))
        await pool.spawn(background("crash"))
        await settle(lambda: len(pool.inbox.waiting) == 2)
        first, second = (block.text for block in pool.inbox.waiting.values())
        assert "there is no such model\nchoose another one" in first
        assert "(no report: internal error: RuntimeError('a fault within'))" in second

    asyncio.run(whole())


def test_questions_of_agents_in_the_background_wait_until_they_are_let(w: World) -> None:
    async def whole() -> None:
        work = Work()
        pool = AgentPool(w.session, None, work.run)
        for _ in range(2):
            await pool.spawn(background())
        await settle(lambda: work.at_once == 2)
        asking, quiet = pool.agents
        asking.asks = True
        assert (asking.status.doing, quiet.status.doing) == ("waiting for your answer", quiet.doing)
        let = asyncio.ensure_future(pool.let_ask())
        await settle(asking.may_ask.is_set)
        assert not let.done() and not quiet.may_ask.is_set()
        asking.answered.set()
        await let
        await pool.close()

    asyncio.run(whole())


def test_an_agent_knows_the_call_that_started_it(w: World) -> None:
    async def whole() -> None:
        work = Work()
        work.go.set()
        pool = AgentPool(w.session, None, work.run)
        blocks = (TextBlock("so"), ToolUseBlock("t9", "task", {}))
        reply = Reply(w.session.folded.last_seq + 1, 0.0, blocks, (1, 1))
        w.session._add(reply)
        for place, ident in (
            (CallPlace(reply.seq, 1), "t9"),
            (CallPlace(reply.seq, 0), ""),
            (CallPlace(999, 1), ""),
            (CallPlace(), ""),
        ):
            await pool.spawn(SpawnRequest("x", place=place))
            agent = pool.agents[-1]
            assert (agent.place, agent.call, agent.status.call) == (place, ident, ident)

    asyncio.run(whole())


def test_an_interrupted_call_names_the_session_of_its_agent(w: World) -> None:
    async def whole() -> None:
        work = Work()
        pool = AgentPool(w.session, None, work.run)
        for sid in ("s1", ""):
            call = asyncio.ensure_future(pool.spawn(SpawnRequest("x", agent="explore")))
            await settle(lambda: work.at_once == 1)
            agent = pool.agents[-1]
            agent.sid = sid
            agent.requests = 2
            call.cancel()
            with pytest.raises(ToolInterrupted if sid else asyncio.CancelledError) as raised:
                await call
            if isinstance(raised.value, ToolInterrupted):
                text = "[explore #1 was interrupted after 2 requests; its session is s1]"
                assert raised.value.result == text_result(text, error=True)
            assert (agent.error, agent.stopped, agent.ended) == ("interrupted", True, True)

    asyncio.run(whole())

"""Limits of agents: how many a session may start, how many work at once, and their budgets."""

from __future__ import annotations

import asyncio
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
from tools.base import ToolError
from tools.spawning import SpawnRequest, SpawnResult

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

"""/agents, and what other commands know of agents."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from threading import Event

from agent.loop.agent_pool import ASKING, AgentPool
from agent.loop.compaction import live_state
from tests.agent.app.agent_session import held, parts, task
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls, says
from tests.tables import each_row

from .controller_run import ControllerRun, run_controller


def test_agents_are_listed_looked_into_charged_and_their_changes_taken_back(tmp_path: Path) -> None:
    write = Reply([calls("write", file_path="new.txt", content="made by an agent\n")])
    respond = parts(go=[Reply([task("work")]), "done"], work=[write, "It is written."], thanks=["well"])

    async def work(run: ControllerRun) -> None:
        none, _, defined = (await run.do("/agents")).partition("\n\n")
        assert await run.do("/agents stop") == "no background agent is running"
        assert none == "no agent has run yet" and "  explore  " in defined and "(built in)" in defined
        await run.do("go")
        assert (await run.do("/agents")).startswith("#1  general  do work  (done; 2 requests, ")
        assert "made by an agent" in await run.do("/agents 1") and "It is written." in run.text()
        assert "> go" not in run.text()  # it began in a copy of the conversation, which is not shown again
        assert "has the number '2' (usage: /agents [N | stop [N]])" in await run.do("/agents 2")
        cost, sid = await run.do("/cost"), run.controller.in_use[0].sid
        assert " of 1 agent (see /agents)" in cost
        await run.do("thanks", "/clear", f"/resume {sid}")
        assert (await run.do("/agents")).startswith("#1  general  do work  (in an earlier run)\n")
        assert " of 1 agent (see /agents)" in await run.do("/cost")
        await run.do("/rewind 1 both yes")
        assert not (tmp_path / "new.txt").exists()

    run_controller(tmp_path, work, respond=respond)


async def until(run: ControllerRun, holds: Callable[[AgentPool], bool]) -> AgentPool:
    """The agents of the session, once that holds."""
    pool = run.controller.in_use[1].agents
    assert pool is not None
    while not holds(pool):
        await asyncio.sleep(0.001)
    return pool


def test_the_report_of_an_agent_in_the_background_comes_with_the_next_prompt(tmp_path: Path) -> None:
    beside = Reply([task("look", "explore", run_in_background=True)])
    over = Event()  # the turn: otherwise the agent may end within it and report there
    respond = parts(go=[beside, "it looks"], look=["It is Title."], thanks=["well"], again=["well"])

    async def work(run: ControllerRun) -> None:
        assert "its report goes with the next request" not in await run.do("go")
        over.set()
        await until(run, lambda pool: not pool.running)
        assert run.controller.status().agents == 0
        await run.do("thanks")
        (sent,) = [body["messages"][-1]["content"] for body in run.server.requests if "thanks" in str(body)]
        assert "explore #1 that you started in the background (do look) has ended" in str(sent[:-1])
        assert "It is Title." in str(sent[:-1])
        sid = run.controller.in_use[0].sid
        await run.do("/clear", f"/resume {sid}")
        assert not run.controller.in_use[1].tool_context.inbox.waiting  # it was delivered
        await run.do("/rewind 2 conversation", "again")  # the prompt that delivered it
        assert str(run.server.requests[-1]["messages"]).count("(do look) has ended") == 1

    run_controller(tmp_path, work, respond=held(respond, "look", over))


CUT = Reply([says("A part.")], "max_tokens")


@each_row(
    ("said", "delivered"),
    [
        ("It is Title.", "It is Title.\\n[it ended in an earlier run"),
        # Where it is cut depends on whether tokens are counted or estimated so far.
        ("A title. " * 3_000, "\\n[it ended in an earlier run of makeroom; truncated: recall "),
        (CUT, "(no report: it ended before it could report. Its last message:)\\nA part.\\n[it ended in an"),
    ],
)
def test_an_undelivered_report_is_delivered_after_a_resume(
    tmp_path: Path, said: str | Reply, delivered: str
) -> None:
    beside = Reply([task("look", "explore", run_in_background=True)])
    over = Event()
    respond = parts(go=[beside, "it looks"], look=[said], again=["well"], Your=[said])

    async def work(run: ControllerRun) -> None:
        await run.do("go")
        over.set()
        await until(run, lambda pool: not pool.running)
        sid = run.controller.in_use[0].sid
        await run.do("/clear", f"/resume {sid}", "again")
        sent = str(run.server.requests[-1]["messages"][-1])
        assert "explore #1 that you started" in sent and delivered in sent

    run_controller(tmp_path, work, respond=held(respond, "look", over))


def test_a_report_whose_prompt_leaves_the_conversation_is_reported_with_the_next_one(tmp_path: Path) -> None:
    beside = Reply([task("look", "explore", run_in_background=True)])
    over = Event()
    more = {word: ["well"] for word in ("first", "stopped", "second", "third", "last")}
    respond = parts(go=[beside, "it looks"], look=["It is Title."], **more)
    stall = Fault("stall", when=lambda body: "stopped" in str(body["messages"][-1]))

    async def work(run: ControllerRun) -> None:
        await run.do("first", "go")
        over.set()
        await until(run, lambda pool: not pool.running)
        turn = asyncio.ensure_future(run.controller.prompt("stopped"))
        while "stopped" not in str(run.server.requests[-1]["messages"][-1]):
            await asyncio.sleep(0.001)
        turn.cancel()
        assert (await turn).reason == "interrupted"
        await run.do("second", "/rewind 3 conversation", "third")
        for body in run.server.requests[-3:]:
            assert "explore #1 that you started in the background" in str(body["messages"][-1])
        await run.do("/rewind 2 conversation", "last")
        assert "explore #1" not in str(run.server.requests[-1])  # the model knows of no such agent any more

    run_controller(tmp_path, work, respond=held(respond, "look", over), faults=(stall,), verified=False)


def test_an_agent_that_ended_before_it_could_report_is_reported_as_such_after_a_resume(
    tmp_path: Path,
) -> None:
    beside = Reply([task("look", "explore", run_in_background=True)])
    begun = Reply([says("I search first."), calls("glob", pattern="*")])
    respond = parts(go=[beside, "it looks"], look=[begun, "never"], again=["well"])
    stall = Fault("stall", when=lambda body: "look" in str(body["messages"][0]) and len(body["messages"]) > 1)

    async def work(run: ControllerRun) -> None:
        await run.do("go")
        await until(run, lambda pool: all(agent.requests for agent in pool.agents))
        await run.do("again: has The agent explore #1 that you started in the background (do look) ended?")
        told = await run.do("/clear", f"/resume {run.controller.in_use[0].sid}")
        assert "explore #1 (do look) ended before it could report, in an earlier run" in told
        await run.do("again")
        sent = str(run.server.requests[-1]["messages"][-1])
        assert (
            "Its report:\\n(no report: it ended before it could report. Its last message:)\\nI search" in sent
        )
        assert "[it ended in an earlier run of makeroom; its session is" in sent
        await run.do("/rewind 2 conversation", "again")
        assert "no report" in str(run.server.requests[-1]["messages"][-1])
        await run.do("/rewind 1 conversation", "again")
        assert "no report" not in str(run.server.requests[-1])  # its start was rewound

    run_controller(tmp_path, work, respond=respond, faults=(stall,), verified=False)


def test_the_question_of_an_agent_in_the_background_waits_for_the_user(tmp_path: Path) -> None:
    write = Reply([calls("write", file_path="new.txt", content="x")])
    beside = Reply([task("work", run_in_background=True)])
    again = Reply([calls("write", file_path="newer.txt", content="x")])
    respond = parts(go=[beside, "it works"], work=[write, again, "written"])

    async def work(run: ControllerRun) -> None:
        await run.do("go")
        await until(run, lambda pool: any(agent.asks for agent in pool.agents))
        assert run.controller.status().asks == "general #1" and not (tmp_path / "new.txt").exists()
        assert "general #1 asks for permission to use write; answer with /agents" in run.text()
        live = list(live_state(*run.controller.in_use))
        assert (
            "agent general #1 is running in the background: do work (its report arrives automatically)"
            in live
        )
        assert ASKING in await run.do("/agents")
        written = (tmp_path / "new.txt").exists
        await until(run, lambda pool: written() and any(agent.asks for agent in pool.agents))
        assert not (tmp_path / "newer.txt").exists()
        assert ASKING in await run.do("/agents")
        assert run.controller.status().asks == ""
        await until(run, lambda pool: not pool.running)
        assert (tmp_path / "newer.txt").exists()

    run_controller(tmp_path, work, respond=respond)


def test_agents_in_the_background_end_when_they_are_stopped_a_turn_is_or_the_session(tmp_path: Path) -> None:
    beside = Reply([task("work one", run_in_background=True), task("work two", run_in_background=True)])
    respond = parts(go=[beside, "they work"], work=["never"], more=["never"])
    held = Fault("stall", times=None, when=lambda body: "work" in str(body["messages"][0]))
    held_turn = Fault("stall", when=lambda body: "more" in str(body["messages"][-1]))

    async def work(run: ControllerRun) -> None:
        await run.do("go")
        assert await asyncio.to_thread(run.server.arrived, 4)  # two requests of the turn, one of each agent
        pool = run.controller.in_use[1].agents
        assert pool is not None and [agent.error for agent in pool.agents] == ["", ""], "both are at work"
        assert await run.do("/agents stop 1") == "stopped 1 background agent"
        await until(run, lambda pool: len(pool.running) == 1)
        assert "#1  general  do work one  (interrupted; " in await run.do("/agents")
        turn = asyncio.ensure_future(run.controller.prompt("more"))
        assert await asyncio.to_thread(run.server.arrived, 5)
        turn.cancel()
        assert (await turn).reason == "interrupted"
        await until(run, lambda pool: not pool.running)
        assert len(run.controller.in_use[1].tool_context.inbox.waiting) == 2  # of the first as well

    run_controller(tmp_path, work, respond=respond, faults=(held, held_turn), verified=False)

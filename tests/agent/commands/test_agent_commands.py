"""/agents, and what other commands know of agents."""

from pathlib import Path

from tests.agent.app.agent_session import parts, task
from tests.strict_api.reply import Reply, calls

from .controller_run import ControllerRun, run_controller


def test_agents_are_listed_looked_into_charged_and_their_changes_taken_back(tmp_path: Path) -> None:
    write = Reply([calls("write", file_path="new.txt", content="made by an agent\n")])
    respond = parts(go=[Reply([task("work")]), "done"], work=[write, "It is written."], thanks=["well"])

    async def work(run: ControllerRun) -> None:
        assert await run.do("/agents") == "no agent was started so far"
        await run.do("go")
        assert (await run.do("/agents")).startswith("#1  general  do work  (done; 2 requests, ")
        assert "made by an agent" in await run.do("/agents 1") and "It is written." in run.text()
        assert "its number in the list" in await run.do("/agents 2")
        cost, sid = await run.do("/cost"), run.controller.in_use[0].sid
        assert " by 1 agent: /agents" in cost
        await run.do("thanks", "/clear", f"/resume {sid}")
        assert await run.do("/agents") == "#1  general  do work  (before this run)"
        assert " by 1 agent: /agents" in await run.do("/cost")
        await run.do("/rewind 1 both yes")
        assert not (tmp_path / "new.txt").exists()

    run_controller(tmp_path, work, respond=respond)

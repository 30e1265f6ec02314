"""Agents: what they are given, what they report, what they may do and spend, and how they are linked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app.agent_rights import REFUSED_BEFORE
from agent.app.nested_session import LAST_WORD, MAX_REPORT_TOKENS
from agent.cli.sessions_command import in_tree_order
from agent.events import AgentProgress
from agent.extensions.agents.builtin import EXPLORE
from agent.extensions.mcp.tool import mcp_tool
from agent.ports import Allow, Deny
from agent.session.session import Session
from tests.agent.loop.world import Memory
from tests.narrowing import narrow
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls, says
from tests.strict_api.server import Server
from tools import read
from tools.processes.runner import CommandRunner
from transcripts.facts import Closed, Opened, Result, Started
from transcripts.folding import fold
from transcripts.tool_kinds import visible_definition

from .agent_session import AgentRun, agent_run, parts, run_agents, task

READ = Reply((calls("read", file_path="README.md"),))


@pytest.fixture(autouse=True)
def project(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Title\n")
    return tmp_path


def test_a_report_is_the_result_of_the_call_and_the_record_is_linked_with_it(project: Path) -> None:
    run = run_agents(
        project, parts(go=[Reply([task("look", "explore")]), "done"], look=[READ, "It is Title."])
    )
    (text,), ((opened, *_),) = run.texts(), run.nested()
    assert text.startswith("It is Title.\n[explore #1: 2 requests, ")
    assert isinstance(opened, Opened) and opened.parent == run.session.sid
    started = next(fact for fact in run.session.folded.facts if isinstance(fact, Started))
    assert opened.about["call"] == f"{started.of}.{started.block}"
    assert "Title" not in str(run.server.requests[-1]["messages"][:-1])  # what it read is not in the session
    listed = in_tree_order(run.services.repository.records.sessions())
    assert [(depth, one.agent) for depth, one in listed] == [(0, ""), (1, "explore #1")]
    newest = run.services.repository.records.continuable()[0].path
    assert newest is not None and newest.stem == run.session.sid


def test_explore_reads_and_nothing_else_and_no_agent_starts_agents(project: Path) -> None:
    write = Reply([calls("bash", command="echo x > new.txt"), calls("write", file_path="a", content="x")])
    model = parts(
        go=[Reply([task("look", "explore"), task("work")]), "done"],
        look=[write, Reply([task("deeper")]), "nothing found"],
        work=[Reply([task("deeper")]), "done alone"],
    )
    run = run_agents(project, model, permission_mode="bypassPermissions")
    offered = {len(body["tools"]): [tool["name"] for tool in body["tools"]] for body in run.server.requests}
    assert offered[6] == ["bash", "read", "grep", "glob", "recall", "web_fetch"]
    assert all("task" not in names for count, names in offered.items() if count < max(offered))
    assert not (project / "new.txt").exists() and not (project / "a").exists()
    told = str(run.nested())
    assert "plan mode is on" in told and "There is no tool named 'write'" in told
    assert told.count("There is no tool named 'task'") == 2


def test_a_long_report_is_cut_and_recall_returns_it_in_full(project: Path) -> None:
    report = "\n".join(f"line {number} of what was found" for number in range(900))

    async def recall(run: AgentRun) -> None:
        ident = run.texts()[0].rsplit("recall ", 1)[1].split()[0]
        assert run.context.tool_context.lookup is not None
        assert run.context.tool_context.lookup().original(ident) == report

    model = parts(go=[Reply([task("look")]), "done"], look=[report])
    run = run_agents(project, model, then=recall)
    (shown,) = run.texts()
    assert shown.startswith("line 0 of") and "truncated" in shown
    assert run.services.counter.text(shown) < MAX_REPORT_TOKENS + 100


def test_a_report_that_was_cut_off_and_continued_is_joined(project: Path) -> None:
    first = Reply([says("The first half, ")], "max_tokens")
    model = parts(go=[Reply([task("look")]), "done"], look=[first], Continue=["the second half."])
    run = run_agents(project, model)
    assert run.texts()[0].startswith("The first half, the second half.\n[")


def test_the_last_request_that_an_agent_may_send_is_for_its_report(project: Path) -> None:
    again: list[Reply | str] = [Reply([task("look", "explore")]), "done"]
    model = parts(go=["well"], again=again, look=[READ, READ], This=["all I found"])

    async def with_few_requests(run: AgentRun) -> None:
        run.services.agents = {"explore": replace(EXPLORE, max_turns=3)}
        await run.turn("again")

    run = run_agents(project, model, then=with_few_requests)
    assert LAST_WORD in str(run.server.requests[-2]["messages"][-1])
    (text,) = run.texts()
    assert text.startswith("all I found\n[explore #1 ended early: stopped after 3 requests, its limit")


def test_a_report_reaches_the_model_without_what_only_a_terminal_obeys(project: Path) -> None:
    words = "\x1b[31mred\x1b[0m\x07 \u202eb"
    run = run_agents(project, parts(go=[Reply([task("look")]), "done"], look=[words]))
    assert run.texts()[0].startswith("red b\n")


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            Reply([says("no")], "refusal"),
            "the model refused to answer this. Rephrase its task, or do it yourself.",
        ),
        (
            Reply([says("a part")], "max_tokens"),
            "the reply was cut off, and its continuation was the same text. Give a new agent a smaller task.",
        ),
    ],
)
def test_why_an_agent_ended_early_is_reported_with_what_the_model_can_do(
    project: Path, reply: Reply, told: str
) -> None:
    run = run_agents(project, parts(go=[Reply([task("look")]), "done"], look=[reply], reply=[reply]))
    assert f"[general #1 ended early: {told}]\n" in run.texts()[0]


def test_questions_are_asked_by_name_and_a_refusal_holds_for_all_agents_of_the_turn(project: Path) -> None:
    remove = Reply([calls("bash", command="rm README.md")])
    make = Reply([calls("bash", command="echo >> one")])
    model = parts(
        go=[Reply([task("first"), task("second")]), remove, Reply([task("third")]), "done"],
        first=[make, "made"],
        second=[make, "not made"],
        third=[remove, make, "neither"],
    )
    answers = (Allow("once"), Deny("no"), Deny("keep it"))
    run = run_agents(project, model, *answers)
    askers = [question.asker for question in run.approver.questions]
    # No one asked for the third.
    assert sorted(askers) == ["", "general #1", "general #2"] and len(askers) == 3
    results = [fact for fact in run.session.folded.facts if isinstance(fact, Result)]
    ((asked, words),) = (pair for result in results[:2] for pair in result.remarks)
    assert asked in ("general #1: bash echo >> one", "general #2: bash echo >> one") and words == "no"
    assert results[2].remarks == (("", "keep it"),) and results[3].remarks == ()
    refused = [fact for fact in run.nested()[2] if isinstance(fact, Result)]
    assert len(refused) == 2 and all(REFUSED_BEFORE in str(fact) for fact in refused)
    assert (project / "README.md").exists()
    assert (project / "one").read_text() == "\n"


def test_in_plan_mode_the_write_of_an_agent_is_refused(project: Path) -> None:
    write = Reply([calls("write", file_path="a", content="x")])
    model = parts(go=[Reply([task("work")]), "done"], work=[write, "cannot"])
    run = run_agents(project, model, permission_mode="plan")
    assert not (project / "a").exists() and "plan mode is on" in str(run.nested()[0])


def test_an_agent_has_a_current_directory_of_its_own(project: Path) -> None:
    (project / "sub").mkdir()
    where = Reply([calls("bash", command="pwd")])
    model = parts(
        go=[Reply([task("work")]), where, "done"],
        work=[Reply([calls("bash", command="cd sub")]), where, "moved"],
    )
    run = run_agents(project, model, permission_mode="bypassPermissions")
    assert run.texts()[1].strip() == str(project) and f"{project}/sub" in str(run.nested()[0])


def test_its_changes_are_taken_back_with_the_session_s_also_of_several_at_once(project: Path) -> None:
    model = parts(
        go=[Reply([task("first"), task("second")]), "done"],
        first=[Reply([calls("bash", command="echo 1 > one; echo 1 >> README.md")]), "made"],
        second=[Reply([calls("write", file_path="two", content="2\n")]), "made"],
    )
    run = run_agents(project, model, permission_mode="bypassPermissions")
    assert run.context.checkpoints is not None
    changes = {change.path: change.seq for change in run.context.checkpoints.log.changes}
    assert changes.keys() == {"one", "two", "README.md"}
    prompts = [entry.seq for entry in run.session.folded.entries]
    assert all(prompts[0] < seq < prompts[-1] for seq in changes.values())
    results = [fact for fact in run.session.folded.facts if isinstance(fact, Result)]
    assert set().union(*(result.about["changed"] for result in results)) == changes.keys()


def test_its_cost_is_the_session_s_at_once_and_after_a_resume(project: Path) -> None:
    costs: list[float] = []
    run = run_agents(project, parts(go=[Reply([task("look")]), "done"], look=[READ, READ, "It is Title."]))
    for event in run.events:
        if isinstance(event, AgentProgress):
            costs.append(event.agent.dollars)
    assert costs == sorted(costs) and costs[-1] > 0
    nested = Session("nested", Memory(), fold(run.nested()[0]), run.services.counter, lambda: 0.0)
    again = Session("again", Memory(), fold(run.session.folded.facts), run.services.counter, lambda: 0.0)
    assert again.cost == run.session.cost and nested.cost == pytest.approx(costs[-1])
    usage = sum(fact.usage.output for fact in run.session.folded.facts if hasattr(fact, "usage"))
    assert run.session.spent.output == usage + nested.spent.output


def test_an_interruption_ends_all_agents_and_leaves_whole_records(project: Path) -> None:
    async def whole(server: Server) -> None:
        async with agent_run(project, server) as run:
            turn = asyncio.ensure_future(run.turn())
            assert await asyncio.to_thread(server.arrived, 5)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            assert run.context.agents is not None and run.context.agents.running == []
            assert len(run.nested()) == 4
            assert all(isinstance(facts[-1], Closed) for facts in run.nested())
            assert len(run.results()) == 4 and all(result.error for result in run.results())
            assert all("was interrupted after 0 requests; its session is" in text for text in run.texts())

    model = parts(go=[Reply([task(f"look {at}") for at in "abcd"])], look=["never said"])
    with Server(model) as server:
        server.faults.add(Fault("stall", times=None, when=lambda body: "look" in str(body["messages"][0])))
        asyncio.run(whole(server))


def test_escape_at_the_question_of_an_agent_ends_the_turn_and_the_others(project: Path) -> None:
    model = parts(
        go=[Reply([task("first"), task("second")])],
        first=[Reply([calls("bash", command="touch one")])],
        second=["never said"],
    )

    async def whole(server: Server) -> None:
        async with agent_run(project, server, Deny(stop=True)) as run:
            assert (await run.turn()).reason == "denied"
            assert all(isinstance(facts[-1], Closed) for facts in run.nested())

    with Server(model) as server:
        server.faults.add(Fault("stall", when=lambda body: "second" in str(body["messages"][0])))
        asyncio.run(whole(server))


def test_the_model_gets_the_same_tool_definitions_with_and_without_agents(project: Path) -> None:
    run = run_agents(project, parts(go=[Reply([task("look")]), "done"], look=["nothing"]))
    tools = [visible_definition(each) for each in run.context.settings.tools]
    assert tools == run.server.requests[0]["tools"] == run.server.requests[-1]["tools"]


def test_an_agent_works_as_its_definition_says(project: Path) -> None:
    given = {
        "reviewer": {
            "description": "reviews changes",
            "prompt": "You review. Be brief.",
            "tools": ["Read", "LS", "WebFetch"],
            "model": "haiku",
            "effort": "low",
        }
    }
    model = parts(go=[Reply([task("review", "Reviewer")]), "done"], review=["fine"])
    run = run_agents(project, model, agents=json.dumps(given))
    first, body, last = run.server.requests
    assert "- reviewer: reviews changes" in first["system"][-2]["text"] and first["system"] == last["system"]
    assert body["system"][0]["text"].startswith("You review. Be brief.\n\n# Your report")
    assert "# Agents" not in str(body["system"])
    assert [tool["name"] for tool in body["tools"]] == ["read", "web_fetch"]
    assert "haiku" in body["model"] and "haiku" not in last["model"]
    assert {"claude-haiku-5-5", "claude-sonnet-5-5"} == set(run.session.spending)


def test_an_agent_uses_no_tool_of_a_server_that_its_definition_excludes(project: Path) -> None:
    given = '{"limited": {"description": "d", "prompt": "p", "disallowedTools": ["mcp__calc__add"]}}'
    add = Reply([calls("mcp", action="call", server="calc", tool="add")])

    async def resolve(name: str, given: Any) -> Any:
        return replace(read.TOOL, name="mcp__calc__add"), given

    async def with_server(run: AgentRun) -> None:
        mcp = replace(mcp_tool([]), resolve=resolve)
        run.context.tools = {**run.context.tools, "mcp": mcp}
        await run.turn("again")

    model = parts(go=["well"], again=[Reply([task("look", "limited")]), "done"], look=[add, "not added"])
    run = run_agents(project, model, then=with_server, agents=given)
    assert "You may not use mcp__calc__add." in str(run.nested()[0])


def test_an_agent_of_whose_tools_none_is_here_is_not_started(project: Path) -> None:
    given = '{"browser": {"description": "d", "prompt": "p", "tools": ["WebSearch", "BashOutput"]}}'
    run = run_agents(project, parts(go=[Reply([task("browse", "browser")]), "done"]), agents=given)
    assert run.texts() == [
        "Cannot start agent browser: none of its tools is available (WebSearch, BashOutput)."
    ]


def test_an_agent_that_there_is_not_is_refused_with_the_names_of_those_that_there_are(project: Path) -> None:
    run = run_agents(project, parts(go=[Reply([task("review", "Plan")]), "done"]))
    assert run.texts() == ["Unknown agent: 'Plan'.\nAvailable agents: explore, general, fork."]
    assert run.nested() == []


def test_an_agent_without_a_task_is_not_started(project: Path) -> None:
    empty = calls("task", description="look", prompt=" \u200b\n")
    run = run_agents(project, parts(go=[Reply([empty]), "done"]))
    assert run.texts() == ["The prompt is empty.\nGive the agent its task as `prompt`."]
    assert run.nested() == []


def test_a_background_command_of_an_agent_ends_when_it_is_interrupted_and_is_otherwise_reported(
    project: Path,
) -> None:
    start = Reply([calls("bash", command="sleep 300", run_in_background=True)])
    model = parts(
        go=[Reply([task("work")]), "done"],
        work=[start, "started"],
        again=[Reply([task("held")])],
        held=[start],
    )

    async def whole(server: Server) -> None:
        async with agent_run(project, server, permission_mode="bypassPermissions") as run:
            await run.turn()
            left = "[still running in the background, started by this agent: b1 (sleep 300)]"
            assert left in run.texts()[0]
            server.faults.add(
                Fault("stall", when=lambda body: "Started in the background" in str(body["messages"]))
            )
            turn = asyncio.ensure_future(run.turn("again"))
            runner = narrow(run.context.tool_context.jobs, CommandRunner)
            while len(runner.running) < 2:
                await asyncio.sleep(0.001)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            await runner.jobs["b2"].has_ended.wait()
            assert [job.id for job in runner.running] == ["b1"]

    with Server(model) as server:
        asyncio.run(whole(server))

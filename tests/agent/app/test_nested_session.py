"""A tool may run a nested session: its record, limits, permissions and cost belong to the calling one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.app.nested_session import LAST_WORD
from agent.loop import agent_pool
from agent.loop.turn import run_turn
from agent.ports import HookAnswer, HookEvent, Hooks
from agent.session.session import Session
from tests.agent.loop.world import Memory
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from tools.base import Tool, ToolCall, no_access, text_result
from tools.parameters import Arguments
from tools.spawning import SpawnRequest, SpawnResult
from transcripts.facts import Closed, Opened
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.messages import TextBlock

from .agent_session import agent_run


class Task(Arguments):
    prompt: str


def task_tool(request: Callable[[str], SpawnRequest], results: list[SpawnResult]) -> Tool:
    """A tool that hands its prompt to a nested session; `results` gets how that ended."""

    async def run(arguments: Task, call: ToolCall) -> Any:
        assert call.context.spawn is not None
        results.append(await call.context.spawn(request(arguments.prompt)))
        return text_result(results[-1].text, error=bool(results[-1].error))

    return Tool("task", "Runs a task.", Task, "other", lambda arguments: "", no_access, run)


@asynccontextmanager
async def calling_session(folder: Path, server: Server, tool: Tool, **options: Any) -> Any:
    """A session with the task tool beside the built-in ones, at home in `folder`."""
    async with agent_run(folder, server, tool=tool, **options) as made:
        yield made.session, made.context, made.services


def run(
    folder: Path,
    steps: Sequence[Any],
    request: Callable[[str], SpawnRequest] = SpawnRequest,
    hooks: Hooks | None = None,
    **options: Any,
) -> tuple[Any, list[SpawnResult], Server, Any]:
    """The calling session after its turn on "go", how its nested ones ended, the server and the services."""
    results: list[SpawnResult] = []
    (folder / "README.md").write_text("# Title\n")

    async def whole(server: Server) -> tuple[Any, Any]:
        async with calling_session(folder, server, task_tool(request, results), **options) as made:
            session, context, services = made
            context.hooks = hooks
            session.user((TextBlock("go"),))
            await run_turn(session, context, lambda event: None)
            return session, services

    with Server(ScriptedModel(steps)) as server:
        session, services = asyncio.run(whole(server))
    assert server.refused == []
    return session, results, server, services


TASK = Reply((calls("task", prompt="what is the title?"),))
READ = Reply((calls("read", file_path="README.md"),))


def test_a_nested_session_answers_a_call_and_has_a_record_of_its_own(tmp_path: Path) -> None:
    session, (result,), server, services = run(tmp_path, [TASK, READ, "It is Title.", "done"])
    assert (result.text, result.turns, result.error) == ("It is Title.", 2, "")
    facts = read_transcript(services.repository.home / ".transcripts" / f"{result.session}.jsonl").facts
    opened = next(fact for fact in facts if isinstance(fact, Opened))
    assert opened.parent == session.sid
    assert [len(body["messages"]) for body in server.requests] == [1, 1, 3, 3]
    assert "what is the title?" in str(server.requests[1]["messages"])


def test_its_cost_is_the_calling_session_s_also_after_a_resume(tmp_path: Path) -> None:
    session, _, _, services = run(tmp_path, [TASK, READ, "It is Title.", "done"])
    own = [fact.usage for fact in session.folded.facts if hasattr(fact, "usage")]
    assert session.spent.output > sum(usage.output for usage in own)
    again = Session("again", Memory(), fold(session.folded.facts), services.counter, lambda: 0.0)
    assert again.spending == session.spending and again.cost == session.cost > 0


def test_it_is_offered_the_tools_and_informed_of_the_request(tmp_path: Path) -> None:
    def request(prompt: str) -> SpawnRequest:
        return SpawnRequest(prompt, tools=("read",), system="Answer in one word.")

    _, _, server, _ = run(tmp_path, [TASK, "Title", "done"], request)
    assert [tool["name"] for tool in server.requests[1]["tools"]] == ["read"]
    assert server.requests[1]["system"][-1]["text"] == "Answer in one word."
    assert len(server.requests[0]["tools"]) > 1


def test_a_tool_that_is_not_there_cannot_be_offered(tmp_path: Path) -> None:
    session, results, _, services = run(
        tmp_path, [TASK, "done"], lambda prompt: SpawnRequest(prompt, tools=("dig", "read"))
    )
    assert results == []
    assert "Cannot offer unknown tool 'dig'." in str(session.folded.facts)
    assert len(list((services.repository.home / ".transcripts").glob("*.jsonl"))) == 1


def test_its_turns_are_limited(tmp_path: Path) -> None:
    _, (result,), _, _ = run(tmp_path, [TASK, READ, "done"], lambda prompt: SpawnRequest(prompt, max_turns=1))
    assert result.turns == 1 and result.error.startswith("stopped after 1 request")


def test_it_spends_no_more_than_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_pool, "AGENT_BUDGET_USD", 1e-6)
    _, (result,), server, _ = run(tmp_path, [TASK, READ, "It is Title.", "done"])
    assert result.error.startswith("its share of the budget is spent ($0.00") and len(server.requests) == 3


def test_none_is_started_when_the_budget_is_spent(tmp_path: Path) -> None:
    session, results, server, _ = run(tmp_path, [TASK, READ, "It is Title.", "done"], max_budget_usd=1e-9)
    assert results == [] and len(server.requests) == 1
    assert "Cannot start an agent: the budget" in str(session.folded.facts)


def test_it_cannot_start_sessions_and_sees_files_with_its_own_eyes(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def look(arguments: Task, call: ToolCall) -> Any:
        seen.append((call.context.spawn, dict(call.context.seen), call.context.jobs))
        return text_result("looked")

    async def whole(server: Server) -> None:
        results: list[SpawnResult] = []
        async with calling_session(tmp_path, server, task_tool(SpawnRequest, results)) as made:
            session, context, _ = made
            context.tools["look"] = Tool("look", "Looks.", Task, "other", lambda a: "", no_access, look)
            context.tool_context.seen["/x"] = object()
            session.user((TextBlock("go"),))
            await run_turn(session, context, lambda event: None)
            assert seen == [(None, {}, context.tool_context.jobs)]

    with Server(ScriptedModel([TASK, Reply((calls("look", prompt=""),)), "it is", "done"])) as server:
        asyncio.run(whole(server))


def test_its_changes_are_the_calling_session_s_to_take_back(tmp_path: Path) -> None:
    write = Reply((calls("write", file_path="new.txt", content="x\n"),))
    session, _, _, services = run(
        tmp_path, [TASK, write, "written", "done"], permission_mode="bypassPermissions"
    )
    assert (tmp_path / "new.txt").read_text() == "x\n"
    changes = services.repository.checkpoints(session).log.changes
    assert [change.path for change in changes] == ["new.txt"]


def test_an_interrupted_call_ends_it_with_a_sound_record(tmp_path: Path) -> None:
    async def whole(server: Server) -> Path:
        results: list[SpawnResult] = []
        async with calling_session(tmp_path, server, task_tool(SpawnRequest, results)) as made:
            session, context, services = made
            session.user((TextBlock("go"),))
            turn = asyncio.ensure_future(run_turn(session, context, lambda event: None))
            assert await asyncio.to_thread(server.arrived, 2)
            turn.cancel()
            with pytest.raises(asyncio.CancelledError):
                await turn
            assert results == []
            home: Path = services.repository.home / ".transcripts"
            return next(path for path in home.glob("*.jsonl") if path.stem != session.sid)

    with Server(ScriptedModel([TASK, "never said"])) as server:
        server.faults.add(Fault("stall", when=lambda body: "what is the title" in str(body["messages"][0])))
        path = asyncio.run(whole(server))
    record = read_transcript(path)
    assert not record.damaged and isinstance(record.facts[-1], Closed)


def test_a_nested_session_is_found_by_its_id_alone(tmp_path: Path) -> None:
    session, (result,), _, services = run(tmp_path, [TASK, "It is Title.", "done"])
    repository = services.repository
    assert [one.sid for one in repository.records.continuable()] == [session.sid]
    assert repository.newest(scripted=False).stem == session.sid
    assert repository.named(result.session).stem == result.session


class NotYet:
    """A hook that makes an agent continue once; keeps what it is told of each end."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    async def run(self, event: HookEvent, about: Any) -> HookAnswer:
        if event is not HookEvent.SUBAGENT_STOP:
            return HookAnswer()
        self.told.append(about)
        return HookAnswer() if about["again"] else HookAnswer(veto="name the file")


def test_a_hook_makes_an_agent_continue_and_is_informed_whose_end_it_is(tmp_path: Path) -> None:
    hook = NotYet()
    steps = [TASK, "It is Title.", "It is Title, in README.md.", "done"]
    _, results, server, _ = run(tmp_path, steps, hooks=hook)
    told = hook.told
    assert [(result.text, result.turns) for result in results] == [("It is Title, in README.md.", 2)]
    assert [about["answer"] for about in told] == ["It is Title.", "It is Title, in README.md."]
    assert told[0]["agent_id"] == results[0].session
    assert "name the file" in str(server.requests[2]["messages"][-1])


def test_what_a_hook_makes_an_agent_do_counts_towards_its_limit(tmp_path: Path) -> None:
    steps = [TASK, "It is Title.", READ, "It is Title, in README.md.", "done"]
    _, (result,), server, _ = run(tmp_path, steps, partial(SpawnRequest, max_turns=3), hooks=NotYet())
    assert LAST_WORD in str(server.requests[3]["messages"][-1]) and result.turns == 3

"""The servers of a run: offered tools, notices to a session, and limits of an unapproved project."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.app.composition import make_services
from agent.app.config import Config
from agent.app.options import Options
from agent.app.services import Services
from agent.app.session_factory import SessionFactory, end_session
from agent.app.setup import RunSetup
from agent.cli.mcp_command import run_mcp
from agent.events import Event, Notice, ToolCallStarted
from agent.extensions.mcp import NOT_APPROVED, McpServers, ServerFailed, server_item, user_server_items
from agent.extensions.mcp.source import MAX_REPORTED_QUESTIONS
from agent.loop.compaction import live_state
from agent.loop.context import TurnContext
from agent.session.session import Session, record_opening
from tests.agent.loop.world import Answers
from transcripts.messages import TextBlock

from .test_server import ENVIRON, SCRIPT, script


def run_in(
    folder: Path,
    act: Callable[[Services, McpServers], object],
    events: list[Event],
    environ: Mapping[str, str] = ENVIRON,
    **options: object,
) -> None:
    """Warm the services of a run in the directory, act, and close them."""
    home = folder / "home"
    config = Config(user_dir=home / "config", cache_dir=home / "cache", state_dir=home / "state")

    async def run() -> None:
        setup = RunSetup(Options(offline=True, **options), config, folder, environ)  # type: ignore[arg-type]
        services = make_services(setup, events.append, Answers())
        assert services.mcp is not None
        try:
            await services.settle()
            await services.warm()
            done = act(services, services.mcp)
            if asyncio.iscoroutine(done):
                await done
        finally:
            await services.close()

    asyncio.run(run())


def configure(path: Path, **entries: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": entries}))


def tools_of(context: TurnContext) -> list[str]:
    return [tool["name"] for tool in context.settings.tools if tool["name"].startswith("mcp")]


def opened(session: Session, context: TurnContext, services: Services) -> None:
    record_opening(session, context.settings, 1, str(services.setup.folder), lambda event: None)


def test_a_late_server_is_a_note_and_its_tools_are_direct_once_history_was_replaced(tmp_path: Path) -> None:
    configure(
        tmp_path / "home" / "config" / "mcp.json", late=script(alwaysLoad=True), soon=script(alwaysLoad=True)
    )

    async def act(services: Services, mcp: McpServers) -> None:
        late = mcp.named("late")
        assert late is not None and all(server.state == "connected" for server in mcp.servers)
        await late.toggle(False)
        late.switched_on = True  # as one that is not connected yet
        mcp.forget_tools()
        services.fix_tools()
        session, context = await SessionFactory(services).first()
        before = tools_of(context)
        assert before[0] == "mcp" and {name.split("__")[1] for name in before[1:]} == {"soon"}
        inbox = context.tool_context.inbox
        opening = "<mcp-server>\n"
        assert [news.text.split(" connected")[0] for news in inbox.take()] == [f"{opening}MCP server soon"]
        opened(session, context, services)
        await late.reconnect()
        (note,) = inbox.take()
        assert note.text.startswith(f"{opening}MCP server late connected: echo, env, ")
        assert [line for line in live_state(session, context) if line.startswith("MCP server late")]
        services.after_turn()
        assert tools_of(context) == before and [*context.tools][-1] == before[-1]
        session.user((TextBlock("hello"),))
        session.compacted("summary", "manual", (), {})
        services.after_turn()
        assert {name.split("__")[1] for name in tools_of(context)[1:]} == {"late", "soon"}
        opened(session, context, services)
        services.after_turn()
        assert session.folded.opened is not None and len(session.folded.opened.tools) == len(context.tools)
        await end_session(session, context)

    run_in(tmp_path, act, [])


def test_the_directory_of_a_server_is_in_the_question_and_must_exist(tmp_path: Path) -> None:
    entry = script(cwd="${HOME}/none")
    configure(tmp_path / "home/config/mcp.json", far=entry)
    configure(tmp_path / ".mcp.json", odd=script(cwd=["x"]))
    assert server_item("far", entry, tmp_path, ENVIRON).shows.endswith(" (in ${HOME}/none) (uses your HOME)")
    events: list[Event] = []

    async def act(services: Services, mcp: McpServers) -> None:
        await mcp.settle()
        far, odd = mcp.named("far"), mcp.named("odd")
        assert far is not None and far.failure == f"its directory '{ENVIRON['HOME']}/none' does not exist"
        assert odd is not None and odd.entry.problem == "its cwd must be a directory"

    run_in(tmp_path, act, events)


@pytest.mark.parametrize("field", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_its_entry_disables_starts_when_the_user_enables_it(
    tmp_path: Path, field: Mapping[str, bool]
) -> None:
    """Claude Code ignores these fields, but other programs do not, and share the file."""
    configure(tmp_path / "home/config/mcp.json", own=script(**field))
    configure(tmp_path / ".mcp.json", theirs=script(**field))

    async def act(services: Services, mcp: McpServers) -> None:
        await mcp.settle()
        own, theirs = mcp.named("own"), mcp.named("theirs")
        assert own is not None and theirs is not None
        assert (own.state, own.failure) == ("disabled", "its entry disables it; /mcp on own starts it")
        services.approvals.record([server_item("theirs", theirs.entry.raw, tmp_path, ENVIRON)], True)
        await mcp.settle_approvals()
        assert (theirs.state, theirs.failure) == ("disabled", "it is disabled; /mcp on theirs starts it")
        assert mcp.processes is not None and not mcp.processes.started
        await own.toggle(True)
        await own.ready()

    run_in(tmp_path, act, [])


def test_what_a_project_defines_is_not_started_before_it_was_approved(tmp_path: Path) -> None:
    configure(tmp_path / ".mcp.json", theirs=script())
    configure(tmp_path / ".makeroom" / "mcp.local.json", local=script())
    events: list[Event] = []

    async def act(services: Services, mcp: McpServers) -> None:
        assert {server.failure for server in mcp.servers} == {NOT_APPROVED}
        services.emit(ToolCallStarted(1, 0, "read", ""))
        assert {server.state for server in mcp.servers} == {"disabled"}
        assert mcp.processes is not None and not mcp.processes.started
        theirs = mcp.named("theirs")
        assert theirs is not None
        await theirs.reconnect()
        await theirs.toggle(True)
        assert theirs.state == "disabled" and not mcp.processes.started, "nor by a client's wish"
        item = server_item("theirs", theirs.entry.raw, tmp_path, ENVIRON)
        services.approvals.record([item], True)
        await mcp.settle_approvals()
        await theirs.ready()
        services.approvals.record([item], False)
        await mcp.settle_approvals()
        assert theirs.state == "disabled"

    run_in(tmp_path, act, events, headless=True)
    warnings = [event.text for event in events if isinstance(event, Notice)]
    assert [text for text in warnings if "2 MCP servers that are not approved; they are disabled" in text]
    assert len(warnings) == 1


@pytest.mark.parametrize("cwd", ["", "below"])
@pytest.mark.parametrize("place", [".mcp.json", "home/config/mcp.json", "a flag"])
def test_a_server_whose_file_a_command_has_changed_does_not_start(
    tmp_path: Path, place: str, cwd: str
) -> None:
    """It would run outside the sandbox what a command in the sandbox wrote."""
    own = tmp_path / cwd / "server.py"
    own.parent.mkdir(exist_ok=True)
    own.write_text(Path(SCRIPT).read_text("utf-8"), "utf-8")
    entry = {"command": sys.executable, "args": ["-I", "-S", "./server.py"], "cwd": cwd}
    configure(tmp_path / place, theirs=entry)
    is_given = place == "a flag"
    flags: dict[str, Any] = {"mcp_config": (str(tmp_path / place),)} if is_given else {}
    events: list[Event] = []

    async def act(services: Services, mcp: McpServers) -> None:
        theirs = mcp.named("theirs")
        assert theirs is not None
        if not is_given:
            assert theirs.state == "disabled"
            services.approvals.record([server_item("theirs", entry, tmp_path, ENVIRON)], True)
            await mcp.settle_approvals()
        await theirs.ready()
        with own.open("a", encoding="utf-8") as file:
            file.write(f"# changed\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
        with pytest.raises(ServerFailed, match="exited with code 3"):
            await theirs.request("tools/call", {"name": "die"})
        with pytest.raises(ServerFailed, match="a file of the project that it runs has changed"):
            await theirs.ready()
        assert theirs.state == "failed" and not (tmp_path / "ran").exists()
        if not is_given:
            services.approvals.record([server_item("theirs", entry, tmp_path, ENVIRON)], True)
        else:
            mcp.accept_files(theirs.entry)
            await theirs.reconnect()
        await mcp.settle_approvals()
        await theirs.ready()

    run_in(tmp_path, act, events, **flags)
    told = [event.text for event in events if isinstance(event, Notice) and "has changed" in event.text]
    assert len(told) == 1


def test_a_server_of_the_user_runs_no_program_that_a_command_has_planted(tmp_path: Path) -> None:
    """With an active .venv its programs come first on PATH."""
    configure(tmp_path / "home" / "config" / "mcp.json", mine=script())
    planted = tmp_path / ".venv" / "bin" / "python3"
    planted.parent.mkdir(parents=True)
    configure(tmp_path / "home" / "config" / "mcp.json", mine={**script(), "command": "python3"})
    environ = {**ENVIRON, "PATH": f"{planted.parent}:{ENVIRON['PATH']}"}
    events: list[Event] = []

    async def act(services: Services, mcp: McpServers) -> None:
        mine = mcp.named("mine")
        assert mine is not None
        await mine.ready()
        answer = await mine.request("tools/call", {"name": "env"})
        assert str(planted.parent) not in answer["content"][0]["text"]
        planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        planted.chmod(0o755)
        await mine.reconnect()
        assert "has changed" in mine.failure and not (tmp_path / "ran").exists()
        items = user_server_items(mcp.setup.files, environ)
        assert [item.name for item in items] == ["mine"], "so that the next start asks"

    run_in(tmp_path, act, events, environ)


def test_a_server_that_asks_again_and_again_is_reported_a_few_times(tmp_path: Path) -> None:
    configure(tmp_path / "home" / "config" / "mcp.json", theirs=script())
    events: list[Event] = []

    async def act(services: Services, mcp: McpServers) -> None:
        theirs = mcp.named("theirs")
        assert theirs is not None
        await theirs.ready()
        for _ in range(20):
            await theirs.request("tools/call", {"name": "ask"})

    run_in(tmp_path, act, events)
    asked = [event.text for event in events if isinstance(event, Notice) and "asked name?" in event.text]
    assert len(asked) == MAX_REPORTED_QUESTIONS and "more will not be reported" in asked[-1]


def test_no_one_waits_for_servers_and_a_plain_answer_starts_none(tmp_path: Path) -> None:
    configure(tmp_path / "home" / "config" / "mcp.json", silent=script("silent"), fine=script())

    async def act(services: Services, mcp: McpServers) -> None:
        assert mcp.processes is not None and not mcp.processes.started
        session, context = await SessionFactory(services).first()
        assert tools_of(context) == ["mcp"] and context.tool_context.inbox.take() == []
        services.emit(ToolCallStarted(1, 0, "read", ""))
        fine, silent = mcp.servers
        await fine.ready()
        inbox = context.tool_context.inbox
        assert silent.state == "pending" and len(inbox.waiting) == 1
        with pytest.raises(ServerFailed, match="as was asked"):
            await fine.request("tools/call", {"name": "die"})
        assert inbox.take() == [], "its tools are gone before the model was told of them"
        await fine.ready()
        assert len(inbox.take()) == 1
        await fine.stop()
        assert await mcp.called("/mcp__fine__weather Paris") is not None
        assert await mcp.called("/mcp__other__weather Paris") is None
        await end_session(session, context)

    run_in(tmp_path, act, [], headless=True)


def test_servers_are_added_listed_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def said(*words: str) -> tuple[int, str]:
        code = run_mcp([*words])
        out, err = capsys.readouterr()
        return code, out + err

    line = [sys.executable, *script()["args"]]  # type: ignore[misc]
    code, text = said("add", "own", "-e", "KEY=secret", "--", *line)
    assert code == 0 and "was not found" not in text
    code, text = said("add", "late", "--", "nowhere-at-all", "-x")
    assert (
        code == 0
        and "added late" in text
        and "the program 'nowhere-at-all' was not found; install it" in text
    )
    assert said("remove", "late")[0] == 0
    assert said("add", "-s", "project", "web", "http://127.0.0.1:9/mcp", "-H", "X: ${NOT_SET}")[0] == 0
    code, text = said("list")
    assert code == 1 and "(local): connected, 8 tools" in text and "needs the variable NOT_SET" in text
    assert "secret" not in said("get", "own")[1] and "variables: KEY" in said("get", "own")[1]
    configure(tmp_path / ".mcp.json", web={"url": "http://127.0.0.1:9/other"})
    assert "disabled: this project " in said("list")[1]
    (tmp_path / ".claude.json").write_text(json.dumps({"mcpServers": {"mine": {"command": "x"}}, "other": 1}))
    assert said("add-json", "-s", "user", "same", '{"command": "x"}')[0] == 0
    assert said("add-json", "same", "[]")[0] == said("add-json", "same", "{")[0] == 2
    assert "added mine" in said("import")[1] and "already" in said("import")[1]
    assert said("remove", "own")[0] == said("remove", "mine")[0] == 0
    assert said("remove", "own")[0] == said("get", "own")[0] == said("add", "x")[0] == said("bake")[0] == 2
    assert (tmp_path / ".makeroom" / ".gitignore").read_text() == "mcp.local.json\n.gitignore\n"
    monkeypatch.setattr("agent.extensions.mcp.requirements.find_spec", lambda name: None)
    assert (
        "remote cannot start yet: it needs the extra mcp" in said("add", "remote", "http://127.0.0.1:9/x")[1]
    )
    assert run_mcp(["help"]) == 0
    assert "-e KEY=VALUE" in said("add", "--help")[1]
    assert said("add", "helpful", "--", sys.executable, "--help")[0] == 0

"""`makeroom acp` under the client of the library, over pipes, against the strict server."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from agent.__main__ import main
from agent.cli import acp_command
from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment, start_makeroom
from tests.strict_api.reply import Reply, calls, says, thinks
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server

if TYPE_CHECKING:
    from acp.client.connection import ClientSideConnection

# The library is imported where it is used: that takes a fifth of the time of collecting all tests.
pytestmark = pytest.mark.skipif(find_spec("acp") is None, reason="needs the extra acp")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TODOS = [
    {"content": "look", "status": "completed", "activeForm": "Looking"},
    {"content": "change", "status": "in_progress", "activeForm": "Changing"},
]


class Editor:
    """The client: keeps what it is sent, and answers each question with the next of `answers`."""

    def __init__(self, answers: list[str | None]) -> None:
        self.answers = answers
        self.updates: list[dict[str, Any]] = []
        self.asked: list[tuple[dict[str, Any], dict[str, str]]] = []
        self.changed = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        pass

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        shown = update.model_dump(by_alias=True, exclude_none=True)
        self.updates.append({**shown, "session": session_id})
        self.changed.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **kwargs: Any) -> Any:
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse

        shown = tool_call.model_dump(by_alias=True, exclude_none=True)
        self.asked.append((shown, {option.option_id: option.kind for option in options}))
        answer = self.answers.pop(0)
        if answer is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.updates if each["sessionUpdate"] == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(each["content"]["text"] for each in self.of(kind) if "text" in each["content"])

    async def until(self, kind: str, **fields: str) -> dict[str, Any]:
        """The first update of that kind with these fields, now or later."""
        while True:
            for each in self.of(kind):
                if fields.items() <= each.items():
                    return each
            self.changed.clear()
            await asyncio.wait_for(self.changed.wait(), RUN_DEADLINE_S)


Work = Callable[[Editor, "ClientSideConnection"], Awaitable[None]]


def with_editor(
    folder: Path, server: Server | None, work: Work, *flags: str, answers: list[str | None] | None = None
) -> Editor:
    """Start the program as an editor does, do the work, close its input; it has to end by itself."""
    from acp import PROTOCOL_VERSION, connect_to_agent

    process = start_makeroom(
        folder,
        environment(folder, server),
        "acp",
        *flags,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None

    async def run() -> Editor:
        loop = asyncio.get_running_loop()
        editor = Editor(answers or [])
        reader = asyncio.StreamReader(limit=50_000_000)
        source = os.fdopen(os.dup(process.stdout.fileno()), "rb")  # type: ignore[union-attr]
        target = os.fdopen(os.dup(process.stdin.fileno()), "wb")  # type: ignore[union-attr]
        process.stdin.close()  # type: ignore[union-attr]
        process.stdout.close()  # type: ignore[union-attr]
        incoming, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        outgoing, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, target)
        writer = asyncio.StreamWriter(outgoing, protocol, None, loop)
        connection = connect_to_agent(cast(Any, editor), writer, reader)
        try:
            begun = await connection.initialize(protocol_version=PROTOCOL_VERSION)
            assert begun.protocol_version == PROTOCOL_VERSION and begun.agent_capabilities is not None
            await asyncio.wait_for(work(editor, connection), RUN_DEADLINE_S)
        finally:
            await connection.close()
            writer.close()
            incoming.close()
        return editor

    try:
        editor = asyncio.run(run())
        assert process.wait(RUN_DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
    return editor


def test_a_turn_with_an_edit_a_plan_an_image_and_a_replay_of_all_of_it(tmp_path: Path) -> None:
    from acp import RequestError, image_block, text_block

    project = tmp_path / "project"
    project.mkdir()
    (project / "a.py").write_text("one\ntwo\n")
    steps: list[Step] = [
        Reply([thinks("hm"), says("I look."), calls("read", file_path="a.py"), calls("todo", todos=TODOS)]),
        Reply([calls("edit", file_path="a.py", old_string="two", new_string="2")]),
        Reply([calls("edit", file_path="a.py", old_string="one", new_string="1")]),
        "done",
    ]
    ids: list[str] = []

    async def work(editor: Editor, connection: ClientSideConnection) -> None:
        session = await connection.new_session(cwd=str(project), mcp_servers=[])
        ids.append(session.session_id)
        assert session.modes is not None and session.modes.current_mode_id == "manual"
        commands = await editor.until("available_commands_update")
        names = {each["name"] for each in commands["availableCommands"]}
        assert {"compact", "context", "init"} <= names and not {"clear", "exit", "theme"} & names
        prompt: list[Any] = [text_block("change it"), image_block(PNG, "image/png")]
        ended = await connection.prompt(session_id=session.session_id, prompt=prompt)
        assert ended.stop_reason == "end_turn"

    with Server(ScriptedModel(steps)) as server:
        editor = with_editor(tmp_path, server, work, answers=["y", "n"])
    kinds = [block["type"] for block in server.requests[0]["messages"][-1]["content"]]
    assert "image" in kinds
    assert (project / "a.py").read_text() == "one\n2\n"
    assert editor.text("agent_thought_chunk") == "hm"
    assert editor.text() == "I look.done"
    (plan,) = editor.of("plan")
    assert [each["status"] for each in plan["entries"]] == ["completed", "in_progress"]
    begun = {each["toolCallId"]: each for each in editor.of("tool_call")}
    assert [each["kind"] for each in begun.values()] == ["read", "edit", "edit"]
    assert all(each["locations"] == [{"path": str(project / "a.py")}] for each in begun.values())
    ends = {
        each["toolCallId"]: each
        for each in editor.of("tool_call_update")
        if each.get("status") in ("completed", "failed")
    }
    read, allowed, denied = (ends[ident] for ident in begun)
    assert [each["status"] for each in (read, allowed, denied)] == ["completed", "completed", "failed"]
    diff = {"type": "diff", "path": str(project / "a.py"), "oldText": "one\ntwo\n", "newText": "one\n2\n"}
    assert allowed["content"] == [diff]
    assert read["content"][0]["content"]["text"] == "```\n1\tone\n2\ttwo\n```"
    assert [call["toolCallId"] for call, _ in editor.asked] == list(begun)[1:]
    assert editor.asked[0][0]["content"][0] == diff
    assert editor.asked[0][1] == {
        "y": "allow_once",
        "a": "allow_always",
        "n": "reject_once",
        "p": "allow_always",
    }
    assert editor.of("usage_update")[-1]["size"] > editor.of("usage_update")[-1]["used"] > 0

    async def load(editor: Editor, connection: ClientSideConnection) -> None:
        (listed,) = (await connection.list_sessions(cwd=str(project))).sessions
        assert listed.session_id == ids[0] and (listed.title or "").endswith("change it")
        await connection.load_session(cwd=str(project), session_id=ids[0], mcp_servers=[])
        with pytest.raises(RequestError):
            await connection.load_session(cwd=str(project), session_id="nowhere", mcp_servers=[])

    with Server(ScriptedModel([])) as server:
        loaded = with_editor(tmp_path, server, load)
    assert loaded.text("user_message_chunk") == "change it"
    assert loaded.of("user_message_chunk")[0]["content"]["type"] == "image"
    assert loaded.text() == "I look.done"
    replayed = {each["toolCallId"]: each for each in loaded.of("tool_call")}
    assert list(replayed) == list(begun)
    assert [each["status"] for each in replayed.values()] == ["completed", "completed", "failed"]
    assert [each["content"] for each in replayed.values()][1] == [diff]
    assert loaded.of("plan")[-1]["entries"] == plan["entries"]


def test_modes_questions_plans_and_two_sessions_beside_each_other(tmp_path: Path) -> None:
    from acp import RequestError, text_block

    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    question = {"question": "Which?", "options": [{"label": "A", "description": "first"}, {"label": "B"}]}
    steps: list[Step] = [
        Reply([calls("ask_user", questions=[question])]),
        Reply([calls("write", file_path="a.txt", content="x\n")]),
        Reply([calls("exit_plan", plan="# Write it")]),
        Reply([calls("write", file_path="a.txt", content="x\n")]),
        "planned",
        Reply([calls("write", file_path="a.txt", content="y\n")]),
        "other",
    ]

    async def work(editor: Editor, connection: ClientSideConnection) -> None:
        one, two = [
            await connection.new_session(cwd=str(tmp_path / name), mcp_servers=[]) for name in ("one", "two")
        ]
        await connection.set_session_mode(session_id=one.session_id, mode_id="plan")
        with pytest.raises(RequestError):
            await connection.set_session_mode(session_id=one.session_id, mode_id="bypassPermissions")
        await editor.until("current_mode_update", currentModeId="plan")
        for session, words in ((one, "plan it"), (two, "write it")):
            ended = await connection.prompt(session_id=session.session_id, prompt=[text_block(words)])
            assert ended.stop_reason == "end_turn"
        await connection.close_session(session_id=one.session_id)
        with pytest.raises(RequestError):
            await connection.prompt(session_id=one.session_id, prompt=[text_block("again")])

    with Server(ScriptedModel(steps)) as server:
        editor = with_editor(tmp_path, server, work, answers=["1", "a", "y"])
    titles = [call["title"] for call, _ in editor.asked]
    assert titles == ["Which?", "Carry out this plan?", "write a.txt"]
    assert editor.asked[0][1] == {"0": "allow_once", "1": "allow_once", "skip": "reject_once"}
    answered = str(server.requests[1]["messages"][-1])
    assert "Which? B" in answered
    assert editor.of("current_mode_update")[-1]["currentModeId"] == "acceptEdits"
    assert (tmp_path / "one" / "a.txt").read_text() == "x\n"
    assert (tmp_path / "two" / "a.txt").read_text() == "y\n"


def test_cancel_ends_a_turn_and_what_it_runs_and_failures_are_errors(tmp_path: Path) -> None:
    from acp import RequestError, text_block

    steps: list[Step] = [Reply([calls("bash", command="echo begun; sleep 1000")]), "again"]

    async def work(editor: Editor, connection: ClientSideConnection) -> None:
        session = await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
        words: list[Any] = [text_block("run it")]
        turn = asyncio.ensure_future(connection.prompt(session_id=session.session_id, prompt=words))
        while "begun" not in str(editor.of("tool_call_update")):
            editor.changed.clear()
            await asyncio.wait_for(editor.changed.wait(), RUN_DEADLINE_S)
        await connection.cancel(session_id=session.session_id)
        assert (await turn).stop_reason == "cancelled"
        ended = await connection.prompt(session_id=session.session_id, prompt=words)
        assert ended.stop_reason == "end_turn"
        with pytest.raises(RequestError, match="needs an interactive session"):
            await connection.prompt(session_id=session.session_id, prompt=[text_block("/theme dark")])
        await connection.prompt(session_id=session.session_id, prompt=[text_block("/context")])

    with Server(ScriptedModel(steps)) as server:
        flags = ("--permission-mode", "bypassPermissions")
        editor = with_editor(tmp_path, server, work, *flags)
    assert "Context (" in editor.text()


def test_an_editor_that_ends_during_a_turn_ends_the_program(tmp_path: Path) -> None:
    from acp import text_block

    steps: list[Step] = [Reply([calls("bash", command="echo begun; sleep 1000")])]

    async def work(editor: Editor, connection: ClientSideConnection) -> None:
        session = await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
        words: list[Any] = [text_block("run it")]
        turn = asyncio.ensure_future(connection.prompt(session_id=session.session_id, prompt=words))
        turn.add_done_callback(lambda done: done.exception())  # nobody answers it
        while "begun" not in str(editor.of("tool_call_update")):
            editor.changed.clear()
            await asyncio.wait_for(editor.changed.wait(), RUN_DEADLINE_S)

    with Server(ScriptedModel(steps)) as server:
        with_editor(tmp_path, server, work, "--permission-mode", "bypassPermissions")


def test_an_editor_that_no_longer_reads_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.acp.serving import run_agent_server

    async def no_streams(loop: asyncio.AbstractEventLoop) -> tuple[None, None]:
        return None, None

    async def lost(*given: object, **more: object) -> None:
        raise ConnectionResetError("Connection lost")

    monkeypatch.setattr(logging.getLogger(), "handlers", [])  # it adds one
    monkeypatch.setattr("agent.acp.serving._standard_streams", no_streams)
    monkeypatch.setattr("agent.acp.serving.run_agent", lost)
    assert run_agent_server(cast(Any, None), cast(Any, None), keeps=False) == 0


def test_without_credentials_a_session_asks_for_them(tmp_path: Path) -> None:
    from acp import RequestError

    async def work(editor: Editor, connection: ClientSideConnection) -> None:
        with pytest.raises(RequestError) as failure:
            await connection.new_session(cwd=str(tmp_path), mcp_servers=[])
        assert failure.value.code == -32000  # authentication required

    with_editor(tmp_path, None, work)


def test_without_the_library_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(acp_command, "find_spec", lambda name: None)
    assert main(["acp"]) == 2
    assert capfd.readouterr().err == (
        "error: makeroom acp needs the extra acp: pip install 'makeroom[acp]'\n"
    )


def test_it_takes_no_prompt_and_no_choice_of_a_session(capfd: pytest.CaptureFixture[str]) -> None:
    for words in (["fix it"], ["-c"], ["-p"], ["--worktree", "x"]):
        assert main(["acp", *words]) == 2
        assert "the editor sends prompts" in capfd.readouterr().err


def test_without_pipes_an_editor_is_named_as_the_one_who_starts_it(tmp_path: Path) -> None:
    with (tmp_path / "output").open("w") as output:
        process = start_makeroom(
            tmp_path, environment(tmp_path, None), "acp", stdin=subprocess.DEVNULL, stdout=output
        )
        assert process.wait(RUN_DEADLINE_S) == 2


def test_a_line_that_is_not_json_is_reported_in_one_line(tmp_path: Path) -> None:
    process = start_makeroom(
        tmp_path,
        environment(tmp_path, None),
        *("acp", "--offline"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, errors = process.communicate("hi\n", RUN_DEADLINE_S)
    assert process.returncode == 0
    assert errors.splitlines() == [
        "error: Error parsing JSON-RPC message: Expecting value: line 1 column 1 (char 0)"
    ]

"""Lines of a client as values, and what its answers mean."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import redirect_stdout
from typing import Any

import pytest

from agent.commands import find_command, use_without_screen
from agent.extensions.hooks.table import HookTable
from agent.extensions.mcp import meant_call
from agent.extensions.mcp.server import wait_for
from agent.ports import Allow, Deny, HookEvent, PermissionQuestion, PermissionUpdate
from agent.stream_protocol.client_callbacks import (
    ClientApprover,
    client_hooks,
    permission_answer,
)
from agent.stream_protocol.client_channel import ClientChannel, ClientRefused
from agent.stream_protocol.client_frames import (
    BadFrame,
    CancelRequest,
    ControlRequest,
    ControlResponse,
    UserMessage,
    parse_frame,
)
from agent.stream_protocol.client_servers import servers_within
from agent.stream_protocol.client_tools import server_status
from agent.stream_protocol.stream_input import LOCAL_COMMANDS
from agent.ui.standard_streams import PipeWriter
from tests.narrowing import narrow
from tests.tables import each_row
from tools.base import Access
from tools.user_questions import Preview
from transcripts.messages import ImageBlock, TextBlock, UnknownBlock

SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
BASH = PermissionQuestion(
    "bash", "make", (Access("run", "make"),), "it runs a command", "bash(make)", Preview(), call="t1",
    input={"command": "make KEY=secret", "timeout": 5},
)  # fmt: skip


def user(content: Any, **more: Any) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}, **more})


def test_a_prompt_is_text_or_blocks() -> None:
    assert parse_frame(user("hi", uuid="u")) == UserMessage((TextBlock("hi"),), "u")
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    found = parse_frame(user([{"type": "text", "text": "a"}, {"type": "image", "source": SOURCE}, document]))
    assert isinstance(found, UserMessage) and found.text == "a"
    assert found.content[1:] == (ImageBlock("image/png", "AAAA"), UnknownBlock(document))
    flags = parse_frame(user("x", client_composed=True, shouldQuery=False))
    assert isinstance(flags, UserMessage) and (flags.verbatim, flags.query) == (True, False)


def test_requests_answers_and_what_is_taken_back() -> None:
    request = {"subtype": "set_model", "model": "m"}
    line = json.dumps({"type": "control_request", "request_id": "r", "request": request})
    assert parse_frame(line) == ControlRequest("r", "set_model", request)
    answer = {"subtype": "success", "request_id": "r", "response": {"a": 1}}
    assert parse_frame(json.dumps({"type": "control_response", "response": answer})) == ControlResponse(
        "r", {"a": 1}
    )
    failed = {"subtype": "error", "request_id": "r", "error": "no"}
    found = parse_frame(json.dumps({"type": "control_response", "response": failed}))
    assert isinstance(found, ControlResponse) and found.error == "no"
    taken_back = json.dumps({"type": "control_cancel_request", "request_id": "r"})
    assert parse_frame(taken_back) == CancelRequest("r")
    assert parse_frame('{"type": "keep_alive"}') is parse_frame("  ") is None


@each_row("line", ["{", "[]", '{"type": "user"}', user(5), user(["text"]), b"\xff"])
def test_a_line_that_makes_no_sense_is_quoted(line: str | bytes) -> None:
    with pytest.raises(BadFrame, match=r"standard input|without content"):
        parse_frame(line)


@each_row("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_no_request_can_hold_is_refused(number: str) -> None:
    """Python's json writes such: once recorded, it would spoil every later request."""
    prompt = user([{"type": "text", "text": 0.5}]).replace("0.5", number)
    with pytest.raises(BadFrame, match=f"contains an invalid JSON number: {number}"):
        parse_frame(prompt)
    request = {"type": "control_request", "request_id": "r", "request": {"subtype": "x", "n": 0.5}}
    with pytest.raises(BadFrame) as caught:
        parse_frame(json.dumps(request).replace("0.5", number))
    assert caught.value.ident == "r"
    answer = {"type": "control_response", "response": {"request_id": "r", "response": {"n": 0.5}}}
    taken = parse_frame(json.dumps(answer).replace("0.5", number))
    assert isinstance(taken, ControlResponse) and taken.ident == "r" and number in (taken.error or "")


def test_only_a_clear_yes_allows() -> None:
    assert permission_answer({"behavior": "allow", "updatedInput": {"a": 1}}) == Allow(updated_input={"a": 1})
    assert permission_answer({"behavior": "deny", "message": "no", "interrupt": True}) == Deny(
        "no", stop=True
    )
    assert permission_answer({}) == permission_answer({"behavior": "ALLOW"}) == Deny("")


def test_only_changes_for_the_session_are_followed() -> None:
    names: list[dict[str, str]] = [{"toolName": "NotebookEdit"}, {"toolName": "mcp__a__b"}]
    rules = [{"toolName": "Bash", "ruleContent": "git:*"}, *names]
    added = {"type": "addRules", "rules": rules, "behavior": "allow", "destination": "session"}
    mode = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}
    kept = {**added, "destination": "userSettings"}
    odd = {**added, "rules": 5}
    answer = permission_answer({"behavior": "allow", "updatedPermissions": [added, mode, kept, odd, "x"]})
    assert isinstance(answer, Allow) and answer.updates == (
        PermissionUpdate(allow=("bash(git)", "mcp__a__b")),
        PermissionUpdate(mode="acceptEdits"),
        PermissionUpdate(),
        PermissionUpdate(),
        PermissionUpdate(),
    )


class Client:
    """The other end of a channel: answers requests by a function, at once."""

    def __init__(self, answer: Any, mask: Any = str) -> None:
        self.out = io.StringIO()
        with redirect_stdout(self.out):
            import sys

            self.channel = ClientChannel(PipeWriter(sys.stdout, mask), tells_state=True)
        self._answer = answer
        self.asked: list[dict[str, Any]] = []

    async def serve(self, work: Any) -> Any:
        """The result of the work, with requests answered meanwhile."""
        task = asyncio.ensure_future(work)
        while not task.done():
            await asyncio.sleep(0)
            for line in self.lines()[len(self.asked) :]:
                self.asked.append(line)
                if line["type"] == "control_request":
                    body = self._answer(line["request"])
                    error = body if isinstance(body, str) else None
                    self.channel.settle(ControlResponse(line["request_id"], body if not error else {}, error))
        return task.result()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


def test_what_a_client_saw_masked_runs_unchanged() -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        assert request["input"]["command"] == "make KEY=[masked]"
        return {"behavior": "allow", "updatedInput": {**request["input"], "timeout": 9}}

    client = Client(answer, mask=lambda line: line.replace("secret", "[masked]"))
    given = asyncio.run(client.serve(ClientApprover(client.channel).ask(BASH)))
    assert given.updated_input == {"command": "make KEY=secret", "timeout": 9}
    states = [line["state"] for line in client.lines() if line.get("subtype") == "session_state_changed"]
    assert states == ["requires_action", "running"]
    (request,) = (line["request"] for line in client.lines() if line["type"] == "control_request")
    assert (request["tool_name"], request["tool_use_id"]) == ("Bash", "t1")
    (suggestion,) = request["permission_suggestions"]
    assert suggestion["rules"] == [{"toolName": "Bash", "ruleContent": "make"}]


def test_a_client_that_fails_or_is_gone_refuses() -> None:
    client = Client(lambda request: "it raised")
    assert asyncio.run(client.serve(ClientApprover(client.channel).ask(BASH))).reason == "it raised"
    client.channel.close()
    refused = asyncio.run(ClientApprover(client.channel).ask(BASH))
    assert "closed the connection" in narrow(refused, Deny).reason


def test_a_wait_that_ends_early_is_reported_to_the_client() -> None:
    async def cancelled(client: Client) -> None:
        task = asyncio.ensure_future(client.channel.ask({"subtype": "x"}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    client = Client(None)
    asyncio.run(cancelled(client))
    first, second = client.lines()
    assert (second["type"], second["request_id"]) == ("control_cancel_request", first["request_id"])


def test_hooks_are_asked_by_event_and_tool_and_a_failure_blocks_only_where_it_shall() -> None:
    registered = {
        "PreToolUse": [
            {"matcher": "Write|Edit", "hookCallbackIds": ["h0"]},
            {"matcher": None, "hookCallbackIds": ["h1"], "onFailure": "continue"},
            {"matcher": "Bash", "hookCallbackIds": ["h2"], "onFailure": "block", "timeout": 5},
        ]
    }
    told: list[str] = []
    client = Client(lambda request: "boom")
    hooks = client_hooks(
        client.channel, HookTable.read(registered).entries, lambda: {"session_id": "s"}, told.append
    )
    about = {"tool": "bash", "input": {"command": "ls"}, "id": "t"}
    answer = asyncio.run(client.serve(hooks.run(HookEvent.PRE_TOOL, about)))
    assert [line["request"]["callback_id"] for line in client.lines()] == ["h1", "h2"]
    assert [answer.veto] == told == ["a hook of the client for PreToolUse failed: boom"]
    given = client.lines()[0]["request"]["input"]
    assert (given["tool_name"], given["hook_event_name"], given["session_id"]) == ("Bash", "PreToolUse", "s")


def test_a_server_within_the_client_is_shaken_hands_with_and_listed_page_by_page() -> None:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        message = request["message"]
        results: dict[str, Any] = {
            "initialize": {"serverInfo": {"name": "calc"}},
            "tools/list": {"tools": [{"name": "add"}], "nextCursor": "2"},
        }
        if message["method"] == "tools/list" and message["params"]:
            results["tools/list"] = {"tools": [{"name": "mul"}]}
        return {"mcp_response": {"id": message.get("id"), "result": results.get(message["method"], {})}}

    client = Client(answer)
    (server,) = servers_within(["calc"], client.channel)
    asyncio.run(client.serve(server.ready()))
    assert [tool["name"] for tool in server_status(server)["tools"]] == ["add", "mul"]
    methods = [line["request"]["message"]["method"] for line in client.lines()]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/list"]
    broken = Client(lambda request: {"mcp_response": {"error": {"code": 1, "message": "no such server"}}})
    (other,) = servers_within(["gone", "gone"], broken.channel)
    asyncio.run(broken.serve(wait_for([other], 9.0)))
    assert (other.state, server_status(other)["error"]) == ("failed", "no such server")


def test_a_call_through_the_one_tool_is_reported_as_one_of_the_servers_tool() -> None:
    given = {"action": "call", "server": "my git", "tool": "status", "arguments": {"a": 1}}
    assert meant_call("mcp", given) == ("mcp__my_git__status", {"a": 1})
    assert meant_call("mcp", {"action": "call", "tool": "mcp__a__b"}) == ("mcp__a__b", {})
    for other in ({"action": "search"}, {}, None):
        assert meant_call("mcp", other) == ("mcp", other)


def test_a_question_without_an_answer_ends_when_the_client_closes() -> None:
    async def closing(channel: ClientChannel) -> None:
        task = asyncio.ensure_future(channel.ask({"subtype": "x"}))
        await asyncio.sleep(0)
        channel.close()
        with pytest.raises(ClientRefused):
            await task

    asyncio.run(closing(Client(None).channel))


def test_the_commands_that_run_here_are_reported_as_the_table_reports_them() -> None:
    for name, told in LOCAL_COMMANDS.items():
        command = find_command(name)
        assert command is not None and command.summary == told, name
        assert use_without_screen(f"/{name}") == ("refuse" if name == "clear" else "run")


def test_a_script_may_run_what_only_shows_something() -> None:
    shown = ("/permissions", " /permissions explain git push", "/sandbox", "/allowed-tools")
    assert {use_without_screen(line) for line in shown} == {"run"}
    changing = ("/permissions allow edit", "/permissions mode plan", "/sandbox off", "/theme", "/rewind")
    assert {use_without_screen(line) for line in changing} == {"refuse"}

"""Each matter that wrappers rely on by itself, through the SDK for Python: too much for every run."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from transcripts.listing import ProjectRecords

from .sdk_client import NEEDS_SDK, Sdk, init_of

pytestmark = [NEEDS_SDK, pytest.mark.sweep, pytest.mark.filterwarnings("ignore")]
WRITE = Reply([calls("write", file_path="made.txt", content="x")])
ID = "0c7d4ad5-5f6d-4b3f-9a53-1c1f6c1c7a01"


@pytest.fixture
def sdk(tmp_path: Path) -> Sdk:
    return Sdk(tmp_path)


def run(sdk: Sdk, steps: list[Any], **options: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    """The messages of one run, and the requests that it sent."""
    with Server(ScriptedModel(steps)) as server:
        found = asyncio.run(sdk.query(server, **options))
        assert server.refused == []
        return found, server.requests


def test_an_echo(sdk: Sdk) -> None:
    found, _ = run(sdk, ["hi"])
    assert (found[-1].subtype, found[-1].result) == ("success", "hi")


def test_a_round_trip_of_a_tool(sdk: Sdk) -> None:
    (sdk.folder / "a.txt").write_text("content")
    found, _ = run(sdk, [Reply([calls("read", file_path="a.txt")]), "read"])
    kinds = [type(message).__name__ for message in found]
    assert kinds == ["SystemMessage", "AssistantMessage", "UserMessage", "AssistantMessage", "ResultMessage"]
    assert found[1].content[0].name == "Read" and not found[2].content[0].is_error


@pytest.mark.parametrize(
    ("prompt", "first", "last"),
    [
        ("Be a parrot.", "Be a parrot.", ""),
        ({"type": "preset", "preset": "claude_code", "append": "Loud."}, "You are makeroom", "Loud."),
        (None, "# Tools", ""),
    ],
)
def test_the_system_prompt(sdk: Sdk, prompt: Any, first: str, last: str) -> None:
    _, requests = run(sdk, ["hi"], system_prompt=prompt)
    texts = [block["text"] for block in requests[0]["system"]]
    assert texts[0].startswith(first) and any(text.endswith(last) for text in texts)


def test_a_disallowed_tool_is_not_run(sdk: Sdk) -> None:
    found, _ = run(sdk, [Reply([calls("bash", command="touch made")]), "no"], disallowed_tools=["Bash"])
    assert found[-1].permission_denials and not (sdk.folder / "made").exists()


def test_the_tools_that_are_offered(sdk: Sdk) -> None:
    found, requests = run(sdk, ["hi"], tools=["Read"])
    assert init_of(found)["tools"] == ["Read"] and [tool["name"] for tool in requests[0]["tools"]] == ["read"]


@pytest.mark.parametrize(
    ("limits", "subtype"),
    [({"max_turns": 1}, "error_max_turns"), ({"max_budget_usd": 0.0001}, "error_max_budget_usd")],
)
def test_a_limit_that_is_reached(sdk: Sdk, limits: dict[str, Any], subtype: str) -> None:
    with pytest.raises(sdk.sdk.ResultError) as raised:
        run(sdk, [WRITE, WRITE], permission_mode="acceptEdits", **limits)
    assert raised.value.data["subtype"] == subtype


@pytest.mark.parametrize("allows", [True, False])
def test_the_client_is_asked(sdk: Sdk, allows: bool) -> None:
    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        if allows:
            return sdk.sdk.PermissionResultAllow(updated_input={**given, "content": "changed"})
        return sdk.sdk.PermissionResultDeny(message="no", interrupt=True)

    async def prompts() -> Any:
        yield {"type": "user", "message": {"role": "user", "content": "go"}, "parent_tool_use_id": None}

    if allows:
        _, requests = run(sdk, [WRITE, "done"], can_use_tool=decide, prompt=prompts())
        assert (sdk.folder / "made.txt").read_text() == "changed"
        assert "the user changed the input" in str(requests[-1]["messages"])
    else:
        with pytest.raises(sdk.sdk.ResultError):
            run(sdk, [WRITE], can_use_tool=decide, prompt=prompts())
        assert not (sdk.folder / "made.txt").exists()


def test_hooks_of_every_event(sdk: Sdk) -> None:
    told: list[str] = []

    async def hook(given: dict[str, Any], ident: str | None, context: Any) -> dict[str, Any]:
        event = given["hook_event_name"]
        told.append(event)
        if event == "PreToolUse" and told.count(event) == 1:
            return {"hookSpecificOutput": {"hookEventName": event, "permissionDecision": "deny"}}
        if event == "PreToolUse":
            raise RuntimeError("a callback that raises")
        if event == "Stop" and not given["stop_hook_active"]:
            return {"decision": "block", "reason": "not yet"}
        if event in ("UserPromptSubmit", "PostToolUse"):
            return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": f"by {event}"}}
        return {}

    events = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop")
    hooks = {event: [sdk.sdk.HookMatcher(hooks=[hook])] for event in events}
    steps = [WRITE, WRITE, "done", "really"]
    found, requests = run(sdk, steps, hooks=hooks, permission_mode="bypassPermissions")
    assert told == ["UserPromptSubmit", "PreToolUse", "PreToolUse", "PostToolUse", "Stop", "Stop"]
    assert found[-1].result == "really" and (sdk.folder / "made.txt").exists()
    said = str(requests[-1]["messages"])
    assert all(words in said for words in ("by UserPromptSubmit", "by PostToolUse", "not yet"))


def test_a_tool_of_a_server_within_the_client_checks_its_input(sdk: Sdk) -> None:
    @sdk.sdk.tool("add", "Add", {"a": float, "b": float})  # type: ignore[untyped-decorator]
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        if given["a"] == 0:
            raise ValueError("zero")
        return {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}

    server = sdk.sdk.create_sdk_mcp_server("calc", tools=[add])
    steps = [
        Reply([calls("mcp__calc__add", **given)])
        for given in ({"a": "x"}, {"a": 0, "b": 1}, {"a": 1, "b": 2})
    ]
    found, _ = run(sdk, [*steps, "three"], mcp_servers={"calc": server}, allowed_tools=["mcp__calc__add"])
    results = [message.content[0] for message in found if type(message).__name__ == "UserMessage"]
    assert [result.is_error for result in results] == [True, True, False]
    assert "required parameter `b`" in str(results[0].content) and "3" in str(results[2].content)


def test_servers_in_processes_of_their_own_are_listed_and_called(sdk: Sdk) -> None:
    script = str(Path(__file__).parents[1] / "extensions" / "mcp" / "server_script.py")
    servers = {
        "files": {"command": sys.executable, "args": ["-I", "-S", script]},
        "bad": {"command": "no-such"},
    }
    steps = [
        Reply([calls("mcp", action="call", server="files", tool="echo", arguments={"text": "hi"})]),
        "done",
    ]
    found, _ = run(sdk, steps, mcp_servers=servers, allowed_tools=["mcp__files__*"])
    (began,) = [each.data for each in found if getattr(each, "subtype", "") == "init"]
    assert {"mcp", "mcp__files__echo", "mcp__files__do_it"} <= {*began["tools"]}
    assert began["mcp_servers"] == [
        {"name": "bad", "status": "failed"},
        {"name": "files", "status": "connected"},
    ]
    (used,) = [block for each in found for block in _blocks(each) if type(block).__name__ == "ToolUseBlock"]
    assert (used.name, used.input) == ("mcp__files__echo", {"text": "hi"})
    (result,) = [
        block for each in found for block in _blocks(each) if type(block).__name__ == "ToolResultBlock"
    ]
    assert "echo: hi" in str(result.content) and found[-1].result == "done"
    assert any("MCP server bad: " in line and "no-such" in line for line in sdk.stderr)


def _blocks(message: Any) -> list[Any]:
    content = getattr(message, "content", [])
    return content if isinstance(content, list) else []


def test_settings_directories_thinking_and_effort(sdk: Sdk, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    steps = [Reply([calls("read", file_path=str(tmp_path / "other" / "x"))]), "done"]
    settings = '{"permissions": {"deny": ["Write"]}}'
    _, requests = run(
        sdk,
        steps,
        settings=settings,
        add_dirs=[tmp_path / "other"],
        thinking={"type": "disabled"},
        effort="low",
    )
    assert "thinking" not in requests[0] and requests[0]["output_config"] == {"effort": "low"}
    assert "does not exist" in str(requests[1]["messages"][-1])


def test_thinking_is_switched_off_and_on_between_turns(sdk: Sdk) -> None:
    async def conduct(server: Server) -> None:
        async with sdk.sdk.ClaudeSDKClient(sdk.options(server, max_thinking_tokens=4000)) as client:
            await sdk.turn(client, "one")
            await client._query._send_control_request(
                {"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 0}
            )
            await sdk.turn(client, "two")

    thinking = Reply([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "one"}])
    with Server(ScriptedModel([thinking, "two"])) as server:
        asyncio.run(conduct(server))
        assert ["thinking" in body for body in server.requests] == [True, False]
        assert server.refused == []


def test_a_failure_and_an_overload_that_passes(sdk: Sdk) -> None:
    with Server(ScriptedModel(["fine"])) as server:
        server.faults.add(Fault("status", status=529))
        found = asyncio.run(sdk.query(server))
    retry = next(message for message in found if getattr(message, "subtype", "") == "api_retry")
    assert found[-1].result == "fine"
    assert (retry.data["attempt"], retry.data["error_status"]) == (1, 529)


def test_the_sessions_of_clients_are_in_our_list(sdk: Sdk) -> None:
    run(sdk, ["hi"], session_id=ID)
    assert [one.sid for one in ProjectRecords(sdk.folder).sessions()] == [ID]


def test_a_compaction_asks_the_hook_and_is_reported(sdk: Sdk) -> None:
    told: list[dict[str, Any]] = []

    async def hook(given: dict[str, Any], ident: str | None, context: Any) -> dict[str, Any]:
        told.append(given)
        return {}

    async def conduct(server: Server) -> list[Any]:
        options = sdk.options(server, hooks={"PreCompact": [sdk.sdk.HookMatcher(hooks=[hook])]})
        async with sdk.sdk.ClaudeSDKClient(options) as client:
            await sdk.turn(client, "read " * 3000)
            return await sdk.turn(client, "/compact")

    with Server(
        ScriptedModel(["one"], then=lambda body: Reply([{"type": "text", "text": "It read."}]))
    ) as server:
        found = asyncio.run(conduct(server))
    assert [given["trigger"] for given in told] == ["manual"] and found[-1].subtype == "success"


def test_an_agent_of_the_client_works_and_its_calls_name_the_call_that_started_it(sdk: Sdk) -> None:
    (sdk.folder / "a.txt").write_text("content")
    reviewer = sdk.sdk.AgentDefinition(description="reviews", prompt="You review.", tools=["Read"])
    task = calls("task", description="review a", prompt="look at a.txt", agent="reviewer")
    steps = [Reply([task]), Reply([calls("read", file_path="a.txt")]), "It is fine.", "done"]
    found, requests = run(sdk, steps, agents={"reviewer": reviewer})
    assert init_of(found)["agents"] == ["explore", "general", "fork", "reviewer"]
    assert requests[1]["system"][0]["text"].startswith("You review.")
    (started,) = [block for each in found for block in _blocks(each) if getattr(block, "name", "") == "Agent"]
    nested = [each for each in found if getattr(each, "parent_tool_use_id", None) == started.id]
    assert [type(each).__name__ for each in nested] == ["AssistantMessage", "UserMessage"]
    assert nested[0].content[0].name == "Read" and found[-1].result == "done"
    kinds = [type(each).__name__ for each in found]
    assert "TaskStartedMessage" in kinds and "TaskNotificationMessage" in kinds


def test_the_words_of_agents_are_sent_to_clients_that_want_them(sdk: Sdk) -> None:
    task = calls("task", description="look", prompt="look")
    found, _ = run(sdk, [Reply([task]), "It is fine.", "done"], forward_subagent_text=True)
    texts = [block.text for each in found for block in _blocks(each) if hasattr(block, "text")]
    assert texts == ["It is fine.", "done"] and found[-1].result == "done"

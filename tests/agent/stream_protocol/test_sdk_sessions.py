"""The SDK for Python conducts sessions, with several matters in each: a start of a program costs a second."""

from __future__ import annotations

import asyncio
import base64
import io
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server

from .sdk_client import NEEDS_SDK, Sdk, init_of

pytestmark = [NEEDS_SDK, pytest.mark.filterwarnings("ignore")]  # warnings of the SDK are not ours


@pytest.fixture
def sdk(tmp_path: Path) -> Sdk:
    return Sdk(tmp_path)


def image() -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


async def saying(*content: Any) -> Any:
    yield {"type": "user", "message": {"role": "user", "content": list(content)}, "parent_tool_use_id": None}


QUESTION = {"question": "Which?", "header": "Which", "options": [{"label": "a"}, {"label": "b"}]}
STEPS: list[Step] = [
    "one",
    Reply([calls("write", file_path="allowed.txt", content="x")]),
    Reply([calls("write", file_path="denied.txt", content="x")]),
    Reply([calls("bash", command="touch hooked.txt")]),
    Reply([calls("mcp__calc__add", a=2, b=3)]),
    "two",
    "I see red",
    Reply([calls("bash", command="touch began; sleep 20")]),
    Reply([calls("AskUserQuestion", questions=[QUESTION])]),
    Reply([calls("exit_plan", plan="# Plan")]),
    Reply([calls("write", file_path="planned.txt", content="x")]),
    "planned",
]


def test_a_client_with_callbacks_tools_and_changes_between_turns(sdk: Sdk) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        asked.append((name, given))
        if given.get("file_path") == "denied.txt":
            return sdk.sdk.PermissionResultDeny(message="not that one")
        if name == "AskUserQuestion":
            return sdk.sdk.PermissionResultAllow(updated_input={**given, "answers": {"Which?": "b"}})
        if name == "ExitPlanMode":
            accept = sdk.sdk.PermissionUpdate(type="setMode", mode="acceptEdits", destination="session")
            return sdk.sdk.PermissionResultAllow(updated_permissions=[accept])
        return sdk.sdk.PermissionResultAllow()

    async def veto(given: dict[str, Any], ident: str, context: Any) -> dict[str, Any]:
        if "hooked" not in given["tool_input"]["command"]:
            return {}
        decision = {"permissionDecision": "deny", "permissionDecisionReason": "hands off"}
        return {"hookSpecificOutput": {"hookEventName": given["hook_event_name"], **decision}}

    @sdk.sdk.tool("add", "Add two numbers", {"a": float, "b": float})  # type: ignore[untyped-decorator]
    async def add(given: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": f"sum {given['a'] + given['b']}"}]}

    async def conduct(server: Server) -> None:
        options = sdk.options(
            server,
            can_use_tool=decide,
            hooks={"PreToolUse": [sdk.sdk.HookMatcher(matcher="Bash|Edit", hooks=[veto])]},
            mcp_servers={"calc": sdk.sdk.create_sdk_mcp_server("calc", tools=[add])},
            allowed_tools=["mcp__calc__*"],
        )
        async with sdk.sdk.ClaudeSDKClient(options) as client:
            models = (await client.get_server_info())["models"]
            assert {"opus", "sonnet"} <= {model["value"] for model in models}
            first, second = await sdk.turn(client, "hi"), await sdk.turn(client, "work")
            assert first[-1].session_id == second[-1].session_id == str(UUID(first[-1].session_id))
            assert (first[-1].result, second[-1].result, second[-1].num_turns) == ("one", "two", 5)
            assert init_of(first)["tools"][0] == "Bash" and "mcp__calc__add" in init_of(first)["tools"]
            assert init_of(first)["mcp_servers"] == [{"name": "calc", "status": "connected"}]
            denials = second[-1].permission_denials
            assert [each["tool_name"] for each in denials] == ["Write", "Bash"]
            (status,) = (await client.get_mcp_status())["mcpServers"]
            usage = await client.get_context_usage()
            assert (status["status"], status["tools"][0]["name"]) == ("connected", "add")
            assert usage["totalTokens"] > 1000 and usage["mcpTools"][0]["serverName"] == "calc"
            source = {"type": "base64", "media_type": "image/png", "data": image()}
            shown = saying({"type": "text", "text": "what?"}, {"type": "image", "source": source})
            seen = await sdk.turn(client, shown)
            assert seen[-1].result == "I see red"
            await client.query("sleep")
            await asyncio.to_thread(wait_for, sdk.folder / "began")
            await client.interrupt()
            ended = [message async for message in client.receive_response()]
            assert (ended[-1].subtype, ended[-1].is_error) == ("error_during_execution", True)
            await client.set_model("opus")
            await client.set_permission_mode("plan")
            with pytest.raises(Exception, match="allow-dangerously-skip-permissions"):
                await client.set_permission_mode("bypassPermissions")
            messages = await sdk.turn(client, "plan")
            planned = init_of(messages)
            told = [one.data for one in messages if getattr(one, "subtype", "") == "status"]
            assert [each["permissionMode"] for each in told] == ["acceptEdits"]
            assert (planned["permissionMode"], planned["model"]) == ("plan", "claude-opus-5-5")
            assert {"AskUserQuestion", "ExitPlanMode", "TodoWrite"} <= set(planned["tools"])

    with Server(ScriptedModel(STEPS)) as server:
        asyncio.run(conduct(server))
        assert server.refused == []
        bodies = [str(body["messages"]) for body in server.requests]
    assert [name for name, _ in asked] == ["Write", "Write", "Bash", "AskUserQuestion", "ExitPlanMode"]
    assert asked[-1][1] == {"plan": "# Plan"} and asked[-2][1]["questions"][0]["header"] == "Which"
    assert sorted(path.name for path in sdk.folder.iterdir() if path.suffix == ".txt") == [
        "allowed.txt",
        "planned.txt",
    ]
    assert "Which? b" in bodies[-1] and "The user approved the plan" in bodies[-1]
    assert "not that one" in bodies[-1] and "hands off" in bodies[-1] and "sum 5" in bodies[-1]
    assert server.requests[6]["messages"][-1]["content"][-1]["type"] == "image"


def wait_for(path: Path) -> None:
    """Return when a file is there, without sleeping between looks any longer than a look takes."""
    while not path.exists():
        pass


def test_a_run_with_its_own_prompt_tools_and_limits(sdk: Sdk) -> None:
    async def conduct(server: Server) -> None:
        found = await sdk.query(
            server,
            system_prompt="You are a parrot.",
            tools=["Bash", "Read"],
            disallowed_tools=["Bash"],
            allowed_tools=["Read", "NotebookEdit"],
            permission_mode="bypassPermissions",
            session_id="0c7d4ad5-5f6d-4b3f-9a53-1c1f6c1c7a01",
            setting_sources=[],
        )
        assert init_of(found)["tools"] == ["Bash", "Read"]
        assert (found[-1].result, found[-1].session_id[:8]) == ("done", "0c7d4ad5")
        assert found[-1].permission_denials[0]["tool_name"] == "Bash"

    with Server(ScriptedModel([Reply([calls("bash", command="touch made")]), "done"])) as server:
        asyncio.run(conduct(server))
        assert server.requests[0]["system"][0]["text"].startswith("You are a parrot.")
    assert not (sdk.folder / "made").exists()
    assert any("unknown tool in the rule 'NotebookEdit'" in line for line in sdk.stderr)


def test_a_failure_of_the_service_is_a_result_that_says_so(sdk: Sdk) -> None:
    async def conduct(server: Server) -> None:
        with pytest.raises(sdk.sdk.ResultError, match="401"):
            await sdk.query(server)

    with Server(ScriptedModel([])) as server:
        server.faults.add(Fault("status", status=401, times=None, path="/v1/messages"))
        asyncio.run(conduct(server))

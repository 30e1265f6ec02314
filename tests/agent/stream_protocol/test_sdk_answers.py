"""Answers as the SDK for Python gets them: event by event, in a form, after a fallback; what came before."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls, says, thinks
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server

from .sdk_client import NEEDS_SDK, Sdk, init_of

pytestmark = [NEEDS_SDK, pytest.mark.filterwarnings("ignore")]  # warnings of the SDK are not ours
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def sdk(tmp_path: Path) -> Sdk:
    return Sdk(tmp_path)


def test_an_answer_in_a_form_comes_with_the_events_of_the_service_and_ends_the_turn(sdk: Sdk) -> None:
    async def conduct(server: Server) -> None:
        found = await sdk.query(
            server,
            output_format={"type": "json_schema", "schema": SCHEMA},
            include_partial_messages=True,
            fallback_model="haiku",
            extra_args={"replay-user-messages": None},
        )
        assert found[-1].structured_output == {"n": 5} and found[-1].num_turns == 4
        assert "StructuredOutput" in init_of(found)["tools"]
        told = [(one.event["type"], one) for one in found if hasattr(one, "event")]
        assert [kind for kind, _ in told][:3] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
        ]
        names = [
            one.event["content_block"].get("name") for kind, one in told if kind == "content_block_start"
        ]
        assert names == [None, None, "Bash", None, "StructuredOutput", "StructuredOutput"]
        assistants = [place for place, one in enumerate(found) if type(one).__name__ == "AssistantMessage"]
        events = [getattr(one, "event", {}) for one in found]
        stops = [place for place, event in enumerate(events) if event.get("type") == "content_block_stop"]
        assert all(message + 1 == stop for message, stop in zip(assistants, stops, strict=True))
        assert found[assistants[0]].message_id == told[0][1].event["message"]["id"]

    steps: list[Step] = [
        Reply([thinks("hm"), says("let me see"), calls("bash", command="true")]),
        "the answer is five",  # without the form: it is reminded
        Reply([calls("StructuredOutput", n="five")]),
        Reply([calls("StructuredOutput", n=5)]),
    ]
    with Server(ScriptedModel(steps)) as server:
        asyncio.run(conduct(server))
        assert (len(server.requests), server.refused) == (4, [])
    assert "calling StructuredOutput" in str(server.requests[2]["messages"][-1])


def test_a_session_is_continued_copied_and_rewound(sdk: Sdk) -> None:
    async def conduct(server: Server) -> None:
        prompt = {
            "uuid": "8b1f2c1e-0d0f-4a2b-9a53-1c1f6c1c7a01",
            "type": "user",
            "session_id": "x",
            "message": {"role": "user", "content": "write"},
            "parent_tool_use_id": None,
        }

        async def prompts() -> Any:
            yield prompt

        first = await sdk.query(server, prompts(), permission_mode="acceptEdits")
        assert (sdk.folder / "made.txt").exists()
        async with sdk.sdk.ClaudeSDKClient(sdk.options(server, resume=first[-1].session_id)) as client:
            await client.rewind_files(prompt["uuid"])
            assert not (sdk.folder / "made.txt").exists()
            again = await sdk.turn(client, "go on")
        assert again[-1].session_id == first[-1].session_id
        forked = await sdk.query(server, resume=first[-1].session_id, fork_session=True)
        assert forked[-1].session_id != first[-1].session_id and forked[-1].result == "forked"
        with pytest.raises(sdk.sdk.ResultError, match="no session"):
            await sdk.query(server, resume="0c7d4ad5-5f6d-4b3f-9a53-1c1f6c1c7a01")

    steps: list[Step] = [
        Reply([calls("write", file_path="made.txt", content="x")]),
        "done",
        "again",
        "forked",
    ]
    with Server(ScriptedModel(steps)) as server:
        asyncio.run(conduct(server))
        assert [len(body["messages"]) for body in server.requests] == [1, 3, 5, 7]


def test_a_long_output_a_command_and_an_overloaded_model(sdk: Sdk) -> None:
    async def conduct(server: Server) -> None:
        options = sdk.options(server, fallback_model="haiku", permission_mode="bypassPermissions")
        async with sdk.sdk.ClaudeSDKClient(options) as client:
            found = await sdk.turn(client, "much")
            told = next(one for one in found if getattr(one, "tool_use_result", None))
            assert (
                "omitted from this line" in json.dumps(told.tool_use_result)
                or len(str(told.content)) < 1_000_000
            )
            usage = await sdk.turn(client, "/cost")
            assert "tokens" in usage[-1].result and usage[-1].num_turns == 0
            server.faults.add(Fault("status", status=529, headers={"x-should-retry": "false"}))
            fallen = await sdk.turn(client, "again")
            assert fallen[-1].result == "fine" and "claude-haiku-5-5" in fallen[-1].model_usage

    steps: list[Step] = [Reply([calls("bash", command="seq 300000")]), "much indeed", "fine"]
    with Server(ScriptedModel(steps)) as server:
        asyncio.run(conduct(server))
        assert server.requests[-1]["model"] == "claude-haiku-5-5"

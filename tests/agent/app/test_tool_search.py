"""Deferred tools: searched by the service, no part of the prompt, valid in every later request."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app.config import Config, load_config
from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.app.tool_search import SEARCH_TOOL, defers_tools, sent_definitions
from agent.cli import run_verify
from agent.errors import FieldRejected
from agent.model.anthropic.request import NAMES
from agent.model.error_mapping import map_error
from agent.model_port import RequestSettings
from compact import TokenCounter
from tests.agent.extensions.mcp.test_server import SCRIPT
from tests.agent.ui.headless_run import run_here
from tests.strict_api.reply import Reply, calls, says, thinks
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server
from tests.tables import each_row
from tools.base import Tool, no_access


def tool(name: str, words: int = 0, deferred: bool = True) -> Tool:
    async def run(arguments: Any, call: Any) -> Any:
        raise NotImplementedError

    return Tool(
        name=name,
        description="word " * words,
        arguments={"type": "object", "properties": {}},
        kind="other",
        title=str,
        access=no_access,
        run=run,
        deferred=deferred,
    )


@each_row(
    ("wanted", "url", "words", "expected"),
    [
        ("auto", "", 30_000, True),
        ("auto", "", 10_000, False),
        ("auto", "http://localhost:1", 30_000, False),
        ("on", "http://localhost:1", 0, True),
        ("off", "", 30_000, False),
    ],
)
def test_many_tools_of_servers_are_deferred_where_the_service_can_search_them(
    tmp_path: Path, wanted: str, url: str, words: int, expected: bool
) -> None:
    environ = {"ANTHROPIC_API_KEY": "k", **({"ANTHROPIC_BASE_URL": url} if url else {})}
    config: Config = replace(load_config(environ, tmp_path, tmp_path), tool_search=wanted)
    setup = RunSetup(Options(), config, tmp_path, environ)
    tools = [tool("bash", 100_000, deferred=False), tool("mcp__a__b", words)]
    assert defers_tools(setup, tools, 200_000, TokenCounter.load()) is expected
    offline = replace(setup, options=Options(offline=True))
    assert not defers_tools(offline, tools, 200_000, TokenCounter.load())


def test_a_server_without_the_search_is_sent_neither_it_nor_the_deferred_tools() -> None:
    tools = sent_definitions([tool("bash", deferred=False), tool("mcp__a__b")])
    assert [each["name"] for each in tools] == ["bash", "mcp__a__b", SEARCH_TOOL["name"]]
    assert sent_definitions([tool("bash", deferred=False)])[-1]["name"] == "bash"
    for message in (
        f"tools.2: {SEARCH_TOOL['type']} is unknown",
        "tools.1.custom.defer_loading: Extra inputs",
    ):
        refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        error = map_error(400, json.dumps(refusal), {}, 0.0, NAMES)
        assert isinstance(error, FieldRejected) and error.feature == "tool search"
    settings = RequestSettings("claude-sonnet-5-5", 100, tools=tools).without("tool search")
    assert [each["name"] for each in settings.tools] == ["bash"]


def run(
    folder: Path, capfd: pytest.CaptureFixture[str], steps: list[Step], *argv: str, search: str = "on"
) -> tuple[list[dict[str, Any]], str]:
    """Run with the server of the tests; the bodies of the requests, and the output."""
    settings = folder / "home/.config/makeroom/settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'tool_search = "{search}"\n')
    servers = {"mcpServers": {"words": {"command": sys.executable, "args": [str(SCRIPT)]}}}
    with Server(ScriptedModel(steps)) as server:
        flags = ("--mcp-config", json.dumps(servers), "--allowedTools", "mcp__words__echo")
        ended = run_here(folder, capfd, server, *argv, *flags)
        assert ended.returncode == 0, ended.stderr
        return list(server.requests), ended.stdout


def test_a_found_tool_is_called_and_the_search_stays_valid_in_all_later_requests(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    search = {"type": "server_tool_use", "name": "tool_search_tool_bm25", "input": {"query": "says again"}}
    first: list[Step] = [
        Reply([thinks("hm"), says("I search."), search, calls("mcp__words__echo", text="hi")]),
        Reply([thinks("good"), says("done")]),
    ]
    bodies, out = run(tmp_path, capfd, first, "say hi")
    assert out == "done\n"
    tools = {each["name"]: each for each in bodies[0]["tools"]}
    deferred = [name for name, each in tools.items() if each.get("defer_loading")]
    assert "mcp__words__echo" in deferred and "mcp" not in deferred and "bash" not in deferred
    assert tools["tool_search_tool_bm25"] == SEARCH_TOOL
    said = bodies[1]["messages"][-2]["content"]
    assert [each["type"] for each in said] == [
        "thinking", "text", "server_tool_use", "tool_search_tool_result", "tool_use",
    ]  # fmt: skip
    assert said[3]["content"]["tool_references"][0]["tool_name"] == "mcp__words__echo"
    assert "echo: hi" in json.dumps(bodies[1]["messages"][-1])

    _, out = run(tmp_path, capfd, [], "-c", "/context")
    assert "MCP tools deferred" in out
    _, out = run(tmp_path, capfd, [], "-c", "/mcp")
    assert "MCP tools deferred" in out

    bodies, _ = run(tmp_path, capfd, ["still here"], "-c", "and now?")
    assert "tool_reference" in json.dumps(bodies[0]["messages"])
    bodies, _ = run(tmp_path, capfd, ["without"], "-c", "once more", search="off")
    sent = json.dumps(bodies[0])
    assert '"tool_reference"' not in sent and "defer_loading" not in sent
    assert "tool_search_tool_result" in sent

    run(tmp_path, capfd, ["a summary of it all"], "-c", "/compact")
    bodies, _ = run(tmp_path, capfd, ["after"], "-c", "go on")
    assert any(each.get("defer_loading") for each in bodies[0]["tools"])
    assert run_verify([], tmp_path) == 0

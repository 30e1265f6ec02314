"""Servers that users use, where they are installed.

MAKEROOM_NPM names a directory in which @modelcontextprotocol/server-everything, -filesystem and -memory are
installed by npm; mcp-server-git, -fetch and -time are looked for on the PATH.
"""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Coroutine, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent.events import ToolCallFinished
from agent.extensions.mcp.entries import read_entry
from agent.extensions.mcp.files import ServerFiles
from agent.extensions.mcp.server import McpServer, ServerLimits
from agent.extensions.mcp.source import McpServers, McpSetup
from agent.extensions.mcp.tool import mcp_tool
from agent.permissions import PermissionRules, PermissionStore, parse_rules
from agent.ports import Allow
from tests.agent.loop.world import World, world
from tests.strict_api.reply import Reply, calls
from transcripts.messages import ImageBlock

pytestmark = pytest.mark.sweep
PACKAGES = Path(os.environ.get("MAKEROOM_NPM", "/nonexistent")) / "node_modules" / "@modelcontextprotocol"
ENVIRONMENT = {**os.environ, "ANTHROPIC_API_KEY": "sk-ant-secret"}


def npm(name: str, *args: str, **more: Any) -> dict[str, Any]:
    """The entry of a server that npm installs."""
    program = PACKAGES / f"server-{name}" / "dist" / "index.js"
    if not program.exists() or shutil.which("node") is None:
        pytest.skip(f"server-{name} is not installed")
    return {"command": "node", "args": [str(program), *args], **more}


def pip(name: str, *args: str) -> dict[str, Any]:
    """The entry of a server that pip installs."""
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return {"command": name, "args": [*args]}


def with_servers(
    folder: Path,
    entries: Mapping[str, Mapping[str, Any]],
    act: Callable[[dict[str, McpServer]], Coroutine[Any, Any, None]],
    elicits: bool = True,
) -> None:
    """Act with these servers, connected."""

    async def run() -> None:
        source = McpServers(McpSetup(ServerFiles(folder, folder, strict=True), folder / "state"))
        await source.open(folder, ENVIRONMENT)
        for name, raw in entries.items():
            entry = read_entry(name, raw, "user", ENVIRONMENT)
            server = McpServer(entry, name, source.opener(entry, name), ServerLimits(30, 30, elicits))
            source.servers.append(server)
        try:
            await asyncio.gather(*(server.ready() for server in source.servers))
            await act({server.entry.name: server for server in source.servers})
        finally:
            await source.close()

    asyncio.run(run())


async def turn(made: World, servers: Mapping[str, McpServer], *rules: str, deny: str = "") -> list[Any]:
    """Run a turn with the servers; the results of its calls."""
    allow = tuple(rule for text in rules for rule in parse_rules(text))
    denied = parse_rules(deny) if deny else ()
    made.context.permissions = PermissionStore(PermissionRules(allow=allow, deny=denied))
    made.context.tools = {"mcp": mcp_tool([*servers.values()])}
    await made.turn("go")
    await made.context.model.close()
    made.check()
    return [event.result for event in made.told(ToolCallFinished)]


def call(server: str, tool: str, **given: Any) -> Reply:
    return Reply([calls("mcp", action="call", server=server, tool=tool, arguments=given)])


def text_of(result: Any) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


def test_everything_answers_with_text_images_links_and_structure(tmp_path: Path) -> None:
    steps: list[Reply | str] = [
        call("e", "echo", message="hello"),
        call("e", "get-tiny-image"),
        call("e", "get-resource-links", count=2),
        call("e", "get-structured-content", location="Chicago"),
        call("e", "get-env"),
        call("e", "trigger-elicitation-request"),
        "done",
    ]

    async def act(servers: dict[str, McpServer]) -> None:
        assert len(servers["e"].offer.tools) == 14
        with world(steps, tmp_path) as made:
            results = await turn(made, servers, "mcp__e")
        assert text_of(results[0]) == "Echo: hello"
        assert any(isinstance(block, ImageBlock) for block in results[1].content), text_of(results[1])
        assert text_of(results[2]).count("@e:demo://") == 2
        assert "temperature" in text_of(results[3])
        assert "sk-ant" not in text_of(results[4]) and "ANTHROPIC" not in text_of(results[4])
        assert "declined" in text_of(results[5]).lower() and not results[5].error

    with_servers(tmp_path, {"e": npm("everything")}, act)


def test_without_a_user_nothing_is_elicited(tmp_path: Path) -> None:
    async def act(servers: dict[str, McpServer]) -> None:
        assert len(servers["e"].offer.tools) == 13

    with_servers(tmp_path, {"e": npm("everything")}, act, elicits=False)


def test_a_long_call_is_given_up_at_once_and_the_next_one_works(tmp_path: Path) -> None:
    async def act(servers: dict[str, McpServer]) -> None:
        given = {"name": "trigger-long-running-operation", "arguments": {"duration": 60, "steps": 60}}
        told: list[str] = []
        waiting = asyncio.ensure_future(servers["e"].request("tools/call", given, told.append))
        while not told:
            await asyncio.sleep(0.01)
        began = asyncio.get_running_loop().time()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert asyncio.get_running_loop().time() - began < 0.3
        answer = await servers["e"].request("tools/call", {"name": "echo", "arguments": {"message": "x"}})
        assert answer["content"][0]["text"] == "Echo: x"

    with_servers(tmp_path, {"e": npm("everything")}, act)


def test_files_stay_within_their_root_and_large_ones_are_kept_whole(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    text = "".join(f"this is line {number}\n" for number in range(110_000))
    (root / "large.txt").write_text(text)
    steps: list[Reply | str] = [
        call("fs", "read_text_file", path="/etc/passwd"),
        call("fs", "read_text_file", path=str(root / "large.txt")),
        "done",
    ]

    async def act(servers: dict[str, McpServer]) -> None:
        with world(steps, tmp_path) as made:
            outside, large = await turn(made, servers, "mcp__fs")
        assert outside.error and "outside" in text_of(outside)
        assert len(text) > 2_000_000 and len(text_of(large)) < 26_000
        assert (tmp_path / large.stored.path).read_text() == text

    with_servers(tmp_path, {"fs": npm("filesystem", str(root))}, act)


def test_git_looks_and_a_rule_keeps_it_from_committing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    where = str(tmp_path / "repository")
    steps: list[Reply | str] = [
        call("git", "git_status", repo_path=where),
        call("git", "git_commit", repo_path=where, message="x"),
        "done",
    ]

    async def act(servers: dict[str, McpServer]) -> None:
        with world(steps, tmp_path) as made:
            status, commit = await turn(made, servers, "mcp__git", deny="mcp__git__git_commit")
        assert "On branch" in text_of(status) and not status.error
        assert "the rule mcp__git__git_commit denies this" in text_of(commit)

    with_servers(tmp_path, {"git": pip("mcp-server-git")}, act)


class Page(BaseHTTPRequestHandler):
    """A page that anyone may fetch."""

    def do_GET(self) -> None:
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"words of a page")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_fetching_asks_first(tmp_path: Path) -> None:
    entry = pip("mcp-server-fetch", "--allow-private-ips")
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        steps: list[Reply | str] = [
            call("fetch", "fetch", url=f"http://127.0.0.1:{server.server_port}/"),
            "done",
        ]

        async def act(servers: dict[str, McpServer]) -> None:
            with world(steps, tmp_path, Allow()) as made:
                (result,) = await turn(made, servers)
                assert [each.tool for each in made.approver.questions] == ["mcp__fetch__fetch"]
            assert "words of a page" in text_of(result)

        with_servers(tmp_path, {"fetch": entry}, act)
        server.shutdown()


def test_a_graph_in_memory_survives_a_restart(tmp_path: Path) -> None:
    entry = npm("memory", env={"MEMORY_FILE_PATH": str(tmp_path / "graph.jsonl")})
    entity = {"name": "Ada", "entityType": "person", "observations": ["likes engines"]}
    for steps in (
        [call("m", "create_entities", entities=[entity]), "done"],
        [call("m", "search_nodes", query="engines"), "done"],
    ):

        async def act(servers: dict[str, McpServer], steps: Any = steps) -> None:
            with world(steps, tmp_path) as made:
                (result,) = await turn(made, servers, "mcp__m")
            assert "Ada" in text_of(result)

        with_servers(tmp_path, {"m": entry}, act)

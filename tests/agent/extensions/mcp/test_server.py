"""Connections to servers in processes of their own, good ones and bad ones."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from agent.extensions.mcp.entries import read_entry
from agent.extensions.mcp.failures import ServerFailed
from agent.extensions.mcp.files import ServerFiles
from agent.extensions.mcp.prompts import find_prompt, listed_prompts
from agent.extensions.mcp.resources import attached_resource, mentioned_resources, resource_summaries
from agent.extensions.mcp.server import McpServer, ServerChange, ServerLimits
from agent.extensions.mcp.server_log import MAX_SERVER_LOG_BYTES, ServerLog
from agent.extensions.mcp.source import McpServers, McpSetup
from agent.extensions.mcp.tool import mcp_tool
from agent.permissions import PermissionRules, PermissionStore, parse_rules
from tests.agent.loop.world import world
from tests.strict_api.reply import Reply, calls
from tools.base import ToolContext, ToolError
from transcripts.secrets import SecretMasks

SCRIPT = str(Path(__file__).parent / "server_script.py")
NO_HOME = "/dev/null/home"  # cannot be created by anyone
ENVIRON = {"PATH": os.environ["PATH"], "HOME": NO_HOME, "ANTHROPIC_API_KEY": "sk-ant-secret"}


def script(*modes: str, **more: object) -> Mapping[str, object]:
    """The entry of a server that behaves so."""
    return {"command": sys.executable, "args": ["-I", "-S", SCRIPT, *modes], **more}


@asynccontextmanager
async def servers_of(
    folder: Path, environ: Mapping[str, str] = ENVIRON, /, **entries: Mapping[str, object]
) -> AsyncIterator[dict[str, McpServer]]:
    """Servers that are being connected; all are ended afterwards."""
    source = McpServers(McpSetup(ServerFiles(folder, folder), folder / "state"))
    await source.open(folder, environ)
    for name, raw in entries.items():
        entry = read_entry(name, raw, "user", environ)
        server = McpServer(entry, name, source.opener(entry, name), ServerLimits(20.0, 20.0))
        source.servers.append(server)
        server.begin()
    try:
        yield {server.entry.name: server for server in source.servers}
    finally:
        await source.close()


async def call(server: McpServer, name: str, **given: object) -> str:
    answer = await server.request("tools/call", {"name": name, "arguments": given})
    return str(answer["content"][0]["text"])


async def failure_of(server: McpServer, name: str) -> str:
    try:
        return await call(server, name)
    except ServerFailed as error:
        return str(error)


def state_of(server: McpServer) -> str:
    return server.state


def test_bad_servers_fail_with_one_line_and_leave_the_good_ones_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.extensions.mcp.stdio.MAX_JUNK_LINES", 2_000)
    modes = ("silent", "deaf", "exits", "ends", "error", "types")
    entries = {mode: script(mode) for mode in modes}
    fine = {mode: script(mode) for mode in ("junk", "noise", "ids", "slow", "loop", "odd")}
    entries |= {"missing": {"command": "no-such-program"}, "fine": script(), **fine}
    entries["endless"] = {"command": "yes"}

    async def run() -> None:
        async with servers_of(tmp_path, **entries) as servers:
            for name in ("silent", "deaf"):
                servers[name].limits = ServerLimits(0.4)
                await servers[name].reconnect()
            await asyncio.gather(*(server.begin() for server in servers.values()))
            told = {name: server.failure for name, server in servers.items()}
            assert told["silent"] == told["deaf"] == "no answer within 0.4 s"
            assert told["exits"] == "it exited with code 1: cannot start: no such database"
            assert told["ends"].startswith("it exited with code 0")
            assert told["error"] == "no tools today"
            assert told["endless"].startswith("it wrote 2,000 lines that are not messages")
            assert (
                told["missing"]
                == "the program 'no-such-program' was not found; install it or correct the command"
            )
            assert {name: told[name] for name in ("fine", *fine)} == dict.fromkeys(("fine", *fine), "")
            for name in ("fine", "junk", "noise", "ids", "slow"):
                assert await call(servers[name], "echo", text="hi") == "echo: hi"
            assert servers["odd"].offer.tools == {} and servers["odd"].offer.left_out == ("x" * 140,)
            assert servers["types"].offer.tools == {} and len(servers["loop"].offer.tools) == 8
            log = next((tmp_path / "state" / "mcp").glob("noise-*.log"))
            assert 79_000 < log.stat().st_size <= MAX_SERVER_LOG_BYTES and log.stat().st_mode & 0o777 == 0o600

    asyncio.run(run())


def test_a_failure_is_reported_once_however_often_the_server_is_tried(tmp_path: Path) -> None:
    lines: list[str] = []

    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"missing": {"command": "no-such-program"}}}')

    async def run() -> None:
        places = ServerFiles(tmp_path, tmp_path)
        source = McpServers(
            McpSetup(places, tmp_path / "state", approved=lambda item: True, tell=lines.append)
        )
        await source.open(tmp_path, ENVIRON)
        (server,) = source.servers
        for _ in range(3):
            await server.reconnect()
        await source.close()

    asyncio.run(run())
    assert len(lines) == 1 and "no-such-program" in lines[0]


def test_a_lost_connection_that_comes_back_by_itself_needs_no_command(tmp_path: Path) -> None:
    lines: list[str] = []
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"calc": script()}}))

    async def run() -> None:
        places = ServerFiles(tmp_path, tmp_path)
        source = McpServers(
            McpSetup(places, tmp_path / "state", approved=lambda item: True, tell=lines.append)
        )
        await source.open(tmp_path, ENVIRON)
        (server,) = source.servers
        await failure_of(server, "die")
        assert await call(server, "echo", text="again") == "echo: again"
        await source.close()

    asyncio.run(run())
    assert lines == ["MCP server calc: it exited with code 3: fatal: as was asked; reconnecting"]


def test_calls_have_a_limit_can_be_given_up_and_survive_the_servers_death(tmp_path: Path) -> None:
    async def run() -> None:
        async with servers_of(tmp_path, a=script(timeout=1000), b=script()) as servers:
            a, b = servers["a"], servers["b"]
            assert await failure_of(a, "wait") == "no answer within 1 s; the call was cancelled"
            waiting = asyncio.ensure_future(call(b, "wait"))
            assert await call(b, "echo", text="meanwhile") == "echo: meanwhile"
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert waiting.cancelled()  # its server never answers
            assert await failure_of(b, "die") == "it exited with code 3: fatal: as was asked"
            assert await call(b, "echo", text="again") == "echo: again"
            shown = await call(b, "env")
            assert f"PATH={ENVIRON['PATH']}" in shown and "sk-ant" not in shown and "ANTHROPIC" not in shown
            await b.toggle(False)
            assert state_of(b) == "disabled" and "disabled" in await failure_of(b, "echo")
            await b.toggle(True)
            assert state_of(b) == "connected"

    asyncio.run(run())


def test_an_answer_that_cannot_be_read_fails_its_call_at_once(tmp_path: Path) -> None:
    """Invalid UTF-8 does not break the connection; another waiting call continues."""

    async def run() -> None:
        async with servers_of(tmp_path, a=script(timeout=20_000)) as servers:
            server = servers["a"]
            waiting = asyncio.ensure_future(call(server, "wait"))
            for given in ({}, {"last": True}):
                assert await call(server, "latin", **given) == "caf\ufffd"
                for name, why in {"deep": "it is nested too deeply", "cut": "Expecting value"}.items():
                    with pytest.raises(ServerFailed, match=f"its answer cannot be read: {why}"):
                        await call(server, name, **given)
            assert not waiting.done()
            waiting.cancel()

    asyncio.run(run())


def test_a_burst_of_changes_is_one_note_and_a_question_of_the_server_is_declined(tmp_path: Path) -> None:
    async def run() -> None:
        async with servers_of(tmp_path, a=script()) as servers:
            a = servers["a"]
            a.limits = ServerLimits(20.0, 20.0, elicits=True)
            told: list[str] = []
            changed = asyncio.Event()

            def note(server: McpServer, change: ServerChange) -> None:
                told.append(f"{change.kind} {change.question}".strip())
                if change.kind == "changed":
                    changed.set()

            a.changed = note
            await a.reconnect()
            assert "asks" in a.greeting["capabilities"]
            assert await call(a, "ask") == '{"action": "decline"}'
            assert await call(a, "burst") == "changed"
            await asyncio.wait_for(changed.wait(), 10)
            assert told == ["connected", "asked name?", "changed"] and "late" in a.offer.tools

    asyncio.run(run())


def running(mark: str) -> int:
    """Count the processes with the mark in their command line."""
    lines = [path for path in Path("/proc").glob("[0-9]*/cmdline") if os.access(path, os.R_OK)]
    found = 0
    for line in lines:
        with suppress(OSError):
            found += mark.encode() in line.read_bytes()
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("namespace", ["on", "off"])
def test_no_process_outlives_the_servers(tmp_path: Path, namespace: str) -> None:
    mark = f"mark-{uuid4().hex}"
    environ = {**ENVIRON, "MAKEROOM_NAMESPACE": namespace}
    entries = {"a": script(mark), "parent": script("parent", "deaf", mark)}

    async def run() -> None:
        async with servers_of(tmp_path, environ, **entries) as servers:
            await servers["a"].ready()
            while running(mark) < 3:  # the child of a server has a session of its own
                await asyncio.sleep(0)

    asyncio.run(run())
    assert running(mark) == 0


def test_prompts_and_resources_of_servers_are_there_for_the_user(tmp_path: Path) -> None:
    async def run() -> None:
        async with servers_of(tmp_path, a=script(), other=script("exits")) as servers:
            await asyncio.gather(*(server.begin() for server in servers.values()))
            given = list(servers.values())
            context = ToolContext(tmp_path, tmp_path, tmp_path / "outputs", tmp_path / "journals")
            assert [name for name, _ in listed_prompts(given)] == ["mcp__a__weather"]
            assert [name for name, _ in resource_summaries(given)] == ["@a:note://one"]
            called = find_prompt(given, '/mcp__a__weather "New York" NY')
            assert called is not None and await called.text() == "The weather in New York?"
            lacking = find_prompt(given, "/mcp__a__weather")
            with pytest.raises(ToolError, match="it needs city"):
                await (lacking or called).text()
            assert find_prompt(given, "/mcp__a__nothing") is None and find_prompt(given, "weather") is None
            found = mentioned_resources(given, "see @a:note://one, @a:note://one. and mail@a:b @no:thing")
            assert found == [(servers["a"], "note://one")]
            made = await attached_resource(*found[0], context, "prompt.1")
            assert made.message == "read @a:note://one" and made.blocks[0].attachment
            assert "content of note://one" in getattr(made.blocks[0], "text", "")
            lost = await attached_resource(servers["other"], "x", context, "prompt.2")
            assert lost.trouble and lost.blocks == () and "no such database" in lost.message

    asyncio.run(run())


@pytest.mark.sweep
@pytest.mark.parametrize(
    "mode", ["pings", "flood", "notes", "deep", "bytes", "huge", "crash", "half", "wrong"]
)
def test_no_server_keeps_a_turn_from_its_end(tmp_path: Path, mode: str) -> None:
    async def run() -> None:
        async with servers_of(tmp_path, bad=script(mode, timeout=2000), good=script()) as servers:
            await asyncio.gather(*(server.begin() for server in servers.values()))
            steps: list[Reply | str] = [
                *(
                    Reply([calls("mcp", action="call", server="bad", tool="echo", arguments={"text": word})])
                    for word in "abc"
                ),
                Reply([calls("mcp", action="call", server="good", tool="echo", arguments={"text": "d"})]),
                "done",
            ]
            with world(steps, tmp_path) as made:
                allowed = parse_rules("mcp__*")
                made.context.permissions = PermissionStore(PermissionRules(allow=allowed))
                made.context.tools = {"mcp": mcp_tool(list(servers.values()))}
                assert (await asyncio.wait_for(made.turn("go"), 60)).reason == "done"
                await made.context.model.close()
                made.check()
                *bad, good = made.texts()
            assert good == "echo: d" and len(bad) == 3
            fine = mode in ("pings", "flood", "notes", "deep", "bytes")
            assert (bad == ["echo: a", "echo: b", "echo: c"]) is fine, bad
            log = next((tmp_path / "state" / "mcp").glob("bad-*.log"), None)
            assert log is None or log.stat().st_size <= MAX_SERVER_LOG_BYTES

    asyncio.run(run())


def test_a_secret_that_a_server_writes_in_two_pieces_is_not_in_its_log(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "log", SecretMasks(("hunter22-secret",)), str)
    for piece in (b"started with hunter", b"22-secret\nsk-ant-api03-Zz9yX8wV7u", b"T6sR5qP4oN3mL2\nend"):
        log.take(piece)
    log.end()
    assert log.path.read_text() == "started with ****\n[Anthropic key masked]\nend" and log.last == "end"


def test_the_reason_of_npm_counts_and_not_the_advice_and_the_path_of_a_log_behind_it(tmp_path: Path) -> None:
    reason = "npm error 404 Not Found - GET https://registry.npmjs.org/absent"
    log = ServerLog(tmp_path / "log", SecretMasks(()), str)
    log.take(f"npm error code E404\n{reason}\nnpm error 404\n".encode())
    log.take(b"npm error 404 tarball, folder, http url, or git url.\n")
    log.take(b"npm error A complete log of this run can be found in: /home/me/.npm/_logs/debug-0.log\n")
    assert log.last == reason
    log.take(b"listening\n")
    assert log.last == "listening"

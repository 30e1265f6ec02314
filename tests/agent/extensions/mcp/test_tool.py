"""The tool `mcp` in a turn: its lookups, and how its calls are judged, recorded and reported."""

import asyncio
import base64
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.commands.mcp import server_lines
from agent.events import ToolCallFinished
from agent.extensions.mcp.calls import checked_call, direct_tool, server_tool
from agent.extensions.mcp.entries import read_entry
from agent.extensions.mcp.failures import ServerFailed
from agent.extensions.mcp.prompts import CalledPrompt
from agent.extensions.mcp.results import ResultPlace, mcp_result, resource_result
from agent.extensions.mcp.schemas import MAX_SCHEMA_CHARS, is_declarable
from agent.extensions.mcp.server import McpServer
from agent.extensions.mcp.session import McpSession, Message
from agent.extensions.mcp.tool import mcp_tool, news_of, restricted_tool
from agent.permissions import PermissionRules, PermissionStore, parse_rules
from agent.ports import Allow, HookAnswer, HookEvent
from compact.tokens import TokenCounter
from tests.agent.loop.world import World, world
from tests.strict_api.reply import Reply, calls
from tests.tables import each_row
from tools.base import ToolContext, ToolError
from tools.registry import definitions
from transcripts.messages import ImageBlock, TextBlock
from transcripts.view import to_json_bytes

ADD: Message = {
    "name": "add",
    "description": "Adds numbers",
    "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}
ODD: Message = {"name": "odd", "inputSchema": {"type": "object", "anyOf": [{}], "properties": {}}}
LYING: Message = {"name": "lies", "inputSchema": {"type": "object", "properties": {"a": {"type": "nope"}}}}
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154789c6300010000050001"
        "0d0a2db40000000049454e44ae426082"
    )
).decode()
ENTRY = read_entry(
    "calc", {"command": "x", "env": {"GITHUB_TOKEN": "ab12cd34ef56gh78", "PORT": "8080"}}, "user", {}
)


class Loopback:
    """A server without a process: answers by a function of method and parameters."""

    hint = ""

    def __init__(self, answer: Callable[[str, Message], Message]) -> None:
        self.answer = answer
        self.calls: list[Message] = []

    async def open(self, deliver: Callable[[Any], None], lost: Callable[[str], None]) -> "Loopback":
        self.deliver = deliver
        return self

    async def send(self, message: Message) -> None:
        if "id" in message:
            self.calls.append(message)
            result = self.answer(message["method"], message.get("params") or {})
            self.deliver({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def failure(self, reason: str) -> ServerFailed:
        return ServerFailed(reason)

    def close(self) -> None:
        pass


def server_with(*tools: Message, **answers: Message) -> McpServer:
    def answer(method: str, params: Message) -> Message:
        given: Mapping[str, Message] = {
            "tools/list": {"tools": [*tools]},
            "resources/list": {"resources": [{"uri": "note://1"}]},
            "initialize": {"capabilities": {"tools": {}, "resources": {}}},
            "tools/call": {"content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]},
            "resources/read": {"contents": [{"uri": params.get("uri"), "text": "a note"}]},
        }
        return answers.get(method.replace("/", "_")) or given[method]

    entry = read_entry("calc", {"command": "x"}, "user", {})
    return McpServer(entry, "calc", Loopback(answer).open)


def world_with(made: World, server: McpServer, *rules: str, deny: str = "", **more: Any) -> None:
    """Have the world's turn use the server through `mcp`."""
    allow = tuple(rule for text in rules for rule in parse_rules(text))
    denied = parse_rules(deny) if deny else ()
    made.context.permissions = PermissionStore(PermissionRules(allow=allow, deny=denied, **more))
    made.context.tools = {"mcp": mcp_tool([server])}


def results_of(made: World) -> list[str]:
    """Run the turn; return the texts of the results."""
    made.run()
    return made.texts()


def mcp(**given: Any) -> Reply:
    return Reply([calls("mcp", **given)])


def test_the_model_finds_describes_calls_and_reads(tmp_path: Path) -> None:
    steps: list[Reply | str] = [
        mcp(action="search", query="numbers"),
        mcp(action="search", query="nothing such"),
        mcp(action="describe", server="calc", tool="add"),
        mcp(action="call", server="calc", tool="add", arguments={"a": 5}),
        mcp(action="call", tool="mcp__calc__add", arguments='{"a": 6}'),
        Reply([calls("mcp__calc__add", a=7)]),
        mcp(action="read"),
        mcp(action="read", server="calc", uri="@calc:note://1"),
        "done",
    ]
    with world(steps, tmp_path) as made:
        world_with(made, server_with(ADD, ODD), "mcp__calc")
        assert made.run().reason == "done"
        texts = made.texts()
        assert texts[0] == "calc add: Adds numbers" and texts[1].startswith("No tool matches")
        assert texts[2].startswith('mcp__calc__add: Adds numbers\nIts parameters: {"type": "object"')
        assert texts[3:6] == ['{"a": 5}', '{"a": 6}', '{"a": 7}']
        assert texts[6:] == ["@calc:note://1 ", "@calc:note://1\na note"]
        names = [event.name for event in made.told(ToolCallFinished)]
        assert names == ["mcp"] * 3 + ["mcp__calc__add"] * 3 + ["mcp", "mcp__calc__resources"]
        assert made.told(ToolCallFinished)[3].result.about["tool"] == "mcp__calc__add"
        made.check()


def test_a_call_is_judged_under_the_name_of_the_servers_tool(tmp_path: Path) -> None:
    call = mcp(action="call", server="calc", tool="add", arguments={"a": 1})
    with world([call, call, "done"], tmp_path, Allow("session")) as made:
        world_with(made, server_with(ADD))
        made.run()
        (question,) = made.approver.questions
        assert (question.tool, question.prefix, dict(question.input)) == (
            "mcp__calc__add",
            "mcp__calc__add",
            {"a": 1},
        )
        assert made.texts() == ['{"a": 1}', '{"a": 1}']
    many = {f"field_{number}": {"list": [number]} for number in range(30)}
    long = mcp(action="call", server="calc", tool="add", arguments={**many, "a": 1, "b": "x" * 9_000 + "!"})
    read = mcp(action="read", server="calc", uri="note://" + "x" * 300 + "!")
    with world([call, long, read, "done"], tmp_path, *[Allow()] * 3) as made:
        world_with(made, server_with(ADD))
        made.run()
        short, *cut = (each.preview.text for each in made.approver.questions)
        assert short == '{"a": 1}' and all(text.rstrip('"}\n').endswith("x!") for text in cut)
        assert json.loads(cut[0])["field_29"] == {"list": [29]} and cut[0].count("\n") > 30
    with world([call, "done"], tmp_path) as made:
        world_with(made, server_with(ADD), "mcp__calc")
        told: list[tuple[str, object, object]] = []

        class Recorder:
            async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
                told.append((event, about.get("tool"), about.get("input")))
                return HookAnswer()

        made.context.hooks = Recorder()
        made.run()
        wanted = [(event, "mcp__calc__add", {"a": 1}) for event in (HookEvent.PRE_TOOL, HookEvent.POST_TOOL)]
        assert [each for each in told if each[1]] == wanted
    for rules in ({"deny": "mcp__calc__add"}, {"deny": "mcp__*"}, {"deny": "mcp__calc"}, {"mode": "plan"}):
        with world([call, "done"], tmp_path) as made:
            world_with(made, server_with(ADD), **rules)
            made.run()
            denied = "plan mode is on" if "mode" in rules else "the rule "
            assert made.texts()[0].startswith(f"Permission denied: {denied}")
            assert made.context.permissions.denied[0].name == "mcp__calc__add"
            assert made.context.permissions.denied[0].input == {"a": 1}
    with world([call, "done"], tmp_path) as made:
        world_with(made, server_with(ADD), "mcp__calc__*", mode="plan")
        made.run()
        assert made.texts() == ['{"a": 1}']


def test_mistakes_in_a_call_are_answered_with_what_would_be_right(tmp_path: Path) -> None:
    steps: list[Reply | str] = [
        mcp(action="call", server="calc", tool="add", arguments={"b": 1}),
        mcp(action="call", server="calc", tool="sub"),
        mcp(action="call", server="nope", tool="add"),
        mcp(action="call", server="calc", tool="lies", arguments={"a": 1}),
        mcp(action="dance"),
        mcp(action="call", server="calc", tool="add", arguments="[" * 2_500),
        mcp(action="call", server="calc", tool="add", arguments='{"a": NaN}'),
        "done",
    ]
    with world(steps, tmp_path) as made:
        world_with(made, server_with(ADD, LYING), "mcp__calc")
        made.run()
        texts = made.texts()
        assert "`a` is missing" in texts[0] and json.dumps(ADD["inputSchema"]) in texts[0]
        assert texts[1] == "calc has no tool 'sub'. It has: add, lies."
        assert texts[2] == "Unknown MCP server 'nope'. The servers are: calc."
        assert texts[3] == '{"a": 1}', "the server judges what its own schema cannot"
        assert texts[4].startswith("mcp could not be called:")
        assert texts[5] == texts[6] == "arguments must be a JSON object."
        made.check()


def test_an_agent_uses_no_other_tools_of_servers_than_those_it_is_given(tmp_path: Path) -> None:
    call = mcp(action="call", server="calc", tool="add", arguments={"a": 1})
    for allowed, denied, fine in (
        (None, (), True),
        (("mcp__calc__add",), (), True),
        (("mcp__calc",), ("mcp__calc__add",), False),
        (("mcp__other__*",), (), False),
        (None, ("mcp__calc__odd",), True),
    ):
        with world([call, mcp(action="search"), "done"], tmp_path) as made:
            world_with(made, server_with(ADD), "mcp__calc")
            made.context.tools = {"mcp": restricted_tool(made.context.tools["mcp"], allowed, denied)}
            made.run()
            assert made.texts() == [
                '{"a": 1}' if fine else "You may not use mcp__calc__add.",
                "calc add: Adds numbers",
            ]


def result_of(folder: Path, answer: Message) -> Any:
    place = ResultPlace(ENTRY, ToolContext(folder, folder, folder / "outputs", folder / "journals"), "7.1")
    return asyncio.run(mcp_result(answer, place, {}))


def test_results_are_texts_checked_images_and_files(tmp_path: Path) -> None:
    content = [
        {"type": "text", "text": "a\x1b[31mb"},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "audio", "data": base64.b64encode(b"RIFFsound").decode(), "mimeType": "audio/wav"},
        {"type": "audio", "data": "%", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "note://1", "name": "one"},
        {"type": "resource", "resource": {"uri": "note://2", "text": "two"}},
        {"type": "resource", "resource": {"uri": "note://3", "blob": PIXEL}},
        {"type": "resource", "resource": {"uri": "note://4", "blob": "AAAA"}},
        {"type": "hologram"},
    ]
    result = result_of(tmp_path, {"content": content, "structuredContent": {"x": 1}, "isError": True})
    text, *images = result.content
    assert [type(each) for each in images] == [ImageBlock, ImageBlock] and result.error
    lines = text.text.split("\n")
    assert lines[0] == "ab" and lines[1].startswith("[image/png, 3 bytes: outputs/")
    sound = tmp_path / lines[2].partition(": ")[2].rstrip("]")
    assert sound.read_bytes() == b"RIFFsound" and sound.suffix == ".wav"
    assert lines[3] == "[audio/wav: the server sent invalid base64]"
    assert lines[4:7] == ["@calc:note://1 one", "@calc:note://2", "two"]
    assert lines[7:9] == ["@calc:note://3", "@calc:note://4"] and lines[10] == '{"type": "hologram"}'
    assert lines[9].startswith("[application/octet-stream, 3 bytes: outputs/")
    said = result_of(tmp_path, {"content": [{"type": "text", "text": "ab12cd34ef56gh78 at 8080"}]}).content[0]
    assert "ab12cd34ef56gh78" not in said.text and said.text.endswith(" at 8080")
    assert result_of(tmp_path, {"structuredContent": {"x": 1}}).content == (TextBlock('{"x": 1}'),)
    assert result_of(tmp_path, {"content": 5}).content == (TextBlock("(no output)"),)


def test_few_files_of_a_result_are_saved(tmp_path: Path) -> None:
    place = ResultPlace(ENTRY, ToolContext(tmp_path, tmp_path, tmp_path, tmp_path), "1.1")
    sound = {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"}
    parts = [sound] * 1_000 + [{"type": "text", "text": "the end"}]
    (block,) = asyncio.run(mcp_result({"content": parts}, place, {})).content
    assert isinstance(block, TextBlock)
    assert "the end" in block.text and "[970 more images and files omitted]" in block.text
    assert len(list(tmp_path.glob("**/*.wav"))) == 30


def test_a_long_result_is_cut_and_kept_whole(tmp_path: Path) -> None:
    text = "".join(f"line {n}\n" for n in range(50_000))
    result = result_of(tmp_path, {"content": [{"type": "text", "text": text}]})
    shown = result.content[0].text
    assert len(shown) < 26_000 and shown.startswith("line 0\n") and shown.endswith("line 49999\n")
    assert result.stored.size == len(text) and result.stored.path in shown
    assert (tmp_path / result.stored.path).read_text() == text


def test_a_broken_image_or_an_empty_resource_spoils_nothing(tmp_path: Path) -> None:
    broken = base64.b64encode(b"\x89PNG\r\n\x1a\nnot really a picture").decode()
    result = result_of(tmp_path, {"content": [{"type": "image", "data": broken}]})
    assert "image omitted" in result.content[0].text
    place = ResultPlace(ENTRY, ToolContext(tmp_path, tmp_path, tmp_path, tmp_path), "1.1")
    assert asyncio.run(resource_result({"contents": None}, place, {})).content == (TextBlock("(no output)"),)


def test_only_schemas_that_the_api_takes_are_declared() -> None:
    async def run() -> McpServer:
        server = server_with(ADD, ODD, LYING)
        await server.ready()
        return server

    server = asyncio.run(run())
    assert direct_tool(server, "add").arguments == ADD["inputSchema"]
    for name in ("odd", "lies"):
        tool = direct_tool(server, name)
        assert (
            tool.arguments == {"type": "object", "properties": {}} and "Its arguments: {" in tool.description
        )
    assert not is_declarable({"type": "object", "properties": {"a b": {}}})


def with_schema(schema: object) -> McpServer:
    """A connected server whose tool `t` has this schema."""

    async def run() -> McpServer:
        server = server_with({"name": "t", "inputSchema": schema})
        await server.ready()
        return server

    return asyncio.run(run())


def nested(depth: int) -> dict[str, Any]:
    return {"properties": {"a": nested(depth - 1)}} if depth else {}


@each_row(
    "schema",
    [
        {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}},
        {"type": "object", "patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"type": "object", "properties": {"a": {"pattern": "a{99999999999999999999}"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}] * 2}}, "allOf": [{"$ref": "#/$defs/a"}]},
        {"type": ["object", "object"], "required": [7], "properties": {"a": {"type": "nope", "enum": []}}},
        {"$schema": 7, "type": 7, "properties": 7, "required": 7, "items": 7, "anyOf": 7, "enum": 7},
        {"anyOf": [], "oneOf": [7], "required": ["a", "a"]},
        nested(300),
        7,
    ],
)
def test_no_schema_of_a_server_keeps_a_call_from_it(schema: object) -> None:
    server = with_schema(schema)
    given = {"a": "a" * 27 + "!", "a" * 27 + "!": 1}
    since = time.process_time()
    for tool in (server_tool(server, "t"), direct_tool(server, "t")):
        assert checked_call(tool, given).arguments == given
    assert time.process_time() - since < 1


def test_the_plain_parts_of_a_schema_are_checked() -> None:
    properties = {
        "size": {"enum": ["small", "large"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["size"],
        "additionalProperties": False,
    }
    tool = server_tool(with_schema(schema), "t")
    good = {"size": "small", "tags": ["a"], "limit": None}
    assert checked_call(tool, good).arguments == good
    assert checked_call(tool, {"size": "small", "limit": "5"}).arguments["limit"] == 5
    for wrong in ({"size": "huge"}, {"tags": [1], "size": "small"}, {"limit": "x", "size": "small"}, {}):
        with pytest.raises(ToolError, match="Its schema: "):
            checked_call(tool, wrong)
    with pytest.raises(ToolError, match="unexpected parameter `more`"):
        checked_call(tool, {**good, "more": 1})


def test_a_huge_schema_is_neither_declared_nor_described_in_full(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"description": "x" * 2_000_000}}}
    server = with_schema(schema)
    assert len(to_json_bytes([*definitions([direct_tool(server, "t")])])) < 10_000
    with world([mcp(action="describe", server="calc", tool="t"), "done"], tmp_path) as made:
        world_with(made, server)
        described = results_of(made)[0]
    assert f'characters="{MAX_SCHEMA_CHARS + 59}"' in described


def test_a_server_cannot_fill_the_context_with_names(tmp_path: Path) -> None:
    async def run() -> McpServer:
        server = server_with(*({"name": f"tool{number}_{'x' * 90}"} for number in range(5_000)))
        await server.ready()
        return server

    server = asyncio.run(run())
    assert len(news_of(server)) < 15_000 and "and 4,900 more, which search finds" in news_of(server)
    with world([mcp(action="describe", server="calc", tool="nope"), "done"], tmp_path) as made:
        world_with(made, server)
        assert len(results_of(made)[0]) < 15_000


def test_no_hidden_characters_of_a_server_reach_the_model(tmp_path: Path) -> None:
    hidden = "seen\U000e0041\U000e0042\x1b[8m\u202e"

    async def run() -> McpServer:
        greeting = {"capabilities": {"tools": {}, "resources": {}}, "instructions": hidden}
        listed = {"resources": [{"uri": f"note://{hidden}", "description": hidden}]}
        tool = {"name": "t", "inputSchema": {"type": "object", "description": hidden}}
        server = server_with(tool, initialize=greeting, resources_list=listed)
        await server.ready()
        return server

    server = asyncio.run(run())
    asked = [{"action": "search"}, {"action": "read"}, {"action": "describe", "tool": "t"}]
    with world([*(mcp(server="calc", **each) for each in asked), "done"], tmp_path) as made:
        world_with(made, server)
        results = results_of(made)
    assert all("seen" in text for text in results)
    assert [char for char in "".join(results) if not char.isprintable() and char != "\n"] == []


def test_the_definition_is_small_and_the_same_whatever_is_connected() -> None:
    tools = [{**ADD, "name": f"tool_number_{number}"} for number in range(10)]
    servers = [server_with(*tools) for _ in range(5)]
    before = to_json_bytes([*definitions([mcp_tool(servers)])])

    async def run() -> None:
        for server in servers:
            await server.ready()

    asyncio.run(run())
    assert to_json_bytes([*definitions([mcp_tool(servers)])]) == before
    count = TokenCounter.load().text
    assert count(before.decode()) + sum(count(news_of(server)) for server in servers) <= 450 + 5 * 20


def test_a_session_takes_junk_and_fails_what_waits_when_it_is_lost() -> None:
    async def run() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        session = McpSession(send)
        waiting = asyncio.ensure_future(session.request("tools/list"))
        await asyncio.sleep(0)
        for junk in (None, 5, [], {}, {"id": 99, "result": {}}, {"id": None}, [{"id": 7}, 3], {"method": 5}):
            session.receive(junk)
        session.receive({"id": "1", "result": {"tools": []}})
        assert await waiting == {"tools": []}
        session.receive({"id": 8, "method": "ping"})
        session.receive({"id": 9, "method": "sampling/createMessage"})
        last = asyncio.ensure_future(session.request("x"))
        await asyncio.sleep(0)
        session.lose("it broke")
        assert "it broke" in str((await asyncio.gather(last, return_exceptions=True))[0])
        assert {"jsonrpc": "2.0", "id": 8, "result": {}} in sent
        assert any(each.get("error", {}).get("code") == -32601 for each in sent)

    asyncio.run(run())


def test_a_list_ends_where_its_pages_begin_again() -> None:
    async def run() -> int:
        pages = {"tools": [ADD], "nextCursor": "again"}
        loopback = Loopback(lambda method, params: pages if method == "tools/list" else {})
        server = McpServer(read_entry("calc", {"command": "x"}, "user", {}), "calc", loopback.open)
        await server.ready()
        return sum(message["method"] == "tools/list" for message in loopback.calls)

    assert asyncio.run(run()) == 2


def test_the_server_hears_of_a_request_that_is_cancelled_and_the_first_reason_of_a_loss_counts() -> None:
    async def run() -> None:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        session = McpSession(send)
        for method in ("initialize", "tools/call"):
            waiting = asyncio.ensure_future(session.request(method))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0)
        told = [message["params"] for message in sent if message["method"] == "notifications/cancelled"]
        assert told == [{"requestId": 2, "reason": "no longer wanted"}]
        session.lose("it broke")
        session.lose("it was closed")
        with pytest.raises(ServerFailed, match="it broke"):
            await session.request("ping")

    asyncio.run(run())


def test_a_lost_server_is_connected_again_twice_and_again_after_a_call_that_went_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent.extensions.mcp.server.RECONNECT_WAITS_S", (0.0, 0.0))
    losses: list[Callable[[str], None]] = []

    async def run() -> None:
        loopback = Loopback(lambda method, params: {})

        async def connect(deliver: Callable[[Any], None], lost: Callable[[str], None]) -> Loopback:
            losses.append(lost)
            return await loopback.open(deliver, lost)

        server = McpServer(read_entry("calc", {"command": "x"}, "user", {}), "calc", connect)
        changes: list[str] = []
        server.changed = lambda server, change: changes.append(change.kind)
        await server.ready()
        for opened in (2, 3):
            losses[-1]("it fell over")
            await server.begin()
            assert len(losses) == opened and not server.failure
        losses[-1]("it fell over")
        assert (server.state, server.failure) == ("failed", "it fell over")
        await server.request("ping", {})
        losses[-1]("it fell over")
        assert server.state == "pending"
        await server.begin()
        assert len(losses) == 5 and changes == [*["connected", "failed"] * 4, "connected"]

    asyncio.run(run())


def test_equal_lists_are_not_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.extensions.mcp.server.CHANGES_WAIT_S", 0.0)

    async def run() -> None:
        tools = [ADD]
        loopback = Loopback(lambda method, params: {"tools": [*tools]} if method == "tools/list" else {})
        server = McpServer(read_entry("calc", {"command": "x"}, "user", {}), "calc", loopback.open)
        changes: list[str] = []
        server.changed = lambda server, change: changes.append(change.kind)
        await server.ready()
        for more in ([], [ODD]):
            before = len(loopback.calls)
            tools += more
            loopback.deliver({"method": "notifications/tools/list_changed"})
            while len(loopback.calls) == before:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        while len(changes) < 2:
            await asyncio.sleep(0)
        assert changes == ["connected", "changed"] and server.offer.tools.keys() == {"add", "odd"}

    asyncio.run(run())


def test_progress_is_reported_to_the_call_that_it_is_about() -> None:
    reports: list[str] = []

    async def run() -> None:
        async def send(message: Message) -> None:
            token = message["params"].get("_meta", {}).get("progressToken")
            for params in (
                {"progressToken": token, "progress": 1, "total": 4, "message": "reading"},
                {"progressToken": token, "progress": 2.5},
                {"progressToken": 99, "progress": 3},
                {},
            ):
                session.receive({"method": "notifications/progress", "params": params})
            session.receive({"id": message["id"], "result": {}})

        session = McpSession(send)
        await session.request("tools/call", {"name": "a"}, reports.append)
        await session.request("tools/call", {"name": "b"})
        session.receive({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 9}})

    asyncio.run(run())
    assert reports == ["1 of 4 reading\n", "2.5\n"]


def test_a_prompt_is_the_text_of_all_its_messages() -> None:
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "image", "data": ""}]},
        {"role": "assistant", "content": {"type": "resource", "resource": {"uri": "x", "text": "two"}}},
        {"role": "user", "content": 5},
        "junk",
    ]

    async def run() -> None:
        server = server_with(prompts_get={"messages": messages}, prompts_list={"prompts": []})
        called = CalledPrompt(server, {"name": "p", "arguments": [{"name": "a"}, {"name": "rest"}]}, "1 2 3")
        assert called.summary == "<a> <rest>"
        assert await called.text() == "one\n[image]\n\nAssistant: two"
        for arguments, why in (("'", "its arguments: No closing quotation"), ("", "the server gave no text")):
            empty = server_with(prompts_get={"messages": 5})
            with pytest.raises(ToolError, match=why):
                await CalledPrompt(empty, {"name": "p"}, arguments).text()

    asyncio.run(run())


def test_an_image_is_shown_without_the_extras_whose_checksum_is_wrong(tmp_path: Path) -> None:
    png = base64.b64decode(PIXEL)
    extra = b"\x00\x00\x00\x04iCCPabcd\x00\x00\x00\x00"
    sent = base64.b64encode(png[:33] + extra + png[33:]).decode()
    (image,) = result_of(tmp_path, {"content": [{"type": "image", "data": sent}]}).content
    assert isinstance(image, ImageBlock) and base64.b64decode(image.data) == png


def test_one_tool_and_one_resource_are_reported_as_one() -> None:
    async def lines() -> list[str]:
        server = server_with({"name": "add", "inputSchema": {"type": "object"}})
        await server.begin()
        return server_lines(server)

    assert asyncio.run(lines())[1:] == ["  1 tool: add", "  1 resource"]

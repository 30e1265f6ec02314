"""A view as the bytes of a request."""

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from agent.model.anthropic.client import AnthropicModel
from agent.model.anthropic.messages import markable_part
from agent.model.anthropic.request import encode_request
from agent.model_port import ModelRequest, RequestSettings
from tests.strict_api.faults import Fault
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from transcripts.facts import Reply, Result, User
from transcripts.folding import Folded, fold
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock, UnknownBlock

SETTINGS = RequestSettings(
    "m", 100, ("be good", "memory"), ({"name": "read", "input_schema": {}, "kind": "reads"},), thinking=True
)


def conversation(exchanges: int) -> Folded:
    facts: list[Any] = [User(1, 0, (TextBlock("go"),))]
    for _ in range(exchanges):
        seq = facts[-1].seq + 1
        facts.append(Reply(seq, 0, (ThinkingBlock("t", "s"), ToolUseBlock(f"t{seq}", "read", {"p": seq}))))
        facts.append(Result(seq + 1, 0, seq, 1, (TextBlock(f"result {seq}"),)))
    return fold(facts)


def encode(settings: RequestSettings, view: Any, marks: tuple[int, ...] = (), ask: str = "") -> bytes:
    return encode_request(ModelRequest(settings, view, marks, ask))


def parsed(body: bytes) -> Any:
    return json.loads(body)


def test_the_body_holds_the_settings_then_the_messages() -> None:
    body = parsed(encode(SETTINGS, conversation(1).view))
    assert list(body) == ["model", "max_tokens", "system", "tools", "thinking", "stream", "messages"]
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


def test_there_are_at_most_four_cache_marks_and_none_on_thinking() -> None:
    view = conversation(6).view
    body = encode(SETTINGS, view, marks=(0, 2, 4, 6))
    assert body.count(b'"cache_control"') == 4
    for message in parsed(body)["messages"]:
        for block in message["content"]:
            assert block["type"] != "thinking" or "cache_control" not in block


def test_the_next_request_is_the_previous_one_and_more_except_the_marks() -> None:
    unmarked = RequestSettings("m", 100, cache=None)
    before = encode(unmarked, conversation(3).view)
    after = encode(unmarked, conversation(4).view)
    assert after.startswith(before[: -len(b"]}")])


def test_the_same_view_gives_the_same_bytes() -> None:
    assert encode(SETTINGS, conversation(5).view) == encode(SETTINGS, conversation(5).view)


def test_a_field_that_the_server_refused_is_gone_everywhere() -> None:
    view = conversation(2).view
    assert b'"thinking":{' not in encode(SETTINGS.without("thinking"), view)
    assert b"cache_control" not in encode(SETTINGS.without("cache"), view)
    eager = RequestSettings("m", 1, tools=({"name": "read"},), eager=True)
    assert b"eager_input_streaming" in encode(eager, view)
    assert b"eager_input_streaming" not in encode(eager.without("eager tool input"), view)


def test_a_question_at_the_end_leaves_the_last_mark_on_the_view() -> None:
    view = conversation(2).view
    body = parsed(encode(SETTINGS, view, ask="summarise"))
    assert body["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "summarise"}]}
    assert "cache_control" in body["messages"][-2]["content"][-1]


def test_a_request_never_ends_with_the_assistant() -> None:
    folded = conversation(1)
    folded.apply(Reply(4, 0, (TextBlock("half an ans"),), complete=False))
    assert folded.view[-1].role == "assistant"
    assert folded.view.sendable()[-1].role == "user"


def test_a_tool_is_sent_as_the_model_sees_it_and_no_more() -> None:
    (tool,) = parsed(encode(SETTINGS, conversation(1).view))["tools"]
    assert tool == {"name": "read", "input_schema": {}}


def test_a_question_without_a_conversation_is_a_message_of_its_own() -> None:
    assert parsed(encode(RequestSettings("m", 100), [], ask="why?"))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "why?"}]}
    ]


def test_tools_that_a_search_found_are_sent_back_while_they_are_offered() -> None:
    def searched(content: Any, *names: str) -> Any:
        asked = UnknownBlock({"type": "server_tool_use", "id": "s", "name": "search", "input": {}})
        block = UnknownBlock({"type": "tool_search_tool_result", "tool_use_id": "s", "content": content})
        blocks = (asked, block, TextBlock("found"))
        view = fold([User(1, 0.0, (TextBlock("go"),)), Reply(2, 0.0, blocks)]).view
        tools = tuple({"name": name, "defer_loading": True} for name in names)
        body = encode(RequestSettings("m", 100, tools=tools), [*view, *view[:1]])
        return parsed(body)["messages"][1]["content"][1]["content"]

    references: list[Any] = [{"tool_name": "a"}, {"tool_name": "b"}, "c"]
    content = {"type": "found", "tool_references": references}
    assert searched(content, "b", "d") == {"type": "found", "tool_references": [{"tool_name": "b"}]}
    for other in ({"type": "error", "tool_references": "none"}, {"type": "error"}, ["x"]):
        assert searched(other, "b") == other


def test_a_mark_goes_to_the_last_part_that_is_neither_thinking_nor_unknown() -> None:
    thinking = ThinkingBlock("hm", "s")
    text = TextBlock("x")
    for blocks, index in (
        ((text, thinking, UnknownBlock({"type": "new"})), 0),
        ((thinking, text, text), 2),
        ((thinking, UnknownBlock({"type": "new"})), None),
    ):
        view = fold([User(1, 0.0, (TextBlock("go"),)), Reply(2, 0.0, blocks)]).view
        assert markable_part(view[1]) == index


def test_a_body_is_encoded_once() -> None:
    request = ModelRequest(RequestSettings("m", 100), messages=conversation(1).view)
    assert encode_request(request) is encode_request(request)


def test_settings_are_encoded_once_and_anew_in_a_changed_copy() -> None:
    settings = RequestSettings("m", 100, ("be good",))
    view = conversation(1).view
    first = encode(settings, view)
    (kept,) = settings.encoded.values()
    assert first.startswith(kept) and encode(settings, view) == first
    compacted = parsed(encode_request(ModelRequest(settings, view, instruction="sum up", compacts=True)))
    assert compacted.pop("compaction")["instructions"] == "sum up" and compacted == parsed(first)
    changed = parsed(encode(replace(settings, max_tokens=7), view))
    assert changed == {**parsed(first), "max_tokens": 7}


def test_a_prompt_is_counted_by_a_server_that_counts() -> None:
    with Server(ScriptedModel([])) as server:
        model = AnthropicModel(server.base_url, "key")
        prompt = (TextBlock("count these words"),)

        async def counted() -> list[int | None]:
            found = [await model.count_tokens("claude-sonnet-5-5", prompt)]
            model.connect()
            found.append(await model.count_tokens("claude-sonnet-5-5", prompt))
            server.faults.add(Fault("no_count_tokens"))
            found.append(await model.count_tokens("claude-sonnet-5-5", prompt))
            await model.close()
            return found

        before, tokens, without = asyncio.run(counted())
        assert before is None and without is None
        assert tokens is not None and 3 <= tokens <= 30
        assert list(server.refused) == []

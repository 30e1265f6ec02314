"""OpenAI's Responses API: whole turns with a strict server, and what only this protocol has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app import Options
from agent.app.composition import PROVIDERS, encoders, make_services
from agent.app.config import load_config
from agent.app.setup import RunSetup
from agent.errors import AuthenticationError, ConfigError, PromptTooLong, RequestRejected, TransientError
from agent.events import ContextCompacted, Notice, Retrying, TextDelta, ThinkingDelta
from agent.model.anthropic.request import encode_request
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.chat_completions.chat_request import encode_chat_request
from agent.model.openai_models import openai_facts
from agent.model.responses.client import ResponsesModel
from agent.model.responses.request import encode_responses_request
from agent.model.responses.stream import ItemReader
from agent.model_port import IncomingReply, ModelRequest, RequestSettings
from compact.prices import PriceList
from tests.agent.commands.controller_run import AllowAll, started
from tests.agent.loop.world import World, turns, world
from tests.tables import each_row
from transcripts.facts import Reply, User
from transcripts.folding import fold
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock

from .raw_server import HEAD, raw
from .responses_server import MODEL, TOO_LONG, Refusal, ResponsesServer, Said, spoken

CALL = Said("I look.", ("Look.", "Carefully."), (("echo", '{"words": "x"}'),))
DONE = Said("Done.", reasons=True)


@contextmanager
def responses_world(folder: Path, *replies: Said | Refusal) -> Iterator[tuple[World, ResponsesServer]]:
    with ResponsesServer() as server, world([], folder) as w:
        server.replies += replies
        w.context.model = ResponsesModel(server.base_url, "key")
        w.context.settings = replace(w.context.settings, model=MODEL, tag="7f3a")
        w.context.compaction.binds = False
        yield w, server
        assert server.refused == []


def bodies(server: ResponsesServer) -> list[dict[str, Any]]:
    return [json.loads(body) for body in server.bodies]


def read(*events: Mapping[str, Any]) -> tuple[IncomingReply, list[Any]]:
    """Return the reply that some events make, and what is shown of it."""
    reply = IncomingReply()
    reader = ItemReader(reply)
    shown = [each for event in events for each in reader.feed({"type": "", **event})]
    return reply, shown


def events_of(said: Said) -> list[dict[str, Any]]:
    return [json.loads(event.partition(b"data: ")[2]) for event in spoken(said)]


def test_reasoning_goes_back_encrypted_in_its_place_and_nothing_is_stored(tmp_path: Path) -> None:
    with responses_world(tmp_path, CALL, DONE, Said("Again.")) as (w, server):
        assert turns(w, "look", "and?") == ["done", "done"]
        first, second, third = bodies(server)
    assert {body["store"] for body in (first, second, third)} == {False}
    assert {body["prompt_cache_key"] for body in (first, second, third)} == {"makeroom-7f3a"}
    assert first["include"] == ["reasoning.encrypted_content"] and first["reasoning"] == {"summary": "auto"}
    kinds = [item.get("type", item.get("role")) for item in third["input"]]
    assert kinds == [
        "user",
        "reasoning",
        "assistant",
        "function_call",
        "function_call_output",
        "reasoning",
        "assistant",
        "user",
    ]
    reasoning, said, call = second["input"][1:4]
    assert reasoning["encrypted_content"] == "gAAAA0001==" and reasoning["id"] == "rs_0001"
    assert reasoning["summary"] == [{"type": "summary_text", "text": "Look.\n\nCarefully."}]
    assert said == {"role": "assistant", "content": "I look.", "phase": "commentary"}
    assert call.keys() == {"type", "call_id", "name", "arguments"}
    assert third["input"][: len(second["input"])] == second["input"]  # so that the cache has it
    assert third["input"][-2]["phase"] == "final_answer"
    assert [event.text for event in w.told(ThinkingDelta)] == ["Look.", "\n\n", "Careful", "ly."]


def test_reasoning_that_the_server_cannot_read_is_left_out_from_then_on(tmp_path: Path) -> None:
    refusal = Refusal(
        400, "The encrypted content gAAA...== could not be verified.", code="invalid_encrypted_content"
    )
    with responses_world(tmp_path, CALL, refusal, DONE, Said("Again.")) as (w, server):
        assert turns(w, "look", "and?") == ["done", "done"]
        sent = ["rs_0001" in str(body["input"]) for body in bodies(server)]
    assert sent == [False, True, False, False]
    assert "rejected earlier thinking" in w.told(Notice)[0].text


@each_row(
    ("field", "words", "feature"),
    [
        (
            "reasoning.summary",
            "Your organization must be verified to generate reasoning summaries.",
            "thinking",
        ),
        ("reasoning.effort", "Unsupported value: 'reasoning.effort' does not support 'max'", "effort"),
        ("include", "Encrypted content is not supported with this model.", "unsigned thinking"),
        ("prompt_cache_key", "Unknown parameter: 'prompt_cache_key'.", "cache"),
    ],
)
def test_a_field_that_is_not_accepted_is_left_out(
    tmp_path: Path, field: str, words: str, feature: str
) -> None:
    with responses_world(tmp_path, CALL, DONE) as (w, server):
        w.context.settings = replace(w.context.settings, effort="max")
        server.rejected[field] = words
        assert turns(w, "look") == ["done"]
        assert w.context.settings.rejected == {feature} and len(server.bodies) == 3
        outer, _, inner = field.partition(".")
        assert all(not inner or inner not in body[outer] for body in bodies(server)[1:] if outer in body)


OVERFLOWS: dict[str, Said | Refusal] = {
    "answer": Refusal(400, TOO_LONG, code="context_length_exceeded"),
    "stream": Said(failure=("context_length_exceeded", TOO_LONG)),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_prompt_that_is_too_long_is_compacted(tmp_path: Path, name: str) -> None:
    asked = Said(calls=(("echo", json.dumps({"words": "long " * 8_000})),))
    with responses_world(tmp_path, asked, OVERFLOWS[name], DONE) as (w, server):
        assert turns(w, "go") == ["done"]
        assert w.told(ContextCompacted) and w.told(Retrying) == []
        before, after = map(len, server.bodies[1:])
        assert after < 0.6 * before


@each_row(
    ("code", "message", "kind"),
    [
        ("server_error", "An error occurred while processing your request.", TransientError),
        ("rate_limit_exceeded", "Rate limit reached for gpt-6.2-sol: try again in 1.2s", TransientError),
        ("server_is_overloaded", "Our servers are currently overloaded.", TransientError),
        ("insufficient_quota", "You exceeded your current quota.", RequestRejected),
        ("invalid_prompt", "Invalid prompt: we've limited access to this content.", RequestRejected),
        ("context_length_exceeded", TOO_LONG, PromptTooLong),
    ],
)
@each_row("form", ["failed", "flat", "nested"])
def test_a_failure_in_the_stream_is_the_error_that_its_code_names(
    form: str, code: str, message: str, kind: type[Exception]
) -> None:
    error = {"code": code, "message": message, "param": None}
    forms: dict[str, tuple[str, dict[str, Any]]] = {
        "failed": ("response.failed", {"response": {"status": "failed", "error": error}}),
        "flat": ("error", {**error, "sequence_number": 3}),
        "nested": ("error", {"error": error}),
    }
    name, payload = forms[form]
    event = f"event: {name}\ndata: {json.dumps({'type': name, **payload})}\n\n".encode()
    begun = b"".join(list(spoken(CALL))[:2])

    async def ask(url: str) -> None:
        model = ResponsesModel(url, "key")
        try:
            request = ModelRequest(RequestSettings(MODEL, 100), ())
            await model.stream(request, IncomingReply(), lambda event: None)
        finally:
            await model.close()

    with raw(HEAD + begun + event) as url, pytest.raises(kind, match=message[:20]) as raised:
        asyncio.run(ask(url))
    assert type(raised.value) is kind


@pytest.mark.parametrize("arguments", ["", '{"words": "x', '{"words": "x"}'])
def test_a_call_that_is_cut_off_never_runs(tmp_path: Path, arguments: str) -> None:
    cut = Said("I look.", calls=(("echo", arguments),), stop="max_output_tokens")
    for stop, ends in (("max_output_tokens", "max_tokens"), ("content_filter", "refusal")):
        reply, _ = read(*events_of(replace(cut, stop=stop)))
        (call,) = (block for block in reply.blocks if isinstance(block, ToolUseBlock))
        assert (reply.complete, reply.stop, call.input) == (
            True,
            ends,
            {ToolUseBlock.INVALID_JSON: arguments},
        )
    with responses_world(tmp_path, cut, DONE) as (w, _):
        assert turns(w, "look") == ["done"]
        assert w.ran["echo"] == []


def test_an_item_that_the_end_of_an_incomplete_response_leaves_open_is_kept() -> None:
    *begun, ended = events_of(Said("Half of it", ("hm",), stop="max_output_tokens"))
    without = [event for event in begun if event["type"] != "response.output_item.done"]
    reply, _ = read(*without, ended)
    assert (reply.complete, reply.stop, reply.text) == (True, "max_tokens", "Half of it")
    reply, _ = read(*without, {**ended, "type": "response.completed", "response": {"status": "completed"}})
    assert not reply.complete and reply.stop == "end_turn"


def test_a_response_in_one_piece_is_a_reply_as_well(tmp_path: Path) -> None:
    whole = events_of(Said("whole"))[-1]["response"]
    sent = json.dumps(whole).encode()
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n" + sent
    with raw(answer) as url, world([], tmp_path) as w:
        w.context.model = ResponsesModel(url, "key")
        assert turns(w, "go") == ["done"]
        assert [event.text for event in w.told(TextDelta)] == ["whole"]


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def created(ident: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": ident, "model": "m"}}


def of_text(index: int, text: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "delta": text}


MESSAGE = {"type": "message", "content": []}
CALLED = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": ""}
ENCRYPTED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g" * 100_000}
TOO_LARGE = {
    "items": [added(index, **MESSAGE) for index in range(3_000)],
    "deltas": [added(0, **MESSAGE), *[of_text(0, "x" * 100_000)] * 50],
    "reasoning": [
        {"type": "response.output_item.done", "output_index": index, "item": ENCRYPTED} for index in range(50)
    ],
}


@each_row("name", TOO_LARGE)
def test_a_reply_that_no_model_writes_is_not_read_to_its_end(name: str) -> None:
    with pytest.raises(RequestRejected, match="which no model would write"):
        read(*TOO_LARGE[name])


@each_row(
    "events",
    [
        [of_text(0, "before its item")],
        [added(0, **MESSAGE), added(0, **MESSAGE)],
        [added(0, **MESSAGE), of_text(0, 7)],
        [added(0, **{**CALLED, "name": "n" * 300})],
        [added(0, **{**CALLED, "call_id": ""})],
        [added(0, **{**CALLED, "name": ["read"]})],
        [created("resp_1"), added(0, **MESSAGE), created("resp_2")],
    ],
)
def test_an_event_that_makes_no_sense_is_an_error(events: list[dict[str, Any]]) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        read(*events)


def test_reasoning_that_cannot_go_back_is_still_shown() -> None:
    item = {"id": "rs_1", "type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm"}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    reply, shown = read(done)
    assert reply.blocks == [ThinkingBlock("hm", "")] and shown == [ThinkingDelta("hm")]


def test_what_is_openai_s_alone_goes_to_no_other_service() -> None:
    blocks = (
        ThinkingBlock("hm", "openai:rs_1:gA"),
        TextBlock("I look.", {"phase": "commentary"}),
        ToolUseBlock("c1", "read", {}),
    )
    facts = [User(1, 0.0, (TextBlock("go"),)), Reply(2, 0.0, blocks, stop="tool_use")]
    request = ModelRequest(RequestSettings("m", 100), fold(facts).view)
    assert b"commentary" not in encode_request(request) + encode_chat_request(request)
    assert b"gA" not in encode_chat_request(request)
    signed = (ThinkingBlock("of another service", "abc"), *blocks[1:])
    facts[1] = Reply(2, 0.0, signed, stop="tool_use")
    own = encode_responses_request(ModelRequest(request.settings, fold(facts).view))
    assert b"of another service" not in own and b"commentary" in own


def test_the_cost_is_the_server_s(tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> Said:
        if body["input"][-1].get("role") == "user":
            return Said(summary=("hm",), calls=(("echo", json.dumps({"words": "found " * 50})),))
        return Said("so it is " * 20)

    with responses_world(tmp_path) as (w, server):
        server.responder = answer
        long = "of some length " * 75_000
        prompts = [f"prompt {number} {long if number == 9 else ''}" for number in range(10)]
        settings = w.context.settings
        w.session.open(settings.system, settings.tools, model=MODEL, window=922_000, folder="")
        w.context.limit_window(922_000)
        assert turns(w, *prompts) == ["done"] * 10
        account = server.account
    charged = 0.0
    for usage in account:
        details = usage["input_tokens_details"]
        read, written = details["cached_tokens"], details["cache_write_tokens"]
        fresh = usage["input_tokens"] - read - written
        dear = usage["input_tokens"] > 272_000
        charged += (fresh * 2.0 + read * 0.1 + written * 2.5) * (2 if dear else 1)
        charged += usage["output_tokens"] * (15.0 if dear else 10.0)
    assert {usage["input_tokens"] > 272_000 for usage in account} == {True, False}
    assert any(usage["input_tokens_details"]["cached_tokens"] for usage in account)
    assert w.session.cost == pytest.approx(charged / 1e6, rel=1e-9)


def test_prices_are_known_for_models_by_their_exact_names() -> None:
    prices = PriceList()
    assert prices.known("gpt-5.5-2026-04-23") == prices.known("gpt-5.5")
    for name in ("gpt-5.9", "gpt-6-sol-pro", "gpt-5-chat-latest", "gpt-7"):
        assert prices.known(name) is None, name
    sol = prices.known("gpt-6.2-sol", 300_000)
    assert sol is not None and (sol.input, sol.output) == (4, 15)


def test_facts_about_models_name_their_largest_prompt_and_their_end() -> None:
    for name, window, thinks, ends in (
        ("gpt-6.2-sol", 922_000, True, ""),
        ("gpt-5.4-mini-2026-03-17", 272_000, True, ""),
        ("openai/gpt-5-mini", 272_000, True, "2026-12-11"),
        ("gpt-4.1", 1_047_576, False, "2027-01-14"),
    ):
        facts = openai_facts(name)
        assert facts is not None
        assert (facts.window, facts.thinking, facts.retires_on) == (window, thinks, ends), name
    assert openai_facts("qwen3-coder") is None


def setup(folder: Path, **environ: str) -> RunSetup:
    return RunSetup(Options(), load_config(environ, folder, folder), folder, environ)


def test_openai_itself_is_asked_by_responses_and_other_servers_by_chat_completions(tmp_path: Path) -> None:
    def made(**environ: str) -> object:
        given = setup(tmp_path, **environ)
        return type(PROVIDERS[given.config.provider](given))

    local = "http://localhost:8000/v1"
    assert made(MAKEROOM_PROVIDER="openai") is ResponsesModel
    assert made(MAKEROOM_PROVIDER="openai", OPENAI_BASE_URL="https://api.openai.com/v1/") is ResponsesModel
    assert made(MAKEROOM_PROVIDER="openai", OPENAI_BASE_URL=local) is ChatCompletionsModel
    assert made(MAKEROOM_PROVIDER="openai-responses", OPENAI_BASE_URL=local) is ResponsesModel
    assert setup(tmp_path, MAKEROOM_PROVIDER="openai-responses", OPENAI_MODEL="x").model_name == "x"
    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY"):
        ResponsesModel().connect()
    for name in ("opnai", "demo"):  # the demo needs what --offline sets up
        given = setup(tmp_path, MAKEROOM_PROVIDER=name)
        with pytest.raises(ConfigError, match=r"openai-responses, or --offline for the demo$"):
            make_services(given, lambda event: None, AllowAll())


def test_the_program_works_with_a_server_of_responses(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("three small words")
    with ResponsesServer() as server:
        server.replies += [Said(summary=("hm",), calls=(("read", '{"file_path": "notes.txt"}'),)), Said("3")]
        given = setup(
            tmp_path,
            MAKEROOM_PROVIDER="openai-responses",
            OPENAI_BASE_URL=server.base_url,
            OPENAI_API_KEY="k",
            OPENAI_MODEL=MODEL,
        )

        async def whole() -> None:
            async with started(given, server) as run:  # type: ignore[arg-type]
                await run.do("how many words?")
                status = run.controller.status()
                assert (status.model, status.priced) == (MODEL, True) and status.cost > 0
                assert "retires on" not in await run.do("/model")
                await run.do("/model gpt-4.1")
                assert "gpt-4.1 is scheduled to retire on 2027-01-14; change the model" in run.text()
                assert "max output 32,768 tokens, retires on 2027-01-14" in await run.do("/model")

        asyncio.run(whole())
        assert server.refused == [] and b"three small words" in server.bodies[-1]
        assert "responses" in encoders()


def test_a_refusal_after_some_text_is_a_refusal() -> None:
    text = {"type": "output_text", "text": "Well. "}
    refusal = {"type": "refusal", "refusal": "I cannot help with that."}
    for content, stop in (([text, refusal], "refusal"), ([text], "end_turn")):
        reply = IncomingReply()
        response = {"id": "r", "model": "m", "output": [{"type": "message", "content": content}]}
        shown = list(ItemReader(reply).feed({"type": "", "object": "response", **response}))
        assert reply.stop == stop
        assert shown == [TextDelta("".join(part.get("text", part.get("refusal", "")) for part in content))]

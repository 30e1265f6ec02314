"""The contract of the Model port, kept by every adapter: what model_port.Model promises to the loop."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import field
from msgspec.structs import replace

from agent.errors import (
    AuthenticationError,
    Feature,
    FieldRejected,
    ModelError,
    ModelNotFound,
    PromptTooLong,
    TransientError,
)
from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model_port import IncomingReply, Model, ModelRequest
from tests.agent.loop.world import Words, World, echo_tool, world
from transcripts.facts import Fact, Opened, Reply, RequestSent, Result, Started, User
from transcripts.folding import fold
from transcripts.messages import Block, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from transcripts.view import Message

from .providers import (
    Provider,
    Rejection,
    Wanted,
    anthropic,
    ask,
    chat_completions,
    demo,
    responses,
    run,
    said,
    settings,
    stream,
)
from .raw_server import raw

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
HELLO = Wanted("hello", "Hello! I am makeroom's offline demo")
READ_A = Wanted("read a.py", "I will read", "I will read", (("read", {"file_path": "a.py"}),))
READ_BOTH = Wanted(
    "read a.py and b.py", "I will read", calls=tuple(("read", {"file_path": f}) for f in ("a.py", "b.py"))
)


@pytest.fixture(params=[anthropic, chat_completions, responses, demo], ids=lambda make: make.__name__)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with request.param() as made:
        yield made
        assert made.refused() == []


@pytest.fixture(params=[anthropic, chat_completions, responses], ids=lambda make: make.__name__)
def scripted(request: pytest.FixtureRequest) -> Iterator[Provider]:
    """A provider whose server follows a script."""
    with request.param() as made:
        yield made


def told(events: list[Event], kind: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def texts(blocks: Iterable[Block]) -> list[str]:
    """Return the texts of blocks that are nothing else."""
    assert all(isinstance(block, TextBlock) for block in blocks)
    return [block.text for block in blocks if isinstance(block, TextBlock)]


def failure(model: Model, request: ModelRequest) -> tuple[ModelError, IncomingReply]:
    reply = IncomingReply()
    with pytest.raises(ModelError) as raised:
        run(model, lambda used: used.stream(request, reply, lambda event: None))
    return raised.value, reply


def test_a_text_is_reported_in_pieces_and_is_one_finished_block(provider: Provider) -> None:
    reply, events = said(provider, HELLO)
    (block,) = reply.blocks
    assert isinstance(block, TextBlock) and block.text.startswith(HELLO.text)
    assert len(told(events, TextDelta)) > 1
    assert "".join(event.text for event in told(events, TextDelta)) == block.text == reply.text
    assert (reply.complete, reply.stop, reply.pending) == (True, "end_turn", {})
    assert reply.model == provider.model_id


def test_thinking_comes_first_and_only_where_it_is_asked_for(provider: Provider) -> None:
    reply, events = said(provider, READ_A, thinking=True)
    assert isinstance(reply.blocks[0], ThinkingBlock)
    assert reply.blocks[0].thinking.startswith("I will read")
    assert "".join(event.text for event in told(events, ThinkingDelta)) == reply.blocks[0].thinking
    assert isinstance(events[0], ThinkingDelta)
    assert not told(said(provider, HELLO)[1], ThinkingDelta)


def test_the_input_of_a_call_streams_in_pieces_and_is_parsed_at_its_end(provider: Provider) -> None:
    reply, events = said(provider, READ_A)
    call = reply.blocks[-1]
    assert isinstance(call, ToolUseBlock)
    assert (call.name, dict(call.input)) == ("read", {"file_path": "a.py"}) and call.id
    sizes = [event.size for event in told(events, ToolCallDelta)]
    assert {event.name for event in told(events, ToolCallDelta)} == {"read"}
    assert sizes == sorted(sizes) and sizes[-1] == len('{"file_path": "a.py"}')
    assert (reply.complete, reply.stop) == (True, "tool_use")


def test_several_calls_keep_their_order_and_have_ids_of_their_own(provider: Provider) -> None:
    reply, _ = said(provider, READ_BOTH)
    calls = [block for block in reply.blocks if isinstance(block, ToolUseBlock)]
    assert [call.input["file_path"] for call in calls] == ["a.py", "b.py"]
    assert len({call.id for call in calls}) == 2


@pytest.mark.parametrize("text", ['{"file_path": ', '["a.py"]', "a.py"])
def test_input_that_is_not_a_json_object_is_kept_unchanged(scripted: Provider, text: str) -> None:
    reply, _ = said(scripted, Wanted("x", "", calls=(("read", text),)))
    (call,) = reply.blocks
    assert isinstance(call, ToolUseBlock) and call.input == {ToolUseBlock.INVALID_JSON: text}


def test_usage_counts_the_whole_prompt_and_what_a_cache_gave(provider: Provider) -> None:
    used: list[IncomingReply] = []

    async def twice(model: Model) -> None:
        for _ in range(2):
            provider.say(HELLO)
            reply = IncomingReply()
            await model.stream(request, reply, lambda event: None)
            used.append(reply)

    request = ask(provider, "hello " * 2_000)
    if not provider.scripted:
        request = replace(request, settings=replace(request.settings, system=("long " * 2_000,)))
    run(provider.model(), twice)
    first, second = (reply.usage for reply in used)
    assert first.prompt == second.prompt > 1_000 and first.output > 0
    assert first.cache_read == 0 < second.cache_read <= second.prompt


@pytest.mark.parametrize("stop", ["max_tokens", "refusal"])
def test_stop_reasons_come_in_the_words_of_the_port(scripted: Provider, stop: str) -> None:
    reply, _ = said(scripted, replace(HELLO, stop=stop))
    assert (reply.complete, reply.stop) == (True, stop)


def test_a_stream_that_ends_early_is_not_complete_and_keeps_what_was_finished(scripted: Provider) -> None:
    with raw(scripted.cut_stream) as url:
        reply, _ = stream(scripted.model(url), ask(scripted, "x"))
    assert not reply.complete and reply.started
    assert texts(reply.blocks) == ["Hello"]
    assert [pending.kind for pending in reply.pending.values()] == ["tool input"]


ERRORS: dict[str, tuple[Rejection, type[ModelError], dict[str, Any]]] = {
    "rate limit": (Rejection(429, "slow down", {"retry-after": "7"}), TransientError, {"retry_after": 7.0}),
    "server": (Rejection(500, "sorry"), TransientError, {"retry_after": None}),
    "key": (Rejection(401, "invalid key"), AuthenticationError, {}),
    "model": (Rejection(404, "no such model"), ModelNotFound, {}),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_answer_becomes_the_error_of_the_port(scripted: Provider, name: str) -> None:
    rejection, kind, facts = ERRORS[name]
    scripted.reject(rejection)
    error, reply = failure(scripted.model(), ask(scripted, "x"))
    assert type(error) is kind and rejection.message in str(error)
    assert {fact: getattr(error, fact) for fact in facts} == facts
    assert not reply.started


def test_a_prompt_that_is_too_long_is_reported_with_its_numbers(provider: Provider) -> None:
    if provider.scripted:
        provider.reject(Rejection(400, provider.too_long))
        error, _ = failure(provider.model(), ask(provider, "x"))
        numbers = (5_000, 4_096) if provider.numbered else (None, None)
        assert isinstance(error, PromptTooLong) and (error.actual, error.limit) == numbers
        return
    long = replace(ask(provider, "hello"), settings=replace(settings(provider), system=("word " * 400_000,)))
    error, reply = failure(provider.model(), long)
    assert isinstance(error, PromptTooLong) and error.actual and error.limit == 200_000 < error.actual
    assert not reply.started


def test_a_refused_connection_may_be_tried_again(scripted: Provider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error, _ = failure(scripted.model(f"http://127.0.0.1:{port}"), ask(scripted, "x"))
    assert isinstance(error, TransientError)


def test_a_cancelled_stream_closes_its_connection_and_keeps_what_had_come(scripted: Provider) -> None:
    left = threading.Event()

    def stall(connection: socket.socket) -> None:
        connection.sendall(scripted.cut_stream)
        if connection.recv(1) == b"":
            left.set()

    async def cancel(model: Model) -> IncomingReply:
        reply, begun = IncomingReply(), asyncio.Event()

        def watch(event: Event) -> None:
            if isinstance(event, ToolCallDelta):
                begun.set()

        task = asyncio.create_task(model.stream(ask(scripted, "x"), reply, watch))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(left.wait, 10)  # before the model itself is closed
        return reply

    with raw(stall) as url:
        reply = run(scripted.model(url), cancel)
    assert not reply.complete and texts(reply.kept()) == ["Hello"]


def test_a_cancelled_demo_keeps_what_had_come() -> None:
    async def cancel(model: Model) -> IncomingReply:
        reply = IncomingReply()
        with demo() as provider:
            request = ask(provider, "read a/folder/of/some/depth/a.py")
        task: asyncio.Task[None]

        def watch(event: Event) -> None:
            if isinstance(event, ToolCallDelta):
                task.cancel()

        task = asyncio.create_task(model.stream(request, reply, watch))
        with pytest.raises(asyncio.CancelledError):
            await task
        return reply

    with demo() as provider:
        reply = run(provider.model(), cancel)
    assert not reply.complete and reply.stop is None
    assert reply.kept() == (TextBlock("I will read `a/folder/of/some/depth/a.py`."),)


def test_the_same_request_is_sent_as_the_same_bytes(scripted: Provider) -> None:
    for _ in range(2):
        said(scripted, READ_A, thinking=True, effort="low")
    first, second = scripted.bodies()
    assert first == second


def test_a_feature_that_the_server_does_not_take_is_named_and_can_be_left_out(scripted: Provider) -> None:
    scripted.reject_feature()
    request = ask(scripted, "x", effort="low")
    error, _ = failure(scripted.model(), request)
    assert isinstance(error, FieldRejected) and error.feature == scripted.optional == "effort"
    scripted.say(HELLO)
    reply, _ = stream(scripted.model(), replace(request, settings=request.settings.without("effort")))
    assert reply.complete and scripted.refused() == []


def test_every_feature_and_mark_may_be_asked_for_or_rejected(provider: Provider) -> None:
    everything = {"thinking": True, "effort": "low", "cache": "1h", "eager": True}
    request = replace(ask(provider, "hello", **everything), cache_marks=(0,))
    without = request.settings
    features: tuple[Feature, ...] = ("thinking", "effort", "cache", "eager tool input")
    for feature in features:
        without = without.without(feature)
    for chosen in (request.settings, without):
        provider.say(HELLO)
        reply, _ = stream(provider.model(), replace(request, settings=chosen))
        assert reply.complete and reply.text.startswith(HELLO.text)


def earlier_turns() -> list[Fact]:
    """A call with a picture in its result, and its answer; then a new prompt with a picture."""
    result = (TextBlock("result text"), ImageBlock("image/png", PNG))
    call = ToolUseBlock("call_1", "read", {"file_path": "a.png"})
    return [
        User(1, 0.0, (TextBlock("read a.png"),)),
        Reply(2, 0.0, (ThinkingBlock("secret thought", ""), TextBlock("I look."), call), stop="tool_use"),
        Result(3, 0.0, 2, 2, result),
        Reply(4, 0.0, (TextBlock("I saw it."),), stop="end_turn"),
        User(5, 0.0, (ImageBlock("image/png", PNG), TextBlock("and this?"))),
    ]


def test_results_and_images_of_earlier_turns_arrive_in_order(scripted: Provider) -> None:
    scripted.say(HELLO)
    stream(scripted.model(), ModelRequest(settings(scripted), fold(earlier_turns()).view))
    (body,) = scripted.bodies()
    places = [
        body.find(text.encode())
        for text in ("read a.png", "I look.", "result text", "I saw it.", "and this?")
    ]
    assert -1 not in places and places == sorted(places)
    assert body.count(PNG.encode()) == 2
    assert body.count(b"call_1") == 2
    assert scripted.refused() == []


def test_the_demo_sees_the_results_of_earlier_turns() -> None:
    with demo() as provider:
        view = fold(earlier_turns()[:3]).view
        reply, _ = stream(provider.model(), ModelRequest(settings(provider), view))
    assert "I read `a.png`" in reply.text


def test_a_request_for_a_summary_comes_last(provider: Provider) -> None:
    wanted = Wanted("", "<summary>all of it</summary>")
    provider.say(wanted)
    request = replace(ask(provider, "read a.py"), instruction="Write <analysis> and <summary> of it.")
    reply, _ = stream(provider.model(), request)
    assert "<summary>" in reply.text and not any(isinstance(block, ToolUseBlock) for block in reply.blocks)
    for body in provider.bodies():
        assert 0 < body.find(b"read a.py") < body.find(b"Write <analysis>")


def test_a_model_that_the_server_does_not_know_is_not_found(provider: Provider) -> None:
    async def describe(model: Model) -> None:
        assert (await model.describe(provider.model_id)).id == provider.model_id
        with pytest.raises(ModelNotFound):
            await model.describe("no-such-model")

    run(provider.model(), describe)


class FileWords(Words):
    """The words of a tool that the demo knows, too: it reads a file of that name."""

    words: str = field(default="", name="file_path")


def shape(facts: list[Fact]) -> list[tuple[str, str]]:
    """Return the contents of a transcript, without those that only one provider could produce."""
    found = []
    for fact in facts:
        match fact:
            case Reply(blocks=blocks, stop=stop):
                calls = [f"{use.name} {dict(use.input)}" for use in blocks if isinstance(use, ToolUseBlock)]
                found.append(("reply", f"{stop}, {'complete' if fact.complete else 'cut'}: {calls}"))
            case Result(content=(TextBlock(text=text),), error=error):
                found.append(("result", f"{text} {error}"))
            case Opened() | User() | RequestSent() | Started():
                found.append((type(fact).__name__, ""))
    return found


def outline(view: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, type(part.block).__name__) for message in view for part in message.parts]


def test_a_whole_turn_is_recorded_and_folded_the_same(provider: Provider, tmp_path: Path) -> None:
    with world([], tmp_path) as w:
        assert isinstance(w, World)
        w.context.model = provider.model()
        w.context.tools = {"read": replace(echo_tool("read", "none", []), arguments=FileWords)}
        w.context.settings = settings(provider)
        provider.say(replace(READ_A, thought=""))
        provider.say(Wanted("", "`a.py` says so"))
        finished = w.run("read a.py")
        assert (finished.reason, finished.turns) == ("done", 2)
        w.check()
    assert shape(w.record.facts) == [
        ("Opened", ""),
        ("User", ""),
        ("RequestSent", ""),
        ("reply", "tool_use, complete: [\"read {'file_path': 'a.py'}\"]"),
        ("result", "echo: a.py False"),
        ("RequestSent", ""),
        ("reply", "end_turn, complete: []"),
    ]
    for view in (list(w.session.folded.view), list(fold(w.record.facts).view)):
        assert outline(view) == [
            ("user", "TextBlock"),
            ("assistant", "TextBlock"),
            ("assistant", "ToolUseBlock"),
            ("user", "ToolResultBlock"),
            ("assistant", "TextBlock"),
        ]
    replies = [fact for fact in w.record.facts if isinstance(fact, Reply)]
    assert all(reply.usage.prompt > 0 and reply.usage.output > 0 for reply in replies)
    assert "".join(event.text for event in w.told(TextDelta)) == "".join(reply.text for reply in replies)

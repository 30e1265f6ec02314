"""Every fault of the network, of the server and of the model: nothing is lost, and the session continues."""

import asyncio
import json
import random
import socket
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.events import Notice, Retrying, TextDelta, TurnFinished
from agent.loop.turn import run_turn
from agent.model.anthropic.accumulator import MessageAccumulator
from agent.model.anthropic.client import AnthropicModel
from agent.model_port import IncomingReply
from tests.agent.loop.world import World, world
from tests.sampling import sampled
from tests.strict_api.event_stream import events as wire
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says, thinks
from tests.tables import each_row
from transcripts.facts import Reply
from transcripts.folding import fold
from transcripts.messages import Block, ImageBlock, TextBlock, ToolUseBlock, UnknownBlock

from .raw_server import HEAD, raw

CALLING = Answer([thinks("hm"), says("héllo wörld, " * 8), calls("echo", words="x")])


def model(body: dict[str, Any]) -> Answer:
    """Text and a call; done when the call has its result."""
    return Answer([says("done")]) if "tool_result" in str(body["messages"]) else CALLING


def both(w: World) -> tuple[TurnFinished, TurnFinished]:
    """A turn under the faults that wait, then one without any."""

    async def whole() -> tuple[TurnFinished, TurnFinished]:
        try:
            first = await w.turn("first words")
            w.server.faults.clear()
            return first, await w.turn("and now?")
        finally:
            await w.context.model.close()

    return asyncio.run(whole())


def kept(w: World) -> bool:
    """Return whether all shown text is in the transcript, and the user's words in the last request."""
    shown = "".join(event.text for event in w.told(TextDelta))
    replies = [fact for fact in w.record.facts if isinstance(fact, Reply)]
    written = "".join(block.text for fact in replies for block in fact.blocks if isinstance(block, TextBlock))
    said = json.dumps(w.server.requests[-1]["messages"])
    return shown == written and "first words" in said and "and now?" in said


BROKEN = [
    Fault("reset", at=600),
    Fault("drop"),
    Fault("drop", at=600),
    Fault("truncate", at=700),
    Fault("truncate", at=1500),
    Fault("garbage"),
    Fault("sse_error"),
    Fault("no_message_stop"),
    Fault("empty"),
    Fault("html"),
    *(Fault("status", status=status) for status in (409, 425, 502, 504)),
    Fault("status", status=500, html=True),
]


@pytest.mark.parametrize("times", [1, None])
@pytest.mark.parametrize(
    "fault", sampled(BROKEN, 2), ids=lambda fault: f"{fault.kind}-{fault.status}-{fault.at}"
)
def test_no_word_is_lost_to_a_broken_answer_once_or_for_good(
    tmp_path: Path, fault: Fault, times: int | None
) -> None:
    with world([model] * 12, tmp_path) as w:
        w.server.faults.add(Fault(fault.kind, at=fault.at, times=times, status=fault.status, html=fault.html))
        first, second = both(w)
        assert (first.reason, first.code) == (("done", 0) if times else ("failed", 75))
        assert second.reason == "done"
        assert w.texts().count("echo: x") == len(w.ran["echo"]) == 1
        assert kept(w)
        for event in w.told(Retrying):
            assert len(event.reason) > 10 and "\n" not in event.reason and not event.reason.endswith(": ")
        w.check()


def test_text_of_the_last_try_stays_in_the_conversation(tmp_path: Path) -> None:
    with world([model] * 12, tmp_path) as w:
        w.server.faults.add(Fault("truncate", at=1700, times=None))
        assert [ended.reason for ended in both(w)] == ["failed", "done"]
        said = w.server.requests[-2]["messages"]
        assert [message["role"] for message in said] == ["user", "assistant", "user"]
        assert said[1]["content"][-1]["text"].startswith("héllo")
        w.check()


ODD = {
    "bad_tool_json": "not a valid JSON",
    "tool_input_not_object": "not a valid JSON",
    "max_tokens_tool": "cut at max_tokens",
    "duplicate_tool_ids": "echo: x",
    "tool_use_end_turn": "echo: x",
    "bad_tool_name": "There is no tool named",
    "bad_tool_id": "echo: x",
    "unknown_block": "echo: x",
    "unknown_event": "echo: x",
    "no_usage": "echo: x",
    "bare_usage": "echo: x",
    "bytewise": "echo: x",
    "split_utf8": "echo: x",
    "empty_content": "echo: x",
    "whitespace_text": "echo: x",
    "max_tokens_text": "echo: x",
    "window_exceeded": "echo: x",
    "pause_turn": "echo: x",
    "tool_use_without_block": "",
    "lone_surrogate": "",
}


@each_row("kind", ODD)
def test_an_odd_reply_is_answered_and_the_session_continues(tmp_path: Path, kind: str) -> None:
    with world([model] * 12, tmp_path) as w:
        w.server.faults.add(Fault(kind))
        first, second = both(w)
        assert (first.reason, second.reason) == ("done", "done")
        assert ODD[kind] in str(w.texts())
        assert w.clock.slept == []
        w.check()


@each_row("kind", ["empty_content", "whitespace_text", "max_tokens_text", "pause_turn"])
def test_a_reply_that_never_becomes_whole_ends_the_turn_and_says_why(tmp_path: Path, kind: str) -> None:
    with world([model] * 16, tmp_path) as w:
        w.server.faults.add(Fault(kind, times=None))
        first, second = both(w)
        assert (first.reason, first.code, second.reason) == ("failed", 1, "done")
        assert ("empty" if kind in ("empty_content", "whitespace_text") else "cut") in first.error
        # A cut reply that is repeated ends the turn at once, an empty one after three attempts.
        assert len(w.server.requests) == (6 if "empty" in first.error else 4)
        w.check()


def test_a_paused_reply_is_sent_back_unchanged(tmp_path: Path) -> None:
    with world(
        [Answer([thinks("a"), says("half")], "pause_turn"), Answer([thinks("b"), says("rest")])], tmp_path
    ) as w:
        assert w.run() == TurnFinished("done", 2)
        assert w.server.requests[1]["messages"][-1]["role"] == "assistant"
        w.check()


def test_an_id_of_an_earlier_turn_is_distinguished(tmp_path: Path) -> None:
    call = calls("echo", words="x") | {"id": "toolu_again"}
    with world([Answer([call]), "one", Answer([call]), "two"], tmp_path) as w:
        assert [ended.reason for ended in both(w)] == ["done", "done"]
        assert w.texts() == ["echo: x"] * 2
        w.check()


def cut_everywhere(folder: Path, cuts: list[int]) -> None:
    for cut in cuts:
        with world([model] * 4, folder, binds_thinking=True) as w:
            w.server.faults.add(Fault("truncate", at=cut))
            assert w.run().reason == "done", cut
            assert w.texts() == ["echo: x"], cut
            assert w.ran["echo"] == ["x"], cut
            w.check()


STREAM = 2_900  # bytes, a little over the longest stream of these turns


def test_a_stream_cut_anywhere_is_asked_again_and_its_call_runs_once(tmp_path: Path) -> None:
    cut_everywhere(tmp_path, sorted(random.Random(7).sample(range(1, STREAM), 16)))


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_a_stream_cut_after_every_byte(tmp_path: Path) -> None:
    cut_everywhere(tmp_path, list(range(1, STREAM)))


def interrupted_at(w: World, moment: int) -> bool:
    """Run a turn that is interrupted at event number `moment`. Returns False if it was over before."""

    async def whole() -> bool:
        def emit(event: Any) -> None:
            w.events.append(event)
            if len(w.events) == moment:
                task.cancel()

        w.say("first words")
        task = asyncio.ensure_future(run_turn(w.session, w.context, emit))
        try:
            await asyncio.gather(task, return_exceptions=True)
            assert (await w.turn("and now?")).reason == "done"
        finally:
            await w.context.model.close()
        return task.cancelled()

    return asyncio.run(whole())


def test_a_turn_interrupted_at_any_event_keeps_its_words_and_continues(tmp_path: Path) -> None:
    moment, reached = 1, True
    while reached:
        with world([model] * 5, tmp_path, binds_thinking=True) as w:
            reached = interrupted_at(w, moment)
            assert kept(w), moment
            assert len(w.ran["echo"]) <= 2, moment
            w.check()
        moment += 3
    assert moment > 20


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "120"}, 120),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:10 GMT"}, 0.4375),
        ({"retry-after": "-5"}, 0.4375),
        ({"retry-after": "1e300"}, 0.4375),
        ({"retry-after": "soon"}, 0.4375),
        ({}, 0.4375),
    ],
    ids=str,
)
def test_the_wait_is_what_the_server_asks_for_where_that_makes_sense(
    tmp_path: Path, headers: dict[str, str], seconds: float
) -> None:
    with world(["ok"], tmp_path) as w:
        w.server.faults.add(Fault("status", status=429, headers=headers))
        assert w.run().reason == "done"
        assert w.clock.slept == [seconds]


@pytest.mark.parametrize(
    ("headers", "status"), [({"retry-after": "3600"}, 429), ({"x-should-retry": "false"}, 503)], ids=str
)
def test_a_fault_that_waiting_does_not_help_is_reported_at_once_as_passing(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    with world([], tmp_path) as w:
        w.server.faults.add(Fault("status", status=status, headers=headers))
        ended = w.run()
        assert (ended.code, w.clock.slept, str(status) in ended.error) == (75, [], True)


def whole_stream() -> bytes:
    message = {
        "model": "m",
        "content": [{"type": "text", "text": "whole"}],
        "stop_reason": "end_turn",
        "usage": None,
    }
    return HEAD + b"".join(wire(message))


def hold(connection: socket.socket) -> None:
    connection.sendall(whole_stream())
    connection.recv(1)


def hang_up(connection: socket.socket) -> None:
    connection.sendall(whole_stream() + b"event: x\ndata: {broken\n\n")


@pytest.mark.parametrize("ending", [hold, hang_up])
def test_a_whole_reply_counts_however_its_connection_ends(tmp_path: Path, ending: Any) -> None:
    with raw(ending) as url, world([], tmp_path) as w:
        w.context.model = AnthropicModel(url, "key", stall=30)
        assert w.run() == TurnFinished("done", 1)
        assert w.told(Retrying) == []


@each_row(
    "text",
    [
        "prompt is too long: 250000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 21333 > 200000, decrease input length",
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 "
        "in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        "the request exceeds the available context size, try increasing it",
        "Input is too long for requested model.",
    ],
)
def test_a_prompt_that_stays_too_long_ends_with_a_clear_line_and_the_session_continues(
    tmp_path: Path, text: str
) -> None:
    with world(["ok"] * 5, tmp_path) as w:
        w.server.faults.add(Fault("status", status=400, text=text, times=None))
        first, second = both(w)
        assert (first.reason, first.code, second.reason) == ("failed", 1, "done")
        assert "Largest blocks" in first.error
        assert len(w.server.requests) <= 8
        w.check()


def test_a_body_that_is_too_large_goes_down_the_same_ladder(tmp_path: Path) -> None:
    with world(["ok"] * 5, tmp_path) as w:
        w.server.faults.add(Fault("status", status=413, html=True, times=None))
        first, second = both(w)
        assert (first.code, second.reason, len(w.server.requests) <= 8) == (1, "done", True)


def test_less_output_is_asked_for_when_the_model_cannot_write_so_much(tmp_path: Path) -> None:
    with world(["short", "again"], tmp_path, max_output=4_000) as w:
        assert w.run().reason == "done"
        assert [request["max_tokens"] for request in w.server.requests] == [8_000, 4_000]
        assert w.context.compaction.window.max_output == 4_000
        assert "4,000" in w.told(Notice)[0].text


@pytest.mark.parametrize("words", ["", "Could not process image"])
def test_images_that_the_server_refuses_become_placeholders_one_by_one(tmp_path: Path, words: str) -> None:
    broken = ImageBlock("image/png", "aGVsbG8=")
    with world(["I see"], tmp_path) as w:
        if words:
            unread = Fault(
                "status", status=400, text=words, times=None, when=lambda body: "iVBOR" in str(body)
            )
            w.server.faults.add(unread)
            broken = ImageBlock("image/png", "iVBORw0KGgoAAAAA")
        w.session.user((TextBlock("look"), broken, TextBlock("and"), broken))
        assert w.run("well?").reason == "done"
        assert str(w.server.requests[-1]["messages"]).count("a block that the API rejected was here") == 2


def test_all_images_that_the_server_lists_become_placeholders_at_once(tmp_path: Path) -> None:
    large = ImageBlock("image/png", "iVBORw0KGgoAAAAA")
    details = {
        "error_code": "image_dimensions_too_large",
        "paths": ["messages.0.content.1", "messages.0.content.3"],
    }
    error = {"type": "invalid_request_error", "message": "images are too large", "details": details}
    with world(["I see"], tmp_path) as w:
        body = json.dumps({"type": "error", "error": error}).encode()
        w.server.faults.add(Fault("status", status=400, body=body))
        w.session.user((TextBlock("look"), large, TextBlock("and"), large))
        assert w.run("well?").reason == "done"
        assert len(w.server.requests) == 2
        sent = [block["text"] for block in w.server.requests[-1]["messages"][0]["content"]]
        assert [text.startswith("[a block that the API rejected") for text in sent[:4]] == [False, True] * 2
        (notice,) = w.told(Notice)
        assert notice.text.startswith("the server rejected 2 blocks, which are now placeholders: ")
        w.check()


def test_what_another_server_put_into_a_reply_is_left_out_when_this_one_rejects_it(tmp_path: Path) -> None:
    foreign = {"provider_specific_fields": None}
    blocks: list[Block] = [
        TextBlock("I look", foreign),
        UnknownBlock({"type": "odd", "x": 1}),
        ToolUseBlock("t", "echo", {"words": "a"}, foreign),
    ]
    tag = Fault("status", status=400, text="messages.1.content.1: Input tag 'odd' found", times=None)
    with world(["I see"], tmp_path) as w:
        w.server.faults.add(replace(tag, when=lambda body: "'odd'" in str(body)))
        w.say("look")
        reply = w.session.reply(IncomingReply(blocks=blocks, complete=True, stop="tool_use"), 0)
        w.session.result(reply.seq, 2, (TextBlock("echo: a"),))
        assert w.run("well?").reason == "done"
        said = w.server.requests[-1]["messages"][1]["content"]
        assert [block.get("text", block.get("input")) for block in said] == [
            "I look",
            f"[a block that the API rejected was here; recall r{reply.seq} shows it]",
            {"words": "a"},
        ]
        assert len(w.server.refused) == 2 and len(w.server.requests) == 4
        assert fold(w.record.facts).view.tokens == w.session.folded.view.tokens


def test_thinking_that_another_server_signed_is_left_out_once(tmp_path: Path) -> None:
    foreign = {"type": "thinking", "thinking": "hm", "signature": "EqQBc2lnbmVkIGVsc2V3aGVyZQ=="}
    with world([model] * 6, tmp_path, binds_thinking=True) as w:
        w.say("earlier words")
        draft = MessageAccumulator()
        for chunk in wire(
            {"model": "m", "content": [foreign, says("hi")], "stop_reason": "end_turn", "usage": None}
        ):
            draft.feed(json.loads(chunk.split(b"data: ")[1]))
        w.session.reply(draft.reply, 0)
        assert [ended.reason for ended in both(w)] == ["done", "done"]
        assert len(w.server.refused) == 1 and "Invalid `signature`" in w.server.refused[0]
        assert [notice.text for notice in w.told(Notice)].count(
            "the server rejected earlier thinking, which is no longer sent"
        ) == 1
        assert '"thinking": "hm"' in json.dumps(w.server.requests[-1])  # what was thought since stays


def test_thinking_that_stays_refused_without_its_field_is_left_out_of_the_context(tmp_path: Path) -> None:
    with world([model] * 4, tmp_path) as w:
        w.server.faults.add(Fault("rejects", text="thinking", times=None))
        assert w.run().reason == "done"
        assert '"thinking"' not in json.dumps(w.server.requests[-1])

"""Whatever a server answers: memory and time are bounded, no terminal obeys it, the session continues."""

import asyncio
import json
import re
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ModelError, RequestRejected
from agent.events import Retrying, TurnFinished
from agent.model.answer_reader import bounded
from agent.model.anthropic.catalog import facts_from_catalog, facts_from_endpoint
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.selection import ModelSelection
from agent.model_port import IncomingReply, ModelFacts, ModelRequest, RequestSettings
from agent.ports import Allow, PermissionQuestion
from agent.ui.approval import question_body, question_head, question_target
from agent.ui.output_formats import json_line, stderr_line
from agent.ui.plain_repl import plain_text
from agent.ui.render import render_event
from agent.ui.terminal_text import RenderContext, Theme
from tests.agent.loop.world import World, world
from tests.sampling import sampled, scaled
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import says
from tests.tables import each_row
from transcripts.codec import decode_line, encode_fact
from transcripts.facts import Reply

from .hostile_answers import EVIL, headed, page, text, whole
from .hostile_cases import CHAT, HOSTILE, Hostile
from .raw_server import HEAD, raw

MAX_GROWTH_MB = 100.0  # of our memory, and that of the server within it; most cases take none
MAX_LAG_S = 1.0  # of processor time at once: no signal is heard meanwhile; most cases take a hundredth of it
UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\U000e0000-\U000e0fff]"
)
REPAIRED = re.compile("prompt is too long|Invalid `signature`")  # by the client, at the next request
CONTEXTS = [RenderContext(columns, Theme(False, False)) for columns in (40, 10_000)]


DONE = {
    AnthropicModel: whole(text("done")),
    ChatCompletionsModel: HEAD
    + b'data: {"choices":[{"delta":{"content":"done"},"finish_reason":"stop"}]}\n\n',
}


@dataclass
class Outcome:
    """The outcome of an answer: the turn with it, the next one, and the time and memory that they took."""

    first: TurnFinished
    second: TurnFinished
    lag: float  # seconds of processor time, the longest without a look at the event loop
    growth: float  # megabytes


def memory(field: str) -> float:
    """VmRSS or VmHWM of this process, in megabytes; 0 where that cannot be known."""
    if sys.platform != "linux":
        return 0.0
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


async def watch(gaps: list[float]) -> None:
    """Note how long the event loop was not looked at, until cancelled."""
    while True:
        before = time.thread_time()
        await asyncio.sleep(0.002)
        gaps.append(time.thread_time() - before)


Adapter = type[AnthropicModel] | type[ChatCompletionsModel]


def answered(w: World, hostile: AnthropicModel | ChatCompletionsModel) -> Outcome:
    """One turn with the hostile server's model, and one with the strict server's."""

    async def turns() -> Outcome:
        gaps = [0.0]
        strict, w.context.model = w.context.model, hostile
        await asyncio.to_thread(hostile.connect)
        watcher = asyncio.ensure_future(watch(gaps))
        if sys.platform == "linux":
            Path("/proc/self/clear_refs").write_text("5")  # the peak is measured from here
        before = memory("VmRSS")
        first = await w.turn("first words")
        growth = memory("VmHWM") - before
        watcher.cancel()
        await hostile.close()
        w.context.model = strict
        second = await w.turn("and now?")
        await strict.close()
        return Outcome(first, second, max(gaps), growth)

    return asyncio.run(turns())


def shown(w: World) -> str:
    """Everything that the faces print of the events."""
    told = [stderr_line(event) for event in w.events]
    for ctx in CONTEXTS:
        told += [show(event, ctx) for event in w.events for show in (plain_text, render_event)]
        told += [line for question in w.approver.questions for line in question_lines(question, ctx)]
    for fact in w.record.facts:
        if isinstance(fact, Reply):
            blocks = [block.to_json() for block in fact.blocks]
            told += map(json_line, (blocks, fact.model, fact.stop, fact.partial))
    return "\n".join(told)


def question_lines(question: PermissionQuestion, ctx: RenderContext) -> list[str]:
    return [question_head(question), *question_target(question, ctx), *question_body(question, ctx)]


def check_record(w: World) -> None:
    """Each fact is a line that can be read again, with what any JSON can hold."""
    for fact in w.record.facts:
        line = encode_fact(fact, "s")
        assert decode_line(line)[0].seq == fact.seq
        json.loads(line, parse_constant=pytest.fail)
        if isinstance(fact, Reply):
            assert not re.search("[\ud800-\udfff]", f"{fact.blocks}{fact.model}{fact.stop}{fact.partial}")


def run(case: Hostile, folder: Path, adapter: Adapter = AnthropicModel) -> Outcome:
    patience = 0.3 if "no content" in case.words else 20.0
    with (
        raw(case.answer, DONE[adapter]) as url,
        world([Answer([says("second")])] * 3, folder, Allow("once")) as w,
    ):
        outcome = answered(w, adapter(url, "key", stall=patience, silence=patience))
        retries: list[Retrying] = w.told(Retrying)
        told = [*(event.reason for event in retries), outcome.first.error]
        assert outcome.first.reason == ("failed" if case.ends == "gives up" else "done"), told
        assert {f"tries {event.tries}" for event in retries} == {case.ends} - {"goes on", "gives up"}
        assert case.words in " ".join(told)
        assert all(len(each) < 700 and each.isprintable() for each in told), told
        assert outcome.second.reason == "done", outcome.second
        refused = [each for each in w.server.refused if not REPAIRED.search(each)]
        assert len(refused) == case.rejected, refused
        assert not UNSAFE.search(shown(w))
        check_record(w)
    assert outcome.growth < MAX_GROWTH_MB and outcome.lag < MAX_LAG_S, outcome
    return outcome


@pytest.mark.parametrize("name", sampled((name for name, case in HOSTILE.items() if not case.slow), 10))
def test_a_hostile_answer_costs_little_and_the_session_continues(name: str, tmp_path: Path) -> None:
    run(HOSTILE[name], tmp_path)


@pytest.mark.parametrize("name", sampled(CHAT, 6))
def test_so_does_one_of_chat_completions(name: str, tmp_path: Path) -> None:
    run(CHAT[name], tmp_path, ChatCompletionsModel)


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name, case in HOSTILE.items() if case.slow])
def test_so_does_one_that_is_read_for_long(name: str, tmp_path: Path) -> None:
    run(HOSTILE[name], tmp_path)


@pytest.mark.parametrize("every", scaled(3, 1))
def test_a_hostile_answer_about_a_model_is_not_a_fact(monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    monkeypatch.setattr("agent.model.selection.DESCRIBE_TIMEOUT_S", 2.0)

    async def ask(case: Hostile) -> ModelFacts:
        with raw(case.answer) as url:
            api = AnthropicModel(url, "key")
            chosen = ModelSelection(api, "m", lambda: 0.0, None)
            await chosen.choose("m")
            await api.close()
            return chosen.facts

    async def ask_all() -> list[ModelFacts]:
        cases = [case for case in HOSTILE.values() if isinstance(case.answer, bytes)][::every]
        return await asyncio.gather(*map(ask, cases))

    assert set(asyncio.run(ask_all())) == {AnthropicModel("http://x", "key").known_facts("m")}


@each_row("told", ["soon", "2027-1-1", "20270105", 5, None, ["2027-01-05"], "\x1b[31m"])
def test_a_retirement_that_is_not_a_date_is_not_a_fact(told: Any) -> None:
    known = facts_from_catalog("claude-opus-4-6", True)
    assert facts_from_endpoint(known, {"retires_at": told}, True) == known
    dated = facts_from_endpoint(known, {"retires_at": "2027-01-05T00:00:00Z"}, True)
    assert dated.retires_on == "2027-01-05"


@each_row("told", [0, -1, True, 1e999, float("nan"), 10**4000, "many", [], None])
def test_a_window_or_an_output_beyond_reason_is_not_a_fact(told: Any) -> None:
    known = facts_from_catalog("claude-opus-4-6", True)
    assert facts_from_endpoint(known, {"max_input_tokens": told, "max_tokens": told}, True) == known


@each_row(
    ("effort", "supported"),
    [
        ({"supported": True}, True),
        ({"low": {"supported": True}}, True),
        ({"high": {"supported": True}, "low": {"supported": False}}, True),
        ({"max": {"supported": True}}, False),
        ({"supported": "yes"}, False),
        (["high"], False),
    ],
)
def test_effort_is_used_where_the_server_supports_it_at_all_or_a_level_of_it(
    effort: Any, supported: bool
) -> None:
    known = facts_from_catalog("claude-opus-4-6", True)
    assert facts_from_endpoint(known, {"capabilities": {"effort": effort}}, True).effort is supported


def test_what_a_server_wants_to_be_told_again_is_forgotten() -> None:
    asked: list[bytes] = []
    cookies = headed(*(f"set-cookie: c{at}=1; Path=/; Max-Age=9999" for at in range(9)))

    async def twice() -> None:
        api = AnthropicModel(url, "key", headers={"Cookie": "own=1"})
        request = ModelRequest(RequestSettings("m", 1), ())
        for _ in range(2):
            await api.stream(request, IncomingReply(), lambda event: None)
        await api.close()

    with raw(whole(text(), head=cookies), asked=asked) as url:
        asyncio.run(twice())
    assert len(asked) == 2
    assert all(re.findall(rb"(?i)cookie: *([^\r]*)", head) == [b"own=1"] for head in asked)


@pytest.mark.parametrize("part", sampled(range(5), 5))
def test_no_hostile_answer_to_another_protocol_is_a_whole_chat_completion(part: int) -> None:
    async def ask(case: Hostile) -> tuple[str, bool]:
        """Return the failure of the answer, and whether the reply is complete."""
        with raw(case.answer) as url:
            api, reply = ChatCompletionsModel(url, "key", silence=1.0), IncomingReply()
            try:
                await api.stream(ModelRequest(RequestSettings("m", 1), ()), reply, lambda event: None)
            except ModelError as error:
                return str(error), reply.complete
            finally:
                await api.close()
        return "", reply.complete

    async def ask_all() -> list[tuple[str, bool]]:
        cases = [case for case in HOSTILE.values() if isinstance(case.answer, bytes)][part::5]
        return await asyncio.gather(*map(ask, cases))

    for said, complete in asyncio.run(ask_all()):
        assert said.isprintable() and not complete


@each_row("name", [EVIL, "m" * 201, "\ud800", "", 5, None])
def test_the_name_of_a_model_that_no_one_could_type_is_passed_over(name: Any) -> None:
    listed = page("200 OK", json.dumps({"data": [{"id": name}, {"id": "usual"}]}).encode())

    async def only_one(url: str) -> ModelFacts:
        api = ChatCompletionsModel(url, "key")
        try:
            return await api.describe("")
        finally:
            await api.close()

    with raw(listed) as url:
        assert asyncio.run(only_one(url)).id == "usual"


def test_the_framing_of_a_cloud_is_read_from_that_cloud_alone_and_in_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with raw(whole(text(), head=headed(kind="application/vnd.amazon.eventstream"))) as url:
        api, reply = AnthropicModel(url, "key"), IncomingReply()
        asyncio.run(api.stream(ModelRequest(RequestSettings("m", 1), ()), reply, lambda event: None))
    assert reply.text == "hello"

    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100

    async def read_all() -> None:
        async for _ in bounded(pieces()):
            pass

    monkeypatch.setattr("agent.model.answer_reader.MAX_REPLY_BYTES", 1_000)
    with pytest.raises(RequestRejected, match="too large for a reply: it exceeds"):
        asyncio.run(read_all())


def test_facts_about_a_model_that_do_not_end_are_not_read_to_their_end() -> None:
    sent: list[int] = []

    def pour(connection: socket.socket) -> None:
        connection.sendall(headed(kind="application/json"))
        for _ in range(64):
            connection.sendall(b" " * (1 << 20))
            sent.append(1)

    async def describe(url: str) -> None:
        api = AnthropicModel(url, "key")
        try:
            with pytest.raises(ModelError):
                await api.describe("m")
        finally:
            await api.close()

    with raw(pour) as url:
        asyncio.run(describe(url))
    assert len(sent) < 32, "megabytes"

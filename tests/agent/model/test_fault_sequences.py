"""Random sequences of faults on the line to a server: a turn ends well if the server recovers in time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.events import Event, ReplyFinished, Retrying, TurnFinished
from agent.loop.turn import run_turn
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model.responses.client import ResponsesModel
from agent.model.retry import MAX_TRIES
from tests.agent.loop.world import TestClock, World, world
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says, thinks

from .chat_server import MODEL, ChatReply, ChatServer
from .faulty_line import HOSTS, FaultyLine, Kind, LineFault, faulty_line, random_faults
from .responses_server import MODEL as RESPONSES_MODEL
from .responses_server import ResponsesServer, Said

MAX_FAULTS = 9  # of a request
TEXT = "héllo wörld, " * 8


class LineClock(TestClock):
    """Waits take no time, and the next fault of a line begins with them."""

    line: FaultyLine

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.line.advance()


def message(body: dict[str, Any]) -> Answer:
    """Text and a call; done when the call has its result."""
    if "tool_result" in str(body["messages"]):
        return Answer([says("done")])
    return Answer([thinks("hm"), says(TEXT), calls("echo", words="x")])


def completion(body: Any) -> ChatReply:
    if any(each["role"] == "tool" for each in body["messages"]):
        return ChatReply("done")
    return ChatReply(TEXT, reasoning="hm", calls=(("echo", '{"words": "x"}'),))


def response(body: Any) -> Said:
    if any(each.get("type") == "function_call_output" for each in body["input"]):
        return Said("done")
    return Said(TEXT, summary=("hm",), calls=(("echo", '{"words": "x"}'),))


@contextmanager
def messages_world(folder: Path, host: str) -> Iterator[tuple[World, FaultyLine]]:
    with world([message] * 99, folder) as w, faulty_line(w.server.base_url, host) as line:
        w.context.model = AnthropicModel(line.url, "key", assume_official=True)
        yield w, line
        assert w.server.refused == []


@contextmanager
def chat_world(folder: Path, host: str) -> Iterator[tuple[World, FaultyLine]]:
    with world([], folder) as w, ChatServer() as server, faulty_line(server.base_url, host) as line:
        server.responder = completion
        w.context.model = ChatCompletionsModel(line.url, "key")
        w.context.settings = replace(w.context.settings, model=MODEL, thinking=False)
        yield w, line
        assert server.refused == []


@contextmanager
def responses_world(folder: Path, host: str) -> Iterator[tuple[World, FaultyLine]]:
    with world([], folder) as w, ResponsesServer() as server, faulty_line(server.base_url, host) as line:
        server.responder = response
        w.context.model = ResponsesModel(line.url, "key")
        w.context.settings = replace(w.context.settings, model=RESPONSES_MODEL)
        yield w, line
        assert server.refused == []


WORLDS: dict[str, Callable[[Path, str], Any]] = {
    "messages": messages_world,
    "chat": chat_world,
    "responses": responses_world,
}


def run(w: World, line: FaultyLine, first: list[LineFault], second: list[LineFault]) -> TurnFinished:
    """Run a turn of two requests, each with its own faults."""
    clock = LineClock()
    clock.line = line
    w.context.clock = clock
    w.context.jitter = random.Random(1).random

    def emit(event: Event) -> None:
        w.events.append(event)
        if isinstance(event, ReplyFinished):
            line.break_next(second)

    async def whole() -> TurnFinished:
        w.say("first words")
        line.break_next(first)
        try:
            return await run_turn(w.session, w.context, emit)
        finally:
            await w.context.model.close()

    return asyncio.run(whole())


def check_sequences(provider: str, host: str, folder: Path, seeds: range) -> None:
    """Run random sequences; at least 99 % end well, and in none a call runs twice."""
    failed = []
    for seed in seeds:
        chance = random.Random(f"{provider} {host} {seed}")
        first = random_faults(chance, MAX_FAULTS)
        second = random_faults(chance, MAX_FAULTS)
        with WORLDS[provider](folder, host) as (w, line):
            finished = run(w, line, first, second)
            assert len(w.ran["echo"]) <= 1, seed
            w.check()
            if finished.reason == "done":
                assert w.ran["echo"] == ["x"], seed
            else:
                told = [(event.attempt, event.tries, event.reason) for event in w.told(Retrying)]
                failed.append((seed, finished.error, [fault.kind for fault in line.used], told))
    assert len(failed) <= len(seeds) // 100, failed


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("provider", WORLDS)
def test_turns_survive_faults_that_pass(tmp_path: Path, provider: str, host: str) -> None:
    check_sequences(provider, host, tmp_path, range(4))


@pytest.mark.sweep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("provider", WORLDS)
def test_turns_survive_many_sequences_of_faults(tmp_path: Path, provider: str, host: str) -> None:
    check_sequences(provider, host, tmp_path, range(300))


RESPONSE_BYTES = 4_000  # a little over the longest response, with its head and the sizes of its chunks


def check_breaks(provider: str, folder: Path, places: Iterable[int]) -> None:
    """Break each attempt but the tenth at the same place; the call runs once."""
    for at in places:
        for kind in KINDS_OF_BREAK:
            with WORLDS[provider](folder, HOSTS[0]) as (w, line):
                finished = run(w, line, [LineFault(kind, at=at)] * MAX_FAULTS, [])
                reasons = {event.reason for event in w.told(Retrying)}
                assert finished.reason == "done", (kind, at, finished.error)
                assert w.ran["echo"] == ["x"], (kind, at)
                assert {event.tries for event in w.told(Retrying)} <= {MAX_TRIES}, (kind, at, reasons)
                w.check()


KINDS_OF_BREAK: tuple[Kind, ...] = ("cut", "reset")


@pytest.mark.parametrize("provider", WORLDS)
def test_a_response_that_breaks_off_anywhere_is_a_lost_connection(tmp_path: Path, provider: str) -> None:
    check_breaks(provider, tmp_path, random.Random(5).sample(range(RESPONSE_BYTES), 3))


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("provider", WORLDS)
def test_a_response_that_breaks_off_after_each_byte(tmp_path: Path, provider: str) -> None:
    check_breaks(provider, tmp_path, range(RESPONSE_BYTES))

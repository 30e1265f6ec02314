"""The input of hooks at the beginning and the end of a session."""

import asyncio
import gc
from pathlib import Path
from typing import Any

from agent.ports import HookAnswer, HookEvent
from tests.agent.commands.controller_run import ControllerRun, run_controller


class Speaking:
    """Hooks that return text at the beginning of a session, and keep their inputs."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    async def run(self, event: HookEvent, about: Any) -> HookAnswer:
        subject = about.get("source") or about.get("reason") or about.get("message") or about.get("prompt")
        self.told.append((event, subject))
        return HookAnswer(words=f"began by {subject}" if event is HookEvent.SESSION_START else "")


def test_hooks_are_informed_of_each_session_and_their_words_go_before_its_first_prompt(
    tmp_path: Path,
) -> None:
    hooks = Speaking()

    async def work(run: ControllerRun) -> None:
        await run.do("hello", "/clear", "again", "/fork", "more")

    server = run_controller(tmp_path, work, hooks=hooks)
    told = [each for each in hooks.told if each[0] != HookEvent.STOP]
    assert told == [
        (HookEvent.SESSION_START, "startup"),
        (HookEvent.PROMPT, "hello"),
        (HookEvent.SESSION_END, "clear"),
        (HookEvent.SESSION_START, "clear"),
        (HookEvent.PROMPT, "again"),
        (HookEvent.SESSION_END, "resume"),
        (HookEvent.SESSION_START, "fork"),
        (HookEvent.PROMPT, "more"),
        (HookEvent.SESSION_END, "prompt_input_exit"),
    ]
    for request, source in zip(server.requests, ("startup", "clear", "fork"), strict=True):
        texts = [block["text"] for block in request["messages"][-1]["content"]]
        assert any(f"\nA hook of the user says:\nbegan by {source}\n" in text for text in texts)


def test_leaving_waits_for_no_hook_of_the_beginning(tmp_path: Path) -> None:
    class Slow(Speaking):
        async def run(self, event: HookEvent, about: Any) -> HookAnswer:
            if event is HookEvent.SESSION_START:
                await asyncio.Event().wait()
            return await super().run(event, about)

    hooks = Slow()

    async def work(run: ControllerRun) -> None:
        assert run.controller.status().session

    run_controller(tmp_path, work, hooks=hooks)
    assert hooks.told == [(HookEvent.SESSION_END, "prompt_input_exit")]


def test_a_start_enables_the_garbage_collector_that_the_command_disabled(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.controller.ready()

    gc.disable()
    try:
        run_controller(tmp_path, work)
        assert gc.isenabled() and gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.enable()


def test_a_start_leaves_an_enabled_garbage_collector_alone(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.controller.ready()

    before = gc.get_freeze_count()
    run_controller(tmp_path, work)
    assert gc.isenabled() and gc.get_freeze_count() == before

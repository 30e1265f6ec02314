"""The input of hooks at the beginning and the end of a session."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.ports import HookAnswer, HookEvent
from tests.agent.commands.controller_run import ControllerRun, run_controller
from transcripts.session_key import SessionKey
from transcripts.session_lock import lock_holder


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


class WaitingKey(SessionKey, frozen=True, kw_only=True):
    """A key that recognizes a transcript once `go` is set, like one that takes long to read."""

    go: threading.Event

    def is_from_elsewhere(self, path: Path, start: int = 0) -> bool:
        return not self.go.wait(30)


async def two_sessions(run: ControllerRun, go: threading.Event) -> str:
    """Leave a session for a new one; resuming it takes until `go` is set. Returns its id."""
    await run.do("hello")
    old = run.controller.in_use[0].sid
    await run.do("/clear")
    run.controller.services.repository.files.key = WaitingKey(key=bytes(32), go=go)
    return old


def test_keys_are_handled_while_a_session_is_resumed(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        go = threading.Event()
        old = await two_sessions(run, go)
        asyncio.get_running_loop().call_soon(go.set)
        assert f"resumed session {old}" in await run.do(f"/resume {old}")

    run_controller(tmp_path, work, verified=False)


def test_a_session_that_was_not_waited_for_is_not_left_locked(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        go = threading.Event()
        old = await two_sessions(run, go)
        resuming = asyncio.ensure_future(run.controller.factory.resume(old))
        await asyncio.sleep(0)
        resuming.cancel()
        asyncio.get_running_loop().call_soon(go.set)
        with pytest.raises(asyncio.CancelledError):
            await resuming
        path = run.controller.services.repository.records.path_of(old)
        assert lock_holder(path) is None
        assert f"resumed session {old}" in await run.do(f"/resume {old}")

    run_controller(tmp_path, work, verified=False)


def test_warnings_about_a_transcript_are_shown_in_the_thread_of_the_screen(tmp_path: Path) -> None:
    threads: list[int] = []

    async def work(run: ControllerRun) -> None:
        go = threading.Event()
        go.set()
        old = await two_sessions(run, go)
        repository = run.controller.services.repository
        with repository.records.path_of(old).open("ab") as file:
            file.write(b"torn")
        repository.tell = lambda text: threads.append(threading.get_ident())
        await run.do(f"/resume {old}")

    run_controller(tmp_path, work, verified=False)
    assert threads == [threading.get_ident()]

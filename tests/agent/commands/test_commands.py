"""The table of slash commands: help, unknown names, and what may run during a turn."""

import asyncio
from pathlib import Path

import pytest

from agent.commands import may_run_during_turn
from tests.strict_api.faults import Fault

from .controller_run import ControllerRun, run_controller


def test_help_lists_every_command_and_explains_one(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        text = await run.do("/help")
        assert "/compact" in text and "Ctrl-C" in text
        assert "--dry-run" in await run.do("/help compact")

    run_controller(tmp_path, work)


def test_an_unknown_command_is_told_with_the_nearest(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert await run.do("/compcat") == "Unknown command /compcat - did you mean /compact?"
        assert "did you mean /status?" in await run.do("/stauts")  # not /stats
        assert "ANTHROPIC_API_KEY" in await run.do("/login"), "not /pin"
        assert "/help lists them" in await run.do("/insight-x"), "nothing that is only a little like it"

    run_controller(tmp_path, work)


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("/context", True),
        ("/context now", True),
        ("/tasks kill b1", True),
        ("/model", False),
        ("/model opus", False),
        ("/permissions mode manual", False),
        ("/thinking", True),
        ("/compact", False),
        ("/clear", False),
        ("/nothing", False),
        ("!ls", False),
    ],
)
def test_commands_that_only_look_may_run_during_a_turn(line: str, allowed: bool) -> None:
    assert may_run_during_turn(line) is allowed


def test_a_prompt_interrupted_before_any_answer_leaves_the_conversation(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help")
        before = run.bodies()
        stall = Fault("stall")
        run.server.faults.add(stall)
        task = asyncio.ensure_future(run.controller.prompt("something wrong"))
        while len(run.server.requests) < 2:
            await asyncio.sleep(0)
        task.cancel()
        assert (await task).reason == "interrupted"
        stall.release.set()
        assert run.bodies() == before
        await run.do("help")

    run_controller(tmp_path, work)

"""What the model is told about the sandbox of commands, by what an earlier run has found."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.events import ToolCallFinished
from agent.permissions import Rule
from agent.session.environment import OPEN_TEXT
from agent.session.system_prompts import SANDBOX_TEXT
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel, Step
from tests.strict_api.server import Server
from tools.processes.runner import CommandRunner, command_runner
from tools.sandbox.profile import SandboxLevel

ENTRY = "home/state/sandbox.json"  # in the directory of a run: the kind of sandbox that it has found
TOUCH = {"name": "bash", "command": "touch made"}


@dataclass
class Described:
    """A run of the program with one prompt, on which the model calls tools and then answers."""

    server: Server
    results: list[str]
    has_started: bool  # a supervisor of commands
    hidden: frozenset[str]  # from commands

    def words(self, request: int) -> list[str]:
        """The texts about commands in the last message and, for the first request, in the system prompt."""
        sent = self.server.requests[request]
        texts = json.dumps([sent["messages"][-1]["content"], [] if request else sent["system"]])
        return [text for text in (SANDBOX_TEXT, OPEN_TEXT) if json.dumps(text)[1:-1] in texts]


def prompted(folder: Path, *uses: dict[str, str], **options: Any) -> Described:
    steps: list[Step] = [Reply((calls(**use),)) for use in uses]
    found: dict[str, Any] = {}

    async def work(run: ControllerRun) -> None:
        await run.do("go")
        finished = run.emitted(ToolCallFinished)
        found["results"] = ["".join(block.text for block in event.result.content) for event in finished]
        runner = command_runner(run.controller.in_use[1].tool_context)
        found["has_started"] = runner._supervisor is not None
        found["hidden"] = frozenset(path.name for path in runner.profile.hidden) if runner.profile else ()

    respond = ScriptedModel([*steps, "done"])
    server = run_controller(folder, work, respond=respond, headless=True, sandbox_known=False, **options)
    return Described(server, **found)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project in which one run found a sandbox."""
    prompted(tmp_path)
    if kind_in(tmp_path)["level"] == "none":
        pytest.skip("there is no sandbox here")
    return tmp_path


def kind_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / ENTRY).read_text())["kind"]
    return found


def forge(folder: Path, level: str) -> None:
    """Let the file say that an earlier run has found this kind."""
    entry = json.loads((folder / ENTRY).read_text())
    entry["kind"]["level"] = level
    (folder / ENTRY).write_text(json.dumps(entry))


def test_a_later_run_describes_the_sandbox_and_sets_it_up_for_the_first_command(folder: Path) -> None:
    without_calls = prompted(folder)
    assert without_calls.words(0) == [SANDBOX_TEXT] and not without_calls.has_started
    with_call = prompted(folder, TOUCH)
    assert with_call.has_started and (folder / "made").exists()
    assert [with_call.words(0), with_call.words(1)] == [[SANDBOX_TEXT], []]


def test_a_sandbox_that_is_wrongly_remembered_is_not_relied_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none(self: CommandRunner) -> tuple[SandboxLevel, str]:
        await self.supervisor()
        return "none", "the kernel is too old"

    monkeypatch.setattr(CommandRunner, "sandbox", none)
    run = prompted(folder, TOUCH, TOUCH, configured={"permission_mode": "dontAsk"})
    assert [run.words(0), run.words(1), run.words(2)] == [[SANDBOX_TEXT], [OPEN_TEXT], []]
    assert all("denied" in result for result in run.results) and not (folder / "made").exists()
    assert kind_in(folder)["level"] == "none"


def test_a_sandbox_that_is_wrongly_remembered_to_be_missing_is_used(folder: Path) -> None:
    truth = kind_in(folder)
    forge(folder, "none")
    run = prompted(folder, {"name": "bash", "command": "echo $TMPDIR; touch made"})
    assert [run.words(0), run.words(1)] == [[], [SANDBOX_TEXT]]
    assert (folder / "made").exists() and kind_in(folder) == truth


def spoil(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().replace(old, new))


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" * 9_000),
        spoil('"level":"', '"level":"no'),
        spoil('"system":["', '"system":["other '),
        lambda path: (path.unlink(), path.mkdir()),
        pipe,
    ],
    ids=["empty", "noise", "unknown kind", "other system", "directory", "pipe"],
)
def test_a_damaged_or_foreign_memory_of_the_sandbox_is_ignored(
    folder: Path, damage: Callable[[Path], object]
) -> None:
    damage(folder / ENTRY)
    run = prompted(folder)
    assert run.has_started and run.words(0) == [SANDBOX_TEXT]


def test_a_search_before_the_first_command_starts_the_sandbox_of_the_session(folder: Path) -> None:
    (folder / "secret").write_text("text")
    grep = {"name": "grep", "pattern": "text"}
    run = prompted(folder, grep, configured={"deny": (Rule("read", "secret"),)})
    assert run.has_started and "secret" in run.hidden

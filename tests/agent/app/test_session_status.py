"""The user's command for the status line: triggers, input, and the part of its output that is shown."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.app.options import Options
from agent.app.session_status import StatusCommand, display_name
from agent.app.start_screen import start_command
from agent.permissions import parse_rules
from agent.ports import Status
from agent.session import repository_state
from agent.ui.layout import status_line
from agent.ui.terminal_text import RenderContext, Theme, foreign_line
from tests.agent.commands.controller_run import ControllerRun, run_controller
from tests.tables import each_row
from tools.processes.own_command import OwnCommandEnd
from tools.search import Checkout

STATUS = Status("claude-sonnet-5-5", 100, 1000, "NORMAL", 0.5, "manual", "s", "/work/app", jobs=1)


def statuses(count: int) -> list[Status]:
    return [replace(STATUS, tokens=number) for number in range(count)]


def test_the_command_runs_for_the_first_and_the_newest_status_and_not_in_between() -> None:
    told: list[int] = []
    changes: list[None] = []

    async def run(line: str, given: str) -> OwnCommandEnd:
        told.append(json.loads(given)["tokens"])
        return OwnCommandEnd(0, f"{told[-1]} tokens\nmore\n", "")

    async def whole() -> list[str]:
        command = StatusCommand("line", run, lambda s: {"tokens": s.tokens}, lambda: changes.append(None))
        shown = [command.fill(status).own_line for status in statuses(2)]
        while len(told) < 1:
            await asyncio.sleep(0)
        for status in statuses(5):
            command.fill(status)
        while len(changes) < 2:
            await asyncio.sleep(0.01)
        shown.append(command.fill(statuses(5)[-1]).own_line)
        await command.close()
        command.fill(STATUS)
        await asyncio.sleep(0)
        return shown

    assert asyncio.run(whole()) == ["", "", "4 tokens"]
    assert told == [1, 4]


@pytest.mark.parametrize(
    ("fault", "told"),
    [("exit", "exit code 1"), ("gone", "No such file"), ("slow", "took longer than 0.01 s")],
)
def test_a_command_that_fails_leaves_the_usual_line_and_says_why(
    fault: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("STATUS_TIMEOUT_S", "STATUS_INTERVAL_S"):
        monkeypatch.setattr(f"agent.app.session_status.{name}", 0.01)
    asked: list[str] = []

    async def run(line: str, given: str) -> OwnCommandEnd:
        asked.append(line)
        if fault == "gone":
            raise FileNotFoundError(2, "No such file")
        if fault == "slow":
            await asyncio.Event().wait()
        return OwnCommandEnd(1, "words", "")

    async def whole() -> Status:
        command = StatusCommand("line", run, lambda status: {}, lambda: None)
        command.fill(STATUS)
        while command._working is not None and not command._working.done():
            await asyncio.sleep(0.01)
        return command.fill(STATUS)

    shown = asyncio.run(whole())
    assert (shown.own_line, shown.note, asked) == ("", f"status_line: {told}", ["line"])


def test_the_command_gets_what_claude_code_sends(tmp_path: Any) -> None:
    script = tmp_path / "line.sh"
    script.write_text("cat >told; echo own line")

    async def work(run: ControllerRun) -> None:
        controller, drawn = run.controller, asyncio.Event()
        assert controller.status().own_line == ""
        config = replace(controller.setup.config, status_line=f"bash {script}")
        controller.services.setup = replace(controller.services.setup, config=config)
        controller.watch_status(drawn.set)
        controller.status()
        await drawn.wait()
        assert controller.status().own_line == "own line"

    run_controller(tmp_path, work)
    told = json.loads((tmp_path / "told").read_text())
    assert told["model"] == {"id": "claude-sonnet-5-5", "display_name": "Sonnet 5.5"}
    assert told["workspace"]["project_dir"] == str(tmp_path) and told["hook_event_name"] == "Status"
    assert told["context_window"]["context_window_size"] == 200_000 and "total_cost_usd" in told["cost"]


def test_an_own_line_precedes_what_it_may_not_hide() -> None:
    ctx = RenderContext(60, Theme(colour=False, weight=False))
    assert (
        status_line(replace(STATUS, own_line="mine"), 2, ctx) == "mine · asks before edits · 2 queued · 1 job"
    )
    full = replace(STATUS, own_line="m" * 99, state="CRITICAL", jobs=0)
    shown = status_line(full, 0, ctx).replace("\x1b[m", "")
    assert shown.startswith("mmm") and shown.endswith("… · 10% of 1.0k, nearly full · asks before edits")


def test_the_line_says_that_commands_without_a_sandbox_are_asked_about(tmp_path: Path) -> None:
    ctx = RenderContext(120, Theme(colour=False, weight=False))

    async def work(run: ControllerRun) -> None:
        store = run.controller.in_use[1].permissions
        labels = []
        for sandbox in ("auto", "off"):
            store.sandbox = replace(store.sandbox, mode=sandbox)
            for mode in ("manual", "acceptEdits", "plan"):
                store.set_mode(mode)
                labels.append(status_line(run.controller.status(), 0, ctx).split(" · ")[2])
        assert labels == [
            *("asks before edits", "accepts edits", "plan mode"),
            *("asks before edits and commands", "accepts edits, asks before commands", "plan mode"),
        ]

    run_controller(tmp_path, work)


def test_of_an_own_line_only_colours_reach_the_terminal() -> None:
    line = "\x1b[31mred\x1b[0m \x1b[2J\x1b]8;;http://x\x07link\x1b]8;;\x1b\\ \x1bc\x07\ttail\x1b["
    coloured = foreign_line(line, Theme())
    assert coloured.startswith("\x1b[31mred\x1b[0m link ") and coloured.endswith("tail\x1b[m")
    assert "\x1b" not in foreign_line(line, Theme(colour=False))
    assert coloured.count("\x1b") == 3


@each_row(
    ("model", "name"),
    [
        ("claude-opus-5-5", "Opus 5.5"),
        ("claude-haiku-4-5-20251001", "Haiku 4.5"),
        ("qwen3-coder", "qwen3-coder"),
    ],
)
def test_a_model_is_named_in_the_usual_way(model: str, name: str) -> None:
    assert display_name(model) == name


def test_the_flags_to_repeat_lead_to_the_same_sessions_and_model() -> None:
    assert start_command(Options()) == "makeroom "
    assert start_command(Options(offline=True, folder="my project")) == "makeroom --offline -C 'my project' "
    made = Options(offline=True, sample=True, folder="makeroom-sample")
    assert start_command(made) == "makeroom --offline --sample "
    assert start_command(replace(made, folder="x/makeroom-sample")) == "makeroom --offline --sample -C x "
    assert start_command(Options(worktree="parser")) == "makeroom --worktree parser "


def test_an_answer_that_allows_all_edits_is_shown_as_long_as_it_is_in_force(tmp_path: Any) -> None:
    ctx = RenderContext(100, Theme(colour=False, weight=False))

    async def work(run: ControllerRun) -> None:
        store = run.controller.in_use[1].permissions

        def shown() -> str:
            return status_line(run.controller.status(), 0, ctx)

        for text, accepts in (("edit(src/*)", False), ("edit", True)):
            store.allow(parse_rules(text)[0])
            assert ("accepts edits" in shown(), "asks before edits" in shown()) == (accepts, not accepts)
        store.set_mode("plan")
        assert "plan mode" in shown()
        store.set_mode("manual")
        store.ask(parse_rules("edit")[0])
        assert "asks before edits" in shown()

    run_controller(tmp_path, work)


def test_a_screen_that_nothing_else_redraws_shows_a_new_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repository_state, "BRANCH_INTERVAL_S", 0.1)
    (tmp_path / ".git").mkdir()
    head = tmp_path / ".git/HEAD"
    head.write_text("ref: refs/heads/main\n")
    readers = []
    find = repository_state._checked_out

    def find_noting_thread(checkout: Checkout) -> str:
        readers.append(threading.current_thread())
        return find(checkout)

    async def work(run: ControllerRun) -> None:
        redrawn = asyncio.Event()
        run.controller.watch_status(redrawn.set)
        assert run.controller.status().branch == "main"
        head.write_text("ref: refs/heads/topic\n")
        monkeypatch.setattr(repository_state, "_checked_out", find_noting_thread)
        run.controller.status()
        await asyncio.wait_for(redrawn.wait(), 5)
        assert run.controller.status().branch == "topic"
        assert readers and threading.main_thread() not in readers  # keys do not wait for a slow disk

    run_controller(tmp_path, work)

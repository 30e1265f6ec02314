"""The lines that a session begins with."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.app.config import Config
from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.app.start_screen import start_lines
from agent.commands import make_controller
from agent.events import CommandOutput, Event, Notice
from tests.agent.commands.controller_run import AllowAll, ControllerRun, run_controller
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server


def test_a_session_begins_with_what_it_works_with_the_last_one_and_what_to_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/feature\n")

    async def begin(run: ControllerRun) -> None:
        first, *rest = run.text().splitlines()
        assert "with claude-sonnet-5-5 in " in first and first.endswith(f"{tmp_path.name} (feature)")
        assert rest == [
            'Try "what does this project do?", or mention a file with @. /help lists commands and keys'
        ]
        await run.do("say hello to all of them, in every language that there is")

    async def begin_again(run: ControllerRun) -> None:
        _, last, _ = run.text().splitlines()
        assert last == (
            "Last session (just now): 'say hello to all of them, in every lang…'."
            " Continue it with makeroom -c"
        )
        setup = run.controller.setup
        assert start_lines(setup, "/models/gpt-oss.gguf")[0].split(" in ")[0].endswith(" with gpt-oss.gguf")
        there = replace(setup, options=replace(setup.options, worktree="parser"))
        assert start_lines(there, "x")[1].endswith("Continue it with makeroom --worktree parser -c")
        monkeypatch.setattr("sys.argv", ["/src/agent/__main__.py"])
        assert start_lines(there, "x")[1].endswith("Continue it with python -m agent --worktree parser -c")
        typed = "Team 👨\u200d👩\u200d👧 can't می\u200cخواهم C:\\dir\u202e"
        await run.do(typed)
        assert start_lines(setup, "x")[1].endswith(f": '{typed}'. It is still open elsewhere")

    run_controller(tmp_path, begin)
    run_controller(tmp_path, begin_again, verified=False)


def test_a_new_session_is_announced_and_commands_work_before_anything_slow_is_loaded(tmp_path: Path) -> None:
    events: list[Event] = []
    config = Config(key="test-key-123456", state_dir=tmp_path / "state", user_dir=tmp_path / "config")
    setup = RunSetup(Options(), config, tmp_path, {})

    async def work() -> None:
        driver = make_controller(setup, events.append, AllowAll())
        assert await driver.open()
        first, last = events
        assert isinstance(first, Notice) and "with claude-sonnet-5-5 in " in first.text
        assert isinstance(last, Notice) and last.text.endswith("/help lists commands and keys")
        assert await driver.command("/help") and isinstance(events[-1], CommandOutput)
        assert driver.status().note == "starting"
        assert driver.services.selection.model.client is None  # type: ignore[attr-defined]
        assert not await driver.command("/exit")
        await driver.close()

    asyncio.run(work())


def test_what_was_chosen_before_there_is_a_session_holds_in_it(tmp_path: Path) -> None:
    events: list[Event] = []
    config = Config(key="test-key-123456", state_dir=tmp_path / "state", user_dir=tmp_path / "config")

    async def work(server: Server) -> None:
        told = replace(config, base_url=server.base_url, cache_dir=tmp_path / "cache")
        setup = RunSetup(Options(), told, tmp_path, {})
        driver = make_controller(setup, events.append, AllowAll())
        assert driver.cycle_mode() == "acceptEdits"
        assert await driver.command("/theme light")
        assert (await driver.prompt("hi")).reason == "done"
        assert driver.status().mode == "acceptEdits" and driver.status().session
        assert await driver.command("/config theme") and "light" in "".join(map(str, events[-2:]))
        assert await driver.command("/theme dark") and await driver.command("/config theme")
        assert "dark" in "".join(map(str, events[-2:]))
        assert driver.cycle_mode() == driver.status().mode == "plan"
        await driver.close()

    with Server(ScriptedModel(["hello"])) as server:
        asyncio.run(work(server))

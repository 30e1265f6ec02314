"""The lines that a session begins with."""

import asyncio
from pathlib import Path

from agent import commands
from agent.app.config import Config
from agent.app.controller import Controller
from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.events import CommandOutput, Event, Notice
from tests.agent.commands.controller_run import AllowAll, ControllerRun, run_controller


def test_a_session_begins_with_what_it_works_with_the_last_one_and_what_to_try(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/feature\n")

    async def begin(run: ControllerRun) -> None:
        first, *rest = run.text().splitlines()
        assert "with claude-sonnet-5-5 in " in first and first.endswith(f"{tmp_path.name} (feature)")
        assert rest == [
            'Try "what does this project do?", or name a file with @; /help lists commands and keys'
        ]
        await run.do("say hello to all of them, in every language that there is")

    async def begin_again(run: ControllerRun) -> None:
        _, last, _ = run.text().splitlines()
        assert last == (
            "Last session, just now: 'say hello to all of them, in every lang…'; makeroom -c goes on with it"
        )

    run_controller(tmp_path, begin)
    run_controller(tmp_path, begin_again, verified=False)


def test_the_last_session_is_named_as_it_was_typed(tmp_path: Path) -> None:
    typed = "Team 👨\u200d👩\u200d👧 can't می\u200cخواهم C:\\dir\u202e"

    async def begin(run: ControllerRun) -> None:
        await run.do(typed)

    async def begin_again(run: ControllerRun) -> None:
        assert f"Last session, just now: '{typed}'; makeroom -c" in run.text()

    run_controller(tmp_path, begin)
    run_controller(tmp_path, begin_again, verified=False)


def test_a_new_session_is_announced_and_commands_work_before_anything_slow_is_loaded(tmp_path: Path) -> None:
    events: list[Event] = []
    config = Config(key="test-key-123456", state_dir=tmp_path / "state", user_dir=tmp_path / "config")
    setup = RunSetup(Options(), config, tmp_path, {})

    async def work() -> None:
        controller = Controller(setup, events.append, AllowAll(), commands)
        assert await controller.open()
        first, last = events
        assert isinstance(first, Notice) and "with claude-sonnet-5-5 in " in first.text
        assert isinstance(last, Notice) and last.text.endswith("/help lists commands and keys")
        assert await controller.command("/help")
        assert isinstance(events[-1], CommandOutput) and controller.session is None
        assert controller.services.selection.model.client is None  # type: ignore[attr-defined]
        assert not await controller.command("/exit")
        await controller.close()

    asyncio.run(work())

"""The table of slash commands: help, unknown names, and what may run during a turn."""

import asyncio
import re
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from agent.commands import COMMANDS, find_command, may_run_during_turn
from agent.commands.screen import HELP_SECTIONS, section_commands
from agent.commands.table import Command
from agent.events import Notice
from tests.strict_api.faults import Fault
from tests.tables import each_row

from .controller_run import ControllerRun, run_controller

HELP_ROWS = 18  # of 24: the others are the echo of the command, the input and the status line


def test_help_fits_a_small_window_and_leads_to_all_of_it(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "commands").mkdir(parents=True)
    for at in range(40):
        (tmp_path / ".claude" / "commands" / f"own-{at}.md").write_text("Do it.")

    async def work(run: ControllerRun) -> None:
        lines = (await run.do("/help")).splitlines()
        assert len(lines) <= HELP_ROWS and max(map(len, lines)) <= 80
        words = [word for line in lines[lines.index("Commands") : -2] for word in line.split()]
        assert sorted(word[1:] for word in words if word[0] == "/") == sorted(each.name for each in COMMANDS)
        assert "/own-0 /own-1" in lines[-2]
        everything = await run.do("/help commands")
        assert all(f"  /{each.name} " in everything and each.summary in everything for each in COMMANDS)
        assert "/own-39" in everything
        (window, *_), keys = (await run.do("/help Window")).splitlines(), await run.do("/help keys")
        assert window.split("  ")[1] == "/context" and "Ctrl-B moves the running command" in keys
        assert "--dry-run" in await run.do("/help compact") == await run.do("/help /compact")
        assert (await run.do("/help undo")).endswith("\nalso: /undo") and "Ctrl-_ undoes" in keys
        assert "also:" not in await run.do("/help theme")
        assert "did you mean /compact?" in await run.do("/help compcat")
        names = run.controller.setup.key_names
        names.update(dict.fromkeys(names, ""))  # as without a screen
        for line in ("/help", "/help keys"):
            told = await run.do(line)
            assert "Ctrl-C interrupts" in told and not {"Esc", "Tab", "Up"} & set(re.findall(r"\w+", told))

    run_controller(tmp_path, work)


def test_a_command_that_is_in_no_section_of_the_help_is_in_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(find_command(name) for name in (*HELP_SECTIONS, "keys", "commands"))
    new = Command("greet", "running.leave", "Greet.")
    monkeypatch.setattr("agent.commands.screen.COMMANDS", (*COMMANDS, new))
    assert [name for name in HELP_SECTIONS if new in section_commands(name)] == [list(HELP_SECTIONS)[-1]]


def test_every_command_names_a_function() -> None:
    for each in COMMANDS:
        module, _, function = f"agent.commands.{each.function}".rpartition(".")
        assert iscoroutinefunction(getattr(import_module(module), function)), each.name


def test_the_words_of_a_command_are_those_of_its_usage() -> None:
    words = {each.name: each.words for each in COMMANDS}
    assert words["permissions"] == ("mode", "allow", "deny", "ask", "remove", "import", "explain")
    assert words["sandbox"][:4] == ("auto", "require", "off", "project")
    assert (words["rewind"], words["model"], words["status"]) == ((), (), ())
    assert (words["pin"], words["agents"], words["cost"]) == (("remove",), ("stop",), ("why",))


def test_text_behind_a_command_without_arguments_is_refused_and_nothing_is_done(tmp_path: Path) -> None:
    """/clear and /exit would do something else than what was typed."""

    async def work(run: ControllerRun) -> None:
        session, _ = run.controller.in_use
        for command in COMMANDS:
            if not command.usage:
                told = f"/{command.name} takes no arguments, not 'now' (usage: /{command.name})"
                assert await run.do(f"/{command.name} now") == told
        assert not run.controller.ended and run.controller.in_use[0] is session

    run_controller(tmp_path, work)


def test_a_mistyped_option_of_a_command_is_refused_and_nothing_is_done(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        await run.do("help")
        nearest = "/compact: unknown option --dry (did you mean --dry-run?)"
        assert await run.do("/compact --dry") == await run.do("/compact the tests --dry") == nearest
        assert [event.level for event in run.emitted(Notice)] == ["error"]
        assert "--force (usage: /compact [--dry-run] [FOCUS])" in await run.do("/compact --force")
        assert not run.controller.in_use[0].folded.compactions
        assert await run.do("/pin --force is not for git push") == "1  --force is not for git push"

    run_controller(tmp_path, work)


def test_an_unknown_command_is_reported_with_the_nearest(tmp_path: Path) -> None:
    async def work(run: ControllerRun) -> None:
        assert await run.do("/compcat") == "unknown command /compcat: did you mean /compact?"
        assert "did you mean /status?" in await run.do("/stauts")  # not /stats
        assert "ANTHROPIC_API_KEY" in await run.do("/login"), "not /pin"
        assert "use /help keys" in await run.do("/hotkeys")
        assert "use /fork" in await run.do("/btw why?")
        assert await run.do("/title first things") == "this session is named 'first things'"
        assert "use /help to list the commands" in await run.do("/insight-x"), (
            "nothing that is only a little like it"
        )

    run_controller(tmp_path, work)


@each_row(
    ("line", "allowed"),
    [
        ("/context", True),
        ("/context now", True),
        ("/tasks kill b1", True),
        ("/model", True),
        ("/model opus", True),
        ("/permissions", True),
        ("/permissions explain git push", True),
        ("/permissions mode manual", False),
        ("/config theme", True),
        ("/config theme dark", False),
        ("/pin", True),
        ("/pin use tabs", False),
        ("/thinking", True),
        ("/effort high", True),
        ("/compact", False),
        ("/clear", False),
        ("/nothing", False),
        ("!ls", False),
    ],
)
def test_read_only_commands_may_run_during_a_turn(line: str, allowed: bool) -> None:
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

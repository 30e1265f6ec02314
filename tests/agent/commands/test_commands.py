"""The table of slash commands: help, unknown names, and what may run during a turn."""

import asyncio
import re
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from agent.commands import COMMANDS, find_command, may_run_during_turn, needs_session, use_without_screen
from agent.commands.screen import HELP_SECTIONS, section_commands
from agent.commands.table import Command
from agent.events import Notice
from tests.strict_api.faults import Fault
from tests.tables import each_row

from .controller_run import ControllerRun, ScriptedChooser, run_controller

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


@each_row(
    ("line", "use"),
    [
        ("hello", "words"),
        ("status", "words"),
        ("/usr/lib is slow", "words"),
        ("/status", "run"),
        (" /context\nall", "run"),
        ("/compact the tests", "run"),
        ("/model", "refuse"),
        ("/clear", "refuse"),
        ("/permissions", "run"),
        ("/permissions explain ls", "run"),
        ("/permissions mode plan", "refuse"),
        ("/sandbox off", "refuse"),
    ],
)
def test_a_script_may_run_the_commands_that_need_no_screen(line: str, use: str) -> None:
    assert use_without_screen(line) == use


@each_row(
    ("line", "needed"),
    [
        ("hello", True),
        ("/status", True),
        ("/nothing", True),
        ("/help", False),
        (" /HELP keys", False),
        ("/theme dark", False),
        ("/vim", False),
        ("/exit", False),
    ],
)
def test_only_a_few_commands_work_before_there_is_a_session(line: str, needed: bool) -> None:
    assert needs_session(line) is needed


def test_the_names_that_other_agents_use_work_too() -> None:
    names = {
        "clear": "new reset",
        "compact": "compress summarize",
        "context": "tokens",
        "cost": "usage stats",
        "effort": "thinking",
        "resume": "continue",
        "rewind": "undo",
        "fork": "branch",
        "rename": "name title",
        "permissions": "allowed-tools",
        "config": "settings",
        "tasks": "bashes ps",
        "bug": "feedback",
        "exit": "quit",
        "help": "?",
    }
    found = {other: find_command(other) for others in names.values() for other in others.split()}
    assert {other: command and command.name for other, command in found.items()} == {
        other: name for name, others in names.items() for other in others.split()
    }


def test_a_command_with_nothing_to_show_or_a_wrong_argument_says_so(tmp_path: Path) -> None:
    at_first = {
        "/context now": "unknown argument 'now' (usage: /context [all])",
        "/compact": "nothing to compact yet",
        "/uncompact": "cannot undo: no compaction is in effect",
        "/drop": "name a block by its id; /context lists the largest (usage: /drop [ID])",
        "/drop r9": "cannot drop r9: no block in the context has this id (see /context)",
        "/pin": "nothing is pinned; use /pin TEXT to keep a sentence",
        "/pin remove ²": "cannot remove pin '²': not found (usage: /pin [TEXT | remove N])",
        "/pin remove 4": "cannot remove pin '4': not found (usage: /pin [TEXT | remove N])",
        "/rewind": "nothing to rewind: no earlier prompts",
        "/cost why": "no requests yet",
        "/cost all": "unknown argument 'all' (usage: /cost [why [all]])",
        "/plugin": "no plugins; makeroom uses those that Claude Code has installed",
        "/plugin install x": "unknown argument 'install x' (usage: /plugin [enable NAME | disable NAME])",
        "/plugin enable x": "no plugin is named x (usage: ",
        "/skills": "no commands or skills; create .claude/commands/NAME.md or",
        "/skills nope": "no command or skill is named 'nope' (usage: /skills [NAME])",
        "/agents x": "no agent in this session has the number 'x' (usage: /agents [N | stop [N]])",
        "/agents stop": "no background agent is running",
        "/agents stop 3": "no agent in this session has the number '3' (usage: /agents",
        "/trust": "this project defines no extensions that need your approval",
        "/todos": "the to-do list is empty",
        "/tasks": "no background commands yet",
        "/tasks nope": "unknown argument 'nope' (usage: /tasks [kill ID])",
        "/tasks kill b9": "'b9' is not a running command; running: none (usage: /tasks [kill ID])",
        "/bg": "no command is running",
        "/worktree": "no worktrees; start makeroom with --worktree to work in one",
        "/sessions": "no sessions yet",
        "/resume": "no sessions yet\nusage: /resume [SESSION]",
        "/resume nope": "no session 'nope' in this project",
        "/copy x": "no answer to copy yet",
        "/recall r9": "unknown recall id r9. This session has no messages yet",
        "/search": "usage: /search WORDS",
        "/rename": "this session has no name; run /rename NAME",
        "/vim maybe": "unknown argument 'maybe' (usage: /vim [on | off])",
        "/theme": "usage: /theme [auto | dark |",
        "/theme pink": "unknown theme 'pink' (usage: /theme [auto |",
        "/permissions explain": "usage: /permissions [mode NAME |",
        "/memory": "no memory files; create AGENTS.md or CLAUDE.md in ",
        "/export /nonexistent/x.md": "cannot write /nonexistent/x.md: No such file or directory",
        "/diff nowhere": "no changes to nowhere recorded in this session",
        "!": "usage: !COMMAND",
    }
    later = {
        "/copy ²": "cannot copy answer '²': N must be from 1 to 1 (usage: /copy [N])",
        "/copy 2": "cannot copy answer '2': N must be from 1 to 1 (usage: /copy [N])",
        "/rewind 0": "cannot rewind to '0': N must be from 1 to 1 (usage: /rewind",
        "/rewind x": "cannot rewind to 'x': N must be from 1 to 1 (usage: /rewind",
        "/rewind 1 file": "unknown word 'file' (usage: /rewind",
        "/rewind 2": "N must be from 1 to 1",
    }

    async def work(run: ControllerRun) -> None:
        said = {line: await run.do(line) for line in at_first}
        await run.do("hello")
        said |= {line: await run.do(line) for line in later}
        expected = at_first | later
        assert {line: text for line, text in said.items() if expected[line] not in text} == {}

    run_controller(tmp_path, work)


def test_a_session_that_is_not_stored_says_what_it_cannot_do_and_menus_may_be_left(tmp_path: Path) -> None:
    why = "cannot compare or restore files: sessions with --no-session have no checkpoints"
    rewound = (
        "rewound the conversation to before prompt 1: hello\n"
        "the conversation is now empty: the model sees none of the messages above"
    )

    async def work(run: ControllerRun) -> None:
        await run.do("hello")
        for line in ("/rewind 1 files", "/rewind 1 both", "/diff"):
            assert await run.do(line) == why, line
        left = ScriptedChooser(*[""] * 6)
        run.controller.chooser = left
        for line in ("/model", "/effort", "/theme", "/permissions", "/config", "/rewind"):
            assert await run.do(line) == "", line
        assert not left.values
        run.controller.chooser = ScriptedChooser("claude-sonnet-5-5", "mode plan", "claude-opus-5-5")
        assert await run.do("/model") == "already using claude-sonnet-5-5"
        assert (await run.do("/permissions")).startswith("mode   plan: ")
        assert (await run.do("/model")).endswith("the model is now claude-opus-5-5")
        assert await run.do("/rewind 1") == rewound

    run_controller(tmp_path, work, no_session=True)

"""Slash commands: the table COMMANDS. To add one, write a function and add a line.

A command is a function of the controller and the rest of its line; its docstring is its help. What it has to
say goes out as events, never into the conversation: it returns the last one (or None), and emits any before.
Of the controller it uses `in_use` (the session and its turn context), `setup`, `services` (the sessions on
disk, the model), `factory` (makes other sessions) and `use` (takes one), `chooser` (menus; None where no one
can choose), `prompt` and `emit`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from agent.app.controller import CommandTable, Controller
from agent.app.setup import RunSetup
from agent.errors import AgentError
from agent.events import CommandOutput, Emit, Event, Notice
from agent.formatting import is_command, shorten, with_keys
from agent.ports import Approver, Chooser
from transcripts.record_errors import StoreError

from . import agent_commands as agents
from . import context_commands as context
from . import doctor_command as doctor
from . import extension_commands as extension
from . import mcp_commands as mcp
from . import project_commands as project
from . import screen_commands as screen
from . import session_commands as session
from . import settings_commands as settings
from . import system_commands as system
from .rewind import rewind


@dataclass(frozen=True, slots=True)
class Command:
    """`name` is typed after the slash; `aliases` are names that other agents use for it.

    `during_turn` tells whether it may run while a turn runs: always, or only without arguments ("bare"),
    when it changes nothing then. `at_screen` tells that it is of use only to somebody at a screen,
    `needs_session` that it has to wait until there is a session. `options` are those that it takes among its
    words: any other word that looks like one is refused, and not taken for words.
    """

    name: str
    run: Callable[[Controller, str], Awaitable[Event | None]]
    aliases: tuple[str, ...] = ()
    during_turn: Literal["never", "bare", "always"] = "never"
    at_screen: bool = False
    needs_session: bool = True
    options: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        return " ".join((self.run.__doc__ or "").split())

    @property
    def summary(self) -> str:
        return self.help.split(". ")[0].rstrip(".")


async def show_help(controller: Controller, argument: str) -> Event | None:
    """Show the keys and commands in short. `keys` and `commands` list all of them, the name of a section \
such as `room` its commands. With a command's name, show the help of that command."""
    library, name = controller.services.skills, argument.removeprefix("/").lower()
    if (command := find_command(name)) is not None:
        return CommandOutput(f"/{command.name}: {command.help}")
    if name in HELP_SECTIONS:
        return CommandOutput("\n".join(_summary_lines(section_commands(name))))
    if name == "keys":
        keys = controller.setup.key_names
        own = [f"{key} runs {line}" for line, key in keys.items() if line.startswith("/") and key]
        return CommandOutput("\n".join([*filter(None, (with_keys(line, keys) for line in KEY_HELP)), *own]))
    if name == "commands":
        own = [f"  {line}" for line in extension.typed_lines(library)]
        theirs = ["", "Yours and the project's", *own] if own else []
        return CommandOutput("\n".join([*_summary_lines(COMMANDS), *theirs]))
    if name:
        skill = library.find(name)
        return CommandOutput(extension.skill_help(skill)) if skill is not None else _unknown(controller, name)
    width = max(map(len, HELP_SECTIONS))
    lines = [
        f"  {section:<{width}}  {' '.join(f'/{each.name}' for each in section_commands(section))}"
        for section in HELP_SECTIONS
    ]
    short = [with_keys(line, controller.setup.key_names) for line in SHORT_KEY_HELP]
    if names := " ".join(f"/{each.name}" for each in library.for_people()):
        lines.append(f"  {'yours':<{width}}  {shorten(names, MAX_OWN_NAMES_CHARS)}")
    return CommandOutput("\n".join(["Keys", *short, "Commands", *lines, MORE_HELP]))


def section_commands(name: str) -> list[Command]:
    """The commands of a line of the help; the last has those that are in no other."""
    named = {word for words in HELP_SECTIONS.values() for word in words.split()}
    found = [command for word in HELP_SECTIONS[name].split() if (command := find_command(word)) is not None]
    others = [each for each in COMMANDS if each.name not in named] if name == list(HELP_SECTIONS)[-1] else []
    return [*found, *others]


def _summary_lines(commands: Sequence[Command]) -> list[str]:
    width = max(len(command.name) for command in commands)
    return [f"  /{command.name:<{width}}  {command.summary}" for command in commands]


async def leave(controller: Controller, argument: str) -> None:
    """Leave. The session can be continued with --continue."""
    controller.ended = True


SHORT_KEY_HELP = (
    "  {submit} sends, \\ and {submit} begins a new line, Up brings earlier prompts back",
    "  @ names a file, ! runs a command of yours, / lists commands as you type",
    "  Esc or {interrupt} stops a turn; Esc Esc goes back to before an earlier prompt",
    "  {mode} changes what you are asked about; {outputs} shows outputs whole",
    "  {interrupt} twice leaves; makeroom -c goes on from there",
)
MORE_HELP = "More: /help commands, /help keys, /help room (one line of these), /help compact"
MAX_OWN_NAMES_CHARS = 66  # of the commands that people bring, in short: with their line they fit 80 columns
HELP_SECTIONS: Mapping[str, str] = {  # lines of the help in short, and the commands in each
    "session": "clear resume sessions rewind fork rename export copy exit",
    "room": "context compact uncompact recall search drop pin",
    "work": "init plan todo diff memory tasks background publish add-dir",
    "choices": "model effort permissions sandbox config theme vim",
    "extras": "skills agents mcp hooks trust",
    "state": "help status cost doctor",
}
KEY_HELP = (
    "{submit} sends; {newline} or \\ {submit} starts a new line",
    "{interrupt} or Esc interrupts a turn; {interrupt} twice leaves; {leave} on an empty line leaves",
    "Esc Esc on an empty line goes back (/rewind); {mode} changes the permission mode",
    "Up and Ctrl-R find earlier prompts; {complete} completes; @ names a file",
    "{image} takes the image on the clipboard; the path of an image, dropped or pasted, takes that",
    "{stash} puts a draft away or takes it back",
    "{background} has the running command go on in the background; {tasks} shows those that do",
    "!command runs a command of yours and shows it to the model; !!command only to you",
    "{outputs} prints the turn's outputs whole, and those to come, and again in short",
    "{editor} opens your editor; {redraw} redraws; {suspend} suspends",
    "{model} chooses the model; {effort} chooses the effort",
)

_NO_LOGIN = "the key comes from ANTHROPIC_API_KEY; /doctor looks for what is missing"
_IN_WORDS = "ask for it in words, or write a command into .claude/commands"
_OWN_FILES = "servers, skills, agents and hooks have files of their own: /mcp, /skills, /agents, /hooks"
# Commands that people know from other agents and that are not here: where to find what they did.
OTHER_AGENTS_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("login", "logout"), _NO_LOGIN),
    **dict.fromkeys(("review", "security-review", "pr-comments"), _IN_WORDS),
    **dict.fromkeys(("plugin", "plugins"), _OWN_FILES),
    **dict.fromkeys(("color", "colors"), "/theme chooses the colours"),
    "checkpoint": "/rewind goes back to an earlier state of files and conversation",
    "ide": "editors use makeroom through an adapter: docs/EDITORS.md",
    "insights": "/cost and /context tell what a session used",
    "keybindings": "keybindings.toml, beside your settings, gives actions other keys",
    "output-style": "the setting output_style chooses it when a session begins",
    "release-notes": "CHANGELOG.md tells what is new",
    "statusline": "statusLine in Claude Code's settings files is read",
}
MIN_NAME_LIKENESS = 0.65  # of a misspelt name, from which on another one is suggested
COMMANDS: tuple[Command, ...] = (
    Command("help", show_help, ("?",), "always", needs_session=False),
    Command("init", project.init_project),
    Command("compact", context.compact_now, ("compress", "summarize"), options=(context.DRY_RUN,)),
    Command("uncompact", context.undo_compaction),
    Command("drop", context.drop_block),
    Command("recall", context.show_evicted, (), "always"),
    Command("search", context.search_project, (), "always"),
    Command("pin", context.pin),
    Command("context", context.show_context, ("tokens",), "always"),
    Command("cost", context.show_cost, ("usage", "stats"), "always"),
    Command("status", settings.show_status, (), "always"),
    Command("model", settings.set_model, (), at_screen=True),
    Command("effort", settings.set_effort, ("thinking",), "bare", at_screen=True),
    Command("memory", project.show_memory, (), "always"),
    Command("diff", project.show_diff, (), "always"),
    Command("plan", project.plan, at_screen=True),
    Command("todo", project.show_todos, ("todos",), "always"),
    Command("background", project.background, ("bg",), "always", at_screen=True),
    Command("tasks", project.show_tasks, ("bashes", "ps"), "always", at_screen=True),
    Command("agents", agents.show_agents, ("subagents",), "always"),
    Command("permissions", settings.set_permissions, ("allowed-tools",), "bare", at_screen=True),
    Command("sandbox", system.show_sandbox, (), "bare", at_screen=True),
    Command("add-dir", system.add_folder, (), "always", at_screen=True),
    Command("publish", system.publish_port, ("ports",), "always", at_screen=True),
    Command("skills", extension.show_skills, (), "always"),
    Command("trust", extension.show_trust, (), "bare"),
    Command("mcp", mcp.show_mcp, (), "bare"),
    Command("config", settings.show_settings, ("settings",), "bare"),
    Command("theme", screen.set_theme, (), "always", at_screen=True, needs_session=False),
    Command("vim", screen.set_editing, (), "always", at_screen=True, needs_session=False),
    Command("hooks", settings.show_hooks, (), "always"),
    Command("doctor", doctor.examine, (), "always"),
    Command("sessions", session.list_sessions, (), "always"),
    Command("resume", session.resume_session, ("continue",), at_screen=True),
    Command("rewind", rewind, ("undo",), at_screen=True),
    Command("fork", session.fork_session, ("branch",), at_screen=True),
    Command("rename", session.rename_session),
    Command("export", session.export_session),
    Command("copy", session.copy_answer, (), "always", at_screen=True),
    Command("clear", session.new_session, ("new", "reset"), at_screen=True),
    Command("exit", leave, ("quit", "q"), "always", at_screen=True, needs_session=False),
)


def make_controller(
    setup: RunSetup, emit: Emit, approver: Approver, chooser: Chooser | None = None
) -> Controller:
    """A controller that has these commands."""
    return Controller(setup, emit, approver, cast("CommandTable", sys.modules[__name__]), chooser)


def find_command(name: str) -> Command | None:
    """The command of that name or alias."""
    return next((command for command in COMMANDS if name in (command.name, *command.aliases)), None)


def command_summaries() -> list[tuple[str, str]]:
    """(name, summary) of each command, and then of each alias."""
    named = [(command.name, command.summary) for command in COMMANDS]
    others = [(other, f"same as /{command.name}") for command in COMMANDS for other in command.aliases]
    return [*named, *others]


def needs_session(line: str) -> bool:
    """Whether a line is a prompt, or a command that works on a session."""
    name = line.strip().removeprefix("/").partition(" ")[0]
    command = find_command(name.lower()) if line.lstrip().startswith("/") else None
    return command is None or command.needs_session


def may_run_during_turn(line: str) -> bool:
    """Whether a command line may run while a turn runs."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find_command(name.lower())
    if command is None or command.during_turn == "never":
        return False
    return command.during_turn == "always" or not argument.strip()


def use_without_screen(line: str) -> Literal["words", "run", "refuse"]:
    """Whether a prompt of a script is a command that runs there, one that does not, or for the model."""
    name = line.removeprefix("/").partition(" ")[0].partition("\n")[0]
    command = find_command(name.lower()) if line.startswith("/") else None
    if command is None:
        return "words"
    return "refuse" if command.at_screen else "run"


async def run_command(controller: Controller, line: str) -> None:
    """Run one command line, `/name argument` or `!command`. Errors are told, never raised."""
    if (event := await _run(controller, line)) is not None:
        controller.emit(event)


async def _run(controller: Controller, line: str) -> Event | None:
    if line.startswith("!"):
        return await project.run_own_command(controller, line)
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find_command(name.lower())
    if command is None:
        return None if await _run_brought(controller, line) else _unknown(controller, name)
    if wrong := _unknown_option(command, argument):
        return Notice(f"/{command.name}: {wrong}", "error")
    try:
        return await command.run(controller, argument.strip())
    except OSError as error:
        told = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
    except (AgentError, StoreError) as error:
        told = str(error)
    return Notice(f"/{command.name}: {told}", "error")


def _unknown_option(command: Command, argument: str) -> str:
    """What is said of a word that looks like an option of the command and is none; "" without such."""
    words = (word for word in argument.split() if word.startswith("--") and word not in command.options)
    word = next((word for word in words if word[2:]), "") if command.options else ""
    near = difflib.get_close_matches(word, command.options, 1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(command.options)}"
    return f"there is no option {word}: {hint}" if word else ""


async def _run_brought(controller: Controller, line: str) -> bool:
    """Run a command, a skill or a prompt that people bring; whether there is such. The turn tells its end."""
    if not await _is_brought(controller, line):
        return False
    await controller.prompt(line)
    return True


async def _is_brought(controller: Controller, line: str) -> bool:
    services = controller.services
    if services.mcp is not None and await services.mcp.called(line) is not None:
        return True
    if services.skills.typed(line) is None:
        await services.find_skills()  # it may be new
    return services.skills.typed(line) is not None


async def unknown_command(controller: Controller, line: str) -> str:
    """What is said to a prompt of a script that looks like a command and is none; "" to any other."""
    name = line.strip().removeprefix("/").partition(" ")[0]
    if not is_command(line.strip()) or find_command(name.lower()) or await _is_brought(controller, line):
        return ""
    return _unknown(controller, name).text


def _unknown(controller: Controller, name: str) -> Notice:
    names = [known for known, _ in controller.commands()]
    near = difflib.get_close_matches(name, names, 3, MIN_NAME_LIKENESS)
    near.sort(key=lambda each: sorted(each) != sorted(name))  # letters in another order first
    hint = f" - did you mean /{near[0]}?" if near else " - /help lists them"
    hint = f" - {elsewhere}" if (elsewhere := OTHER_AGENTS_COMMANDS.get(name.lower())) else hint
    return Notice(f"Unknown command /{name}{hint}", "warning")

"""Slash commands: the table COMMANDS. To add one, write a function and add a line.

A command is a function of the controller and the rest of its line; its module is imported when it is first
run. What it has to say goes out as events, never into the conversation: it returns the last one (or None),
and emits any before. Of the controller it uses `in_use` (the session and its turn context), `setup`,
`services` (the sessions on disk, the model), `factory` (makes other sessions) and `use` (takes one),
`chooser` (menus; None where no one can choose), `prompt` and `emit`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from agent.app import RunSetup
from agent.errors import AgentError, program_changed
from agent.events import Emit, Event, Notice
from agent.formatting import is_command
from agent.ports import Approver, Chooser
from transcripts import StoreError

if TYPE_CHECKING:
    from agent.app import CommandTable, Controller


class Command(Struct, frozen=True):
    """`name` is typed after the slash; `aliases` are names that other agents use for it.

    `function` is "module.function" within this package, or a function of this module. It is called with the
    controller and what is behind the name, and returns the last event, or None.
    The first sentence of `help` is the summary.
    `during_turn` tells whether it may run while a turn runs: always, or only without arguments ("bare") or
    with one word at most, when it changes nothing then; `looking` are words that begin arguments with which
    it only looks. `at_screen` tells that it is of use only to somebody at a screen,
    `needs_session` that it has to wait until there is a session. `options` are those that it takes among its
    words: any other word that looks like one is refused, and not taken for words.
    """

    name: str
    function: str
    help: str
    aliases: tuple[str, ...] = ()
    during_turn: Literal["never", "bare", "word", "always"] = "never"
    at_screen: bool = False
    needs_session: bool = True
    options: tuple[str, ...] = ()
    looking: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return self.help.split(". ")[0].rstrip(".")

    async def run(self, controller: Controller, argument: str) -> Event | None:
        event: Event | None = await _function(self.function)(controller, argument)
        return event


def _function(name: str) -> Callable[..., Any]:
    """The function of that name within this package; its module is imported now."""
    module, _, function = f"{__name__}.{name}".rpartition(".")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


async def leave(controller: Controller, argument: str) -> None:
    """/exit. It lies here so that there is always a way out, whatever became of the files of the others."""
    controller.ended = True


_NO_LOGIN = "the key comes from ANTHROPIC_API_KEY; /doctor looks for what is missing"
_IN_WORDS = "ask for it in words, or write a command into .claude/commands"
_OWN_FILES = "servers, skills, agents and hooks have files of their own: /mcp, /skills, /agents, /hooks"
# Commands that people know from other agents and that are not here: where to find what they did.
OTHER_AGENTS_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("login", "logout"), _NO_LOGIN),
    **dict.fromkeys(("review", "security-review", "pr-comments"), _IN_WORDS),
    **dict.fromkeys(("plugin", "plugins"), _OWN_FILES),
    **dict.fromkeys(("color", "colors"), "/theme chooses the colours"),
    **dict.fromkeys(("keys", "hotkeys", "shortcuts"), "/help keys lists the keys"),
    "btw": "/fork asks it in a copy, and /resume goes back; or ask here, and /rewind takes it out again",
    "checkpoint": "/rewind goes back to an earlier state of files and conversation",
    "ide": "editors use makeroom through an adapter: docs/EDITORS.md",
    "insights": "/cost and /context tell what a session used",
    "keybindings": "keybindings.toml, beside your settings, gives actions other keys",
    "output-style": "the setting output_style chooses it when a session begins",
    "release-notes": "CHANGELOG.md tells what is new",
    "statusline": "statusLine in Claude Code's settings files is read",
}
MIN_NAME_LIKENESS = 0.65  # of a misspelt name, from which on another one is suggested
# fmt: off
COMMANDS: tuple[Command, ...] = (
    Command("help", "screen_commands.show_help",
            "Show the keys and commands in short. `keys` and `commands` list all of them, the name of a "
            "section such as `room` its commands. With a command's name, show the help of that command.",
            ("?",), "always", needs_session=False),
    Command("init", "project_commands.init_project",
            "Have the model write AGENTS.md, or improve it. It studies the project first. Words after it "
            "are passed on to the model."),
    Command("compact", "context_commands.compact_now",
            "Compact the context now. Words after it say what to focus on, and go with the next prompt too; "
            "--dry-run only shows what would go.", ("compress", "summarize"), options=("--dry-run",)),
    Command("uncompact", "context_commands.undo_compaction",
            "Undo a compaction, the newest one or the one with the given id. The record keeps both."),
    Command("drop", "context_commands.drop_block",
            "Strike one block from the context. Takes its id, such as r57 or r57.2, as /context lists the "
            "largest; without one, choose from a list. /uncompact brings it back."),
    Command("recall", "context_commands.show_evicted",
            "Show what left the context. Takes an id such as r57, or words to search for; without them, "
            "lists what left.", (), "always"),
    Command("search", "context_commands.search_project",
            "Search this session and the earlier ones of this project. Takes words, or a question.",
            (), "always"),
    Command("pin", "context_commands.pin",
            "Pin a sentence: the next prompt tells it to the model, and every compaction keeps it. "
            "Without one, lists the pins; `remove N` removes one.", (), "bare"),
    Command("context", "context_commands.show_context",
            "Draw what the context holds. Lists the largest blocks too, and the newest compactions with "
            "their figures; `/context all` lists every one.", ("tokens",), "always"),
    Command("cost", "context_commands.show_cost",
            "Show what this session has used and cost.", ("usage", "stats"), "always"),
    Command("status", "settings_commands.show_status",
            "Show the model and its window, the server, the session, the folder and what holds commands.",
            (), "always"),
    Command("model", "settings_commands.set_model",
            "Show or change the model for this session. Takes a model id, or opus, sonnet, haiku; without "
            "one, choose from a list. It holds from the next request on; --save keeps it for new sessions.",
            (), "always", at_screen=True, options=("--save",)),
    Command("effort", "settings_commands.set_effort",
            "Show or change how hard the model thinks. Takes off, low, medium, high, xhigh or max; "
            "without one, choose from a list. It holds from the next request on.",
            ("thinking",), "always", at_screen=True),
    Command("memory", "project_commands.show_memory",
            "Show the memory files, what they import, and the tokens of each. They are those that this "
            "session began with, and those told with files of folders below.",
            (), "always"),
    Command("diff", "project_commands.show_diff",
            "Show what this session changed in the project. With a path, show all lines of what it "
            "changed there. What others changed in the same files is shown apart, as `theirs`, unless "
            "they do it while a command runs.", (), "always"),
    Command("plan", "project_commands.plan",
            "Go to plan mode. Words after it are the prompt; in plan mode, without words, show the newest "
            "plan; `off` goes back to the mode before it.", at_screen=True),
    Command("todo", "project_commands.show_todos",
            "Show what the model has on its to-do list.", ("todos",), "always"),
    Command("background", "project_commands.background",
            "Have the running command go on in the background. Its end is told, to you and to the model.",
            ("bg",), "always", at_screen=True),
    Command("tasks", "project_commands.show_tasks",
            "Show the background commands of this session. `kill ID` ends one and everything that it "
            "started.", ("bashes", "ps"), "always", at_screen=True),
    Command("agents", "extension_commands.show_agents",
            "Show the agents of this session, what they do and what they cost, and answer their "
            "questions. With a number, show what that one did so far; `stop N` ends one in the "
            "background, `stop` all of them.", ("subagents",), "always"),
    Command("permissions", "settings_commands.set_permissions",
            "Show the permission mode and rules, and where each was set. Without arguments, choose a mode "
            "from a list, or a rule to remove. `mode NAME` changes the mode, `allow RULE` and `deny RULE` "
            "add a rule for this session, `remove RULE` removes one, `explain LINE` tells what becomes of "
            "a command line, and why.", ("allowed-tools",), "bare", at_screen=True, looking=("explain",)),
    Command("sandbox", "system_commands.show_sandbox",
            "Show or change the wall around commands. `auto`, `require` and `off` hold for this session, "
            "as do `project read-only` and `project writable`; `write PATH`, `read PATH` and `reach HOST` "
            "let something through in this project from now on, `forget` takes it back.",
            (), "bare", at_screen=True),
    Command("add-dir", "system_commands.add_folder",
            "Work in another folder as well, until the session ends. Takes its path; without one, lists "
            "them. What is changed there, `/diff` and `/rewind` do not know.", (), "always", at_screen=True),
    Command("publish", "system_commands.publish_port",
            "Reach what a command serves on a port within the wall. `PORT` has localhost:PORT of this "
            "machine lead there until the session ends, `PORT as OTHER` another port; `stop PORT` ends "
            "it. Alone it lists the ports.", ("ports",), "always", at_screen=True),
    Command("skills", "extension_commands.show_skills",
            "List your commands and skills and the project's: what each is for, where it is, what is off. "
            "They are looked for anew. With a name, show all about that one.", (), "always"),
    Command("trust", "extension_commands.show_trust",
            "Show or change what this project may bring: commands that its files run, rights that they "
            "take. `all` allows all of it, `none` nothing.", (), "bare"),
    Command("mcp", "mcp_commands.show_mcp",
            "Show the MCP servers and their tools. `reconnect NAME` connects one anew, `off NAME` and `on "
            "NAME` switch it for this session, `login NAME` logs in to one by the browser.", (), "bare"),
    Command("config", "settings_commands.show_settings",
            "Show the settings in force and where each was set. That is a file, the environment, a flag, "
            "or a command. Choose one from the list to change it; `/config NAME` shows its value and what "
            "it takes, `/config NAME VALUE` sets it for this session, or tells that it holds from the "
            "next start on.", ("settings",), "word"),
    Command("theme", "screen_commands.set_theme",
            "Change the colours of this session. Takes auto, dark, light, ansi, colour-blind or "
            "colour-blind-light; without one, choose from a list. The setting `theme` keeps it.",
            (), "always", at_screen=True, needs_session=False),
    Command("vim", "screen_commands.set_editing",
            "Edit with the keys of vim, or again with those of Emacs. Takes on or off; the setting "
            "`editing` keeps it.", (), "always", at_screen=True, needs_session=False),
    Command("hooks", "extension_commands.show_hooks",
            "Show the hooks: which command runs on which event, for what, and where that is set.",
            (), "always"),
    Command("doctor", "doctor_command.examine",
            "Look for what is missing or wrong here, with its remedy. Connects to the server, but sends "
            "nothing.", (), "always"),
    Command("bug", "doctor_command.write_report",
            "Write down what a report of a fault needs: version, terminal, settings, newest failures. No "
            "secrets stand in that file, and nothing is sent. Words after it say what went wrong.",
            ("feedback",), "always"),
    Command("sessions", "session_commands.list_sessions",
            "List the sessions of this folder, newest first.", (), "always"),
    Command("resume", "session_commands.resume_session",
            "Continue an earlier session. Takes its id, the beginning of its id, its name, or words of its "
            "first prompt; without one, choose from a list.", ("continue",), at_screen=True),
    Command("rewind", "rewind.rewind",
            "Go back to before an earlier prompt. Without arguments, choose from a list; `/rewind N` "
            "restores the conversation, `/rewind N files` the files, `/rewind N both` both. N is the "
            "number in the list, the oldest prompt is 1. What would happen to files is shown first; `yes` "
            "at the end does it, `yes theirs` also to files that somebody else changed since.",
            ("undo",), at_screen=True),
    Command("fork", "session_commands.fork_session",
            "Continue in a copy. The session so far stays as it is.", ("branch",), at_screen=True),
    Command("rename", "session_commands.rename_session",
            "Give this session a name. It can be resumed by it.", ("name", "title"), "bare"),
    Command("export", "session_commands.export_session",
            "Write the session to a file. Its extension chooses the format: .md (the default), .html, "
            ".json, .jsonl."),
    Command("copy", "session_commands.copy_answer",
            "Copy the newest answer to the clipboard. With a number N, the N-th newest.",
            (), "always", at_screen=True),
    Command("clear", "session_commands.new_session",
            "Start a new conversation. The old one stays on disk, and its id is shown.",
            ("new", "reset"), at_screen=True),
    Command("exit", "leave",
            "Leave. The session can be continued with --continue.",
            ("quit", "q"), "always", at_screen=True, needs_session=False),
)
# fmt: on


def make_controller(
    setup: RunSetup, emit: Emit, approver: Approver, chooser: Chooser | None = None
) -> Controller:
    """Return a controller that has these commands."""
    from agent.app import Controller  # 60 ms, after the first paint

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
    """Return whether a line is a prompt, or a command that works on a session."""
    name = line.strip().removeprefix("/").partition(" ")[0]
    command = find_command(name.lower()) if line.lstrip().startswith("/") else None
    return command is None or command.needs_session


def may_run_during_turn(line: str) -> bool:
    """Return whether a command line may run while a turn runs."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find_command(name.lower())
    if command is None or command.during_turn == "never":
        return False
    words = argument.split()
    if command.during_turn == "always" or (words and words[0] in command.looking):
        return True
    return len(words) <= (command.during_turn == "word")


def use_without_screen(line: str) -> Literal["words", "run", "refuse"]:
    """Return whether a prompt of a script is a command that runs there, one that does not, or for
    the model.
    """
    line = line.lstrip()
    name = line.removeprefix("/").partition(" ")[0].partition("\n")[0]
    command = find_command(name.lower()) if line.startswith("/") else None
    if command is None:
        return "words"
    return "refuse" if command.at_screen else "run"


async def run_command(controller: Controller, line: str) -> None:
    """Run one command line, `/name argument` or `!command`. Errors are told, never raised."""
    try:
        event = await _run(controller, line)
    except ImportError as error:
        event = Notice(program_changed(error), "error")
    if event is not None:
        controller.emit(event)


async def _run(controller: Controller, line: str) -> Event | None:
    if line.startswith("!"):
        shown: Event | None = await _function("project_commands.run_own_command")(controller, line)
        return shown
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find_command(name.lower())
    if command is None:
        return None if await _run_brought(controller, line) else unknown(controller, name)
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
    """Return the error for the first unknown option among the words; "" if there is none."""
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
    """Return the error for a prompt that looks like a command but is not one; "" for any other."""
    name = line.strip().removeprefix("/").partition(" ")[0]
    if not is_command(line.strip()) or find_command(name.lower()) or await _is_brought(controller, line):
        return ""
    return unknown(controller, name).text


def unknown(controller: Controller, name: str) -> Notice:
    """Return the notice about an unknown command, with the commands whose names are similar."""
    names = [known for known, _ in controller.commands()]
    near = difflib.get_close_matches(name, names, 3, MIN_NAME_LIKENESS)
    near.sort(key=lambda each: sorted(each) != sorted(name))  # letters in another order first
    hint = f" - did you mean /{near[0]}?" if near else " - /help lists them"
    hint = f" - {elsewhere}" if (elsewhere := OTHER_AGENTS_COMMANDS.get(name.lower())) else hint
    return Notice(f"Unknown command /{name}{hint}", "warning")

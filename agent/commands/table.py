"""The table of slash commands, COMMANDS. To add one, write a function and add a line.

A command is a function of the controller and the rest of its line; its module is imported when it is first
run. What it has to say goes out as events, never into the conversation: it returns the last one (or None),
and emits any before. Of the controller it uses `in_use` (the session and its turn context), `setup`,
`services` (the sessions on disk, the model), `factory` (makes other sessions) and `use` (takes one),
`chooser` (menus; None where no one can choose), `prompt` and `emit`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from agent.ports import CommandSummary

if TYPE_CHECKING:
    from agent.app import Controller
    from agent.events import Event


class Command(Struct, frozen=True):
    """`name` is typed after the slash; `aliases` are names that other agents use for it.

    `function` is "module.function" within this package. It is called with the controller and what is behind
    the name, and returns the last event, or None.
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
        return await command_function(self.function)(controller, argument)


def command_function(name: str) -> Callable[[Controller, str], Awaitable[Event | None]]:
    """Import a function of this package, "module.function"."""
    module, _, function = name.partition(".")
    found: Callable[[Controller, str], Awaitable[Event | None]]
    found = getattr(import_module(f"{__package__}.{module}"), function)
    return found


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
    "ide": "editors use makeroom through an adapter: docs/guides/editors.md",
    "insights": "/cost and /context tell what a session used",
    "keybindings": "keybindings.toml, beside your settings, gives actions other keys",
    "output-style": "the setting output_style chooses it when a session begins",
    "release-notes": "CHANGELOG.md tells what is new",
    "statusline": "statusLine in Claude Code's settings files is read",
}
# fmt: off
COMMANDS: tuple[Command, ...] = (
    Command("help", "screen.show_help",
            "Show the keys and commands in short. `keys` and `commands` list all of them, the name of a "
            "section such as `room` its commands. With a command's name, show the help of that command.",
            aliases=("?",), during_turn="always", needs_session=False),
    Command("init", "project.init_project",
            "Have the model write AGENTS.md, or improve it. It studies the project first. Words after it "
            "are passed on to the model."),
    Command("compact", "context.compact_now",
            "Compact the context now. Words after it say what to focus on, and go with the next prompt too; "
            "--dry-run only shows what would go.", aliases=("compress", "summarize"), options=("--dry-run",)),
    Command("uncompact", "context.undo_compaction",
            "Undo a compaction, the newest one or the one with the given id. The record keeps both."),
    Command("drop", "context.drop_block",
            "Strike one block from the context. Takes its id, such as r57 or r57.2, as /context lists the "
            "largest; without one, choose from a list. /uncompact brings it back."),
    Command("recall", "context.show_evicted",
            "Show what left the context. Takes an id such as r57, or words to search for; without them, "
            "lists what left.", during_turn="always"),
    Command("search", "context.search_project",
            "Search this session and the earlier ones of this project. Takes words, or a question.",
            during_turn="always"),
    Command("pin", "context.pin",
            "Pin a sentence: the next prompt tells it to the model, and every compaction keeps it. "
            "Without one, lists the pins; `remove N` removes one.", during_turn="bare"),
    Command("context", "context.show_context",
            "Draw what the context holds. Lists the largest blocks too, and the newest compactions with "
            "their figures; `/context all` lists every one.", aliases=("tokens",), during_turn="always"),
    Command("cost", "context.show_cost",
            "Show what this session has used and cost.", aliases=("usage", "stats"), during_turn="always"),
    Command("status", "settings.show_status",
            "Show the model and its window, the server, the session, the folder and what holds commands.",
            during_turn="always"),
    Command("model", "settings.set_model",
            "Show or change the model for this session. Takes a model id, or opus, sonnet, haiku; without "
            "one, choose from a list. It holds from the next request on; --save keeps it for new sessions.",
            during_turn="always", at_screen=True, options=("--save",)),
    Command("effort", "settings.set_effort",
            "Show or change how hard the model thinks. Takes off, low, medium, high, xhigh or max; "
            "without one, choose from a list. It holds from the next request on.",
            aliases=("thinking",), during_turn="always", at_screen=True),
    Command("memory", "project.show_memory",
            "Show the memory files, what they import, and the tokens of each. They are those that this "
            "session began with, and those told with files of folders below.",
            during_turn="always"),
    Command("diff", "project.show_diff",
            "Show what this session changed in the project. With a path, show all lines of what it "
            "changed there. What others changed in the same files is shown apart, as `theirs`, unless "
            "they do it while a command runs.", during_turn="always"),
    Command("plan", "project.plan",
            "Go to plan mode. Words after it are the prompt; in plan mode, without words, show the newest "
            "plan; `off` goes back to the mode before it.", at_screen=True),
    Command("todo", "project.show_todos",
            "Show what the model has on its to-do list.", aliases=("todos",), during_turn="always"),
    Command("background", "project.background",
            "Have the running command go on in the background. Its end is told, to you and to the model.",
            aliases=("bg",), during_turn="always", at_screen=True),
    Command("tasks", "project.show_tasks",
            "Show the background commands of this session. `kill ID` ends one and everything that it "
            "started.", aliases=("bashes", "ps"), during_turn="always", at_screen=True),
    Command("agents", "extensions.show_agents",
            "Show the agents of this session, what they do and what they cost, and answer their "
            "questions. With a number, show what that one did so far; `stop N` ends one in the "
            "background, `stop` all of them.", aliases=("subagents",), during_turn="always"),
    Command("permissions", "settings.set_permissions",
            "Show the permission mode and rules, and where each was set. Without arguments, choose a mode "
            "from a list, or a rule to remove. `mode NAME` changes the mode, `allow RULE` and `deny RULE` "
            "add a rule for this session, `remove RULE` removes one, `explain LINE` tells what becomes of "
            "a command line, and why.",
            aliases=("allowed-tools",), during_turn="bare", at_screen=True, looking=("explain",)),
    Command("sandbox", "system.show_sandbox",
            "Show or change the wall around commands. `auto`, `require` and `off` hold for this session, "
            "as do `project read-only` and `project writable`; `write PATH`, `read PATH` and `reach HOST` "
            "let something through in this project from now on, `forget` takes it back.",
            during_turn="bare", at_screen=True),
    Command("add-dir", "system.add_folder",
            "Work in another folder as well, until the session ends. Takes its path; without one, lists "
            "them. What is changed there, `/diff` and `/rewind` do not know.",
            during_turn="always", at_screen=True),
    Command("publish", "system.publish_port",
            "Reach what a command serves on a port within the wall. `PORT` has localhost:PORT of this "
            "machine lead there until the session ends, `PORT as OTHER` another port; `stop PORT` ends "
            "it. Alone it lists the ports.", aliases=("ports",), during_turn="always", at_screen=True),
    Command("skills", "extensions.show_skills",
            "List your commands and skills and the project's: what each is for, where it is, what is off. "
            "They are looked for anew. With a name, show all about that one.", during_turn="always"),
    Command("trust", "extensions.show_trust",
            "Show or change what this project may bring: commands that its files run, rights that they "
            "take. `all` allows all of it, `none` nothing.", during_turn="bare"),
    Command("mcp", "mcp.show_mcp",
            "Show the MCP servers and their tools. `reconnect NAME` connects one anew, `off NAME` and `on "
            "NAME` switch it for this session, `login NAME` logs in to one by the browser.",
            during_turn="bare"),
    Command("config", "settings.show_settings",
            "Show the settings in force and where each was set. That is a file, the environment, a flag, "
            "or a command. Choose one from the list to change it; `/config NAME` shows its value and what "
            "it takes, `/config NAME VALUE` sets it for this session, or tells that it holds from the "
            "next start on.", aliases=("settings",), during_turn="word"),
    Command("theme", "screen.set_theme",
            "Change the colours of this session. Takes auto, dark, light, ansi, colour-blind or "
            "colour-blind-light; without one, choose from a list. The setting `theme` keeps it.",
            during_turn="always", at_screen=True, needs_session=False),
    Command("vim", "screen.set_editing",
            "Edit with the keys of vim, or again with those of Emacs. Takes on or off; the setting "
            "`editing` keeps it.", during_turn="always", at_screen=True, needs_session=False),
    Command("hooks", "extensions.show_hooks",
            "Show the hooks: which command runs on which event, for what, and where that is set.",
            during_turn="always"),
    Command("doctor", "doctor.examine",
            "Look for what is missing or wrong here, with its remedy. Connects to the server, but sends "
            "nothing.", during_turn="always"),
    Command("bug", "doctor.write_report",
            "Write down what a report of a fault needs: version, terminal, settings, newest failures. No "
            "secrets stand in that file, and nothing is sent. Words after it say what went wrong.",
            aliases=("feedback",), during_turn="always"),
    Command("sessions", "sessions.list_sessions",
            "List the sessions of this folder, newest first.", during_turn="always"),
    Command("resume", "sessions.resume_session",
            "Continue an earlier session. Takes its id, the beginning of its id, its name, or words of its "
            "first prompt; without one, choose from a list.", aliases=("continue",), at_screen=True),
    Command("rewind", "rewind.rewind",
            "Go back to before an earlier prompt. Without arguments, choose from a list; `/rewind N` "
            "restores the conversation, `/rewind N files` the files, `/rewind N both` both. N is the "
            "number in the list, the oldest prompt is 1. What would happen to files is shown first; `yes` "
            "at the end does it, `yes theirs` also to files that somebody else changed since.",
            aliases=("undo",), at_screen=True),
    Command("fork", "sessions.fork_session",
            "Continue in a copy. The session so far stays as it is.", aliases=("branch",), at_screen=True),
    Command("rename", "sessions.rename_session",
            "Give this session a name. It can be resumed by it.",
            aliases=("name", "title"), during_turn="bare"),
    Command("export", "sessions.export_session",
            "Write the session to a file. Its extension chooses the format: .md (the default), .html, "
            ".json, .jsonl."),
    Command("copy", "sessions.copy_answer",
            "Copy the newest answer to the clipboard. With a number N, the N-th newest.",
            during_turn="always", at_screen=True),
    Command("clear", "sessions.new_session",
            "Start a new conversation. The old one stays on disk, and its id is shown.",
            aliases=("new", "reset"), at_screen=True),
    Command("exit", "running.leave",
            "Leave. The session can be continued with --continue.",
            aliases=("quit", "q"), during_turn="always", at_screen=True, needs_session=False),
)
# fmt: on


def find_command(name: str) -> Command | None:
    """The command of that name or alias."""
    return next((command for command in COMMANDS if name in (command.name, *command.aliases)), None)


def command_summaries() -> list[CommandSummary]:
    """List each command, and then each alias."""
    named = [CommandSummary(command.name, command.summary) for command in COMMANDS]
    others = [
        CommandSummary(other, alias_of=command.name) for command in COMMANDS for other in command.aliases
    ]
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

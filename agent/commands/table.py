"""The table of slash commands, COMMANDS. To add one, write a function and add a line.

A command is a function of the controller and the rest of its line; its module is imported when it is first
run. Its output is emitted as events and never enters the conversation: it returns the last event (or None)
and emits any earlier ones. Of the controller it uses `in_use` (the session and its turn context), `setup`,
`services` (the sessions on disk, the model), `factory` (creates other sessions) and `use` (switches to one),
`chooser` (menus; None if no one can choose), `prompt` and `emit`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from agent.ports import CommandSummary
from transcripts.patterns import lazy_pattern

if TYPE_CHECKING:
    from agent.app import Controller
    from agent.events import Event


_NESTED = lazy_pattern(r"\[[^\[\]]*\]")  # arguments behind the first one, in the syntax of a command
_LITERAL = lazy_pattern(r"[a-z][a-z-]*")  # a word to type, not a placeholder such as NAME


class Command(Struct, frozen=True):
    """A slash command.

    `name` is typed after the slash; `aliases` are names that other agents use for it.

    `function` is "module.function" within this package. It is called with the controller and the text after
    the name, and returns the last event, or None.

    `usage` is the syntax of the arguments; if it is "", text after the name is an error. The first sentence
    of `help` is the summary.

    `during_turn` says when the command may run while a turn runs: always, only without arguments ("bare"),
    or with at most one word, which then changes nothing. `read_only_words` are first words with which it
    changes nothing either. `at_screen` marks a command that is only useful to a user at a screen,
    `needs_session` one that has to wait until there is a session. `options` are the options that it accepts:
    any other word that looks like an option is an error.
    """

    name: str
    function: str
    help: str
    usage: str = ""
    aliases: tuple[str, ...] = ()
    during_turn: Literal["never", "bare", "word", "always"] = "never"
    at_screen: bool = False
    needs_session: bool = True
    options: tuple[str, ...] = ()
    read_only_words: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return self.help.split(". ")[0].rstrip(".")

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that the arguments may begin with, such as `mode` and `allow`."""
        choices = _NESTED.sub("", _NESTED.sub("", self.usage[1:-1])).split("|")
        firsts = (choice.split(maxsplit=1)[0] for choice in choices if choice.strip())
        return tuple(dict.fromkeys(word for word in firsts if _LITERAL.fullmatch(word)))

    @property
    def usage_line(self) -> str:
        """Return the syntax of the command, as in `usage: /tasks [kill ID]`."""
        return f"usage: /{self.name} {self.usage}".rstrip()

    async def run(self, controller: Controller, argument: str) -> Event | None:
        return await command_function(self.function)(controller, argument)


def command_function(name: str) -> Callable[[Controller, str], Awaitable[Event | None]]:
    """Import a function of this package, "module.function"."""
    module, _, function = name.partition(".")
    found: Callable[[Controller, str], Awaitable[Event | None]]
    found = getattr(import_module(f"{__package__}.{module}"), function)
    return found


_NO_LOGIN = "makeroom uses API keys; set ANTHROPIC_API_KEY, or run /doctor to see what is missing"
_AS_PROMPT = "ask for it in a prompt, or define a command in .claude/commands"
# Commands of other agents that do not exist here -> how to do the same.
OTHER_AGENTS_COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("login", "logout"), _NO_LOGIN),
    **dict.fromkeys(("review", "security-review", "pr-comments"), _AS_PROMPT),
    **dict.fromkeys(("color", "colors"), "use /theme to change the colours"),
    **dict.fromkeys(("keys", "hotkeys", "shortcuts"), "use /help keys to list the keys"),
    "btw": "use /fork to ask it in a copy of the session, or ask here and remove it with /rewind",
    "checkpoint": "use /rewind to restore an earlier state of the files and the conversation",
    "ide": "editors start `makeroom acp`, see docs/guides/editors.md",
    "insights": "use /cost and /context to see what a session used",
    "keybindings": "put key bindings into keybindings.toml, next to your settings file",
    "output-style": "use the setting output_style, which takes effect in new sessions",
    "release-notes": "see CHANGELOG.md",
    "statusline": "set statusLine in a settings file of Claude Code, which makeroom reads",
}
# fmt: off
COMMANDS: tuple[Command, ...] = (
    Command("help", "screen.show_help",
            "Show the most important keys and commands. Use `keys` or `commands` to list all of them, the "
            "name of a section such as `window` to list its commands, or the name of a command to show its "
            "help.",
            usage="[keys | commands | SECTION | COMMAND]",
            aliases=("?",), during_turn="always", needs_session=False),
    Command("init", "project.init_project",
            "Ask the model to write AGENTS.md, or to improve it. The model studies the project first. Text "
            "after the command is added to the request.",
            usage="[TEXT]"),
    Command("compact", "context.compact_now",
            "Compact the context now. Text after the command says what the summary should focus on, and is "
            "also sent with the next prompt. With --dry-run, only show what would be removed and what it "
            "would cost.",
            usage="[--dry-run] [FOCUS]", aliases=("compress", "summarize"), options=("--dry-run",)),
    Command("uncompact", "context.undo_compaction",
            "Undo the newest compaction, or the one with the given id. The transcript keeps both states.",
            usage="[ID]"),
    Command("drop", "context.drop_block",
            "Clear one block from the context. Takes the id of the block, such as r57 or r57.2; /context "
            "lists the largest blocks. Without an id, choose from a list. Use /uncompact to restore the "
            "block.",
            usage="[ID]"),
    Command("recall", "recalling.show_evicted",
            "Show text that is no longer in the context. Takes an id such as r57, or words to search for. "
            "Without arguments, list what was cleared or summarized.",
            usage="[ID | WORDS]", during_turn="always"),
    Command("search", "recalling.search_project",
            "Search this session and the earlier sessions of this project. Takes words or a question.",
            usage="WORDS", during_turn="always"),
    Command("pin", "context.pin",
            "Pin a sentence, so that every compaction keeps it. The model sees it with the next prompt. "
            "Without arguments, list the pins. `remove N` removes one.",
            usage="[TEXT | remove N]", during_turn="bare"),
    Command("context", "context.show_context",
            "Show what the context window contains. Also lists the largest blocks, and the newest "
            "compactions with their sizes and costs. `all` lists every compaction.",
            usage="[all]", aliases=("tokens",), during_turn="always"),
    Command("cost", "costs.show_cost",
            "Show the tokens and the cost of this session. `why` explains the prompt of each request: which "
            "tokens were read from the cache, which were new, and which were billed again, for what reason. "
            "`why all` lists all requests instead of the newest ones.",
            usage="[why [all]]", aliases=("usage", "stats"), during_turn="always"),
    Command("status", "settings.show_status",
            "Show the model, its context window, the server, the session, the directory and the sandbox.",
            during_turn="always"),
    Command("model", "model.set_model",
            "Show or change the model of this session. Takes a model id, or opus, sonnet or haiku. Without "
            "one, choose from a list. The change takes effect with the next request. With --save, new "
            "sessions use the model as well.",
            usage="[MODEL] [--save]", during_turn="always", at_screen=True, options=("--save",)),
    Command("effort", "model.set_effort",
            "Show or change how much the model thinks. Takes off, low, medium, high, xhigh or max. Without "
            "one, choose from a list. The change takes effect with the next request. With --save, new "
            "sessions use the effort as well.",
            usage="[off | low | medium | high | xhigh | max] [--save]",
            aliases=("thinking",), during_turn="always", at_screen=True, options=("--save",)),
    Command("memory", "project.show_memory",
            "Show the memory files in use, with their imports and tokens. These are the files that were read "
            "when the session started, and those of subdirectories that were read later.",
            during_turn="always"),
    Command("diff", "project.show_diff",
            "Show the changes that this session made in the project. With a path, show all changed lines "
            "there. Changes that others made to the same files are listed separately as `theirs`, except "
            "those made while a command ran.",
            usage="[PATH]", during_turn="always"),
    Command("plan", "project.plan",
            "Switch to plan mode. Text after the command is sent as a prompt. In plan mode, show the newest "
            "plan. `off` returns to the previous mode.",
            usage="[PROMPT | off]", at_screen=True),
    Command("todo", "project.show_todos",
            "Show the to-do list of the model.", aliases=("todos",), during_turn="always"),
    Command("background", "project.background",
            "Move the running command to the background. You and the model are notified when it finishes.",
            aliases=("bg",), during_turn="always", at_screen=True),
    Command("tasks", "project.show_tasks",
            "List the background commands of this session. `kill ID` ends one, with every process that it "
            "started.",
            usage="[kill ID]", aliases=("bashes", "ps"), during_turn="always", at_screen=True),
    Command("agents", "extensions.show_agents",
            "List the agents of this session with their state and cost, answer their questions, and list the "
            "agents that are defined. With a "
            "number, show the conversation of that agent. `stop N` ends an agent in the background, and "
            "`stop` ends all of them.",
            usage="[N | stop [N]]", aliases=("subagents",), during_turn="always"),
    Command("permissions", "permissions.set_permissions",
            "Show or change the permission mode and the permission rules. Without arguments, choose a mode, "
            "or a rule to remove. `mode NAME` changes the mode. `allow RULE`, `deny RULE` and `ask RULE` add "
            "a rule for this session, and `remove RULE` removes one. `import` lists the allow rules in "
            "Claude Code's settings files, and `import RULE` or `import all` allows them in this project. "
            "`explain LINE` shows whether a command would be allowed, and why.",
            usage="[mode NAME | allow RULE | deny RULE | ask RULE | remove RULE | import [RULE] | "
            "explain LINE]",
            aliases=("allowed-tools",), during_turn="bare", at_screen=True, read_only_words=("explain",)),
    Command("sandbox", "system.show_sandbox",
            "Show or change the sandbox that commands run in. `auto`, `require`, `off` and `project` apply "
            "to this session. `write PATH`, `read PATH` and `reach HOST` always allow the access in this "
            "project, and `forget` revokes that.",
            usage="[auto | require | off | project read-only | project writable | write PATH | read PATH | "
            "reach HOST | forget PATH | forget HOST]", during_turn="bare", at_screen=True),
    Command("add-dir", "system.add_folder",
            "Work in another directory as well, until the session ends. Without a path, list the "
            "directories. `/diff` and `/rewind` do not cover changes that are made there.",
            usage="[PATH]", during_turn="always", at_screen=True),
    Command("worktree", "worktrees.show_worktrees",
            "List the git worktrees of this project that --worktree made, with their changes.",
            aliases=("worktrees",), during_turn="always"),
    Command("publish", "system.publish_port",
            "Publish a port of the sandbox on this machine. `PORT` makes it available at localhost:PORT "
            "until the session ends, and `PORT as OTHER` at localhost:OTHER. `stop PORT` ends that. Without "
            "arguments, list the ports.",
            usage="[PORT | PORT as OTHER | stop PORT]",
            aliases=("ports",), during_turn="always", at_screen=True),
    Command("skills", "extensions.show_skills",
            "List your commands and skills and those of the project. Rescans the directories. With a name, "
            "show the details of one.",
            usage="[NAME]", during_turn="always"),
    Command("trust", "extensions.show_trust",
            "Show or change which extensions of this project are enabled: hooks, servers, agents, and the "
            "commands and permissions of skills. `all` enables all of them, and `none` disables them.",
            usage="[all | none]", during_turn="bare"),
    Command("mcp", "mcp.show_mcp",
            "Show the MCP servers and their tools. `reconnect NAME` reconnects a server. `off NAME` and `on "
            "NAME` switch it for this session. `login NAME` logs in with your browser.",
            usage="[reconnect NAME | off NAME | on NAME | login NAME]", during_turn="bare"),
    Command("config", "settings.show_settings",
            "Show or change the settings. Without arguments, list them with the place where each was set, or "
            "choose one to change. `NAME` shows the value of a setting and the values that it takes, or "
            "lets you choose one. `NAME VALUE` changes it for this session, or shows how to change it for "
            "the next start.",
            usage="[NAME [VALUE]]", aliases=("settings",), during_turn="word"),
    Command("theme", "screen.set_theme",
            "Change the colours and save the choice in your settings file. Takes auto, dark, light, ansi, "
            "colour-blind or colour-blind-light. Without one, choose from a list.",
            usage="[auto | dark | light | ansi | colour-blind | colour-blind-light]",
            during_turn="always", at_screen=True, needs_session=False),
    Command("vim", "screen.set_editing",
            "Switch between the editing keys of vim and Emacs and save the choice in your settings file.",
            usage="[on | off]", during_turn="always", at_screen=True, needs_session=False),
    Command("hooks", "extensions.show_hooks",
            "List the hooks, with their events, matchers and commands, and where each was set.",
            during_turn="always"),
    Command("plugin", "extensions.show_plugins",
            "List the plugins that Claude Code has installed, and enable or disable one. Nothing is "
            "downloaded. A plugin takes effect after you approve it, and needs approval again if it changes.",
            usage="[enable NAME | disable NAME]", aliases=("plugins",), during_turn="bare"),
    Command("doctor", "doctor.examine",
            "Check the installation, and show a remedy for each problem. Connects to the server, but sends "
            "no request. With -p, the exit code is 1 if a problem was found.", during_turn="always"),
    Command("bug", "doctor.write_report",
            "Write a bug report file with the version, terminal, settings and recent errors. It contains no "
            "secrets, and nothing is sent. Text after the command describes the problem.",
            usage="[TEXT]", aliases=("feedback",), during_turn="always"),
    Command("sessions", "sessions.list_sessions",
            "List the sessions of this directory, newest first.", during_turn="always"),
    Command("resume", "sessions.resume_session",
            "Resume an earlier session. Takes its id, the start of its id, its name, or words of its first "
            "prompt. Without one, choose from a list.",
            usage="[SESSION]", aliases=("continue",), at_screen=True),
    Command("rewind", "rewind.rewind",
            "Restore the conversation, the files, or both to their state before an earlier prompt. Without "
            "arguments, choose from a list. N is the number in the list; the oldest prompt is 1. `/rewind N` "
            "restores the conversation, `/rewind N files` the files, and `/rewind N both` both. Changes to "
            "files are shown first. Add `yes` to make them, and `theirs` to include files that others have "
            "changed since, or `keep` to leave those as they are.",
            usage="[N [files | both] [yes [theirs | keep]]]", aliases=("undo",), at_screen=True),
    Command("fork", "sessions.fork_session",
            "Continue in a copy of this session. The original does not change.",
            aliases=("branch",), at_screen=True),
    Command("rename", "sessions.rename_session",
            "Name this session. You can resume it by its name.",
            usage="[NAME]", aliases=("name", "title"), during_turn="bare"),
    Command("export", "sessions.export_session",
            "Write the session to a file. The extension selects the format: .md (the default), .html, .json "
            "or .jsonl.",
            usage="[FILE]"),
    Command("copy", "clipboard.copy_answer",
            "Copy the newest answer to the clipboard. With a number N, copy the Nth newest.",
            usage="[N]", during_turn="always", at_screen=True),
    Command("clear", "sessions.new_session",
            "Start a new conversation. The old one stays on disk, and its id is shown.",
            aliases=("new", "reset"), at_screen=True),
    Command("exit", "running.leave",
            "Exit makeroom. Start it with --continue to resume the session.",
            aliases=("quit", "q"), during_turn="always", at_screen=True, needs_session=False),
)
# fmt: on


def find_command(name: str) -> Command | None:
    """Return the command with that name or alias, None if there is none."""
    return next((command for command in COMMANDS if name in (command.name, *command.aliases)), None)


def usage_of(name: str) -> str:
    """Return the usage line of a command. Raises StopIteration for an unknown name."""
    return next(command.usage_line for command in COMMANDS if command.name == name)


def command_summaries() -> list[CommandSummary]:
    """List every command, then every alias."""
    named = [CommandSummary(each.name, each.summary, words=each.words) for each in COMMANDS]
    others = [
        CommandSummary(other, alias_of=each.name, words=each.words)
        for each in COMMANDS
        for other in each.aliases
    ]
    return [*named, *others]


def needs_session(line: str) -> bool:
    """Return whether a line is a prompt, or a command that needs a session."""
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
    if command.during_turn == "always" or (words and words[0] in command.read_only_words):
        return True
    return len(words) <= (command.during_turn == "word")


def use_without_screen(line: str) -> Literal["words", "run", "refuse"]:
    """Classify a line of a script.

    Returns "run" for a command, "refuse" for one that needs a screen, "words" for a prompt to the model.
    `/permissions` and the like only show something without arguments.
    """
    line = line.lstrip()
    name = line.removeprefix("/").partition(" ")[0].partition("\n")[0]
    command = find_command(name.lower()) if line.startswith("/") else None
    if command is None:
        return "words"
    words = line.split()[1:]
    only_shows = words[0] in command.read_only_words if words else command.during_turn == "bare"
    return "refuse" if command.at_screen and not only_shows else "run"

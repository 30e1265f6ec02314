"""Slash commands: one visible table. A command is a function; its docstring is its help.

A command gets the agent and the rest of its line. What it prints goes out as events and never into the
conversation.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agent.errors import AgentError
from agent.events import CommandOutput, Notice
from transcripts.record_errors import StoreError

from . import about, copying, making_room, permissions, project, sessions, tasks
from . import configuration as settings
from .own import run_own

if TYPE_CHECKING:
    from agent.app.controller import Controller


Beside = Literal["never", "bare", "always"]


@dataclass(frozen=True, slots=True)
class Command:
    """`name` is typed after the slash; `aliases` are other names that fingers know.

    `beside` tells whether it may run while a turn runs: those that only look may, some only when bare.
    """

    name: str
    run: Callable[[Controller, str], Awaitable[None]]
    aliases: tuple[str, ...] = ()
    beside: Beside = "never"

    @property
    def help(self) -> str:
        return " ".join((self.run.__doc__ or "").split())

    @property
    def summary(self) -> str:
        return self.help.split(". ")[0].rstrip(".")


async def help_(agent: Controller, argument: str) -> None:
    """Show the commands and keys. With a name, show the help of that command."""
    if argument:
        command = find(argument.lstrip("/"))
        agent.emit(
            CommandOutput(f"/{command.name}: {command.help}") if command else unknown(argument.lstrip("/"))
        )
        return
    width = max(len(command.name) for command in COMMANDS)
    lines = [f"  /{command.name:<{width}}  {command.summary}" for command in COMMANDS]
    agent.emit(CommandOutput("\n".join(["Commands", *lines, "", "Keys", *(f"  {line}" for line in KEYS)])))


async def exit_(agent: Controller, argument: str) -> None:
    """Leave. The session can be continued with --continue."""
    agent.ended = True


KEYS = (
    "Enter sends; Alt+Enter, Ctrl+J or \\ Enter starts a new line",
    "Ctrl-C or Esc interrupts a turn; Ctrl-C twice or Ctrl-D on an empty line leaves",
    "Esc Esc on an empty line goes back (/rewind); Shift+Tab changes the permission mode",
    "Up and Ctrl-R find earlier prompts; Tab completes; @ names a file",
    "Ctrl-S puts a draft away or takes it back; Ctrl-T shows background commands",
    "!command runs a command of yours and shows it to the model; !!command only to you",
    "Ctrl-O prints the turn's outputs whole, and those to come; again: in short",
    "Ctrl-G opens your editor; Ctrl-L redraws",
)

COMMANDS: tuple[Command, ...] = (
    Command("help", help_, ("?",), "always"),
    Command("init", project.init),
    Command("compact", making_room.compact, ("compress", "summarize")),
    Command("uncompact", making_room.uncompact),
    Command("recall", making_room.recall),
    Command("pin", making_room.pin),
    Command("context", about.context, ("tokens",), "always"),
    Command("cost", about.cost, ("usage", "stats"), "always"),
    Command("status", about.status, (), "always"),
    Command("model", about.model, (), "bare"),
    Command("effort", about.effort, ("thinking",), "bare"),
    Command("memory", project.memory, (), "always"),
    Command("diff", project.diff, (), "always"),
    Command("tasks", tasks.tasks, ("bashes", "ps"), "always"),
    Command("permissions", permissions.permissions, ("allowed-tools",), "bare"),
    Command("config", settings.config, ("settings",), "always"),
    Command("hooks", settings.hooks, (), "always"),
    Command("sessions", sessions.list_, (), "always"),
    Command("resume", sessions.resume, ("continue",)),
    Command("rewind", sessions.rewind, ("undo",)),
    Command("fork", sessions.fork, ("branch",)),
    Command("rename", sessions.rename),
    Command("export", sessions.export),
    Command("copy", copying.copy, (), "always"),
    Command("clear", sessions.clear, ("new", "reset")),
    Command("exit", exit_, ("quit", "q"), "always"),
)


def find(name: str) -> Command | None:
    """The command of that name or alias."""
    return next((command for command in COMMANDS if name in (command.name, *command.aliases)), None)


def described() -> list[tuple[str, str]]:
    """(name, what it does) of each command, and then of each other name of one."""
    named = [(command.name, command.summary) for command in COMMANDS]
    others = [(other, f"same as /{command.name}") for command in COMMANDS for other in command.aliases]
    return [*named, *others]


def may_run_beside(line: str) -> bool:
    """Whether a command line may run while a turn runs, because it only looks."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find(name.lower())
    if command is None or command.beside == "never":
        return False
    return command.beside == "always" or not argument.strip()


def unknown(name: str) -> Notice:
    """The answer to a name that no command has."""
    names = [word for command in COMMANDS for word in (command.name, *command.aliases)]
    near = difflib.get_close_matches(name, names, 1, 0.5)
    hint = f" - did you mean /{near[0]}?" if near else " - /help lists them"
    return Notice(f"Unknown command /{name}{hint}", "warning")


async def run_command(agent: Controller, line: str) -> None:
    """Run one command line, `/name argument`. What goes wrong is told, never raised."""
    if line.startswith("!"):
        await run_own(agent, line)
        return
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find(name.lower())
    if command is None:
        agent.emit(unknown(name))
        return
    try:
        await command.run(agent, argument.strip())
    except (AgentError, StoreError, OSError) as error:
        agent.emit(Notice(f"/{command.name}: {error}", "error"))

"""Run command lines: find the command, run it, and report its errors."""

from __future__ import annotations

import difflib
import sys
from typing import TYPE_CHECKING, cast

from agent.app import RunSetup
from agent.errors import AgentError, UsageError, program_changed
from agent.events import Emit, Event, Notice
from agent.ports import Approver, Chooser
from agent.typed_text import is_command
from transcripts import StoreError
from transcripts.wording import cause_of, shorten

from .table import OTHER_AGENTS_COMMANDS, Command, command_function, find_command, usage_of

if TYPE_CHECKING:
    from agent.app import CommandTable, Controller


def make_controller(
    setup: RunSetup, emit: Emit, approver: Approver, chooser: Chooser | None = None
) -> Controller:
    """Return a controller with these commands."""
    from agent.app import Controller  # 60 ms, after the first paint

    return Controller(
        setup,
        emit=emit,
        approver=approver,
        command_table=cast("CommandTable", sys.modules[__package__]),
        chooser=chooser,
    )


async def leave(controller: Controller, argument: str) -> None:
    """Run /exit. Defined here so that it works even if the modules of the other commands are gone."""
    controller.ended = True


async def run_command(controller: Controller, line: str) -> None:
    """Run one command line, `/name argument` or `!command`. Errors are emitted, never raised."""
    try:
        event = await _run(controller, line)
    except ImportError as error:
        event = Notice(program_changed(error), "error")
    if event is not None:
        controller.emit(event)


async def _run(controller: Controller, line: str) -> Event | None:
    if line.startswith("!"):
        return await command_function("project.run_own_command")(controller, line)
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = find_command(name.lower())
    if command is None:
        return None if await _run_extension(controller, line) else unknown(controller, name)
    argument = argument.strip()
    if argument and not command.usage:
        return usage_notice(
            command.name, f"/{command.name} takes no arguments, not {shorten(argument, 40)!r}"
        )
    if wrong := _unknown_option(command, argument):
        return Notice(f"/{command.name}: {wrong}", "error", UsageError.code)
    code = 1
    try:
        return await command.run(controller, argument)
    except OSError as error:
        reason = f"{error.filename}: {cause_of(error)}" if error.filename is not None else str(error)
    except (AgentError, StoreError) as error:
        reason = str(error)
        code = error.code if isinstance(error, AgentError) else code
    return Notice(f"/{command.name}: {reason}", "error", code)


def _unknown_option(command: Command, argument: str) -> str:
    """Return the error for the first unknown option among the words; "" if there is none."""
    words = (word for word in argument.split() if word.startswith("--") and word not in command.options)
    word = next((word for word in words if word[2:]), "") if command.options else ""
    near = difflib.get_close_matches(word, command.options, 1)
    hint = f"did you mean {near[0]}?" if near else command.usage_line
    return f"unknown option {word} ({hint})" if word else ""


def usage_notice(name: str, problem: str = "") -> Notice:
    """Return the warning about wrong arguments of a command: the problem, and the usage line."""
    usage = usage_of(name)
    return Notice(f"{problem} ({usage})" if problem else usage, "warning", UsageError.code)


async def _run_extension(controller: Controller, line: str) -> bool:
    """Run a command or skill from a file, or a prompt of an MCP server. Returns False if there is none."""
    if not await _is_extension(controller, line):
        return False
    await controller.prompt(line)
    return True


async def _is_extension(controller: Controller, line: str) -> bool:
    services = controller.services
    if services.mcp is not None and await services.mcp.called(line) is not None:
        return True
    if services.skills.typed(line) is None:
        await services.find_skills()  # it may be new
    return services.skills.typed(line) is not None


async def unknown_command(controller: Controller, line: str) -> str:
    """Return the error for a prompt that looks like a command but is not one; "" for any other."""
    name = line.strip().removeprefix("/").partition(" ")[0]
    if not is_command(line.strip()) or find_command(name.lower()) or await _is_extension(controller, line):
        return ""
    return unknown(controller, name).text


def unknown(controller: Controller, name: str) -> Notice:
    """Return the notice about an unknown command, with the most similar name."""
    names = [known.name for known in controller.commands()]
    near = difflib.get_close_matches(name, names, 3, cutoff=0.65)
    near.sort(key=lambda each: sorted(each) != sorted(name))  # letters in another order first
    hint = f"did you mean /{near[0]}?" if near else "use /help to list the commands"
    problem = f"unknown command /{name}: {OTHER_AGENTS_COMMANDS.get(name.lower(), hint)}"
    return Notice(problem, "warning", UsageError.code)

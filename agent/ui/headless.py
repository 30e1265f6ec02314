"""A run without a screen: `-p`. One prompt, one answer, and an exit code on every path."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import select
import signal
import stat
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from glob import escape
from shlex import quote
from typing import Any

from agent.app import Controller, RunSetup
from agent.errors import AgentError, UsageError
from agent.events import Emit, TurnFinished
from agent.extensions.skills import style_in_use
from agent.permissions import Rule
from agent.ports import Approver, Deny, PermissionQuestion
from transcripts import Block, Exchange, StoreError

from .output_formats import RunOutput
from .standard_streams import stdin_text

log = logging.getLogger(__name__)
MAX_STDIN_BYTES = 10 * 1024 * 1024  # a prompt beyond that is a mistake
STDIN_TIMEOUT_S = 1.0  # that an inherited, silent standard input is waited for when there is a prompt


class DenyAll:
    """A ports.Approver that denies every question, naming the flag that would allow the call."""

    async def ask(self, question: PermissionQuestion) -> Deny:
        rules = [question.prefix] if question.prefix else _rules_for(question)
        flag = " ".join(["--allowedTools", *map(quote, rules)]) if rules else ""
        remedy = question.remedy or flag
        why = "" if question.refused else f"{question.why}, and "
        reason = f"{why}nobody is there to ask{f'; {remedy} would allow it' if remedy else ''}"
        return Deny(reason, unattended=True)


def _rules_for(question: PermissionQuestion) -> list[str]:
    """Return the rules that would allow a call without a rule; none for commands and protected places."""
    special = [access for access in question.access if access.outside or access.protected]
    if any(each.kind == "run" or (each.kind == "write" and each.protected) for each in question.access):
        return []
    return [str(Rule(question.tool, escape(each.target))) for each in special] or [question.tool]


MakeController = Callable[[Emit, Approver], Controller]


def run_headless(setup: RunSetup, make_controller: MakeController) -> int:
    """Run one prompt to its end; returns the exit code."""
    prompt = _prompt(setup.options.prompt)
    return asyncio.run(_run(setup, make_controller, prompt))


async def _run(setup: RunSetup, make_controller: MakeController, prompt: str) -> int:
    """Run to an exit code; the first signal of a kind interrupts the run, the second has its usual effect."""
    signalled: list[int] = []
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(_answer(setup, make_controller, prompt, signalled))

    def stop(number: int) -> None:
        signalled.append(128 + number)
        task.cancel()
        loop.remove_signal_handler(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        return signalled[0] if signalled else 130


async def _answer(setup: RunSetup, make_controller: MakeController, prompt: str, signalled: list[int]) -> int:
    output = RunOutput(setup.options.output_format, setup.masks.text, setup.options.partial_messages)
    controller = make_controller(output.show, DenyAll())
    code = 1
    error = "the run was cut short"

    async def work() -> tuple[int, str]:
        if controller.command_table.use_without_screen(prompt) == "refuse":
            raise for_the_screen(prompt)  # before anything slow is loaded
        await controller.ready()
        tools = controller.services.told_tools(controller.in_use[1].tools)
        output.begin(controller.status, tools, **session_details(controller))
        ended = await run_prompt(controller, output, prompt)
        return ended.code if output.form != "text" else _exit_code(controller, ended), ended.error

    try:
        code, error = await outcome_of(work())
    finally:
        await controller.close()
    output.begin(controller.status)  # where `ready` failed
    written = output.finish(signalled[0] if signalled else code, error)
    return signalled[0] if signalled else written or code


async def outcome_of(work: Awaitable[tuple[int, str]]) -> tuple[int, str]:
    """Return exit code and error of a piece of work, whatever happens in it."""
    try:
        return await work
    except (AgentError, StoreError) as failure:
        return getattr(failure, "code", UsageError.code), str(failure)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return 130, "interrupted"
    except Exception as failure:  # border: every run has its result line and its exit code
        log.exception("a fault within")
        return 1, f"a fault within makeroom: {type(failure).__name__}: {failure}"


def session_details(controller: Controller) -> dict[str, Any]:
    """Return the fields of the first line of a turn besides the status."""
    library = controller.services.skills
    return {
        "apiKeySource": controller.setup.config.origins.get("key", "none"),
        "slash_commands": [one.name for one in library.for_users()],
        "output_style": style_in_use(controller.in_use[1].settings.system),
        "skills": [one.name for one in library.skills.values() if one.kind == "skill"],
        "agents": list(controller.services.agents),
    }


def for_the_screen(line: str) -> UsageError:
    """Return the error for a slash command that only a user at the screen can run."""
    return UsageError(f"{line.split(None, 1)[0]} is for somebody at the screen: start makeroom without -p")


async def run_prompt(
    controller: Controller,
    output: RunOutput,
    text: str,
    content: Sequence[Block] | None = None,
    runnable: Collection[str] = (),
) -> TurnFinished:
    """Run a turn on a prompt, or the slash command that it is.

    The output of a command is the answer, and an error among it fails the run. Raises UsageError for an
    unknown command, for one that needs a screen and is not named in `runnable`, and for one with more lines
    behind its name.
    """
    text = text.lstrip() if text.lstrip().startswith("/") else text
    use = controller.command_table.use_without_screen(text)
    if use == "words":
        if unknown := await controller.command_table.unknown_command(controller, text):
            raise UsageError(unknown)
        return await controller.prompt(text, content)
    if use == "refuse" and text.split()[0].removeprefix("/") not in runnable:
        raise for_the_screen(text)
    if "\n" in (name := text.strip().partition(" ")[0]):
        name = name.partition("\n")[0]
        raise UsageError(f"{name} stands alone or with words on its line: send what is below it by itself")
    output.answers_command = True
    await controller.command(text)
    failed = output.told_error
    ended = TurnFinished("done", turns=0)
    if failed:
        ended = TurnFinished("failed", turns=0, error=failed, code=1)
    output.show(ended)
    return ended


def _exit_code(controller: Controller, ended: TurnFinished) -> int:
    """Return the turn's exit code; 4 when a denied permission was the last thing before the answer."""
    session, context = controller.in_use
    if ended.code or not context.permissions.denied:
        return ended.code
    calls = [entry for entry in session.folded.entries if isinstance(entry, Exchange) and entry.uses]
    refused = {call["tool_use_id"] for call in context.permissions.denied}
    last = calls[-1].uses.values() if calls else ()
    return 4 if any(use.id in refused for use in last) else 0


def _prompt(text: str) -> str:
    """Return the prompt of the command line, of standard input, or of both."""
    piped = _piped(bool(text))
    if not text and not piped.strip():
        raise UsageError("-p needs a prompt: makeroom -p 'what to do', or pipe it in")
    if not piped.strip():
        return text
    if not text:
        return piped
    framed = re.sub(r"<(?=\s*/\s*stdin)", "<\\\\", piped, flags=re.IGNORECASE)  # it must not end its frame
    return f"{text}\n\n<stdin>\n{framed}\n</stdin>"


def _piped(has_prompt: bool) -> str:
    """Read standard input; "" for a terminal, and with a prompt for a pipe that stays silent."""
    try:
        descriptor = sys.stdin.fileno()
        if os.isatty(descriptor):
            return ""
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        if has_prompt and not regular and not select.select([descriptor], [], [], STDIN_TIMEOUT_S)[0]:
            return ""
        with open(descriptor, "rb", closefd=False) as stdin:
            data = stdin.read(MAX_STDIN_BYTES + 1)
    except (OSError, ValueError, AttributeError):
        return ""  # standard input is closed
    if len(data) > MAX_STDIN_BYTES:
        limit = f"{MAX_STDIN_BYTES // 1048576} MB"
        raise UsageError(f"standard input is over {limit}; put it in a file and name the file")
    text, doubt, _ = stdin_text(data)
    if doubt:
        sys.stderr.write(f"warning: {doubt}\n")
    return text

"""Headless runs (`-p`): one prompt, one answer, and an exit code in every case."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import select
import stat
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from glob import escape
from shlex import quote
from typing import Any, NamedTuple

from agent.app import Controller, Options, RunSetup
from agent.errors import AgentError, UsageError, exit_code_of, unexpected
from agent.events import Emit, TurnFinished
from agent.exit_signals import ExitSignal, run_until_signal
from agent.extensions.skills import style_in_use
from agent.permissions import Rule
from agent.ports import Approver, Deny, PermissionQuestion
from transcripts import Block, Exchange, StoreError

from .output_formats import RunOutput
from .standard_streams import stdin_text

log = logging.getLogger(__name__)
MAX_STDIN_BYTES = 10 * 1024 * 1024  # a longer prompt is a mistake


NO_USER = "no user can be asked in this run"


class DenyAll:
    """A ports.Approver that denies every question, naming the flag that would allow the call."""

    async def ask(self, question: PermissionQuestion) -> Deny:
        rules = [question.prefix] if question.prefix else _rules_for(question)
        flag = " ".join(["--allowedTools", *map(quote, rules)]) if rules else ""
        remedy = question.remedy or flag
        why = "" if question.refused else f"{question.why}, and "
        hint = f" ({remedy} would allow it)" if remedy else ""
        return Deny(f"{why}{NO_USER}{hint}", unattended=True)


def _rules_for(question: PermissionQuestion) -> list[str]:
    """Return rules that would allow a call without an offered rule; none for commands or protected paths."""
    special = [access for access in question.access if access.outside or access.protected]
    if any(each.kind == "run" or (each.kind == "write" and each.protected) for each in question.access):
        return []
    return [str(Rule(question.tool, escape(each.target))) for each in special] or [question.tool]


MakeController = Callable[[Emit, Approver], Controller]


def run_headless(setup: RunSetup, make_controller: MakeController) -> int:
    """Run one prompt to its end; return the exit code."""
    ending = ExitSignal()
    work = _answer(setup, make_controller, _prompt(setup.options), ending)
    return asyncio.run(run_until_signal(work, ending))


async def _answer(setup: RunSetup, make_controller: MakeController, prompt: str, ending: ExitSignal) -> int:
    output = RunOutput(setup.options.output_format, setup.masks.text, setup.options.partial_messages)
    controller = make_controller(output.show, DenyAll())
    code = 1
    error = "the run ended unexpectedly"

    async def work() -> Outcome:
        if controller.command_table.use_without_screen(prompt) == "refuse":
            raise needs_screen(prompt)  # before anything slow is loaded
        await controller.ready()
        tools = controller.services.told_tools(controller.in_use.context.tools)
        output.begin(controller.status, tools, **session_details(controller))
        ended = await run_prompt(controller, output, prompt)
        code = ended.code if output.form != "text" else _exit_code(controller, ended)
        return Outcome(code, ended.error)

    try:
        code, error = await outcome_of(work())
    finally:
        await controller.close()
    output.begin(controller.status)  # if `ready` failed
    written = output.finish(ending.code or code, error)
    return ending.code or written or code


class Outcome(NamedTuple):
    """The exit code of a run, and its error or ""."""

    code: int
    error: str


async def outcome_of(work: Awaitable[Outcome]) -> Outcome:
    """Return the outcome of a piece of work, whatever happens in it."""
    try:
        return await work
    except (AgentError, StoreError) as failure:
        return Outcome(exit_code_of(failure), str(failure))
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        return Outcome(130, "interrupted")
    except Exception as failure:  # border: every run has its result line and its exit code
        log.exception("internal error")
        return Outcome(1, unexpected(failure))


def session_details(controller: Controller) -> dict[str, Any]:
    """Return the fields of the first line of a turn, except those of the status."""
    library = controller.services.skills
    return {
        "apiKeySource": controller.setup.config.origins.get("key", "none"),
        "slash_commands": [one.name for one in library.for_users()],
        "output_style": style_in_use(controller.in_use.context.settings.system),
        "skills": [one.name for one in library.skills.values() if one.kind == "skill"],
        "agents": list(controller.services.agents),
    }


def needs_screen(line: str) -> UsageError:
    """Return the error for a slash command that only works in an interactive session."""
    return UsageError(f"{line.split(None, 1)[0]} needs an interactive session: start makeroom without -p")


async def run_prompt(
    controller: Controller,
    output: RunOutput,
    text: str,
    content: Sequence[Block] | None = None,
    runnable: Collection[str] = (),
) -> TurnFinished:
    """Run a turn on a prompt, or the slash command in it.

    The output of a command is the answer, and an error in it fails the run. Raises UsageError for an unknown
    command, for one that needs a screen and is not in `runnable`, and for a line break after its name.
    """
    text = text.lstrip() if text.lstrip().startswith("/") else text
    use = controller.command_table.use_without_screen(text)
    if use == "words":
        if unknown := await controller.command_table.unknown_command(controller, text):
            raise UsageError(unknown)
        return await controller.prompt(text, content)
    if use == "refuse" and text.split()[0].removeprefix("/") not in runnable:
        raise needs_screen(text)
    if "\n" in (name := text.strip().partition(" ")[0]):
        name = name.partition("\n")[0]
        raise UsageError(f"cannot run {name} with more lines below it: send them as a separate prompt")
    output.answers_command = True
    await controller.command(text)
    failed = output.command_error
    ended = TurnFinished("done", turns=0)
    if failed:
        ended = TurnFinished("failed", turns=0, error=failed, code=output.command_code)
    output.show(ended)
    return ended


def _exit_code(controller: Controller, ended: TurnFinished) -> int:
    """Return the turn's exit code; 4 if a call of the last reply with calls was denied."""
    session, context = controller.in_use
    if ended.code or not context.permissions.denied:
        return ended.code
    calls = [entry for entry in session.folded.entries if isinstance(entry, Exchange) and entry.uses]
    refused = {call.id for call in context.permissions.denied}
    last = calls[-1].uses.values() if calls else ()
    return 4 if any(use.id in refused for use in last) else 0


def _prompt(options: Options) -> str:
    """Return the prompt of the command line, of standard input, or of both."""
    text = options.prompt if options.prompt.strip() else ""
    piped = _piped(bool(text))
    if not text and not piped.strip():
        takes_more = options.allowed_tools or options.disallowed_tools or options.remarks
        hint = (
            ". --allowedTools and --disallowedTools take all words after them as rules" if takes_more else ""
        )
        raise UsageError(f"-p needs a prompt: run makeroom -p 'PROMPT' or pipe the prompt in{hint}")
    if not piped.strip():
        return text
    if not text:
        return piped
    # A closing tag in it must not end the block.
    framed = re.sub(r"<(?=\s*/\s*stdin)", "<\\\\", piped, flags=re.IGNORECASE)
    return f"{text}\n\n<stdin>\n{framed}\n</stdin>"


def _piped(has_prompt: bool) -> str:
    """Read standard input; "" for a terminal, and with a prompt for a pipe that stays silent."""
    try:
        descriptor = sys.stdin.fileno()
        if os.isatty(descriptor):
            return ""
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        # an inherited standard input may stay silent
        if has_prompt and not regular and not select.select([descriptor], [], [], 1.0)[0]:
            return ""
        with open(descriptor, "rb", closefd=False) as stdin:
            data = stdin.read(MAX_STDIN_BYTES + 1)
    except (OSError, ValueError, AttributeError):
        return ""  # standard input is closed
    if len(data) > MAX_STDIN_BYTES:
        limit = f"{MAX_STDIN_BYTES // 1048576} MB"
        raise UsageError(
            f"cannot read more than {limit} of standard input: put it in a file and mention its path"
        )
    read = stdin_text(data)
    if read.warning:
        sys.stderr.write(f"warning: {read.warning}\n")
    return read.text

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

from agent import commands
from agent.app.controller import Controller
from agent.app.setup import RunSetup
from agent.errors import AgentError, UsageError
from agent.events import Event, TurnFinished
from agent.ports import Deny, PermissionQuestion
from transcripts.record_errors import StoreError

from .output_formats import OUTPUT_FORMATS, OutputFormat, RunDescription, StandardStreams

log = logging.getLogger(__name__)
MOST = 10 * 1024 * 1024  # bytes of standard input; a prompt beyond that is a mistake
PATIENCE = 1.0  # seconds that an inherited, silent standard input is waited for when there is a prompt


class DenyAll:
    """Nobody is there to ask: what is not allowed is refused, with the flag that would allow it."""

    async def ask(self, question: PermissionQuestion) -> Deny:
        rule = question.prefix or question.tool
        return Deny(
            f"{question.why}, and nobody is there to ask; --allowedTools '{rule}' would allow it", nobody=True
        )


def run_headless(setup: RunSetup) -> int:
    """Run one prompt to its end; returns the exit code."""
    prompt = _prompt(setup.options.prompt)
    return asyncio.run(_run(setup, prompt))


async def _run(setup: RunSetup, prompt: str) -> int:
    stopped: list[int] = []
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(_answer(setup, prompt, stopped))

    def stop(number: int, code: int) -> None:
        stopped.append(code)
        task.cancel()
        loop.remove_signal_handler(number)

    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        loop.add_signal_handler(number, stop, number, code)
    try:
        return await task
    except asyncio.CancelledError:
        return stopped[0] if stopped else 130


async def _answer(setup: RunSetup, prompt: str, stopped: list[int]) -> int:
    faces: list[OutputFormat] = []
    early: list[Event] = []  # what is told before the face stands

    def tell(event: Event) -> None:
        (faces[0].show if faces else early.append)(event)

    agent = Controller(setup, tell, DenyAll(), commands)
    code, error = 1, "the run was cut short"
    try:
        await agent.ready()
        faces.append(_face(setup, agent))
        for event in early:
            faces[0].show(event)
        ended = await agent.prompt(prompt)
        code, error = _code(agent, ended), ended.error
    except (AgentError, StoreError) as failure:
        code, error = getattr(failure, "code", UsageError.code), str(failure)
    except asyncio.CancelledError:
        code, error = 130, "interrupted"
    except Exception as failure:
        log.exception("a fault within")
        error = f"a fault within makeroom: {type(failure).__name__}: {failure}"
    finally:
        await agent.close()
    if not faces:
        faces.append(_face(setup, agent))
    told = faces[0].finish(stopped[0] if stopped else code, error)
    return stopped[0] if stopped else told or code


def _face(setup: RunSetup, agent: Controller) -> OutputFormat:
    tools = tuple(agent.context.tools) if agent.context else ()
    session = agent.session.sid if agent.session else ""
    model = agent.status().model
    setting = RunDescription(
        session, str(setup.folder), model, tools, setup.mode, lambda: agent.status().cost
    )
    return OUTPUT_FORMATS[setup.options.output_format](setting, StandardStreams())


def _code(agent: Controller, ended: TurnFinished) -> int:
    """The turn's exit code; 4 when a refused permission was the last thing before the answer."""
    session, context = agent.in_use
    if ended.code or not context.permissions.denied:
        return ended.code
    calls = [entry for entry in session.folded.entries if getattr(entry, "uses", None)]
    refused = {call["tool_use_id"] for call in context.permissions.denied}
    last = calls[-1].uses.values() if calls else ()  # type: ignore[union-attr]
    return 4 if any(use.id in refused for use in last) else 0


def _prompt(words: str) -> str:
    """The prompt of the command line, of standard input, or of both."""
    piped = _piped(bool(words))
    if not words and not piped.strip():
        raise UsageError("-p needs a prompt: makeroom -p 'what to do', or pipe it in")
    if not piped.strip():
        return words
    return f"{words}\n\n<stdin>\n{_within(piped)}\n</stdin>" if words else piped


def _within(piped: str) -> str:
    """What was piped in, unable to end the frame that tells it from the person's words."""
    return re.sub(r"<(?=\s*/\s*stdin)", "<\\\\", piped, flags=re.IGNORECASE)


def _piped(has_words: bool) -> str:
    try:
        number = sys.stdin.fileno()
        if os.isatty(number):
            return ""
        regular = stat.S_ISREG(os.fstat(number).st_mode)
        if has_words and not regular and not select.select([number], [], [], PATIENCE)[0]:
            return ""
        data = _read_all(number)
    except (OSError, ValueError, AttributeError):
        return ""  # standard input is closed
    return data.decode("utf-8", "replace")


def _read_all(number: int) -> bytes:
    pieces, size = [], 0
    while piece := os.read(number, 1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MOST:
            raise UsageError(
                f"standard input is over {MOST // 1048576} MB; put it in a file and name the file"
            )
    return b"".join(pieces)

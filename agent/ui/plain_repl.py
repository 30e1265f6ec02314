"""The REPL without a live part: line by line, for screen readers, dumb terminals and pipes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent import events
from agent.events import TurnFinished
from agent.ports import Allow, Deny, Driver, PermissionQuestion

from . import render
from .approval import body, choices, place
from .completion import is_command
from .context_chart import filled
from .escape import gentle, one_line
from .input_editor import LEAVING
from .labels import RenderContext, osc52
from .pipe_writer import PipeWriter
from .theme import Theme
from .tty import at_terminal

if TYPE_CHECKING:
    from agent.menus import Menu, MenuRow
    from agent.ports import Factory

PROMPT = "> "
NO = "No, and tell why; n REASON on one line tells it at once"
WIDE = 10_000  # lines are not broken: the terminal or the reader does that


class LineReader:
    """Standard input as lines, read by a thread so that Ctrl-C is heard while waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self) -> str | None:
        """The next line without its end; None at the end of input."""
        return await self._queue.get()

    def _read(self) -> None:
        """Reads the descriptor: a buffered stream would hold its lock when the interpreter ends."""
        rest = b""
        while piece := _some(sys.stdin.fileno()):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                self._put(line.decode("utf-8", "replace").rstrip("\r"))
        if rest:
            self._put(rest.decode("utf-8", "replace"))
        self._put(None)

    def _put(self, line: str | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
        except RuntimeError:  # the loop is closed: nobody reads any more
            return


def _some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the terminal is gone
        return b""


class PlainWriter:
    """Tells events as plain lines, and asks questions; implements ports.Approver and Chooser."""

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self._out = PipeWriter(sys.stdout)
        self._text = ""
        self.ended = False
        self.look = RenderContext(WIDE, Theme(False, False), keys=False)

    def emit(self, event: events.Event) -> None:
        """Print an event; text of the model at its line ends."""
        if isinstance(event, events.TextDelta):
            *whole, self._text = (self._text + event.text).split("\n")
            for line in whole:
                self._out.line(gentle(line))
            return
        if self._text:
            self._out.line(gentle(self._text))
            self._text = ""
        self.ended = self.ended or isinstance(event, TurnFinished)
        if isinstance(event, events.ClipboardCopy):
            event = self._copied(event)
        line = _line(event, self.look)
        if line:
            self._out.line(line)

    def _copied(self, event: events.ClipboardCopy) -> events.Notice:
        if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
            return events.Notice("there is no clipboard here", "warning")
        self.ask_for(osc52(event.text))
        return events.Notice(event.words)

    def ask_for(self, words: str) -> None:
        """Print a prompt, without an end of line."""
        sys.stdout.write(words)
        sys.stdout.flush()

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """Ask with numbered answers; the end of input refuses and stops."""
        self._out.line(f"Allow {one_line(question.tool)}?  {one_line(question.why)}")
        for row in (*place(question, self.look), *body(question, self.look)):
            self._out.line(row)
        found = choices(question)
        for choice in found:
            self._out.line(f"  {choice.letter}: {choice.words if choice.answer else NO}")
        while True:
            self.ask_for("Answer: ")
            line = await self._lines.next()
            if line is None:
                return Deny("", stop=True)
            key, _, reason = line.strip().partition(" ")
            for choice in found:
                if key.lower() in (choice.letter, choice.digit):
                    return choice.answer or await self._refusal(reason.strip())

    async def _refusal(self, reason: str) -> Deny:
        if reason:
            return Deny(reason)
        self.ask_for("Why? (Enter for no reason) ")
        line = await self._lines.next()
        return Deny("", stop=True) if line is None else Deny(line.strip())

    async def choose(self, menu: Menu) -> MenuRow | None:
        """Let the person choose by a number; an empty line or the end of input chooses nothing."""
        self._out.line(one_line(menu.title))
        for row in menu.lines():
            self._out.line(f"  {one_line(row)}")
        while True:
            self.ask_for("Which? (a number, or Enter to leave) ")
            line = await self._lines.next()
            if line is None or not line.strip():
                return None
            if (chosen := menu.keyed(line.strip())) is not None:
                return chosen


def _line(event: events.Event, look: RenderContext) -> str:
    match event:
        case events.ToolCallStarted(_, _, name, title):
            return f"{one_line(name)}: {one_line(title)}"
        case events.ToolCallFinished():
            return "\n".join(render.call(event, look).split("\n")[1:])
        case events.Notice():
            return render.notice(event, look)
        case events.ContextCompacted(notice):
            return gentle(notice)
        case events.Retrying(reason, seconds, attempt, tries):
            return f"{one_line(reason)}; trying again in {seconds:.0f} s ({attempt} of {tries})"
        case events.StreamAborted(reason):
            return f"The stream broke ({one_line(reason)}); what was shown is not part of the answer."
        case events.CommandOutput(text):
            return gentle(text)
        case events.PromptRestored(text):
            return f"The prompt was: {gentle(text)}"
        case events.ContextChart(title, rows):
            used, total = filled(event)
            shares = [f"  {gentle(label)}: {tokens:,}" for label, tokens in rows]
            fill = f"{used:,} of {total:,} tokens ({used / total:.0%})"
            return "\n".join([f"{gentle(title)}: {fill}", *shares])
        case events.TurnFinished(reason=reason, error=error):
            return "Interrupted" if reason == "interrupted" else gentle(error)
        case _:
            return ""


async def run_plain(make: Factory, prompt: str) -> int:
    """Talk line by line until the end of input; returns the exit code."""
    lines = LineReader()
    teller = PlainWriter(lines)
    driver = make(teller.emit, teller, teller if at_terminal() else None)
    current: list[asyncio.Task[None]] = []
    stopped: list[int] = []
    loop = asyncio.get_running_loop()
    whole = asyncio.ensure_future(_talk(driver, teller, lines, (prompt, current)))

    def interrupt() -> None:
        for task in current or [whole]:
            task.cancel()
        stopped[:] = [] if current else [130]

    def stop(code: int) -> None:
        stopped[:] = [code]
        whole.cancel()

    handled: dict[signal.Signals, Callable[[], None]] = {
        signal.SIGINT: interrupt,
        signal.SIGTERM: lambda: stop(143),
        signal.SIGHUP: lambda: stop(129),
    }
    for number, act in handled.items():
        loop.add_signal_handler(number, act)
    try:
        await asyncio.wait([whole])
        if not whole.cancelled():
            whole.result()
        return stopped[0] if stopped else 0
    finally:
        await driver.close()
        for number in handled:
            loop.remove_signal_handler(number)


async def _talk(
    driver: Driver, teller: PlainWriter, lines: LineReader, state: tuple[str, list[asyncio.Task[None]]]
) -> None:
    prompt, current = state
    await driver.ready()
    stays = [True]
    while stays[0]:
        line: str | None = prompt
        if not prompt:
            teller.ask_for(PROMPT)
            line = await lines.next()
        prompt = ""
        if line is None or line.strip() in LEAVING:
            return
        if line.strip():
            current[:] = [asyncio.ensure_future(_do(driver, teller, line, stays))]
            try:
                await asyncio.wait(current)
                if not current[0].cancelled():
                    current[0].result()
            finally:
                current[0].cancel()
                current.clear()


async def _do(driver: Driver, teller: PlainWriter, line: str, stays: list[bool]) -> None:
    teller.ended = False
    try:
        if is_command(line.strip()) or line.startswith("!"):
            stays[0] = await driver.command(line.strip())
            return
        ended = await driver.prompt(line)
        if not teller.ended:
            teller.emit(ended)
    except asyncio.CancelledError:
        if not teller.ended:
            teller.emit(TurnFinished("interrupted", 0))

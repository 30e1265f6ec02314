"""The REPL without a screen: line by line, for screen readers, dumb terminals and pipes."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedReader, RawIOBase
from typing import Any

from msgspec.structs import replace

from agent import events
from agent.menus import Menu, MenuRow
from agent.ports import Allow, Deny, Driver, Factory, PermissionQuestion
from agent.typed_text import is_command
from tools.user_questions import ANSWERS

from .approval import question_body, question_head, question_reason, question_target
from .approval_answers import approval_choices
from .context_chart import plain_chart
from .input_editor import EXIT_WORDS
from .key_actions import REPEAT_S
from .render import (
    COMMAND_INTERRUPTED,
    INTERRUPTED,
    aborted_message,
    clipboard_sequence,
    earlier_message,
    render_notice,
    render_result,
    retrying_message,
)
from .standard_streams import PipeWriter, stdin_lines
from .terminal import exit_on_signals, signal_handlers
from .terminal_text import RenderContext, Theme, at_terminal, escape_prose, one_line, title_line

LINE_PROMPT = "> "


class _InputUntilClosed(RawIOBase):
    """A descriptor that also ends when `closed_end`, the end of a pipe to read from, becomes readable."""

    def __init__(self, fd: int, closed_end: int) -> None:
        self._fd = fd
        self._closed_end = closed_end

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def readinto(self, buffer: Any) -> int:
        if self._closed_end in select.select([self._fd, self._closed_end], [], [])[0]:
            return 0
        got = os.read(self._fd, len(buffer))
        buffer[: len(got)] = got
        return len(got)


class LineReader:
    """Standard input as lines, read by a thread so that Ctrl-C works while waiting for a line."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._closed_end, self._closing_end = os.pipe()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading, so that a question after the session gets the next line."""
        os.close(self._closing_end)
        self._thread.join(1.0)
        if not self._thread.is_alive():
            os.close(self._closed_end)

    async def next(self) -> str | None:
        """Return the next line without its end; None at the end of input, and from then on."""
        line = await self._queue.get()
        if line is None:
            self._queue.put_nowait(None)
        return line

    def _read(self) -> None:
        """Read a separate stream: the lock of sys.stdin would still be held when the interpreter ends."""
        schedule = self._loop.call_soon_threadsafe
        put = self._queue.put_nowait
        with suppress(RuntimeError):  # the loop is closed: the session has ended
            raw = _InputUntilClosed(sys.stdin.fileno(), self._closed_end)
            with suppress(OSError), BufferedReader(raw) as stdin:
                for line in stdin_lines(stdin):  # until the end of input, or until the terminal is gone
                    schedule(put, line.rstrip("\r\n"))
            schedule(put, None)


class PlainView:
    """A printer of events as plain lines that also asks questions: a ports.Approver and Chooser."""

    def __init__(self, lines: LineReader, mask: Callable[[str], str] = str) -> None:
        self._lines = lines
        self._out = PipeWriter(sys.stdout, mask)
        self._unfinished: list[str] = []  # the pieces of the last line of the model's text
        self._begun: set[tuple[int, int]] = set()  # the calls whose heading is printed
        self._asked = ""  # the prompt that waits for a line, at the start of the last row
        # Lines are not wrapped: the terminal or the screen reader does that.
        self._context = RenderContext(10_000, Theme(colour=False, weight=False), has_keys=False)
        self.turn_ended = False

    def emit(self, event: events.Event) -> None:
        """Print an event; the model's text is printed line by line."""
        if isinstance(event, events.TextDelta):
            *finished, begun = event.text.split("\n")
            for line in finished:
                self._out.line(escape_prose("".join([*self._unfinished, line])))
                self._unfinished.clear()
            self._unfinished.append(begun)
            return
        if any(self._unfinished):
            self._out.line(escape_prose("".join(self._unfinished)))
        self._unfinished.clear()
        if isinstance(event, events.TurnFinished):
            self.turn_ended = True
        if isinstance(event, events.ClipboardCopy):
            event = self._copy(event)
        if isinstance(event, events.ToolCallStarted):
            self._begun.add((event.of, event.block))
        elif isinstance(event, events.ToolCallFinished):
            if (event.of, event.block) not in self._begun:  # of a resumed session
                self.emit(events.ToolCallStarted(event.of, event.block, event.name, event.title))
            self._begun.discard((event.of, event.block))
        text = plain_text(event, self._context)
        if text:
            self._end_row()
            self._out.line(text)

    def _end_row(self) -> None:
        """End the row of a prompt that got no line, which a terminal would have ended."""
        if self._asked and at_terminal():
            self._out.line("")
        self._asked = ""

    def ask_again(self, hint: str) -> None:
        """Print a hint, and the prompt that waits for a line once more."""
        asked = self._asked
        self._end_row()
        self._out.line(hint)
        self._ask_for_line(asked)

    def _ask_for_line(self, prompt: str) -> None:
        self._asked = prompt
        _write_now(prompt)

    async def answer_to(self, prompt: str) -> str | None:
        """Print a prompt without a newline and read a line; None at the end of input."""
        self._ask_for_line(prompt)
        line = await self._lines.next()
        if line is not None:
            self._asked = ""
        return line

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """Ask with lettered answers; the end of input denies and stops."""
        if question.preview.questions:
            return await self._ask_each(question)
        self._out.line(question_head(question))
        for row in (*question_target(question, self._context), *question_body(question, self._context)):
            self._out.line(row)
        if reason := question_reason(question):
            self._out.line(reason)
        choices = approval_choices(question)
        for choice in choices:
            self._out.line(f"  {choice.letter}: {choice.text}")
        self._out.line("Type a letter, optionally followed by words for makeroom.")
        while True:
            line = await self.answer_to("Answer: ")
            if line is None:
                return Deny("", stop=True)
            key, _, words = line.strip().partition(" ")
            for choice in choices:
                if key.lower() in (choice.letter, choice.digit):
                    if choice.answer is None:
                        return await self._denial(words.strip())
                    return replace(choice.answer, remark=words.strip())

    async def _ask_each(self, question: PermissionQuestion) -> Allow | Deny:
        """Ask the model's questions one by one; an empty line or the end of input declines."""
        answers = {}
        asker = f"[{one_line(question.asker)}] " if question.asker else ""
        for asked in question.preview.questions:
            self._out.line(asker + escape_prose(asked.question))
            labels = [one_line(option.label) for option in asked.options]
            for place, option in enumerate(asked.options):
                about = one_line(option.description)
                self._out.line(f"  {place + 1}: {labels[place]}{f' - {about}' if about else ''}")
            which = "one or more numbers" if asked.multiSelect else "a number"
            line = await self.answer_to(f"Answer ({which}, your own words, or Enter to decline): ")
            if line is None or not line.strip():
                return Deny()
            answers[asked.question] = chosen_labels(line, labels)
        return Allow(updated_input={**question.input, ANSWERS: answers})

    async def choose(self, menu: Menu) -> MenuRow | None:
        """Choose by a typed key; an empty line or the end of input chooses nothing."""
        self._out.line(one_line(menu.title))
        for row in menu.keyed_lines():
            self._out.line(f"  {one_line(row)}")
        while True:
            line = await self.answer_to("Number (Enter to cancel): ")
            if line is None or not line.strip():
                return None
            if (chosen := menu.row_for_key(line.strip())) is not None:
                return chosen
            self._out.line(f"'{one_line(line.strip())}' is not one of the numbers above")

    def _copy(self, event: events.ClipboardCopy) -> events.Notice:
        if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
            return events.Notice("cannot copy: the output is not a terminal with a clipboard", "warning")
        _write_now(clipboard_sequence(event.text))
        return events.Notice(event.words)

    async def _denial(self, reason: str) -> Deny:
        if reason:
            return Deny(reason)
        line = await self.answer_to("What should makeroom do instead? (optional) ")
        return Deny("", stop=True) if line is None else Deny(line.strip())


def chosen_labels(line: str, labels: Sequence[str]) -> str:
    """Return the labels whose numbers (from 1) a line consists of; else the line itself."""
    words = line.replace(",", " ").split()
    if words and all(word.isdecimal() and 1 <= int(word) <= len(labels) for word in words):
        return ", ".join(labels[int(word) - 1] for word in words)
    return line.strip()


def _write_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def plain_text(event: events.Event, ctx: RenderContext) -> str:  # noqa: PLR0911  one case for each kind
    """Return the text to print for an event; "" for most events."""
    match event:
        case events.ToolCallStarted(_, _, name, title):
            return f"{one_line(name)}: {title_line(title)}"
        case events.ToolCallFinished():
            return "\n".join(render_result(event, ctx))
        case events.Notice():
            return render_notice(event, ctx)
        case events.ContextCompacted(text) | events.CommandOutput(text):
            return escape_prose(text)
        case events.Retrying():
            return retrying_message(event)
        case events.StreamAborted():
            return aborted_message(event)
        case events.PromptRestored(text):
            return f"Prompt to edit: {escape_prose(text)}"
        case events.PromptReplayed(text):
            return f"{LINE_PROMPT}{escape_prose(text)}"
        case events.EarlierMessages():
            return earlier_message(event, "")
        case events.ContextChart():
            return plain_chart(event)
        case events.TurnFinished(reason=reason, error=error):
            return INTERRUPTED if reason == "interrupted" else escape_prose(error)
        case _:
            return ""


class PlainRepl:
    """One session that reads and runs one line after another."""

    def __init__(self, make_driver: Factory, mask: Callable[[str], str]) -> None:
        self._make_driver = make_driver
        self._driver: Driver
        self._lines = LineReader()
        self._view = PlainView(self._lines, mask)
        self._running: asyncio.Task[bool] | None = None
        self._prompted = False
        self._leaves_until = 0.0  # by a second Ctrl-C at the prompt

    async def run(self, prompt: str) -> int:
        """Run the prompt, if any, then lines until the end of input; return the exit code."""
        view = self._view
        self._driver = await self._make_driver(view.emit, view, view if at_terminal() else None)
        session = asyncio.ensure_future(self._run_lines(prompt))
        code = 0
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            nonlocal code
            if self._running:
                self._running.cancel()
            elif at_terminal() and loop.time() > self._leaves_until:
                self._leaves_until = loop.time() + REPEAT_S
                view.ask_again("Press Ctrl-C again to exit")
            else:
                code = 130
                session.cancel()

        def stop(exit_code: int) -> None:
            nonlocal code
            code = exit_code
            session.cancel()

        with exit_on_signals(stop), signal_handlers({signal.SIGINT: interrupt}):
            try:
                await asyncio.wait([session])
                if not session.cancelled():
                    session.result()
                return code
            finally:
                status = self._driver.status()
                await self._driver.close()
                self._lines.close()
                if self._prompted and at_terminal() and not status.unsaved:
                    resume = f"{status.start_command}--resume {status.session}"
                    view.emit(events.Notice(f"Resume this session with: {resume}"))

    async def _run_lines(self, prompt: str) -> None:
        await self._driver.ready()
        line: str | None = prompt or await self._view.answer_to(LINE_PROMPT)
        while line is not None and line.strip() not in EXIT_WORDS:
            if line.strip() and not await self._run_line(line):
                return
            line = await self._view.answer_to(LINE_PROMPT)

    async def _run_line(self, line: str) -> bool:
        """Run a line in a separate task, which can be interrupted. Return False if it ends the session."""
        self._leaves_until = 0.0
        task = self._running = asyncio.ensure_future(self._perform(line))
        try:
            await asyncio.wait([task])
            return task.cancelled() or task.result()
        finally:
            task.cancel()
            self._running = None

    async def _perform(self, line: str) -> bool:
        view = self._view
        view.turn_ended = False
        runs_command = is_command(line.strip()) or line.startswith("!")
        try:
            if runs_command:
                return await self._driver.command(line.strip())
            self._prompted = True
            ended = await self._driver.prompt(line)
            if not view.turn_ended:
                view.emit(ended)
        except asyncio.CancelledError:
            if runs_command and not view.turn_ended:
                view.emit(events.Notice(COMMAND_INTERRUPTED, "warning"))
            elif not view.turn_ended:
                view.emit(events.TurnFinished("interrupted", turns=0))
        return True

"""The REPL without a screen: line by line, for screen readers, dumb terminals and pipes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agent import events
from agent.formatting import is_command
from agent.menus import Menu, MenuRow
from agent.ports import Allow, Deny, Driver, Factory, PermissionQuestion
from tools.user_answer import ANSWERS

from .approval import approval_choices, question_body, question_head, question_target
from .context_chart import plain_chart
from .input_editor import EXIT_WORDS
from .render import (
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


class LineReader:
    """Standard input as lines, read by a thread so that Ctrl-C is heard while waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[str | None] = asyncio.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    async def next(self) -> str | None:
        """Return the next line without its end; None at the end of input."""
        return await self._queue.get()

    def _read(self) -> None:
        """Read a stream of its own: the lock of sys.stdin would still be held when the interpreter ends."""
        schedule = self._loop.call_soon_threadsafe
        put = self._queue.put_nowait
        with suppress(RuntimeError):  # the loop is closed: the session is over
            with suppress(OSError), open(sys.stdin.fileno(), "rb", closefd=False) as stdin:
                for line in stdin_lines(stdin):  # until the end, or until the terminal is gone
                    schedule(put, line.rstrip("\r\n"))
            schedule(put, None)


class PlainView:
    """A printer of events as plain lines that asks questions too: a ports.Approver and Chooser."""

    def __init__(self, lines: LineReader, mask: Callable[[str], str] = str) -> None:
        self._lines = lines
        self._out = PipeWriter(sys.stdout, mask)
        self._unfinished: list[str] = []  # the pieces of the last line of the model's text
        # Lines are not broken: the terminal or the screen reader does that.
        self._context = RenderContext(10_000, Theme(colour=False, weight=False), has_keys=False)
        self.turn_ended = False

    def emit(self, event: events.Event) -> None:
        """Print an event; text of the model at its line ends."""
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
        text = plain_text(event, self._context)
        if text:
            self._out.line(text)

    async def answer_to(self, prompt: str) -> str | None:
        """Print a prompt, without an end of line, and read a line; None at the end of input."""
        _write_now(prompt)
        return await self._lines.next()

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """Ask with lettered answers; the end of input refuses and stops."""
        if questions := question.preview.get("questions"):
            return await self._ask_each(question, questions)
        self._out.line(f"{question_head(question)}  {one_line(question.why)}")
        for row in (*question_target(question, self._context), *question_body(question, self._context)):
            self._out.line(row)
        choices = approval_choices(question)
        for choice in choices:
            reason_hint = "No, and tell why; n REASON on one line tells it at once"
            self._out.line(f"  {choice.letter}: {choice.text if choice.answer else reason_hint}")
        while True:
            line = await self.answer_to("Answer: ")
            if line is None:
                return Deny("", stop=True)
            key, _, reason = line.strip().partition(" ")
            for choice in choices:
                if key.lower() in (choice.letter, choice.digit):
                    return choice.answer or await self._refusal(reason.strip())

    async def _ask_each(
        self, question: PermissionQuestion, questions: Sequence[Mapping[str, Any]]
    ) -> Allow | Deny:
        """Ask the questions of the model one by one; an empty line or the end of input declines."""
        answers = {}
        asker = f"[{one_line(question.asker)}] " if question.asker else ""
        for asked in questions:
            self._out.line(asker + escape_prose(str(asked["question"])))
            labels = [one_line(str(option["label"])) for option in asked["options"]]
            for place, option in enumerate(asked["options"]):
                about = one_line(str(option.get("description") or ""))
                self._out.line(f"  {place + 1}: {labels[place]}{f' - {about}' if about else ''}")
            which = "numbers" if asked.get("multiSelect") else "a number"
            line = await self.answer_to(f"Answer: ({which}, your own words, or Enter to decline) ")
            if line is None or not line.strip():
                return Deny()
            answers[str(asked["question"])] = chosen_labels(line, labels)
        return Allow(updated_input={**question.input, ANSWERS: answers})

    async def choose(self, menu: Menu) -> MenuRow | None:
        """Choose by a typed key; an empty line or the end of input chooses nothing."""
        self._out.line(one_line(menu.title))
        for row in menu.keyed_lines():
            self._out.line(f"  {one_line(row)}")
        while True:
            line = await self.answer_to("Which? (a number, or Enter for none) ")
            if line is None or not line.strip():
                return None
            if (chosen := menu.row_for_key(line.strip())) is not None:
                return chosen
            self._out.line(f"'{one_line(line.strip())}' is none of the numbers above")

    def _copy(self, event: events.ClipboardCopy) -> events.Notice:
        if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
            return events.Notice("there is no clipboard here", "warning")
        _write_now(clipboard_sequence(event.text))
        return events.Notice(event.words)

    async def _refusal(self, reason: str) -> Deny:
        if reason:
            return Deny(reason)
        line = await self.answer_to("Why? (Enter for no reason) ")
        return Deny("", stop=True) if line is None else Deny(line.strip())


def chosen_labels(line: str, labels: Sequence[str]) -> str:
    """Return the labels whose numbers a line names, from 1; the line itself if it names anything else."""
    words = line.replace(",", " ").split()
    if words and all(word.isdecimal() and 1 <= int(word) <= len(labels) for word in words):
        return ", ".join(labels[int(word) - 1] for word in words)
    return line.strip()


def _write_now(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def plain_text(event: events.Event, ctx: RenderContext) -> str:  # noqa: PLR0911  one case for each kind
    """Return the text to print for an event; "" for most."""
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
            return f"The prompt was: {escape_prose(text)}"
        case events.PromptReplayed(text):
            return f"{LINE_PROMPT}{escape_prose(text)}"
        case events.EarlierMessages():
            return earlier_message(event, "")
        case events.ContextChart():
            return plain_chart(event)
        case events.TurnFinished(reason=reason, error=error):
            return "Interrupted" if reason == "interrupted" else escape_prose(error)
        case _:
            return ""


class PlainRepl:
    """One session: a line is read and run, then the next."""

    def __init__(self, make_driver: Factory, mask: Callable[[str], str]) -> None:
        self._make_driver = make_driver
        self._driver: Driver
        self._view = PlainView(LineReader(), mask)
        self._running: asyncio.Task[bool] | None = None
        self._prompted = False

    async def run(self, prompt: str) -> int:
        """Run the prompt, if any, and then lines until the end of input; returns the exit code."""
        view = self._view
        self._driver = await self._make_driver(view.emit, view, view if at_terminal() else None)
        session = asyncio.ensure_future(self._run_lines(prompt))
        code = 0

        def interrupt() -> None:
            nonlocal code
            code = 0 if self._running else 130
            (self._running or session).cancel()

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
                sid = self._driver.status().session
                await self._driver.close()
                if self._prompted and at_terminal() and not self._driver.status().unsaved:
                    view.emit(events.Notice(f"Go on with: makeroom --resume {sid}"))

    async def _run_lines(self, prompt: str) -> None:
        await self._driver.ready()
        line: str | None = prompt or await self._view.answer_to(LINE_PROMPT)
        while line is not None and line.strip() not in EXIT_WORDS:
            if line.strip() and not await self._run_line(line):
                return
            line = await self._view.answer_to(LINE_PROMPT)

    async def _run_line(self, line: str) -> bool:
        """Run a line in a task of its own, which can be interrupted. False when it ends the session."""
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
        try:
            if is_command(line.strip()) or line.startswith("!"):
                return await self._driver.command(line.strip())
            self._prompted = True
            ended = await self._driver.prompt(line)
            if not view.turn_ended:
                view.emit(ended)
        except asyncio.CancelledError:
            if not view.turn_ended:
                view.emit(events.TurnFinished("interrupted", turns=0))
        return True

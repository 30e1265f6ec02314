"""Print finished text once, above the input, and keep the rest in the live view.

Deltas are collected and processed ten times a second; any other event first flushes the deltas before it, so
that the screen shows everything in the order in which it happened.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from msgspec.structs import replace
from wcwidth import strip_sequences

from agent import events

from .file_links import with_file_links
from .live_view import REDRAW_INTERVAL_S, LiveView, draw_live_view, draw_unfinished
from .markdown_stream import MarkdownChunk, MarkdownStream
from .render import (
    COMMAND_INTERRUPTED,
    clipboard_sequence,
    is_look,
    render_call,
    render_event,
    render_looks,
    render_markdown,
    render_plainly,
    render_prompt,
    render_thought,
)
from .terminal import Terminal
from .terminal_text import RenderContext

MARKDOWN_BUDGET_S = 0.5  # of CPU time at once, after which text is only wrapped
_NOTICES = (events.Notice, events.ContextCompacted)  # without blank lines between them
_ENDS_TEXT = (events.ReplyFinished, events.StreamAborted, events.ToolCallStarted, events.TurnFinished)


class _TailDrawing:
    """The drawing of the unfinished text, cached until something changes."""

    def __init__(self) -> None:
        self._lines: list[str] | None = None
        self._size = (0, 0)  # of the screen then

    def forget(self) -> None:
        self._lines = None

    def lines(
        self, stream: MarkdownStream, ctx: RenderContext, *, room: int, size: tuple[int, int]
    ) -> list[str]:
        """Return the drawing in at most `room` rows; `size` is the current size of the screen."""
        if self._lines is None or len(self._lines) > room or self._size != size:
            fence = stream.fence.string if stream.fence else ""
            self._lines = draw_unfinished(stream.unfinished, ctx, fence=fence, rows=room)
            self._size = size
        return self._lines


class TranscriptView:
    """The screen above the input: takes events, prints finished text, and shows work in progress.

    `on_change` is called when the live part changes, `on_prompt_restored` with the prompt that the
    conversation was rewound to.
    """

    def __init__(
        self, terminal: Terminal, on_change: Callable[[], None], on_prompt_restored: Callable[[str], None]
    ) -> None:
        self.live_view = LiveView()
        self._terminal = terminal
        self._on_change = on_change
        self._on_prompt_restored = on_prompt_restored
        self._stream = MarkdownStream()
        self._deltas: list[events.TextDelta | events.ThinkingDelta] = []
        self._looks: list[events.ToolCallFinished] = []  # consecutive ones, to be shown on one line
        self._results = deque[events.ToolCallFinished | events.EarlierMessages](maxlen=40)
        self._ticking: asyncio.Task[None] | None = None
        self.turn_ended = False  # whether there was a TurnFinished since `begin`
        self._echoed: str | None = ""  # a TurnStarted with another text, from a command, is echoed
        self._unprinted = ""  # the echo of a command that has no output yet
        self._after_notice = False
        self._tail = _TailDrawing()

    def begin(self, text: str, echo_turns: bool) -> None:
        """Begin a prompt, or a command with `echo_turns`, in the running event loop; `text` is its echo.

        The echo of a command is printed with its first output: a cancelled dialog leaves nothing behind.
        """
        self.live_view.start(time.monotonic())
        self.turn_ended = False
        self._echoed = text if echo_turns else None
        if echo_turns:
            self._print_looks()
            self._unprinted = text
        else:
            self.print_prompt(text)
        self._ticking = asyncio.ensure_future(self._tick())

    def finish(self) -> None:
        """End the current work, whatever its outcome."""
        if self._ticking is not None:
            self._ticking.cancel()
        self.flush_deltas()
        self._print_looks()
        self._unprinted = ""
        self.live_view.stop()
        self._stream.end()
        self._tail.forget()
        self._terminal.invalidate()

    def notice(self, text: str, level: events.Level = "info") -> None:
        """Print a notice of our own."""
        self.emit(events.Notice(text, level))

    def print_markdown(self, text: str) -> None:
        """Print a whole text in markdown."""
        self.emit(events.CommandOutput(text, "markdown"))

    def end_interrupted(self, is_command: bool) -> None:
        """Show that the turn or the command was interrupted, unless the turn had ended."""
        if is_command and not self.turn_ended:
            self.notice(COMMAND_INTERRUPTED, "warning")
        elif not self.turn_ended:
            self.emit(events.TurnFinished("interrupted", turns=0, error="interrupted", code=130))

    def emit(self, event: events.Event) -> None:
        """Take an event; quick. See agent/events.py for the order of events."""
        if isinstance(event, events.TextDelta | events.ThinkingDelta):
            self._deltas.append(event)
            return
        self.flush_deltas()
        self._show(event)
        self._on_change()

    def flush_deltas(self) -> None:
        """Process the deltas since the last call."""
        deltas = self._deltas
        self._deltas = []
        for kind, pieces in groupby(deltas, type):
            event = kind("".join(piece.text for piece in pieces))
            self._tail.forget()
            if isinstance(event, events.TextDelta):
                self._end_thought()
                self._print_chunks(self._stream.feed(event.text))
            self.live_view.take(event, time.monotonic())

    def print_prompt(self, text: str) -> None:
        """Print the echo of a prompt."""
        self._print(render_prompt(text, self._terminal.render_context()))

    def print_in_full(self) -> int:
        """Print shortened and omitted outputs in full, each once; return their number."""
        texts = [*_more_in_full(self._results, self._terminal.render_context())]
        self._results.clear()
        if texts:
            self._print(self._terminal.render_context().paint("dim", "In full:"))
        for text in texts:
            self._print(text)
        return len(texts)

    def live_lines(self, rows: int) -> list[str]:
        """Draw the live part in at most `rows` lines (at least 1): the unfinished text and running work."""
        ctx = self._terminal.render_context()
        foot = draw_live_view(self.live_view, ctx, rows=rows, now=time.monotonic())
        if self._looks:
            foot = [render_looks(self._looks, ctx), *([""] if foot else []), *foot][-rows:]
        if self._unprinted:
            foot = [*render_prompt(self._unprinted, ctx).split("\n"), *([""] if foot else []), *foot][-rows:]
        size = self._terminal.size()
        tail = self._tail.lines(self._stream, ctx, room=rows - len(foot) - 1, size=size)
        return [*tail, *([""] if tail and foot else []), *foot]

    def _show(self, event: events.Event) -> None:
        if isinstance(event, _ENDS_TEXT):
            self._end_thought()
            self._print_chunks(self._stream.end())
        self._tail.forget()
        self.live_view.take(event, time.monotonic())
        match event:
            case events.ToolCallFinished() if not self._terminal.render_context().full:
                self._results.append(event)
                if is_look(event):
                    self._looks.append(event)
                    return
            case events.ClipboardCopy(text):
                self._terminal.send(clipboard_sequence(text))
            case events.EarlierMessages():
                self._results.append(event)
            case events.PromptRestored(text):
                self._on_prompt_restored(text)
            case events.TurnFinished():
                self.turn_ended = True
            case events.TurnStarted(text):
                self._results.clear()
                if self._echoed not in (None, text):
                    self.print_prompt(text)
        text = render_event(event, self._terminal.render_context())
        self._print(text, is_notice=isinstance(event, _NOTICES))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(REDRAW_INTERVAL_S)
            self.flush_deltas()
            self._terminal.invalidate()

    def _end_thought(self) -> None:
        live_view = self.live_view
        if live_view.thinking_since is not None:
            seconds = time.monotonic() - live_view.thinking_since
            text = live_view.thought
            live_view.thinking_since = None
            live_view.thought = ""
            if self._looks:
                return  # it would only separate calls that are shown on one line
            self._print(render_thought(text, self._terminal.render_context(), seconds=seconds))

    def _print_chunks(self, chunks: list[MarkdownChunk]) -> None:
        for text, joined in draw_chunks(chunks, self._terminal.render_context()):
            self._print(text, joined=joined)

    def _print_looks(self) -> None:
        """Print the read-only calls that were held back."""
        looks = self._looks
        self._looks = []
        if looks:
            self._print(render_looks(looks, self._terminal.render_context()))

    def _print(self, text: str, *, is_notice: bool = False, joined: bool = False) -> None:
        """Print finished lines after a blank line, without one between consecutive notices."""
        if not strip_sequences(text).strip():
            return
        if self._unprinted:
            echo = self._unprinted
            self._unprinted = ""
            self.print_prompt(echo)
        self._print_looks()
        gap = "" if joined or (is_notice and self._after_notice) else "\n"
        self._after_notice = is_notice
        self._terminal.print_above(gap + text)


def _more_in_full(
    results: Iterable[events.ToolCallFinished | events.EarlierMessages], ctx: RenderContext
) -> Iterator[str]:
    """Yield omitted messages, and each result in full if that is more than was shown."""
    short = replace(ctx, full=False)
    full = replace(ctx, full=True)
    for event in results:
        if isinstance(event, events.EarlierMessages):
            yield from (render_event(each, full) for each in event.events)
            continue
        in_full = render_call(event, full)
        if is_look(event) or strip_sequences(in_full) != strip_sequences(render_call(event, short)):
            yield in_full


def draw_chunks(chunks: list[MarkdownChunk], ctx: RenderContext) -> Iterator[tuple[str, bool]]:
    """Yield (drawing, joined without a gap) of each chunk; markdown only within MARKDOWN_BUDGET_S."""
    until = time.thread_time() + MARKDOWN_BUDGET_S
    for chunk in chunks:
        draw = render_markdown if time.thread_time() < until else render_plainly
        yield with_file_links(draw(chunk.text, ctx), ctx.folder), chunk.joined

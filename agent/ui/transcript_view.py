"""Takes the events of the agent: prints what is finished above, once, and keeps the rest live.

Deltas are gathered and looked at ten times a second; any other event first settles what came before it,
so that the order on the screen is the order in which things happened. What draws (events, rich) is imported
where it is used: it is loaded after the first paint.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from . import live_view as living
from .labels import RenderContext, osc52, user
from .markdown_stream import MarkdownChunk

if TYPE_CHECKING:
    from agent.events import Event, ToolCallFinished

RESULTS = 20  # of a turn that are kept to be shown whole
_SGR = re.compile(r"\x1b\[[0-9;]*m")


class TranscriptView:
    """The screen but for the input. `above` prints finished lines, `look` tells how to draw now.

    `raw` sends codes that draw nothing.
    """

    def __init__(
        self,
        above: Callable[[str], None],
        look: Callable[[], RenderContext],
        changed: Callable[[], None],
        raw: Callable[[str], None] = lambda codes: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.live = living.LiveView()
        self.echo_next = True  # a turn that a command began is echoed by its TurnBegan
        self.ended = False  # whether the turn's end was told
        self._above = above
        self._look = look
        self._changed = changed
        self._raw = raw
        self.now = monotonic
        self._deltas: list[Event] = []
        self._results: deque[ToolCallFinished] = deque(maxlen=RESULTS)  # of the turn, not yet printed whole
        self._close = False  # whether the next notice follows a notice
        self._dirty = True
        self._tail: list[str] = []

    def emit(self, event: Event) -> None:
        """What the driver tells; quick. See agent/events.py for the order."""
        from agent.events import TextDelta, ThinkingDelta

        if isinstance(event, TextDelta | ThinkingDelta):
            self._deltas.append(event)
            return
        self.settle()
        self._show(event)
        self._changed()

    def settle(self) -> None:
        """Look at the deltas that came since the last time."""
        if not self._deltas:
            return
        from agent.events import TextDelta

        deltas, self._deltas = self._deltas, []
        self._dirty = True
        for event in deltas:
            if isinstance(event, TextDelta):
                self._end_thought()
            self._print_chunks(self.live.take(event, self.now()))

    def echo(self, text: str) -> None:
        """Print the person's words."""
        self._print(user(text, self._look()))

    def print_whole(self) -> int:
        """Print the turn's results whole that were shown cut, each once; returns how many there were."""
        from .render import call

        look = replace(self._look(), full=False)
        events, printed = list(self._results), 0
        self._results.clear()
        for event in events:
            in_full = call(event, replace(look, full=True))
            if _SGR.sub("", in_full) != _SGR.sub("", call(event, look)):
                self._print(in_full)
                printed += 1
        return printed

    def lines(self, rows: int) -> list[str]:
        """The live part, in at most `rows` lines."""
        look = self._look()
        foot = living.lines(self.live, look, rows, self.now())
        room = rows - len(foot) - 1
        if self._dirty or len(self._tail) > room:
            self._tail = self._draw_tail(room, look)
            self._dirty = False
        gap = [""] if self._tail and foot else []
        return [*self._tail, *gap, *foot]

    def stale(self) -> None:
        """The screen changed its size: draw the tail anew."""
        self._dirty = True

    def _draw_tail(self, room: int, look: RenderContext) -> list[str]:
        if room <= 0 or not self.live.flow.tail.strip():
            return []
        from .markdown import markdown

        text = living.text_tail(self.live, room, look.columns)
        return markdown(text, look.columns, look.theme).split("\n")[-room:]

    def _show(self, event: Event) -> None:
        from agent import events

        from .render import event_text

        ends_text = events.ReplyFinished | events.StreamAborted | events.ToolCallStarted | events.TurnFinished
        if isinstance(event, ends_text):
            self._end_thought()
            self._print_chunks(self.live.flow.end())
        self._dirty = True
        self.live.take(event, self.now())
        if isinstance(event, events.ToolCallFinished):
            if not self._look().full:
                self._results.append(event)
        elif isinstance(event, events.ClipboardCopy):
            self._raw(osc52(event.text))
        elif isinstance(event, events.TurnFinished):
            self.ended = True
        elif isinstance(event, events.TurnStarted):
            self._results.clear()
            if self.echo_next:
                self.echo(event.text)
        self._print(
            event_text(event, self._look()), close=isinstance(event, events.Notice | events.ContextCompacted)
        )

    def _end_thought(self) -> None:
        from .render import thought

        live = self.live
        if live.thinking_since is not None:
            spent, text = self.now() - live.thinking_since, live.thought
            live.thinking_since, live.thought = None, ""
            self._print(thought(text, spent, self._look()))

    def _print_chunks(self, chunks: list[MarkdownChunk]) -> None:
        for chunk in chunks:
            from .markdown import markdown

            look = self._look()
            drawn = markdown(chunk.text, look.columns, look.theme)
            self._print(drawn, joined=chunk.joined)

    def _print(self, text: str, close: bool = False, joined: bool = False) -> None:
        if not _SGR.sub("", text).strip():
            return
        gap = "" if joined or (close and self._close) else "\n"
        self._close = close
        self._above(gap + text)

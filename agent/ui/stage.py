"""Takes the events of the agent: prints what is finished above, once, and keeps the rest live.

Deltas are gathered and looked at ten times a second; any other event first settles what came before it,
so that the order on the screen is the order in which things happened.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from agent import events

from . import live as living
from . import render
from .flow import Chunk
from .render import Look

_SGR = re.compile(r"\x1b\[[0-9;]*m")


class Stage:
    """The screen but for the input. `above` prints finished lines, `look` tells how to draw now."""

    def __init__(
        self,
        above: Callable[[str], None],
        look: Callable[[], Look],
        changed: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.live = living.Live()
        self.echo_next = True  # a turn that a command began is echoed by its TurnBegan
        self.ended = False  # whether the turn's end was told
        self._above = above
        self._look = look
        self._changed = changed
        self.now = monotonic
        self._deltas: list[events.Event] = []
        self._last: events.CallEnded | None = None
        self._close = False  # whether the next notice follows a notice
        self._dirty = True
        self._tail: list[str] = []

    def emit(self, event: events.Event) -> None:
        """What the driver tells; quick. See agent/events.py for the order."""
        if isinstance(event, events.TextDelta | events.ThinkingDelta):
            self._deltas.append(event)
            return
        self.settle()
        self._show(event)
        self._changed()

    def settle(self) -> None:
        """Look at the deltas that came since the last time."""
        deltas, self._deltas = self._deltas, []
        for event in deltas:
            if isinstance(event, events.TextDelta):
                self._end_thought()
            self._print_chunks(self.live.take(event, self.now()))
        self._dirty = self._dirty or bool(deltas)

    def echo(self, text: str) -> None:
        """Print the person's words."""
        self._print(render.user(text, self._look()))

    def print_last(self) -> None:
        """Print the newest result whole."""
        if self._last is not None:
            look = self._look()
            self._print(render.call(self._last, Look(look.columns, look.theme, full=True)))

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

    def _draw_tail(self, room: int, look: Look) -> list[str]:
        if room <= 0 or not self.live.flow.tail.strip():
            return []
        from .markdown import markdown

        text = living.text_tail(self.live, room, look.columns)
        return markdown(text, look.columns, look.theme).split("\n")[-room:]

    def _show(self, event: events.Event) -> None:
        ends_text = events.ReplyEnded | events.ReplyLost | events.CallBegan | events.TurnEnded
        if isinstance(event, ends_text):
            self._end_thought()
            self._print_chunks(self.live.flow.end())
        self._dirty = True
        self._print_chunks(self.live.take(event, self.now()))
        look = self._look()
        match event:
            case events.TurnBegan(text) if self.echo_next:
                self.echo(text)
            case events.ReplyLost(reason):
                lost = f"The stream broke ({reason}); what was shown is not part of the answer."
                self._print(render.notice(events.Notice(lost, "warning"), look))
            case events.CallEnded():
                self._last = event
                self._print(render.call(event, look))
            case events.Notice():
                self._print(render.notice(event, look), close=True)
            case events.MadeRoom():
                self._print(render.made_room(event, look), close=True)
            case events.Said():
                self._said(event, look)
            case events.Charted():
                from .chart import chart

                self._print(chart(event, look))
            case events.TurnEnded():
                self._turn_ended(event, look)
            case _:
                pass

    def _said(self, event: events.Said, look: Look) -> None:
        if event.form == "markdown":
            from .markdown import markdown

            self._print(markdown(event.text, look.columns, look.theme))
        elif event.form == "diff":
            self._print("\n".join(render.diff(event.text, look)))
        else:
            self._print(render.said(event.text, look))

    def _turn_ended(self, event: events.TurnEnded, look: Look) -> None:
        self.ended = True
        if event.reason == "interrupted":
            self._print(look.theme.paint("warning", "Interrupted"))
        elif event.error:
            level: events.Level = "warning" if event.reason in ("max_turns", "denied") else "error"
            self._print(render.notice(events.Notice(event.error, level), look))

    def _end_thought(self) -> None:
        live, look = self.live, self._look()
        if live.thinking_since is None:
            return
        spent, thought = self.now() - live.thinking_since, live.thought
        live.thinking_since, live.thought = None, ""
        if look.full and thought.strip():
            rows = render.said(thought.strip(), look).split("\n")
            self._print("\n".join(look.theme.paint("thinking", row) for row in rows))
        else:
            self._print(look.theme.paint("dim", f"Thought for {render.duration(spent)}"[: look.columns]))

    def _print_chunks(self, chunks: list[Chunk]) -> None:
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

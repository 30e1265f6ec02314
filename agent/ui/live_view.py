"""What is still going on: the state that events leave behind, and its drawing above the input.

Bounded whatever happens: the tail of the streamed text, the last lines of each running call. What is
finished goes through `take` to whoever prints it and is forgotten here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.formatting import count, duration

from .escape import one_line, output
from .labels import BRANCH, RenderContext, title
from .markdown_stream import MarkdownChunk, MarkdownStream
from .text_cells import clip, fit, tail, width, wrap

if TYPE_CHECKING:
    from agent.events import Event

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
TICK = 0.1  # seconds between two drawings of what runs
PROGRESS_LINES = 4
MOST_PROGRESS = 20_000  # characters kept of a running call's output
MOST_THOUGHT = 200_000


@dataclass(slots=True)
class RunningCall:
    """A call that has begun and not ended."""

    name: str
    title: str
    began: float
    text: str = ""


@dataclass(slots=True)
class LiveView:
    """The running turn, as far as it is not finished. `began` is None when nothing runs."""

    flow: MarkdownStream = field(default_factory=MarkdownStream)
    calls: dict[tuple[int, int], RunningCall] = field(default_factory=dict)
    began: float | None = None
    label: str = ""
    thought: str = ""
    thinking_since: float | None = None
    again_at: float | None = None  # when the next try comes
    written: int = 0  # characters of the answer so far, for the feeling of progress
    answered: bool = False  # whether anything of an answer came since the turn began
    interrupting: bool = False
    asked_at: float | None = None  # since when a question is on the screen
    queued: list[str] = field(default_factory=list)

    def start(self, now: float, label: str = "Working") -> None:
        """A turn or a command begins."""
        self.began, self.label = now, label
        self.answered = self.interrupting = False
        self.written = 0

    def wait_for_person(self, asking: bool, now: float) -> None:
        """A question came or went: the time that the person takes is no working time."""
        if asking and self.asked_at is None:
            self.asked_at = now
        elif not asking and self.asked_at is not None:
            taken, self.asked_at = now - self.asked_at, None
            for call in self.calls.values():
                call.began += taken
            if self.began is not None:
                self.began += taken

    def stop(self) -> None:
        """Whatever ran is over."""
        self.began = self.again_at = self.thinking_since = None
        self.calls.clear()
        self.thought = ""
        self.interrupting = False

    def take(self, event: Event, now: float) -> list[MarkdownChunk]:
        """Note an event; returns the pieces of text that are finished by it."""
        from agent import events  # not before the first paint

        match event:
            case events.TextDelta(text):
                return self._text(text)
            case events.ThinkingDelta(text):
                self._think(text, now)
            case events.RequestStarted(trigger):
                self.label = "Making room" if trigger == "summary" else "Working"
                self.again_at = None
            case events.ToolCallDelta(name, size):
                self.label, self.answered = f"Writing {one_line(name)} ({count(size)})", True
            case events.Retrying(reason, seconds, attempt, tries):
                self.label = f"{one_line(reason)}; try {attempt + 1} of {tries}"
                self.again_at = now + seconds
            case events.ToolCallStarted(of, block, name, words):
                self.calls[of, block] = RunningCall(name, words, now)
                self.label, self.answered = "Working", True
            case events.ToolCallProgress(of, block, text):
                if (of, block) in self.calls:
                    call = self.calls[of, block]
                    call.text = (call.text + text)[-MOST_PROGRESS:]
            case events.ToolCallFinished(of, block):
                self.calls.pop((of, block), None)
            case _:
                pass
        return []

    def _text(self, text: str) -> list[MarkdownChunk]:
        self.answered = True
        self.written += len(text)
        self.label = "Answering"
        return self.flow.feed(text)

    def _think(self, text: str, now: float) -> None:
        if self.thinking_since is None:
            self.thinking_since = now
        self.label = "Thinking"
        self.thought = (self.thought + text)[-MOST_THOUGHT:]


def lines(live: LiveView, look: RenderContext, rows: int, now: float) -> list[str]:
    """The live part above the input in at most `rows` lines, without the tail of the text."""
    foot = [*_spinner(live, look, now), *_queue(live, look)]
    middle: list[str] = []
    for call in live.calls.values():
        middle += _call(call, look, now if live.asked_at is None else live.asked_at)
    if live.thinking_since is not None and live.thought:
        middle += [look.theme.paint("thinking", row) for row in tail(output(live.thought), look.columns, 3)]
    if foot and middle:
        middle.append("")
    return [fit(row, look.columns) for row in [*middle, *foot][-rows:]] if rows > 0 else []


def text_tail(live: LiveView, rows: int, columns: int) -> str:
    """The end of the unfinished markdown, as much as may fill `rows`; a cut fence is opened again."""
    text = live.flow.tail
    kept = text[-(rows * columns * 2) :] if len(text) > rows * columns * 2 else text
    kept_lines = kept.split("\n")
    cut = len(kept) < len(text)
    if len(kept_lines) > rows:
        kept_lines, cut = kept_lines[-rows:], True
    if cut and live.flow.fence and kept_lines[0] != live.flow.fence:
        kept_lines.insert(0, live.flow.fence.lstrip())
    return "\n".join(kept_lines)


def seconds(spent: float) -> str:
    """A running time in whole seconds."""
    return f"{int(spent)} s" if spent < 60 else duration(spent)


def _call(call: RunningCall, look: RenderContext, now: float) -> list[str]:
    spent = now - call.began
    head = title(call.name, call.title, look, "accent")
    shown = [line for line in output(call.text).rstrip("\n").split("\n")[-PROGRESS_LINES:] if line.strip()]
    room = max(look.columns - len(BRANCH), 1)
    rows = [look.theme.paint("dim", clip(line, room)) for line in shown]
    if spent >= 1:
        rows.append(look.theme.paint("dim", clip(f"running, {seconds(spent)}", room)))
    marks = [look.theme.paint("dim", BRANCH), *(" " * len(BRANCH) for _ in rows[1:])]
    return [head, *(mark + row for mark, row in zip(marks, rows, strict=False))]


def _spinner(live: LiveView, look: RenderContext, now: float) -> list[str]:
    if live.began is None:
        return []
    spent = now - live.began
    if live.interrupting:
        return [look.theme.paint("warning", clip("Interrupting…", look.columns))]
    if live.asked_at is not None:
        return [look.theme.paint("warning", clip("Waiting for your answer", look.columns))]
    frame = FRAMES[int(now / TICK) % len(FRAMES)]
    label = live.label
    if live.again_at is not None:
        label += f" in {max(live.again_at - now, 0):.0f} s"
    rest = f"… {seconds(spent)} · Ctrl-C to interrupt"
    role = "warning" if live.again_at is not None else "accent"
    shown = clip(label, max(look.columns - len(rest) - 2, look.columns // 2))
    used = 2 + width(shown)
    return [
        look.theme.paint(role, f"{frame} {shown}") + look.theme.paint("dim", clip(rest, look.columns - used))
    ]


def _queue(live: LiveView, look: RenderContext) -> list[str]:
    if not live.queued:
        return []
    rows = [look.theme.paint("dim", clip(f"❯ {one_line(text)}", look.columns)) for text in live.queued[-4:]]
    more = len(live.queued) - len(rows)
    hint = f"{more} more queued; ↑ edits" if more else "queued; ↑ edits"
    return [*rows, *(look.theme.paint("dim", f"  {row}") for row in wrap(hint, look.columns - 2)[:1])]

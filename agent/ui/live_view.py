"""The state of work in progress, collected from events, and its drawing above the input.

Its size is bounded: only the end of the thinking and of each running call's output is kept. Finished work is
printed by transcript_view and forgotten here.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from agent import events
from agent.formatting import format_count, format_duration, todo_mark
from tools.text import as_drawn
from transcripts import tool_kind
from transcripts.wording import pluralize

from .markdown_stream import table_head, with_table_rule
from .render import BRANCH, MIN_SHOWN_SECONDS, below_title, call_rows, render_markdown
from .terminal_text import (
    RenderContext,
    cell_width,
    clip,
    clip_painted,
    escape_output,
    one_line,
    prose_line,
    wrap,
)

SPINNER_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
REDRAW_INTERVAL_S = 0.1  # between two drawings of the running work
THOUGHT_LINES = 3
_TODO_ROLES = {"completed": "dim", "in_progress": "accent"}
MAX_PROGRESS_CHARS = 20_000  # kept of a running call's output


class RunningCall(Struct):
    """A tool call that has begun and not ended."""

    name: str
    title: str
    started_at: float
    output: str = ""


class LiveView(Struct):
    """The unfinished part of the running turn. Times are seconds of a monotonic clock."""

    calls: dict[tuple[int, int], RunningCall] = field(default_factory=dict)
    agents: dict[str, events.AgentStatus] = field(default_factory=dict)  # running ones, by label
    started_at: float | None = None  # None when nothing runs
    label: str = ""
    thought: str = ""
    thinking_since: float | None = None
    retry_at: float | None = None
    gives_up_at: float | None = None  # if the retries end at a time
    tries: str = ""  # of the retry
    question_since: float | None = None
    answered: bool = False  # whether any part of an answer arrived since the turn began
    interrupting: bool = False
    queued: list[str] = field(default_factory=list)

    def start(self, now: float) -> None:
        """Begin a turn or a command."""
        self.started_at = now
        self.label = "Working"
        self.answered = self.interrupting = False

    def pause_clocks(self, asking: bool, now: float) -> None:
        """Note whether a question is on the screen: waiting for the answer is not working time."""
        if asking and self.question_since is None:
            self.question_since = now
        elif not asking and self.question_since is not None:
            taken = now - self.question_since
            self.question_since = None
            for call in self.calls.values():
                call.started_at += taken
            if self.started_at is not None:
                self.started_at += taken

    @property
    def runs_command(self) -> bool:
        """Return whether a command runs that can be moved to the background."""
        return any(tool_kind(call.name) == "runs" for call in self.calls.values())

    def stop(self) -> None:
        """Forget the work in progress."""
        self.started_at = self.retry_at = self.thinking_since = None
        self.calls.clear()
        self.thought = ""
        self.interrupting = False

    def take(self, event: events.Event, now: float) -> None:  # noqa: C901  one case for each kind
        """Update the state from an event."""
        match event:
            case events.TextDelta():
                self.label = "Answering"
                self.answered = True
            case events.ThinkingDelta(text):
                self.label = "Thinking"
                self.thought = (self.thought + text)[-200_000:]
                if self.thinking_since is None:
                    self.thinking_since = now
            case events.RequestStarted(trigger):
                self.label = "Freeing context" if trigger == "summary" else "Working"
                self.retry_at = None
            case events.ToolCallDelta(name, size):
                self.label = f"Writing {one_line(name)} ({format_count(size)})"
                self.answered = True
            case events.Retrying():
                self.label = one_line(event.reason)
                self.tries = f"{event.attempt} of {event.tries}"
                self.retry_at = now + event.seconds
                self.gives_up_at = None if event.left_s is None else now + event.left_s
            case events.ToolCallStarted(of, block, name, title):
                self.calls[of, block] = RunningCall(name, title, started_at=now)
                self.label = "Working"
                self.answered = True
            case events.ToolCallProgress(of, block, text):
                if (of, block) in self.calls:
                    call = self.calls[of, block]
                    call.output = (call.output + text)[-MAX_PROGRESS_CHARS:]
            case events.ToolCallFinished(of, block):
                self.calls.pop((of, block), None)
            case events.AgentProgress(agent) if agent.ended:
                self.agents.pop(agent.label, None)
            case events.AgentProgress(agent):
                self.agents[agent.label] = agent


def draw_live_view(live_view: LiveView, ctx: RenderContext, *, rows: int, now: float) -> list[str]:
    """Draw the running calls, the thinking, the spinner and the queue, in at most `rows` lines."""
    then = live_view.question_since or now
    with_agents = {agent.place for agent in live_view.agents.values()}
    calls = [call for place, call in live_view.calls.items() if place not in with_agents]
    timed = any(now - call.started_at >= 1 for call in calls)
    foot = [*_spinner(live_view, ctx, now, timed=timed), *_queue(live_view, ctx)]
    middle = [row for call in calls for row in _running_call(call, ctx, then)]
    middle += [_agent_line(agent, ctx) for agent in live_view.agents.values()]
    if live_view.thinking_since is not None and live_view.thought:
        end = escape_output(live_view.thought[-(ctx.columns * THOUGHT_LINES * 2 + 200) :])
        middle += ctx.wrapped("thinking", end.rstrip())[-THOUGHT_LINES:]
    if foot and middle:
        middle.append("")
    return [clip_painted(row, ctx.columns) for row in [*middle, *foot][-rows:]] if rows > 0 else []


def _running_call(call: RunningCall, ctx: RenderContext, now: float) -> list[str]:
    spent = now - call.started_at
    shown = escape_output(as_drawn(call.output)).rstrip("\n").split("\n")[-4:]
    lines = [line for line in shown if line.strip()]
    if spent >= 1:
        movable = ctx.has_keys and tool_kind(call.name) == "runs" and spent >= MIN_SHOWN_SECONDS
        key = ctx.keys["background"] if movable else ""
        lines.append(
            f"running, {_whole_seconds(spent)}" + (f" · {key} to run in the background" if key else "")
        )
    room = max(ctx.columns - len(BRANCH), 1)
    rows = [ctx.paint("dim", clip(line, room)) for line in lines]
    title = call_rows(call.name, call.title, ctx, role="accent", most=8)
    return [*title, *below_title(rows, ctx)]


def _agent_line(agent: events.AgentStatus, ctx: RenderContext) -> str:
    """Draw one line: `● explore #1  find the parser: read parser.py · 12 requests · 34k tokens · $0.02`.

    A narrow screen drops figures, last ones first, before it cuts the text below half of the row.
    """
    figures = [pluralize(agent.requests, "request"), f"{format_count(agent.tokens)} tokens"]
    figures += [f"${agent.dollars:.2f}"] if agent.dollars >= 0.005 else []
    ends = [f" · {' · '.join(figures[:count])}" for count in range(len(figures), 0, -1)]
    body = one_line(f"{agent.task}: {agent.doing}")
    room = max(ctx.columns - cell_width(agent.label) - 4, 8)
    wanted = min(cell_width(body), room // 2)
    end = next((end for end in ends if agent.requests and room - cell_width(end) >= wanted), "")
    body = clip(body, room - cell_width(end))
    label = ctx.paint("bold", one_line(agent.label))
    return clip_painted(f"{ctx.paint('accent', '●')} {label}  {body}{ctx.paint('dim', end)}", ctx.columns)


def draw_todos(
    todos: Sequence[tuple[str, str]], ctx: RenderContext, *, rows: int, working: bool
) -> list[str]:
    """Draw the list around the current item while a turn runs; [] otherwise, and when all items are done."""
    first_open = next((at for at, (status, _) in enumerate(todos) if status != "completed"), None)
    rows = min(rows, 6)
    if first_open is None or rows < 1 or not working:
        return []
    if rows < 3:
        done = sum(status == "completed" for status, _ in todos)
        now = next((text for status, text in todos if status == "in_progress"), todos[first_open][1])
        return [ctx.clipped("dim", f"To-dos: {done} of {len(todos)} done · {prose_line(now)}")]
    cut = len(todos) > rows
    first = max(0, min(first_open - 1, len(todos) - rows + cut)) if cut else 0
    shown = todos[first : first + rows - cut]
    lines = [_todo_line(status, text, ctx) for status, text in shown]
    return [*lines, ctx.clipped("dim", f"  {len(todos) - len(shown)} more (/todo)")] if cut else lines


def _todo_line(status: str, text: str, ctx: RenderContext) -> str:
    line = clip(f"{todo_mark(status)} {prose_line(text)}", ctx.columns)
    role = _TODO_ROLES.get(status)
    return ctx.paint(role, line) if role else line


def _spinner(live_view: LiveView, ctx: RenderContext, now: float, *, timed: bool) -> list[str]:
    """Draw the current activity, its elapsed time and the key that interrupts it.

    With `timed`, a running call shows its own time, so the elapsed time is left out here.
    """
    if live_view.started_at is None or (live_view.question_since is not None and not live_view.interrupting):
        return []
    if live_view.interrupting:
        return [ctx.clipped("warning", "Interrupting…")]
    frame = SPINNER_FRAMES[int(now / REDRAW_INTERVAL_S) % len(SPINNER_FRAMES)]
    label = live_view.label
    role = "accent"
    rest = "" if timed else f"… {_whole_seconds(now - live_view.started_at)}"
    if live_view.retry_at is not None:
        wait = round(live_view.retry_at - now)
        when = f"in {wait} s" if wait > 0 else "now"
        tries = live_view.tries
        if live_view.gives_up_at is not None:
            tries = f"gives up in {_whole_seconds(max(0, live_view.gives_up_at - now))}"
        rest = f"; retrying {when} ({tries})"
        role = "warning"
    room = ctx.columns - 2 - len(rest)  # the time is shown at any width
    wanted = min(cell_width(label), ctx.columns // 2 - 1)
    key = ctx.keys["interrupt"] or "Esc"
    hints = (f" · {key} to interrupt", f" · {key}")  # the first that fits
    hint = next((each for each in hints if room - len(each) >= wanted), "")
    shown = clip(label, max(room - len(hint), 1))
    rest = rest.removeprefix("…") if shown.endswith("…") else rest
    activity, clock = (shown + rest, "") if role == "warning" else (shown, rest)
    return [ctx.paint(role, f"{frame} {activity}") + ctx.paint("dim", clock + hint)]


def _queue(live_view: LiveView, ctx: RenderContext) -> list[str]:
    if not live_view.queued:
        return []
    rows = [ctx.clipped("dim", f"❯ {prose_line(text)}") for text in live_view.queued[-4:]]
    more = len(live_view.queued) - len(rows)
    hint = f"{more} more queued · ↑ to edit" if more else "queued · ↑ to edit"
    return [*rows, ctx.paint("dim", f"  {wrap(hint, ctx.columns - 2)[0]}")]


def _whole_seconds(spent: float) -> str:
    return f"{int(spent)} s" if spent < 60 else format_duration(spent)


def draw_unfinished(text: str, ctx: RenderContext, *, fence: str, rows: int) -> list[str]:
    """Draw the end of the unfinished text in at most `rows` lines; a cut fence or table gets its head again.

    `fence` is the opening line of the fence that is open at the end of the text, or "".
    """
    if rows <= 0 or not text.strip():
        return []
    kept = text[-(rows * ctx.columns * 2) :]
    lines = kept.split("\n")[-rows:]
    cut = len(kept) < len(text) or len(lines) <= kept.count("\n")
    if cut and fence and lines[0] != fence:
        lines.insert(0, fence.lstrip())
    elif cut and not fence:
        *above, begun = text.removesuffix("\n".join(lines)).split("\n")
        if head := table_head([*above, begun + lines[0]]):
            lines = [*head, *lines[int(bool(begun) or lines[0] == head[1]) :]]  # whole rows
    if not fence:
        lines = with_table_rule(lines)
    return render_markdown("\n".join(lines), ctx).split("\n")[-rows:]

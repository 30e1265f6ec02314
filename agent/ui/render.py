"""Draw events as lines of ANSI text: pure functions of the event and the render context.

Text from outside is escaped here. Work in progress is drawn by live_view.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from agent import events
from agent.formatting import format_duration
from transcripts import ChannelBlock, Result, TextBlock, tool_kind
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

from .context_chart import render_context_chart
from .file_links import file_link
from .terminal_text import (
    CODE_TAB_CELLS,
    TAB_CELLS,
    RenderContext,
    cell_width,
    clip,
    clip_painted,
    escape_output,
    escape_prose,
    expand_tabs,
    hang,
    hang_columns,
    linked,
    one_line,
    wrap,
    wrap_short,
)

INTERRUPTED = "Interrupted. What should makeroom do instead?"
COMMAND_INTERRUPTED = "interrupted"  # a command of the user, of which the model knows nothing yet
BRANCH = "  ⎿  "
SHORT_RESULT_LINES = 5  # shown of a result without Ctrl-O
MAX_RESULT_LINES = 2000  # shown at most with Ctrl-O
_GAPS = lazy_pattern(" {4,}")  # between columns
MAX_LOOK_LINES = 200  # the same for a file that was read or for matches, from the beginning
MIN_SHOWN_SECONDS = 2.0  # a shorter duration of a call is not shown


def render_event(event: events.Event, ctx: RenderContext) -> str:
    """Return the text to print for an event, no line wider than the screen; "" for most."""
    return "\n".join(clip_painted(line, ctx.columns) for line in _event_text(event, ctx).split("\n"))


def _event_text(event: events.Event, ctx: RenderContext) -> str:  # noqa: C901, PLR0911  one case for each kind
    match event:
        case events.ToolCallFinished():
            return render_call(event, ctx)
        case events.Notice():
            return render_notice(event, ctx)
        case events.ContextCompacted():
            notice = escape_prose(event.notice)
            return "\n".join(ctx.wrapped("dim", notice if ctx.full else _on_one_row(notice, ctx.columns)))
        case events.CommandOutput(text, form, sentences):
            if form == "markdown":
                return render_markdown(text, ctx)
            if form == "diff":
                return "\n".join(render_diff(text, ctx))
            if form == "rows":
                lines = expand_tabs(escape_prose(text), TAB_CELLS).split("\n")
                end = len(lines) - sentences
                rows = (clip(line, ctx.columns) for line in lines[:end])
                return "\n".join((*rows, *(row for line in lines[end:] for row in wrap(line, ctx.columns))))
            return render_plainly(text, ctx, TAB_CELLS)
        case events.ContextChart():
            return render_context_chart(event, ctx)
        case events.PromptReplayed(text):
            return render_prompt(text, ctx)
        case events.EarlierMessages():
            return render_notice(events.Notice(earlier_message(event, ctx.keys["outputs"])), ctx)
        case events.ClipboardCopy(_, words):
            return render_notice(events.Notice(words), ctx)
        case events.StreamAborted():
            return render_notice(events.Notice(aborted_message(event), "warning"), ctx)
        case events.TurnFinished("interrupted"):
            return ctx.clipped("warning", INTERRUPTED)
        case events.TurnFinished(reason, _, error) if error:
            level: events.Level = "warning" if reason in ("max_turns", "denied") else "error"
            return render_notice(events.Notice(error, level), ctx)
        case _:
            return ""


def render_markdown(text: str, ctx: RenderContext) -> str:
    """Draw markdown in the width of the context."""
    from .markdown import draw_markdown  # 90 ms: rich, pygments and markdown-it, not before the first paint

    return draw_markdown(text, ctx.columns, ctx.theme)


def render_plainly(text: str, ctx: RenderContext, tab_cells: int = CODE_TAB_CELLS) -> str:
    """Draw the text with its markdown source; wrapped lines are indented like their start."""
    lines = expand_tabs(escape_prose(text), tab_cells).split("\n")
    return "\n".join(row for line in lines for row in hang_columns(line, ctx.columns))


def _on_one_row(text: str, columns: int) -> str:
    """Return the leading clauses of the text that fit into the columns."""
    marks = (", ", "; ", ": ", " (", " without ")
    while cell_width(text) > columns and (end := max(map(text.rfind, marks))) > 0:
        text = text[:end]
    if text.count("(") > text.count(")"):
        text = text[: text.rfind(" (")]
    return clip(text, columns)


def render_notice(event: events.Notice, ctx: RenderContext) -> str:
    role, mark = {"info": ("dim", ""), "warning": ("warning", "! "), "error": ("bad", "✗ ")}[event.level]
    return "\n".join(ctx.wrapped(role, mark + escape_prose(event.text)))


def aborted_message(event: events.StreamAborted) -> str:
    return f"The reply is incomplete: {one_line(event.reason)}. The text shown is not part of the answer."


def earlier_message(event: events.EarlierMessages, key: str) -> str:
    """Return the note about messages of a session that are not shown, with the key that shows them."""
    what = pluralize(event.count, "earlier message") if event.count else "earlier calls of this turn"
    return f"{what} · {f'{key} to show · ' if key else ''}/rewind to go back to a prompt"


def retrying_message(event: events.Retrying, *, again: bool = False) -> str:
    """Describe a retry, for faces that print lines; live_view shows a running clock instead.

    With `again`, the reason is left out: the line before names the same one.
    """
    when = f"in {event.seconds:.0f} s" if event.seconds >= 0.5 else "now"
    reason = "" if again else f"{one_line(event.reason)}; "
    return f"{reason}retrying {when} ({_attempts(event)})"


def _attempts(event: events.Retrying) -> str:
    if event.left_s is not None:
        return f"gives up in {event.left_s:.0f} s"
    return f"{event.attempt} of {event.tries}"


def render_prompt(text: str, ctx: RenderContext) -> str:
    """Draw the echo of a prompt."""
    mark = "❯ " if ctx.columns >= 8 else ""
    rows = wrap(escape_prose(text), ctx.columns - len(mark))
    lines = hang(rows, first=mark, others=" " * len(mark))
    return "\n".join(ctx.paint("prompt", line) for line in lines)


def render_thought(text: str, ctx: RenderContext, *, seconds: float) -> str:
    """Draw finished thinking: its duration, or its text where outputs are shown in full."""
    if ctx.full and text.strip():
        return "\n".join(ctx.wrapped("thinking", escape_prose(text.strip())))
    return "" if seconds < 1 else ctx.paint("dim", f"Thought for {format_duration(seconds)}"[: ctx.columns])


def clipboard_sequence(text: str) -> str:
    """Return the OSC 52 sequence that asks a terminal to put a text on its clipboard."""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"


def call_title(name: str, title: str, ctx: RenderContext, *, role: str) -> str:
    """Draw `● bash  pytest -q` on one line, cut to the screen, the dot in a role."""
    room = ctx.columns - 2
    shown = clip(one_line(name), room)
    rest = clip(one_line(title), room - cell_width(shown) - 2)
    if rest and ctx.folder and tool_kind(name) in ("reads", "writes"):
        path, gap, note = rest.partition("  ")
        rest = linked(path, file_link(title, ctx.folder)) + gap + note
    line = f"{ctx.paint(role, '●')} {ctx.paint('bold', shown)}" + (f"  {rest}" if rest else "")
    return clip_painted(line, ctx.columns)


def call_rows(name: str, title: str, ctx: RenderContext, *, role: str, most: int) -> list[str]:
    """Draw the title of a call; that of a command in full, in at most `most` rows."""
    first = call_title(name, title, ctx, role=role)
    indent = cell_width(one_line(name)) + 4
    room = ctx.columns - indent
    if tool_kind(name) != "runs" or cell_width(one_line(title)) <= room or room < 20:
        return [first]
    rows = wrap_short(one_line(title), room, most)
    return [call_title(name, rows[0], ctx, role=role), *(" " * indent + row for row in rows[1:])]


def render_call(event: events.ToolCallFinished, ctx: RenderContext) -> str:
    """Draw the title of a finished call, and its shortened result below."""
    if is_look(event):
        return "\n".join([render_looks([event], ctx), *(_text_seen(event, ctx) if ctx.full else ())])
    role = "good"
    if event.denied:
        role = "warning"
    elif event.result.error:
        role = "bad"
    # Rows of a title, with Ctrl-O and without.
    most = 40 if ctx.full else 1
    title = call_rows(event.name, event.title, ctx, role=role, most=most)
    return "\n".join([*title, *render_result(event, ctx)])


def is_look(event: events.ToolCallFinished) -> bool:
    """Return whether the call only read or searched, for which one line is enough."""
    is_reading = tool_kind(event.name) in ("reads", "searches")
    return is_reading and not event.result.error and not event.denied and not event.result.remarks


def render_looks(looks: Sequence[events.ToolCallFinished], ctx: RenderContext) -> str:
    """Draw one line for read-only calls: `read, grep  12 files, 3,140 lines, 3 searches, 41 matches`."""
    first = looks[0]
    if len(looks) == 1:
        note = one_line(first.result.human.note)
        return call_title(first.name, f"{first.title}  {note}", ctx, role="good")
    searches = [look for look in looks if tool_kind(look.name) == "searches"]
    reads = [look for look in looks if tool_kind(look.name) == "reads"]
    names = ", ".join(dict.fromkeys(look.name for look in looks))
    figures = (*(_read_figures(reads) if reads else ()), *(_search_figures(searches) if searches else ()))
    return call_title(names, ", ".join(figures), ctx, role="good")


def _text_seen(event: events.ToolCallFinished, ctx: RenderContext) -> list[str]:
    """Draw the beginning of the text that a read or a search returned, where outputs are shown in full."""
    result = event.result
    text = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
    if ctx.columns <= len(BRANCH) + 2 or result.about.get("unchanged") or not text.strip():
        return []
    inner = replace(ctx, columns=ctx.columns - len(BRANCH))
    lines = escape_output(text, CODE_TAB_CELLS).strip("\n").split("\n")
    rows = [row for line in lines[:MAX_LOOK_LINES] for row in inner.wrapped("dim", line)]
    if hidden := len(lines[MAX_LOOK_LINES:]):
        rows.append(inner.clipped("dim", f"… +{pluralize(hidden, 'line')}"))
    return below_title(rows, ctx)


def _read_figures(reads: Sequence[events.ToolCallFinished]) -> Iterator[str]:
    yield pluralize(len({read.title for read in reads}), "file")
    shown = [read.result.about for read in reads if not read.result.about.get("unchanged")]
    yield pluralize(sum(each["last"] - each["first"] + 1 for each in shown if each.get("last")), "line")


def _search_figures(searches: Sequence[events.ToolCallFinished]) -> Iterator[str]:
    """Return the figures of searches: matching lines where they were counted, else files."""
    about = [search.result.about for search in searches]
    yield pluralize(len(searches), "search", "searches")
    matches = [each["matches"] for each in about if "matches" in each]
    if matches:
        yield pluralize(sum(matches), "match", "matches")
    found = [each.get("files", 0) for each in about if "matches" not in each]
    if found:
        yield f"{pluralize(sum(found), 'file')} found"


def render_result(event: events.ToolCallFinished, ctx: RenderContext) -> list[str]:
    """Draw a finished call's shortened result, without its title."""
    if ctx.columns <= len(BRANCH) + 2:
        return []
    human = event.result.human
    if human.silent and not event.denied:
        return []
    inner = replace(ctx, columns=ctx.columns - len(BRANCH))
    if human.diff:
        summary = _result_summary(event)
        body = render_diff(human.diff, inner, MAX_RESULT_LINES if ctx.full else 40)
        body = [*(inner.wrapped("dim", summary) if summary else ()), *body]
    else:
        body = _shortened(event, inner)
        summary = _result_summary(event, nothing="" if body else "no output")
        body += inner.wrapped("dim", summary) if summary else []
    return below_title([*body, *_remark_rows(event, inner)], ctx)


def _remark_rows(event: events.ToolCallFinished, ctx: RenderContext) -> Iterator[str]:
    """Draw what the user said with the approval of the call; other answers are part of the output."""
    human = event.result.human
    shown = f"{human.note}\n{human.text}" if event.denied else human.note
    for question, words in event.result.remarks:
        if not question and words not in shown:
            yield from ctx.wrapped("dim", f"You said: {one_line(words)}")


def below_title(rows: Sequence[str], ctx: RenderContext) -> list[str]:
    """Draw rows below the title of a call."""
    return hang(rows, first=ctx.paint("dim", BRANCH), others=" " * len(BRANCH))


def _result_summary(event: events.ToolCallFinished, nothing: str = "") -> str:
    """Summarize the end of a call and its duration; `nothing` stands for an empty summary."""
    note = event.result.human.note
    parts = [one_line(note)] if note else []
    if not parts and (code := event.result.about.get("exit")):
        parts.append(f"exit code {code}")
    if event.denied and not _text_for_user(event.result):
        parts.append("denied")
    parts = parts or [nothing] * bool(nothing)
    if event.seconds >= MIN_SHOWN_SECONDS:
        parts.append(format_duration(event.seconds))
    return ", ".join(parts)


def _text_for_user(result: Result, whole: bool = False) -> str:
    """Return the text of a result for the user, else the text for the model, with notes if `whole`.

    makeroom's own words to the model say what the user decided, and speak of them in the third person.
    """
    if result.human.text is not None:
        return result.human.text
    if result.human.note and not result.error:
        return ""
    output = result.content[:1]  # may begin like text that was put back, which follows it
    added = (
        block
        for block in result.content[1:]
        if whole or not (block.is_put_back or isinstance(block, ChannelBlock))
    )
    return "\n".join(block.text for block in (*output, *added) if isinstance(block, TextBlock))


def _shortened(event: events.ToolCallFinished, ctx: RenderContext) -> list[str]:
    """Draw the last lines of an output, each on one row unless outputs are shown in full."""
    result = event.result
    text = _text_for_user(event.result, ctx.full)
    lines = escape_output(text).strip("\n").split("\n") if text.strip() else []
    if lines and result.error and not ctx.full and (len(lines) == 1 or tool_kind(event.name) != "runs"):
        return _reason(result, lines, ctx)
    shown = lines[-(MAX_RESULT_LINES if ctx.full else SHORT_RESULT_LINES) :]
    rows = _left_out(result, ctx, lines=len(lines), hidden=len(lines) - len(shown))
    if ctx.full:
        return [*rows, *(row for line in shown for row in ctx.wrapped("dim", line))]
    return [*rows, *(ctx.clipped("dim", _closed_up(line, ctx.columns)) for line in shown)]


def _reason(result: Result, lines: list[str], ctx: RenderContext) -> list[str]:
    """Draw the reason why a call failed or did not run.

    The first line is wrapped, because the reason may be at its end.
    """
    first = [ctx.paint("bad", row) for row in wrap_short(lines[0], ctx.columns, most=3)]
    first += [ctx.clipped("dim", line) for line in lines[1:SHORT_RESULT_LINES]]
    hidden = len(lines[SHORT_RESULT_LINES:])
    return first + _left_out(result, ctx, lines=len(lines), hidden=hidden, at="below")


def _closed_up(line: str, columns: int) -> str:
    """Narrow the widest gap of a line if its end then fits on the screen: `..          [100%]`."""
    over = cell_width(line) - columns
    gap = max(_GAPS.findall(line), key=len, default="")
    return line.replace(gap, gap[over:], 1) if 0 < over <= len(gap) - 2 else line


def _left_out(
    result: Result, ctx: RenderContext, *, lines: int, hidden: int, at: Literal["above", "below"] = "above"
) -> list[str]:
    """Draw a note about the hidden lines of an output, some of which may not have been kept."""
    above = hidden + result.human.above
    file = result.human.file
    if hidden and result.stored is not None:
        file = result.stored.path
    notes = [f"{pluralize(above, 'line')} {at}"] if above else []
    if ctx.full:
        notes += [f"full output in {one_line(file)}"] if file else []
        return ctx.wrapped("dim", f"… {', '.join(notes)}") if notes else []
    if above and ctx.has_keys and (key := ctx.keys["outputs"]):
        is_all = lines <= MAX_RESULT_LINES and above == hidden
        notes.append(f"{key} to show {'all' if is_all else 'more'}")
    return [ctx.clipped("dim", f"… {', '.join(notes)}")] if notes else []


def render_diff(text: str, ctx: RenderContext, limit: int = MAX_RESULT_LINES) -> list[str]:
    """Draw a diff with line numbers in place of its headers, in at most `limit` lines before wrapping."""
    from .diff_drawing import draw_diff  # 90 ms: rich and pygments, not before the first paint

    return draw_diff(text, ctx, limit)

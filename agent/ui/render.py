"""Events as lines of ANSI text: pure functions of the event and the look.

Everything that came from outside goes through `escape` here. What is still going on is drawn in live.py.
Loaded after the first paint, as it knows the events and rich.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent import events
from agent.formatting import duration
from tools.text_encoding import pluralize
from transcripts.facts import Result
from transcripts.messages import TextBlock

from .context_chart import chart
from .escape import gentle, one_line, output
from .labels import BRANCH, RenderContext, title
from .markdown import markdown
from .text_cells import bare, clip, fit, width, wrap

SHORT = 5  # lines of a result that are shown without Ctrl-O
SHORT_DIFF = 40
FULL = 2000  # lines shown at most with Ctrl-O


def event_text(event: events.Event, look: RenderContext) -> str:
    """What is printed for an event when it comes, no line wider than the screen; "" for most."""
    return "\n".join(fit(line, look.columns) for line in _text(event, look).split("\n"))


def _text(event: events.Event, look: RenderContext) -> str:
    match event:
        case events.ToolCallFinished():
            return call(event, look)
        case events.Notice():
            return notice(event, look)
        case events.ContextCompacted():
            return made_room(event, look)
        case events.CommandOutput():
            return said(event, look)
        case events.ContextChart():
            return chart(event, look)
        case events.ClipboardCopy(_, words):
            return notice(events.Notice(words), look)
        case events.StreamAborted(reason):
            lost = f"The stream broke ({one_line(reason)}); what was shown is not part of the answer."
            return notice(events.Notice(lost, "warning"), look)
        case events.TurnFinished("interrupted"):
            return look.theme.paint("warning", "Interrupted"[: look.columns])
        case events.TurnFinished(reason, _, error) if error:
            level: events.Level = "warning" if reason in ("max_turns", "denied") else "error"
            return notice(events.Notice(error, level), look)
        case _:
            return ""


def notice(event: events.Notice, look: RenderContext) -> str:
    role = {"info": "dim", "warning": "warning", "error": "bad"}[event.level]
    mark = {"info": "", "warning": "! ", "error": "✗ "}[event.level]
    return _painted(mark + gentle(event.text), role, look)


def made_room(event: events.ContextCompacted, look: RenderContext) -> str:
    return _painted(gentle(event.notice), "room", look)


def said(event: events.CommandOutput, look: RenderContext) -> str:
    """The output of a command of ours."""
    if event.form == "markdown":
        return markdown(event.text, look.columns, look.theme)
    if event.form == "diff":
        return "\n".join(diff(event.text, look))
    return "\n".join(wrap(gentle(event.text), look.columns))


def thought(text: str, spent: float, look: RenderContext) -> str:
    """What is left of thinking: its duration, or all of it where outputs are shown whole."""
    if look.full and text.strip():
        rows = wrap(gentle(text.strip()), look.columns)
        return "\n".join(look.theme.paint("thinking", row) for row in rows)
    if spent < 1:
        return ""
    return look.theme.paint("dim", f"Thought for {duration(spent)}"[: look.columns])


def call(event: events.ToolCallFinished, look: RenderContext) -> str:
    """One line for the call, and its short result under it."""
    failed = event.result.error
    role = "warning" if event.denied else "bad" if failed else "good"
    head = title(event.name, event.title, look, role)
    return "\n".join([head, *_result(event, look)])


def diff(text: str, look: RenderContext, limit: int | None = None) -> list[str]:
    """A unified diff with line numbers in place of its headers."""
    rows = [row for row in _diff_rows(output(text).split("\n")) if row is not None]
    most = limit or FULL
    shown = rows if len(rows) <= most else rows[: most - 1]
    digits = max((len(str(number)) for number, _, _ in shown if number), default=1)
    lines: list[str] = []
    for number, sign, words in shown:
        lines.extend(_diff_line(number, sign, words, (digits, look)))
    if len(rows) > len(shown):
        more = pluralize(len(rows) - len(shown), "line")
        lines.append(look.theme.paint("dim", clip(f"… +{more}", look.columns)))
    return lines


def _result(event: events.ToolCallFinished, look: RenderContext) -> list[str]:
    human = event.result.human
    body: list[str] = []
    inner = replace(look, columns=max(look.columns - len(BRANCH), 2))
    if human.get("diff"):
        body = diff(str(human["diff"]), inner, None if look.full else SHORT_DIFF)
    else:
        body = _shortened(_words(event.result), inner, event.result.error)
    summary = _summary(event, human)
    if summary and human.get("diff"):
        body = [*_dimmed(summary, inner), *body]
    elif summary and body and width(bare(body[-1])) + width(summary) + 3 <= inner.columns:
        body[-1] += look.theme.paint("dim", f" ({summary})")
    elif summary:
        body = [*body, *_dimmed(summary, inner)]
    if look.columns <= len(BRANCH) + 2:
        return []
    marks = [look.theme.paint("dim", BRANCH), *(" " * len(BRANCH) for _ in body[1:])]
    return [mark + line for mark, line in zip(marks, body, strict=False)]


def _dimmed(text: str, look: RenderContext) -> list[str]:
    return [look.theme.paint("dim", line) for line in wrap(text, look.columns)]


def _summary(event: events.ToolCallFinished, human: Mapping[str, Any]) -> str:
    parts = [one_line(str(human["note"]))] if human.get("note") else []
    code = event.result.about.get("exit")
    if code is not None and f"exit {code}" not in "".join(parts):
        parts.append(f"exit {code}")
    if event.denied:
        parts.append("not allowed")
    if event.seconds >= 0.95:
        parts.append(duration(event.seconds))
    return ", ".join(parts)


def _words(result: Result) -> str:
    """What the person sees of a result: the human text, else what the model got."""
    if "text" in result.human:
        return str(result.human["text"])
    if result.human.get("note") and not result.error:
        return ""
    return "\n".join(block.text for block in result.content if isinstance(block, TextBlock))


def _shortened(text: str, look: RenderContext, failed: bool) -> list[str]:
    lines = output(text).strip("\n").split("\n") if text.strip() else []
    most = FULL if look.full else SHORT
    hidden = max(len(lines) - most, 0)
    shown = lines[-most:] if hidden else lines
    role = "bad" if failed and not look.full and len(shown) == 1 else "dim"
    rows: list[str] = []
    if hidden:
        hint = "" if look.full or not look.keys else ", Ctrl-O shows all"
        rows.append(look.theme.paint("dim", clip(f"… {pluralize(hidden, 'line')} above{hint}", look.columns)))
    for line in shown:
        pieces = wrap(line, look.columns) if look.full else [clip(line, look.columns)]
        rows.extend(look.theme.paint(role, piece) for piece in pieces)
    return rows


def _diff_rows(lines: Sequence[str]) -> list[tuple[int | None, str, str] | None]:
    """(line number, sign, text) for each row of a unified diff; "@" for the gap between hunks."""
    rows: list[tuple[int | None, str, str] | None] = []
    old = new = 0
    for line in lines:
        if line.startswith("@@"):
            old, new = _starts(line)
            rows.append((None, "@", "") if rows else None)
        elif not (old or new) or line.startswith("\\") or not line:
            continue
        elif line[0] == "-":
            rows.append((old, "-", line[1:]))
            old += 1
        elif line[0] == "+":
            rows.append((new, "+", line[1:]))
            new += 1
        else:
            rows.append((new, " ", line[1:]))
            old, new = old + 1, new + 1
    return rows


def _starts(header: str) -> tuple[int, int]:
    """Where a hunk begins in the old and the new file, from `@@ -12,3 +14,4 @@`."""
    numbers = [0, 0]
    for word in header.split()[1:3]:
        digits = word[1:].split(",")[0]
        if word[:1] in "-+" and digits.isdigit():
            numbers["-+".index(word[0])] = max(int(digits), 1)
    return numbers[0] or 1, numbers[1] or 1


def _diff_line(number: int | None, sign: str, words: str, how: tuple[int, RenderContext]) -> list[str]:
    digits, look = how
    if sign == "@":
        return [look.theme.paint("hunk", clip(" " * (digits - 1) + "⋯", look.columns))]
    role = {"-": "removed", "+": "added", " ": "dim"}[sign]
    margin = f"{number or '':>{digits}} {sign} "
    rows = wrap(words, look.columns - len(margin))
    margins = [margin, *(" " * len(margin) for _ in rows[1:])]
    return [
        look.theme.paint(role, clip(left + row, look.columns))
        for left, row in zip(margins, rows, strict=True)
    ]


def _painted(text: str, role: str, look: RenderContext) -> str:
    return "\n".join(look.theme.paint(role, line) for line in wrap(text, look.columns))

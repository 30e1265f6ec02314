"""Events as lines of ANSI text: pure functions of the event, the columns and the theme.

Everything that came from outside goes through `escape` here. Prose of the model is drawn in markdown.py,
what is still going on in live.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent import events
from transcripts.facts import Result
from transcripts.messages import Text

from .cells import clip, width, wrap
from .escape import gentle, one_line, output
from .theme import Theme

SHORT = 5  # lines of a result that are shown without Ctrl-O
SHORT_DIFF = 40
FULL = 2000  # lines shown at most with Ctrl-O
BRANCH = "  ⎿  "

_SGR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw: columns, colours, and whether outputs are shown whole."""

    columns: int
    theme: Theme
    full: bool = False


def user(text: str, look: Look) -> str:
    """The person's words as they are echoed above."""
    lines = wrap(gentle(text), look.columns - 2)
    marks = ["❯ ", *("  " for _ in lines[1:])]
    return "\n".join(look.theme.paint("user", mark + line) for mark, line in zip(marks, lines, strict=True))


def notice(event: events.Notice, look: Look) -> str:
    role = {"info": "dim", "warning": "warning", "error": "bad"}[event.level]
    mark = {"info": "", "warning": "! ", "error": "✗ "}[event.level]
    return _painted(mark + gentle(event.text), role, look)


def made_room(event: events.MadeRoom, look: Look) -> str:
    return _painted(gentle(event.notice), "room", look)


def said(text: str, look: Look) -> str:
    """The plain output of a command of ours."""
    return "\n".join(wrap(gentle(text), look.columns))


def call(event: events.CallEnded, look: Look) -> str:
    """One line for the call, and its short result under it."""
    failed = event.result.error
    role = "warning" if event.denied else "bad" if failed else "good"
    head = title(event.name, event.title, look, role)
    return "\n".join([head, *_result(event, look)])


def title(name: str, words: str, look: Look, role: str) -> str:
    """`● bash  pytest -q` on one line."""
    room = look.columns - 2
    shown = clip(name, room)
    rest = clip(one_line(words), room - width(shown) - 2)
    paint = look.theme.paint
    return paint(role, "●") + " " + paint("bold", shown) + (f"  {rest}" if rest else "")


def diff(text: str, look: Look, limit: int | None = None) -> list[str]:
    """A unified diff with line numbers in place of its headers."""
    rows = [row for row in _diff_rows(output(text).split("\n")) if row is not None]
    most = limit or FULL
    shown = rows if len(rows) <= most else rows[: most - 1]
    digits = max((len(str(number)) for number, _, _ in shown if number), default=1)
    lines: list[str] = []
    for number, sign, words in shown:
        lines.extend(_diff_line(number, sign, words, (digits, look)))
    if len(rows) > len(shown):
        lines.append(look.theme.paint("dim", clip(f"… +{len(rows) - len(shown)} lines", look.columns)))
    return lines


def duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 3 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def count(number: int) -> str:
    """`950`, `1.2k`, `48k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9_950 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def _result(event: events.CallEnded, look: Look) -> list[str]:
    human = event.result.human
    body: list[str] = []
    inner = Look(max(look.columns - len(BRANCH), 2), look.theme, look.full)
    if human.get("diff"):
        body = diff(str(human["diff"]), inner, None if look.full else SHORT_DIFF)
    else:
        body = _shortened(_words(event.result), inner, event.result.error)
    summary = _summary(event, human)
    if summary and human.get("diff"):
        body = [*_dimmed(summary, inner), *body]
    elif summary and body and width(_SGR.sub("", body[-1])) + width(summary) + 3 <= inner.columns:
        body[-1] += look.theme.paint("dim", f" ({summary})")
    elif summary:
        body = [*body, *_dimmed(summary, inner)]
    if look.columns <= len(BRANCH) + 2:
        return []
    marks = [look.theme.paint("dim", BRANCH), *(" " * len(BRANCH) for _ in body[1:])]
    return [mark + line for mark, line in zip(marks, body, strict=False)]


def _dimmed(text: str, look: Look) -> list[str]:
    return [look.theme.paint("dim", line) for line in wrap(text, look.columns)]


def _summary(event: events.CallEnded, human: Mapping[str, Any]) -> str:
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
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


def _shortened(text: str, look: Look, failed: bool) -> list[str]:
    lines = output(text).strip("\n").split("\n") if text.strip() else []
    most = FULL if look.full else SHORT
    hidden = max(len(lines) - most, 0)
    shown = lines[-most:] if hidden else lines
    role = "bad" if failed and not look.full and len(shown) == 1 else "dim"
    rows: list[str] = []
    if hidden:
        hint = "" if look.full else ", Ctrl-O shows all"
        rows.append(look.theme.paint("dim", clip(f"… {hidden} lines above{hint}", look.columns)))
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


def _diff_line(number: int | None, sign: str, words: str, how: tuple[int, Look]) -> list[str]:
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


def _painted(text: str, role: str, look: Look) -> str:
    return "\n".join(look.theme.paint(role, line) for line in wrap(text, look.columns))

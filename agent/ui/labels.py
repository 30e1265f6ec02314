"""The small words of the screen: names and titles, and how things are to look."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from .escape import gentle, one_line
from .text_cells import clip, fit, width, wrap
from .theme import Theme

BRANCH = "  ⎿  "
NARROW = 8  # columns below which nothing is indented


@dataclass(frozen=True, slots=True)
class RenderContext:
    """How to draw: columns, colours, and whether outputs are shown whole."""

    columns: int
    theme: Theme
    full: bool = False
    keys: bool = True  # whether there are keys to hint at


def user(text: str, look: RenderContext) -> str:
    """The person's words as they are echoed above."""
    first, other = ("❯ ", "  ") if look.columns >= NARROW else ("", "")
    lines = wrap(gentle(text), look.columns - len(first))
    marks = [first, *(other for _ in lines[1:])]
    return "\n".join(look.theme.paint("user", mark + line) for mark, line in zip(marks, lines, strict=True))


def title(name: str, words: str, look: RenderContext, role: str) -> str:
    """`● bash  pytest -q` on one line."""
    room = look.columns - 2
    shown = clip(one_line(name), room)
    rest = clip(one_line(words), room - width(shown) - 2)
    paint = look.theme.paint
    line = paint(role, "●") + " " + paint("bold", shown) + (f"  {rest}" if rest else "")
    return fit(line, look.columns)


def osc52(text: str) -> str:
    """The codes that ask a terminal to put a text on its clipboard."""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"

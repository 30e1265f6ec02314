"""Draw a diff: line numbers, the words that changed, backgrounds, and the colours of the language.

Slow to import, because rich is: loaded after the first paint.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache

from rich.console import Console
from rich.style import Style
from rich.text import Text

from transcripts.export import DiffRow, read_diff
from transcripts.wording import pluralize

from .code_colours import coloured
from .segment_lines import filled, segment_line
from .terminal import Terminal
from .terminal_text import (
    CODE_TAB_CELLS,
    RenderContext,
    escape_output,
    one_line,
    painted_width,
    wrapped_spans,
)


def draw_diff(text: str, ctx: RenderContext, limit: int) -> list[str]:
    """Draw a diff with line numbers instead of headers, in at most `limit` lines before wrapping."""
    lines = text.replace("\r\n", "\n").split("\n")
    diff = read_diff([line[:1] + escape_output(line[1:], CODE_TAB_CELLS) for line in lines])
    shown = diff.marked(None if len(diff.rows) <= limit else limit - 1)
    digits = max((len(str(row.number)) for row in shown.rows if row.number), default=1)
    language = diff.language if ctx.theme.colour else "text"
    theme = ctx.theme.palette.code

    def lines_of(code: str) -> Iterable[Text]:
        return coloured(code, language=language, theme=theme).split("\n", allow_blank=True)

    codes = shown.by_side(lines_of)
    drawn = []
    for row, code in zip(shown.rows, codes, strict=True):
        drawn += _lines(row, code, ctx, digits=digits)
    if left_out := len(diff.rows) - len(shown.rows):
        drawn.append(ctx.clipped("dim", f"… +{pluralize(left_out, 'line')}"))
    return drawn


def print_diff(text: str, color: str, limit: int) -> None:
    """Print a diff of git, each file below its name in at most `limit` lines, while no session is shown."""
    ctx = Terminal(color).render_context()
    for part in text.split("diff --git ")[1:]:
        names, _, changes = part.partition("\n")
        name = ctx.clipped("bold", one_line(names.rpartition(" b/")[2]))
        sys.stdout.write("\n".join((name, *draw_diff(changes, ctx, limit))) + "\n")


def _lines(row: DiffRow, code: Text, ctx: RenderContext, *, digits: int) -> list[str]:
    if row.sign == "@":
        return [ctx.clipped("hunk", " " * (digits - 1) + "⋯")]
    base, words = _styles(row.sign, ctx)
    for begin, end in row.marks:
        code.stylize(words, begin, end)
    margin = f"{row.number or '':>{digits}} {row.sign} "
    margin = margin if ctx.columns - len(margin) >= 8 else ""
    is_filled = base.bgcolor is not None
    lines = []
    for at, (begin, end) in enumerate(wrapped_spans(code.plain, ctx.columns - len(margin))):
        line = Text(style=base)
        line.append(" " * len(margin) if at else margin, Style(dim=not is_filled))
        line.append_text(code[begin:end])
        painted = segment_line(line.render(_console()), ctx.theme)
        if is_filled and painted_width(painted) < ctx.columns:
            painted = filled(painted, base, ctx.theme)
        lines.append(painted)
    return lines


def _styles(sign: str, ctx: RenderContext) -> tuple[Style, Style]:
    """Return the styles of a line with this sign, and of the words that changed in it."""
    palette = ctx.theme.palette
    fill = {"+": palette.added, "-": palette.removed}.get(sign)
    if not ctx.theme.colour:
        return Style(), Style(underline=ctx.theme.weight)
    if sign == " ":
        return Style(), Style()
    if fill is None:
        return Style(color=palette.signs[sign == "-"]), Style(reverse=True)
    # the colours of the language are too faint on the stronger fill
    return Style(color=palette.on_fill, bgcolor=fill.line), Style(color=palette.on_fill, bgcolor=fill.words)


@cache
def _console() -> Console:
    """Return a console that resolves the styles of spans and writes nothing."""
    return Console(width=80, legacy_windows=False, _environ={})

"""Draw the context chart of /context: a map of the context window, and a legend."""

from __future__ import annotations

from itertools import groupby

from agent import events
from agent.formatting import format_count, whole_percent

from .terminal_text import RenderContext, cell_width, clip, escape_prose, one_line

FREE_ROW = "free"
_CHART_MARKS = ("■", "▣", "▤", "▥", "▦", "▧", "▨", "▩")


def render_context_chart(event: events.ContextChart, ctx: RenderContext) -> str:
    """Draw a map of the context, one cell for each equal share of `total`, above a legend.

    The rest of the total after all rows is drawn as free.
    """
    rows = [(one_line(label), tokens) for label, tokens in event.rows]
    used, total = chart_usage(event)
    title = one_line(event.title)
    window = event.total or total
    figure = f"{format_count(used)} of {format_count(window)} ({whole_percent(used, window)}%)"
    fits = cell_width(title) + 2 + len(figure) <= ctx.columns
    headline = [f"{title}  {figure}"] if fits else [title, figure]
    lines = [ctx.clipped("bold", line) for line in headline]
    return "\n".join([*lines, "", *_chart_cells(rows, total, ctx), "", *_chart_legend(rows, total, ctx)])


def chart_usage(event: events.ContextChart) -> tuple[int, int]:
    """Return the used tokens and the tokens to draw: the window, or what is used if that is more."""
    used = sum(tokens for _, tokens in event.rows)
    return used, max(event.total, used, 1)


def plain_chart(event: events.ContextChart) -> str:
    """Draw the context without a map: a headline, and a line for each row and for the free tokens."""
    used, total = chart_usage(event)
    window = event.total or total
    headline = f"{escape_prose(event.title)}: {used:,} of {window:,} tokens ({whole_percent(used, window)}%)"
    shares = (*event.rows, (FREE_ROW, total - used))
    return "\n".join([headline, *(f"  {escape_prose(label)}: {share:,}" for label, share in shares)])


def share_cells(tokens: list[int], total: int, cells: int) -> list[int]:
    """Divide `cells` in proportion to `tokens`, with at least one cell for each count above 0.

    The sum of the shares is never more than `cells`.
    """
    exact = [max(count * cells / total, 1.0 if count else 0.0) for count in tokens]
    given = [int(share) for share in exact]
    wanted = min(cells, round(sum(tokens) * cells / total)) - sum(given)
    by_rest = sorted(range(len(exact)), key=lambda at: given[at] - exact[at])
    for at in by_rest[: max(wanted, 0)]:
        given[at] += 1
    while sum(given) > cells:
        given[given.index(max(given))] -= 1
    return given


def _chart_cells(rows: list[tuple[str, int]], total: int, ctx: RenderContext) -> list[str]:
    across = max(min((ctx.columns - 2) // 2, 40), 1)
    down = 5 if across >= 20 else 8
    cells: list[tuple[str, str]] = []
    for at, given in enumerate(share_cells([tokens for _, tokens in rows], total, across * down)):
        cells += [_chart_mark(at, ctx)] * given
    cells += [("dim", "·")] * (across * down - len(cells))
    lines = []
    for first in range(0, len(cells), across):
        runs = groupby(cells[first : first + across])
        painted = (ctx.paint(role, " ".join([mark] * len([*run]))) for (role, mark), run in runs)
        lines.append(f" {' '.join(painted)}")
    return lines


def _chart_legend(rows: list[tuple[str, int]], total: int, ctx: RenderContext) -> list[str]:
    named = [(_chart_mark(at, ctx), label, tokens) for at, (label, tokens) in enumerate(rows)]
    named.append((("dim", "·"), FREE_ROW, total - sum(tokens for _, tokens in rows)))
    widest = min(max(cell_width(label) for _, label, _ in named), max(ctx.columns - 20, 6))
    lines = []
    for (role, mark), label, tokens in named:
        name = clip(label, widest)
        padded = name + " " * (widest - cell_width(name))
        figures = f" {padded}  {format_count(tokens):>6}  {tokens / total:>5.1%}"
        lines.append(f" {ctx.paint(role, mark)}{clip(figures, max(ctx.columns - 2, 1))}")
    return lines


def _chart_mark(at: int, ctx: RenderContext) -> tuple[str, str]:
    """Return the role and the character for a row by its index: eight colours, then eight fillings."""
    plain = not ctx.theme.colour or at >= len(_CHART_MARKS)
    return f"chart{at % len(_CHART_MARKS)}", _CHART_MARKS[at % len(_CHART_MARKS) if plain else 0]

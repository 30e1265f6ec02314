"""Draw what fills the context as a map of cells with its legend."""

from __future__ import annotations

from itertools import groupby

from agent.events import ContextChart
from agent.formatting import count

from .escape import one_line
from .labels import RenderContext
from .text_cells import clip, width

FREE = "free"
_MARKS = ("■", "▣", "▤", "▥", "▦", "▧", "▨", "▩")


def chart(event: ContextChart, look: RenderContext) -> str:
    """The map, one cell for each equal share of `total`, and a line for each row.

    What the rows leave of the total is free, as is a row that is named so.
    """
    rows = [(one_line(label), tokens) for label, tokens in event.rows if not _is_free(label)]
    used, total = filled(event)
    lines = [*(look.theme.paint("bold", line) for line in _headline(event.title, used, total, look)), ""]
    lines += _grid(rows, total, look)
    lines += ["", *_legend(rows, total, look)]
    return "\n".join(lines)


def filled(event: ContextChart) -> tuple[int, int]:
    """(tokens in use, tokens in all, at least one)."""
    used = sum(tokens for label, tokens in event.rows if not _is_free(label))
    return used, max(event.total, used, 1)


def shares(tokens: list[int], total: int, cells: int) -> list[int]:
    """How many of `cells` each gets: its share, at least one for whatever is there, never over `cells`."""
    exact = [max(count * cells / total, 1.0 if count else 0.0) for count in tokens]
    given = [int(share) for share in exact]
    wanted = min(cells, round(sum(tokens) * cells / total)) - sum(given)
    by_rest = sorted(range(len(exact)), key=lambda at: given[at] - exact[at])
    for at in by_rest[: max(wanted, 0)]:
        given[at] += 1
    while sum(given) > cells:
        given[given.index(max(given))] -= 1
    return given


def _headline(title: str, used: int, total: int, look: RenderContext) -> list[str]:
    """The title with how full it is; where there is no room for both, the figure has a line of its own."""
    title, figure = one_line(title), f"{count(used)} of {count(total)} ({used / total:.0%})"
    lines = [f"{title}  {figure}"] if width(title) + 2 + len(figure) <= look.columns else [title, figure]
    return [clip(line, look.columns) for line in lines]


def _grid(rows: list[tuple[str, int]], total: int, look: RenderContext) -> list[str]:
    across = max(min((look.columns - 2) // 2, 40), 1)
    down = 5 if across >= 20 else 8
    cells: list[tuple[str, str]] = []
    for at, given in enumerate(shares([tokens for _, tokens in rows], total, across * down)):
        cells += [_mark(at, look)] * given
    cells += [("dim", "·")] * (across * down - len(cells))
    lines = []
    for first in range(0, len(cells), across):
        runs = groupby(cells[first : first + across])
        lines.append(
            " ".join(look.theme.paint(role, " ".join([mark] * len([*run]))) for (role, mark), run in runs)
        )
    return [f" {line}" for line in lines]


def _legend(rows: list[tuple[str, int]], total: int, look: RenderContext) -> list[str]:
    used = sum(tokens for _, tokens in rows)
    named = [(_mark(at, look), label, tokens) for at, (label, tokens) in enumerate(rows)]
    named.append((("dim", "·"), FREE, total - used))
    widest = min(max(width(label) for _, label, _ in named), max(look.columns - 20, 6))
    lines = []
    for (role, mark), label, tokens in named:
        name = clip(label, widest)
        padded = name + " " * (widest - width(name))
        figures = clip(f" {padded}  {count(tokens):>6}  {tokens / total:>5.1%}", max(look.columns - 2, 1))
        lines.append(f" {look.theme.paint(role, mark)}{figures}")
    return lines


def _mark(at: int, look: RenderContext) -> tuple[str, str]:
    """The role and the character of the row at that place."""
    plain = not look.theme.colour or at >= len(_MARKS)  # eight colours, then eight fillings
    return f"chart{at % len(_MARKS)}", _MARKS[at % len(_MARKS) if plain else 0]


def _is_free(label: str) -> bool:
    return label.strip().lower().startswith(FREE)

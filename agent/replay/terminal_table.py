"""A replay in the terminal: the policies side by side, and a small chart of the context size by call."""

import io
import itertools
import shutil
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.ui import one_line
from transcripts.wording import pluralize

from .figures import FIGURE_ROWS, Run, figures_by_policy

PIPE_COLUMNS = 100


BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.,-=+*#"  # for terminals that cannot show blocks


def draw_table(runs: Sequence[Run], tier: str, window: int, out: TextIO) -> str:
    """Return the table and the charts of a replay as text, in colour if `out` is a terminal."""
    text = io.StringIO()
    colour = out.isatty()
    columns = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if colour else PIPE_COLUMNS
    console = Console(
        file=text,
        width=max(40, columns),
        force_terminal=colour,
        no_color=None if colour else True,
        highlight=False,
    )
    files = list(dict.fromkeys(run.file for run in runs))
    if len(files) > 1:
        console.print(_by_file(runs, files, console.width))
    console.print(_side_by_side(runs, tier, len(files)))
    blocks = (getattr(out, "encoding", None) or "utf-8").lower().startswith("utf")
    longest = max(runs, key=lambda run: len(run.requests)).file
    for file in files if len(files) <= 3 else [longest]:
        own = [run for run in runs if run.file == file]
        console.print(_chart(own, window, BARS if blocks else ASCII_BARS))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


LEGEND = (
    "A reference is a later use of text that was removed from the context. It is recoverable if an id in the "
    "context leads to the text, and lost otherwise. An edit is out of view if the text that it replaces was "
    "removed. A cache break is a request that rewrites cached history. A view is invalid if the API would "
    "reject it, which is a bug in makeroom. The policy `summary` only summarizes."
)


def _side_by_side(runs: Sequence[Run], tier: str, files: int) -> Table:
    sums = figures_by_policy(runs)
    table = Table(
        title=Text(f"{pluralize(files, 'session')} at {tier} prices; cost relative to no compaction"),
        title_justify="left",
        caption=Text(LEGEND),
        caption_justify="left",
    )
    table.add_column("")
    for policy in sums:
        table.add_column(Text(policy), justify="right")
    for name, show in FIGURE_ROWS:
        table.add_row(name, *(show(figures) for figures in sums.values()))
    return table


def _by_file(runs: Sequence[Run], files: Sequence[str], width: int) -> Table | Text:
    """Return the costs of each session, a row each. Figures are never cut, long names in the middle."""
    title = "cost of each session, in parentheses with re-reads"
    heads = ["calls", *dict.fromkeys(run.policy for run in runs)]
    rows = [(one_line(file), _costs(run for run in runs if run.file == file)) for file in files]
    widths = [max(map(len, column)) for column in zip(heads, *(cells for _, cells in rows), strict=True)]
    room = width - 1 - 3 * (len(widths) + 1) - sum(widths)  # each column has a border and two spaces
    if room < 16:  # too little for the names of files
        return Text("\n".join([title, *(line for row in rows for line in _below(*row, heads))]) + "\n")
    table = Table(title=Text(title), title_justify="left")
    table.add_column("file", overflow="ellipsis", no_wrap=True, max_width=room)
    for head, cells in zip(heads, widths, strict=True):
        table.add_column(Text(head), justify="right", no_wrap=True, min_width=cells)
    for name, costs in rows:
        table.add_row(Text(_middle_left_out(name, room)), *costs)
    return table


def _costs(runs: Iterable[Run]) -> list[str]:
    """Return the number of calls of a session, and its cost under each policy."""
    own = list(runs)
    cells = (f"{run.figures.cost_ratio:.2f} ({run.figures.cost_with_rereads:.2f})" for run in own)
    return [str(own[0].totals.calls), *cells]


def _below(name: str, cells: Sequence[str], heads: Sequence[str]) -> list[str]:
    """Return the row of a session as lines, for a narrow terminal."""
    room = max(map(len, heads))
    return [name, *(f"  {head:<{room}}  {cell}" for head, cell in zip(heads, cells, strict=True))]


def _middle_left_out(name: str, max_chars: int) -> str:
    """Shorten a name to `max_chars`, keeping both ends, which distinguish files."""
    end = (max_chars - 1) // 2
    return name if len(name) <= max_chars else f"{name[: max_chars - 1 - end]}…{name[-end:]}"


def _chart(runs: Sequence[Run], window: int, bars: str) -> Text:
    top = max([window, *(run.totals.peak for run in runs)])
    chart = Text(f"{one_line(runs[0].file)}: context size by call (full bar: {top:,} tokens)\n")
    room = max(len(run.policy) for run in runs)
    for run in runs:
        chart.append(f"  {run.policy:<{room}}  {_bars(run, top, bars)}  {run.totals.peak:,}\n")
    return chart


def _bars(run: Run, top: int, bars: str) -> str:
    sizes = [request.view_tokens for request in run.requests]
    cells = min(60, len(sizes))
    edges = [len(sizes) * cell // cells for cell in range(cells + 1)] if cells else [0]
    peaks = (max(sizes[first:last]) for first, last in itertools.pairwise(edges))
    return "".join(bars[min(len(bars) - 1, peak * len(bars) // top)] for peak in peaks)

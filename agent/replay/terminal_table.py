"""A replay in the terminal: the policies side by side, and a small chart of the context over the calls."""

import io
import itertools
import shutil
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agent.ui.terminal_text import one_line

from .figures import FIGURE_ROWS, Run, figures_by_policy

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.,-=+*#"  # where the terminal cannot show the blocks
MAX_CHART_CELLS = 60
MAX_CHARTS = 3  # files with a chart of their own; of more, only the longest has one
PIPE_COLUMNS, MIN_COLUMNS = 100, 40
LEGEND = (
    "references: later uses of text that had left the context; recoverable: an id in the context brings it "
    "back; lost: none does. A cache break is a request that writes history to the cache anew."
)


def draw_table(runs: Sequence[Run], tier: str, window: int, out: TextIO) -> str:
    """The table and the charts of a replay as text for `out`, in colour only where that is a terminal."""
    text, colour = io.StringIO(), out.isatty()
    columns = shutil.get_terminal_size((PIPE_COLUMNS, 24)).columns if colour else PIPE_COLUMNS
    console = Console(
        file=text,
        width=max(MIN_COLUMNS, columns),
        force_terminal=colour,
        no_color=None if colour else True,
        highlight=False,
    )
    files = list(dict.fromkeys(run.file for run in runs))
    if len(files) > 1:
        console.print(_by_file(runs, files))
    console.print(_side_by_side(runs, tier, len(files)))
    blocks = (getattr(out, "encoding", None) or "utf-8").lower().startswith("utf")
    longest = max(runs, key=lambda run: len(run.requests)).file
    for file in files if len(files) <= MAX_CHARTS else [longest]:
        own = [run for run in runs if run.file == file]
        console.print(_chart(own, window, BARS if blocks else ASCII_BARS))
    return text.getvalue()


def _side_by_side(runs: Sequence[Run], tier: str, files: int) -> Table:
    sums = figures_by_policy(runs)
    what = "1 session" if files == 1 else f"{files} sessions"
    table = Table(
        title=Text(f"{what} at {tier} prices; cost relative to only appending"),
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


def _by_file(runs: Sequence[Run], files: Sequence[str]) -> Table:
    policies = list(dict.fromkeys(run.policy for run in runs))
    table = Table(title=Text("cost of each session (with re-reads)"), title_justify="left")
    table.add_column("file", overflow="ellipsis", no_wrap=True, ratio=1)
    table.add_column("calls", justify="right")
    for policy in policies:
        table.add_column(Text(policy), justify="right", no_wrap=True)
    for file in files:
        own = [run for run in runs if run.file == file]
        cells = [f"{run.figures.cost_ratio:.2f} ({run.figures.cost_with_rereads:.2f})" for run in own]
        table.add_row(Text(one_line(file)), str(own[0].totals.calls), *cells)
    return table


def _chart(runs: Sequence[Run], window: int, bars: str) -> Text:
    top = max([window, *(run.totals.peak for run in runs)])
    chart = Text(f"{one_line(runs[0].file)}: context over the calls (full bar: {top:,} tokens)\n")
    room = max(len(run.policy) for run in runs)
    for run in runs:
        chart.append(f"  {run.policy:<{room}}  {_bars(run, top, bars)}  {run.totals.peak:,}\n")
    return chart


def _bars(run: Run, top: int, bars: str) -> str:
    sizes = [request.view_tokens for request in run.requests]
    cells = min(MAX_CHART_CELLS, len(sizes))
    edges = [len(sizes) * cell // cells for cell in range(cells + 1)] if cells else [0]
    peaks = (max(sizes[first:last]) for first, last in itertools.pairwise(edges))
    return "".join(bars[min(len(bars) - 1, peak * len(bars) // top)] for peak in peaks)

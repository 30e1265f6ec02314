"""A replay as one self-contained HTML page: the figures, and a chart of the context size by call.

Its frame and style are in report_page.html. The page loads nothing, follows the light or dark scheme of the
reader, and fits the width of a phone.
"""

from collections.abc import Sequence
from html import escape
from itertools import cycle
from pathlib import Path
from string import Template

from transcripts.wording import pluralize

from .figures import FIGURE_ROWS, ReplayFigures, Run, figures_by_policy

CHART_WIDTH = 640
CHART_HEIGHT = 160  # in the units of the chart


def html_page(runs: Sequence[Run], tier: str, window: int) -> str:
    """Return the page as HTML."""
    files = list(dict.fromkeys(run.file for run in runs))
    body = [
        "<h1>Replay: cost of each policy</h1>",
        f"<p>Cost relative to no compaction, at {escape(tier)} prices. "
        f"{pluralize(len(files), 'session')}.</p>",
        _table(list(figures_by_policy(runs).items())),
    ]
    for file in files:
        own = [run for run in runs if run.file == file]
        body.append(f"<h2>{escape(file)}</h2>")
        body.append(_chart(own, window))
        body.append(_table([(run.policy, run.figures) for run in own]))
    frame = Path(__file__).with_suffix(".html").read_text("utf-8")
    return Template(frame).substitute(body="\n".join(body))


def _table(rows: Sequence[tuple[str, ReplayFigures]]) -> str:
    lines = [_row("th", ["policy", *(name for name, _ in FIGURE_ROWS)])]
    for policy, figures in rows:
        lines.append(_row("td", [escape(policy), *(show(figures) for _, show in FIGURE_ROWS)]))
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"


def _chart(runs: Sequence[Run], window: int) -> str:
    """Draw the context size by call, with a line for each policy, and the window."""
    calls = max((len(run.requests) for run in runs), default=0)
    top = max([window, *(run.totals.peak for run in runs)]) * 1.05
    lines = []
    names = []
    for run, colour in zip(runs, cycle(("--one", "--two", "--three", "--four")), strict=False):
        points = " ".join(
            f"{CHART_WIDTH * at / max(1, calls - 1):.1f},{CHART_HEIGHT * (1 - request.view_tokens / top):.1f}"
            for at, request in enumerate(run.requests)
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="var({colour})" stroke-width="1.8"/>')
        names.append(f'<b style="color:var({colour})">{escape(run.policy)}</b>')
    limit = CHART_HEIGHT * (1 - window / top)
    return (
        f'<figure><svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" '
        'aria-label="context size by call">'
        f'<line x1="0" y1="{CHART_HEIGHT}" x2="{CHART_WIDTH}" y2="{CHART_HEIGHT}" stroke="var(--line)"/>'
        f'<line x1="0" y1="{limit:.1f}" x2="{CHART_WIDTH}" y2="{limit:.1f}" stroke="var(--dim)" '
        f'stroke-dasharray="4 4"/>{"".join(lines)}</svg>'
        f"<figcaption>{' · '.join(names)}: tokens in the context over {calls} calls. The dashed line is the "
        f"window of {window:,} tokens.</figcaption></figure>"
    )

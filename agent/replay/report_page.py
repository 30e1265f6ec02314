"""A replay as one self-contained HTML page: the figures, and a chart of the context over the calls.

It loads nothing, follows the light or dark scheme of the reader, and fits the width of a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .figures import ReplayFigures, Run, figures_by_policy
from .policies import REPLAY_WINDOW_TOKENS

CHART_WIDTH, CHART_HEIGHT = 640, 160  # of the chart, in its own units
LINE_COLOURS = ("--one", "--two", "--three", "--four")
TABLE_HEADINGS = (
    "policy",
    "cost",
    "with re-reads",
    "lost",
    "recoverable",
    "breaks / 100 calls",
    "summaries",
    "peak tokens",
    "invalid",
)
PAGE_STYLE = """
:root{color-scheme:light dark;--back:#fff;--ink:#1b1b1b;--dim:#666;--line:#ddd;
--one:#0a7d4f;--two:#b3541e;--three:#777;--four:#3457c2}
@media(prefers-color-scheme:dark){:root{--back:#15171a;--ink:#e6e6e6;--dim:#999;--line:#333;
--one:#3ecf8e;--two:#f0925a;--three:#999;--four:#86a2ff}}
body{margin:0 auto;padding:1rem;max-width:60rem;background:var(--back);color:var(--ink);
font:16px/1.45 system-ui,sans-serif}
h1{font-size:1.3rem}h2{font-size:1rem;overflow-wrap:anywhere;margin:1.6rem 0 .3rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}svg{width:100%;height:auto;display:block}
p,figcaption{color:var(--dim);font-size:.85rem}figure{margin:0}b{font-weight:600}
"""


def html_page(runs: Sequence[Run], tier: str) -> str:
    """The whole page as HTML."""
    files = list(dict.fromkeys(run.file for run in runs))
    body = [
        "<h1>Replay: what each policy costs</h1>",
        f"<p>Cost is relative to only appending, at the prices of “{escape(tier)}”. {len(files)} "
        f"session{'s' if len(files) != 1 else ''}.</p>",
        _table(list(figures_by_policy(runs).items())),
    ]
    for file in files:
        own = [run for run in runs if run.file == file]
        body.append(f"<h2>{escape(file)}</h2>")
        body.append(_chart(own))
        body.append(_table([(run.policy, run.figures) for run in own]))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Replay</title><style>{PAGE_STYLE}</style></head><body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _table(rows: Sequence[tuple[str, ReplayFigures]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in TABLE_HEADINGS)
    lines = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in _cells(policy, figures))}</tr>"
        for policy, figures in rows
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{lines}</table></div>'


def _cells(policy: str, figures: ReplayFigures) -> tuple[str, ...]:
    return (
        escape(policy),
        f"{figures.cost_ratio:.3f}",
        f"{figures.cost_with_rereads:.3f}",
        f"{figures.lost_references:.1%}",
        f"{figures.recoverable_references:.1%}",
        f"{figures.cache_breaks_per_100:.1f}",
        str(figures.summaries),
        f"{figures.peak_tokens:,}",
        str(figures.invalid_views),
    )


def _chart(runs: Sequence[Run]) -> str:
    """Context size over the calls, a line for each policy, and the window."""
    calls = max((len(run.requests) for run in runs), default=0)
    top = max([REPLAY_WINDOW_TOKENS, *(run.totals.peak for run in runs)]) * 1.05
    lines = []
    for number, run in enumerate(runs):
        points = " ".join(
            f"{CHART_WIDTH * at / max(1, calls - 1):.1f},{CHART_HEIGHT * (1 - request.view_tokens / top):.1f}"
            for at, request in enumerate(run.requests)
        )
        colour = LINE_COLOURS[number % len(LINE_COLOURS)]
        lines.append(f'<polyline points="{points}" fill="none" stroke="var({colour})" stroke-width="1.8"/>')
    limit = CHART_HEIGHT * (1 - REPLAY_WINDOW_TOKENS / top)
    names = " · ".join(
        f'<b style="color:var({LINE_COLOURS[number % len(LINE_COLOURS)]})">{escape(run.policy)}</b>'
        for number, run in enumerate(runs)
    )
    return (
        f'<figure><svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" '
        'aria-label="context size over the calls">'
        f'<line x1="0" y1="{CHART_HEIGHT}" x2="{CHART_WIDTH}" y2="{CHART_HEIGHT}" stroke="var(--line)"/>'
        f'<line x1="0" y1="{limit:.1f}" x2="{CHART_WIDTH}" y2="{limit:.1f}" stroke="var(--dim)" '
        f'stroke-dasharray="4 4"/>{"".join(lines)}</svg>'
        f"<figcaption>{names}: tokens in context over {calls} calls; the dashes are the window of "
        f"{REPLAY_WINDOW_TOKENS:,}</figcaption></figure>"
    )

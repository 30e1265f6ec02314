"""Draw docs/cost.svg, the cost of each policy, from the table in docs/ECONOMY.md.

Run `python docs/make_chart.py` after the table has changed.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
PRICE_TIER = "standard"
COST_COLUMN = 4  # "with re-reads: mean", after the empty cell, policy, prices and cost
WIDTH = 720
LABEL_WIDTH = 190
ROW_HEIGHT = 34
LABELS = {
    "thrifty": "makeroom (thrifty)",
    "summary": "summary when full",
    "off": "never compacted",
    "classic": "classic constants",
}


def costs(table: str) -> dict[str, float]:
    """Return the cost of each policy with re-reads, on sessions that it was not tuned on; `off` is 1.0."""
    rows = [line.split(" | ") for line in table.splitlines() if re.match(r"\| `\w+` \| ", line)]
    cells = {row[0].strip("| `"): row[COST_COLUMN - 1] for row in rows if row[1] == PRICE_TIER}
    return {policy: float(cells[policy].partition(" / ")[2]) for policy in LABELS}


def chart(found: dict[str, float]) -> str:
    """Return the chart as SVG: a bar for each policy."""
    scale = (WIDTH - LABEL_WIDTH - 70) / max(found.values())
    height = ROW_HEIGHT * len(found) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif"'
        ' font-size="14" role="img" aria-label="Cost of long sessions by policy">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        '<text x="10" y="22" fill="#555555">'
        "Cost of long sessions, re-reads included (never compacted = 1.0)</text>",
    ]
    for row, (policy, cost) in enumerate(found.items()):
        top = 36 + row * ROW_HEIGHT
        colour = "#2563eb" if policy == "thrifty" else "#9ca3af"
        length = round(cost * scale)
        lines += [
            f'<text x="10" y="{top + 18}" fill="#111111">{LABELS[policy]}</text>',
            f'<rect x="{LABEL_WIDTH}" y="{top + 2}" width="{length}" height="24" fill="{colour}"/>',
            f'<text x="{LABEL_WIDTH + length + 8}" y="{top + 18}" fill="#111111">{cost:.2f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    table = (FOLDER / "ECONOMY.md").read_text("utf-8")
    (FOLDER / "cost.svg").write_text(chart(costs(table)), "utf-8")


if __name__ == "__main__":
    main()

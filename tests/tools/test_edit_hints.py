"""After a failed edit the hint shows the text to copy: the next call with that text succeeds.

The wrong calls are made from files of installed packages: each takes a block of a file and spoils it as
models do. The next call takes the shown lines as they are. It succeeds if they are in the file once and
contain the lines that the first call meant.
"""

from __future__ import annotations

import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.edit_diagnostics import diagnose_mismatch

SIZES = (3, 8, 20)
OMISSIONS = ("# ...", "# ... existing code ...", "# rest of the function unchanged", "(unchanged code ...)")
MIN_SHARE = 0.92
MIN_SHARE_OF_A_KIND = 0.8


def spoiled(lines: list[str], first: int, size: int, rng: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yield (kind, lines) for each way to spoil a block."""
    block = lines[first : first + size]
    middle = rng.randrange(1, size)
    line = block[middle]
    indent = line[: len(line) - len(line.lstrip())]
    yield "a line too many", [*block, lines[first + size + 5]]
    yield "blank lines lost", [each for each in block if each.strip()]
    yield "an invented line", [*block[:middle], f"{indent}self.logger.debug('changed')", *block[middle:]]
    yield "indentation changed", [f"  {each}" if each.strip() else each for each in block]
    yield "indentation lost", [each.removeprefix("    ") for each in block]
    yield "whitespace", [re.sub(r"(?<=\S) (?=\S)", "  ", each, count=1) for each in block]
    if size > 4:
        yield "a line missing", [*block[:middle], *block[middle + 1 :]]
        yield "dots in the middle", [*block[:2], f"{indent}...", *block[-2:]]
        yield "a comment in the middle", [*block[:2], f"{indent}{rng.choice(OMISSIONS)}", *block[-2:]]
    if len(line.strip()) > 8:
        at = rng.randrange(len(indent), len(line) - 1)
        yield (
            "typo",
            [*block[:middle], line[:at] + line[at + 1] + line[at] + line[at + 2 :], *block[middle + 1 :]],
        )
    longest = max(range(size), key=lambda at: len(block[at]))
    yield "a line rewritten", [*block[:longest], f"{indent}compute_everything(a, b)", *block[longest + 1 :]]


def succeeds(text: str, old: str, meant: set[int]) -> bool:
    """Return whether the shown lines are in the file once and contain the meant ones."""
    hint = diagnose_mismatch(text, old, f"{old}\nx")
    rows = [row for row in (re.fullmatch(r"(\d+)\t(.*)", line) for line in hint.split("\n")) if row]
    numbers = [int(row[1]) for row in rows]
    shown = "\n".join(row[2] for row in rows)
    return bool(rows) and meant <= set(numbers) and text.count(shown) == 1


def measured(number: int) -> tuple[Counter[str], Counter[str]]:
    """Return (calls, successes) by kind for wrong calls from that number of files."""
    folder = Path(sysconfig.get_paths()["purelib"])
    paths = sorted(path for path in folder.glob("*/*.py") if 3_000 < path.stat().st_size < 60_000)
    rng = random.Random(7)
    calls = Counter[str]()
    successes = Counter[str]()
    for path in rng.sample(paths, number):
        text = path.read_text(encoding="utf-8", errors="replace")
        lines = text.split("\n")
        if "\r" in text or len(lines) < 60:
            continue
        for size in SIZES:
            first = rng.randrange(5, len(lines) - size - 10)
            meant = {at + 1 for at in range(first, first + size) if lines[at].strip()}
            for kind, wrong in spoiled(lines, first, size, rng):
                old = "\n".join(wrong)
                if meant and old.strip() and old not in text:
                    calls[kind] += 1
                    successes[kind] += succeeds(text, old, meant)
    return calls, successes


@pytest.mark.parametrize("number", [40, pytest.param(600, marks=pytest.mark.sweep)])
def test_the_shown_text_leads_to_success_in_the_next_call(number: int) -> None:
    calls, successes = measured(number)
    shares = {kind: successes[kind] / count for kind, count in calls.items()}
    print(successes.total(), calls.total(), shares)
    assert len(shares) == 11
    assert successes.total() >= MIN_SHARE * calls.total(), shares
    assert min(shares.values()) >= MIN_SHARE_OF_A_KIND, shares

"""Hazards: how likely a block of the history is to be needed again, and what carrying it has cost so far.

For every result and long tool input the tracker knows its kind, the calls since it was touched (a name in it
used anew, its file named), and `hold`: what carrying it has cost beyond the insurance that it was, in input
tokens at the full price. The table is what was seen on 37 recorded sessions of coding agents (READ_PART: on
7), in references (names that only a result had told) and edits whose old text the block showed, per million
token-calls. A session that refers back less than the table expects has its rates scaled down.
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from math import sqrt

from msgspec import Struct

AGE_BOUNDS = (2, 5, 10, 20, 40)  # calls since a block was touched, up to which each column of the table holds
OLDEST_AGE = AGE_BOUNDS[-1] + 1  # from which on age makes no difference
EDIT_WEIGHT = 13.0  # an edit out of view costs a failed call and a read beside the text


class Cell(IntEnum):
    """The kinds of blocks that the table tells apart."""

    READ_BEFORE_EDITS = 0  # nothing was edited yet in the session
    READ = 1
    READ_NAMED = 2  # its file was named twice or more since
    READ_EDITED = 3  # its file was edited since
    READ_PART = 4  # another part of its file was read since
    READ_AGAIN = 5  # its file was edited, or most of its lines were shown, and it was read again since
    OUTPUT_BEFORE_EDITS = 6
    OUTPUT = 7  # of commands, searches and all other tools
    OWN = 8  # the model's own new text
    PUT_BACK = 9  # output with text that was put back; references as 7 sessions had them


REFERENCE_RATES: Mapping[Cell, tuple[float, ...]] = {
    Cell.READ_BEFORE_EDITS: (147, 42, 14, 14, 14, 0),
    Cell.READ: (281, 44, 12, 8.8, 6.2, 0.8),
    Cell.READ_NAMED: (9, 3, 6, 2.6, 0.4, 0.5),
    Cell.READ_EDITED: (65, 5, 2.4, 2.9, 0.7, 0),
    Cell.READ_PART: (112, 9, 7, 6, 1.7, 0.6),
    Cell.READ_AGAIN: (16, 3, 1.1, 1, 0.5, 0.3),
    Cell.OUTPUT_BEFORE_EDITS: (198, 74, 53, 12, 2.7, 3.6),
    Cell.OUTPUT: (101, 19, 9, 5, 2, 0.6),
    Cell.OWN: (0, 0, 0, 0, 0, 0),
    Cell.PUT_BACK: (11, 1.5, 1.5, 0.5, 0.2, 0),
}
EDIT_RATES: Mapping[Cell, tuple[float, ...]] = {
    Cell.READ_BEFORE_EDITS: (7, 3, 1, 1.5, 0, 0),
    Cell.READ: (67, 7, 2.3, 1.2, 0.6, 0.1),
    Cell.READ_NAMED: (1.6, 0, 0.3, 0, 0, 0),
    Cell.READ_EDITED: (25, 0.2, 0.8, 0.4, 0.1, 0),
    Cell.READ_PART: (14, 1.5, 0.5, 0.5, 0.1, 0),
    Cell.READ_AGAIN: (4.5, 0.4, 0.1, 0.1, 0, 0),
    Cell.OUTPUT_BEFORE_EDITS: (0, 0, 0, 0, 0, 0),
    Cell.OUTPUT: (9, 2, 0.8, 0.2, 0, 0),
    Cell.OWN: (21, 9, 6, 2.5, 0.6, 0.1),
    Cell.PUT_BACK: (9, 2, 0.8, 0.2, 0, 0),  # that of output: none was seen
}


class HazardCurves(Struct, frozen=True):
    """Rates per token by cell and age (0 to OLDEST_AGE): of the next call, the same of references alone, and
    the mean over the calls that a cleared block is away.
    """

    following: tuple[tuple[float, ...], ...]
    references: tuple[tuple[float, ...], ...]
    mean: tuple[tuple[float, ...], ...]


@lru_cache(maxsize=8)
def hazard_curves(read: float, interval: int) -> HazardCurves:
    """The curves for a price of reading. `interval` is the calls from batch to batch at the standard price.

    The cheaper reading is, the longer a batch lasts.
    """
    horizon = max(1, round(interval * cheapness(read)))
    ages = range(OLDEST_AGE + 1)
    following = []
    references = []
    mean = []
    for cell in Cell:
        both = [_rate(cell, age, EDIT_WEIGHT) for age in range(OLDEST_AGE + horizon + 2)]
        following.append(tuple(both[age + 1] for age in ages))
        references.append(tuple(_rate(cell, age + 1, 0.0) for age in ages))
        mean.append(tuple(sum(both[age + 1 : age + 1 + horizon]) / horizon for age in ages))
    return HazardCurves(tuple(following), tuple(references), tuple(mean))


def cheapness(read: float) -> float:
    """Return the factor by which a batch waits longer than at the standard price of reading (0.1)."""
    return sqrt(0.1 / max(read, 0.001))


def _rate(cell: Cell, age: int, weight: float) -> float:
    column = sum(age > bound for bound in AGE_BOUNDS)
    return (REFERENCE_RATES[cell][column] + weight * EDIT_RATES[cell][column]) / 1e6

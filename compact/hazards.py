"""Hazards: how likely a block of the history is to be needed again, by its kind and its age.

The question
    Every block in view is sent, and paid for, with every request. Clearing it saves that, but if it is needed
    again the model has to fetch it: one more call, and the text once more. Which blocks are worth carrying
    depends on how likely they are to be needed with the next call. That likelihood per token and call is the
    *hazard* of a block, a term of survival analysis: here a block "fails" when it is needed.

What counts as needed
    Two things, counted on 37 recorded sessions of coding agents (READ_PART on 7):

    - a reference: a name that only this result had shown is used in a call or in text;
    - an edit: a call replaces text that this block showed.

    An edit whose text is out of view costs more than its price says, since the edit fails first: it weighs
    EDIT_WEIGHT references.

What it depends on
    Kind (`Cell`) and age, the number of calls since the block was last touched, that is shown, or its file
    named. The tables give rates per million token-calls. They fall steeply: a fresh `read` is needed 281
    times in a million token-calls, one that nobody touched for 20 calls 6 times, because work moves on. A
    file that was read again is shown by its newer block, so the older one (READ_AGAIN) is hardly needed; a
    page of a file of which another page was read since (READ_PART) still is. The model's own text (OWN) is
    never referred to by name, but edits replace it. Ages are counted in calls, not in minutes: a pause
    changes nothing in the work.

What the price of reading does
    At cached prices of 0.1 a token carried for ten calls costs as much as sending it once. `hazard_curves`
    gives the rate of the next call, and the mean over the calls that a cleared block is away, which decides
    what to clear. Where reading is cheaper, batches are rarer by `cheapness`, the square root of the ratio,
    and the mean runs over more calls.

A worked example
    A page of 1,400 tokens was read 30 calls ago; its file was neither named nor edited since. The prompt has
    40,000 tokens; reading from the cache costs 0.1 and writing to it 1.25 of an input token.

    1. Cell READ, age 30. Of the next 36 calls ten are in the fifth column, (6.2 + 26 * 0.6) / 1,000,000 = 22
       per million token-calls, and the others in the last, (0.8 + 26 * 0.1) = 3.4 per million. Mean: 8.5.
    2. If it is needed, one more call reads the prompt (40,000 * 0.1 = 4,000 tokens at full price), takes
       750 itself, and writes the text again (1,400 * 1.25 = 1,750): a loss of 6,500.
    3. Expected loss per token and call: 8.5 / 1,000,000 * 6,500 = 0.055.
    4. Carrying costs 0.1 per token and call. Losing it costs less, so the block may be cleared.

    At age 15 the mean is 18.7 per million and the expected loss 0.12: it stays. With a prompt of 100,000
    tokens a lost block costs 12,500, so the limit moves to older blocks: in a long context losing is dearer.

What corrects the tables
    A session that refers back less than the tables expect has its rates scaled down, never up
    (`BlockTracker.scale`).
"""

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from math import sqrt

from msgspec import Struct

AGE_BOUNDS = (2, 5, 10, 20, 40)  # calls since a block was touched, up to which each column of the table holds
OLDEST_AGE = AGE_BOUNDS[-1] + 1  # from which on age makes no difference
EDIT_WEIGHT = 26.0  # an edit out of view costs a failed call and a read beside the text


class Cell(IntEnum):
    """The kinds of blocks that the tables distinguish."""

    READ_BEFORE_EDITS = 0  # nothing was edited yet in the session
    READ = 1
    READ_NAMED = 2  # its file was named twice or more since
    READ_EDITED = 3  # its file was edited since
    READ_PART = 4  # another part of its file was read since
    READ_AGAIN = 5  # its file was edited, or most of its lines were shown, and it was read again since
    OUTPUT_BEFORE_EDITS = 6
    OUTPUT = 7  # of commands, searches and all other tools
    OWN = 8  # the model's own new text
    PUT_BACK = 9  # output with cleared text that was shown again; references as in 7 sessions


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
    """Rates per token by cell and age (0 to OLDEST_AGE).

    `following` is for the next call, `references` the same for references alone, `mean` the mean over the
    calls until the next batch.
    """

    following: tuple[tuple[float, ...], ...]
    references: tuple[tuple[float, ...], ...]
    mean: tuple[tuple[float, ...], ...]


@lru_cache(maxsize=8)
def hazard_curves(read: float, interval: int) -> HazardCurves:
    """Return the curves for a price of reading; `interval` is calls per batch at the standard price.

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
    return HazardCurves(tuple(following), references=tuple(references), mean=tuple(mean))


def cheapness(read: float) -> float:
    """Return the factor by which a batch waits longer than at the standard price of reading (0.1)."""
    return sqrt(0.1 / max(read, 0.001))


def _rate(cell: Cell, age: int, weight: float) -> float:
    column = sum(age > bound for bound in AGE_BOUNDS)
    return (REFERENCE_RATES[cell][column] + weight * EDIT_RATES[cell][column]) / 1e6

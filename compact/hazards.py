"""Hazards: how likely a block of the history is to be needed again, by its kind and its age.

The question
    Every block in view is sent, and paid for, with every request. Clearing it saves that, but if it is needed
    again, the model has to fetch it: one more call, and the text again. Which blocks are worth carrying
    depends on how likely they are to be needed with the next call. That likelihood per token and call is the
    *hazard* of a block, a term of survival analysis: here a block "fails" when it is needed.

What counts as needed
    Two things, counted on 37 recorded sessions of coding agents (READ_PART on 7, edits of READ_EDITED and of
    OWN on 38 others):

    - a reference: a name that only this result had shown is used in a call or in text;
    - an edit: a call replaces text that this block showed.

    An edit whose text is out of view costs more than its price says, since the edit fails first: it weighs
    EDIT_WEIGHT references. Where reading is cheaper, it weighs less in proportion: batches are rarer then,
    and with the same weight, edits would hardly ever be out of view, at a high price.

What it depends on
    Kind (`Cell`) and age: the number of calls since the block was last touched, which means shown, or its
    file named. The tables give rates per million token-calls. They fall steeply: a fresh `read` is needed 281
    times in a million token-calls, one that was not touched for 20 calls 6 times, because work moves on. A
    file that was read again is shown by its newer block, so the older one (READ_AGAIN) is hardly needed; a
    page of a file of which another page was read since (READ_PART) still is. The text that the model writes
    into files (OWN) is never referred to by name, but edits replace it, even long after. Nothing replaces
    the rest of its calls (ARGUMENT). Ages are counted in calls, not in minutes: a pause does not change what
    the work needs.

What the price of reading does
    At cached prices of 0.1 a token carried for ten calls costs as much as sending it once. `hazard_curves`
    gives the rate of the next call, and the mean over the calls that a cleared block is away, which decides
    what to clear. Where reading is cheaper, batches are rarer by `cheapness`, the square root of the ratio,
    and the mean runs over more calls.

A worked example
    A page of 1,400 tokens was read 30 calls ago; its file was neither named nor edited since. The prompt has
    40,000 tokens; reading from the cache costs 0.1 and writing to it 1.25 of an input token.

    1. Cell READ, age 30. Of the next 36 calls ten are in the fifth column, (6.2 + 20 * 0.6) / 1,000,000 = 18
       per million token-calls, and the others in the last, (0.8 + 20 * 0.1) = 2.8 per million. Mean: 7.1.
    2. If it is needed, one more call reads the prompt (40,000 * 0.1 = 4,000 tokens at full price), takes
       750 itself, and writes the text again (1,400 * 1.25 = 1,750): a loss of 6,500.
    3. Expected loss per token and call: 7.1 / 1,000,000 * 6,500 = 0.046.
    4. Carrying costs 0.1 per token and call. Losing it costs less, so the block may be cleared.

    At age 12 the mean is 18 per million and the expected loss 0.12: it stays. With a prompt of 100,000
    tokens a lost block costs 12,500, so the limit moves to older blocks: in a long context losing a block
    costs more.

What corrects the tables
    Sessions differ: one refers back to old outputs often, another edits its own text again and again. For
    references and for edits, and for each of the groups of `GROUPS`, the counts of a session are compared
    with those that the tables expect of what it has shown (`Evidence`). The rates are scaled by the ratio, up
    or down. In a session that has seen 9 edits of its own text where 3 were expected, that is
    (3 + 9) / (3 + 3) = 2. The 3 is the weight of the table: the posterior mean of a rate with a Gamma prior.
    Before the first edit, only a share of the edits counts as expected (EXPLORING_SHARE): a session that
    reads for long and then edits what it read would otherwise have cleared it by then. It is not 0, as some
    sessions only read.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from math import sqrt

from msgspec import Struct

AGE_BOUNDS = (2, 5, 10, 20, 40)  # the maximum age of each column of the table, in calls since the last touch
OLDEST_AGE = AGE_BOUNDS[-1] + 1  # from which on age makes no difference
STANDARD_READ = 0.1  # the price of a token from the cache that the weight of an edit is for
EDIT_WEIGHT = 20.0  # an edit out of view costs a failed call and a read beside the text
TABLE_WEIGHT = 3.0  # of the tables against what a session shows, in expected events
EXPLORING_SHARE = 0.25  # of the expected edits that counts before the first one
MIN_SCALE = 0.05  # of the rates of a session relative to the tables
MAX_SCALE = 3.0


class Cell(IntEnum):
    """The kinds of blocks that the tables distinguish."""

    READ = 0
    READ_EDITED = 1  # its file was edited since
    READ_PART = 2  # another part of its file was read since
    READ_AGAIN = 3  # its file was edited, or most of its lines were shown, and it was read again since
    OUTPUT = 4  # of commands, searches and all other tools
    OWN = 5  # the text that the model wrote into a file
    ARGUMENT = 6  # other text of a call: a command, a prompt, the text that an edit replaced


REFERENCE_RATES: Mapping[Cell, tuple[float, ...]] = {
    Cell.READ: (281, 44, 12, 8.8, 6.2, 0.8),
    Cell.READ_EDITED: (65, 5, 2.4, 2.9, 0.7, 0),
    Cell.READ_PART: (112, 9, 7, 6, 1.7, 0.6),
    Cell.READ_AGAIN: (16, 3, 1.1, 1, 0.5, 0.3),
    Cell.OUTPUT: (101, 19, 9, 5, 2, 0.6),
    Cell.OWN: (0, 0, 0, 0, 0, 0),
    Cell.ARGUMENT: (0, 0, 0, 0, 0, 0),
}
EDIT_RATES: Mapping[Cell, tuple[float, ...]] = {
    Cell.READ: (67, 7, 2.3, 1.2, 0.6, 0.1),
    Cell.READ_EDITED: (45, 3, 3, 1, 0.2, 0.1),
    Cell.READ_PART: (14, 1.5, 0.5, 0.5, 0.1, 0),
    Cell.READ_AGAIN: (4.5, 0.4, 0.1, 0.1, 0, 0),
    Cell.OUTPUT: (9, 2, 0.8, 0.2, 0, 0),
    Cell.OWN: (24, 10, 9, 4.5, 2.2, 0.5),
    Cell.ARGUMENT: (0, 0, 0, 0, 0, 0),
}


class Group(IntEnum):
    """The groups of cells that a session is compared with the tables for."""

    READS = 0
    OUTPUTS = 1
    OWN = 2


GROUPS: Mapping[Cell, Group] = {
    **dict.fromkeys(Cell, Group.READS),
    Cell.OUTPUT: Group.OUTPUTS,
    Cell.OWN: Group.OWN,
    Cell.ARGUMENT: Group.OWN,
}


class Evidence(Struct):
    """Counts of one kind of event in a session: those that were seen, and those that the table expects."""

    seen: float = 0.0
    expected: float = 0.0

    @property
    def scale(self) -> float:
        """The rate in this session relative to the table."""
        found = (TABLE_WEIGHT + self.seen) / (TABLE_WEIGHT + self.expected)
        return min(MAX_SCALE, max(MIN_SCALE, found))


class Curves(Struct, frozen=True):
    """Rates of references and of edits per token, by cell and age (0 to OLDEST_AGE).

    An edit counts as much as `edit_weight` references.
    """

    references: tuple[tuple[float, ...], ...]
    edits: tuple[tuple[float, ...], ...]
    edit_weight: float


class HazardCurves(Struct, frozen=True):
    """The rates of the next call (`following`), and their mean over the calls until the next batch."""

    following: Curves
    mean: Curves


@lru_cache(maxsize=8)
def hazard_curves(read: float, interval: int) -> HazardCurves:
    """Return the curves for a price of reading; `interval` is calls per batch at the standard price.

    The cheaper reading is, the longer a batch lasts.
    """
    calls = max(1, round(interval * cheapness(read)))
    weight = EDIT_WEIGHT * min(1.0, read / STANDARD_READ)
    return HazardCurves(following=_curves(1, weight), mean=_curves(calls, weight))


def _curves(calls: int, edit_weight: float) -> Curves:
    """Return the mean rates over so many of the next calls."""
    columns = [bisect_left(AGE_BOUNDS, age) for age in range(1, OLDEST_AGE + 1 + calls)]
    references, edits = (
        tuple(_means([rates[cell][column] for column in columns], calls) for cell in Cell)
        for rates in (REFERENCE_RATES, EDIT_RATES)
    )
    return Curves(references, edits=edits, edit_weight=edit_weight)


def _means(rates: Sequence[float], calls: int) -> tuple[float, ...]:
    """Return the mean rate over so many of the next calls for each age, given the rates from age 1 on."""
    return tuple(sum(rates[age : age + calls]) / calls / 1e6 for age in range(OLDEST_AGE + 1))


def cheapness(read: float) -> float:
    """Return the factor by which a batch waits longer than at the standard price of reading (0.1)."""
    return sqrt(STANDARD_READ / max(read, 0.001))

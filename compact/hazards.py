"""Hazards: how likely a block of the history is to be needed again, and what carrying it has cost so far.

For every result and long tool input the tracker knows its kind, the calls since it was touched (a name in it
used anew, its file named), and `hold`: what carrying it has cost beyond the insurance that it was, in input
tokens at the full price. The table is what was seen on 37 recorded sessions of coding agents (READ_PART: on
7), in references (names that only a result had told) and edits whose old text the block showed, per million
token-calls. A session that refers back less than the table expects has its rates scaled down.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from itertools import islice
from math import sqrt

from msgspec import Struct, field

from transcripts import (
    INJECTED_OPENING_TAG,
    PUT_BACK_START,
    UNKNOWN_BLOCK_FIELD,
    Block,
    Exchange,
    Folded,
    Prompt,
    Result,
    TextBlock,
    ToolKind,
    ToolUseBlock,
    finished_results,
)
from transcripts.patterns import lazy_pattern

from .clearing import MIN_CLEARED_TOKENS, PLACEHOLDER_TOKENS, clearable_fields, is_placeholder
from .identifiers import base_name, block_texts, file_path_of, joined_text, names
from .invariants import fact_at
from .prices import Prices

AGE_BOUNDS = (2, 5, 10, 20, 40)  # calls since a block was touched, up to which each column of the table holds
OLDEST_AGE = AGE_BOUNDS[-1] + 1  # from which on age makes no difference
EDIT_WEIGHT = 13.0  # an edit out of view costs a failed call and a read beside the text
PRIOR_REFERENCES = 5.0  # of the comparison of a session with the table
EXPECTED_SHARE = 0.5  # of what the table expects: fewer references than this scale its rates down
_INJECTED_START = f"{INJECTED_OPENING_TAG}\n"
SHOWN_IN = "[lines {first}-{last} are not repeated: as in {where} above]"  # of a page whose lines are in view
_FIRST_NUMBER = lazy_pattern(r" *(\d+)(?:→|\t)")
_SHOWN_IN_IDS = lazy_pattern(r"^\[lines \d+-\d+ are not repeated: as in .*\br(\d+) above\]$", re.MULTILINE)
MAX_NAMED_CHARS = 60_000  # of a result, in which names are looked for
REREAD_CALL_TOKENS = 750.0  # of a call that asks again: 150 of output at five times the price of input


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


_SUPERSEDED_CELLS = frozenset({Cell.READ, Cell.READ_NAMED, Cell.READ_PART, Cell.READ_EDITED, Cell.PUT_BACK})
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
    """Return how much longer than at the standard price of reading (0.1) a batch waits for the next."""
    return sqrt(0.1 / max(read, 0.001))


def _rate(cell: Cell, age: int, weight: float) -> float:
    column = sum(age > bound for bound in AGE_BOUNDS)
    return (REFERENCE_RATES[cell][column] + weight * EDIT_RATES[cell][column]) / 1e6


class TrackedBlock(Struct, eq=False):
    """A result (field "content") or a string field of a call: what clearing it would free, in our tokens."""

    seq: int
    index: int
    field: str
    tokens: int
    cell: Cell
    touched: int  # the call that touched it last
    path: str = ""  # of the file that it shows, as it was written
    lines: tuple[int, int] = (0, 0)  # first and last of the file's that it shows; (0, 0): not known
    named: int = 0  # times that its file was named since
    hold: float = 0.0
    needed_by: int = 0  # seq of the newest result that refers the model to it


class BlockTracker(Struct):
    """The blocks of a session that clearing could take, brought up to date with each call.

    `seen` and `expected` count references to blocks that are shown. `put_back` has, by the name of a file,
    (seq, block, field) of what holds text of it that was put back.
    """

    calls: int = 0
    edited: bool = False  # whether any file was edited yet
    seen: float = 0.0
    expected: float = 0.0
    blocks: list[TrackedBlock] = field(default_factory=list)
    put_back: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    _entries: int = 0  # that were looked at
    _settled: int = 0  # the call up to which `hold` counts
    _by_name: dict[str, list[TrackedBlock]] = field(default_factory=dict)
    _by_file: dict[str, list[TrackedBlock]] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)  # names that stood elsewhere than in results
    _shown: list[TrackedBlock] = field(default_factory=list)
    _looked_at: int = 0  # blocks that `_shown` was made of, under the edits of `_version`
    _version: tuple[int, int, int] = (0, 0, 0)

    def advance(self, folded: Folded) -> None:
        """Take in the entries that were added since."""
        entries = folded.entries
        while self._entries < len(entries):
            entry = entries[self._entries]
            if isinstance(entry, Prompt):
                self._use(names("\n".join(block_texts(entry.fact.blocks))), is_reply=False)
                _note_put_back(self.put_back, entry.fact.blocks, entry.seq, "text")
            elif entry.open and self._entries == len(entries) - 1:
                return
            else:
                self._add_exchange(folded, entry)
            self._entries += 1

    def shown(self, folded: Folded) -> Sequence[TrackedBlock]:
        """The blocks that the view shows whole, oldest first."""
        edits = folded.edits
        version = (len(edits.origins), max(edits.origins, default=0), len(edits.undone))
        if version != self._version:
            self._shown = []
            self._looked_at = 0
            self._version = version
        for block in islice(self.blocks, self._looked_at, None):
            if edits.shows(block.seq, block.index, block.field):
                self._shown.append(block)
        self._looked_at = len(self.blocks)
        return self._shown

    def of_file(self, name: str) -> Sequence[TrackedBlock]:
        """The blocks that show a file of this name, or did until they were cleared, oldest first."""
        return self._by_file.get(name, ())

    def settle(self, folded: Folded, prices: Prices, prompt: int, curves: HazardCurves) -> None:
        """Add to each block's `hold` what the calls since the last time have cost; `prompt` in our tokens."""
        steps = self.calls - self._settled
        self._settled = self.calls
        if steps <= 0:
            return
        scale = self.scale
        calls = self.calls
        read = prices.read * steps
        write = prices.write
        base = loss_base(prompt, prices)
        share = steps * scale / cheapness(prices.read)
        following = self.by_cell(curves.following)
        references = self.by_cell(curves.references)
        expected = 0.0
        for block in self.shown(folded):
            age = calls - block.touched
            size = block.tokens
            age = OLDEST_AGE if age > OLDEST_AGE else age
            rate = following[block.cell][age]
            hold = block.hold + size * (read - rate * share * (base + size * write))
            block.hold = hold if hold > 0 else 0.0
            expected += references[block.cell][age] * size
        self.expected += expected * steps

    @property
    def scale(self) -> float:
        """The rate at which this session refers back, against the table: at most 1."""
        return min(1.0, (PRIOR_REFERENCES + self.seen) / (PRIOR_REFERENCES + EXPECTED_SHARE * self.expected))

    def by_cell(self, curves: Sequence[tuple[float, ...]]) -> Sequence[tuple[float, ...]]:
        """Curves by the cell that a block carries; before the first edit, those of that time."""
        if self.edited:
            return curves
        early = list(curves)
        early[Cell.READ] = early[Cell.READ_NAMED] = curves[Cell.READ_BEFORE_EDITS]
        early[Cell.OUTPUT] = curves[Cell.OUTPUT_BEFORE_EDITS]
        return early

    def _add_exchange(self, folded: Folded, exchange: Exchange) -> None:
        self.calls += 1
        said = names("\n".join(block_texts(exchange.fact.blocks)))
        self._use(said, is_reply=True)
        for file in {base_name(name) for name in said} & self._by_file.keys():
            newest = self._by_file[file][-1]
            newest.touched = self.calls
            newest.named += 1
        for index, use in exchange.uses.items():
            result = exchange.results.get(index)
            path = file_path_of(use)
            kind = folded.kind_of(use.name)
            self._judge_reads(folded, use, result)
            for name, gain in clearable_fields(use, _tokens_at(exchange.fact.tokens, index)):
                self._track(TrackedBlock(exchange.seq, index, name, gain, Cell.OWN, self.calls, path))
            if result is not None and kind != "instructs":
                self._add_result(result, _cell_of(kind, result), use)
        self.blocks += _service_results(exchange, self.calls)

    def _add_result(self, result: Result, cell: Cell, use: ToolUseBlock) -> None:
        tokens = sum(result.tokens)
        text = joined_text(result.content)
        path = file_path_of(use)
        stays = sum(len(words) for pair in result.said for words in pair)  # characters of a person's words
        gain = tokens - PLACEHOLDER_TOKENS - (tokens * stays // max(1, len(text)) if stays else 0)
        put_back = _note_put_back(self.put_back, result.content, result.seq, "content")
        if gain < MIN_CLEARED_TOKENS or is_placeholder(text):
            return
        lines = lines_shown(use, result) if cell is Cell.READ else (0, 0)
        block = TrackedBlock(result.seq, 0, "content", gain, cell, self.calls, path, lines)
        self._track(block)
        for shown in put_back:
            if shown != base_name(path):
                self._by_file.setdefault(shown, []).append(block)
        for name in names(text[:MAX_NAMED_CHARS]):
            self._by_name.setdefault(name, []).append(block)

    def _track(self, block: TrackedBlock) -> None:
        self.blocks.append(block)
        if file := base_name(block.path):
            self._by_file.setdefault(file, []).append(block)

    def _judge_reads(self, folded: Folded, use: ToolUseBlock, result: Result | None) -> None:
        """A call was about this file: what earlier reads show of it may be out of date, or shown again."""
        kind = folded.kind_of(use.name)
        path = file_path_of(use)
        is_done = result is not None and not result.error
        if kind == "writes" and is_done:
            self.edited = True
        read = result if kind == "reads" else None
        still_needed = _pages_meant(folded, read) if read is not None else ()
        lines = lines_shown(use, read) if read is not None else (0, 0)
        for block in self._by_file.get(base_name(path), ()):  # others of that name, too: no dearer in replays
            block.touched = self.calls
            if block.seq in still_needed:  # as good as read again
                block.cell = Cell.READ
                block.named = 0
                block.hold = 0.0
                block.needed_by = read.seq if read is not None else 0
            elif block.cell in _SUPERSEDED_CELLS and result is not None:
                block.cell = _cell_after(block, kind if is_done else "other", lines)

    def _use(self, used: Iterable[str], is_reply: bool) -> None:
        """Names were said outside of results: the newest result that had told one of them was touched."""
        for name in used:
            if name in self._known:
                continue
            self._known.add(name)
            if sources := self._by_name.pop(name, None):
                sources[-1].touched = self.calls  # where it would be looked up
                self.seen += is_reply


def loss_base(prompt: int, prices: Prices) -> float:
    """Return the cost of a repeated read besides its text: one more call over a prompt of so many tokens."""
    return prompt * prices.read + REREAD_CALL_TOKENS


def _service_results(exchange: Exchange, calls: int) -> Iterator[TrackedBlock]:
    """Yield the results of the service's own tools in a reply, where clearing one frees enough."""
    for index in finished_results(exchange):
        gain = _tokens_at(exchange.fact.tokens, index) - PLACEHOLDER_TOKENS
        if gain >= MIN_CLEARED_TOKENS:
            yield TrackedBlock(exchange.seq, index, UNKNOWN_BLOCK_FIELD, gain, Cell.OUTPUT, calls)


def _tokens_at(tokens: Sequence[int], index: int) -> int:
    return tokens[index] if index < len(tokens) else 0


def _cell_of(kind: ToolKind, result: Result) -> Cell:
    """The cell that a new result begins in."""
    output = Cell.PUT_BACK if _files_put_back(result.content) else Cell.OUTPUT
    return Cell.READ if kind == "reads" else output


def _note_put_back(
    known: dict[str, list[tuple[int, int, str]]], content: Sequence[Block], seq: int, field: str
) -> set[str]:
    """Note where text that was put back stands, by file. Returns the files; a result is one block."""
    found = set()
    for index, block in enumerate(content):
        for file in _files_put_back((block,)):
            found.add(file)
            known.setdefault(file, []).append((seq, 0 if field == "content" else index, field))
    return found


def _files_put_back(content: Sequence[Block]) -> set[str]:
    """The names of the files of which cleared text was put back with a result or before a prompt."""
    texts = (block.text.removeprefix(_INJECTED_START) for block in content if isinstance(block, TextBlock))
    return {
        base_name(text[len(PUT_BACK_START) : text.find(",")].strip())
        for text in texts
        if text.startswith(PUT_BACK_START)
    }


def lines_shown(use: ToolUseBlock, result: Result) -> tuple[int, int]:
    """The first and last line of its file that a read shows, as it tells them or by its offset."""
    first = result.about.get("first")
    last = result.about.get("last")
    if isinstance(first, int) and isinstance(last, int):
        return first, last
    text = joined_text(result.content)
    told = _FIRST_NUMBER.match(text)
    begin = use.input.get("offset")
    first = int(told[1]) if told else begin if isinstance(begin, int) and begin > 0 else 1
    return first, first + text.count("\n")


def _cell_after(block: TrackedBlock, kind: ToolKind, lines: tuple[int, int]) -> Cell:
    """The cell of a block with whose file a call did something; `lines` are those that it read."""
    if kind == "writes":
        return Cell.READ_EDITED
    if kind != "reads":
        return Cell.READ_NAMED if block.cell is Cell.READ and block.named >= 2 else block.cell
    (first, last) = block.lines
    (begin, end) = lines
    shared = min(last, end) - max(first, begin) + 1
    if block.cell in (Cell.READ_EDITED, Cell.PUT_BACK) or not last or 2 * shared >= last - first + 1:
        return Cell.READ_AGAIN
    return Cell.READ_PART


def _pages_meant(folded: Folded, read: Result) -> set[int]:
    """The seqs of the results that a read refers the model to, and of those that these refer to."""
    same = read.about.get("unchanged")  # older records: True
    found = pages_referred_to(read.content)
    if isinstance(same, int) and not isinstance(same, bool):
        found.add(same)
    facts = [fact_at(folded, seq) for seq in found]
    return found.union(*(pages_referred_to(fact.content) for fact in facts if isinstance(fact, Result)))


def pages_referred_to(content: Sequence[Block]) -> set[int]:
    """The seqs of the results that a page refers to for lines that it does not repeat."""
    return {int(ident) for ident in _SHOWN_IN_IDS.findall(joined_text(content))}


def tracker_of(folded: Folded) -> BlockTracker:
    """The tracker of a session, up to date; made on first use and kept with what was folded."""
    tracker: BlockTracker = folded.derived.setdefault("hazards", BlockTracker())
    tracker.advance(folded)
    return tracker

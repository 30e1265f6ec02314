"""Track the blocks that could be cleared: their kind, and when they were last touched."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec import Struct, field

from transcripts import (
    Block,
    Clear,
    Entry,
    Exchange,
    Folded,
    Prompt,
    Reply,
    Result,
    TextBlock,
    ToolKind,
    ToolUseBlock,
    finished_results,
)

from .clearing import MIN_CLEARED_TOKENS, PLACEHOLDER_TOKENS, clearable_fields, is_placeholder, text_fields
from .hazards import (
    EXPLORING_SHARE,
    GROUPS,
    OLDEST_AGE,
    Cell,
    Curves,
    Evidence,
    Group,
    HazardCurves,
)
from .identifiers import MIN_LINE_CHARS, OLD_TEXT_ARGUMENTS, base_name, block_texts, joined_text, names
from .page_references import lines_shown, pages_referred_to, recorded_lines
from .patches import files_of, is_patch, old_texts, patched_text, shown_file
from .prices import Prices

MAX_SOURCES = 30  # newest texts of a file, searched for the old text of an edit
COVERED_CALLS = 1_200  # the newest calls, whose covered texts may be put back in a resumed session
REREAD_CALL_TOKENS = 750.0  # the price of a repeated call: 150 of output at five times the price of input
_SUPERSEDED_CELLS = frozenset({Cell.READ, Cell.READ_PART, Cell.READ_EDITED})


class TrackedBlock(Struct, eq=False):
    """A result (field "content") or a string field of a call; clearing it frees `tokens` (our count).

    A small text of the model is not cleared alone, but goes or stays with its message.
    """

    seq: int
    index: int
    field: str
    tokens: int
    cell: Cell
    touched: int  # the call that touched it last
    path: str = ""  # of the file that it shows, as written in the call
    lines: tuple[int, int] = (0, 0)  # first and last line of the file that it shows; (0, 0): unknown
    needed_by: int = 0  # seq of the newest result that refers the model to it
    small: bool = False  # clearing it alone would not pay for the placeholder

    @property
    def gain(self) -> int:
        """The tokens that clearing it alone frees."""
        return 0 if self.small else self.tokens


class BlockTracker(Struct):
    """The blocks of a session that could be cleared, updated with each call.

    `references` and `edits` count the events that hazards.py speaks of, by group. `put_back` maps the name of
    a file to (seq, block, field) of the blocks with cleared text of it that was shown again.

    Of the entries that summaries cover when a session is resumed, only the texts of files are kept, which may
    be put back: those of the newest COVERED_CALLS calls. Their contents are not read, as most were left in
    the transcript. Exchanges that summaries leave out count like all others, except that names in covered
    entries do not touch them.
    """

    calls: int = 0
    edited: bool = False  # whether any file was edited yet
    references: dict[Group, Evidence] = field(default_factory=lambda: {group: Evidence() for group in Group})
    edits: dict[Group, Evidence] = field(default_factory=lambda: {group: Evidence() for group in Group})
    blocks: list[TrackedBlock] = field(default_factory=list)
    put_back: dict[str, list[tuple[int, int, str]]] = field(default_factory=dict)
    _entries: int = 0  # number of entries processed
    _covered: list[int] = field(default_factory=list)  # entries that a summary covered when processed, by seq
    _skipped: int = 0  # number of entries before the newest calls; of these only uncovered ones are processed
    _undone: int = 0  # number of undone compactions, as far as `_covered` takes them into account
    # Blocks of covered entries that a later call may supersede, by the name of their file.
    _current: dict[str, list[TrackedBlock]] = field(default_factory=dict)
    _kept: dict[str, list[TrackedBlock]] = field(default_factory=dict)  # `blocks` by the name of their file
    _by_file: dict[str, list[TrackedBlock]] = field(default_factory=dict)  # the same with the covered ones
    _expected_until: int = 0  # the call up to which the expected events are counted
    _by_name: dict[str, list[TrackedBlock]] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)  # names that occurred outside of results
    _shown: list[TrackedBlock] = field(default_factory=list)
    _looked_at: int = 0  # number of blocks that `_shown` was made of, under the edits of `_version`
    _version: tuple[int, int, int] = (0, 0, 0)

    def advance(self, folded: Folded) -> None:
        """Process the entries that were added since the last call."""
        for _ in self.steps(folded):
            pass

    def steps(self, folded: Folded) -> Iterator[None]:
        """Process one of these entries with each step; `advance` may be called in between."""
        covering = folded.edits.covering
        if len(folded.edits.undone) != self._undone:
            if not all(map(covering, self._covered)):  # these count like all others
                self._begin_again()
            self._undone = len(folded.edits.undone)
        if self._entries == 0:
            self._skipped = _entries_before_newest_calls(folded)
        while self._entries < len(entries := folded.entries):
            entry = entries[self._entries]
            if (fold := covering(entry.seq)) is not None:
                if self._entries < self._skipped:
                    most = min(self._entries + 1_000, self._skipped)
                    end = bisect_right(entries, fold.last, lo=self._entries, hi=most, key=lambda one: one.seq)
                    passed = entries[self._entries : end]
                    self._covered += [one.seq for one in passed]
                    self.edited = self.edited or any(_writes(folded, one) for one in passed)
                    self._entries = end
                    yield
                    continue
                self._covered.append(entry.seq)
                if isinstance(entry, Exchange):
                    self._add_covered(folded, entry)
            elif isinstance(entry, Prompt):
                self._use(names("\n".join(block_texts(entry.fact.blocks))), is_reply=False)
                _note_put_back(self.put_back, entry.fact.blocks, entry.seq, "text")
            elif entry.open and self._entries == len(entries) - 1:
                return
            else:
                self._add_exchange(folded, entry)
            self._entries += 1
            yield

    def _begin_again(self) -> None:
        fresh = BlockTracker()
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))

    def shown(self, folded: Folded) -> Sequence[TrackedBlock]:
        """Return the blocks that the view shows in full, oldest first."""
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
        """Return the blocks that show a file of this name, or did until they were cleared, oldest first."""
        return self._by_file.get(name, ())

    def expect(self, folded: Folded, curves: HazardCurves) -> None:
        """Add the events to expect in the calls since the last time, by the tables.

        Before the first edit, few edits are: a session that explores hardly shows how often it will edit.
        """
        steps = self.calls - self._expected_until
        self._expected_until = self.calls
        if steps <= 0:
            return
        following = curves.following
        edit_steps = steps if self.edited else EXPLORING_SHARE * steps
        for block in self.shown(folded):
            age = min(self.calls - block.touched, OLDEST_AGE)
            group = GROUPS[block.cell]
            self.references[group].expected += steps * following.references[block.cell][age] * block.tokens
            self.edits[group].expected += edit_steps * following.edits[block.cell][age] * block.tokens

    def rates(self, curves: Curves, cell: Cell) -> list[float]:
        """Return the rates of a cell by age, scaled to this session, with edits by their weight."""
        group = GROUPS[cell]
        references = self.references[group].scale
        edits = curves.edit_weight * self.edits[group].scale
        both = zip(curves.references[cell], curves.edits[cell], strict=True)
        return [references * reference + edits * edit for reference, edit in both]

    def _add_exchange(self, folded: Folded, exchange: Exchange) -> None:
        self.calls += 1
        used = names("\n".join(block_texts(exchange.fact.blocks)))
        self._use(used, is_reply=True)
        for file in {base_name(name) for name in used} & self._by_file.keys():
            self._by_file[file][-1].touched = self.calls
        results = exchange.results
        for index, use in exchange.uses.items():
            result = results.get(index)
            touch = _touch_of(folded, use, result)
            blocks = [each for name in touch.file_names for each in self.of_file(name)]
            if touch.kind == "writes":
                self._count_edits(folded, use, blocks)
            self._judge_reads(folded, touch, result, blocks)
            for block in self._own_blocks(exchange, index, touch):
                self._track(block, touch.file_names if block.cell is Cell.OWN else ())
            if result is not None and touch.kind != "instructs":
                self._add_result(result, touch)
        self.blocks += _service_results(exchange, self.calls)

    def _add_covered(self, folded: Folded, exchange: Exchange) -> None:
        """Process an exchange that a summary covers, in time that does not depend on the earlier ones."""
        self.calls += 1
        results = exchange.results
        for index, use in exchange.uses.items():
            result = results.get(index)
            touch = _touch_of(folded, use, result, is_covered=True)
            if not touch.files:
                continue
            is_done = result is not None and not result.error
            self.edited = self.edited or (touch.kind == "writes" and is_done)
            own = self._own_blocks(exchange, index, touch)
            new = [block for block in own if block.cell is Cell.OWN]
            if result is not None:
                self._supersede(touch, result, is_done)
                if kept := [each for name in touch.file_names for each in self._kept.get(name, ())]:
                    self._judge_reads(folded, touch, result, kept)
                gain = sum(result.tokens) - PLACEHOLDER_TOKENS
                if gain >= MIN_CLEARED_TOKENS and touch.kind != "instructs":
                    block = self._result_block(result, gain, touch)
                    new.append(block)
                    for name in touch.file_names if touch.cell is Cell.READ else ():
                        self._current.setdefault(name, []).append(block)
            for name in touch.file_names if new else ():
                self._by_file.setdefault(name, []).extend(new)

    def _own_blocks(self, exchange: Exchange, index: int, touch: _Touch) -> Iterator[TrackedBlock]:
        """Yield the blocks of the fields of a call that can be cleared, and of all text for a file."""
        use = exchange.uses[index]
        clearable = dict(clearable_fields(use, _tokens_at(exchange.fact.tokens, index)))
        for name, size in text_fields(use, _tokens_at(exchange.fact.tokens, index)):
            cell = Cell.OWN if touch.kind == "writes" and name not in OLD_TEXT_ARGUMENTS else Cell.ARGUMENT
            if name in clearable or cell is Cell.OWN:
                yield TrackedBlock(
                    exchange.seq,
                    index=index,
                    field=name,
                    tokens=clearable.get(name, size),
                    cell=cell,
                    touched=self.calls,
                    path=touch.path,
                    small=name not in clearable,
                )

    def _result_block(self, result: Result, gain: int, touch: _Touch) -> TrackedBlock:
        """Return the block of a result, whose clearing frees `gain` tokens."""
        return TrackedBlock(
            result.seq,
            index=0,
            field="content",
            tokens=gain,
            cell=touch.cell,
            touched=self.calls,
            path=touch.path,
            lines=touch.lines,
        )

    def _supersede(self, touch: _Touch, result: Result, is_done: bool) -> None:
        """Update the covered blocks of the files of a call. Those that were read again change no more."""
        kind = touch.kind if is_done else "other"
        same = result.about.get("unchanged")
        for name in touch.file_names:
            if current := self._current.get(name):
                for block in current:
                    if block.seq != same:
                        block.cell = _cell_after(block, kind, touch.lines)
                self._current[name] = [block for block in current if block.cell in _SUPERSEDED_CELLS]

    def _add_result(self, result: Result, touch: _Touch) -> None:
        tokens = sum(result.tokens)
        text = joined_text(result.content)
        stays = sum(len(words) for pair in result.remarks for words in pair)  # characters of the user's words
        gain = tokens - PLACEHOLDER_TOKENS - (tokens * stays // max(1, len(text)) if stays else 0)
        put_back = _note_put_back(self.put_back, result.content, result.seq, "content")
        if gain < MIN_CLEARED_TOKENS or is_placeholder(text):
            return
        block = self._result_block(result, gain, touch)
        self._track(block, touch.file_names)
        for shown in put_back:
            if shown != base_name(touch.path):
                self._by_file.setdefault(shown, []).append(block)
        for name in names(text[:60_000]):  # a longer result is searched for names in its beginning only
            self._by_name.setdefault(name, []).append(block)

    def _track(self, block: TrackedBlock, file_names: Iterable[str]) -> None:
        self.blocks.append(block)
        for name in file_names:
            self._by_file.setdefault(name, []).append(block)
            self._kept.setdefault(name, []).append(block)

    def _judge_reads(
        self, folded: Folded, touch: _Touch, result: Result | None, blocks: Iterable[TrackedBlock]
    ) -> None:
        """Update blocks of the files of a call: they may be out of date, or shown again."""
        is_done = result is not None and not result.error
        if touch.kind == "writes" and is_done:
            self.edited = True
        read = result if touch.kind == "reads" else None
        still_needed = _pages_meant(folded, read) if read is not None else ()
        # files of the same name, too: no costlier in replays
        for block in blocks:
            block.touched = self.calls
            if block.seq in still_needed:  # counts as read again
                block.cell = Cell.READ
                block.needed_by = read.seq if read is not None else 0
            elif block.cell in _SUPERSEDED_CELLS and result is not None:
                block.cell = _cell_after(block, touch.kind if is_done else "other", touch.lines)

    def _count_edits(self, folded: Folded, use: ToolUseBlock, blocks: Iterable[TrackedBlock]) -> None:
        """Count the edits of a call by the newest block of its files that shows the text they replace."""
        newest = sorted(blocks, key=lambda block: -block.seq)[:MAX_SOURCES]
        for old in old_texts(use):
            lines = [line for line in map(str.strip, old.split("\n")) if len(line) >= MIN_LINE_CHARS]
            texts = ((block, _shown_text(folded, block)) for block in newest if lines)
            found = (block for block, text in texts if all(line in text for line in lines))
            if (block := next(found, None)) is not None:
                self.edits[GROUPS[block.cell]].seen += 1

    def _use(self, used: Iterable[str], is_reply: bool) -> None:
        """Mark the newest result with each name as touched, since the name was used outside of results."""
        for name in used:
            if name in self._known:
                continue
            self._known.add(name)
            if sources := self._by_name.pop(name, None):
                sources[-1].touched = self.calls  # where the model would look
                self.references[GROUPS[sources[-1].cell]].seen += is_reply


def _entries_before_newest_calls(folded: Folded) -> int:
    """Return the number of entries before the newest COVERED_CALLS calls."""
    calls = 0
    for at in range(len(folded.entries) - 1, -1, -1):
        entry = folded.entries[at]
        calls += len(entry.uses) if isinstance(entry, Exchange) else 0
        if calls > COVERED_CALLS:
            return at + 1
    return 0


def _writes(folded: Folded, entry: Entry) -> bool:
    return isinstance(entry, Exchange) and any(
        folded.kind_of(use.name) == "writes" for use in entry.uses.values()
    )


class _Touch(NamedTuple):
    """The files of a call, its kind of work on them, and the first and last line that it shows."""

    kind: ToolKind
    files: Sequence[str]
    lines: tuple[int, int] = (0, 0)

    @property
    def path(self) -> str:
        """The first of the files, "" if there are none."""
        return self.files[0] if self.files else ""

    @property
    def file_names(self) -> Sequence[str]:
        """The names of the files without their directories, each once."""
        return list(dict.fromkeys(map(base_name, self.files)))

    @property
    def cell(self) -> Cell:
        """The cell of its result."""
        return Cell.READ if self.kind == "reads" else Cell.OUTPUT


def _touch_of(
    folded: Folded, use: ToolUseBlock, result: Result | None, *, is_covered: bool = False
) -> _Touch:
    """Return the work of a call on files; a command that prints a file reads it, a patch writes.

    The contents of covered results are not read.
    """
    files = [file for file in files_of(use) if base_name(file)]
    if is_patch(use):
        return _Touch("writes", files=files)
    kind = folded.kind_of(use.name)
    shown = shown_file(use) if kind == "runs" else None
    if kind != "reads" and shown is None:
        return _Touch(kind, files=files)
    lines = shown.lines if shown is not None else (0, 0)
    if not any(lines) and result is not None:
        lines = recorded_lines(result) or (0, 0) if is_covered else lines_shown(use, result)
    return _Touch("reads", files=files, lines=lines)


def _shown_text(folded: Folded, block: TrackedBlock) -> str:
    """Return the text of a result or of a field of a call; of a patch, the text left in its files."""
    fact = folded.fact_at(block.seq)
    if isinstance(fact, Result):
        return joined_text(fact.content)
    use = fact.blocks[block.index] if isinstance(fact, Reply) else None
    value = use.input.get(block.field) if isinstance(use, ToolUseBlock) else None
    return patched_text(value) if isinstance(value, str) else ""


def loss_base(prompt: int, prices: Prices) -> float:
    """Return the cost of a repeated read besides its text: one more call with a prompt of that size."""
    return prompt * prices.read + REREAD_CALL_TOKENS


def _service_results(exchange: Exchange, calls: int) -> Iterator[TrackedBlock]:
    """Yield the results of the service's own tools in a reply, if clearing one frees enough."""
    for index in finished_results(exchange):
        gain = _tokens_at(exchange.fact.tokens, index) - PLACEHOLDER_TOKENS
        if gain >= MIN_CLEARED_TOKENS:
            yield TrackedBlock(
                exchange.seq,
                index=index,
                field=Clear.UNKNOWN_BLOCK,
                tokens=gain,
                cell=Cell.OUTPUT,
                touched=calls,
            )


def _tokens_at(tokens: Sequence[int], index: int) -> int:
    return tokens[index] if index < len(tokens) else 0


def _note_put_back(
    known: dict[str, list[tuple[int, int, str]]], content: Sequence[Block], seq: int, field: str
) -> set[str]:
    """Record by file the blocks with cleared text that was shown again. Returns the files."""
    found = set()
    for index, block in enumerate(content):
        text = block.injected_text or block.text if isinstance(block, TextBlock) else ""
        if text.startswith(TextBlock.PUT_BACK_START):
            file = base_name(text[len(TextBlock.PUT_BACK_START) : text.find(",")].strip())
            found.add(file)
            known.setdefault(file, []).append((seq, 0 if field == "content" else index, field))
    return found


def _cell_after(block: TrackedBlock, kind: ToolKind, lines: tuple[int, int]) -> Cell:
    """Return the cell of a block after a call about its file; `lines` are those that the call read."""
    if kind == "writes":
        return Cell.READ_EDITED
    if kind != "reads":
        return block.cell
    first, last = block.lines
    begin, end = lines
    shared = min(last, end) - max(first, begin) + 1
    if block.cell is Cell.READ_EDITED or not last or 2 * shared >= last - first + 1:
        return Cell.READ_AGAIN
    return Cell.READ_PART


def _pages_meant(folded: Folded, read: Result) -> set[int]:
    """Return the seqs of the results that a read refers the model to, and that those refer to."""
    same = read.about.get("unchanged")  # older records: True
    found = pages_referred_to(read.content)
    if isinstance(same, int) and not isinstance(same, bool):
        found.add(same)
    facts = [folded.fact_at(seq) for seq in found]
    return found.union(*(pages_referred_to(fact.content) for fact in facts if isinstance(fact, Result)))


def tracking_steps(folded: Folded) -> Iterator[None]:
    """Update the tracker of a session, one entry per step; all entries of a long session take a second."""
    return folded.memo(BlockTracker).steps(folded)


def tracker_of(folded: Folded) -> BlockTracker:
    """Return the updated tracker of a session; it is created once and kept with the folded facts."""
    tracker = folded.memo(BlockTracker)
    tracker.advance(folded)
    return tracker

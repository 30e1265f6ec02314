"""Show cleared or summarized lines again when their file is touched and an edit is likely to need them.

The lines are appended to the result of the call that touches the file, or put before the prompt that names
it, with their recall id. Nothing before them changes, so the prompt cache stays valid. They are shown only if
that pays: the hazard that an edit misses them, times the cost of a failed call and a read, must exceed the
cost of writing and keeping them. Lines that the view still shows, or that the file no longer contains, are
left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from transcripts import (
    Block,
    Fact,
    Folded,
    Prompt,
    Reply,
    Result,
    TextBlock,
    ToolUseBlock,
    User,
    file_patches,
)
from transcripts.patterns import lazy_pattern

from .block_tracker import BlockTracker, TrackedBlock, loss_base, tracker_of
from .hazards import Cell, cheapness, hazard_curves
from .identifiers import (
    MIN_LINE_CHARS,
    OLD_TEXT_ARGUMENTS,
    base_name,
    block_texts,
    file_path_of,
    joined_text,
    may_be_same,
    names,
    strings,
)
from .page_references import longest_own_stretch
from .prices import Prices
from .settings import CompactSettings

MAX_SPANS = 2  # shown with one call
SMALL_TOKENS = 600  # of a text that is shown in full
SMALL_SHARE = 0.05  # of the request, that such a text may be large if that is more
HEADING_TOKENS = 40  # of the line above a text
MAX_SPAN_LINES = 40  # of a longer text, around the lines that the call is about
SAME_LINE_WEIGHT = 10.0  # of a line that a failed call contains, against a rare name in a line
CARRIED_CALLS = 20  # at the standard price, after which unused lines are cleared again
MAX_SHOWN_SHARE = 0.7  # of the lines of a span: if more of them are in view, it is not shown again
_NUMBERED = lazy_pattern(r"^ *(\d+)(?:→|\t| ?[|:│] ?)(.*)$")  # the text's own indentation stays
_LINE_NAMED = lazy_pattern(r"(?:\bline |:)(\d{1,6})\b")


class FileTouch(Struct, frozen=True):
    """A call and its result, or a prompt.

    `prompt` is the size of the request that includes it, in our tokens. `real` returns the real path of a
    file that a call names, "" if there is no such file.
    """

    use: ToolUseBlock | None
    content: tuple[Block, ...]
    error: bool
    prompt: int
    real: Callable[[str], str] = lambda name: ""


class ClearedText(Struct, frozen=True):
    """A text that is no longer shown: its recall id, the name of its file in the call, its plain lines.

    `first` is the number of its first line in the file, 0 if unknown.
    """

    ident: str
    path: str
    lines: tuple[str, ...]
    first: int = 0


class PutBackRules(Struct, frozen=True):
    """The inputs for showing text again: settings, prices, and a counter of tokens.

    `whole` returns a result with its content, which a resumed session has left in the transcript.
    """

    settings: CompactSettings
    prices: Prices
    count: Callable[[str], int]
    whole: Callable[[Fact | None], Fact | None] = lambda fact: fact

    def needed_by(self, folded: Folded, touch: FileTouch) -> NeededText:
        """Return the cleared text that a call or a prompt needs again; usually there is none."""
        return NeededText(touch, rules=self, texts=tuple(_cleared_texts(folded, touch, self)))


class NeededText(Struct, frozen=True):
    """The cleared texts of the files that a call or a prompt touches and that pay, newest first.

    `present` maps paths to the files' current texts, with unified line endings; lines that are not in them
    are left out. It is None without files, as in a replay.
    """

    touch: FileTouch
    rules: PutBackRules
    texts: tuple[ClearedText, ...] = ()
    present: Mapping[str, str] | None = None

    @property
    def paths(self) -> set[str]:
        """The files of the texts, as the calls named them."""
        return {text.path for text in self.texts}

    def blocks(self, folded: Folded) -> tuple[TextBlock, ...]:
        """Return the spans to append to the result of the call, of those that `folded` does not show."""
        if not self.texts:
            return ()
        folder = folded.opened.folder if folded.opened else ""
        room = self.rules.settings.put_back_max_tokens
        count = self.rules.count
        small = max(SMALL_TOKENS, SMALL_SHARE * self.touch.prompt)
        blocks = list[TextBlock]()
        shown = _lines_in_view(folded, self.touch)
        clues = _Clues.of(self.touch)
        ranked = sorted(self.texts, key=lambda text: -clues.best(text))
        for text in ranked:
            is_small = count("\n".join(text.lines)) <= min(room - HEADING_TOKENS, small)
            span = text if is_small else _span(text, clues, room, count)
            if span is None or _is_shown(span.lines, shown):
                continue
            if self.present is not None:
                span = _still_true(span, self.present.get(text.path, ""))
                if span is None:
                    continue
            shown_text = _as_told(span, folder)
            tokens = count(shown_text)
            if tokens > room:
                continue
            blocks.append(TextBlock(shown_text))
            shown.update(map(str.strip, span.lines))
            room -= tokens
            if len(blocks) == MAX_SPANS:
                break
        return tuple(blocks)


def _cleared_texts(folded: Folded, touch: FileTouch, rules: PutBackRules) -> list[ClearedText]:
    edits = folded.edits
    if rules.settings.policy != "thrifty" or not rules.settings.put_back_max_tokens:
        return []
    if not edits.clears and not edits.folds:
        return []
    tracker = tracker_of(folded)
    found = []
    is_failed_edit = touch.use is not None and touch.error and folded.kind_of(touch.use.name) == "writes"
    for file, written in _files_touched(touch, tracker).items():
        paths = [touch.real(name) or name for name in written]
        for block in reversed(tracker.of_file(file)):
            if edits.shows(block.seq, block.index, block.field):
                continue
            if is_failed_edit or _pays(block, tracker, touch.prompt, rules):
                texts = _texts_of(folded, block, rules.whole)
                found += [text for text in texts if any(_is_meant(text.path, path) for path in paths)]
    return found


def _files_touched(touch: FileTouch, tracker: BlockTracker) -> dict[str, list[str]]:
    """Return the files that a call, a prompt or an error names, and of which a text may be known.

    Maps the file's name to its paths as written.
    """
    use = touch.use
    text = joined_text(touch.content) if touch.error or touch.use is None else ""
    if use is not None:
        text += "\n" + (file_path_of(use) if _is_edit(use) else "\n".join(strings(use.input)))
    found = dict[str, list[str]]()
    for path in (file_path_of(use) if use is not None else "", *sorted(names(text))):
        found.setdefault(base_name(path), []).append(path)
    return {file: paths for file, paths in found.items() if file and tracker.of_file(file)}


def _is_meant(known: str, path: str) -> bool:
    """Return whether a path names a known file; a relative path may be the end of the known one."""
    return known == path if known.startswith("/") and path.startswith("/") else may_be_same(known, path)


def _is_edit(use: ToolUseBlock) -> bool:
    return any(name in use.input for name in (*OLD_TEXT_ARGUMENTS, "edits"))


def _pays(block: TrackedBlock, tracker: BlockTracker, prompt: int, rules: PutBackRules) -> bool:
    """Return whether missing the block until it would be cleared again costs more than keeping it."""
    prices = rules.prices
    curves = hazard_curves(rules.prices.read, rules.settings.batch_interval_calls)
    calls = round(CARRIED_CALLS * cheapness(prices.read))
    needed = sum(tracker.rates(curves.following, block.cell)[:calls])
    return needed * (loss_base(prompt, prices) + block.tokens * prices.write) > (
        prices.write + calls * prices.read
    )


def _texts_of(
    folded: Folded, block: TrackedBlock, whole: Callable[[Fact | None], Fact | None]
) -> list[ClearedText]:
    """Return the text of a cleared block without the line numbers of a read, [] for other blocks.

    Of a patch, one text for each piece of a file that it changed.
    """
    fact = whole(folded.fact_at(block.seq))
    if isinstance(fact, Result):
        return [_text_read(fact, block)] if block.cell is not Cell.OUTPUT else []
    use = fact.blocks[block.index] if isinstance(fact, Reply) else None
    value = use.input.get(block.field) if isinstance(use, ToolUseBlock) else None
    result = _result_of(folded, block)
    if not isinstance(use, ToolUseBlock) or not isinstance(value, str) or result is None or result.error:
        return []
    ident = f"r{block.seq}.{block.index}"
    if file_path_of(use):
        return [ClearedText(ident, path=_path_told(result, block), lines=tuple(value.split("\n")))]
    return [
        ClearedText(ident, path=change.path, lines=tuple(hunk.new.split("\n")))
        for change in file_patches(value)
        for hunk in change.hunks
    ]


def _text_read(fact: Result, block: TrackedBlock) -> ClearedText:
    """Return the text of a result that shows a file."""
    lines = joined_text([part for part in fact.content if not part.is_injected]).split("\n")
    numbered = [hit for line in lines if (hit := _NUMBERED.match(line))]
    path = _path_told(fact, block)
    if len(numbered) > len(lines) // 2:
        return ClearedText(
            f"r{block.seq}", path=path, lines=tuple(hit[2] for hit in numbered), first=int(numbered[0][1])
        )
    # A reference would be shown in a place where later compactions do not look for one.
    return ClearedText(f"r{block.seq}", path=path, lines=longest_own_stretch(lines))


def _path_told(result: Result, block: TrackedBlock) -> str:
    path = result.about.get("path")
    return path if isinstance(path, str) else block.path


def _result_of(folded: Folded, block: TrackedBlock) -> Result | None:
    exchange = folded.conversation.exchange_of(block.seq)
    return exchange.results.get(block.index) if exchange else None


def _lines_in_view(folded: Folded, touch: FileTouch) -> set[str]:
    """Return the stripped lines that the view shows of the files of a call, and of its own result."""
    tracker = tracker_of(folded)
    edits = folded.edits
    texts = list(block_texts(touch.content if touch.use is None else (touch.use, *touch.content)))
    if last := folded.conversation.last_exchange:
        for result in last.results.values():
            if (result.seq, 0) not in edits.clears and edits.covering(result.seq) is None:
                texts += block_texts(result.content)
    for entry in folded.entries[-2:]:
        texts += block_texts(entry.fact.blocks) if isinstance(entry, Prompt) else ()
    for file in _files_touched(touch, tracker):
        for block in tracker.of_file(file):
            if edits.shows(block.seq, block.index, block.field):
                texts += _shown_texts(folded.fact_at(block.seq), block.index)
        for seq, index, field in tracker.put_back.get(file, ()):
            if edits.shows(seq, index, field):
                texts += _shown_texts(folded.fact_at(seq), index)
    return {_plain(line).strip() for text in texts for line in text.split("\n")}


def _shown_texts(fact: Fact | None, index: int) -> Iterator[str]:
    if isinstance(fact, Result):
        yield from block_texts(fact.content)
    elif isinstance(fact, Reply | User):
        yield from block_texts((fact.blocks[index],))


def _plain(line: str) -> str:
    hit = _NUMBERED.match(line)
    return hit[2] if hit else line


def _is_shown(lines: Sequence[str], shown: set[str]) -> bool:
    telling = [line.strip() for line in lines if len(line.strip()) >= MIN_LINE_CHARS]
    return not telling or sum(line in shown for line in telling) > MAX_SHOWN_SHARE * len(telling)


class _Clues(Struct, frozen=True):
    """Clues to the lines that a call is about: names, line numbers, and lines that a failed call contains."""

    lines: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[int]

    @classmethod
    def of(cls, touch: FileTouch) -> _Clues:
        outcome = joined_text(touch.content)
        inputs = [outcome] if touch.use is None else list(strings(touch.use.input))
        texts = (*inputs, outcome) if touch.error else ()
        lines = (_plain(line).strip() for text in texts for line in text.split("\n"))
        numbers = {int(hit) for hit in _LINE_NAMED.findall(outcome)}
        numbers |= {int(hit[1]) for line in outcome.split("\n") if (hit := _NUMBERED.match(line))}
        telling = frozenset(line for line in lines if len(line) >= MIN_LINE_CHARS)
        return cls(telling, frozenset(names("\n".join(inputs))), frozenset(numbers))

    def best(self, text: ClearedText) -> float:
        """Return the relevance of the most relevant line of a text."""
        return max(self.weights(text), default=0.0)

    def weights(self, text: ClearedText) -> list[float]:
        """Return the relevance of each line of a text to the call."""
        rare = {name: 1 / max(1, sum(name in line for line in text.lines)) for name in self.names}
        times = Counter(line.strip() for line in text.lines)
        found = []
        for number, line in enumerate(text.lines, text.first):
            plain = line.strip()
            weight = SAME_LINE_WEIGHT / times[plain] if plain in self.lines else 0.0
            weight += text.first > 0 and number in self.numbers
            found.append(weight + sum(rare[name] for name in self.names if name in line))
        return found


def _span(text: ClearedText, clues: _Clues, room: int, count: Callable[[str], int]) -> ClearedText | None:
    """Return the lines of a text that the call is about; None if these are unknown."""
    size = MAX_SPAN_LINES
    weights = clues.weights(text)
    best = max(range(len(weights)), key=weights.__getitem__, default=0)
    if not weights or weights[best] <= 0:
        return None
    while size > 2:
        starts = range(max(0, best - size + 1), best + 1)
        start = max(starts, key=lambda at: (sum(weights[at : at + size]), -abs(at + size // 2 - best)))
        lines = text.lines[start : start + size]
        if count("\n".join(lines)) <= room - HEADING_TOKENS:
            return ClearedText(
                text.ident, path=text.path, lines=lines, first=text.first and text.first + start
            )
        size //= 2
    return None


def _still_true(span: ClearedText, present: str) -> ClearedText | None:
    """Return the span with its current place if the file still contains it, else None.

    The model's own text may begin within a line.
    """
    body = "\n".join(span.lines).strip("\n")
    place = f"\n{present}\n".find(f"\n{body}\n")
    if place < 0 and "." in span.ident:
        place = present.find(body)
    if place < 0:
        return None
    return ClearedText(
        span.ident, path=span.path, lines=tuple(body.split("\n")), first=present.count("\n", 0, place) + 1
    )


def _as_told(span: ClearedText, folder: str) -> str:
    where = f"lines {span.first}-{span.first + len(span.lines) - 1}" if span.first else "part"
    path = span.path.removeprefix(f"{folder.rstrip('/')}/")
    return (
        f"{TextBlock.PUT_BACK_START} {path}, {where}, shown earlier and cleared ({span.ident})]\n"
        + "\n".join(span.lines)
    )

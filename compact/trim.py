"""Trim a page of a file before it is first sent: leave out the lines that pages in view show already.

A result that is shortened before it is sent never breaks the prompt cache. A run of lines that an earlier
page shows, byte for byte, is replaced by one line with their numbers and the id of that page
(page_references.py). Short runs stay, and so does a page of which little would be left out.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from transcripts import Block, Folded, Result, TextBlock, ToolUseBlock
from transcripts.patterns import lazy_pattern

from .block_tracker import tracker_of
from .identifiers import base_name, file_path_of, joined_text
from .page_references import unchanged_lines

MIN_RUN_LINES = 8  # that are left out together
MIN_TRIMMED_CHARS = 800  # of a page that is worth trimming
MIN_TRIMMED_SHARE = 0.5  # of the characters of a page, repeated
MAX_PAGES = 3  # in view, that a new one is compared with
MAX_PAGE_LINES = 4_000
_NUMBERED_LINE = lazy_pattern(r" *(\d+)(?:→|\t)(.*)", re.DOTALL)


class _Page(Struct, frozen=True):
    """The lines of a file that a result shows, by their numbers; `ident` recalls it."""

    ident: str
    numbers: tuple[int, ...]
    lines: tuple[str, ...]


def trim_page(folded: Folded, use: ToolUseBlock, content: tuple[Block, ...], path: str) -> tuple[Block, ...]:
    """Return the content of a read without the runs of lines that earlier pages in view show.

    `path` is the file's path as recorded with the results, "" if it is not recorded.
    """
    first = content[0] if content else None  # an empty result of another agent's session has no block
    if not isinstance(first, TextBlock) or len(first.text) < MIN_TRIMMED_CHARS:
        return content
    file = file_path_of(use)
    rows = first.text.split("\n")
    if folded.kind_of(use.name) != "reads" or not file or len(rows) > MAX_PAGE_LINES:
        return content
    earlier = list(_pages_in_view(folded, use, path))
    if not earlier or not (page := _page("", rows)):
        return content
    places = _found_in(page, earlier)
    omitted = sum(len(page.lines[at]) for at in places)
    if omitted < max(MIN_TRIMMED_CHARS, MIN_TRIMMED_SHARE * sum(map(len, page.lines))):
        return content
    return (TextBlock("\n".join(_trimmed(rows, page, places))), *content[1:])


def _pages_in_view(folded: Folded, call: ToolUseBlock, path: str) -> Iterator[_Page]:
    """Yield the newest pages of the file of a call that the view shows in full."""
    edits = folded.edits
    file = file_path_of(call)
    left = MAX_PAGES
    shown = (block.seq for block in reversed(tracker_of(folded).of_file(base_name(file))))
    for seq in dict.fromkeys((*_above_in_its_reply(folded, call), *shown)):
        fact = folded.fact_at(seq)
        if not isinstance(fact, Result) or not edits.shows(seq, 0, "content"):
            continue
        exchange = folded.conversation.exchange_of(fact.of)
        use = exchange.use(fact.block) if exchange else None
        if (
            use is None
            or not _is_same_file(use, fact, file, path)
            or folded.kind_of(use.name) != "reads"
            or fact.error
        ):
            continue
        if page := _page(f"r{fact.seq}", joined_text(fact.content).split("\n")):
            yield page
            left -= 1
        if not left:
            return


def _above_in_its_reply(folded: Folded, call: ToolUseBlock) -> list[int]:
    """Return the seqs of the results so far above that of a call of the newest reply, the nearest first."""
    if (last := folded.conversation.last_exchange) is None:
        return []
    index = next((index for index, use in last.uses.items() if use.id == call.id), 0)
    results = last.results
    return [results[above].seq for above in sorted(results, reverse=True) if above < index]


def _is_same_file(use: ToolUseBlock, result: Result, file: str, path: str) -> bool:
    return result.about.get("path") == path if path else file_path_of(use) == file


def _page(ident: str, rows: Sequence[str]) -> _Page | None:
    """Return the numbered lines among the rows, None if there are too few for a page."""
    found = [hit for row in rows if (hit := _NUMBERED_LINE.fullmatch(row))]
    if len(found) < MIN_RUN_LINES or len(found) > MAX_PAGE_LINES:
        return None
    return _Page(ident, numbers=tuple(int(hit[1]) for hit in found), lines=tuple(hit[2] for hit in found))


def _found_in(page: _Page, earlier: Sequence[_Page]) -> dict[int, tuple[str, int]]:
    """Return for the index of each repeated line (id, line number) of an earlier page that shows it."""
    places: dict[int, tuple[str, int]] = {}
    for old in earlier:
        for there, here, size in _runs(old, page):
            for step in range(size):
                places.setdefault(here + step, (old.ident, old.numbers[there + step]))
    return places


def _runs(old: _Page, page: _Page) -> Iterator[tuple[int, int, int]]:
    """Yield (index in `old`, index in the page, lines) of the runs that both show, in the page's order.

    Takes linear time, however often lines repeat: of the places where a run occurs, the one with the same
    line number counts, else the next after the previous run, else the first.
    """
    found = dict[tuple[str, ...], list[int]]()
    of_number = {n: at for at, n in enumerate(old.numbers)}
    for at, lines in enumerate(_stretches(old)):
        found.setdefault(lines, []).append(at)
    here = 0
    place = 0
    wanted = list(_stretches(page))
    while here < len(wanted):
        if not (places := found.get(wanted[here])):
            here += 1
            continue
        same = of_number.get(page.numbers[here], -1)
        is_there = same >= 0 and old.lines[same : same + MIN_RUN_LINES] == wanted[here]
        place = same if is_there else places[bisect_left(places, place) % len(places)]
        size = MIN_RUN_LINES
        while page.lines[here + size : here + size + 1] == old.lines[place + size : place + size + 1] != ():
            size += 1
        yield place, here, size
        here = here + size
        place = place + size


def _stretches(page: _Page) -> Iterator[tuple[str, ...]]:
    """Yield each group of MIN_RUN_LINES consecutive lines."""
    return zip(*(page.lines[start:] for start in range(MIN_RUN_LINES)), strict=False)


def _trimmed(rows: Sequence[str], page: _Page, places: Mapping[int, tuple[str, int]]) -> Iterator[str]:
    """Yield the rows, with one line in place of each run of lines that an earlier page shows."""
    at = 0
    run = list[str]()
    for row in rows:
        is_line = _NUMBERED_LINE.fullmatch(row) is not None
        is_known = is_line and at in places
        if run and not (is_known and _continues(places[at - 1], places[at])):
            yield from _replaced(run, at - len(run), page, places)
            run = []
        if is_known:
            run.append(row)
        else:
            yield row
        at += is_line
    yield from _replaced(run, at - len(run), page, places)


def _continues(before: tuple[str, int], now: tuple[str, int]) -> bool:
    return (before[0], before[1] + 1) == now


def _replaced(
    run: Sequence[str], start: int, page: _Page, places: Mapping[int, tuple[str, int]]
) -> Iterator[str]:
    """Yield one line for a run of rows that begins with the page's line `start`; a short run unchanged."""
    if len(run) < MIN_RUN_LINES:
        yield from run
        return
    ident, there = places[start]
    here = page.numbers[start]
    yield unchanged_lines(here, here + len(run) - 1, ident, there)

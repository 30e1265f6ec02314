"""restore: recently read files, shown with a summary as they were read; and whether a result is in view.

What was changed since is passed over: a stale copy misleads. A repeated read of an unchanged file may be
answered by a stub only while the first stands in view unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transcripts.entries import Entry, Exchange
from transcripts.facts import Result
from transcripts.fold import Folded
from transcripts.messages import TextBlock

from .clearing import path_in
from .plan import Situation

TITLE = "[folded: files as they were last read, kept for reference; read again before you edit]"
WRITERS = frozenset({"write", "edit", "multiedit", "notebookedit", "create"})
READERS = frozenset({"read", "view", "open", "cat"})


@dataclass(frozen=True, slots=True)
class RestoredFiles:
    """The text of the restored files, its tokens by our count, and the results that it repeats."""

    text: str = ""
    tokens: int = 0
    results: tuple[int, ...] = ()


def select_restored(situation: Situation, last: int, tail: Sequence[Entry]) -> RestoredFiles:
    """The files read last up to fact `last`, within the limits; not those that the tail shows anyway."""
    settings, count = situation.settings, situation.count
    room = situation.unscaled(
        min(settings.restore_cap, int(settings.restore_share * situation.window.size))
    ) - count.text(TITLE)
    shown = {path_in(use) for entry in tail if isinstance(entry, Exchange) for use in entry.uses.values()}
    texts: list[str] = []
    results: list[int] = []
    for path, result in _recent_reads(situation.folded.entries, last):
        body = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
        text = f"### {path} (as read in r{result.seq})\n{body}"
        tokens = count.text(text)
        if not body or path in shown or tokens > min(room, situation.unscaled(settings.restore_tokens)):
            continue
        shown.add(path)
        texts.append(text)
        results.append(result.seq)
        room -= tokens
        if len(texts) >= settings.restore_files:
            break
    if not texts:
        return RestoredFiles()
    whole = "\n\n".join([TITLE, *texts])
    return RestoredFiles(whole, count.text(whole), tuple(results))


def _recent_reads(entries: Sequence[Entry], last: int) -> Iterator[tuple[str, Result]]:
    """(path, result) of the newest read of each file up to fact `last`; changed files are passed over."""
    done: set[str] = set()
    for entry in reversed(entries):
        if not isinstance(entry, Exchange):
            continue
        for index, use in reversed(entry.uses.items()):
            path, result, name = path_in(use), entry.results.get(index), use.name.lower()
            if not path or result is None or path in done:
                continue
            if name in WRITERS:
                done.add(path)
            elif name in READERS and entry.seq <= last and not result.error:
                done.add(path)
                yield path, result


def in_view(folded: Folded, seq: int) -> bool:
    """Whether result `seq` stands in the view as it was, or is repeated whole beside a summary."""
    fold = folded.edits.covering(seq)
    if fold is None:
        return (seq, 0) not in folded.edits.clears and _shown(folded, seq)
    return any(
        seq in made.report.get("restored", ())
        for made in folded.compactions
        if made.id not in folded.undone and fold in made.edits
    )


def _shown(folded: Folded, seq: int) -> bool:
    index = folded.view.index_of(seq)
    return index < len(folded.view) and any(part.seq == seq for part in folded.view[index].parts)

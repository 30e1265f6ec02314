"""Files that are shown again beside the record of a fold: those read last, as read, and not changed since."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from transcripts.entries import Entry, Exchange
from transcripts.facts import Result
from transcripts.fold import Folded

from .clearing import file_path_of, joined_text
from .plan import Situation

RESTORED_HEADING = "[folded: files as they were last read, kept for reference; read again before you edit]"


def restore_files(situation: Situation, last: int, tail: Sequence[Entry]) -> tuple[str, list[int]]:
    """The text of the files read last up to fact `last`, and the seqs of the results that it repeats.

    Without the files that the tail names; "" where there are none or none fits the limits.
    """
    settings, counter = situation.settings, situation.counter
    room = min(settings.restore_max_tokens, int(settings.restore_max_share * situation.window.size))
    left = situation.unscaled(room) - counter.text(RESTORED_HEADING)
    shown = {
        file_path_of(use) for entry in tail if isinstance(entry, Exchange) for use in entry.uses.values()
    }
    texts: list[str] = []
    results: list[int] = []
    for path, result in _recent_reads(situation.folded, last):
        body = joined_text(result.content)
        text = f"### {path} (as read in r{result.seq})\n{body}"
        tokens = counter.text(text)
        limit = min(left, situation.unscaled(settings.restore_file_max_tokens))
        if not body or path in shown or tokens > limit:
            continue
        shown.add(path)
        texts.append(text)
        results.append(result.seq)
        left -= tokens
        if len(texts) >= settings.restore_max_files:
            break
    return "\n\n".join([RESTORED_HEADING, *texts]) if texts else "", results


def _recent_reads(folded: Folded, last: int) -> Iterator[tuple[str, Result]]:
    """(path, result) of the newest read of each file up to fact `last`; files changed since are skipped."""
    done: set[str] = set()
    for entry in reversed(folded.entries):
        if not isinstance(entry, Exchange):
            continue
        for index, use in reversed(entry.uses.items()):
            path, result = file_path_of(use), entry.results.get(index)
            if not path or result is None or path in done:
                continue
            kind = folded.kind_of(use.name)
            if kind == "writes":
                done.add(path)  # a copy from before the change would mislead
            elif kind == "reads" and entry.seq <= last and not result.error:
                done.add(path)
                yield path, result

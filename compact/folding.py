"""Replace the older messages with a summary.

A fold covers all but the newest exchanges. The cut is made between exchanges and never within an older fold.
Files that were read last, and not changed since, are shown again with the summary. Messages that the model
has not seen yet stay; `shrinking.py` makes single blocks smaller if even these are too large.
"""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec import Struct

from transcripts import Entry, Exchange, Fold, Folded, Prompt, Result, TextBlock

from .identifiers import block_texts, file_path_of, joined_text
from .page_references import pages_referred_to
from .replacement import replacement_text, replacement_tokens, summary_reserve
from .situation import FoldLimits, RestoredFiles, Situation

MIN_TAIL_TOKENS = 1_500  # of the newest exchanges that stay, however large the replacement is
MAX_RESTORED_SHARE = 0.2  # of the tokens that are folded: more would undo most of what a fold frees
MAX_FILLED_TOKENS = 12_000  # of replacement, tail and restored files, up to which files are restored
MAX_FILLED_SHARE = 0.12  # of the window, for the same
RESTORED_HEADING = (
    "[summarized: files as last read before this point, for reference. Read a file again before you edit it.]"
)


class FoldPlan(Struct, frozen=True):
    """A fold, the entries that stay after it, and the seqs of the results that it shows again."""

    fold: Fold
    tail: tuple[Entry, ...]
    restored: list[int]


def fold_history(situation: Situation, limits: FoldLimits) -> FoldPlan | None:
    """Return the fold over all but the newest exchanges, None if there is nothing to fold.

    The replacement (with a summary of usual size) and the tail together stay within `replacement_limit`; the
    user's messages take precedence over the tail. The newest `keep_recent_messages` may use all of the tail's
    share, older ones no more than `tail_max_tokens`. The cut does not depend on the summary, so a preview can
    show it. Nothing after the fact `until` of the limits is folded.
    """
    most = _most_of_tail(situation, limits)
    limit = situation.replacement_limit
    at = _cut(situation, min(most, limit // 2))
    if at == 0:
        return None
    replacement = replacement_tokens(situation, limits, at, limit)
    room = max(min(MIN_TAIL_TOKENS, most, limit // 2), limit - replacement - summary_reserve(limit))
    at = _cut(situation, min(most, room)) or at
    if limits.tail is None:
        at = min(at, max(1, _first_recent(situation), _cut(situation, room)))
    if limits.until is not None:
        at = min(at, _behind_fold(situation.folded, _entries_until(situation.folded, limits.until)))
    return fold_before(situation, limits, at) if at else None


def has_old_entries(situation: Situation, limits: FoldLimits) -> bool:
    """Return whether `fold_history` has anything to fold."""
    return _cut(situation, min(_most_of_tail(situation, limits), situation.replacement_limit // 2)) > 0


def _most_of_tail(situation: Situation, limits: FoldLimits) -> int:
    return situation.unscaled(situation.settings.tail_max_tokens) if limits.tail is None else limits.tail


def fold_before(situation: Situation, limits: FoldLimits, at: int) -> FoldPlan:
    """Return the fold over the first `at` entries."""
    entries = situation.folded.entries[:at]
    tail = tuple(situation.folded.entries[at:])
    last = max(entry.last for entry in entries)
    restored = _restored(situation, limits, at) if limits.restoring else RestoredFiles()
    view = situation.view
    behind = tail[0].seq if tail else situation.folded.last_seq + 1
    shown = (part for message in view[view.index_of(behind) :] for part in message.parts)
    beside = "\n".join((restored.text, *block_texts(part.block for part in shown if part.seq >= behind)))
    replacement = replacement_text(situation, limits, at, situation.replacement_limit, beside)
    blocks = tuple(TextBlock(text) for text in (replacement, restored.text) if text)
    if tail:
        last = min(last, tail[0].seq - 1)
    tokens = situation.tokens_of(replacement) + restored.tokens
    return FoldPlan(
        Fold(entries[0].seq, last=last, blocks=blocks, tokens=tokens), tail=tail, restored=list(restored.seqs)
    )


def _restored(situation: Situation, limits: FoldLimits, at: int) -> RestoredFiles:
    """Return the files shown again if the first `at` entries are folded; computed once per moment."""
    restored = situation.worked_out.restored
    room = _room_for_files(situation, limits, at)
    key = (id(situation.folded), at, room)
    if key not in restored:
        entries = situation.folded.entries
        last = max(entry.last for entry in entries[:at])
        restored[key] = (situation.folded, _restore_files(situation, last, tuple(entries[at:]), room))
    return restored[key][1]


def _room_for_files(situation: Situation, limits: FoldLimits, at: int) -> int:
    """Return the tokens (our count) that restored files may have, besides the replacement and the tail."""
    settings = situation.settings
    window = situation.window.size
    room = situation.unscaled(min(settings.restore_max_tokens, int(settings.restore_max_share * window)))
    if settings.policy == "classic":
        return room
    folded = situation.folded
    filled = situation.unscaled(min(MAX_FILLED_TOKENS, int(MAX_FILLED_SHARE * window)))
    filled -= replacement_tokens(situation, limits, at, situation.replacement_limit)
    filled -= summary_reserve(situation.replacement_limit)  # whatever its length, so that a preview is right
    filled -= sum(entry_tokens(folded, entry) for entry in folded.entries[at:])
    last = max(entry.last for entry in folded.entries[:at])
    return max(0, min(room, filled, int(MAX_RESTORED_SHARE * _tokens_until(situation, last))))


def _restore_files(situation: Situation, last: int, tail: Sequence[Entry], room: int) -> RestoredFiles:
    """Return the files last read up to fact `last`, as many as fit into `room` tokens.

    Files that the tail names are left out. Their results were counted when they were recorded.
    """
    settings = situation.settings
    counter = situation.counter
    used = counter.text(RESTORED_HEADING)
    shown = {
        file_path_of(use) for entry in tail if isinstance(entry, Exchange) for use in entry.uses.values()
    }
    texts: list[str] = []
    results: list[int] = []
    for path, result in _recent_reads(situation.folded, last):
        body = joined_text(result.content)
        heading = f"### {path} (as read in r{result.seq})\n"
        tokens = counter.text(heading) + sum(result.tokens)
        limit = min(room - used, situation.unscaled(settings.restore_file_max_tokens))
        if not body or path in shown or tokens > limit or pages_referred_to(result.content):
            continue  # a page that refers to another page, which would not be shown
        shown.add(path)
        texts.append(heading + body)
        results.append(result.seq)
        used += tokens
        if len(texts) >= settings.restore_max_files:
            break
    if not texts:
        return RestoredFiles()
    return RestoredFiles("\n\n".join([RESTORED_HEADING, *texts]), seqs=tuple(results), tokens=used)


def _tokens_until(situation: Situation, last: int) -> int:
    """Return the tokens, by our count, of the messages up to fact `last` in the view."""
    return sum(message.tokens for message in situation.view if message.last <= last)


def _recent_reads(folded: Folded, last: int) -> Iterator[tuple[str, Result]]:
    """Yield (path, result) of the newest read of each file up to fact `last`, unless it was changed since."""
    done: set[str] = set()
    for entry in reversed(folded.entries):
        if not isinstance(entry, Exchange):
            continue
        results = entry.results
        for index, use in reversed(entry.uses.items()):
            path = file_path_of(use)
            result = results.get(index)
            if not path or result is None or path in done:
                continue
            kind = folded.kind_of(use.name)
            if kind == "writes":
                done.add(path)  # a copy from before the change would mislead
            elif "unchanged" in result.about:
                continue  # an earlier page shows the file as it is
            elif kind == "reads" and entry.seq <= last and not result.error:
                done.add(path)
                yield path, result


def _cut(situation: Situation, tokens: int) -> int:
    """Return the index of the first entry that stays: the last ones with `tokens`, and all that must stay."""
    folded = situation.folded
    entries = folded.entries
    at = len(entries) - unseen_entries(folded)
    room = tokens - sum(entry_tokens(folded, entry) for entry in entries[at:])
    while at > 0 and room > 0:
        room -= entry_tokens(folded, entries[at - 1])
        if room >= 0:
            at -= 1
    return _behind_fold(folded, at)


def _first_recent(situation: Situation) -> int:
    """Return the index of the first entry of the newest `keep_recent_messages` messages."""
    entries = situation.folded.entries
    left = situation.settings.keep_recent_messages
    at = len(entries)
    while at > 0 and left > 0:
        at -= 1
        left -= message_count(entries[at])
    return _behind_fold(situation.folded, at)


def _entries_until(folded: Folded, until: int) -> int:
    """Return the number of entries that are complete with fact `until`."""
    return sum(1 for _ in takewhile(lambda entry: entry.last <= until, folded.entries))


def message_count(entry: Entry) -> int:
    """Return the number of messages that an entry is shown as: two for a reply with results."""
    if isinstance(entry, Prompt):
        return 1
    if entry.superseded:
        return 0
    return 2 if entry.uses else 1


def _behind_fold(folded: Folded, at: int) -> int:
    """Return the cut, moved to the end of a fold that it would divide."""
    entries = folded.entries
    if at < len(entries) and (fold := folded.edits.covering(entries[at].seq)) is not None:
        while at < len(entries) and entries[at].seq <= fold.last:
            at += 1
    return at


def unseen_entries(folded: Folded) -> int:
    """Return the number of entries at the end that the model has not seen completely: they must stay."""
    count = 0
    for entry in reversed(folded.entries):
        if entry.last <= folded.last_reply_seq and not (isinstance(entry, Exchange) and entry.open):
            break
        count += 1
    return count


def entry_tokens(folded: Folded, entry: Entry) -> int:
    """Return the tokens, by our count, of an entry in the view; those of a folded one as if it were shown."""
    facts = [(entry.seq, entry.fact.tokens, len(entry.fact.blocks))]
    if isinstance(entry, Exchange):
        facts += [(result.seq, result.tokens, 1) for result in entry.results.values()]
    clears = folded.edits.clears
    saved = (
        edit.saves
        for seq, _, blocks in facts
        for at in range(blocks)
        for edit in clears.get((seq, at), {}).values()
    )
    return sum(sum(tokens) for _, tokens, _ in facts) - sum(saved)

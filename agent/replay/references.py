"""Find the names and the old texts of edits that a session uses again, and whether the view still shows them.

A name is a path or an identifier as in compact/identifiers.py. A reference is the first use of a name in a
tool input or a text of the model if every earlier occurrence was in a tool result; later uses do not count,
because the name is then in the model's own words. Thinking is ignored, because other rules remove it. A
reference is

    in context   one of the results is shown whole, or a placeholder or summary contains the name
    recoverable  a visible id leads to one of the results: a placeholder names `r<seq>`, a summary that covers
                 it is shown with its id `c<seq>`, or a visible range `r<seq>-r<seq>` contains it
    lost         none of these

To edit a file, by its old text or by a patch, a model copies that text from the context. An edit is *out of
view* if no source of that text is shown any more, so the model has to read the file again first. Texts
are compared line by line, without indentation and the line numbers that tools add. Two blocks that show the
text together, as two pages of a file do, are a source, too. If no single block contained the whole old text,
each of its lines has its own sources. Edits whose text was never shown (because they failed, or a command
showed it in pieces) are not judged.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compact import MIN_LINE_CHARS, block_texts, in_force, joined_text, names, old_texts, other_texts
from transcripts import (
    Block,
    Fact,
    Fold,
    Folded,
    Message,
    PartKind,
    Reply,
    Result,
    TextBlock,
    ToolUseBlock,
    User,
)
from transcripts.patterns import lazy_pattern

_SHOWN_ID = lazy_pattern(
    r"\b(?P<kind>[rc])(?P<first>\d+)(?:\.\d+)?(?:\s*(?:-|–|\.\.\.?|to)\s*(?P=kind)?(?P<last>\d+)\b)?"
)

_NUMBERING = lazy_pattern(r"^\s*\d+\s*(?:→|\t|[|:│])\s?", re.MULTILINE)


class Reference(Struct, frozen=True):
    """A name first used by reply `user`; `sources` are the seqs of results that contain it, oldest first."""

    name: str
    user: int
    sources: tuple[int, ...]


class ReferenceState(Enum):
    IN_CONTEXT = "in context"
    RECOVERABLE = "recoverable"
    LOST = "lost"


def references(facts: Iterable[Fact]) -> dict[int, tuple[Reference, ...]]:
    """Return all references of a recording, by the seq of the reply that makes them."""
    sources: dict[str, list[int]] = {}  # name -> the results that contain it
    known: set[str] = set()  # names that occurred elsewhere
    found: dict[int, tuple[Reference, ...]] = {}
    for fact in facts:
        match fact:
            case User():
                known |= _names_in(fact.blocks)
            case Result():
                for name in _names_in(fact.content):
                    sources.setdefault(name, []).append(fact.seq)
            case Reply():
                used = _names_in(fact.blocks) - known
                if hits := sorted(used & sources.keys()):
                    found[fact.seq] = tuple(
                        Reference(name, user=fact.seq, sources=tuple(sources[name])) for name in hits
                    )
                known |= used
    return found


def _names_in(blocks: Iterable[Block]) -> set[str]:
    return names("\n".join(block_texts(blocks)))


class Replacements(Struct, frozen=True):
    """The texts that a view shows instead of removed history, and the ids in them."""

    text: str = ""
    facts: tuple[tuple[int, int], ...] = ()  # (first, last) of the seqs that a recall id leads to
    compactions: frozenset[int] = frozenset()  # their seqs

    def lead_to(self, seq: int, folded: Folded) -> bool:
        """Return whether a visible id leads to the text of fact `seq`."""
        if any(first <= seq <= last for first, last in self.facts):
            return True
        edits = (edit for made in in_force(folded) if made.seq in self.compactions for edit in made.edits)
        return any(
            edit.first <= seq <= edit.last if isinstance(edit, Fold) else getattr(edit, "seq", None) == seq
            for edit in edits
        )


def replacements_in(messages: Sequence[Message]) -> Replacements:
    """Return the placeholders and summaries of a view."""
    parts = (part for message in messages for part in message.parts)
    text = "\n".join(block_texts(part.block for part in parts if part.kind is PartKind.PLACEHOLDER))
    facts = list[tuple[int, int]]()
    compactions = set[int]()
    for hit in _SHOWN_ID.finditer(text):
        first = int(hit["first"])
        last = int(hit["last"] or hit["first"])
        if hit["kind"] == "c":
            compactions.add(first)
        else:
            facts.append((first, max(first, last)))
    return Replacements(text, facts=tuple(facts), compactions=frozenset(compactions))


def judge_reference(
    reference: Reference, sources: Sequence[int], folded: Folded, shown: Replacements
) -> ReferenceState:
    """Return the state of a reference. `sources` are the seqs of its results in `folded`."""
    edits = folded.edits
    for seq in sources:
        if edits.shows(seq, 0, "content"):
            return ReferenceState.IN_CONTEXT
    if reference.name in shown.text:
        return ReferenceState.IN_CONTEXT
    if any(shown.lead_to(seq, folded) for seq in sources):
        return ReferenceState.RECOVERABLE
    return ReferenceState.LOST


def says(folded: Folded, seq: int, name: str) -> bool:
    """Return whether result `seq` of `folded` contains a name."""
    fact = folded.fact_at(seq)
    return isinstance(fact, Result) and name in joined_text(fact.content)


Source = tuple[int, int, str]
"""(seq, block, field) of a shown text: the content of a result, a text, or a string of a tool input."""


class FileEdit(Struct, frozen=True):
    """An edit made by reply `user`; one source of each of `needs` has to be in view.

    Or one of `heads` and one of `tails` that have all lines between them: with each source is the number of
    lines at the beginning, or at the end, of the old text that it shows.
    """

    user: int
    old: str  # normalized
    needs: tuple[tuple[Source, ...], ...]
    heads: tuple[tuple[Source, int], ...] = ()
    tails: tuple[tuple[Source, int], ...] = ()


def normalized(text: str) -> str:
    """Return a text without line numbers, indentation and blank lines."""
    lines = (line.strip() for line in _NUMBERING.sub("", text).splitlines())
    return "\n".join(line for line in lines if line)


def file_edits(facts: Iterable[Fact]) -> dict[int, tuple[FileEdit, ...]]:
    """Return the edits whose text was shown before, by the seq of the reply that makes them."""
    shown: list[tuple[Source, str]] = []
    by_line: dict[str, list[int]] = {}  # line -> the indices of texts in `shown` that contain it
    found: dict[int, tuple[FileEdit, ...]] = {}
    for fact in facts:
        if isinstance(fact, Reply):
            edits = (_edit(fact.seq, old, shown, by_line) for old in _old_texts(fact))
            if judged := tuple(edit for edit in edits if edit is not None):
                found[fact.seq] = judged
        for source, text in _texts_of(fact):
            for line in set(text.split("\n")):
                if len(line) >= MIN_LINE_CHARS:
                    by_line.setdefault(line, []).append(len(shown))
            shown.append((source, text))
    return found


def _old_texts(reply: Reply) -> Iterator[str]:
    """Yield the normalized texts that the calls of a reply replace."""
    for block in reply.blocks:
        if isinstance(block, ToolUseBlock):
            yield from filter(None, map(normalized, old_texts(block)))


def _edit(
    seq: int, old: str, shown: Sequence[tuple[Source, str]], by_line: Mapping[str, list[int]]
) -> FileEdit | None:
    lines = [line for line in old.split("\n") if len(line) >= MIN_LINE_CHARS]
    known = [set(by_line[line]) for line in lines if line in by_line]
    whole = set.intersection(*known) if known else set(range(len(shown)))
    if holding := tuple(shown[at][0] for at in sorted(whole) if old in shown[at][1]):
        every = old.split("\n")
        whole_lines = [line for line in lines if line in by_line]
        heads = [shown[at] for line in whole_lines[:1] for at in by_line[line]]
        tails = [shown[at] for line in whole_lines[-1:] for at in by_line[line]]
        return FileEdit(
            seq,
            old=old,
            needs=(holding,),
            heads=tuple((source, _lines_at_start(every, text)) for source, text in heads),
            tails=tuple((source, _lines_at_end(every, text)) for source, text in tails),
        )
    needs = {tuple(shown[at][0] for at in by_line[line]) for line in lines if line in by_line}
    return FileEdit(seq, old=old, needs=tuple(sorted(needs))) if needs else None


def _lines_at_start(lines: Sequence[str], text: str) -> int:
    """Return how many of the first lines a text contains in one piece."""
    return bisect_left(range(len(lines)), True, key=lambda last: "\n".join(lines[: last + 1]) not in text)


def _lines_at_end(lines: Sequence[str], text: str) -> int:
    """Return how many of the last lines a text contains in one piece."""
    count = len(lines)
    return count - bisect_left(range(count), True, key=lambda first: "\n".join(lines[first:]) in text)


def _texts_of(fact: Fact) -> Iterator[tuple[Source, str]]:
    match fact:
        case User():
            for index, block in enumerate(fact.blocks):
                if isinstance(block, TextBlock):
                    yield (fact.seq, index, "text"), normalized(block.text)
        case Result():
            yield (fact.seq, 0, "content"), normalized(joined_text(fact.content))
        case Reply():
            for index, block in enumerate(fact.blocks):
                if isinstance(block, TextBlock):
                    yield (fact.seq, index, "text"), normalized(block.text)
                elif isinstance(block, ToolUseBlock):
                    for name, text in other_texts(block):
                        yield (fact.seq, index, name), normalized(text)


def is_in_view(
    edit: FileEdit,
    numbers: Mapping[int, int],
    folded: Folded,
    replacements: str,
    trimmed: Collection[int] = (),
) -> bool:
    """Return whether the text of an edit is shown, whole or in the `replacements` shown instead of history.

    `numbers` maps recorded seqs to those in `folded`. `trimmed` are results in `folded` that show less than
    the recording did; they count by the lines that they show.
    """
    if all(any(_is_shown(source, numbers, folded, trimmed) for source in need) for need in edit.needs):
        return True
    head, tail = (
        max((count for source, count in pieces if _is_shown(source, numbers, folded, trimmed)), default=0)
        for pieces in (edit.heads, edit.tails)
    )
    if edit.heads and head + tail > edit.old.count("\n"):
        return True
    if edit.old in normalized(replacements):
        return True
    seqs = {numbers[source[0]] for need in edit.needs for source in need} & set(trimmed)
    lines = {line for seq in seqs for line in _lines_shown(seq, folded)}
    wanted = [line for line in edit.old.split("\n") if len(line) >= MIN_LINE_CHARS]
    whole = "\n".join(lines)  # an edit may start and end within a line
    return bool(lines) and all(line in lines or line in whole for line in wanted)


def _lines_shown(seq: int, folded: Folded) -> set[str]:
    """Return the normalized lines of a result that is shown."""
    fact = folded.fact_at(seq)
    if not isinstance(fact, Result) or not folded.edits.shows(seq, 0, "content"):
        return set()
    return set(normalized(joined_text(fact.content)).split("\n"))


def _is_shown(source: Source, numbers: Mapping[int, int], folded: Folded, trimmed: Collection[int]) -> bool:
    seq = numbers[source[0]]
    block = source[1]
    field = source[2]
    return seq not in trimmed and folded.edits.shows(seq, block, field)

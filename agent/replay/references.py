"""The names and old texts of edits that a session needs again, and whether the view still shows them.

A name is a path or an identifier as in compact/identifiers.py. A reference is the first use of a name in a
tool input or a text of the model, where every earlier occurrence stood in a tool result; from then on it
stands in the model's own words. Thinking is ignored, because it comes and goes by other rules. A reference is

    in context   one of the results is shown whole, or something shown instead of history has the name
    recoverable  a visible id leads to one of the results: a placeholder names `r<seq>`, or a fold that
                 covers it is shown with its id `c<seq>`, or a visible range `r<seq>-r<seq>` holds it
    lost         none of these

To edit a file, a model copies the old text from what it sees. An edit is *out of view* where none of that is
shown any more: it has to read again first. Texts are compared line by line without indentation and the line
numbers that tools show files with. Where no single block held the whole old text, each of its lines has
sources of its own. An edit whose text was never shown (it failed, or a command had shown it in pieces) is not
judged.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compact import (
    MIN_LINE_CHARS,
    OLD_TEXT_ARGUMENTS,
    block_texts,
    fact_at,
    in_force,
    joined_text,
    names,
    pages_referred_to,
    strings,
)
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
    """A name first used by reply `user`; `sources` are the seqs of the results that held it, oldest first."""

    name: str
    user: int
    sources: tuple[int, ...]


class ReferenceState(Enum):
    IN_CONTEXT = "in context"
    RECOVERABLE = "recoverable"
    LOST = "lost"


def references(facts: Iterable[Fact]) -> dict[int, tuple[Reference, ...]]:
    """All references of a recording, by the seq of the reply that makes them."""
    sources: dict[str, list[int]] = {}  # names, and the results that had them
    known: set[str] = set()  # names that stood elsewhere
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
    """The texts that a view shows in place of history, and the ids that they name."""

    text: str = ""
    facts: tuple[tuple[int, int], ...] = ()  # (first, last) of the seqs that a recall id leads to
    compactions: frozenset[int] = frozenset()  # their seqs

    def lead_to(self, seq: int, folded: Folded) -> bool:
        """Return whether a visible id leads to what fact `seq` said."""
        if any(first <= seq <= last for first, last in self.facts):
            return True
        edits = (edit for made in in_force(folded) if made.seq in self.compactions for edit in made.edits)
        return any(
            edit.first <= seq <= edit.last if isinstance(edit, Fold) else getattr(edit, "seq", None) == seq
            for edit in edits
        )


def replacements_in(messages: Sequence[Message]) -> Replacements:
    """The placeholders and records of a view."""
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
    """Locate a reference. `sources` are its results as numbered in `folded`."""
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
    """Return whether result `seq` has a name, as it was recorded here."""
    fact = fact_at(folded, seq)
    return isinstance(fact, Result) and name in joined_text(fact.content)


Source = tuple[int, int, str]
"""(seq, block, field) of what showed a text: a result's content, a text, or a string of a tool input."""


class FileEdit(Struct, frozen=True):
    """An edit made by reply `user`; of each of `needs` one source has to be in view."""

    user: int
    old: str  # normalized
    needs: tuple[tuple[Source, ...], ...]


def normalized(text: str) -> str:
    """A text without line numbers, indentation and blank lines."""
    lines = (line.strip() for line in _NUMBERING.sub("", text).splitlines())
    return "\n".join(line for line in lines if line)


def file_edits(facts: Iterable[Fact]) -> dict[int, tuple[FileEdit, ...]]:
    """The edits of a recording whose text was shown before, by the seq of the reply that makes them."""
    shown: list[tuple[Source, str]] = []
    by_line: dict[str, list[int]] = {}  # a line, and the indices in `shown` that have it
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
    """Return the normalized texts that the calls of a reply replace."""
    for block in reply.blocks:
        if isinstance(block, ToolUseBlock):
            nested = block.input.get("edits")
            calls = [block.input, *(nested if isinstance(nested, list) else ())]
            for call in calls:
                old = (call.get(name) for name in OLD_TEXT_ARGUMENTS) if isinstance(call, Mapping) else ()
                yield from filter(None, (normalized(text) for text in old if isinstance(text, str)))


def _edit(
    seq: int, old: str, shown: Sequence[tuple[Source, str]], by_line: Mapping[str, list[int]]
) -> FileEdit | None:
    lines = [line for line in old.split("\n") if len(line) >= MIN_LINE_CHARS]
    known = [set(by_line[line]) for line in lines if line in by_line]
    whole = set.intersection(*known) if known else set(range(len(shown)))
    if holding := tuple(shown[at][0] for at in sorted(whole) if old in shown[at][1]):
        return FileEdit(seq, old=old, needs=(holding,))
    needs = {tuple(shown[at][0] for at in by_line[line]) for line in lines if line in by_line}
    return FileEdit(seq, old=old, needs=tuple(sorted(needs))) if needs else None


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
                    for name, value in block.input.items():
                        for text in strings(value) if name not in OLD_TEXT_ARGUMENTS else ():
                            yield (fact.seq, index, name), normalized(text)


def is_in_view(
    edit: FileEdit,
    numbers: Mapping[int, int],
    folded: Folded,
    replacements: str,
    trimmed: Collection[int] = (),
) -> bool:
    """Return whether what an edit needs is shown whole, or within the `replacements` shown in place of
    history.

    `numbers` maps recorded seqs to those in `folded`; `trimmed` are the results there that show less than
    they did when they were recorded: they count with the lines that they and the pages show that they name.
    """
    if all(any(_is_shown(source, numbers, folded, trimmed) for source in need) for need in edit.needs):
        return True
    if edit.old in normalized(replacements):
        return True
    seqs = {numbers[source[0]] for need in edit.needs for source in need} & set(trimmed)
    lines = {line for seq in seqs for line in _lines_shown(seq, folded)}
    told = [line for line in edit.old.split("\n") if len(line) >= MIN_LINE_CHARS]
    whole = "\n".join(lines)  # an edit may begin and end within a line
    return bool(lines) and all(line in lines or line in whole for line in told)


def _lines_shown(seq: int, folded: Folded) -> set[str]:
    """The lines, normalized, that a result shows, and the pages in view that it refers to."""
    fact = fact_at(folded, seq)
    if not isinstance(fact, Result) or not folded.edits.shows(seq, 0, "content"):
        return set()
    pages = (_lines_shown(page, folded) for page in pages_referred_to(fact.content))
    return set(normalized(joined_text(fact.content)).split("\n")).union(*pages)


def _is_shown(source: Source, numbers: Mapping[int, int], folded: Folded, trimmed: Collection[int]) -> bool:
    seq = numbers[source[0]]
    block = source[1]
    field = source[2]
    return seq not in trimmed and folded.edits.shows(seq, block, field)

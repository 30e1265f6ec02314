"""Questions about recorded sessions whose answers are known, taken from the sessions themselves.

A failed edit looks for the text that it meant to replace: its source is what showed or wrote that text. A
later prompt that names something rare (a file, an identifier, a quoted phrase) looks for where it stood.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from transcripts.facts import Fact, Reply, Result, User
from transcripts.messages import ToolUseBlock
from transcripts.render_text import content_text, fact_text

MIN_LINE_CHARS = 12  # of a line by which a text is recognised
MIN_EARLIER_FACTS = 3  # between the source and the question, else there is nothing to search
MAX_SOURCES = 12  # that hold a name; of a more common one no single place is the source
_RARE_NAME = re.compile(r"`([^`\n]{4,80})`|\"([^\"\n]{8,80})\"|([\w./-]*\w[_./]\w[\w./-]*|\w*[a-z][A-Z]\w*)")
_OLD_TEXTS = ("old_string", "old_str", "oldText")


@dataclass(frozen=True, slots=True)
class SearchCase:
    """A question, the seq from which on the record is not known yet, and the facts that answer it."""

    question: str
    before: int
    sources: frozenset[int]
    kind: str


def cases_of(facts: list[Fact]) -> Iterator[SearchCase]:
    """The questions of one session, in order."""
    texts = {fact.seq: _text_of(fact) for fact in facts if isinstance(fact, User | Reply | Result)}
    replies = {fact.seq: fact for fact in facts if isinstance(fact, Reply)}
    for fact in facts:
        if isinstance(fact, Result) and fact.error and (old := _old_text(replies.get(fact.of), fact)):
            if sources := _holding(old, texts, fact.of):
                yield SearchCase(old, fact.of, sources, "failed edit")
        elif isinstance(fact, User) and fact.source == "user":
            prompt = content_text(tuple(block for block in fact.blocks if not block.is_injected))
            if len(prompt) < 2_000 and (sources := _referred(prompt, texts, fact.seq)):
                yield SearchCase(prompt, fact.seq, sources, "prompt")


def _text_of(fact: Fact) -> str:
    """The text of a fact with real line ends, also within the inputs of calls."""
    if isinstance(fact, Reply):
        inputs = (block.input for block in fact.blocks if isinstance(block, ToolUseBlock))
        written = (value for one in inputs for value in one.values() if isinstance(value, str))
        return "\n".join([fact_text(fact), *written])
    return fact_text(fact)


def _old_text(reply: Fact | None, result: Result) -> str:
    block = (
        reply.blocks[result.block] if isinstance(reply, Reply) and result.block < len(reply.blocks) else None
    )
    given = block.input if isinstance(block, ToolUseBlock) else {}
    return next((str(given[name]) for name in _OLD_TEXTS if isinstance(given.get(name), str)), "")


def _holding(old: str, texts: dict[int, str], before: int) -> frozenset[int]:
    """The earlier facts that hold most lines of a text; none where it stands nowhere."""
    lines = {line.strip() for line in old.splitlines() if len(line.strip()) >= MIN_LINE_CHARS}
    counts = {seq: sum(line in text for line in lines) for seq, text in texts.items() if seq < before}
    most = max(counts.values(), default=0)
    if not lines or most < max(1, len(lines) / 2):
        return frozenset()
    return frozenset(seq for seq, count in counts.items() if count == most)


def _referred(prompt: str, texts: dict[int, str], before: int) -> frozenset[int]:
    """The earlier facts that hold most of the rare names of a prompt."""
    names = {next(filter(None, match.groups())) for match in _RARE_NAME.finditer(prompt)}
    known = {seq: text for seq, text in texts.items() if seq < before - MIN_EARLIER_FACTS}
    holding = {name: {seq for seq, text in known.items() if name in text} for name in names}
    rare = {name: seqs for name, seqs in holding.items() if 0 < len(seqs) <= MAX_SOURCES}
    counts = Counter(seq for seqs in rare.values() for seq in seqs)
    most = max(counts.values(), default=0)
    return frozenset(seq for seq, count in counts.items() if count == most)

"""Random histories of a session, with every kind of fact in places where no session puts them.

The choices are plain random ones: hypothesis gives the seed, and prefixes of a history are smaller examples.
"""

from random import Random
from typing import Any

from hypothesis import strategies as st

from transcripts import Display
from transcripts.entries import Exchange
from transcripts.facts import (
    Clear,
    Closed,
    Compacted,
    Edit,
    Fact,
    Failed,
    Fold,
    Instructed,
    Metadata,
    Opened,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    StoredOutput,
    Undone,
    UnknownFact,
    Unthink,
    User,
)
from transcripts.folding import Folded
from transcripts.messages import (
    Block,
    ImageBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)

# What JSON can hold, and what files and terminals have trouble with.
TEXTS = (
    "go on",
    "done",
    "let me look",
    "",
    " ",
    "\n",
    "a\x00b",
    "\u2028\u2029",
    "\ud800",
    "a\udfffb",
    "\x1b[31m",
    "😀",
    "\ufeffx",
    '"kind":"result"',
    '],"tokens":[1]',
)
IDENTS = ("t1", "t2", "t3", "toolu_x", "bad id!", "", "ünïcode")
NAMES = ("bash", "read", "a b", "", "n" * 200)
PLACEHOLDERS = ("[cleared: recall r3]", "[shortened]")
AT = 1_795_253_400.125


class RandomParts:
    """Random choices of everything that a fact is made of. Texts are repeated up to `size` times."""

    def __init__(self, random: Random, size: int = 1) -> None:
        self.random = random
        self.size = size

    def text(self) -> str:
        return self.random.choice(TEXTS) * self.random.randint(1, self.size)

    def json(self, depth: int = 2) -> Any:
        kind = self.random.randrange(6 if depth else 4)
        if kind == 4:
            return [self.json(depth - 1) for _ in range(self.random.randrange(3))]
        if kind == 5:
            return {self.random.choice(("path", "content", "tokens")): self.json(depth - 1)}
        return (None, True, self.random.randint(-9, 9), self.text())[kind]

    def about(self) -> dict[str, Any]:
        return {name: self.json() for name in ("path", "exit", "name") if self.random.random() < 0.3}

    def use(self) -> ToolUseBlock:
        inputs = {name: self.json() for name in ("path", "command") if self.random.random() < 0.6}
        return ToolUseBlock(self.random.choice(IDENTS), self.random.choice(NAMES), inputs)

    def server_block(self) -> Block:
        """A call that the service runs, or a result of one."""
        ident = self.random.choice(("s1", "s2", "s3"))
        if self.random.random() < 0.5:
            return UnknownBlock({"type": "server_tool_use", "id": ident, "name": "web_search", "input": {}})
        return UnknownBlock({"type": "web_search_tool_result", "tool_use_id": ident, "content": []})

    def thought(self) -> Block:
        if self.random.random() < 0.3:
            return RedactedThinkingBlock(self.text())
        return ThinkingBlock(self.text(), self.random.choice(("", "sig", "other")))

    def content(self) -> tuple[Block, ...]:
        return tuple(
            ImageBlock("image/png", "AAAA") if self.random.random() < 0.2 else TextBlock(self.text())
            for _ in range(self.random.randrange(3))
        )

    def blocks(self, likely: str) -> tuple[Block, ...]:
        """`likely` is "user" or "reply": what it consists of most of the time."""
        made: list[Block] = []
        for _ in range(self.random.randrange(5)):
            kind = self.random.random()
            if kind < 0.4:
                made.append(TextBlock(self.text()))
            elif kind < 0.5 and likely == "reply":
                made.append(self.server_block())
            elif kind < 0.7:
                made.append(self.use() if likely == "reply" else ImageBlock("image/png", "AAAA"))
            elif kind < 0.9:
                made.append(self.thought() if likely == "reply" else TextBlock(self.text()))
            else:
                other = (
                    self.use(),
                    self.thought(),
                    ToolResultBlock(self.random.choice(IDENTS), self.content()),
                )
                made.append(self.random.choice(other))
        return tuple(made)

    def counts(self) -> tuple[int, ...]:
        return tuple(self.random.randint(0, 50) for _ in range(self.random.randrange(4)))

    def usage(self) -> Usage:
        return Usage(*(self.random.randint(0, 99) for _ in range(5)))

    def edits(self, top: int) -> tuple[Edit, ...]:
        """Edits that make no sense."""
        some: tuple[Edit, ...] = (
            Clear(self.random.randint(0, top), self.random.randint(0, 3), "content", self.text()),
            Unthink(self.random.randint(0, top), self.random.randint(0, top)),
            Fold(self.random.randint(0, top), self.random.randint(0, top), self.content(), 3),
        )
        return tuple(self.random.sample(some, self.random.randrange(3)))


def any_fact(seq: int, parts: RandomParts) -> Fact:
    """Any fact with this seq, whether or not it makes sense there."""
    random, text = parts.random, parts.text
    at = (seq, round(AT + random.randrange(10**9) / 1000, 3))
    near = random.randint(0, seq + 3)
    unknown = {"v": 1, "seq": seq, "ts": "2026-11-21T09:30:00.125Z", "sid": "s", "kind": "future", "x": [1]}
    stored = StoredOutput(text(), text(), near) if random.random() < 0.5 else None
    makers: tuple[Any, ...] = (
        lambda: Opened(
            *at, (text(),), ({"name": text()},), text(), 9, text(), None, parts.edits(seq), parts.about()
        ),
        lambda: Instructed(*at, (text(),), ({"name": text()},)),
        lambda: User(*at, parts.blocks("user"), parts.counts(), random.choice(("user", "harness"))),
        lambda: RequestSent(*at, text(), near, near, 2),
        lambda: Reply(
            *at,
            parts.blocks("reply"),
            parts.counts(),
            parts.usage(),
            random.choice((text(), "pause_turn")),
            near % 2 == 0,
            text(),
            near,
            text(),
        ),
        lambda: Started(*at, near, random.randrange(4)),
        lambda: Result(
            *at,
            near,
            random.randrange(4),
            parts.content(),
            parts.counts(),
            near % 2 == 0,
            Display(text=text(), note=text(), above=near),
            parts.about(),
            stored,
        ),
        lambda: Compacted(*at, text(), text(), parts.edits(seq), near, parts.about()),
        lambda: Undone(*at, f"c{near}", parts.edits(seq)),
        lambda: Failed(*at, text(), text(), parts.about()),
        lambda: Rewound(*at, near, parts.about()),
        lambda: Metadata(*at, text(), parts.about()),
        lambda: Closed(*at, text()),
        lambda: UnknownFact(seq, AT, "future", unknown),
    )
    fact: Fact = random.choice(makers)()
    return fact


def history(seed: int, length: int, lossy: bool = False, size: int = 1) -> list[Fact]:
    """A session whose edits are well formed (folds nest, on exchange boundaries) and all else is not.

    With `lossy` some seqs are missing.
    """
    random = Random(seed)
    parts, folded, facts, seq = RandomParts(random, size), Folded(), [], 0
    for _ in range(length):
        seq += random.choice((1, 1, 1, 1, 1, 1, 1, 2, 4)) if lossy else 1
        fact = _next(seq, folded, parts)
        facts.append(fact)
        folded.apply(fact)
    return facts


seeds = st.integers(0, 2**32)
histories = st.builds(history, seeds, st.integers(0, 40))
lossy_histories = st.builds(history, seeds, st.integers(0, 40), st.just(True))


def _next(seq: int, folded: Folded, parts: RandomParts) -> Fact:
    random = parts.random
    kind = random.random()
    last = folded.conversation.last_exchange
    if last is not None and last.uses and kind < 0.45:
        block = random.choice(list(last.uses))
        if kind < 0.08:
            return Started(seq, AT, last.seq, block)
        return Result(seq, AT, last.seq, block, parts.content(), parts.counts(), kind < 0.2)
    if kind < 0.7:
        complete = random.random() < 0.8
        return Reply(seq, AT, parts.blocks("reply"), parts.counts(), parts.usage(), complete=complete)
    if kind < 0.8:
        return User(seq, AT, parts.blocks("user"), parts.counts())
    if kind < 0.9 and folded.entries:
        return Compacted(seq, AT, "snip", "auto", _edits(folded, parts))
    if kind < 0.93 and folded.compactions:
        last_unthinks = (Unthink(random.randint(1, seq), seq),) if random.random() < 0.5 else ()
        return Undone(seq, AT, random.choice(folded.compactions).id, last_unthinks)
    if kind < 0.95:
        return Rewound(seq, AT, random.randint(1, seq))
    fact = any_fact(seq, parts)
    return fact if not getattr(fact, "edits", ()) else Metadata(seq, AT, "instead")


def _edits(folded: Folded, parts: RandomParts) -> tuple[Edit, ...]:
    random, last = parts.random, folded.last_seq
    edits: list[Edit] = []
    for _ in range(random.randint(1, 3)):
        kind = random.randrange(4)
        if kind < 2:
            results = [r.seq for e in folded.entries if isinstance(e, Exchange) for r in e.results.values()]
            seq = random.choice(results) if results and kind else random.randint(1, last)
            field = "content" if kind else random.choice(("text", "path", "source"))
            edits.append(
                Clear(seq, random.randrange(3) if not kind else 0, field, random.choice(PLACEHOLDERS), 3)
            )
        elif kind == 2:
            edits.append(Unthink(random.randint(1, last), random.randint(1, last)))
        elif nests(fold := _fold(folded, random), folded, edits):
            edits.append(fold)
    return tuple(edits)


def _fold(folded: Folded, random: Random) -> Fold:
    entries = folded.entries
    first = random.randrange(len(entries))
    last = random.randrange(first, len(entries))
    end = entries[last].last
    if random.random() < 0.3:  # up to the next one, with all that stands between
        end = max(end, entries[last + 1].seq - 1 if last + 1 < len(entries) else folded.last_seq)
    return Fold(entries[first].seq, end, (TextBlock(random.choice(PLACEHOLDERS)),), 7)


def nests(fold: Fold, folded: Folded, edits: list[Edit]) -> bool:
    """Return whether a fold is within, around, or next to every fold that there ever was."""
    made = [edit for one in folded.compactions for edit in one.edits] + edits
    return all(
        fold.last < other.first
        or other.last < fold.first
        or (fold.first <= other.first and other.last <= fold.last)
        or (other.first <= fold.first and fold.last <= other.last)
        for other in made
        if isinstance(other, Fold)
    )

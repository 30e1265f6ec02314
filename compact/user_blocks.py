"""Keep the user's blocks with what a summary needs to know of each, which is found once in a session.

A block is a text or an image of a prompt, or an answer to a call. A summary is often due right after a turn,
so the sentences of the newest messages are read in steps between turns (`user_block_steps`).
"""

from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct, field

from transcripts import Entry, Exchange, Folded, ImageBlock, Prompt, TextBlock, User, own_words
from transcripts.patterns import lazy_pattern

from .clearing import call_label, omission_note, on_short_line
from .directives import (
    FACT,
    ITEM_START,
    LASTING,
    NOTHING,
    REST,
    has,
    is_errand,
    spoken_words,
    weighed_sentences,
)
from .tokens import TokenCounter

DENYING = "denying"  # before the call that the user denied with these words
MIN_STATEMENT_SPACES = 3  # of a sentence that says something although it binds nothing
PLAIN_CHARS = 110  # of a rule that a user types, at most
CHARS_PER_MARK = 20  # of a sentence that is typed, at least
HIGHEST_RANK = 2 * LASTING + 2  # of a sentence that withdraws an earlier one
MIN_SUBJECT_CHARS = 4  # of a word that names a subject
SUBJECT_CHARS = 5  # of its beginning, by which it is recognized with other endings
FIRST_UNSPACED = "\u2e80"  # from here on are the scripts of Chinese, Japanese and Korean
IMAGE_TEXT = "[an image]"
_MARKUP = lazy_pattern(r"[`|/\\#*_{}<>=→\[\]&;]")


class Spoken(Struct):
    """A sentence of the user.

    `weight` is how firmly it binds later work (directives.py). `binds` is the same, but NOTHING for an errand
    and None for small talk. `rank` orders those that bind if not all fit, `words` name its subject, and
    `form` is that which `alike` returns. `tokens` are -1 until they are counted.
    """

    text: str
    weight: int
    binds: int | None
    words: frozenset[str]
    form: str
    tokens: int = -1
    _rank: int | None = None  # found when it is first needed: where everything fits, it is not

    @property
    def rank(self) -> int:
        if self._rank is None:
            self._rank = _rank(self.binds or NOTHING, self.text)
        return self._rank


class UserBlock(Struct):
    """A block of the user: its recall id, text and tokens.

    `answers` names the call that the words answer, "" for a message. `changes` are the sentences that may
    change what was said before, which are shown with it. `sizes` are its tokens in a form under a limit.
    """

    ident: str
    text: str
    tokens: int
    answers: str = ""
    changes: frozenset[str] = frozenset()
    sizes: dict[tuple[tuple[int, ...], int], int] = field(default_factory=dict)
    _sentences: tuple[Spoken, ...] | None = None
    _is_counted: bool = False
    _frame_tokens: int = 0
    _note_tokens: int = 0

    def mark_changes(self, changes: frozenset[str]) -> None:
        if changes != self.changes:
            self.changes = changes
            self.sizes.clear()

    @property
    def heading(self) -> str:
        """The beginning of its line: what names it."""
        return f"({', '.join(filter(None, (self.ident, self.answers)))}) "

    def frame_tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of its line besides its text."""
        if not self._frame_tokens:
            self._frame_tokens = counter.text(self.heading)
        return self._frame_tokens

    def note_tokens(self, counter: TokenCounter) -> int:
        """Return the tokens of the note that says how much of it is omitted."""
        if not self._note_tokens:
            self._note_tokens = counter.text(f" {omission_note(1_000, self.ident)}")
        return self._note_tokens

    @property
    def sentences(self) -> tuple[Spoken, ...]:
        """The sentences, in order."""
        if self._sentences is None:
            own = own_words(self.text)
            self._sentences = tuple(
                _spoken(own[each.start : each.end], each.weight) for each in weighed_sentences(own)
            )
        return self._sentences

    def counted_sentences(self, counter: TokenCounter) -> tuple[Spoken, ...]:
        """Return the sentences, each with its tokens."""
        if not self._is_counted:
            for each in self.sentences:
                each.tokens = counter.text(each.text)
            self._is_counted = True
        return self.sentences

    def is_talk(self, most: int) -> bool:
        """Return whether it has at most `most` tokens and says nothing that matters once it is answered."""
        return (
            self.tokens <= most
            and not self.answers
            and all(each.binds is None or each.binds < FACT for each in self.sentences)
        )

    def tells(self) -> bool:
        """Return whether it is more than errands and a few words."""
        return any(
            each.text.count(" ") >= MIN_STATEMENT_SPACES and not is_errand(each.text)
            for each in self.sentences
        )


def _spoken(text: str, weight: int) -> Spoken:
    errand = weight < LASTING and is_errand(text)
    binds: int | None = None
    if weight >= FACT:
        binds = NOTHING if errand else weight
    elif weight == REST and not errand and text.count(" ") >= MIN_STATEMENT_SPACES:
        binds = REST
    return Spoken(text, weight=weight, binds=binds, words=_subjects(text), form=alike(text))


def _subjects(line: str) -> frozenset[str]:
    """Return the beginnings of the words of a sentence that may name its subject, whatever their endings.

    Of scripts without spaces, each pair of characters is one.
    """
    words = [word for word in spoken_words(line) if len(word) >= MIN_SUBJECT_CHARS or word > FIRST_UNSPACED]
    beginnings = {word[:SUBJECT_CHARS] for word in words if word < FIRST_UNSPACED}
    pairs = {word[at : at + 2] for word in words if word > FIRST_UNSPACED for at in range(len(word) - 1)}
    return frozenset(beginnings | pairs)


def _rank(weight: int, line: str) -> int:
    """Rank a sentence, for the case that not all of them fit.

    A rule that a user types is short and plain; a sentence of a pasted document is long, an item of a list
    or full of markup, and often demands just as much.
    """
    if has("takes_back", line) and not line.endswith("?"):
        return HIGHEST_RANK
    long = 2 * (len(line) > PLAIN_CHARS) + (len(line) > 2 * PLAIN_CHARS)
    marked = CHARS_PER_MARK * len(_MARKUP.findall(line)) > len(line)
    listed = ITEM_START.match(line) is not None
    plain = not (long or marked or listed)
    return 2 * weight + plain - listed - long - 3 * marked - 2 * line.endswith("?")


class _UserBlocks(Struct):
    """The user's blocks by the seq of the entry, kept with the folded facts; `upto` entries were read."""

    by_seq: dict[int, tuple[UserBlock, ...]] = field(default_factory=dict)
    upto: int = 0


def user_block_steps(folded: Folded, counter: TokenCounter) -> Iterator[None]:
    """Read the sentences of the user's messages and count their tokens, one message per step.

    Those that a summary covers already, after a long session was resumed, are read when they are needed.
    """
    kept = folded.memo(_UserBlocks)
    while kept.upto < len(folded.entries):
        entry = folded.entries[kept.upto]
        kept.upto += 1
        if isinstance(entry, Prompt) and folded.edits.covering(entry.seq) is None:
            for block in _blocks_of_prompt(folded, entry):
                block.frame_tokens(counter)
                block.note_tokens(counter)
                for each in block.counted_sentences(counter):
                    each.rank  # noqa: B018  finds it
            yield


def user_blocks(folded: Folded, entry: Entry, counter: TokenCounter) -> Iterator[UserBlock]:
    """Yield the user's own blocks of a message, or the user's answers to the calls of an exchange."""
    if isinstance(entry, Exchange):
        yield from _answers(entry, counter)
    else:
        yield from _blocks_of_prompt(folded, entry)


def _blocks_of_prompt(folded: Folded, entry: Prompt) -> tuple[UserBlock, ...]:
    kept = folded.memo(_UserBlocks).by_seq
    if entry.seq not in kept:
        own = entry.fact.blocks if entry.fact.source == "user" else ()
        kept[entry.seq] = tuple(
            UserBlock(
                f"r{entry.seq}.{index}",
                text=block.text if isinstance(block, TextBlock) else IMAGE_TEXT,
                tokens=_recorded_tokens(entry.fact, index),
            )
            for index, block in enumerate(own)
            if block.injected_text is None and isinstance(block, TextBlock | ImageBlock)
        )
    return kept[entry.seq]


def _recorded_tokens(fact: User, index: int) -> int:
    """Return the tokens of a block of a prompt as they were counted when it was recorded."""
    if isinstance(fact.blocks[index], ImageBlock):
        return len(IMAGE_TEXT) // 4
    return fact.tokens[index] if index < len(fact.tokens) else sum(fact.tokens)


def _answers(exchange: Exchange, counter: TokenCounter) -> Iterator[UserBlock]:
    """Yield the user's answers to the calls of an exchange: to a question, or the reason of a denial."""
    for index, result in exchange.results.items():
        for question, words in result.remarks:
            call = f"{DENYING} r{exchange.seq}.{index} {call_label(exchange.uses[index])}"
            answers = f'answering "{on_short_line(question)}"' if question else call
            yield UserBlock(f"r{result.seq}", text=words, tokens=counter.text(words), answers=answers)


@lru_cache(maxsize=4_096)
def alike(sentence: str) -> str:
    """Return the form in which two sentences that say the same in the same words agree."""
    return sentence.casefold().strip(" .!")

"""Find the sentences that commit an assistant: promises, decisions with a reason, rejected approaches."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from .directives import (
    COMMITMENT_KINDS,
    ITEM_START,
    LASTING,
    MAX_SENTENCE_CHARS,
    REQUEST,
    REST,
    WISH,
    CommitmentKind,
    closed_class,
    has,
    is_foreign,
    label_pattern,
    pattern,
    sentences,
    spoken_words,
    unmarked,
)

HEADING = -1  # of a label without text
MAX_BRIEF_CHARS = 100  # of a promise next to calls; a longer sentence there describes steps
MAX_UNKNOWN_CHARS = 160  # of a sentence in an unknown language, to be kept
ShownKind = CommitmentKind | Literal["said"]


class Commitment(Struct, frozen=True):
    """A sentence of an assistant: a promise, a decision, or an approach that was tried and given up.

    "said" is for a language without known phrases: the sentence may be any of these.
    """

    kind: ShownKind
    text: str
    weight: int


def commitments(text: str, acts: bool) -> Iterator[Commitment]:
    """Yield the sentences of a reply that promise, decide with a reason, or give something up.

    `acts` is set if the reply calls tools. Then "I will read the file" is only the next step, and a sentence
    is a promise if it forbids something, holds permanently, or depends on a condition.
    """
    under: ShownKind | None = None  # the kind given by the heading of the list or paragraph
    past = 0
    taken = False
    for start, end, code in sentences(text):
        sentence = text[start:end]
        gap = text[past:start]
        past = end
        if code or (taken and not ITEM_START.match(sentence) and gap.count("\n") > 1):
            under = None
        if code or len(sentence) > MAX_SENTENCE_CHARS or sentence.endswith("?"):
            continue
        kind, weight = _kind_and_weight(sentence, acts)
        introduces = sentence.rstrip("*_").endswith(":")
        lists = weight == LASTING and introduces
        if weight == HEADING or sentence.startswith("#") or introduces:
            under = kind if lists or weight == HEADING else None
            taken = False
        else:
            taken = True
        titles = sentence.startswith("#") and weight != LASTING  # of what follows, which says it
        if (shown := kind or under) and weight != HEADING and not titles and (lists or not introduces):
            yield Commitment(shown, text=sentence, weight=weight or REQUEST)


def _kind_and_weight(sentence: str, acts: bool) -> tuple[ShownKind | None, int]:
    """Classify a sentence of an assistant and weigh it: HEADING for a label without text."""
    for kind in COMMITMENT_KINDS:
        found = label_pattern(kind).match(sentence)
        if found is not None and (found[2] or ":" in sentence or sentence[0] in "#*"):
            return kind, LASTING if found[2] else HEADING
    if weight := _promise_weight(sentence, acts):
        return "promise", weight
    body = unmarked(sentence)
    rejected = has("given_up", sentence) or pattern("gives_up").match(body)
    if rejected or has("decided", sentence) or pattern("decides").match(body):
        return "rejected" if rejected else "decision", WISH + has("reason", sentence)
    return ("said", REST) if not acts and _is_in_unknown_language(sentence) else (None, 0)


def _is_in_unknown_language(sentence: str) -> bool:
    """Return whether a short sentence is in a language without known phrases, so that it may say anything."""
    if len(sentence) > MAX_UNKNOWN_CHARS or not is_foreign(sentence) or has("tabled_letters", sentence):
        return False
    spoken = spoken_words(sentence)
    return closed_class("foreign").isdisjoint(spoken) and closed_class("tabled").isdisjoint(spoken)


def _promise_weight(sentence: str, acts: bool) -> int:  # noqa: PLR0911  one test after the other
    """Return the weight with which a sentence commits its speaker, 0 if it does not."""
    if has("reports", sentence) or has("offers", sentence):
        return 0
    if has("vows", sentence):
        return LASTING
    if acts and (len(sentence) > MAX_BRIEF_CHARS or has("one_of_several_steps", sentence)):
        return 0
    # Each kind is evaluated only if it is needed.
    lasting = (has(kind, sentence) for kind in ("untouched", "lasting", "bound", "held"))
    if has("own_future", sentence):
        if any(lasting):
            return LASTING
        return 0 if acts or has("next_step", sentence) else REQUEST
    if pattern("forswears").match(unmarked(sentence)) or (acts and has("for_good", sentence)):
        return REQUEST
    untouched = has("untouched", sentence)
    if acts and pattern("accepts").match(sentence) is not None:
        return REQUEST
    if acts or sentence.startswith("|"):
        return REQUEST if untouched and (has("lasting", sentence) or has("denied", sentence)) else 0
    if pattern("agrees").match(sentence) is not None:
        return REQUEST
    return _weight_of_statement(sentence, untouched)


def _weight_of_statement(sentence: str, untouched: bool) -> int:
    """Weigh a sentence without an announcement, said at the end of a turn."""
    if has("told", sentence):
        return 0
    if has("own", sentence):
        return REQUEST if untouched or has("binding", sentence) else 0
    # Without the speaker it is rather about the program; "the lock file stays untouched" may be a promise.
    brief = len(sentence) <= MAX_BRIEF_CHARS and not ITEM_START.match(sentence)
    return WISH if untouched and brief else 0

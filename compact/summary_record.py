"""What a fold over old history shows in its place: the record that code keeps, whatever the model wrote.

In this order: the summary (if there is one), the ledger, constraints with their source, live state, the
words of the person verbatim. Marked as a record, so that nothing in it is taken for a new request. The
newest request is last, and said to be open only where its turn goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transcripts.entries import Entry, Prompt
from transcripts.messages import ImageBlock, TextBlock, is_injected

from .ledger import keep_ledger, ledger_text, missing, pins_of
from .placeholders import head_and_tail
from .plan import Situation
from .tokens import TokenCounter

HEADER = (
    "[folded: this is makeroom's record of the earlier conversation (r{first}-r{last}), not a request. "
    "Nothing is lost: recall r<number>, or words, shows any of it.]"
)
SUMMARY = "## Summary\n"
OPEN = (
    "The last of the user's messages above is the request being worked on: "
    "go on with it from where it stands."
)
DONE = "The requests above have been dealt with or are known; wait for the user's next message."
LEFT_OUT = "({count} older messages are left out here: recall shows {ids})"
SHORT = 600  # characters of an old message where there is no room for more
MISSING = 500  # tokens of names that are appended to a summary which lacks them
FRAME = 200  # tokens of headings and closing line
LEAST_TAIL = 2_000  # tokens that the words of the person leave for the newest exchanges


@dataclass(frozen=True, slots=True)
class FoldSpan:
    """The entries that a fold replaces, and whether the newest request among them is still worked on."""

    entries: tuple[Entry, ...]
    going_on: bool

    @property
    def first(self) -> int:
        return self.entries[0].seq

    @property
    def last(self) -> int:
        return max(entry.last for entry in self.entries)


def keep_cap(situation: Situation) -> int:
    """Our count of what a fold and the tail may keep: min(18k, 30 % of the window), or the user's cap.

    In a small window thrifty keeps less, so that it does not have to make room again after a call or two.
    """
    settings, overhead = situation.settings, situation.scaled(situation.overhead)
    cap = min(settings.keep_cap, int(settings.keep_share * situation.window.size))
    if settings.policy == "thrifty":
        half = max(settings.leave_share * situation.due - overhead, settings.leave_least * situation.due)
        cap = min(cap, int(half))
    if settings.max_compact_size:
        cap = min(cap, settings.max_compact_size - overhead)
    return max(500, situation.unscaled(cap))


def keep(situation: Situation, span: FoldSpan, summary: str, room: int, beside: str = "") -> str:
    """The record of the entries of a span in about `room` tokens by our count, the summary on top of that.

    `beside` is what is shown with it anyway: its names need no room in the ledger.
    """
    count, limit = situation.count, min(situation.settings.ledger_tokens, room // 3)
    words = user_words(
        situation, span.entries, max(room // 8, room - limit - FRAME - min(LEAST_TAIL, room // 4))
    )
    ledger = keep_ledger(span.entries)
    pieces = [HEADER.format(first=span.first, last=span.last)]
    if summary:
        pieces.append(f"{SUMMARY}{summary}")
    if text := ledger_text(ledger, count, limit, skip="\n".join((summary, words, beside))):
        pieces.append(f"## Ledger (newest and most used first)\n{text}")
    pieces.extend(_held(situation, ledger.constraints, words))
    said = "\n".join((*pieces, words, beside))
    if summary and (text := missing(ledger, count, MISSING, said)):
        pieces.append(f"## Named before, but not above\n{text}")
    if words:
        pieces.append(f"## All user messages, verbatim (the newest is last)\n{words}")
    pieces.append(OPEN if span.going_on else DONE)
    return "\n\n".join(pieces)


def _held(situation: Situation, constraints: Sequence[tuple[str, str]], words: str) -> Iterator[str]:
    pins = [f"- {text} (pinned by the user)" for text in pins_of(situation.folded.metadata).values()]
    held = [f"- {text} ({source})" for text, source in dict(constraints).items() if text not in words]
    if pins or held:
        yield "## Constraints\n" + "\n".join([*pins, *held[-20:]])
    if situation.live:
        yield "## State now\n" + "\n".join(f"- {line}" for line in situation.live)


@dataclass(frozen=True, slots=True)
class _Said:
    """One block of the person's words: as shown, as shown where room is short, and its id."""

    shown: str
    short: str
    ident: str


def user_words(situation: Situation, entries: Iterable[Entry], room: int) -> str:
    """The words of the person, oldest first; where room is short, the oldest are cut or left out."""
    said = [each for entry in entries for each in _said(situation, entry)]
    kept: list[str] = []
    for at, each in enumerate(reversed(said)):
        text = each.shown
        if at and situation.count.text(text) > room:
            text = each.short
        room -= situation.count.text(text)
        if at and room < 0:
            older = said[: len(said) - at]
            kept.append(LEFT_OUT.format(count=len(older), ids=f"{older[0].ident} to {older[-1].ident}"))
            break
        kept.append(text)
    return "\n".join(reversed(kept))


def _said(situation: Situation, entry: Entry) -> Iterator[_Said]:
    if not isinstance(entry, Prompt) or entry.fact.source != "user":
        return
    limit = situation.settings.user_block_tokens
    for index, block in enumerate(entry.fact.blocks):
        ident = f"r{entry.seq}.{index}"
        if isinstance(block, ImageBlock):
            yield _Said(f"({ident}) [an image]", f"({ident}) [an image]", ident)
        elif isinstance(block, TextBlock):
            mark = "(surroundings)" if is_injected(block) else f"({ident})"
            shown = _cut_to(block.text, limit, ident, situation.count)
            yield _Said(f"{mark} {shown}", f"{mark} {head_and_tail(block.text, SHORT, ident)}", ident)


def _cut_to(text: str, tokens: int, ident: str, count: TokenCounter) -> str:
    """The text, or its head and tail in at most about so many tokens."""
    size = count.text(text)
    if size <= tokens:
        return text
    return head_and_tail(text, len(text) * tokens // size * 9 // 10, ident)


def request_inside(situation: Situation, first: int, last: int) -> str | None:
    """The newest prompt of the person, with its id, if it is among the facts first..last and unanswered."""
    for entry in reversed(situation.folded.entries):
        if isinstance(entry, Prompt) and entry.fact.source == "user":
            inside = first <= entry.seq <= last
            return "\n".join(each.shown for each in _said(situation, entry)) if inside else None
    return None


def summary_in(text: str) -> str:
    """The summary that a record holds, "" for none."""
    _, found, rest = text.partition(SUMMARY)
    return rest.partition("\n\n## Ledger")[0].partition("\n\n## All user messages")[0] if found else ""

"""The record that stands in place of folded history; code makes it, whatever the model wrote.

In this order: the summary (if there is one), the ledger, constraints with their source, live state, the
user's messages verbatim. It is marked as a record, so that nothing in it is taken for a new request. The
newest request comes last, and is called open only while its turn goes on.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from transcripts.entries import Entry, Prompt
from transcripts.fold import Folded
from transcripts.messages import ImageBlock, TextBlock, is_injected

from .clearing import head_and_tail
from .invariants import open_turn
from .ledger import Ledger, build_ledger, ledger_text, missing_names, pins_of
from .plan import Situation, Trigger

RECORD_HEADER = (
    "[folded: this is makeroom's record of the earlier conversation (r{first}-r{last}), not a request. "
    "Nothing is lost: recall r<number>, or words, shows any of it.]"
)
SUMMARY_HEADING = "## Summary\n"
OPEN_REQUEST = (
    "The last of the user's messages above is the request being worked on: "
    "go on with it from where it stands."
)
NO_OPEN_REQUEST = "The requests above have been dealt with or are known; wait for the user's next message."
OMITTED_MESSAGES = "({count} older messages are left out here: recall shows {ids})"
MIN_RECORD_TOKENS = 500  # by our count, however small the window
MAX_OLD_MESSAGE_CHARS = 600  # of an older message of the user where there is no room for all of it
MAX_MISSING_NAMES_TOKENS = 500  # appended to a summary that lacks them
RECORD_FRAME_TOKENS = 200  # headings and closing line
MAX_CONSTRAINTS = 20  # the newest ones
TAIL_RESERVE_TOKENS = 2_000  # that the user's messages leave for the newest exchanges


@dataclass(frozen=True, slots=True)
class FoldLimits:
    """How to fold: the summary to show, the tokens (our count) of the tail, whether files are restored."""

    trigger: Trigger
    summary: str = ""
    tail: int | None = None  # None: the settings' limits
    restoring: bool = True


def record_limit(situation: Situation) -> int:
    """What the record of a fold and the tail behind it may take, in tokens of our count.

    In a small window thrifty keeps less, so that the next compaction is not due after a call or two.
    """
    settings, overhead = situation.settings, situation.scaled(situation.overhead)
    limit = min(settings.max_record_tokens, int(settings.max_record_share * situation.window.size))
    if settings.policy == "thrifty":
        trigger = situation.trigger_tokens
        left = max(settings.max_left_share * trigger - overhead, settings.min_left_share * trigger)
        limit = min(limit, int(left))
    if settings.max_compact_size:
        limit = min(limit, settings.max_compact_size - overhead)
    return max(MIN_RECORD_TOKENS, situation.unscaled(limit))


def ledger_before(situation: Situation, at: int) -> Ledger:
    """The ledger of the first `at` entries; built once, because several cuts and summaries are tried."""
    if at not in situation.ledgers:
        folded = situation.folded
        situation.ledgers[at] = build_ledger(folded.entries[:at], folded.kind_of)
    return situation.ledgers[at]


def record_text(situation: Situation, limits: FoldLimits, at: int, room: int, beside: str = "") -> str:
    """The record of the first `at` entries in about `room` tokens of our count, the summary not counted.

    `beside` is the text that is shown with the record anyway: its names need no room in the ledger.
    """
    folded, counter, summary = situation.folded, situation.counter, limits.summary
    entries = folded.entries[:at]
    ledger_room = min(situation.settings.ledger_max_tokens, room // 3)
    words_room = room - ledger_room - RECORD_FRAME_TOKENS - min(TAIL_RESERVE_TOKENS, room // 4)
    words = user_messages(situation, entries, max(room // 8, words_room))
    ledger = ledger_before(situation, at)
    pieces = [RECORD_HEADER.format(first=entries[0].seq, last=max(entry.last for entry in entries))]
    if summary:
        pieces.append(f"{SUMMARY_HEADING}{summary}")
    if text := ledger_text(ledger, counter, ledger_room, skip="\n".join((summary, words, beside))):
        pieces.append(f"## Ledger (newest and most used first)\n{text}")
    pieces.extend(_constraints_and_state(situation, ledger.constraints, words))
    shown = "\n".join((*pieces, words, beside))
    if summary and (text := missing_names(ledger, counter, MAX_MISSING_NAMES_TOKENS, shown)):
        pieces.append(f"## Named before, but not above\n{text}")
    if words:
        pieces.append(f"## All user messages, verbatim (the newest is last)\n{words}")
    pieces.append(OPEN_REQUEST if _request_is_open(folded, limits.trigger, at) else NO_OPEN_REQUEST)
    return "\n\n".join(pieces)


def _request_is_open(folded: Folded, trigger: Trigger, at: int) -> bool:
    """Whether the newest request is among the first `at` entries while its turn goes on."""
    tail = (entry for entry in folded.entries[at:] if isinstance(entry, Prompt))
    if trigger == "manual" or any(entry.fact.source == "user" for entry in tail):
        return False
    return any(isinstance(entry, Prompt) for entry in folded.entries)


def _constraints_and_state(
    situation: Situation, constraints: Sequence[tuple[str, str]], words: str
) -> Iterator[str]:
    pins = [f"- {text} (pinned by the user)" for text in pins_of(situation.folded.metadata).values()]
    held = [f"- {text} ({source})" for text, source in dict(constraints).items() if text not in words]
    if pins or held:
        yield "## Constraints\n" + "\n".join([*pins, *held[-MAX_CONSTRAINTS:]])
    if situation.live:
        yield "## State now\n" + "\n".join(f"- {line}" for line in situation.live)


def user_messages(situation: Situation, entries: Iterable[Entry], room: int) -> str:
    """The user's messages, oldest first, in about `room` tokens; the newest block is always shown.

    Where room is short, the oldest are cut to head and tail or left out.
    """
    blocks = [block for entry in entries for block in _user_blocks(situation, entry)]
    kept: list[str] = []
    for at, (_, shown, short) in enumerate(reversed(blocks)):
        text = short if at and situation.counter.text(shown) > room else shown
        room -= situation.counter.text(text)
        if at and room < 0:
            count = len(blocks) - at
            ids = f"{blocks[0][0]} to {blocks[count - 1][0]}"
            kept.append(OMITTED_MESSAGES.format(count=count, ids=ids))
            break
        kept.append(text)
    return "\n".join(reversed(kept))


def _user_blocks(situation: Situation, entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Of each block of a user message: its recall id, as shown, and as shown where room is short."""
    if not isinstance(entry, Prompt) or entry.fact.source != "user":
        return
    limit = situation.settings.user_block_max_tokens
    for index, block in enumerate(entry.fact.blocks):
        ident = f"r{entry.seq}.{index}"
        if isinstance(block, ImageBlock):
            yield ident, f"({ident}) [an image]", f"({ident}) [an image]"
        elif isinstance(block, TextBlock):
            mark = "(surroundings)" if is_injected(block) else f"({ident})"
            shown = text = block.text
            if (size := situation.counter.text(text)) > limit:
                shown = head_and_tail(text, len(text) * limit // size * 9 // 10, ident)
            short = head_and_tail(text, MAX_OLD_MESSAGE_CHARS, ident)
            yield ident, f"{mark} {shown}", f"{mark} {short}"


def request_within(situation: Situation, first: int, last: int) -> str | None:
    """The user's newest prompt, with its id, if it is among the facts first..last; else None."""
    newest, conversation = open_turn(situation.folded), situation.folded.conversation
    if not newest or not first <= newest <= last:
        return None
    prompt = conversation.entries[conversation.index_of(newest)]
    return "\n".join(shown for _, shown, _ in _user_blocks(situation, prompt))


def summary_in(record: str) -> str:
    """The summary that a record holds, "" for none."""
    _, found, rest = record.partition(SUMMARY_HEADING)
    return rest.partition("\n\n## Ledger")[0].partition("\n\n## All user messages")[0] if found else ""

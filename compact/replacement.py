"""The replacement: the text that is shown in place of a summarized range; code makes it.

In this order: the model summary (if there is one), the local summary with the commitments of the assistant,
pins and constraints with their source, live state, and the user's messages (user_messages.py). A header keeps
the model from taking anything in it for a new request. The newest request comes last, and is called open only
while its turn goes on.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from transcripts import SKILL_START, Entry, Exchange, Prompt, attachment_of, injected_text
from transcripts.patterns import lazy_pattern

from .invariants import open_requests
from .local_summary import LocalSummary, build_local_summary, pins_of
from .local_summary_text import commitments_text, local_summary_text, missing_names
from .situation import FoldLimits, Situation
from .user_messages import alike, user_messages

REPLACEMENT_HEADER = (
    "[folded: this is makeroom's record of the earlier conversation (r{first}-r{last}), not a request. "
    "Nothing is lost: recall r<number>, or words, shows any of it.]"
)
SUMMARY_HEADING = "## Summary\n"
STATE_HEADING = "## State as of this record"
# Headings of news that a replacement shows from live values, so that it repeats none of them.
PINS_HEADING = "# Pins"
COMMANDS_HEADING = "# Background commands"
_FROM_FACT = lazy_pattern(r"[a-z -]+ \(r(\d+)\):")  # a line of the live state
LOCAL_SUMMARY_HEADING = "## Ledger (newest and most used first)"
WORDS_HEADING = "## All user messages, verbatim (the newest is last)"
OPEN_REQUEST = (
    "The last {count}of the user's messages above, answers aside, {are} the request being worked on: "
    "go on with it from where it stands."
)
NO_OPEN_REQUEST = "The requests above have been dealt with or are known; wait for the user's next message."
UNSHOWN_RESULTS = "The results of the newest calls did not fit and were not shown: recall shows {ids}."
LATER_HOLDS = "(What was said later holds, here and in the messages below: they may take back some of these.)"
MAX_COMMITMENT_TOKENS = 1_200  # of what the assistant promised, decided and gave up
MAX_MISSING_NAMES_TOKENS = 500  # appended to a summary that lacks them
FRAME_TOKENS = 200  # headings and closing line
MAX_CONSTRAINTS = 20  # the newest ones, of messages that are left out
SUMMARY_RESERVE_TOKENS = 1_500  # that replacement and tail leave for a summary of usual size
TAIL_RESERVE_TOKENS = 2_000  # that the user's messages leave for the newest exchanges


def summary_reserve(room: int) -> int:
    """The part of `room` that replacement and tail leave for the model summary, in tokens of our count."""
    return min(SUMMARY_RESERVE_TOKENS, room // 8)


def local_summary_before(situation: Situation, at: int) -> LocalSummary:
    """Return the local summary of the first `at` entries; built once, since several cuts are tried."""
    made = situation.worked_out
    if at not in made.local_summaries:
        made.local_summaries[at] = build_local_summary(situation.folded, situation.folded.entries[:at])
    return made.local_summaries[at]


def replacement_tokens(situation: Situation, limits: FoldLimits, at: int, room: int) -> int:
    """Return the tokens, by our count, of the replacement of the first `at` entries without a summary."""
    key = (limits.trigger, at, room)
    known = situation.worked_out.replacement_tokens
    if key not in known:
        known[key] = situation.counter.text(
            replacement_text(situation, replace(limits, summary=""), at, room)
        )
    return known[key]


def replacement_text(situation: Situation, limits: FoldLimits, at: int, room: int, beside: str = "") -> str:
    """Return the replacement of the first `at` entries in about `room` tokens of our count.

    The model summary is not counted. `beside` is text that is shown with the replacement anyway: the local
    summary need not repeat its names.
    """
    folded = situation.folded
    counter = situation.counter
    summary = limits.summary
    entries = folded.entries[:at]
    local_room = min(situation.settings.ledger_max_tokens, room // 3)
    local_summary = local_summary_before(situation, at)
    committed = commitments_text(local_summary, counter, min(MAX_COMMITMENT_TOKENS, room // 8), skip=beside)
    reserve = min(TAIL_RESERVE_TOKENS, room // 4) + summary_reserve(room)
    fixed = local_room + FRAME_TOKENS + reserve + counter.text(committed)
    words = user_messages(situation, entries, max(room // 8, room - fixed))
    pieces = [REPLACEMENT_HEADER.format(first=entries[0].seq, last=max(entry.last for entry in entries))]
    if summary:
        pieces.append(f"{SUMMARY_HEADING}{summary}")
    shown = "\n".join((summary, words, beside, committed))
    # Without a summary names are the best use of half of its room: 92 % instead of 90 % of those needed next.
    spare = 0 if summary else min(summary_reserve(room), local_room) // 2
    account = local_summary_text(local_summary, counter, local_room + spare, skip=shown)
    if account or committed:
        pieces.append("\n".join(filter(None, (LOCAL_SUMMARY_HEADING, account, committed))))
    pieces.extend(_constraints_and_state(situation, local_summary.constraints, words))
    shown = "\n".join((*pieces, words, beside))
    if summary and (text := missing_names(local_summary, counter, MAX_MISSING_NAMES_TOKENS, shown)):
        pieces.append(f"## Named before, but not above\n{text}")
    pieces.extend(_environment(entries))
    if words:
        pieces.append(f"{WORDS_HEADING}\n{words}")
    if unshown := [seq for entry in entries for seq in _results(entry) if seq > folded.last_reply_seq]:
        pieces.append(UNSHOWN_RESULTS.format(ids=f"r{unshown[0]} to r{unshown[-1]}"))
    count = 0 if limits.trigger == "manual" else open_requests(folded, at)
    several = {"count": f"{count} ", "are": "are"} if count > 1 else {"count": "", "are": "is"}
    pieces.append(OPEN_REQUEST.format(**several) if count else NO_OPEN_REQUEST)
    return "\n\n".join(pieces)


def _results(entry: Entry) -> list[int]:
    """The seqs of the results that an entry holds, in the order in which they came."""
    return sorted(result.seq for result in entry.results.values()) if isinstance(entry, Exchange) else []


def _constraints_and_state(
    situation: Situation, constraints: Sequence[tuple[str, str]], words: str
) -> Iterator[str]:
    pins = [f"- {text} (pinned by the user)" for text in pins_of(situation.folded.metadata).values()]
    # What is said again stands where it was said last, behind what it sets right.
    last = {alike(text): at for at, (text, _) in enumerate(constraints)}
    held = [
        f"- {text} ({source})"
        for at, (text, source) in enumerate(constraints)
        if last[alike(text)] == at and text not in words
    ]
    if pins or held:
        note = [LATER_HOLDS] if held else []
        yield "## Constraints\n" + "\n".join([*pins, *held[-MAX_CONSTRAINTS:], *note])
    if situation.live:
        yield f"{STATE_HEADING}\n" + "\n".join(f"- {line}" for line in situation.live)


def live_within(situation: Situation, first: int, last: int) -> str:
    """Return the live state by the facts first..last, which are about to be summarized; "" where there is
    none.

    Lines of the live state name the fact that they come from: `plan (r57): ...`.
    """
    named = ((_FROM_FACT.match(line), line) for line in situation.live)
    lines = [f"- {line}" for found, line in named if found and first <= int(found[1]) <= last]
    return "\n".join([STATE_HEADING, *lines]) if lines else ""


def _environment(entries: Sequence[Entry]) -> Iterator[str]:
    """Return the program's statements of date, directory and commands, the newest of each kind."""
    told: dict[str, str] = {}
    for entry in entries:
        results = () if isinstance(entry, Prompt) else entry.results.values()
        parts = (entry.fact.blocks,) if isinstance(entry, Prompt) else (one.content for one in results)
        for block in chain.from_iterable(parts):
            text = injected_text(block)
            # instructions are among the state, within limits
            if text is None or text.startswith(SKILL_START) or attachment_of(block):
                continue
            kind = text.strip().partition("\n")[0]
            if kind not in (PINS_HEADING, COMMANDS_HEADING):
                told[kind] = text.strip()
    if told:
        yield "\n".join(("## Surroundings, as told last", *told.values()))


def summary_in(replacement: str) -> str:
    """Return the model summary in a replacement, "" for none."""
    _, found, rest = replacement.partition(SUMMARY_HEADING)
    return rest.partition("\n\n## Ledger")[0].partition("\n\n## All user messages")[0] if found else ""

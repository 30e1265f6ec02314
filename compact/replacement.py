"""Write the replacement: the text that is shown instead of a summarized range of messages.

Its parts, in this order: the user's messages (user_messages.py), pins and constraints with their source, live
state, the model summary (if there is one), the local summary with the commitments of the assistant, and the
environment. A header keeps the model from reading any of it as a new request. The last line says whether the
newest request is still being worked on, and where to continue.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice

from msgspec.structs import replace

from transcripts import SKILL_START, Channel, Entry, Exchange, Prompt
from transcripts.patterns import lazy_pattern

from .clearing import head_and_tail, on_short_line
from .invariants import open_requests
from .local_summary import LocalSummary, build_local_summary, pins_of
from .local_summary_text import commitments_text, local_summary_text, most_used_names
from .situation import FoldLimits, LocalTexts, Situation
from .user_blocks import alike
from .user_messages import user_messages

SUMMARY_HEADING = "## Model summary\n"  # which a pasted text, such as a pull request, will not contain
STATE_HEADING = "## Current state"
_HIGH_HEADING = lazy_pattern(r"^#{1,2}(?=\s)", re.MULTILINE)
_FROM_FACT = lazy_pattern(r"[a-z -]+ \(r(\d+)\):")  # a line of the live state
ENVIRONMENT_HEADING = "## Environment"
WORDS_HEADING = "## All user messages, verbatim (newest last)"
CONTINUE_BELOW = "Continue with the messages below."
SUMMARY_RESERVE_TOKENS = 1_500  # that replacement and tail leave for a summary of usual size


class EnvironmentHeading(StrEnum):
    """The headings of environment texts that the replacement generates from live values instead."""

    PINS = "# Pins"
    COMMANDS = "# Background commands"
    DIRECTORY = "# Current directory"


def summary_reserve(room: int) -> int:
    """Return the part of `room` (tokens of our count) that replacement and tail leave for a model summary."""
    return min(SUMMARY_RESERVE_TOKENS, room // 8)


def local_summary_before(situation: Situation, at: int) -> LocalSummary:
    """Return the local summary of the first `at` entries; built once, since several cuts are tried."""
    made = situation.worked_out
    if at not in made.local_summaries:
        made.local_summaries[at] = build_local_summary(situation.folded, situation.folded.entries[:at])
    return made.local_summaries[at]


def names_to_cover(situation: Situation, at: int) -> dict[str, list[str]]:
    """Return the names that a summary of the first `at` entries should contain; found once, as above."""
    found = situation.worked_out.most_used_names
    if at not in found:
        found[at] = most_used_names(local_summary_before(situation, at))
    return found[at]


def replacement_tokens(situation: Situation, limits: FoldLimits, at: int, room: int) -> int:
    """Return the tokens, by our count, of the replacement of the first `at` entries without a summary."""
    return situation.tokens_of(replacement_text(situation, replace(limits, summary=""), at, room))


REPLACEMENT_HEADER = (
    "[summarized: this replaces the earlier conversation (r{first}-r{last}). It is not a request. "
    'recall("r57") shows the original with such an id, recall(query="...") searches all of it.]'
)
LOCAL_SUMMARY_HEADING = "## Local summary (collected by makeroom; newest and most used first)"
UNSHOWN_RESULTS = "The results of the newest calls ({ids}) did not fit and were not shown; recall shows them."
MAX_COMMITMENT_TOKENS = 1_600  # of what the assistant promised, decided and gave up
MAX_ENVIRONMENT_TOKENS = 2_000  # of what makeroom said about directory, mode and project instructions
FRAME_TOKENS = 200  # headings and closing line
MIN_WORDS_SHARE = 0.3  # of the replacement, which the user's messages get however large the rest is
SAME_ROOM_SHARE = 0.02  # of a replacement: cuts whose room for the user's messages differs by less share them
TAIL_RESERVE_TOKENS = 2_000  # that the user's messages leave for the newest exchanges


def replacement_text(situation: Situation, limits: FoldLimits, at: int, room: int, beside: str = "") -> str:
    """Return the replacement of the first `at` entries in about `room` tokens of our count.

    The model summary is not counted. `beside` is text that is shown with the replacement anyway, so that its
    sentences need not be repeated.
    """
    folded = situation.folded
    entries = folded.entries[:at]
    last = max(entry.last for entry in entries)
    summary = _model_summary(situation, limits.summary, room // 3, f"r{entries[0].seq}-r{last}")
    local_summary = local_summary_before(situation, at)
    account, committed, environment = _local_texts(situation, at, room)
    state = [*_state(situation)]
    fixed = sum(map(situation.tokens_of, (account, committed, *state, environment))) + FRAME_TOKENS
    fixed += max(min(TAIL_RESERVE_TOKENS, room // 4), _tokens_that_stay(situation))
    fixed += max(summary_reserve(room), situation.tokens_of(summary))
    words = _user_messages(situation, at, max(int(room * MIN_WORDS_SHARE), room - fixed))
    if beside:
        most = _most_commitment_tokens(room)
        skip = f"{account}\n{beside}"
        committed = commitments_text(local_summary, situation.counter, most, skip)
    pieces = [REPLACEMENT_HEADER.format(first=entries[0].seq, last=last)]
    if words:
        pieces.append(f"{WORDS_HEADING}\n{words}")
    pieces.extend(_constraints(situation, local_summary.constraints, words))
    pieces.extend(state)
    if summary:
        pieces.append(f"{SUMMARY_HEADING}{summary}")
    if account or committed:
        pieces.append("\n".join(filter(None, (LOCAL_SUMMARY_HEADING, account, committed))))
    if environment:
        pieces.append(environment)
    if unshown := [seq for entry in entries for seq in _results(entry) if seq > folded.last_reply_seq]:
        pieces.append(UNSHOWN_RESULTS.format(ids=f"r{unshown[0]} to r{unshown[-1]}"))
    count = 0 if limits.trigger == "manual" else open_requests(folded, at)
    pieces.append(_closing_line(count, is_last=at == len(folded.entries)))
    return "\n\n".join(pieces)


def _model_summary(situation: Situation, summary: str, most: int, ident: str) -> str:
    """Return a model summary in at most about `most` tokens, with headings below those of the replacement.

    Otherwise a copied heading such as "## Constraints" would make the model's words the user's.
    """
    if (size := situation.tokens_of(summary)) > most:
        summary = head_and_tail(summary, len(summary) * most // size, ident)
    return _HIGH_HEADING.sub("###", summary)


def _tokens_that_stay(situation: Situation) -> int:
    """Return the tokens of the newest reply and of what follows it, which no summary replaces."""
    view = situation.view
    return view.tokens - view.tokens_before(view.index_of(situation.folded.last_reply_seq))


def _most_commitment_tokens(room: int) -> int:
    return min(MAX_COMMITMENT_TOKENS, room // 4)


def _local_texts(situation: Situation, at: int, room: int) -> LocalTexts:
    """Return the text of the local summary of the first `at` entries; written once, as its names are."""
    written = situation.worked_out.local_texts
    if (at, room) not in written:
        local_summary = local_summary_before(situation, at)
        counter = situation.counter
        most = min(situation.settings.ledger_max_tokens, room // 3)
        account = local_summary_text(local_summary, counter, most)
        committed = commitments_text(local_summary, counter, _most_commitment_tokens(room), skip=account)
        environment = _environment(situation, at, min(MAX_ENVIRONMENT_TOKENS, room // 8))
        written[at, room] = LocalTexts(account, committed, environment)
    return written[at, room]


def _user_messages(situation: Situation, at: int, room: int) -> str:
    """Return the user's messages among the first `at` entries.

    They are written once for cuts between the same prompts that leave about the same room.
    """
    written = situation.worked_out.user_messages
    entries = situation.folded.entries[:at]
    said = sum(
        isinstance(entry, Prompt) or any(result.remarks for result in entry.answers) for entry in entries
    )
    most = SAME_ROOM_SHARE * situation.replacement_limit
    for (count, earlier), text in written.items():
        if count == said and abs(earlier - room) <= most:
            return text
    written[said, room] = user_messages(situation, entries, room)
    return written[said, room]


OPEN_REQUEST = (
    "The user's last {messages} above (not counting answers) {is_or_are} the request being worked on. "
)
NO_OPEN_REQUEST = "None of the requests above is being worked on now. "
CONTINUE_REQUEST = "Continue with it."  # if no message follows


def _closing_line(open_count: int, is_last: bool) -> str:
    """Return the last line: the state of the newest request, of `open_count` messages, and where to continue.

    Without an open request a message always follows, at the latest the user's next one. With one, none
    follows if everything was summarized (`is_last`).
    """
    if not open_count:
        return NO_OPEN_REQUEST + CONTINUE_BELOW
    messages = "message" if open_count == 1 else f"{open_count} messages"
    request = OPEN_REQUEST.format(messages=messages, is_or_are="is" if open_count == 1 else "are")
    return request + (CONTINUE_REQUEST if is_last else CONTINUE_BELOW)


def _results(entry: Entry) -> list[int]:
    """Return the seqs of an entry's results, in the order in which they were recorded."""
    return sorted(result.seq for result in entry.results.values()) if isinstance(entry, Exchange) else []


LATER_HOLDS = "(Where two of these conflict, the later one applies. The messages below may override them.)"
MAX_CONSTRAINTS = 20  # the newest ones, of omitted messages


def _constraints(situation: Situation, constraints: Sequence[tuple[str, str]], words: str) -> Iterator[str]:
    pins = [f"- {text} (pinned by the user)" for text in pins_of(situation.folded.metadata).values()]
    # A sentence that was repeated is listed where it was last said, after what it overrides.
    last = {alike(text): at for at, (text, _) in enumerate(constraints)}
    unshown = (
        f"- {text} ({source})"
        for at, (text, source) in reversed([*enumerate(constraints)])
        if last[alike(text)] == at and text not in words
    )
    held = [*islice(unshown, MAX_CONSTRAINTS)][::-1]
    if pins or held:
        note = [LATER_HOLDS] if held else []
        yield "## Constraints\n" + "\n".join([*pins, *held, *note])


def _state(situation: Situation) -> Iterator[str]:
    if situation.live:
        yield f"{STATE_HEADING}\n" + "\n".join(f"- {line}" for line in situation.live)


def live_within(situation: Situation, first: int, last: int) -> str:
    """Return the live state that facts first..last set, which are about to be summarized; "" for none.

    Lines of the live state name the fact that they come from: `plan (r57): ...`.
    """
    named = ((_FROM_FACT.match(line), line) for line in situation.live)
    lines = [f"- {line}" for found, line in named if found and first <= int(found[1]) <= last]
    return "\n".join([STATE_HEADING, *lines]) if lines else ""


def _environment(situation: Situation, at: int, room: int) -> str:
    """Return what makeroom said in the first `at` entries about date, directory and commands.

    Only the newest text of each kind is shown. If not all fit into `room` tokens, the longest are only named.
    """
    newest: dict[str, tuple[int, str]] = {}
    for entry in situation.folded.entries[:at]:
        results = () if isinstance(entry, Prompt) else entry.results.values()
        parts = (entry.fact.blocks,) if isinstance(entry, Prompt) else (one.content for one in results)
        for block in chain.from_iterable(parts):
            text = Channel(situation.folded.tag).words(block)
            # instructions of skills are part of the state, within limits
            if text is None or text.startswith(SKILL_START):
                continue
            kind = text.strip().partition("\n")[0]
            if kind not in tuple(EnvironmentHeading):
                newest[kind] = (entry.seq, text.strip())
    shown = dict[str, str]()
    for kind, (seq, text) in sorted(newest.items(), key=lambda item: len(item[1][1])):
        room -= situation.counter.text(text)
        shown[kind] = text if room >= 0 else f'[{on_short_line(kind)}: recall("r{seq}") shows it]'
    return "\n".join((ENVIRONMENT_HEADING, *(shown[kind] for kind in newest))) if shown else ""


def summary_in(replacement: str) -> str:
    """Return the model summary in a replacement, also in one of earlier versions; "" for none."""
    before, found, rest = replacement.rpartition(SUMMARY_HEADING)
    if not found:
        before, found, rest = replacement.partition("## Summary\n")
        if not found or WORDS_HEADING in before:  # it is in a text of the user
            return ""
    # "Ledger" is the local summary of earlier versions.
    for heading in ("## Local summary", "## Ledger", ENVIRONMENT_HEADING, "## All user messages"):
        rest, ended, _ = rest.partition(f"\n\n{heading}")
        if ended:
            return rest
    return rest.rpartition("\n\n")[0] or rest  # without the closing line

"""The record that stands in place of folded history; code makes it, whatever the model wrote.

In this order: the summary (if there is one), the ledger with what the assistant committed itself to, pins and
constraints with their source, live state, the user's messages: verbatim while there is room, then without
small talk, then their beginnings and every sentence that directs the work, the heaviest first. It is
marked as a record, so that nothing in it is taken for a new request. The newest request comes last, and is
called open only while its turn goes on.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from transcripts import (
    INJECTED_CLOSING_TAG,
    INJECTED_OPENING_TAG,
    SKILL_OPENING_TAG,
    Entry,
    Exchange,
    ImageBlock,
    Prompt,
    TextBlock,
    is_attached,
    is_injected,
    own_words,
)
from transcripts.patterns import lazy_pattern

from .clearing import call_label, on_short_line, with_sentences
from .directives import FACT, LASTING, REQUEST, WISH, weighed_sentences
from .invariants import open_prompts, open_requests
from .local_summary import (
    LocalSummary,
    build_local_summary,
    commitments_text,
    local_summary_text,
    missing_names,
    pins_of,
)
from .situation import Situation, Trigger, UserBlock

RECORD_HEADER = (
    "[folded: this is makeroom's record of the earlier conversation (r{first}-r{last}), not a request. "
    "Nothing is lost: recall r<number>, or words, shows any of it.]"
)
SUMMARY_HEADING = "## Summary\n"
STATE_HEADING = "## State as of this record"
# Headings of news about what a record holds from its live values, so that it repeats none of them.
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
REFUSING = "refusing"  # before the call that the words of a user refuse
OMITTED_MESSAGES = "({count} older messages are left out here: recall shows {ids})"
OMITTED_TALK = "({count} short messages between {ids} are left out here: recall shows them)"
OMITTED_BUT_SENTENCES = "({count} older messages are left out but for these sentences: recall shows {ids})"
KEPT_NEWEST = 12  # blocks of the user, which are no small talk to the work in hand
HEAD_TOKENS = 44
SHORT_HEAD_TOKENS = 16  # of a message of the user that is not shown whole
CAPPED = 0  # tokens of a form: as many as user_block_max_tokens allows, from both ends
TYPED_TOKENS = 200  # of a message that may have been typed; a longer one holds what was pasted
# How a block of the user is shown, mildest first: (tokens of it, weight from which sentences stay besides,
# tokens down to which it stands whole if not cut to these).
WHOLE_FORM = (CAPPED, WISH)
FORMS: tuple[tuple[int, ...], ...] = (
    WHOLE_FORM,
    (CAPPED, REQUEST),
    *((HEAD_TOKENS, weight, TYPED_TOKENS) for weight in (FACT, WISH)),
    *((HEAD_TOKENS, weight, whole) for weight, whole in ((WISH, 0), (REQUEST, TYPED_TOKENS), (REQUEST, 0))),
)
SHORTEST_FORM = (SHORT_HEAD_TOKENS, WISH)
ENDS_ONLY = (CAPPED, LASTING + 1)
LINE_FRAME_TOKENS = 8  # of the mark and the id that a sentence is shown with
MAX_OWN_COMMAND_TOKENS = 200  # of a command that the user ran and of what it wrote
CUT_NOTE_TOKENS = 18  # of the note that says how much of a message is left out
MAX_COMMITMENT_TOKENS = 1_200  # of what the assistant promised, decided and gave up
MAX_MISSING_NAMES_TOKENS = 500  # appended to a summary that lacks them
RECORD_FRAME_TOKENS = 200  # headings and closing line
MAX_CONSTRAINTS = 20  # the newest ones, of messages that are left out
SUMMARY_RESERVE_TOKENS = 1_500  # that record and tail leave for a summary of usual size
TAIL_RESERVE_TOKENS = 2_000  # that the user's messages leave for the newest exchanges


class FoldLimits(Struct, frozen=True):
    """The form of a summarized range: the summary to show, the tokens (our count) of the tail, whether files
    are restored.
    """

    trigger: Trigger
    summary: str = ""
    tail: int | None = None  # None: the settings' limits
    restoring: bool = True


def summary_reserve(room: int) -> int:
    """Return the tokens (our count) that a local summary and a tail of this size leave for the model
    summary.
    """
    return min(SUMMARY_RESERVE_TOKENS, room // 8)


def local_summary_before(situation: Situation, at: int) -> LocalSummary:
    """The ledger of the first `at` entries; built once, because several cuts and summaries are tried."""
    made = situation.worked_out
    if at not in made.local_summaries:
        made.local_summaries[at] = build_local_summary(situation.folded, situation.folded.entries[:at])
    return made.local_summaries[at]


def record_tokens(situation: Situation, limits: FoldLimits, at: int, room: int) -> int:
    """Tokens of our count of the record of the first `at` entries without a summary."""
    key = (limits.trigger, at, room)
    known = situation.worked_out.record_tokens
    if key not in known:
        known[key] = situation.counter.text(record_text(situation, replace(limits, summary=""), at, room))
    return known[key]


def record_text(situation: Situation, limits: FoldLimits, at: int, room: int, beside: str = "") -> str:
    """The record of the first `at` entries in about `room` tokens of our count, the summary not counted.

    `beside` is the text that is shown with the record anyway: its names need no room in the ledger.
    """
    folded = situation.folded
    counter = situation.counter
    summary = limits.summary
    entries = folded.entries[:at]
    ledger_room = min(situation.settings.ledger_max_tokens, room // 3)
    local_summary = local_summary_before(situation, at)
    committed = commitments_text(local_summary, counter, min(MAX_COMMITMENT_TOKENS, room // 8), skip=beside)
    reserve = min(TAIL_RESERVE_TOKENS, room // 4) + summary_reserve(room)
    fixed = ledger_room + RECORD_FRAME_TOKENS + reserve + counter.text(committed)
    words = user_messages(situation, entries, max(room // 8, room - fixed))
    pieces = [RECORD_HEADER.format(first=entries[0].seq, last=max(entry.last for entry in entries))]
    if summary:
        pieces.append(f"{SUMMARY_HEADING}{summary}")
    shown = "\n".join((summary, words, beside, committed))
    # Without a summary names are the best use of half of its room: 92 % instead of 90 % of those needed next.
    spare = 0 if summary else min(summary_reserve(room), ledger_room) // 2
    account = local_summary_text(local_summary, counter, ledger_room + spare, skip=shown)
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
    last = {_alike(text): at for at, (text, _) in enumerate(constraints)}
    held = [
        f"- {text} ({source})"
        for at, (text, source) in enumerate(constraints)
        if last[_alike(text)] == at and text not in words
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
            if isinstance(block, TextBlock) and is_injected(block) and not is_attached(block):
                text = (
                    block.text.strip().removeprefix(INJECTED_OPENING_TAG).removesuffix(INJECTED_CLOSING_TAG)
                )
                kind = text.strip().partition("\n")[0]
                # instructions are among the state, within limits
                if not text.startswith(SKILL_OPENING_TAG) and kind not in (PINS_HEADING, COMMANDS_HEADING):
                    told[kind] = text.strip()
    if told:
        yield "\n".join(("## Surroundings, as told last", *told.values()))


def user_messages(situation: Situation, entries: Iterable[Entry], room: int) -> str:
    """The user's messages and answers, oldest first, in about `room` tokens.

    The newest message always is among them, and that which began its turn. Where room is short, small talk
    gives way first. Then the older ones, the pasted before the typed, are shown by their beginnings and the
    sentences that direct the work, down to the weight that fits; what room is then left goes to the newest.
    Only where even that is too much, the oldest messages are left out, with their ids, but for their heaviest
    sentences.
    """
    blocks = _last_said([block for entry in entries for block in _user_blocks(situation, entry)])
    if not blocks:
        return ""
    stay = dict[int, str]()
    for at in sorted(_open_blocks(situation, blocks), reverse=True):
        stay[at], tokens = _newest(situation, blocks[at], room)
        room = max(0, room - tokens)
    older = [block for at, block in enumerate(blocks) if at not in stay]
    talk = set[int]()
    if _total(situation, older, WHOLE_FORM) > room:
        talk = {at for at, block in enumerate(older[:-KEPT_NEWEST]) if block.is_talk(HEAD_TOKENS)}
        room -= CUT_NOTE_TOKENS if talk else 0
    said = [block for at, block in enumerate(older) if at not in talk]
    level = next((form for form in FORMS if _total(situation, said, form) <= room), None)
    if level is None:
        heaviest = _heaviest_and_newest(situation, said, room)
        return "\n".join([*_talk_note(older, talk), *heaviest, *(stay[at] for at in sorted(stay))])
    shown = [("", 0) if at in talk else _form(situation, block, level) for at, block in enumerate(older)]
    left = room - sum(tokens for _, tokens in shown)
    for better in (FORMS[max(0, FORMS.index(level) - 1)], WHOLE_FORM):
        for at in range(len(older) - 1, -1, -1):
            text, tokens = _form(situation, older[at], better)
            if at not in talk and 0 < tokens - shown[at][1] <= left:
                left -= tokens - shown[at][1]
                shown[at] = (text, tokens)
    for at in sorted(talk, key=lambda at: (older[at].tells(), at), reverse=True):
        text, tokens = _form(situation, older[at], WHOLE_FORM)
        if (left := left - tokens) < 0:
            break
        talk.remove(at)
        shown[at] = (text, tokens)
    note = _talk_note(older, talk)
    for at in sorted(stay):
        shown.insert(at, (stay[at], 1))
    return "\n".join([*note, *(text for text, tokens in shown if tokens)])


def _talk_note(blocks: Sequence[UserBlock], talk: set[int]) -> list[str]:
    ids = f"{blocks[min(talk)].ident} and {blocks[max(talk)].ident}" if talk else ""
    return [OMITTED_TALK.format(count=len(talk), ids=ids)] if talk else []


def _open_blocks(situation: Situation, blocks: Sequence[UserBlock]) -> set[int]:
    """Which blocks stand in any case: the last of the newest message and of that which began its turn."""
    own = [(at, block.ident) for at, block in enumerate(blocks) if not block.answers]
    began = [f"r{prompt.seq}." for prompt in open_prompts(situation.folded)[:1]]
    first = [at for at, ident in own if ident.startswith(tuple(began))]
    return {own[-1][0] if own else len(blocks) - 1, *first[-1:]}


def _last_said(blocks: list[UserBlock]) -> list[UserBlock]:
    """The blocks without the reasons of refusals that were given again, word for word, for a later call."""
    last = {block.text: at for at, block in enumerate(blocks) if block.answers.startswith(REFUSING)}
    return [
        block
        for at, block in enumerate(blocks)
        if not block.answers.startswith(REFUSING) or last[block.text] == at
    ]


def _newest(situation: Situation, block: UserBlock, room: int) -> tuple[str, int]:
    """The newest block, which stands in any case, with as many of its sentences as there is room for."""
    forms = (_form(situation, block, form) for form in (WHOLE_FORM, (CAPPED, REQUEST), (CAPPED, LASTING)))
    return next((form for form in forms if form[1] <= room), _form(situation, block, ENDS_ONLY))


def _total(situation: Situation, blocks: Sequence[UserBlock], form: tuple[int, ...]) -> int:
    return sum(_form(situation, block, form)[1] for block in blocks)


def _heaviest_and_newest(situation: Situation, blocks: Sequence[UserBlock], room: int) -> list[str]:
    """The newest blocks in their shortest form, behind the heaviest sentences of the older ones.

    The sentences get three quarters of the room if they need them. Of the same weight the newest come
    first, so that nothing is shown without what was said of it later.
    """
    each = ((weight, at, line) for at, block in enumerate(blocks) for weight, line in block.said())
    said = list(dict.fromkeys(each))
    last = {_alike(line): at for _, at, line in said}
    tokens = {line: situation.counter.text(line) + LINE_FRAME_TOKENS for _, _, line in said}
    parts = [sum(tokens[line] for weight, line in block.said() if weight >= FACT) for block in blocks]
    wanted = sum(parts)
    left = room - CUT_NOTE_TOKENS
    first = len(blocks)
    while first:
        size = _form(situation, blocks[first - 1], SHORTEST_FORM)[1]
        if size + min(wanted - parts[first - 1], room * 3 // 4) > left:
            break
        wanted = wanted - parts[first - 1]
        left = left - size
        first = first - 1
    kept = set[tuple[int, str]]()
    for _, at, line in sorted(said, key=lambda one: one[:2], reverse=True):
        if at < first and last[_alike(line)] == at and tokens[line] <= left:
            left -= tokens[line]
            kept.add((at, line))
    lines = [f"- {line} ({blocks[at].ident})" for _, at, line in said if (at, line) in kept]
    note = OMITTED_BUT_SENTENCES if lines else OMITTED_MESSAGES
    ids = f"{blocks[0].ident} to {blocks[max(0, first - 1)].ident}"
    shown = [_form(situation, block, SHORTEST_FORM)[0] for block in blocks[first:]]
    return [*([note.format(count=first, ids=ids)] if first else []), *lines, *shown]


def _alike(sentence: str) -> str:
    """Return the form in which two sentences that say the same in the same words agree."""
    return sentence.casefold().strip(" .!")


def _form(situation: Situation, block: UserBlock, form: tuple[int, ...]) -> tuple[str, int]:
    """Return a block in a form, and the tokens that this takes."""
    if form not in block.forms:
        most, weight, *whole = form
        text = block.text
        cap = situation.settings.user_block_max_tokens
        if own_words(text) != text:
            cap = min(cap, MAX_OWN_COMMAND_TOKENS)
        if block.tokens > min(cap, max([most + CUT_NOTE_TOKENS, *whole]) if most else cap):
            size = cap * len(text) // block.tokens * 9 // 10
            cut = {"ends": size} if most == CAPPED else {"head": _head(situation, text, most)}
            text = with_sentences(text, block.ident, weight, **cut)
        text = f"({', '.join(filter(None, (block.ident, block.answers)))}) {text}"
        block.forms[form] = (text, situation.counter.text(text))
    return block.forms[form]


def _head(situation: Situation, text: str, tokens: int) -> int:
    """Characters of the beginning of a text that have at least so many tokens."""
    size = 3 * tokens
    while size < len(text) and situation.counter.text(text[:size]) < tokens:
        size += tokens
    return size


def _user_blocks(situation: Situation, entry: Entry) -> Iterator[UserBlock]:
    """The blocks of a message that are the user's own, or their answers to the calls of an exchange."""
    known = situation.worked_out.user_blocks
    if isinstance(entry, Exchange):
        yield from _answers(situation, entry)
        return
    if entry.fact.source != "user":
        return
    for index, block in enumerate(entry.fact.blocks):
        if is_injected(block) or not isinstance(block, TextBlock | ImageBlock):
            continue
        if (entry.seq, index) not in known:
            text = block.text if isinstance(block, TextBlock) else "[an image]"
            tokens = situation.counter.text(text)
            known[entry.seq, index] = UserBlock(f"r{entry.seq}.{index}", text, tokens)
        yield known[entry.seq, index]


def _answers(situation: Situation, exchange: Exchange) -> Iterator[UserBlock]:
    """Return the user's answers to the calls of an exchange: to a question of one, or the reason of a
    denial.
    """
    for index, result in exchange.results.items():
        for question, words in result.said:
            call = f"{REFUSING} r{exchange.seq}.{index} {call_label(exchange.uses[index])}"
            answers = f'answering "{on_short_line(question)}"' if question else call
            yield UserBlock(f"r{result.seq}", words, situation.counter.text(words), answers)


def directives_within(situation: Situation, first: int, last: int, room: int) -> str:
    """The user's sentences of the facts first..last that direct later work, in so many tokens; mostly all.

    Where room is short those that always hold come first, then the newest. The newest prompt is left out:
    while its turn goes on it is shown whole.
    """
    opened = {prompt.seq for prompt in open_prompts(situation.folded)}
    entries = [
        entry for entry in situation.folded.entries if first <= entry.seq <= last and entry.seq not in opened
    ]
    found = [
        (each.weight, at, f"- {block.text[each.start : each.end]} ({block.ident})")
        for at, block in enumerate(block for entry in entries for block in _user_blocks(situation, entry))
        for each in weighed_sentences(own_words(block.text))
        if each.weight >= REQUEST
    ]
    kept = set[str]()
    for _, _, line in sorted(found, key=lambda one: one[:2], reverse=True):
        room -= situation.counter.text(line)
        if room >= 0:
            kept.add(line)
    return "\n".join(dict.fromkeys(line for _, _, line in found if line in kept))


def request_within(situation: Situation, first: int, last: int) -> str | None:
    """The prompts that the newest turn works on, with their ids, of the facts first..last; else None."""
    prompts = [prompt for prompt in open_prompts(situation.folded) if first <= prompt.seq <= last]
    blocks = (block for prompt in prompts for block in _user_blocks(situation, prompt))
    return "\n".join(_form(situation, block, WHOLE_FORM)[0] for block in blocks) if prompts else None


def summary_in(record: str) -> str:
    """The summary that a record holds, "" for none."""
    _, found, rest = record.partition(SUMMARY_HEADING)
    return rest.partition("\n\n## Ledger")[0].partition("\n\n## All user messages")[0] if found else ""

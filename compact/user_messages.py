"""Show the user's messages of a summarized range: verbatim, or only the sentences that direct the work.

Each block of the user is shown in a `Form`. If space is short, all older ones get the mildest form that fits;
the sentences that direct the work are kept longest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, groupby
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from transcripts import Entry, Exchange, ImageBlock, TextBlock, own_words
from transcripts.patterns import lazy_pattern

from .clearing import GAP, call_label, on_short_line, with_sentences
from .directives import FACT, ITEM_START, LASTING, REQUEST, REST, WISH, has, spoken_words, weighed_sentences
from .invariants import open_prompts
from .situation import Situation, UserBlock

DENYING = "denying"  # before the call that the user denied with these words
OMITTED_MESSAGES = "({count} older messages are omitted; recall shows {ids})"
OMITTED_TALK = "({count} short messages between {ids} are omitted; recall shows them)"
OMITTED_BUT_SENTENCES = "({count} older messages are omitted except for these sentences; recall shows {ids})"
KEPT_NEWEST = 12  # blocks of the user that are never treated as small talk
HEAD_TOKENS = 44
SHORT_HEAD_TOKENS = 16  # of a message that is not shown in full
CAPPED = 0  # tokens of a form: up to user_block_max_tokens, from both ends
TYPED_TOKENS = 200  # of a message that may have been typed; a longer one contains pasted text


class Form(NamedTuple):
    """The form in which a user's block is shown: its first `tokens`, and sentences of at least `weight`.

    A block of at most `whole` tokens is not cut.
    """

    tokens: int
    weight: int
    whole: int = 0


WHOLE_FORM = Form(CAPPED, WISH)
# The mildest first.
FORMS = (
    WHOLE_FORM,
    Form(CAPPED, REQUEST),
    Form(HEAD_TOKENS, weight=REST, whole=TYPED_TOKENS),
    Form(HEAD_TOKENS, weight=FACT, whole=TYPED_TOKENS),
    Form(HEAD_TOKENS, weight=WISH, whole=TYPED_TOKENS),
    Form(HEAD_TOKENS, WISH),
)
SHORTEST_FORM = Form(SHORT_HEAD_TOKENS, WISH)
ENDS_ONLY = Form(CAPPED, LASTING + 1)
LINE_FRAME_TOKENS = 8  # of the list mark and the id of a message
GAP_TOKENS = 3  # between two of its sentences
MAX_OWN_COMMAND_TOKENS = 200  # of a command that the user ran, with its output
PLAIN_CHARS = 110  # of a rule that a user types, at most
CHARS_PER_MARK = 20  # of a sentence that is typed, at least
HIGHEST_RANK = 2 * LASTING + 2  # of a sentence that withdraws an earlier one
RARE_COUNT = 4  # sentences with a rare word, at most
SHARED_WORDS = 2  # rare words that two sentences on the same subject have in common, at least
MIN_SUBJECT_CHARS = 4  # of a word that names a subject
SUBJECT_CHARS = 5  # of its beginning, by which it is recognized with other endings
FIRST_UNSPACED = "\u2e80"  # from here on are the scripts of Chinese, Japanese and Korean
_MARKUP = lazy_pattern(r"[`|/\\#*_{}<>=→\[\]&;]")
CUT_NOTE_TOKENS = 18  # of the note that says how much of a message is omitted


def user_messages(situation: Situation, entries: Iterable[Entry], room: int) -> str:
    """Return the user's messages and answers, oldest first, in about `room` tokens.

    The newest message is always among them, and the one that began its turn. If space is short, small talk is
    omitted first. Then the older messages, pasted before typed ones, are shown by their beginnings and the
    sentences that direct the work, down to the weight that fits; the remaining space goes to the newest. If
    even that is too much, the oldest messages are omitted except for their heaviest sentences.
    """
    blocks = _last_said([block for entry in entries for block in _user_blocks(situation, entry)])
    if not blocks:
        return ""
    stay = dict[int, str]()
    for at in sorted(_open_blocks(situation, blocks), reverse=True):
        stay[at], tokens = _newest(situation, blocks[at], room)
        room = max(0, room - tokens)
    older = [block for at, block in enumerate(blocks) if at not in stay]
    _mark_changes(blocks)
    small_talk = set[int]()
    if _total(situation, older, WHOLE_FORM) > room:
        small_talk = {at for at, block in enumerate(older[:-KEPT_NEWEST]) if block.is_talk(HEAD_TOKENS)}
        room -= CUT_NOTE_TOKENS if small_talk else 0
    rest = [block for at, block in enumerate(older) if at not in small_talk]
    level = next((form for form in FORMS if _total(situation, rest, form) <= room), None)
    if level is None:
        heaviest = _heaviest_and_newest(situation, rest, room)
        return "\n".join([*_talk_note(older, small_talk), *heaviest, *(stay[at] for at in sorted(stay))])
    shown = [
        ("", 0) if at in small_talk else _form(situation, block, level) for at, block in enumerate(older)
    ]
    left = room - sum(tokens for _, tokens in shown)
    longer = [at for at in range(len(older)) if at not in small_talk]
    left = _lengthen(situation, older, shown, longer, FORMS[: FORMS.index(level)], left)
    for at in sorted(small_talk, key=lambda at: (older[at].tells(), at), reverse=True):
        text, tokens = _form(situation, older[at], WHOLE_FORM)
        if (left := left - tokens) < 0:
            break
        small_talk.remove(at)
        shown[at] = (text, tokens)
    note = _talk_note(older, small_talk)
    for at in sorted(stay):
        shown.insert(at, (stay[at], 1))
    return "\n".join([*note, *(text for text, tokens in shown if tokens)])


def _lengthen(
    situation: Situation,
    blocks: Sequence[UserBlock],
    shown: list[tuple[str, int]],
    places: Sequence[int],
    forms: Sequence[Form],
    room: int,
) -> int:
    """Show the blocks at these places in a milder form while there is room; return the room that is left.

    All get a milder form before one gets a still milder one, the newest first.
    """
    for form in reversed(forms):
        for at in reversed(places):
            text, tokens = _form(situation, blocks[at], form)
            if 0 < tokens - shown[at][1] <= room:
                room -= tokens - shown[at][1]
                shown[at] = (text, tokens)
    return room


def _talk_note(blocks: Sequence[UserBlock], talk: set[int]) -> list[str]:
    ids = f"{blocks[min(talk)].ident} and {blocks[max(talk)].ident}" if talk else ""
    return [OMITTED_TALK.format(count=len(talk), ids=ids)] if talk else []


def _open_blocks(situation: Situation, blocks: Sequence[UserBlock]) -> set[int]:
    """Return the blocks always kept: the last of the newest message, and that of the turn's first one."""
    own = [(at, block.ident) for at, block in enumerate(blocks) if not block.answers]
    began = [f"r{prompt.seq}." for prompt in open_prompts(situation.folded)[:1]]
    first = [at for at, ident in own if ident.startswith(tuple(began))]
    return {own[-1][0] if own else len(blocks) - 1, *first[-1:]}


def _last_said(blocks: list[UserBlock]) -> list[UserBlock]:
    """Return the blocks without reasons of denials that the user repeated verbatim for a later call."""
    last = {block.text: at for at, block in enumerate(blocks) if block.answers.startswith(DENYING)}
    return [
        block
        for at, block in enumerate(blocks)
        if not block.answers.startswith(DENYING) or last[block.text] == at
    ]


def _newest(situation: Situation, block: UserBlock, room: int) -> tuple[str, int]:
    """Return the newest block, which is always shown, with as many of its sentences as fit."""
    forms = (
        _form(situation, block, form) for form in (WHOLE_FORM, Form(CAPPED, REQUEST), Form(CAPPED, LASTING))
    )
    return next((form for form in forms if form[1] <= room), _form(situation, block, ENDS_ONLY))


def _total(situation: Situation, blocks: Sequence[UserBlock], form: Form) -> int:
    return sum(_form(situation, block, form)[1] for block in blocks)


def _heaviest_and_newest(situation: Situation, blocks: Sequence[UserBlock], room: int) -> list[str]:
    """Return the sentences of the older blocks that bind most, then the newest blocks in their shortest form.

    The sentences get up to three quarters of the room. A sentence is never shown without a later one that
    may change it: what takes something back is taken first, and what says more on the same subject is taken
    with it.
    """
    weighed = [replace(each, tokens=situation.counter.text(each.text) + GAP_TOKENS) for each in _said(blocks)]
    parts = [0] * len(blocks)
    for each in weighed:
        parts[each.block] += each.tokens + (0 if parts[each.block] else LINE_FRAME_TOKENS)
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
    kept = _that_fit([each for each in weighed if each.block < first], left)
    lines = list[str]()
    for block, sentences in groupby(kept, key=lambda each: each.block):
        lines.append(f"- {GAP.join(each.text for each in sentences)} ({blocks[block].ident})")
    note = OMITTED_BUT_SENTENCES if lines else OMITTED_MESSAGES
    ids = f"{blocks[0].ident} to {blocks[max(0, first - 1)].ident}"
    left -= situation.counter.text("\n".join(lines))
    newest = blocks[first:]
    shown = [_form(situation, block, SHORTEST_FORM) for block in newest]
    _lengthen(situation, newest, shown, range(len(newest)), FORMS, left)
    return [*([note.format(count=first, ids=ids)] if first else []), *lines, *(text for text, _ in shown)]


class Said(Struct, frozen=True):
    """A sentence of the user: its place among all, its block, its weight, its subject words, its tokens."""

    at: int
    block: int
    text: str
    weight: int
    words: frozenset[str]
    tokens: int = 0

    @property
    def rank(self) -> int:
        return _rank(self.weight, self.text)


def _said(blocks: Sequence[UserBlock]) -> list[Said]:
    """Return the user's sentences, repeated ones only in the last place."""
    each = [
        (at, weight, line, alike(line)) for at, block in enumerate(blocks) for weight, line in block.weighed()
    ]
    last = {form: place for place, (_, _, _, form) in enumerate(each)}
    return [
        Said(
            place,
            block=at,
            text=line,
            weight=weight,
            words=_subjects(line),
        )
        for place, (at, weight, line, form) in enumerate(each)
        if last[form] == place
    ]


@lru_cache(maxsize=4_096)
def _subjects(line: str) -> frozenset[str]:
    """Return the beginnings of the words of a sentence that may name its subject, whatever their endings.

    Of scripts without spaces, each pair of characters is one.
    """
    words = [word for word in spoken_words(line) if len(word) >= MIN_SUBJECT_CHARS or word > FIRST_UNSPACED]
    beginnings = {word[:SUBJECT_CHARS] for word in words if word < FIRST_UNSPACED}
    pairs = {word[at : at + 2] for word in words if word > FIRST_UNSPACED for at in range(len(word) - 1)}
    return frozenset(beginnings | pairs)


@lru_cache(maxsize=4_096)
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


def _that_fit(said: Sequence[Said], room: int) -> list[Said]:
    """Return the sentences that fit, those that bind most first, and of the same rank the shortest.

    With a sentence come the later ones on its subject, since they may change it.
    """
    later = _later_on_subject(said)
    kept = dict[int, Said]()
    shown = set[int]()  # the blocks of the kept sentences
    for each in sorted(said, key=lambda each: (-each.rank, each.tokens, -each.at)):
        if each.tokens > room and each.at not in kept:
            continue  # nor does it fit with what comes with it
        group = {other.at: other for other in (each, *later.get(each.at, ()))}
        new = {at: one for at, one in group.items() if at not in kept}
        blocks = {one.block for one in new.values()} - shown
        tokens = sum(one.tokens for one in new.values()) + LINE_FRAME_TOKENS * len(blocks)
        if tokens <= room:
            room -= tokens
            kept |= new
            shown |= blocks
    return [kept[at] for at in sorted(kept)]


def _later_on_subject(said: Sequence[Said]) -> dict[int, list[Said]]:
    """Return for sentences, by their place, the later ones on the same subject.

    These share two rare words with it, or are short and share one that no other sentence has.
    """
    about = dict[str, list[Said]]()
    for each in said:
        for word in each.words:
            about.setdefault(word, []).append(each)
    shared = Counter[tuple[int, int]]()
    for found in about.values():
        if 1 < len(found) <= RARE_COUNT:
            only = len(found) == 2 and len(found[1].text) <= PLAIN_CHARS
            for first, second in combinations(found, 2):
                shared[first.at, second.at] += SHARED_WORDS if only else 1
    by_place = {each.at: each for each in said}
    later = dict[int, list[Said]]()
    for (first_at, second_at), count in shared.items():
        if count >= SHARED_WORDS:
            later.setdefault(first_at, []).append(by_place[second_at])
    return later


def _mark_changes(blocks: Sequence[UserBlock]) -> None:
    """Mark the sentences that may change a wish or a rule: they are shown wherever that is."""
    said = _said(blocks)
    later = _later_on_subject(said)
    changes = dict[int, set[str]]()
    for each in said:
        for other in later.get(each.at, ()) if each.weight >= WISH else ():
            changes.setdefault(other.block, set()).add(other.text)
    for at, block in enumerate(blocks):
        block.changes = frozenset(changes.get(at, ()))


def alike(sentence: str) -> str:
    """Return the form in which two sentences that say the same in the same words agree."""
    return sentence.casefold().strip(" .!")


def _form(situation: Situation, block: UserBlock, form: Form) -> tuple[str, int]:
    """Return a block in a form, and the tokens that this takes."""
    key = (form, block.changes)
    if key not in block.forms:
        text = block.text
        cap = situation.settings.user_block_max_tokens
        if own_words(text) != text:
            cap = min(cap, MAX_OWN_COMMAND_TOKENS)
        if block.tokens > min(cap, max(form.tokens + CUT_NOTE_TOKENS, form.whole) if form.tokens else cap):
            size = cap * len(text) // block.tokens * 9 // 10
            cut = {"ends": size} if form.tokens == CAPPED else {"head": _head(situation, text, form.tokens)}
            text = with_sentences(text, block.ident, form.weight, **cut, changes=block.changes)
        text = f"({', '.join(filter(None, (block.ident, block.answers)))}) {text}"
        block.forms[key] = (text, situation.counter.text(text))
    return block.forms[key]


def _head(situation: Situation, text: str, tokens: int) -> int:
    """Return the number of characters at the beginning of a text that have at least so many tokens."""
    size = 3 * tokens
    while size < len(text) and situation.counter.text(text[:size]) < tokens:
        size += tokens
    return size


def _user_blocks(situation: Situation, entry: Entry) -> Iterator[UserBlock]:
    """Yield the user's own blocks of a message, or the user's answers to the calls of an exchange."""
    user_blocks = situation.worked_out.user_blocks
    if isinstance(entry, Exchange):
        yield from _answers(situation, entry)
        return
    if entry.fact.source != "user":
        return
    for index, block in enumerate(entry.fact.blocks):
        if block.injected_text is not None or not isinstance(block, TextBlock | ImageBlock):
            continue
        if (entry.seq, index) not in user_blocks:
            text = block.text if isinstance(block, TextBlock) else "[an image]"
            tokens = situation.counter.text(text)
            user_blocks[entry.seq, index] = UserBlock(f"r{entry.seq}.{index}", text=text, tokens=tokens)
        yield user_blocks[entry.seq, index]


def _answers(situation: Situation, exchange: Exchange) -> Iterator[UserBlock]:
    """Yield the user's answers to the calls of an exchange: to a question, or the reason of a denial."""
    for index, result in exchange.results.items():
        for question, words in result.remarks:
            call = f"{DENYING} r{exchange.seq}.{index} {call_label(exchange.uses[index])}"
            answers = f'answering "{on_short_line(question)}"' if question else call
            yield UserBlock(
                f"r{result.seq}", text=words, tokens=situation.counter.text(words), answers=answers
            )


def directives_within(situation: Situation, first: int, last: int, room: int) -> str:
    """Return the user's sentences of facts first..last that direct later work, in at most `room` tokens.

    If space is short, permanent rules come first, then the newest sentences. Open prompts are left out, since
    they are shown in full.
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
    """Return the prompts of facts first..last that the newest turn works on, with ids; None for none."""
    prompts = [prompt for prompt in open_prompts(situation.folded) if first <= prompt.seq <= last]
    blocks = (block for prompt in prompts for block in _user_blocks(situation, prompt))
    return "\n".join(_form(situation, block, WHOLE_FORM)[0] for block in blocks) if prompts else None

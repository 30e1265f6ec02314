"""Show the user's messages of a summarized range: verbatim, or only the sentences that direct the work.

Each block of the user is shown in a `Form`. If space is short, all older ones get the mildest form that fits;
the sentences that direct the work are kept longest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, groupby
from typing import NamedTuple

from msgspec import Struct

from transcripts import Entry, Folded, own_words

from .clearing import GAP, with_sentences
from .directives import FACT, LASTING, REQUEST, REST, WISH
from .invariants import open_prompts
from .situation import Situation
from .user_blocks import DENYING, PLAIN_CHARS, Spoken, UserBlock, user_blocks

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
RARE_COUNT = 4  # sentences with a rare word, at most
SHARED_WORDS = 2  # rare words that two sentences on the same subject have in common, at least
CUT_NOTE_TOKENS = 18  # of the note that says how much of a message is omitted


def user_messages(situation: Situation, entries: Iterable[Entry], room: int) -> str:
    """Return the user's messages and answers, oldest first, in about `room` tokens.

    The newest message is always among them, and the one that began its turn. If space is short, small talk is
    omitted first. Then the older messages, pasted before typed ones, are shown by their beginnings and the
    sentences that direct the work, down to the weight that fits; the remaining space goes to the newest. If
    even that is too much, the oldest messages are omitted except for their heaviest sentences.
    """
    counter = situation.counter
    blocks = _last_said(
        [block for entry in entries for block in user_blocks(situation.folded, entry, counter)]
    )
    if not blocks:
        return ""
    sentences = _on_subjects(situation.folded, blocks)
    stay = dict[int, Form]()
    for at in sorted(_open_blocks(situation, blocks), reverse=True):
        stay[at], tokens = _newest(situation, blocks[at], room)
        room = max(0, room - tokens)
    older = [at for at in range(len(blocks)) if at not in stay]
    small_talk = set[int]()
    if _total(situation, blocks, older, WHOLE_FORM) > room:
        small_talk = {at for at in older[:-KEPT_NEWEST] if blocks[at].is_talk(HEAD_TOKENS)}
        room -= CUT_NOTE_TOKENS if small_talk else 0
    rest = [at for at in older if at not in small_talk]
    level = _mildest_form(situation, blocks, rest, room)
    if level is None:
        lines = _heaviest_and_newest(situation, blocks, rest, sentences, room)
        newest = [_text(situation, blocks[at], stay[at]) for at in sorted(stay)]
        return "\n".join([*_talk_note(blocks, small_talk), *lines, *newest])
    shown = dict.fromkeys(rest, level)
    left = _lengthen(situation, blocks, shown, FORMS[: FORMS.index(level)], room)
    for at in sorted(small_talk, key=lambda at: (blocks[at].tells(), at), reverse=True):
        if (left := left - _size(situation, blocks[at], WHOLE_FORM)) < 0:
            break
        small_talk.remove(at)
        shown[at] = WHOLE_FORM
    shown |= stay
    texts = [_text(situation, blocks[at], shown[at]) for at in sorted(shown)]
    return "\n".join([*_talk_note(blocks, small_talk), *texts])


def _lengthen(
    situation: Situation,
    blocks: Sequence[UserBlock],
    shown: dict[int, Form],
    forms: Sequence[Form],
    room: int,
) -> int:
    """Give the blocks that are shown milder forms as far as `room` permits; return the room that is left.

    All get a milder form before one gets a still milder one, the newest first. Sizes of forms are estimates
    that are rather too large, so what they leave is used in a second pass.
    """
    left = room
    for _ in range(2):
        sizes = {at: situation.tokens_of(_text(situation, blocks[at], shown[at])) for at in shown}
        left = room - sum(sizes.values())
        for form in reversed(forms):
            for at in sorted(shown, reverse=True):
                size = _size(situation, blocks[at], form)
                if 0 < size - sizes[at] <= left:
                    left -= size - sizes[at]
                    sizes[at] = size
                    shown[at] = form
    return left


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


def _newest(situation: Situation, block: UserBlock, room: int) -> tuple[Form, int]:
    """Return the form of a block that is always shown, with as many of its sentences as fit, and its size."""
    for form in (WHOLE_FORM, Form(CAPPED, REQUEST), Form(CAPPED, LASTING)):
        if (tokens := _size(situation, block, form)) <= room:
            return form, tokens
    return ENDS_ONLY, _size(situation, block, ENDS_ONLY)


def _mildest_form(
    situation: Situation, blocks: Sequence[UserBlock], places: Sequence[int], room: int
) -> Form | None:
    """Return the mildest form in which all blocks fit, None if there is none; the shortest is tried first."""
    if _total(situation, blocks, places, FORMS[-1]) > room:
        return None
    return next(form for form in FORMS if _total(situation, blocks, places, form) <= room)


def _total(situation: Situation, blocks: Sequence[UserBlock], places: Iterable[int], form: Form) -> int:
    return sum(_size(situation, blocks[at], form) for at in places)


class Said(NamedTuple):
    """A sentence of the user: its place among all, its block, and what is known of it."""

    at: int
    block: int
    sentence: Spoken

    @property
    def text(self) -> str:
        return self.sentence.text

    @property
    def weight(self) -> int:
        return self.sentence.binds or 0

    @property
    def tokens(self) -> int:
        """Its tokens in a list of sentences, once those of its block were counted."""
        return self.sentence.tokens + GAP_TOKENS


class _SaidOnSubjects(NamedTuple):
    """The sentences, and for each the later ones on its subject, by its place.

    `changes` are, by block, those that may change a wish or a rule: they are shown wherever that is.
    """

    said: Sequence[Said]
    later: Mapping[int, Sequence[Said]]
    changes: Mapping[int, frozenset[str]]


class _LastSubjects(Struct):
    """The sentences of the blocks that were looked at last, kept with the folded facts."""

    texts: tuple[str, ...] = ()
    found: _SaidOnSubjects = _SaidOnSubjects((), {}, {})


def _on_subjects(folded: Folded, blocks: Sequence[UserBlock]) -> _SaidOnSubjects:
    """Return the sentences of blocks; found once for the same blocks, since a plan tries several cuts."""
    kept = folded.memo(_LastSubjects)
    texts = tuple(block.text for block in blocks)
    if kept.texts != texts:
        said = _said(blocks)
        later = _later_on_subject(said)
        kept.found = _SaidOnSubjects(said, later, changes=_changes(said, later))
        kept.texts = texts
    for at, block in enumerate(blocks):
        block.mark_changes(kept.found.changes.get(at, frozenset()))
    return kept.found


def _heaviest_and_newest(
    situation: Situation,
    blocks: Sequence[UserBlock],
    places: Sequence[int],
    sentences: _SaidOnSubjects,
    room: int,
) -> list[str]:
    """Return the sentences of the older blocks that bind most, then the newest blocks in their shortest form.

    The sentences get up to three quarters of the room. A sentence is never shown without a later one that
    may change it: what takes something back is taken first, and what says more on the same subject is taken
    with it.
    """
    parts = dict.fromkeys(places, 0)
    for at in places:
        blocks[at].counted_sentences(situation.counter)
    for each in sentences.said:
        if each.block in parts:
            parts[each.block] += each.tokens + (0 if parts[each.block] else LINE_FRAME_TOKENS)
    wanted = sum(parts.values())
    left = room - CUT_NOTE_TOKENS
    first = len(places)
    while first:
        newest = places[first - 1]
        size = _size(situation, blocks[newest], SHORTEST_FORM)
        if size + min(wanted - parts[newest], room * 3 // 4) > left:
            break
        wanted = wanted - parts[newest]
        left = left - size
        first = first - 1
    older = set(places[:first])
    kept = _that_fit([each for each in sentences.said if each.block in older], sentences.later, left)
    lines = list[str]()
    for block, group in groupby(kept, key=lambda each: each.block):
        lines.append(f"- {GAP.join(each.text for each in group)} ({blocks[block].ident})")
    note = OMITTED_BUT_SENTENCES if lines else OMITTED_MESSAGES
    ids = f"{blocks[places[0]].ident} to {blocks[places[max(0, first - 1)]].ident}" if places else ""
    shown = dict.fromkeys(places[first:], SHORTEST_FORM)
    left = room - CUT_NOTE_TOKENS - situation.counter.text("\n".join(lines))
    _lengthen(situation, blocks, shown, FORMS, left)
    texts = [_text(situation, blocks[at], form) for at, form in shown.items()]
    return [*([note.format(count=first, ids=ids)] if first else []), *lines, *texts]


def _said(blocks: Sequence[UserBlock]) -> list[Said]:
    """Return the user's sentences that are more than small talk, repeated ones only in the last place."""
    each = [(at, one) for at, block in enumerate(blocks) for one in block.sentences if one.binds is not None]
    last = {one.form: place for place, (_, one) in enumerate(each)}
    kept = (each[place] for place in sorted(last.values()))
    return [Said(at, block=block, sentence=one) for at, (block, one) in enumerate(kept)]


def _that_fit(said: Sequence[Said], later: Mapping[int, Sequence[Said]], room: int) -> list[Said]:
    """Return the sentences that fit, those that bind most first, and of the same rank the shortest.

    With a sentence come the later ones on its subject, since they may change it.
    """
    kept = dict[int, Said]()
    among = {each.at for each in said}
    shown = set[int]()  # the blocks of the kept sentences
    for each in sorted(said, key=lambda each: (-each.sentence.rank, each.tokens, -each.at)):
        if each.tokens > room and each.at not in kept:
            continue  # nor does it fit with what comes with it
        group = {other.at: other for other in (each, *later.get(each.at, ())) if other.at in among}
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
    counts = Counter(chain.from_iterable(each.sentence.words for each in said))
    rare = {word for word, count in counts.items() if 1 < count <= RARE_COUNT}
    about = dict[str, list[Said]]()
    for each in said:
        for word in rare & each.sentence.words:
            about.setdefault(word, []).append(each)
    shared = Counter[tuple[int, int]]()
    for found in about.values():
        only = len(found) == 2 and len(found[1].text) <= PLAIN_CHARS
        for first, second in combinations(found, 2):
            shared[first.at, second.at] += SHARED_WORDS if only else 1
    later = dict[int, list[Said]]()
    for (first_at, second_at), count in shared.items():
        if count >= SHARED_WORDS:
            later.setdefault(first_at, []).append(said[second_at])
    return later


def _changes(said: Sequence[Said], later: Mapping[int, Sequence[Said]]) -> dict[int, frozenset[str]]:
    """Return by block the sentences that come later on the subject of a wish or a rule."""
    changes = dict[int, set[str]]()
    for at, others in later.items():
        for other in others if said[at].weight >= WISH else ():
            changes.setdefault(other.block, set()).add(other.text)
    return {block: frozenset(texts) for block, texts in changes.items()}


def _cap(situation: Situation, block: UserBlock) -> int:
    """Return the most tokens of a block that is shown from both ends."""
    cap = min(situation.settings.user_block_max_tokens, situation.replacement_limit // 2)
    return min(cap, MAX_OWN_COMMAND_TOKENS) if own_words(block.text) != block.text else cap


def _is_cut(situation: Situation, block: UserBlock, form: Form) -> bool:
    cap = _cap(situation, block)
    return block.tokens > (
        min(cap, max(form.tokens + CUT_NOTE_TOKENS, form.whole)) if form.tokens != CAPPED else cap
    )


def _size(situation: Situation, block: UserBlock, form: Form) -> int:
    """Return about how many tokens a block takes in a form, from the tokens of its sentences."""
    key = (form, _cap(situation, block))
    if key not in block.sizes:
        block.sizes[key] = _computed_size(situation, block, form)
    return block.sizes[key]


def _computed_size(situation: Situation, block: UserBlock, form: Form) -> int:
    frame = block.frame_tokens(situation.counter)
    if not _is_cut(situation, block, form):
        return block.tokens + frame
    frame += block.note_tokens(situation.counter)
    is_capped = form.tokens == CAPPED
    cap = _cap(situation, block) * 9 // 10 if is_capped else 0
    head = cap // 8 if is_capped else form.tokens  # the sentences within it are shown once
    kept = 0
    gap = GAP_TOKENS
    for each in block.counted_sentences(situation.counter):
        head -= each.tokens
        is_shown = _is_shown(block, each, form)
        if is_shown and head < 0:
            kept += each.tokens + gap
        gap = 0 if is_shown else GAP_TOKENS
    around = max(cap - kept, cap // 4) if is_capped else form.tokens
    return min(block.tokens, kept + around) + frame


def _is_shown(block: UserBlock, sentence: Spoken, form: Form) -> bool:
    return sentence.weight >= form.weight or sentence.text in block.changes


def _text(situation: Situation, block: UserBlock, form: Form) -> str:
    """Return a block in a form."""
    text = block.text
    if _is_cut(situation, block, form):
        size = _cap(situation, block) * len(text) // block.tokens * 9 // 10
        cut = {"ends": size} if form.tokens == CAPPED else {"head": _head(situation, text, form.tokens)}
        text = with_sentences(text, block.ident, form.weight, **cut, changes=block.changes)
    return block.heading + text


def _head(situation: Situation, text: str, tokens: int) -> int:
    """Return the number of characters at the beginning of a text that have at least so many tokens."""
    size = 3 * tokens
    while size < len(text) and situation.counter.text(text[:size]) < tokens:
        size += tokens
    return size


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
        (each.weight, at, f"- {each.text} ({block.ident})")
        for at, block in enumerate(
            block for entry in entries for block in user_blocks(situation.folded, entry, situation.counter)
        )
        for each in block.sentences
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
    blocks = (
        block for prompt in prompts for block in user_blocks(situation.folded, prompt, situation.counter)
    )
    return "\n".join(_text(situation, block, WHOLE_FORM) for block in blocks) if prompts else None

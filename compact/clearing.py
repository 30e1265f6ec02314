"""Clear single blocks: find the results and inputs that can be cleared, and make the edits that do it.

Candidates are found by the token counts of the parts; the exact saving is counted when an edit is made. A
placeholder says what was there, its size, and how to see it again:

    [cleared: read src/a.py, 1,431 tokens. Read the file again, or recall("r6") for this version]
    [cleared: bash make test, 5,120 tokens. recall("r9") shows it]

A model that sees a placeholder in its own earlier input may copy it into a file. write and edit therefore
refuse text of these forms, and of those of earlier versions (tools/patch.py): change both together.
"""

import json
import re
from collections.abc import Collection, Iterator

from msgspec import Struct

from transcripts import (
    Block,
    Clear,
    Folded,
    ImageBlock,
    Part,
    PartKind,
    Reply,
    Result,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    User,
    View,
    own_words,
    server_call_of,
)
from transcripts.wording import shorten

from .directives import REQUEST, Sentence, weighed_sentences
from .identifiers import PATH_ARGUMENTS, joined_text
from .situation import File, Situation
from .tokens import TokenCounter

PLACEHOLDER_START = "[cleared:"
PREVIEW_START = "<persisted-output"
PAGING_KINDS = frozenset({"reads", "searches", "recalls"})
MAX_SHOWN_ARGUMENT_CHARS = 80  # of an argument that is shown; paths are shown whole
_MAIN_ARGUMENTS = (*PATH_ARGUMENTS, "command", "pattern", "query", "url", "description", "prompt")
PLACEHOLDER_TOKENS = 30  # of a placeholder, approximately; counted exactly when the edit is made
MIN_CLEARED_TOKENS = 60  # that clearing one block has to free: twice the placeholder
MAX_KEPT_WORDS_CHARS = 4_000  # of the user's words about a call, which stay when its result is cleared
GAP = " [...] "
MIN_FIELD_CHARS = 160  # of a field of a tool input; for a shorter one, a placeholder would hardly be shorter
# Fields that identify a call; and a plan that the user saw, which is valid until the next one.
KEPT_FIELDS = frozenset({*PATH_ARGUMENTS, "pattern", "description", "url", "glob", "plan"})


class ClearCandidate(Struct, frozen=True):
    """A block or field that could be cleared, in message `index` of the view, freeing about `gain` tokens."""

    index: int
    part: Part
    field: str
    gain: int


def clear_candidates(folded: Folded) -> Iterator[ClearCandidate]:
    """Yield the results of the view that the model has seen, and its long inputs."""
    seen = folded.last_reply_seq
    for index, message in enumerate(folded.view):
        for part in message.parts:
            if part.tokens < MIN_CLEARED_TOKENS + PLACEHOLDER_TOKENS:
                continue
            if part.kind is PartKind.RESULT:
                if part.seq <= seen and not is_replaced(part):
                    yield ClearCandidate(
                        index, part=part, field="content", gain=part.tokens - PLACEHOLDER_TOKENS
                    )
            elif part.kind is PartKind.INPUT:
                yield from _field_candidates(index, part)


def _field_candidates(index: int, part: Part) -> Iterator[ClearCandidate]:
    if isinstance(part.block, ToolUseBlock):
        for name, gain in clearable_fields(part.block, part.tokens):
            yield ClearCandidate(index, part=part, field=name, gain=gain)


def clearable_fields(use: ToolUseBlock, tokens: int) -> Iterator[tuple[str, int]]:
    """Yield the long fields of a call that can be cleared, and about how many tokens each frees."""
    for name, size in text_fields(use, tokens):
        gain = size - PLACEHOLDER_TOKENS
        if len(use.input[name]) >= MIN_FIELD_CHARS and gain >= MIN_CLEARED_TOKENS:
            yield name, gain


def text_fields(use: ToolUseBlock, tokens: int) -> Iterator[tuple[str, int]]:
    """Yield the fields of a call with text that does not identify it, and about how many tokens each has."""
    texts = {name: value for name, value in use.input.items() if isinstance(value, str)}
    characters = sum(len(value) for value in texts.values()) or 1
    for name, value in texts.items():
        if name not in KEPT_FIELDS and not is_placeholder(value):
            yield name, tokens * len(value) // characters


def part_at(view: View, seq: int, index: int) -> tuple[int, Part] | None:
    """Return (index of the message, part) that shows block `index` of fact `seq`, None if none does."""
    at = view.index_of(seq)
    parts = view[at].parts if at < len(view) else ()
    part = next((part for part in parts if part.seq == seq and part.index == index), None)
    return None if part is None else (at, part)


def is_replaced(part: Part) -> bool:
    """Return whether a placeholder or a preview is shown already, or the part has no fact behind it."""
    return part.kind is PartKind.PLACEHOLDER or is_placeholder(shown_text(part.block))


def shown_text(block: Block) -> str:
    """Return the text of a result or of a text block, "" for other blocks."""
    if isinstance(block, ToolResultBlock):
        return joined_text(block.content)
    return block.text if isinstance(block, TextBlock) else ""


def placeholder_edit(folded: Folded, part: Part, field: str, counter: TokenCounter) -> Clear | None:
    """Return the edit that shows a placeholder for a result or a field, None if that is not shorter.

    Its `saves` is relative to the original, whatever an earlier edit shows there now.
    """
    fact = folded.fact_at(part.seq)
    if isinstance(fact, Result) and field == "content":
        tokens = sum(fact.tokens)
        what = call_label(part.use) if part.use is not None else "a result"
        file = part.use is not None and folded.kind_of(part.use.name) == "reads" and not fact.error
        text = with_words(placeholder(part, what, tokens, file=file), fact, recall_id(part))
        return _shorter(part, field, text, tokens, counter)
    if isinstance(fact, Reply) and isinstance(part.block, ToolUseBlock):
        value = part.block.input.get(field)
        if not isinstance(value, str):
            return None
        # the beginning of a command stays
        what = f"{field} {on_short_line(value)}" if field in ("command", "prompt", "query") else field
        text = placeholder(part, what, counter.text(value))
        return _shorter(part, field, text, counter.text(value), counter)
    if (
        isinstance(fact, Reply)
        and field == Clear.UNKNOWN_BLOCK
        and (call := server_call_of(part.block, fact.blocks))
    ):
        # with it, the view would omit the call, too
        use = ToolUseBlock("", name=str(call.get("name")), input=dict(call.get("input") or {}))
        return _shorter(part, field, placeholder(part, call_label(use), part.tokens), part.tokens, counter)
    return None


def preview_edit(situation: Situation, part: Part, characters: int) -> tuple[Clear | None, tuple[File, ...]]:
    """Return the edit that shows the beginning of a result, and the file that keeps all of it.

    No file is returned for an output that is stored already, and for a tool that pages by itself. The edit is
    None if a preview is not shorter.
    """
    fact = situation.folded.fact_at(part.seq)
    if not isinstance(fact, Result):
        return None, ()
    text = joined_text(fact.content)
    ident = recall_id(part)
    path = fact.stored.path if fact.stored else f"{situation.outputs}r{part.seq}.txt"
    kept = fact.stored is not None or is_paging(situation.folded, part)
    place = "" if kept and not fact.stored else f' path="{path}"'
    shown = (
        f'{PREVIEW_START}{place} characters="{len(text)}" recall="{ident}">\n'
        f"Preview (the first {min(characters, len(text)):,} of {len(text):,} characters; "
        f"{recall_call(ident)} pages through all of it):\n{text[:characters]}\n</persisted-output>"
    )
    shown = with_words(shown, fact, ident)
    edit = _shorter(part, "content", shown, sum(fact.tokens), situation.counter)
    return edit, () if kept or edit is None else ((path.rpartition("/")[2], text),)


def with_words(text: str, result: Result, ident: str) -> str:
    """Return the text that replaces a result, with the user's words about the call added to it."""
    answers = (f"{question} {words}".strip() for question, words in result.remarks if words not in text)
    lines = [ends_and_directives(each, MAX_KEPT_WORDS_CHARS, ident) for each in answers]
    return "\n".join([text, *(["The user said:", *lines] if lines else [])])


def is_paging(folded: Folded, part: Part) -> bool:
    """Return whether a result is of a tool that pages by itself through a file or the transcript."""
    return part.use is not None and folded.kind_of(part.use.name) in PAGING_KINDS


def user_block_edit(folded: Folded, part: Part, characters: int, counter: TokenCounter) -> Clear | None:
    """Return the edit that shows a long text of the user by its ends and directives, an image by a line."""
    fact = folded.fact_at(part.seq)
    if not isinstance(fact, User) or part.index >= len(fact.blocks):
        return None
    original = fact.blocks[part.index]
    tokens = fact.tokens[part.index] if part.index < len(fact.tokens) else part.tokens
    if isinstance(original, ImageBlock):
        return _shorter(part, "source", placeholder(part, "image of the user", tokens), tokens, counter)
    if isinstance(original, TextBlock):
        text = ends_and_directives(original.text, characters, f"r{part.seq}.{part.index}")
        return _shorter(part, "text", text, tokens, counter)
    return None


def _shorter(part: Part, field: str, text: str, original: int, counter: TokenCounter) -> Clear | None:
    """Return the edit that shows `text` instead of `original` tokens, None if it saves nothing."""
    saves = original - counter.text(text)
    return Clear(part.seq, block=part.index, field=field, text=text, saves=saves) if saves > 0 else None


def is_placeholder(text: str) -> bool:
    """Return whether the text is a placeholder or a preview."""
    return text.startswith((PLACEHOLDER_START, PREVIEW_START))


def is_one_line(text: str) -> bool:
    """Return whether the text is a one-line placeholder, of which nothing more can be cleared."""
    return text.startswith(PLACEHOLDER_START)


def recall_id(part: Part) -> str:
    """Return the id that recalls the original: r<seq> for a result, r<seq>.<block> for anything else."""
    return f"r{part.seq}" if part.use is not None else f"r{part.seq}.{part.index}"


def strike_edits(folded: Folded, part: Part, counter: TokenCounter) -> tuple[Clear, ...]:
    """Return the edits that show a placeholder for a part, or for the long fields of a call.

    Empty if none saves anything.
    """
    edits: list[Clear | None] = []
    if is_replaced(part):
        return ()
    if isinstance(part.block, ToolUseBlock):
        fields = [name for name, _ in clearable_fields(part.block, part.tokens)]
        edits = [placeholder_edit(folded, part, name, counter) for name in fields]
    elif isinstance(part.block, ToolResultBlock):
        edits = [placeholder_edit(folded, part, "content", counter)]
    elif isinstance(part.block, TextBlock | ImageBlock):
        field = "text" if isinstance(part.block, TextBlock) else "source"
        text = placeholder(part, f"{part.kind.name.lower()} {field}", part.tokens)
        edits = [_shorter(part, field, text, part.tokens, counter)]
    return tuple(edit for edit in edits if edit is not None)


def placeholder(part: Part, what: str, tokens: int, file: bool = False) -> str:
    """Return the placeholder for (a field of) a part of that size; `file`: it shows text of a file."""
    what = what.replace("[", "(").replace("]", ")")  # brackets delimit placeholders
    recall = recall_call(recall_id(part))
    remedy = f"Read the file again, or {recall} for this version" if file else f"{recall} shows it"
    return f"{PLACEHOLDER_START} {what}, {tokens:,} tokens. {remedy}]"


def recall_call(ident: str) -> str:
    """Return the call of the recall tool that shows an original, as notes for the model name it."""
    return f'recall("{ident}")'


def omission_note(characters: int, ident: str, more: str = "") -> str:
    """Return the note in a text that says how many of its characters are omitted."""
    return f"[... {characters:,} characters omitted; {recall_call(ident)} shows all of it{more}]"


def head_and_tail(text: str, characters: int, ident: str) -> str:
    """Return the beginning and the end of a text, about `characters` in all, with the id of the whole."""
    half = max(1, characters // 2)
    omitted = len(text) - 2 * half
    if omitted <= 0:
        return text
    return f"{text[:half]}\n{omission_note(omitted, ident)}\n{text[-half:]}"


def ends_and_directives(text: str, characters: int, ident: str) -> str:
    """Cut a text like `head_and_tail`, but use up to half of it for sentences that bind later work."""
    half = max(1, characters // 2)
    sentences = weighed_sentences(own_words(text))
    inside = [each for each in sentences if each.end > half and each.start < len(text) - half]
    kept = list[Sentence]()
    room = half
    for each in sorted(inside, key=lambda one: -one.weight):
        if each.weight >= REQUEST and each.end - each.start < room:
            kept.append(each)
            room -= each.end - each.start + 1
    if not kept or len(text) <= characters:
        return head_and_tail(text, characters, ident)
    between = "\n".join(text[each.start : each.end] for each in sorted(kept, key=lambda one: one.start))
    quarter = max(1, (characters - len(between)) // 2)
    omitted = len(text) - 2 * quarter - len(between)
    gap = omission_note(omitted, ident, ". Excerpts:")
    return f"{text[:quarter]}\n{gap}\n{between}\n[...]\n{text[-quarter:]}"


def with_sentences(
    text: str, ident: str, weight: int, *, head: int = 0, ends: int = 0, changes: Collection[str] = ()
) -> str:
    """Return the sentences of a text of at least `weight`, verbatim and in place, with its beginning or ends.

    The sentences `changes` are shown, whatever they weigh. `head` is the number of characters of the
    beginning. With `ends`, the text is cut to about so many characters, and both its beginning and its end
    are shown.
    """
    sentences = weighed_sentences(own_words(text))
    spans = [
        (each.start, each.end)
        for each in sentences
        if each.weight >= weight or text[each.start : each.end] in changes
    ]
    if ends:
        half = max(ends - sum(end - start for start, end in spans), ends // 4) // 2
        spans += [(0, _to_word_end(text, half)), (max(0, len(text) - half), len(text))]
    else:
        spans.append((0, _to_word_end(text, head)))
    pieces = list[str]()
    end = 0
    omitted = 0
    for first, last in sorted(spans):
        if last <= end:
            continue
        first = max(first, end)
        gap = text[end:first]
        pieces += [GAP if gap.strip() else gap, text[first:last]]
        omitted += len(gap) if gap.strip() else 0
        end = last
    omitted += len(text) - end
    return "".join(pieces) + (f" {omission_note(omitted, ident)}" if omitted else "")


def _to_word_end(text: str, at: int) -> int:
    """Return the offset after the word at `at`, if its end is near."""
    found = re.compile(r"\S{0,30}").match(text, min(at, len(text)))
    return found.end() if found is not None else at


def call_label(use: ToolUseBlock) -> str:
    """Describe a call on one line: its name and its main argument, or all arguments if that is not known."""
    for name in _MAIN_ARGUMENTS:
        value = use.input.get(name)
        if isinstance(value, str) and value and not is_placeholder(value):
            shown = _on_one_line(value) if "path" in name else on_short_line(value)
            return f"{use.name} {shown}".strip()
    every = json.dumps(dict(use.input), ensure_ascii=False, default=str)
    return f"{use.name} {on_short_line(every)}".strip() if use.input else use.name


def _on_one_line(text: str) -> str:
    return " ".join(text[:4_000].split())  # a line shows less than that


def on_short_line(text: str) -> str:
    """Return the beginning of a text as one line."""
    return shorten(_on_one_line(text), MAX_SHOWN_ARGUMENT_CHARS)

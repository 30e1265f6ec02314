"""Render entries with the edits in force as messages, again only from the first change on.

The API accepts every view once a user message follows it: calls without a result are answered here, and
blocks that the API would reject are omitted.

What a request has carried stays where it is. In a user message makeroom's own words may be sent behind the
rest (see channel.py), so that nothing can be added to that message once it was sent: where the request got no
reply that is shown, a line in place of the reply separates it from the next prompt.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from .edits import ActiveEdits
from .entries import Entry, Exchange, Prompt
from .facts import Clear, Fold, Reply, Result, User
from .images import MAX_IMAGE_TOKENS
from .messages import (
    Block,
    ChannelBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
    empty_mapping,
)
from .server_calls import PAUSED, open_server_calls, with_whole_server_calls
from .view import Message, Part, PartKind, View

NO_REPLY = "[no reply]"
NOTICE_TOKENS = 12  # our count of each of these lines
CHARS_PER_TOKEN = 4
_CLEARED_FIELD: dict[type[Block], str] = {
    ToolResultBlock: "content",
    TextBlock: "text",
    ChannelBlock: "text",
    ImageBlock: "source",
    UnknownBlock: Clear.UNKNOWN_BLOCK,
}


def render_view(view: View, entries: list[Entry], edits: ActiveEdits, first_changed: int) -> None:
    """Bring a view up to date with `entries`, which are unchanged before index `first_changed`."""
    starts = view.starts
    last = entries[first_changed - 1] if first_changed else None
    if isinstance(last, Exchange) and last.fact.stop == PAUSED:  # the next entry ends the pause
        first_changed -= 1
    if first_changed < len(starts):
        while first_changed > 0 and starts[first_changed] < 0:
            first_changed -= 1
        view.cut(max(0, starts[first_changed]))
        del starts[first_changed:]
    while (index := len(starts)) < len(entries):
        if (end := _end_of_summarized(entries, index, edits)) > index:
            starts.extend([-1] * (end - index))  # nothing shows them: a long session has many
            continue
        start = len(view)
        messages = _messages(entries, index, edits, view[-1] if view else None)
        begins = [view.add(message) for message in messages if message.parts]
        starts.append(start if begins and begins[0] else -1)


def each_message(entries: list[Entry], edits: ActiveEdits) -> Iterator[Message]:
    """Yield the messages of a view one by one: all of a long session are larger than its facts."""
    last: Message | None = None
    for index in range(len(entries)):
        for message in _messages(entries, index, edits, last):
            if not message.parts:
                continue
            if last is not None and last.role == message.role:
                last = last.joined_with(message)
                continue
            if last is not None:
                yield last
            last = message
    if last is not None:
        yield last


def _end_of_summarized(entries: list[Entry], index: int, edits: ActiveEdits) -> int:
    """Return the index of the first entry from `index` on that no summary shown before it covers."""
    fold = edits.covering(entries[index].seq) if edits.folds and index else None
    if fold is None or entries[index - 1].seq < fold.first:
        return index
    last = min([fold.last, *(each.first - 1 for each in edits.folds if each.first > fold.first)])
    return bisect_right(entries, last, lo=index, key=lambda entry: entry.seq)


BEGINNING_LOST = "[the beginning of this session could not be read]"


def _messages(
    entries: list[Entry], index: int, edits: ActiveEdits, before: Message | None
) -> Iterator[Message]:
    """The messages that show one entry behind the message `before`, some perhaps without parts."""
    entry = entries[index]
    seq = entry.fact.seq
    clears = edits.clears
    fold = edits.covering(seq) if edits.folds else None
    if fold is not None:
        if index == 0 or entries[index - 1].seq < fold.first:
            yield Message("user", parts=_summary_parts(fold), first=fold.first, last=fold.last)
    elif isinstance(entry, Prompt):
        parts = _prompt_parts(entry.fact)
        if parts and before is not None and before.last < entry.asked and _holds_channel(before):
            none = Part(TextBlock(NO_REPLY), seq=0, index=0, kind=PartKind.PLACEHOLDER, tokens=NOTICE_TOKENS)
            yield Message("assistant", parts=(none,), first=entry.asked, last=entry.asked)
        yield Message("user", parts=_cleared(parts, clears), first=seq, last=seq)
    elif parts := _reply_parts(entry, with_thinking=not edits.unthinks(seq)):
        if before is None:
            lost = Part(
                TextBlock(BEGINNING_LOST), seq=0, index=0, kind=PartKind.PLACEHOLDER, tokens=NOTICE_TOKENS
            )
            yield Message("user", parts=(lost,), first=0, last=0)
        shown = _cleared(parts, clears)
        if any(isinstance(part.block, UnknownBlock) for part in shown):
            still_open, left_open = (_open_calls(entries, each, edits) for each in (index, index - 1))
            shown = with_whole_server_calls(shown, still_open, left_open)
        yield Message("assistant", parts=shown, first=seq, last=seq)
        yield Message("user", parts=_cleared(_result_parts(entry), clears), first=seq, last=entry.last)


def _holds_channel(message: Message) -> bool:
    """Return whether makeroom's own words are among the blocks of a message of the user."""
    blocks = (part.block for part in message.parts if message.role == "user")
    return any(
        isinstance(inner, ChannelBlock)
        for block in blocks
        for inner in (block.content if isinstance(block, ToolResultBlock) else (block,))
    )


def _open_calls(entries: list[Entry], index: int, edits: ActiveEdits) -> frozenset[str]:
    """Return the ids of the calls that the API had yet to run when a shown reply ended."""
    entry = entries[index] if index >= 0 else None
    if not isinstance(entry, Exchange) or edits.covering(entry.fact.seq) is not None:
        return frozenset()
    return open_server_calls(entry, entries[index + 1] if index + 1 < len(entries) else None)


def _prompt_parts(fact: User) -> list[Part]:
    """Return the user's blocks, without empty texts and blocks allowed only in replies or results."""
    return [
        Part(block, seq=fact.seq, index=index, kind=PartKind.USER, tokens=_tokens(fact, index))
        for index, block in enumerate(fact.blocks)
        if not (
            _is_empty_text(block) or block.is_thinking or isinstance(block, ToolUseBlock | ToolResultBlock)
        )
    ]


def _reply_parts(exchange: Exchange, with_thinking: bool) -> list[Part]:
    """Return the usable blocks of a reply; [] if only thinking is left."""
    fact = exchange.fact
    parts = list[Part]()
    says_something = False
    uses = exchange.uses
    for index, block in enumerate(fact.blocks if not exchange.superseded else ()):
        kind = PartKind.ASSISTANT
        if isinstance(block, ToolUseBlock):
            if index not in uses:
                continue
            block = uses[index]
            kind = PartKind.INPUT
        elif block.is_thinking:
            unusable = isinstance(block, ThinkingBlock) and not (
                block.signature or block.UNSIGNED in block.extra
            )
            if unusable or not with_thinking:
                continue
            kind = PartKind.THINKING
        elif isinstance(block, ToolResultBlock) or _is_empty_text(block):
            continue
        says_something = says_something or kind is not PartKind.THINKING
        parts.append(Part(block, seq=fact.seq, index=index, kind=kind, tokens=_tokens(fact, index)))
    return parts if says_something else []


CALL_INTERRUPTED = "[interrupted; may have run: check before you do it again]"
CALL_NOT_RUN = "[not run: the turn was interrupted before this call]"


def _result_parts(exchange: Exchange) -> list[Part]:
    """Return one result for each call, in call order; for a call without a result, a line that says so."""
    parts = []
    results = exchange.results
    for index, use in exchange.uses.items():
        result = results.get(index)
        if result is None:
            text = TextBlock(CALL_INTERRUPTED if index in exchange.started else CALL_NOT_RUN)
            block = ToolResultBlock(use.id, (text,), is_error=True)
            parts.append(
                Part(
                    block, seq=exchange.seq, index=index, kind=PartKind.RESULT, tokens=NOTICE_TOKENS, use=use
                )
            )
        else:
            block = result_block(use, result)
            tokens = sum(result.tokens) or rough_tokens(block.content)
            parts.append(Part(block, seq=result.seq, index=0, kind=PartKind.RESULT, tokens=tokens, use=use))
    return parts


def result_block(use: ToolUseBlock, result: Result) -> ToolResultBlock:
    """Return the answer to a call as it is sent, never empty."""
    content = tuple(block for block in result.content if not _is_empty_text(block))
    return ToolResultBlock(use.id, content or (TextBlock("(no output)"),), is_error=result.error)


def _summary_parts(fold: Fold) -> tuple[Part, ...]:
    """Return the blocks that replace a summarized range, with its tokens spread evenly over them."""
    each, rest = divmod(fold.tokens, max(1, len(fold.blocks)))
    return tuple(
        Part(
            block,
            seq=fold.first,
            index=index,
            kind=PartKind.PLACEHOLDER,
            tokens=each + (rest if index == 0 else 0),
        )
        for index, block in enumerate(fold.blocks)
        if not _is_empty_text(block)
    )


def _cleared(parts: list[Part], clears: Mapping[tuple[int, int], Mapping[str, Clear]]) -> tuple[Part, ...]:
    """Return the parts with each cleared field replaced by the text of its edit."""
    made = []
    for part in parts:
        if fields := clears.get((part.seq, part.index)):
            tokens = max(1, part.tokens - sum(clear.saves for clear in fields.values()))
            kind = part.kind if part.kind is PartKind.INPUT else PartKind.PLACEHOLDER
            part = replace(part, block=_cleared_block(part.block, fields), tokens=tokens, kind=kind)
        made.append(part)
    return tuple(made)


def _cleared_block(block: Block, fields: Mapping[str, Clear]) -> Block:
    if isinstance(block, ToolUseBlock):
        texts = {name: clear.text for name, clear in fields.items() if name in block.input}
        extra = empty_mapping() if Clear.UNKNOWN_FIELDS in fields else block.extra
        return replace(block, input={**block.input, **texts}, extra=extra)
    clear = fields.get(_CLEARED_FIELD.get(type(block), ""))
    if clear is None:
        return block
    text = TextBlock(clear.text if clear.text.strip() else "[left out]")
    return replace(block, content=(text,)) if isinstance(block, ToolResultBlock) else text


def _is_empty_text(block: Block) -> bool:
    """Return whether a block is a blank text, which the API rejects."""
    return isinstance(block, TextBlock) and not block.text.strip()


def _tokens(fact: User | Reply, index: int) -> int:
    """Return the tokens of a block as counted when the fact was made, otherwise an estimate."""
    return fact.tokens[index] if index < len(fact.tokens) else rough_tokens((fact.blocks[index],))


def rough_tokens(blocks: tuple[Block, ...]) -> int:
    """Estimate the tokens of blocks from the length of their texts."""
    total = 0
    for block in blocks:
        match block:
            case TextBlock(text=text) | ThinkingBlock(thinking=text):
                total += len(text) // CHARS_PER_TOKEN + 1
            case ToolResultBlock(content=content):
                total += rough_tokens(content)
            case ToolUseBlock():
                total += len(str(block.input)) // CHARS_PER_TOKEN + 8
            case UnknownBlock():
                total += len(str(block.raw)) // CHARS_PER_TOKEN + 1
            case _:
                total += MAX_IMAGE_TOKENS
    return total

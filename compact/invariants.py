"""Keep the invariants of every view: drop thinking that an edit makes unusable, and check for API errors.

The fold ensures pairing, order and non-empty messages. Edits must take care of thinking:

- On models that bind thinking to its prefix, an edit makes all thinking after it unusable, up to the newest
  reply at that moment. Later thinking is bound to the edited view and stays.
- On any model, the thinking of the open turn is sent completely or not at all; the API accepts no part of it.

Thinking that is already hidden counts as well, because undoing a compaction may show it again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from transcripts import (
    Block,
    Clear,
    Compacted,
    Edit,
    Exchange,
    Fold,
    Folded,
    Message,
    Prompt,
    Result,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Unthink,
    earliest_seq,
)


def with_dropped_thinking(folded: Folded, edits: tuple[Edit, ...], binds: bool) -> tuple[Edit, ...]:
    """Return the edits, and one that drops the thinking that they make unusable.

    `binds` is set if the model binds thinking to its prefix.
    """
    if binds:
        starts = [_first_behind(folded, edit) for edit in edits]
    else:
        opened = open_turn(folded)
        starts = [edit.first for edit in edits if isinstance(edit, Fold) and edit.last > opened]
    return edits + _drop_between(folded, min(starts), newest_reply(folded)) if starts else edits


def dropped_by_undo(
    folded: Folded, target: Compacted, binds: bool, until: int | None = None
) -> tuple[Edit, ...]:
    """Return the edits that drop the thinking produced while the compaction `target` was in force.

    `until` is the seq of a wider compaction that hides the target: later thinking was not produced under the
    target alone.
    """
    newest = newest_reply(folded)
    opened = open_turn(folded)
    if binds:
        return _drop_between(folded, target.seq, min(newest, until) if until is not None else newest)
    if until is None and any(isinstance(edit, Fold) and edit.last > opened for edit in target.edits):
        return _drop_between(folded, opened, newest)
    return ()


def _drop_between(folded: Folded, start: int, newest: int) -> tuple[Edit, ...]:
    """Return an edit that drops the thinking of replies start..newest, and that of the whole open turn."""
    if start > newest:
        return ()
    opened = open_turn(folded)
    if opened <= newest:
        start = min(start, opened)
    for entry in reversed(folded.entries):
        if entry.seq < start:
            break
        if entry.seq > newest or not isinstance(entry, Exchange):
            continue
        if any(block.is_thinking for block in entry.fact.blocks):
            return (Unthink(start, newest),)
    return ()


def _first_behind(folded: Folded, edit: Edit) -> int:
    """Return the first seq whose reply comes after the edit; a result has the position of its call."""
    if not isinstance(edit, Clear):
        return edit.first
    fact = folded.fact_at(edit.seq)
    return fact.of + 1 if isinstance(fact, Result) else edit.seq


def changed_span(edits: Iterable[Edit]) -> tuple[int, int] | None:
    """Return (first, last) seq of the facts that the edits change, thinking aside; None if there are none."""
    shown = tuple(edit for edit in edits if not isinstance(edit, Unthink))
    first = earliest_seq(shown)
    if first is None:
        return None
    return first, max(edit.seq if isinstance(edit, Clear) else edit.last for edit in shown)


def open_turn(folded: Folded) -> int:
    """Return the seq of the user's prompt that began the newest turn, 0 without one."""
    return next((prompt.seq for prompt in open_prompts(folded)), 0)


def open_prompts(folded: Folded) -> list[Prompt]:
    """Return the user's prompts that the newest turn answers, oldest first; those that joined it are last."""
    found: list[Prompt] = []
    for entry in reversed(folded.entries):
        if isinstance(entry, Prompt) and entry.fact.source == "user":
            found.append(entry)
            if not entry.fact.joined:
                break
    return found[::-1]


def open_requests(folded: Folded, at: int) -> int:
    """Count the prompts answered by the newest turn that are among the first `at` entries."""
    if not (opened := open_prompts(folded)):
        return int(any(isinstance(entry, Prompt) for entry in folded.entries))
    end = folded.entries[at].seq if at < len(folded.entries) else folded.last_seq + 1
    return sum(prompt.seq < end for prompt in opened)


def newest_reply(folded: Folded) -> int:
    """Return the seq of the newest reply, complete or not; 0 without one."""
    return next((entry.seq for entry in reversed(folded.entries) if isinstance(entry, Exchange)), 0)


def problems(messages: Iterable[Message]) -> list[str]:
    """Return the reasons for which the API would refuse the messages of a request; empty for none."""
    found: list[str] = []
    role = "assistant"
    calls = list[str]()
    used = Counter[str]()
    for index, message in enumerate(messages):
        blocks = [part.block for part in message.parts]
        faults = list(_faults(message.role, blocks))
        if message.role == role:
            faults.append("same role as the message before, or the first is not the user's")
        answered = [block.tool_use_id for block in blocks if isinstance(block, ToolResultBlock)]
        if answered != calls:
            faults.append(f"it has results for {answered}, but the calls are {calls}")
        calls = [block.id for block in blocks if isinstance(block, ToolUseBlock)]
        used.update(calls)
        role = message.role
        found.extend(f"message {index}: {fault}" for fault in faults)
    if role != "user":
        found.append("the last message is not the user's")
    return found + [f"tool id {ident} is used {n} times" for ident, n in used.items() if n > 1]


def _faults(role: str, blocks: list[Block]) -> Iterator[str]:
    """Yield the faults within one message."""
    if not blocks:
        yield "a message without content"
    only_results = True
    for block in blocks:
        match block:
            case TextBlock(text=text) if not text.strip():
                yield "an empty text block"
            case ToolResultBlock() if role != "user":
                yield "a result of the assistant"
            case ToolResultBlock() if not only_results:
                yield "a result after other content"
            case ToolResultBlock(content=()):
                yield "a result without content"
            case ToolUseBlock() if role != "assistant":
                yield "a call by the user"
            case ThinkingBlock(signature="") if ThinkingBlock.UNSIGNED not in block.extra:
                yield "thinking without its signature"
            case _ if role == "user" and block.is_thinking:
                yield "thinking of the user"
            case _:
                pass
        only_results = only_results and isinstance(block, ToolResultBlock)
    if role == "assistant" and blocks and all(each.is_thinking for each in blocks):
        yield "an answer with nothing but thinking"

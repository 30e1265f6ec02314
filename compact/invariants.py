"""The invariants that every view must keep, and the edits that follow from other edits to keep them.

Pairing, order and emptiness are seen to by the fold; what is left is thinking. On models that bind it to
its prefix, an edit makes all thinking behind it unusable, up to the newest reply at that moment; what is
produced later is bound to the edited view and stays. On any model the thinking of the open turn is whole or
wholly absent, because the API takes no half of it. Thinking that is out of sight already counts as well: an
undone compaction may bring it back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from transcripts.entries import Exchange, Prompt
from transcripts.facts import Clear, Compacted, Edit, Fact, Fold, Result, Unthink
from transcripts.fold import Folded
from transcripts.messages import TextBlock, ToolResultBlock, ToolUseBlock, UnknownBlock, is_thinking
from transcripts.view import Message


def drop_thinking(folded: Folded, edits: tuple[Edit, ...], binds: bool) -> tuple[Edit, ...]:
    """The edits, and what they make of the thinking behind them."""
    newest = newest_reply(folded)
    opened = open_turn(folded)
    if binds:
        starts = [_behind(folded, edit) for edit in edits]
    else:
        starts = [edit.first for edit in edits if isinstance(edit, Fold) and edit.last > opened]
    if not starts:
        return edits
    return edits + _leaving_out(folded, min(starts), newest)


def drop_thinking_since(
    folded: Folded, made: Compacted, binds: bool, until: int | None = None
) -> tuple[Edit, ...]:
    """What the undoing of a compaction does to the thinking: what was produced under it goes.

    `until` is the seq of a wider compaction that hides the undone one: what came after it was not under it.
    """
    newest, opened = newest_reply(folded), open_turn(folded)
    if binds:
        return _leaving_out(folded, made.seq, min(newest, until) if until is not None else newest)
    if until is None and any(isinstance(edit, Fold) and edit.last > opened for edit in made.edits):
        return _leaving_out(folded, opened, newest)
    return ()


def _leaving_out(folded: Folded, start: int, newest: int) -> tuple[Edit, ...]:
    """Thinking of the replies start..newest is left out, and with it the rest of the turn that is open."""
    if start > newest:
        return ()
    if open_turn(folded) <= newest:
        start = min(start, open_turn(folded))
    thoughtful = any(
        isinstance(entry, Exchange) and any(is_thinking(block) for block in entry.fact.blocks)
        for entry in _between(folded, start, newest)
    )
    return (Unthink(start, newest),) if thoughtful else ()


def _between(folded: Folded, first: int, last: int) -> Iterable[Exchange | Prompt]:
    for entry in reversed(folded.entries):
        if entry.seq < first:
            return
        if entry.seq <= last:
            yield entry


def _behind(folded: Folded, edit: Edit) -> int:
    """From which seq on replies stand behind the edit. A result stands where its call does."""
    if not isinstance(edit, Clear):
        return edit.first
    fact = fact_at(folded, edit.seq)
    return fact.of + 1 if isinstance(fact, Result) else edit.seq


def fact_at(folded: Folded, seq: int) -> Fact | None:
    """The fact with that seq, or None."""
    at = bisect_left(folded.facts, seq, key=lambda fact: fact.seq)
    found = folded.facts[at] if at < len(folded.facts) else None
    return found if found is not None and found.seq == seq else None


def open_turn(folded: Folded) -> int:
    """seq of the prompt of the person that the newest turn answers; 0 without one."""
    for entry in reversed(folded.entries):
        if isinstance(entry, Prompt) and entry.fact.source == "user":
            return entry.seq
    return 0


def newest_reply(folded: Folded) -> int:
    """seq of the newest reply, complete or not; 0 without one."""
    for entry in reversed(folded.entries):
        if isinstance(entry, Exchange):
            return entry.seq
    return 0


def problems(view: Iterable[Message]) -> list[str]:
    """What the API would refuse about a view that ends with the user; empty when it is sound."""
    found: list[str] = []
    role, waiting, ids = "assistant", list[str](), set[str]()
    for index, message in enumerate(view):
        if message.role == role:
            found.append(f"message {index}: two of {role} in a row, or the first is not of the user")
        if not message.parts:
            found.append(f"message {index}: empty")
        if message.role == "user":
            answered = [p.block.tool_use_id for p in message.parts if isinstance(p.block, ToolResultBlock)]
            if answered != waiting:
                found.append(f"message {index}: results {answered} for calls {waiting}")
            found.extend(_order(index, message))
        waiting = [p.block.id for p in message.parts if isinstance(p.block, ToolUseBlock)]
        found.extend(f"message {index}: tool id {ident} again" for ident in waiting if ident in ids)
        ids.update(waiting)
        found.extend(_emptiness(index, message))
        role = message.role
    if waiting:
        found.append(f"the last calls {waiting} have no results")
    return found


def _order(index: int, message: Message) -> list[str]:
    results = [isinstance(part.block, ToolResultBlock) for part in message.parts]
    sound = results == sorted(results, reverse=True)
    return [] if sound else [f"message {index}: a result after other blocks"]


def _emptiness(index: int, message: Message) -> list[str]:
    empty = any(isinstance(p.block, TextBlock) and not p.block.text.strip() for p in message.parts)
    thought = message.role == "assistant" and all(is_thinking(part.block) for part in message.parts)
    found = [f"message {index}: an empty text"] if empty else []
    if thought and not any(isinstance(part.block, UnknownBlock) for part in message.parts):
        found.append(f"message {index}: nothing but thinking")
    return found

"""The invariants that every view must keep, and the edits that follow from other edits to keep them.

Pairing, order and emptiness are seen to by the fold; what is left is thinking. On models that bind it to
its prefix, an edit makes all thinking behind it unusable, up to the newest reply at that moment; what is
produced later is bound to the edited view and stays. The thinking of the open turn is whole or wholly
absent, because the API takes no half of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from transcripts.edits import earliest
from transcripts.entries import Exchange, Prompt
from transcripts.facts import Edit, Reply, Unthink
from transcripts.fold import Folded
from transcripts.messages import Opaque, Text, ToolResult, ToolUse, is_thinking
from transcripts.view import Message


def with_unthinking(folded: Folded, edits: tuple[Edit, ...], binds: bool) -> tuple[Edit, ...]:
    """The edits, and what they make of the thinking behind them."""
    first = earliest(edits)
    if not binds or first is None:
        return edits
    newest = folded.seen
    start = min(first, open_turn(folded)) if open_turn(folded) <= newest else first
    if not any(_thinks(folded, seq) for seq in replies_between(folded, start, newest)):
        return edits
    return (*edits, Unthink(start if _thinks_between(folded, start, first) else first, newest))


def unthinking_since(folded: Folded, seq: int, binds: bool) -> tuple[Edit, ...]:
    """What undoing a compaction made at `seq` does to the thinking: what was produced under it goes."""
    newest = folded.seen
    if (
        not binds
        or newest <= seq
        or not any(_thinks(folded, r) for r in replies_between(folded, seq, newest))
    ):
        return ()
    return (Unthink(seq, newest),)


def open_turn(folded: Folded) -> int:
    """seq of the first fact of the open turn: the newest prompt."""
    for entry in reversed(folded.entries):
        if isinstance(entry, Prompt):
            return entry.seq
    return 0


def replies_between(folded: Folded, first: int, last: int) -> Iterable[int]:
    """seqs of the replies first..last, newest first."""
    for entry in reversed(folded.entries):
        if entry.seq < first:
            return
        if isinstance(entry, Exchange) and entry.seq <= last:
            yield entry.seq


def _thinks(folded: Folded, seq: int) -> bool:
    entry = folded.find(seq)
    return entry is not None and _has_thinking(entry.fact) and not folded.edits.unthinks(seq)


def _thinks_between(folded: Folded, first: int, last: int) -> bool:
    return any(_thinks(folded, seq) for seq in replies_between(folded, first, last - 1))


def _has_thinking(fact: Reply) -> bool:
    return any(is_thinking(block) for block in fact.blocks)


def problems(view: Iterable[Message]) -> list[str]:
    """What the API would refuse about a view that ends with the user; empty when it is sound."""
    found: list[str] = []
    role, ids = "assistant", set[str]()
    waiting: list[str] = []
    for index, message in enumerate(view):
        if message.role == role:
            found.append(f"message {index}: two of {role} in a row")
        if index == 0 and message.role != "user":
            found.append("message 0: not of the user")
        if not message.parts:
            found.append(f"message {index}: empty")
        answered = [p.block.tool_use_id for p in message.parts if isinstance(p.block, ToolResult)]
        if message.role == "user":
            if answered != waiting:
                found.append(f"message {index}: results {answered} for calls {waiting}")
            found.extend(_order(index, message))
        waiting = [p.block.id for p in message.parts if isinstance(p.block, ToolUse)]
        found.extend(f"message {index}: tool id {ident} again" for ident in waiting if ident in ids)
        ids.update(waiting)
        found.extend(_emptiness(index, message))
        role = message.role
    if waiting:
        found.append(f"the last calls {waiting} have no results")
    return found


def _order(index: int, message: Message) -> list[str]:
    results = [isinstance(part.block, ToolResult) for part in message.parts]
    return (
        [f"message {index}: a result after other blocks"] if results != sorted(results, reverse=True) else []
    )


def _emptiness(index: int, message: Message) -> list[str]:
    empty = any(isinstance(p.block, Text) and not p.block.text.strip() for p in message.parts)
    thought = message.role == "assistant" and all(is_thinking(part.block) for part in message.parts)
    found = [f"message {index}: an empty text"] if empty else []
    if thought and not any(isinstance(part.block, Opaque) for part in message.parts):
        found.append(f"message {index}: nothing but thinking")
    return found

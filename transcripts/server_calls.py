"""Calls of tools that the API runs itself: the view contains both call and result, or neither.

The API runs a call without a result on the next request if the reply also called our tools, or if it paused
and no message followed. Otherwise (the stream broke off, the result was cleared) the API rejects the call. It
always rejects a result without its call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .entries import Entry, Exchange
from .messages import Block, UnknownBlock
from .view import Part

PAUSED = "pause_turn"


def call_id(block: Block) -> str | None:
    """Return the id of a call that the API runs; None for every other block."""
    if not isinstance(block, UnknownBlock) or block.raw.get("type") != "server_tool_use":
        return None
    return str(block.raw.get("id"))


def answered_id(block: Block) -> str | None:
    """Return the id of the call that a result of the API answers; None for every other block."""
    if not isinstance(block, UnknownBlock) or not str(block.raw.get("type")).endswith("_tool_result"):
        return None
    return str(block.raw.get("tool_use_id"))


def finished_results(exchange: Exchange) -> tuple[int, ...]:
    """Return the indexes of the results in a reply that also contains their calls; () while it is paused."""
    blocks = exchange.fact.blocks
    if exchange.fact.stop == PAUSED or not any(isinstance(block, UnknownBlock) for block in blocks):
        return ()
    called = set(filter(None, map(call_id, blocks)))
    return tuple(index for index, block in enumerate(blocks) if answered_id(block) in called)


def server_call_of(result: Block, blocks: Sequence[Block]) -> Mapping[str, Any]:
    """Return the raw call among the blocks that a result of the API answers; {} if there is none."""
    ident = answered_id(result)
    raws = (block.raw for block in blocks if isinstance(block, UnknownBlock) and call_id(block) == ident)
    return next(raws, {}) if ident is not None else {}


def open_server_calls(exchange: Exchange, following: Entry | None) -> frozenset[str]:
    """Return the ids of the calls of a reply that the API runs on the next request.

    `following` is the entry after the reply, if there is one.
    """
    if exchange.superseded or not (exchange.uses or exchange.fact.stop == PAUSED):
        return frozenset()
    blocks = exchange.fact.blocks
    still_open = frozenset(filter(None, map(call_id, blocks))) - set(map(answered_id, blocks))
    if exchange.uses or following is None:
        return still_open
    answers = following.fact.blocks if isinstance(following, Exchange) and not following.superseded else ()
    return still_open & set(map(answered_id, answers))


def with_whole_server_calls(
    parts: Sequence[Part], still_open: frozenset[str], left_open: frozenset[str]
) -> tuple[Part, ...]:
    """Return the parts of a reply without calls that lack a result, and results that lack a call.

    `still_open` are calls of this reply that the API has yet to run, `left_open` those of the previous reply,
    which this one may answer.
    """
    blocks = [part.block for part in parts]
    called = set(filter(None, map(call_id, blocks)))
    whole = called & {*map(answered_id, blocks), *still_open}
    kept = [
        part
        for part in parts
        if call_id(part.block) in (None, *whole) and answered_id(part.block) in (None, *whole, *left_open)
    ]
    while kept and kept[-1].block.is_thinking:  # the API rejects a message that ends with thinking
        kept.pop()
    return tuple(kept)

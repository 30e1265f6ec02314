"""Breakpoints stand where the two newest batches of edits end."""

import json
from math import inf

import pytest

from agent.model.anthropic.request import encode_request
from agent.model_port import ModelRequest, RequestSettings
from compact.breakpoints import cache_breakpoints, cached_messages
from compact.cache_use import cache_steps, cache_used
from tests.strict_api.prefix import walk_prefix
from tests.strict_api.prompt_cache import CacheTerms, PromptCache
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Fold, Opened, RequestSent, Unthink
from transcripts.messages import TextBlock, ToolUseBlock

from .worlds import World


def session():
    """Message 0 is the prompt; exchange n is messages 2n-1 and 2n, its result has seq 3n+1."""
    world = World(judged=False)
    world.user("begin")
    for at in range(8):
        world.call("bash", "x" * 400, command=f"make {at}")
    return world


def clear(world, *exchanges, layer="micro"):
    edits = tuple(Clear(3 * at + 1, 0, "content", "[cleared]", 90) for at in exchanges)
    return world.add(Compacted, layer, "auto", edits, report={})


def places(world):
    return cache_breakpoints(world.folded)


def test_without_edits_there_are_none():
    assert places(session()) == ()


def test_a_first_batch_has_one_before_it_and_one_at_its_end():
    world = session()
    clear(world, 2, 4)
    assert places(world) == (3, 8)


def test_a_later_batch_keeps_the_end_of_the_one_before():
    world = session()
    clear(world, 1, 2)
    clear(world, 3, 4)
    assert places(world) == (4, 8)
    clear(world, 5, 6)
    assert places(world) == (8, 12)
    world.undo()
    assert places(world) == (4, 8)


def test_what_was_never_sent_and_dropped_thinking_are_not_batches():
    world = session()
    clear(world, 1)
    for layer in ("budget", "unthink", "repair"):
        clear(world, 8, layer=layer)
    world.add(Compacted, "micro", "auto", (Unthink(1, 20),), report={})
    assert places(world) == (1, 2)


def test_a_fold_from_the_start_has_one_at_its_end_only():
    world = session()
    world.add(Compacted, "summary", "auto", (Fold(1, 13, (TextBlock("record"),), 2),), report={})
    assert places(world) == (0,)


def test_the_end_of_the_view_is_a_place_and_beyond_it_is_none():
    world = session()
    clear(world, 8)
    assert places(world) == (15, 16)


def bill(world, cache):
    """Return the charge for the due request on a server that counts every block."""
    settings = RequestSettings("claude-sonnet-5-5", 100, ("system",), ())
    body = json.loads(
        encode_request(ModelRequest(settings, world.folded.view, cache_breakpoints(world.folded)))
    )
    return cache.charge(walk_prefix(body, False), CacheTerms("m", "", 1, None))


@pytest.mark.parametrize("edited", [False, True])
def test_a_reply_with_many_calls_never_makes_the_next_request_write_the_history_again(edited):
    for count in (1, 2, 5, 8, 9, 10, 12, 19, 20, 21, 30, 60, 100):
        world, cache = session(), PromptCache(lambda: 0.0, joins_runs=False)
        if edited:
            clear(world, 1, 2)
            clear(world, 4, 5)
        before = bill(world, cache).total
        reply = world.reply(
            *(ToolUseBlock(f"p{at}", "bash", {"command": f"make {at}"}) for at in range(count))
        )
        for at in range(count):
            world.result(reply, at, f"made {at}")
        assert bill(world, cache).read == before, f"{count} calls"


def test_the_end_of_the_last_request_takes_the_place_of_the_older_batch():
    world = session()
    clear(world, 1, 2)
    clear(world, 3, 4)
    assert places(world) == (4, 8)
    reply = world.reply(*(ToolUseBlock(f"p{at}", "bash", {}) for at in range(30)))
    for at in range(30):
        world.result(reply, at, "made")
    assert places(world) == (8, 16)


def ask(world, cache, number):
    """One more call and its result, the request charged to the cache."""
    bill(world, cache)
    world.call("bash", "y" * 400, command=f"make more {number}")


def micro(world, *exchanges):
    edits = tuple(Clear(3 * at + 1, 0, "content", "-", 90) for at in exchanges)
    return Compacted(0, 0.0, "micro", "auto", edits)


@each_row("undone", [False, True])
@each_row("earlier", [(), (2,), (4, 6)])
@each_row("calls", [0, 1, 6])
@each_row("batch", [(3,), (5, 7), (8,), (1, 8)])
def test_what_the_next_request_reads_is_known_before(batch, calls, earlier, undone):
    world, cache = World(judged=False), PromptCache(lambda: 0.0, joins_runs=False)
    world.user("begin")
    for at in range(10):
        ask(world, cache, at)
    if earlier:
        world.add(Compacted, "micro", "auto", micro(world, *earlier).edits, report={})
    for at in range(calls):
        ask(world, cache, at)
    if undone:
        world.undo()
    edits = micro(world, *batch).edits
    before, first = world.folded, edits[0].seq
    then = before.with_edits(edits)
    then.compactions = [*before.compactions, micro(world, *batch)]
    known = cached_messages(before, then, first, 0.0)
    world.add(Compacted, "micro", "auto", edits, report={})
    assert known == read_messages(world, cache)


def test_earlier_requests_are_read_only_where_the_next_one_continues_another_than_the_last():
    world = session()
    assert cache_used(world.folded) == world.folded.last_request.ts
    assert list(cache_steps(world.folded)) == []
    world.add(Opened, (), (), "another")
    assert len(list(cache_steps(world.folded))) == 1
    assert list(cache_steps(world.folded)) == []
    assert cache_used(world.folded) == -inf
    world.add(Opened, (), (), "")
    assert cache_used(world.folded) == world.folded.last_request.ts


def read_messages(world, cache):
    """Return the number of messages that the server reads of the due request."""
    read = bill(world, cache).read
    settings = RequestSettings("claude-sonnet-5-5", 100, ("system",), ())
    body = json.loads(encode_request(ModelRequest(settings, world.folded.view)))
    beginnings = [body["messages"][:count] for count in range(len(body["messages"]))]
    sizes = [walk_prefix({**body, "messages": each}, False).tokens for each in beginnings]
    return sizes.index(read) if read in sizes else 0


def test_an_entry_that_was_not_used_for_long_has_expired():
    world = session()
    then = world.folded.with_edits(micro(world, 5).edits)
    then.compactions = [micro(world, 5)]
    assert cached_messages(world.folded, then, 16, world.now) == 9
    assert cached_messages(world.folded, then, 16, world.now + 1) == 0


def test_a_summary_by_the_same_model_keeps_the_newest_entry_of_the_conversation_alive():
    for settings, found in (({"cache": "5m"}, 15), ({"cache": "5m", "model": "other"}, 0), ({}, 0)):
        world = session()
        end = world.folded.last_seq + 1
        world.now += 200
        world.add(RequestSent, "summary", settings=settings, instructions="summarize")
        assert cached_messages(world.folded, world.folded, end, world.now) == found
        assert (cache_used(world.folded) == world.now) is bool(found)

"""thrifty's batches: when one is due, what it must free, and what it leaves alone."""

import pytest

from compact import policy
from compact.clearing import clear_candidates
from compact.policy import RECENT_CALLS, choose_batch
from compact.prices import Prices
from compact.settings import CompactSettings
from transcripts.facts import Clear, Compacted

from .worlds import World

GAIN = 70  # tokens that clearing one of `outputs` frees, by the estimate: 100 less a placeholder of 30


def outputs(count, window=200_000, **more):
    """A session of so many command outputs of 100 tokens; the last one was not seen yet."""
    limits = {"batch_min_tokens": 2_000, "protected_tail_tokens": 1, "batch_from_tokens": 1, **more}
    world = World(CompactSettings(**limits), window=window, judged=False)
    world.user("begin")
    for at in range(count):
        world.call("bash", f"{at:03} " * 100, command=f"make part{at}")
    return world


def reads(count, tokens=400, **more):
    world = World(CompactSettings(protected_tail_tokens=1, batch_min_tokens=1_000, **more), judged=False)
    world.user("begin")
    for at in range(count):
        world.call("read", "word" * tokens, file_path=f"src/f{at}.py")
    return world


def cold(world):
    world.now += world.settings.cache_ttl_s + 1
    return choose_batch(world.situation)


def cleared(batch):
    return [edit.seq for edit in batch[0]] if batch is not None else []


def results(world):
    return [fact.seq for fact in world.facts if hasattr(fact, "of")]


@pytest.mark.parametrize(("count", "due"), [(15, False), (16, True)])
def test_where_the_cache_is_cold_a_batch_has_to_free_half_as_much(count, due):
    world = outputs(count)
    assert choose_batch(world.situation) is None
    batch = cold(world)
    assert (batch is not None) is due
    if batch is not None:
        assert batch[1] == "cold cache" and cleared(batch) == results(world)[:-1]


def test_the_cache_is_cold_only_after_its_time():
    world = outputs(40, payback_calls=0.1)
    world.now += world.settings.cache_ttl_s
    assert choose_batch(world.situation) is None
    world.now += 1
    assert choose_batch(world.situation)[1] == "cold cache"


@pytest.mark.parametrize(("count", "due"), [(8, False), (9, True)])
def test_where_the_window_forces_it_a_batch_has_to_free_a_quarter_as_much(count, due):
    batch = choose_batch(outputs(count, trigger=500).situation)
    assert (batch is not None) is due
    assert batch is None or batch[1] == "window"


def first_price_batch(**more):
    """The number of outputs after which the first batch is made for its price."""
    for count in range(2, 80):
        if (batch := choose_batch(outputs(count, **more).situation)) is not None:
            assert batch[1] == "price"
            return count
    return None


def test_while_the_cache_is_warm_a_batch_has_to_free_its_minimum_and_to_pay():
    least = first_price_batch()
    assert (least - 1) * GAIN >= 2_000 > (least - 6) * GAIN  # looked at once for each eighth of the minimum
    assert first_price_batch(batch_min_tokens=3_000) > least
    assert first_price_batch(payback_calls=4.0) is None
    assert first_price_batch(payback_calls=7.5) is None
    assert first_price_batch(payback_calls=9.0) == least


def test_in_a_small_session_the_first_batch_has_to_pay_at_once():
    assert first_price_batch(batch_from_tokens=80_000) > first_price_batch()
    world = World(CompactSettings(batch_min_tokens=2_000, protected_tail_tokens=1), judged=False)
    world.user("begin")
    batch = None
    for at in range(12):  # large results: a call rewrites little beside what it frees
        world.call("bash", "word " * 800, command=f"make {at}")
        batch = batch or choose_batch(world.situation)
    assert batch is not None and batch[1] == "price"


def test_a_batch_soon_after_another_has_to_free_more_in_proportion():
    def calls_between(interval):
        world, at = outputs(2, batch_interval_calls=interval), []
        for call in range(120):
            world.call("bash", f"{call:03} " * 100, command=f"more {call}")
            if world.compact().proposals:
                at.append(call)
        first, second, *_ = world.folded.compactions
        assert {edit.seq for edit in first.edits}.isdisjoint(edit.seq for edit in second.edits)
        return at[1] - at[0]

    soon, late = calls_between(1), calls_between(60)
    assert soon * GAIN >= 2_000
    assert late * late * GAIN >= 60 * 2_000  # the minimum, times 60 over the calls since the last batch
    assert soon < late < 60


@pytest.mark.parametrize(("read", "share"), [(0.1, 1.0), (0.025, 0.5), (0.4, 1.0)])
def test_the_protected_tail_is_shorter_the_cheaper_reading_is(read, share):
    world = outputs(40, protected_tail_tokens=1_000)
    world.prices = Prices(read=read)
    kept = results(world)[len(cleared(cold(world))) :]
    view = world.folded.view
    tail = view.tokens - view.tokens_before(view.index_of(kept[0]))
    assert share * 1_000 <= tail <= share * 1_000 + 150


def test_the_protected_tail_is_a_quarter_of_the_trigger_at_most():
    world = outputs(40, protected_tail_tokens=1_000_000, trigger=8_000)
    view, kept = world.folded.view, results(world)[len(cleared(cold(world))) :]
    assert 2_000 <= view.tokens - view.tokens_before(view.index_of(kept[0])) <= 2_150


def test_the_newest_reads_of_files_in_recent_use_stay():
    world = reads(20)
    assert cleared(cold(world)) == results(world)[: 20 - RECENT_CALLS]
    assert RECENT_CALLS == 12


def test_a_read_stays_while_its_file_is_in_use_and_goes_first_when_it_is_stale():
    world = reads(20)
    first, second, third, *_ = results(world)
    world.call("edit", "old_string not found", error=True, file_path="src/f0.py")
    world.call("edit", "ok", file_path="src/f1.py")
    world.call("read", "word" * 400, file_path="src/f2.py")
    world.call("bash", "ok", command="ls")
    gone = cleared(cold(world))
    assert first not in gone  # the edit failed: the old read is still what the file is
    assert second in gone and third in gone  # changed, and read again


def test_a_forced_batch_takes_newer_reads_where_it_would_leave_too_much():
    roomy = choose_batch(reads(20, trigger=8_000).situation)
    assert len(cleared(roomy)) == 20 - RECENT_CALLS
    tight = choose_batch(reads(20, trigger=4_000).situation)
    assert len(cleared(tight)) == 20 - RECENT_CALLS // 4
    tightest = choose_batch(reads(20, trigger=1_200).situation)
    assert len(cleared(tightest)) == 19


def test_a_tool_that_declares_itself_a_reader_is_one():
    world = reads(4, batch_from_tokens=1)
    for at in range(12):
        world.call("show", "word" * 400, file_path=f"lib/f{at}.py")
    assert len(cleared(cold(world))) == 15
    world.open({"name": "show", "kind": "reads"})
    assert len(cleared(cold(world))) == 4


def test_what_was_undone_is_left_alone():
    world = outputs(40)
    world.now += 1_000
    world.compact()
    assert cleared(choose_batch(world.situation)) == []
    world.undo()
    world.call("bash", "word " * 2_000, command="make more")
    world.call("bash", "ok", command="ls")
    assert cleared(cold(world)) == [results(world)[39], results(world)[40]]


def test_a_batch_for_its_price_begins_behind_the_one_before():
    limits = {"protected_tail_tokens": 1, "batch_min_tokens": 2_000, "batch_from_tokens": 1}
    world = World(CompactSettings(**limits), judged=False)
    world.user("begin")
    for at in range(140):
        if at % 10 < 7:
            world.call("bash", f"{at:03} " * 200, command=f"make {at}")
        else:  # in use when the first batch is made, and stale when the second is
            world.call("read", f"{at:03} " * 200, file_path=f"src/f{at // 30}{at % 10}.py")
        world.compact()
    first, second, *_ = world.folded.compactions
    assert {each.report["why"] for each in world.folded.compactions} == {"price"}
    ended = max(edit.seq for edit in first.edits)
    assert min(edit.seq for edit in second.edits) > ended
    left = [part for message in world.folded.view for part in message.parts if part.seq < ended]
    assert any(part.use is not None and part.tokens > 150 for part in left)  # which could be cleared


def test_a_long_view_of_small_blocks_is_looked_through_once_for_each_step(monkeypatch):
    looked = []

    def counted(*given):
        looked.append(given)
        return clear_candidates(*given)

    monkeypatch.setattr(policy, "clear_candidates", counted)
    limits = {"protected_tail_tokens": 1, "batch_min_tokens": 4_000, "batch_from_tokens": 1}
    world = World(CompactSettings(**limits), judged=False)
    world.user("begin")
    for at in range(200):
        world.call("bash", "x" * 320, command=f"make {at}")  # 80 tokens: too small to be cleared
        assert choose_batch(world.situation) is None
    steps = (world.folded.view.tokens - 4_000) // 500
    assert 0.8 * steps <= len(looked) <= steps + 2


def chosen_after(layer, **report):
    """Why a batch is chosen soon after the first would be, when a compaction with this report was made."""
    count = first_price_batch()
    for world in map(outputs, range(count, count + 9)):
        edit = Clear(results(world)[0], 0, "content", "[cleared]", 90)
        given = {**report, "calls": report["calls"] or world.folded.conversation.reply_count}
        world.add(Compacted, layer, "auto", (edit,), report=given)
        if (batch := choose_batch(world.situation)) is not None:
            return batch[1]
    return None


def test_a_later_batch_is_paid_from_what_the_earlier_ones_have_saved():
    assert chosen_after("micro", calls=-1_000, freed=90, rewritten=0) == "price"
    assert chosen_after("micro", calls=-1_000, freed=90, rewritten=1_000_000) is None
    assert chosen_after("micro", calls=-1_000, freed=0, rewritten=0) is None


def test_storing_results_that_were_never_sent_does_not_put_a_batch_off():
    assert chosen_after("budget", calls=0, freed=0, rewritten=0) == "price"
    assert chosen_after("micro", calls=0, freed=90_000, rewritten=0) is None


@pytest.mark.parametrize(("binds", "due"), [(True, True), (False, False)])
def test_thinking_that_a_batch_drops_counts_as_freed(binds, due):
    def batch(count):
        limits = {"batch_min_tokens": 2_000, "protected_tail_tokens": 1, "batch_from_tokens": 1}
        world = World(CompactSettings(payback_calls=5.0, **limits), binds=binds, judged=False)
        world.user("begin")
        for at in range(count):
            world.call("bash", f"{at:03} " * 100, thinks="hm " * 80, command=f"make part{at}")
        return choose_batch(world.situation)

    assert any(batch(count) is not None for count in range(20, 50)) is due

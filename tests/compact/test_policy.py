"""thrifty's batches: when one is due, what it must free, and what it leaves alone."""

import pytest
from msgspec.structs import replace

from agent.replay.policies import PRICE_TIERS
from compact.block_tracker import tracker_of
from compact.pipeline import plan
from compact.policy import (
    MAX_FORCED_SHARE,
    MAX_STAKE,
    MIN_FORCED_SHARE,
    PAYBACK_SHARE,
    choose_batch,
    min_batch_tokens,
)
from compact.prices import Prices
from compact.settings import CompactSettings, ContextWindow
from compact.situation import finish_plan
from tests.narrowing import block_text, narrow, present
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Fold, Instructed, Opened
from transcripts.messages import ThinkingBlock, ToolUseBlock, UnknownBlock, Usage

from .worlds import World, answered

LINE = "a plain line of output with nothing to look up "


def outputs(count, window=200_000, words=100, **more):
    """A session of so many command outputs of about 1,100 tokens; the last one was not seen yet."""
    world = World(CompactSettings(**more), window=window, judged=False)
    world.user("begin")
    for at in range(count):
        world.call("bash", f"{at:03} " + LINE * words, command=f"make part{at}")
    return world


def cold(world):
    world.now += world.settings.cache_ttl_s + 1
    return choose_batch(world.situation)


def cleared(batch):
    return [edit.seq for edit in batch[0]] if batch is not None else []


def results(world):
    return [fact.seq for fact in world.facts if hasattr(fact, "of")]


def calls_until_batch(prices=None, tokens=1, **more):
    """The number of outputs after which the first batch is made, and why."""
    world = outputs(1, **more)
    world.prices = prices or Prices()
    for at in range(300):
        world.call("bash", f"{at:03} " + LINE * 100 * tokens, command=f"make {at}")
        if (batch := choose_batch(world.situation)) is not None:
            return at, batch[1]
    return None, ""


def test_where_the_cache_is_cold_everything_goes_that_is_dearer_to_carry_than_to_lose():
    world = outputs(8)
    assert choose_batch(world.situation) is None
    batch = cold(world)
    assert batch[1] == "cold cache"
    assert 0 < len(batch[0]) < 8
    assert cleared(batch) == results(world)[: len(batch[0])]
    assert results(world)[-1] not in cleared(batch)


def test_the_cache_is_cold_only_after_its_time():
    world = outputs(8)
    world.now += world.settings.cache_ttl_s
    assert choose_batch(world.situation) is None
    world.now += 1
    assert present(choose_batch(world.situation)).why == "cold cache"


@pytest.mark.parametrize("thinks", ["", "hm"])
def test_the_cache_is_cold_for_another_model_and_other_tools_and_of_use_again_for_the_first(thinks):
    def opened(model, *tools):
        world.add(Opened, (), tools, model, world.window.size, "/p")
        if tools:
            world.add(Instructed, (), tools)
        return world.situation.cache_is_cold

    world = World(judged=False)
    assert not opened("first")
    world.user("begin")
    for at in range(8):
        world.call("bash", f"{at:03} " + LINE * 100, thinks=thinks, command=f"make part{at}")
    assert choose_batch(world.situation) is None
    assert not world.situation.cache_is_cold and opened("second")
    assert present(choose_batch(world.situation)).why == "cold cache"
    world.reply("I am another")
    assert not world.situation.cache_is_cold
    assert opened("first") is bool(thinks), "without its thinking that is another conversation"
    world.reply("back")
    assert opened("first", {"name": "other"})
    world.reply("with another tool")
    assert not world.situation.cache_is_cold
    assert opened("first", {"name": "a third"})
    assert opened("first", {"name": "other"}) is bool(thinks), "the entries of these tools still exist"
    world.reply("with it again")
    world.now += world.settings.cache_ttl_s + 1
    assert world.situation.cache_is_cold


@pytest.mark.parametrize(("least", "due"), [(2_500, True), (100_000, False)])
def test_a_batch_frees_its_minimum_even_where_the_cache_is_cold(least, due):
    assert (cold(outputs(12, window=10_000_000, batch_min_tokens=least)) is not None) is due


@each_row(("window", "least"), [(8_000, 160), (32_000, 640), (200_000, 2_500), (1_000_000, 2_500)])
def test_the_minimum_of_a_batch_is_a_share_of_a_small_window(window, least):
    assert min_batch_tokens(CompactSettings(), ContextWindow(window)) == least


@each_row("tier", PRICE_TIERS.values())
def test_while_the_cache_is_warm_a_batch_pays_within_a_share_of_the_calls_since_the_last_one(tier):
    world = outputs(1)
    world.prices = tier
    before = 0
    for at in range(200):
        world.call("bash", f"{at:03} " + LINE * 100, command=f"make {at}")
        for proposal in world.compact().proposals:
            calls = proposal.report["calls"]
            assert proposal.report["why"] == "price"
            assert proposal.report["pays_back_calls"] <= 1.2 * PAYBACK_SHARE * (calls - before) + 1
            before = calls
    assert before > 0


def cached_calls(count, tier, reports=True):
    """Yield a session after each call; its server reads all but the newest messages from the cache."""
    world = outputs(1)
    world.prices = tier
    for at in range(count):
        tokens = world.situation.tokens
        new = min(tokens, 2_500)
        usage = Usage(cache_read=tokens - new, cache_written=new) if reports else Usage()
        reply = world.reply(ToolUseBlock(f"c{at}", "bash", {"command": f"make {at}"}), usage=usage)
        world.result(reply, 0, f"{at:03} " + LINE * 200)
        yield world


@each_row("tier", PRICE_TIERS.values())
def test_a_rewrite_costs_no_more_than_a_share_of_what_the_session_has_cost(tier):
    made = 0
    for world in cached_calls(150, tier):
        spent = tier.plain(world.folded.usage)
        for proposal in world.compact().proposals:
            if proposal.report["why"] == "price":
                made += 1
                assert proposal.report["rewritten"] * (tier.write - tier.read) <= 1.2 * MAX_STAKE * spent
    assert made


def test_where_a_server_reports_no_usage_batches_come_all_the_same():
    assert any(choose_batch(world.situation) for world in cached_calls(60, Prices(), reports=False))


def test_the_cheaper_it_is_to_read_the_later_the_first_batch_comes():
    found = [calls_until_batch(PRICE_TIERS[tier])[0] for tier in ("standard", "cheap", "cheapest")]
    assert found == sorted(found) and len(set(found)) == 3
    assert calls_until_batch(PRICE_TIERS["hour"])[0] > found[0]


def reading(**more):
    """A session that has written a file, and then read four of 2,200 tokens and used names from them."""
    world = World(CompactSettings(**more), judged=False)
    world.user("begin")
    world.call("write", "ok", file_path="src/first.py", content="x = 1")
    told = " ".join(f"name_{at}_x" for at in range(60))
    for at in range(4):
        world.call("read", f"{told} {LINE * 200}", file_path=f"src/f{at}.py")
    world.call("bash", "ok", command=f"grep {told}")  # refers back as often as the table expects
    return world


def test_a_file_that_was_read_and_not_edited_stays_longer_than_one_that_was_edited():
    world = reading(batch_min_tokens=1_000)
    world.call("edit", "ok", file_path="src/f2.py", old_string="a", new_string="b")
    for _ in range(8):
        world.call("bash", "ok", command="make")
    _, _, _, edited, kept, *_ = results(world)
    gone = cleared(cold(world))
    assert edited in gone
    assert kept not in gone


def test_of_a_call_the_text_that_it_wrote_stays_and_the_rest_goes_unless_it_is_new():
    world = outputs(1)
    texts = {"file_path": "a.py", "old_string": LINE * 100, "new_string": LINE * 99}
    edit = world.call("edit", "ok", **texts).of
    for at in range(3):
        command = world.call("bash", LINE * 100, command=f"echo {at} {LINE * 100}").of
    gone = {(each.seq, each.field) for each in cold(world).edits}
    assert (edit, "old_string") in gone
    assert (edit, "new_string") not in gone
    assert (command, "command") not in gone


def searched(number):
    """A search that the service ran, and its result."""
    ident, found = f"srvtoolu_{number}", {"type": "web_search_result", "encrypted_content": LINE * 300}
    call = {
        "type": "server_tool_use",
        "id": ident,
        "name": "web_search",
        "input": {"query": f"thing {number}"},
    }
    return call, {"type": "web_search_tool_result", "tool_use_id": ident, "content": [found]}


def test_what_the_service_found_goes_with_its_searches_but_not_from_a_pause():
    world = World()
    for number in range(8):
        world.user("look it up")
        thought = ThinkingBlock("hm", f"signed {number}")
        world.reply(thought, *map(UnknownBlock, searched(number)), f"Page {number} says so.")
    world.user("and this")
    world.reply(*map(UnknownBlock, searched(8)), stop="pause_turn")
    before = world.folded.view.tokens
    world.now += world.settings.cache_ttl_s + 1
    world.vetoed = True
    assert world.compact().proposals
    shown = [part.block for message in world.folded.view for part in message.parts]
    types = [block.raw["type"] for block in shown if isinstance(block, UnknownBlock)]
    assert types.count("server_tool_use") == types.count("web_search_tool_result") < 4
    assert narrow(shown[-1], UnknownBlock).raw["type"] == "web_search_tool_result"
    cleared = block_text(shown[1])
    assert "[cleared: web_search thing 0, " in cleared and 'recall("r3.2") shows it]' in cleared
    assert world.folded.view.tokens < before / 2


def test_a_file_that_was_read_again_goes_first():
    world = reading(batch_min_tokens=1_000)
    world.call("read", LINE * 200, file_path="src/f2.py")
    world.call("bash", "ok", command="make")
    _, _, _, again, kept, *_ = results(world)
    gone = cleared(cold(world))
    assert again in gone
    assert kept not in gone


def test_a_tool_that_declares_itself_a_reader_is_one():
    def gone(*tools):
        world = World(judged=False)
        world.open(*tools)
        world.user("begin")
        world.call("write", "ok", file_path="a.py", content="x")
        for at in range(3):
            world.call("show", LINE * 200, file_path=f"lib/f{at}.py")
        return cleared(cold(world))

    assert len(gone({"name": "show", "kind": "reads"})) < len(gone())


def test_a_forced_batch_takes_what_is_likely_to_be_needed_only_where_it_has_to():
    def batch(trigger):
        world = reading(trigger=trigger)
        world.call("read", LINE * 200, file_path="src/g.py")
        return world, choose_batch(world.situation)

    world, forced = batch(5_000)
    assert forced[1] == "window"
    left = world.situation.tokens - sum(edit.saves for edit in forced[0])
    assert left <= MAX_FORCED_SHARE * 5_000
    _, roomier = batch(12_000)
    assert len(roomier[0]) < len(forced[0])
    assert results(world)[-1] not in cleared(forced)


def test_a_forced_batch_makes_room_for_more_calls_like_the_last_ones_before_the_first_edit():
    def left(first):
        world = World(CompactSettings(trigger=10_000), judged=False)
        world.user("begin")
        world.call(first, "ok", file_path="a.py", content="x")
        for at in range(4):
            world.call("read", LINE * 300, file_path=f"src/f{at}.py")
        forced = present(choose_batch(world.situation))
        assert forced.why == "window"
        return (world.situation.tokens - sum(edit.saves for edit in forced.edits)) / 10_000

    assert MIN_FORCED_SHARE < left("write") <= MAX_FORCED_SHARE
    assert left("read") <= MIN_FORCED_SHARE


def test_a_page_that_the_model_is_just_referred_to_stays_whatever_the_window_leaves():
    def gone(page):
        world = reading(trigger=5_000)
        uses = [ToolUseBlock(f"u{at}", "read", {"file_path": f"src/f{at}.py"}) for at in range(2)]
        reply = world.reply(*uses)
        for at in range(2):
            world.result(reply, at, "as before", about={"unchanged": page(world)} if at == 0 else {})
        return cleared(choose_batch(world.situation)), results(world)[1]

    edits, page = gone(lambda world: results(world)[1])
    assert edits
    assert page not in edits
    edits, page = gone(lambda world: True)
    assert page in edits


def test_what_was_undone_is_left_alone():
    world = outputs(8)
    world.now += 1_000
    world.vetoed = True
    [proposal] = world.compact().proposals
    gone = {edit.seq for edit in proposal.edits}
    world.undo()
    for at in range(8):
        world.call("bash", LINE * 100, command=f"make more{at}")
    later = cleared(cold(world))
    assert later and not gone & set(later)


def test_old_batches_do_not_slow_the_next_ones_down():
    """A block is cleared once: a block that an edit changes is no longer a candidate."""
    world = outputs(12)
    world.now += 1_000
    first = world.compact()
    assert cleared(choose_batch(world.situation)) == []
    assert isinstance(world.facts[-1], Compacted) and len(first.proposals) == 1


def test_thinking_that_a_batch_drops_makes_it_worth_more():
    def calls(binds):
        world = World(binds=binds, judged=False)
        world.user("begin")
        for at in range(300):
            world.call("bash", f"{at:03} " + LINE * 100, thinks="hm " * 1_500, command=f"make {at}")
            if choose_batch(world.situation) is not None:
                return at
        return 300

    assert calls(binds=True) < calls(binds=False)


def grown(**more):
    """A session of many small outputs, in which batches have left a long row of placeholders."""
    world = World(CompactSettings(**more), judged=False)
    world.user("begin, and never push")
    for at in range(90):
        world.call("bash", f"{at:03} " + LINE * 100, command=f"make {at}", why="as planned " * 12)
        yield world


def folds(world):
    return [made for made in world.folded.compactions if any(isinstance(edit, Fold) for edit in made.edits)]


def test_with_a_batch_the_local_summary_takes_the_place_of_what_earlier_batches_went_through():
    for world in grown():
        before = world.folded.view.tokens
        made = world.compact()
        if folds(world):
            break
    [proposal] = made.proposals
    fold, *rest = proposal.edits
    assert (proposal.layer, proposal.report["why"]) == ("ledger", "price")
    assert all(edit.seq > fold.last for edit in rest if isinstance(edit, Clear))
    assert world.folded.view.tokens < before - 4_000
    assert "never push" in world.shown[0]
    assert world.undo().id == folds(world)[0].id
    assert world.folded.view.tokens == before
    world.call("bash", LINE * 400, command="make all")
    world.compact()
    assert len(folds(world)) == 1  # restored blocks stay


def test_a_veto_leaves_what_was_edited_unchanged():
    for world in grown():
        situation = replace(world.situation, vetoed=True)
        planned = finish_plan(plan(situation, "auto"), lambda asked: answered())
        assert [proposal.layer for proposal in planned.proposals] in ([], ["micro"])
        world.carry_out(planned)
    assert len(world.folded.compactions) > 3


def test_what_is_likely_to_be_needed_is_never_folded_away():
    for world in grown():
        world.compact()
        tracker = tracker_of(world.folded)
        if made := folds(world):
            gone = made[-1].edits[0].last
            young = [b for b in tracker.blocks if tracker.calls - b.touched < 3]
            assert all(block.seq > gone for block in young)


def test_small_text_that_was_written_into_a_file_is_not_folded_away_while_it_is_young():
    for at, world in enumerate(grown()):
        if at == 30:
            small = world.call("edit", "ok", file_path="a.py", old_string="a", new_string="b = 2").of
        if at == 40:
            break
    world.now += world.settings.cache_ttl_s + 1
    world.compact()
    assert world.folded.edits.covering(small) is None
    around = [world.folded.edits.covering(seq) for seq in (small - 3, small + 3)]
    assert all(isinstance(edit, Fold) for edit in around)

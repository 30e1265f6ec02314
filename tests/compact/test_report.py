"""Savings and cost of a compaction: as recorded, as reported, and compared with the actual cost."""

import re

import pytest
from msgspec.structs import replace

from compact.context_report import ContextReport, estimated_and_actual_cost
from compact.estimate import text_slope
from compact.notices import MIN_TOLD_CALLS, compaction_notice, is_announced, rewrite_note
from compact.pipeline import _fold_preview, dry_run
from compact.prices import PriceList, Prices
from compact.report import COLD_RETURN, propose
from compact.settings import CompactSettings
from compact.shown_blocks import ShownBlock
from transcripts.facts import Clear, Compacted, Fold, Opened
from transcripts.messages import TextBlock, Usage
from transcripts.view import PartKind

from .worlds import World


def compacted(model=""):
    world = World(CompactSettings(), window=40_000)
    if model:
        world.add(Opened, (), (), model, 40_000, "/p")
    world.user("begin")
    for at in range(12):
        world.call("bash", "line " * 1_000, command=f"make part{at}")
    world.compact("manual")
    return world, world.folded.compactions[0]


def test_what_came_is_what_the_next_request_could_not_read_from_the_cache():
    world, made = compacted()
    read = made.report["after"] // 2
    usage = Usage(input=7, cache_read=read, cache_written=made.report["after"] - read, output=1)
    world.reply("looked", usage=usage)
    said = estimated_and_actual_cost(world.folded, made, PriceList())
    predicted, came = (float(found) for found in re.findall(r"\$([\d.]+)", said))
    assert said.endswith(f"({usage.cache_written + 7:,})")
    assert predicted == round(made.report["predicted_cost_usd"], 3)
    assert came == round((1.25 * usage.cache_written + 7) * 3 / 1_000_000, 3)


def test_where_nothing_is_cached_the_whole_next_request_is_the_predicted_cost():
    world = World(CompactSettings(), window=40_000)
    world.prices = Prices(read=1.0, write=1.0)
    world.user("begin")
    for at in range(12):
        world.call("bash", "line " * 1_000, command=f"make part{at}")
    (proposal,) = world.compact("manual").proposals
    report = proposal.report
    assert report["predicted_cost_usd"] == round(world.prices.dollars(report["after"]), 6)
    assert (report["extra_cost_usd"], report["pays_back_calls"]) == (0.0, 0)


def test_no_dollars_are_shown_for_a_model_whose_price_is_unknown():
    world = World(CompactSettings(), window=40_000)
    world.prices = Prices(is_guess=True)
    world.user("begin")
    for at in range(12):
        world.call("bash", "line " * 1_000, command=f"make part{at}")
    with_prices = replace(world.situation, prices=Prices())
    assert "$" in str(dry_run(with_prices, "manual").removed)
    assert "$" not in str(dry_run(world.situation, "manual").removed)
    world.compact("manual")
    (made,) = world.folded.compactions
    assert made.report["extra_cost_usd"] == 0.0 and made.report["predicted_cost_usd"] > 0.0


def test_a_compaction_says_when_it_has_paid_for_itself_if_the_model_has_prices():
    world, made = compacted()

    def shown(prices=None):
        (listed,) = ContextReport.of(world.situation, prices or PriceList()).compactions
        return listed.state, bool(listed.cost)

    calls = made.report["pays_back_calls"]
    assert calls > 1 and shown() == (f"saves money after {calls} more calls", True)
    world.reply("looked")
    assert shown()[0].startswith(f"saves money after {calls - 1} more call")
    for _ in range(1, calls):
        world.reply("looked")
    assert shown()[0] == "has paid for itself"
    world.undo()
    assert shown()[0] == "undone"
    world, made = compacted(model="mystery")
    assert shown() == ("", False)
    assert shown(PriceList({"mystery": Prices(0, 0)})) == ("", False)


def test_undoing_is_billed_if_the_cache_no_longer_holds_what_it_restores():
    world, _ = compacted()
    world.undo()
    assert rewrite_note(world.situation) == "", "the last request was as it is now"
    world.compact("manual")
    world.now += world.settings.cache_ttl_s - 1
    world.reply("looked")
    world.user("and then?")
    world.now += 2
    assert rewrite_note(world.situation) == ""
    world.undo()
    told = re.fullmatch(
        r" \(next request: (.*) tokens of cache write, ~\$0.06\)", rewrite_note(world.situation)
    )
    assert told is not None
    world.prices = Prices(is_guess=True)
    assert rewrite_note(world.situation) == "", "dollars of a guess are not shown"
    world.prices = Prices()
    assert int(told[1].replace(",", "")) == pytest.approx(world.folded.view.tokens, rel=0.01)
    world.now += world.settings.cache_ttl_s
    assert rewrite_note(world.situation) == "", "a cache that has expired is told of when it goes on"


def test_where_nothing_was_asked_under_it_nothing_came():
    world, made = compacted()
    assert estimated_and_actual_cost(world.folded, made, PriceList()).endswith("no request was sent with it")
    world.undo()
    world.reply("looked")
    assert estimated_and_actual_cost(world.folded, made, PriceList()).endswith("no request was sent with it")


@pytest.mark.parametrize("window", [40_000, 60_000])
def test_a_small_window_is_freed_by_halves_and_not_every_other_call(window):
    world = World(window=window, overhead=5_000, judged=False)
    world.user("read every file")
    for number in range(60):
        world.call("read", "value = 'something'\n" * 400, file_path=f"src/part_{number}.py")
        world.compact()
    made = world.folded.compactions
    assert 4 <= len(made) <= 60 * 2_700 / (0.3 * world.situation.trigger_tokens)
    assert all(one.report["after"] <= 0.7 * world.situation.trigger_tokens for one in made)


def session(calls=12, thinks="hm " * 40, slope=1.0):
    world = World(window=200_000, overhead=1_000, judged=False)
    world.tokenizer = (0, slope)
    world.user("begin")
    for at in range(calls):
        world.call("bash", "x" * 4_000, thinks=thinks, command=f"make part{at}")
    return world


def proposed(world, *edits, **more):
    return propose(world.situation, "micro", "auto", edits, **more)


def clear(world, exchange, saves=900):
    """The clear of the result of an exchange, counted from 0."""
    return Clear(3 * exchange + 4, 0, "content", f"[cleared: recall r{3 * exchange + 4}]", saves)


def test_a_report_has_sizes_and_costs_in_the_models_tokens():
    world = session(slope=2.0)
    report = proposed(world, clear(world, 0), clear(world, 5), why="test").report
    situation = world.situation
    assert situation.slope == pytest.approx(2.0)
    assert report["before"] == situation.tokens and report["why"] == "test"
    after = situation.folded.with_edits(proposed(world, clear(world, 0), clear(world, 5)).edits)
    freed = situation.scaled(situation.view.tokens - after.view.tokens)
    assert report["freed"] == report["before"] - report["after"] == pytest.approx(freed, rel=0.1)
    kept = report["after"] - report["rewritten"]
    rewritten = situation.scaled(after.view.tokens - after.view.tokens_before(1))
    assert report["rewritten"] == pytest.approx(rewritten, rel=0.05)
    assert report["predicted_cost_usd"] == pytest.approx(report["rewritten"] * 1.25 * 3e-6, abs=1e-6)
    assert report["cold_cost_usd"] == pytest.approx((report["rewritten"] + kept) * 1.25 * 3e-6, abs=1e-6)
    assert report["extra_cost_usd"] == pytest.approx(report["rewritten"] * 1.15 * 3e-6, abs=1e-6)
    assert report["pays_back_calls"] == -(-report["rewritten"] * 115 // (report["freed"] * 10))
    assert report["calls"] == 12 and not report["cold"] and len(report["biggest"]) == 3


def test_a_report_counts_the_edits_and_the_tokens_by_kind():
    world = session()
    edits = (
        clear(world, 0),
        Clear(6, 1, "command", "x", 2),
        Clear(1, 0, "text", "y", 1),
        Fold(30, 31, (), 0),
    )
    report = proposed(world, *edits).report
    assert report["edits"] == {"results": 1, "inputs": 1, "pasted": 1, "folds": 1, "unthinks": 1}
    assert report["kinds"]["result"] == 2_000 and report["kinds"]["thinking"] > 0
    assert report["kinds"]["placeholder"] < 0


def test_once_the_cache_is_cold_a_rewrite_has_paid_at_once():
    world = session()
    world.now += 1_000
    report = proposed(world, clear(world, 0)).report
    assert report["cold"] and report["pays_back_calls"] == 0 and report["rewritten"] > 0


def test_behind_the_newest_batch_its_prefix_is_still_read():
    world = session(thinks="")
    world.add(Compacted, "micro", "auto", (clear(world, 2),), report={})
    world.call("bash", "x" * 4_000, command="make more")
    first = proposed(world, clear(world, 1)).report
    second = proposed(world, clear(world, 6)).report
    view = world.folded.view
    kept = [made["after"] - made["rewritten"] for made in (first, second)]
    assert kept == pytest.approx([1_000 + view.tokens_before(at) for at in (3, 7)], rel=0.04)


def test_what_is_not_in_our_count_precedes_the_messages():
    world = World(window=200_000, overhead=1_000, judged=False)
    world.tokenizer = (2_400, 1.0)  # the server's own words about tools
    world.user("begin")
    for at in range(12):
        world.call("bash", "x" * 4_000, command=f"make part{at}")
    report = proposed(world, clear(world, 0)).report
    messages = world.folded.view.tokens - world.folded.view.tokens_before(1)
    assert report["rewritten"] + report["freed"] == pytest.approx(messages, rel=0.02)


def test_of_a_cold_cache_the_whole_prompt_is_compared():
    world = session(thinks="")
    world.now += 1_000
    made = proposed(world, clear(world, 0))
    world.add(Compacted, "micro", "auto", made.edits, report=made.report)
    world.reply("looked", usage=Usage(cache_written=made.report["after"], output=1))
    predicted, came = re.findall(
        r"\$([\d.]+) \(", estimated_and_actual_cost(world.folded, world.folded.compactions[0], PriceList())
    )
    assert predicted == came


def test_what_was_never_sent_costs_nothing():
    world = session()
    world.call("bash", "x" * 4_000, command="one more")
    report = proposed(world, clear(world, 12)).report
    assert report["rewritten"] == 0 and report["predicted_cost_usd"] == 0
    assert "the next call costs" not in compaction_notice([proposed(world, clear(world, 12))])


def made(layer, before=167_600, after=999, cost=0.214, cold=False, trigger="auto"):
    report = {"before": before, "after": after, "cold": cold, "predicted_cost_usd": cost}
    return Compacted(1, 0.0, layer, trigger, (), report=report)


def test_the_notice_reports_the_sizes_what_was_done_and_whether_the_model_was_asked():
    assert compaction_notice([made("summary")]) == (
        "[auto compact] 168k -> 999 tokens (-99%): the model summarized older messages, "
        "the next call costs ~$0.21 more; undo with /uncompact"
    )
    assert compaction_notice([made("micro", cost=0.004, trigger="manual")]) == (
        "[manual compact] 168k -> 999 tokens (-99%): old tool output was cleared "
        "without a model call; undo with /uncompact"
    )
    both = compaction_notice([made("budget"), made("micro"), made("micro")])
    assert "large results were moved to files, old tool output was cleared without" in both
    assert "$" not in compaction_notice([made("micro", cold=True)])
    assert compaction_notice([]) == ""


def test_sizes_that_round_to_the_same_are_reported_in_full():
    assert " 6,400 -> 5,900 tokens (-8%)" in compaction_notice([made("micro", 6_400, 5_900)])


def test_blocks_are_named_by_their_call_or_their_kind():
    world = session(1)
    labels = [ShownBlock(part, 0).label for message in world.folded.view for part in message.parts]
    assert labels == ["user", "thinking", "call of bash make part0", "bash make part0"]
    assert ShownBlock.largest(world.folded)[0].line == "bash make part0, 1,000 tokens (r4)"
    few = World()
    few.user("go")
    assert [block.line for block in ShownBlock.largest(few.folded)] == ["user, 1 token (r1.0)"]
    assert ShownBlock.largest_sentence(World(judged=False).folded) == "The conversation is empty"
    largest = ShownBlock.largest_sentence(session(1, slope=1.5).folded)
    assert largest.startswith("Largest blocks: bash make part0, 1,500")


def test_a_compaction_without_a_prediction_is_not_compared():
    world, made = compacted()
    bare = world.add(Compacted, "repair", "reactive", (), report={"reason": "x"})
    assert estimated_and_actual_cost(world.folded, bare, PriceList()) == ""
    world.reply("unmeasured", usage=Usage())
    assert estimated_and_actual_cost(world.folded, made, PriceList()).endswith("no request was sent with it")


def test_what_came_is_priced_as_the_model_is_that_was_asked():
    world, made = compacted()
    world.add(Opened, (), (), "claude-haiku-4-5", 40_000, "/p")
    world.reply("looked", usage=Usage(input=1_000, output=1))
    world.add(Opened, (), (), "claude-opus-5-5", 40_000, "/p")
    assert "actual $0.001 (1,000)" in estimated_and_actual_cost(world.folded, made, PriceList())
    own = PriceList({"claude-haiku-4-5": Prices(7.0)})
    assert "actual $0.007 (1,000)" in estimated_and_actual_cost(world.folded, made, own)


def test_a_compaction_of_what_was_never_sent_is_charged_with_nothing():
    world = session()
    world.call("bash", "x" * 4_000, command="one more")
    proposal = proposed(world, clear(world, 12))
    made = world.add(Compacted, "budget", "auto", proposal.edits, report=proposal.report)
    world.reply("looked", usage=Usage(cache_written=900, output=1))
    told = estimated_and_actual_cost(world.folded, made, PriceList())
    assert told == "estimated $0.000 (0 tokens written): it changed nothing that had been sent before"


def test_a_preview_says_how_many_messages_become_a_summary_of_which_size():
    world = session(thinks="")
    view = world.folded.view
    blocks = (TextBlock("s" * 400), TextBlock("f" * 1_200))
    fold = Fold(6, 31, blocks, 400)
    first = view.index_of(6)
    last = view.index_of(31)
    tokens = view.tokens_before(last + 1) - view.tokens_before(first)
    slope = text_slope(world.folded)
    assert _fold_preview(world.situation, fold) == (
        f"  r6 to r31 ({last - first + 1} messages, {tokens:,} tokens) become a summary of about"
        f" {100 * slope:.0f} tokens and {300 * slope:.0f} tokens of files shown again"
    )
    assert "and" not in _fold_preview(world.situation, replace(fold, blocks=blocks[:1]))


def test_the_context_is_reported_with_its_compactions_newest_first():
    world = session(thinks="")
    for exchange in range(3):
        proposal = proposed(world, clear(world, exchange))
        world.add(Compacted, "micro", "auto", proposal.edits, report=proposal.report)
    world.undo()
    made = world.folded.compactions
    report = ContextReport.of(world.situation, PriceList(), newest=2)
    assert [each.made for each in report.compactions] == [made[2], made[1]]
    assert [each.state == "undone" for each in report.compactions] == [True, False]
    assert all(each.cost.startswith("estimated $") for each in report.compactions) and report.earlier == 1
    assert ContextReport.of(world.situation, PriceList(), newest=5).earlier == 0
    whole = ContextReport.of(world.situation, PriceList())
    assert len(whole.compactions) == 3 and whole.earlier == 0
    assert whole.tokens == world.situation.tokens and whole.overhead == pytest.approx(1_000, rel=0.01)
    assert whole.kinds[PartKind.RESULT] == 10_000 and len(whole.kinds) == len(PartKind)
    assert whole.blocks[0].tokens == pytest.approx(1_000, rel=0.05)
    empty = World(overhead=1_000, judged=False)
    assert ContextReport.of(empty.situation, PriceList()).overhead == empty.situation.tokens == 1_000


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_compactions_that_free_little_by_themselves_are_not_announced(policy):
    thrifty = policy == "thrifty"
    for layer, before, after, announced in (
        ("micro", 30_000, 28_000, thrifty),
        ("micro", 30_000, 28_001, False),
        ("micro", 100_000, 95_000, thrifty),
        ("micro", 100_000, 95_001, False),
        ("summary", 100_000, 99_999, True),
        ("ledger", 100_000, 99_999, True),
        ("reactive", 100_000, 99_999, True),
    ):
        assert is_announced([made(layer, before, after)], policy) is announced, (layer, before, after)
    asked = replace(made("micro", 30_000, 29_999), trigger="manual")
    assert is_announced([made("micro", 30_000, 29_999), asked], policy)
    halves = [made("micro", 30_000, 29_000), made("snip", 29_000, 28_000)]
    assert is_announced(halves, policy) is thrifty


def test_batches_before_consecutive_calls_are_announced_once():
    for why, calls, announced in (
        ("price", MIN_TOLD_CALLS - 1, False),
        ("window", MIN_TOLD_CALLS - 1, False),
        ("price", 2, True),  # as in the sample project, where each frees half of the context
        ("cold cache", 1, True),
        ("ledger first", 1, True),
    ):
        before, after = (
            replace(one, report={**one.report, "why": why, "calls": at})
            for one, at in ((made("ledger", 30_000, 9_000), 7), (made("ledger", 20_000, 9_000), 7 + calls))
        )
        assert is_announced([after], "thrifty", before) is announced, (why, calls)
        assert is_announced([after], "thrifty"), "the first one"


def test_the_notice_names_what_was_shortened_or_dropped_and_why():
    def notice(layer, cost=0.0, **report):
        one = made(layer, cost=cost)
        return compaction_notice([replace(one, report={**one.report, **report})])

    start = "[auto compact] 168k -> 999 tokens (-99%): "
    end = "; undo with /uncompact"
    plain = f" without a model call{end}"
    edits = {"results": 1, "pasted": 2}
    words = "results were shortened and your longest messages were cut in the middle"
    assert notice("reactive", edits=edits) == f"{start}{words}{plain}"
    assert notice("ledger", edits={"inputs": 1}) == f"{start}tool inputs were shortened{plain}"
    assert notice("ledger", edits={"folds": 1}) == f"{start}older messages were summarized locally{plain}"
    failed = f"{start}older messages were summarized locally after the model's summary failed{end}"
    assert notice("ledger", edits={"folds": 1}, failure="the answer was empty") == failed
    assert notice("reactive") == f"{start}results were shortened{plain}"
    assert notice("drop", dropped="r4 (ls)") == f"{start}dropped r4 (ls) as c1{end}"
    assert notice("other") == f"{start}other{plain}"
    assert notice("micro", because="it is old") == f"{start}old tool output was cleared (it is old){plain}"
    cold = notice("micro", because="the cache had expired", why=COLD_RETURN)
    assert cold == f"{start}the cache had expired{end}"
    assert "costs ~$0.05 more" in notice("summary", cost=0.05) and "$" not in notice("summary", cost=0.049)
    assert "costs ~$0.07 more" in notice("summary", cost=0.2, extra_cost_usd=0.07)
    assert "(-99%)" in compaction_notice([made("micro", 9_999, 1)])
    assert "(-100%)" in compaction_notice([made("micro", 9_999, 0)])
    assert "(+10%)" in compaction_notice([made("micro", 1_000, 1_100)])
    assert "(-0%)" in compaction_notice([made("micro", 0, 0)])
    assert "999 -> 998 tokens" in compaction_notice([made("micro", 999, 998)])


def test_a_long_prompt_costs_more():
    prices = Prices(2, output=10, long=1_000)
    assert prices.for_prompt(1_000) is prices
    assert prices.for_prompt(1_001) == replace(prices, input=4, output=15)
    usage = Usage(cache_written=1_000, cache_written_hour=400, cache_read=100, input=10, output=7, searches=2)
    full_price = 10 + 0.1 * 100 + 1.25 * 600 + 2 * 400
    assert prices.plain(usage) == full_price
    assert prices.cost(usage) == pytest.approx(full_price * 2e-6 + 7 * 10e-6 + 0.02)
    assert prices.caching and not replace(prices, read=1.0).caching

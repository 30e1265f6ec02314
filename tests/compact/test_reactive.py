"""The reactive ladder: what each rung does, and when it gives way to the next."""

from compact.pipeline import REACTIVE_RUNGS
from compact.settings import CompactSettings
from tests.tables import each_row
from transcripts.facts import Clear, Fold
from transcripts.messages import ToolUseBlock

from .worlds import World, answered, failed


def session(policy="thrifty", window=20_000, calls=30):
    world = World(CompactSettings(policy=policy), window=window, judged=False)
    world.user("begin")
    for at in range(calls):
        world.call("bash", f"{at:04}" * 900, command=f"make part{at}")
    return world


def rung(world, number, *answers):
    return world.plan("reactive", *answers, rung=number)


def test_the_first_rung_clears_all_that_was_seen_in_order():
    world = session()
    (made,) = rung(world, 1).proposals
    assert (made.layer, made.trigger, made.report["rung"]) == ("reactive", "reactive", 1)
    assert [edit.seq for edit in made.edits] == [3 * at + 4 for at in range(29)]
    assert rung(world, 0).proposals == (made,)
    assert world.questions == []


def test_the_first_rung_shows_unseen_results_by_previews_where_clearing_is_not_enough():
    world = session(calls=3)
    reply = world.reply(*(ToolUseBlock(f"t{n}", "bash", {"command": "x"}) for n in range(3)))
    for n in range(3):
        world.result(reply, n, "word " * 9_000)
    (made,) = rung(world, 1).proposals
    shown = {edit.seq: edit.text for edit in made.edits}
    assert sum("Preview" in text for text in shown.values()) == 3 == len(made.files)
    assert list(shown) == sorted(shown) and made.report["after"] <= 20_000


def test_the_second_rung_takes_the_local_summary_or_asks_by_the_policy():
    world = session()
    (made,) = rung(world, 2).proposals
    assert (made.layer, made.report["why"]) == ("ledger", "rung 2") and isinstance(made.edits[0], Fold)
    assert world.questions == []
    classic = session("classic")
    (made,) = rung(classic, 2, answered()).proposals
    assert made.layer == "summary" and len(classic.questions) == 1
    plan = rung(session("classic"), 2, failed("overloaded"))
    assert [each.layer for each in plan.proposals] == ["ledger"]
    assert plan.failures == (("summary", "overloaded"),)


def test_the_third_rung_shrinks_the_newest_messages_alone():
    world = session(calls=3, window=6_500)
    world.user("paste " * 4_000)
    (made,) = rung(world, 3).proposals
    assert made.report["rung"] == 3
    assert {type(edit) for edit in made.edits} == {Clear} and made.edits[-1].seq == world.folded.last_seq
    assert made.edits[0].seq >= world.folded.view[-5].first


def test_a_rung_that_does_not_make_it_fit_gives_way_to_the_next():
    world = World(window=6_000, judged=False)
    world.user("begin")
    for at in range(60):
        world.reply(f"words {at} " * 200)  # nothing to clear, only to fold
        world.user("go on", source="harness")
    (made,) = rung(world, 1).proposals
    assert made.layer == "ledger"


@each_row("number", range(1, REACTIVE_RUNGS + 1))
def test_where_nothing_helps_the_biggest_blocks_are_named(number):
    world = World(window=50, judged=False)
    world.user("begin")
    world.reply("words " * 2_000)
    plan = rung(world, number)
    assert plan.proposals == ()
    named = "Largest blocks: assistant, 3,000 tokens (r3.0)"
    assert plan.note.startswith(f"nothing more can be cleared. {named}")


def test_beyond_the_last_rung_nothing_is_left_to_do():
    assert rung(session(), REACTIVE_RUNGS + 1).proposals == ()
    assert rung(World(judged=False), 1).note == "nothing more can be cleared. The conversation is empty"


@each_row("window", [8_000, 9_000, 10_000, 32_000])
@each_row("newest", [100, 4_000])
def test_compact_never_refuses_where_nothing_else_continues(window, newest):
    """While automatic compaction is off, a window that is as good as full lets only /compact through."""
    world = World(CompactSettings(policy="off"), window=window)
    world.user("begin")
    while world.situation.tokens < 0.95 * window - newest:
        world.call("read", "some line " * 60, file_path=f"f{world.folded.last_seq}.py")
    while world.situation.tokens < 0.98 * window:
        world.call("bash", "last " * newest, command="make")
    answer = failed("too long: prompt is too long", too_long=True)
    world.compact("manual", answer)
    assert world.window.percent(world.situation.tokens) < 95

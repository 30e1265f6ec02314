"""Undoing: which compaction, what it gives back, what it costs, and what is exempt from then on."""

import sys

import pytest
from msgspec.structs import replace

from compact.clearing import PLACEHOLDER_TOKENS
from compact.settings import ContextWindow
from compact.situation import CannotChange
from compact.uncompact import Evicted, Exemptions, UndoPlan, exemptions, in_force, plan_undo
from tests.narrowing import narrow
from transcripts.facts import Clear, Compacted, Fold, Undone, User
from transcripts.messages import ImageBlock, TextBlock, ToolUseBlock

from .worlds import World


def session():
    """1 prompt, then six exchanges of 1,000 tokens: replies 3, 6, ..., results 4, 7, ..."""
    world = World(window=40_000, judged=False)
    world.user("begin")
    for at in range(6):
        world.call("bash", "x" * 4_000, command=f"make part{at}")
    return world


def clear(world, *seqs, layer="micro"):
    edits = tuple(Clear(seq, 0, "content", "[cleared]", 990) for seq in seqs)
    return world.add(Compacted, layer, "auto", edits, report={})


def fold(world, first, last):
    return world.add(Compacted, "summary", "auto", (Fold(first, last, (TextBlock("record"),), 2),), report={})


def reason(world, id=""):
    return narrow(plan_undo(world.situation, id), CannotChange).reason


def undo_plan(world, id):
    return narrow(plan_undo(world.situation, id), UndoPlan)


def test_the_newest_in_force_is_undone_where_none_is_named():
    world = session()
    assert reason(world) == "cannot undo: no compaction is in effect"
    first, second = clear(world, 4), clear(world, 7)
    assert undo_plan(world, "").id == second.id
    world.undo()
    assert undo_plan(world, "").id == first.id
    assert in_force(world.folded) == [first]


def test_summaries_of_the_same_messages_are_listed_once_in_a_time_that_does_not_multiply():
    world = World(judged=False)
    for number in range(40):
        world.call("bash", f"{number}", command=f"make part{number}")

    def calls_to_list() -> int:
        count = 0

        def note(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            listed = Evicted.all_of(world.folded)
        finally:
            sys.setprofile(None)
        assert {each.by for each in listed} == {world.folded.compactions[-1].id}
        return count

    fold(world, 1, world.folded.last_seq)
    once = calls_to_list()
    for _ in range(5):
        fold(world, 1, world.folded.last_seq)
    assert calls_to_list() < 1.5 * once


def test_what_left_is_listed_by_what_the_user_typed():
    world = World(window=40_000, judged=False)
    world.user("<hook>\nhook day\n</hook>", "<surroundings>\nmain\n</surroundings>", "paint it green")
    fold(world, 1, 1)
    assert [each.what for each in Evicted.all_of(world.folded)] == ["user: paint it green"]


def test_an_id_that_cannot_be_undone_is_reported_with_those_that_can():
    world = session()
    made = [clear(world, 4) for _ in range(7)]
    world.undo(made[0].id)
    assert (
        reason(world, made[0].id)
        == f"cannot undo {made[0].id}: it was already undone (r{world.folded.last_seq})"
    )
    listed = ", ".join(each.id for each in made[-5:])
    assert reason(world, "c999") == f"cannot undo c999: no such compaction is in effect (in effect: {listed})"
    for each in made[1:]:
        world.undo(each.id)
    assert reason(world, "c999").endswith("(in effect: none)")


def test_the_message_reports_the_layer_and_the_sizes():
    world = session()
    made = clear(world, 4)
    before, planned = world.situation.tokens, plan_undo(world.situation, made.id)
    world.undo(made.id)
    message = f"undid {made.id} (results cleared): {before:,} -> {world.situation.tokens:,} tokens"
    assert planned == UndoPlan(made.id, (), message)
    dropped = clear(world, 7, layer="unthink")
    assert "(thinking dropped): " in undo_plan(world, dropped.id).message


@pytest.mark.parametrize(("room", "refused"), [(0, False), (1, True)])
def test_what_would_not_fit_is_refused_with_the_number(room, refused):
    world = session()
    made = clear(world, 4)
    message = undo_plan(world, made.id).message
    after = int(message.split()[-2].replace(",", ""))
    situation = replace(world.situation, window=ContextWindow(after - room))
    found = plan_undo(situation, made.id)
    assert isinstance(found, CannotChange) is refused
    if isinstance(found, CannotChange):
        assert f"would have {after:,} tokens, 1 more than the context window of {after - 1:,}" in found.reason


def test_within_a_wider_one_the_undoing_takes_effect_later():
    world = session()
    inner, same, other = clear(world, 4), fold(world, 1, 7), clear(world, 13)
    wider = fold(world, 1, 10)
    message = f"nothing changes yet: {inner.id} (results cleared) is covered by the later {same.id}"
    assert undo_plan(world, inner.id).message.startswith(message)
    assert f"covered by the later {wider.id}" in undo_plan(world, same.id).message
    assert "within" not in undo_plan(world, other.id).message
    assert "within" not in undo_plan(world, wider.id).message
    tokens = world.situation.tokens
    world.undo(inner.id)
    assert world.situation.tokens == tokens


def test_within_two_later_ones_both_are_named():
    world = session()
    inner = clear(world, 4, 13)
    first, second = fold(world, 1, 7), fold(world, 8, 13)
    steps = f"so the undo only takes effect after /uncompact {first.id} and /uncompact {second.id}"
    assert undo_plan(world, inner.id).message.endswith(steps)
    world.undo(second.id)
    assert "within" not in undo_plan(world, inner.id).message


def test_an_undo_that_could_never_show_anything_is_refused():
    world = session()
    whole = world.situation.tokens
    inner, wider = clear(world, 4), fold(world, 1, 10)
    situation = replace(world.situation, window=ContextWindow(whole - 1))
    found = narrow(plan_undo(situation, inner.id), CannotChange)
    assert found.reason.startswith(
        f"cannot undo {inner.id}: it is covered by the later {wider.id}, and without"
    )
    assert f"{whole:,} tokens, 1 more" in found.reason


def test_what_was_undone_is_exempt_piece_by_piece_and_stretch_by_stretch():
    world = session()
    clear(world, 4)
    assert exemptions(world.situation) == Exemptions()
    world.undo()
    made = exemptions(world.situation)
    assert made.holds(4, 0, "content") and not made.holds(4, 0, "text") and not made.holds(7, 0, "content")
    fold(world, 6, 10)
    world.undo()
    made = exemptions(world.situation)
    assert made.ranges == ((6, 10),)
    assert made.holds(6, 0, "x") and made.holds(10, 0, "x") and not made.holds(5, 0, "x")
    assert made.within(1, 6) and made.within(10, 99) and not made.within(1, 5) and not made.within(11, 99)


def test_a_stretch_that_is_folded_again_as_wide_is_exempt_no_more():
    world = session()
    fold(world, 1, 7)
    world.undo()
    narrower = fold(world, 1, 4)
    assert exemptions(world.situation).ranges == ((1, 7),)
    world.undo(narrower.id)
    fold(world, 1, 10)
    assert (1, 7) not in exemptions(world.situation).ranges


@pytest.mark.parametrize(("percent", "exempt"), [(94.9, True), (95.1, False)])
def test_nothing_is_exempt_where_the_window_leaves_no_choice(percent, exempt):
    world = session()
    clear(world, 4)
    world.undo()
    situation = replace(world.situation, window=ContextWindow(int(100 * world.situation.tokens / percent)))
    assert (exemptions(situation) != Exemptions()) is exempt


def test_what_left_the_context_is_listed_newest_compaction_first_largest_first():
    world = session()
    older = clear(world, 4, 7)
    world.add(
        Compacted,
        "micro",
        "auto",
        (Clear(9, 0, "command", "x", 5), Clear(10, 0, "content", "x", 900)),
        report={},
    )
    newer = world.folded.compactions[-1]
    listed = [(each.id, each.tokens, each.by) for each in Evicted.all_of(world.folded)]
    assert listed == [
        ("r10", 1_000, newer.id),
        ("r9.0", 5 + PLACEHOLDER_TOKENS, newer.id),
        ("r4", 1_000, older.id),
        ("r7", 1_000, older.id),
    ]
    assert Evicted.all_of(world.folded)[0].what == "bash make part2"
    world.undo(newer.id)
    assert {each.by for each in Evicted.all_of(world.folded)} == {older.id}


def test_blocks_that_left_are_labelled_by_their_own_text_and_listed_once():
    world = World(judged=False)
    world.user("a log", "a trace")
    world.reply("seen")
    cut = tuple(Clear(1, block, "content", "[cleared]", 5) for block in (0, 1))
    world.add(Compacted, "micro", "auto", cut, report={})
    assert [(each.id, each.what) for each in Evicted.all_of(world.folded)] == [
        ("r1.0", "user: a log"),
        ("r1.1", "user: a trace"),
    ]
    sizes = [each.tokens for each in Evicted.all_of(world.folded)]
    assert sizes == list(narrow(world.folded.facts[0], User).tokens), (
        "what was there before, not what the edit saved"
    )
    fold(world, 1, world.folded.last_seq)
    assert [each.id for each in Evicted.all_of(world.folded)] == ["r1", "r3"]


def test_what_a_fold_left_out_is_listed_fact_by_fact_under_its_first_words():
    world = World(judged=False)
    world.user("do  this\nnow " + "x" * 100, ImageBlock("image/png", ""))
    reply = world.reply(ToolUseBlock("t", "bash", {"command": "ls"}))
    world.result(reply, 0, "ok")
    world.reply("said this")
    made = fold(world, 1, world.folded.last_seq)
    assert [
        (each.id, each.what, each.by)
        for each in sorted(Evicted.all_of(world.folded), key=lambda e: int(e.id[1:]))
    ] == [
        ("r1", ("user: do this now " + "x" * 100)[: 6 + 59] + "\u2026", made.id),
        ("r3", "assistant: bash ls", made.id),
        ("r4", "bash ls", made.id),
        ("r6", "assistant: said this", made.id),
    ]
    assert isinstance(world.add(Undone, made.id, ()), Undone) and Evicted.all_of(world.folded) == []

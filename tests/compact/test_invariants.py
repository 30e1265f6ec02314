"""Edits drop the thinking that they make unusable, and what the API would refuse is found."""

from compact.invariants import (
    changed_span,
    dropped_by_undo,
    newest_reply,
    open_turn,
    problems,
    with_dropped_thinking,
)
from tests.tables import each_row
from transcripts.facts import Clear, Compacted, Fold, Unthink
from transcripts.messages import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from transcripts.view import Message, Part, PartKind, View

from .worlds import World


def message(role, *blocks):
    return Message(role, tuple(Part(b, 1, i, PartKind.USER, 1) for i, b in enumerate(blocks)), 1, 1)


def use(ident="t1"):
    return ToolUseBlock(ident, "f", {})


def result(ident="t1"):
    return ToolResultBlock(ident, (TextBlock("ok"),))


USER, CALL, ANSWER = message("user", TextBlock("hi")), message("assistant", use()), message("user", result())
SOUND = [USER, CALL, ANSWER]


def test_a_sound_request_has_no_problems():
    assert problems(SOUND) == []


@each_row(
    ("messages", "fault"),
    [
        ([CALL, ANSWER], "not the user's"),
        ([USER, CALL], "last message"),
        ([USER, USER], "same role as the message before"),
        ([USER, CALL, USER], "but the calls are"),
        ([USER, message("assistant", TextBlock("a")), ANSWER], "it has results for"),
        ([USER, message("assistant", use(), use("t2")), ANSWER], "but the calls are"),
        ([*SOUND, CALL, ANSWER], "used 2 times"),
        ([USER, CALL, message("user", TextBlock("x"), result())], "after other content"),
        ([message("user", TextBlock(" "))], "empty text"),
        ([message("user")], "without content"),
        ([USER, message("assistant", ThinkingBlock("x", "s")), USER], "nothing but thinking"),
        ([USER, message("assistant", ThinkingBlock("x", ""), TextBlock("a")), USER], "without its signature"),
        ([message("user", use())], "call by the user"),
        ([USER, message("assistant", result()), USER], "message 1: a result of the assistant"),
        ([message("user", ThinkingBlock("x", "s"))], "message 0: thinking of the user"),
        ([USER, CALL, message("user", ToolResultBlock("t1", ()))], "result without content"),
    ],
)
def test_each_fault_is_found(messages, fault):
    assert any(fault in found for found in problems(messages))


def test_thinking_with_an_answer_is_sound():
    assert problems([USER, message("assistant", ThinkingBlock("x", "s"), TextBlock("a")), USER]) == []


def test_every_fault_is_reported_with_its_message():
    again = [*SOUND, CALL, ANSWER]
    assert problems(again) == ["tool id t1 is used 2 times"]
    assert problems([*SOUND, message("assistant", use("t2")), message("user", result("t2"))]) == []
    assert problems([USER, CALL, USER]) == ["message 2: it has results for [], but the calls are ['t1']"]


def thinking_session():
    """Two turns of thinking replies: 1 prompt, 3 reply, 4 result, 6 reply, 7 prompt, 9 reply, 10 result."""
    world = World(judged=False)
    world.user("one")
    world.call("bash", "word " * 200, thinks="hm", command="a")
    world.reply(ThinkingBlock("hm", "s"), TextBlock("done"))
    world.user("two")
    world.call("bash", "word " * 200, thinks="hm", command="b")
    return world


@each_row(
    ("edit", "dropped"),
    [
        (
            Clear(4, 0, "content", "x"),
            Unthink(4, 9),
        ),  # a result stands where its call does: from the next reply on
        (Clear(3, 1, "command", "x"), Unthink(3, 9)),
        (Clear(10, 0, "content", "x"), None),
        (Clear(1, 0, "text", "x"), Unthink(1, 9)),
        (Fold(1, 6, ()), Unthink(1, 9)),
    ],
)
def test_where_thinking_is_bound_an_edit_drops_what_follows_it(edit, dropped):
    folded = thinking_session().folded
    assert with_dropped_thinking(folded, (edit,), True) == ((edit, dropped) if dropped else (edit,))


def test_of_several_edits_the_earliest_counts_and_an_edit_of_the_newest_reply_drops_its_own_thinking():
    folded = thinking_session().folded
    early, late = Clear(4, 0, "content", "x"), Clear(9, 1, "command", "x")
    for edits in ((early, late), (late, early)):
        assert with_dropped_thinking(folded, edits, True) == (*edits, Unthink(4, 9))
    assert with_dropped_thinking(folded, (late,), True) == (late, Unthink(7, 9))


def test_thinking_in_front_of_an_edit_stays_and_a_finished_turn_may_lose_a_part_of_it():
    world = thinking_session()
    world.user("three")
    assert open_turn(world.folded) == 11 and newest_reply(world.folded) == 9
    late = Clear(9, 1, "command", "x")
    assert with_dropped_thinking(world.folded, (late,), True) == (late, Unthink(9, 9))
    reply = world.reply(TextBlock("no thought"))
    edit = Clear(11, 0, "text", "x")
    assert newest_reply(world.folded) == reply.seq
    assert with_dropped_thinking(world.folded, (edit,), True) == (edit,)


def test_a_late_result_stands_where_its_call_does():
    world = World(judged=False)
    world.user("one")
    uses = (ThinkingBlock("hm", "s"), use("t1"), use("t2"))
    reply = world.reply(*uses)
    world.result(reply, 1, "first")
    second = world.result(reply, 2, "second")
    edit = Clear(second.seq, 0, "content", "x")
    world.reply(ThinkingBlock("hm", "s"), TextBlock("done"))
    newest = newest_reply(world.folded)
    world.user("two")
    assert with_dropped_thinking(world.folded, (edit,), True) == (edit, Unthink(reply.seq + 1, newest))


def test_a_fact_is_found_by_its_number_or_there_is_none():
    world = World(judged=False)
    assert world.folded.fact_at(1) is None and open_turn(world.folded) == newest_reply(world.folded) == 0
    first = world.user("one")
    world.folded.last_seq = 4  # the facts 2 to 4 are missing
    last = world.user("two")
    assert [world.folded.fact_at(seq) for seq in (0, 1, 3, 5, 6)] == [None, first, None, last, None]


def test_of_the_open_turn_all_thinking_goes_or_none():
    world = thinking_session()
    world.reply(ThinkingBlock("hm", "s"), TextBlock("more"))
    edit = Clear(10, 0, "content", "x")
    assert with_dropped_thinking(world.folded, (edit,), True) == (edit, Unthink(7, 12))


def test_where_thinking_is_not_bound_only_a_fold_into_the_open_turn_drops_it():
    folded = thinking_session().folded
    for edit in (Clear(4, 0, "content", "x"), Fold(1, 7, ())):
        assert with_dropped_thinking(folded, (edit,), False) == (edit,)
    assert with_dropped_thinking(folded, (Fold(1, 9, ()),), False) == (Fold(1, 9, ()), Unthink(1, 9))


def test_without_thinking_nothing_is_dropped():
    world = World(judged=False)
    world.user("one")
    world.call("bash", "x", command="a")
    assert with_dropped_thinking(world.folded, (Fold(1, 3, ()),), True) == (Fold(1, 3, ()),)


def test_undoing_drops_what_was_thought_under_a_compaction():
    world = thinking_session()
    made = world.add(Compacted, "micro", "auto", (Clear(4, 0, "content", "x"),))
    assert dropped_by_undo(world.folded, made, True) == ()
    world.reply(ThinkingBlock("hm", "s"), TextBlock("more"))
    wider = world.add(Compacted, "summary", "auto", ())
    world.reply(ThinkingBlock("hm", "s"), TextBlock("more"))
    assert dropped_by_undo(world.folded, made, True) == (Unthink(7, 16),)
    assert dropped_by_undo(world.folded, made, True, wider.seq) == (Unthink(7, wider.seq),)
    assert dropped_by_undo(world.folded, made, False) == ()
    fold = world.add(Compacted, "summary", "auto", (Fold(1, 10, ()),))
    assert dropped_by_undo(world.folded, fold, False) == (Unthink(7, 16),)
    assert dropped_by_undo(world.folded, fold, False, 99) == ()
    earlier = world.add(Compacted, "summary", "auto", (Fold(1, 7, ()),))
    assert dropped_by_undo(world.folded, earlier, False) == (), "it ends where the open turn begins"
    both = world.add(Compacted, "summary", "auto", (Fold(1, 7, ()), Fold(8, 10, ())))
    assert dropped_by_undo(world.folded, both, False) == (Unthink(7, 16),)


def test_the_span_that_edits_change_leaves_thinking_aside():
    assert changed_span((Unthink(1, 9),)) is None and changed_span(()) is None
    assert changed_span(
        (Unthink(1, 99), Clear(5, 0, "content", ""), Fold(7, 20, ()), Clear(9, 0, "x", ""))
    ) == (5, 20)


def test_a_request_ends_with_the_user():
    for messages, sent in (
        ([USER, CALL], [USER]),
        ([USER, CALL, ANSWER], [USER, CALL, ANSWER]),
        ([CALL], []),
    ):
        view = View()
        view.extend(messages)
        assert view.sendable() == sent

"""An answer that was cut off and continued is one text for everything that shows the answer."""

from __future__ import annotations

from transcripts.answers import Answer, answers_of, joined_pieces, newest_answer
from transcripts.facts import Fact, Reply, Result, User
from transcripts.messages import ChannelBlock, TextBlock, ToolUseBlock


def reply(seq: int, text: str, stop: str = "end_turn", call: bool = False) -> Reply:
    blocks = (TextBlock(text), *((ToolUseBlock("t", "read", {}),) if call else ()))
    return Reply(seq, 0.0, blocks, stop=stop)


def user(seq: int) -> User:
    return User(seq, 0.0, (TextBlock("go"),))


def harness(seq: int) -> User:
    return User(seq, 0.0, (ChannelBlock("Continue."),), source="harness")


def test_pieces_of_an_answer_are_joined_and_other_answers_are_not() -> None:
    facts: list[Fact] = [
        user(1),
        reply(2, "looking", call=True),
        Result(3, 0.0, of=2, block=1, content=(TextBlock("x"),)),
        reply(4, "One, tw", "max_tokens"),
        harness(5),
        reply(6, "o, thr", "model_context_window_exceeded"),
        harness(7),
        reply(8, "ee."),
        harness(9),
        reply(10, "After a hook."),
        user(11),
        reply(12, "cut", "max_tokens"),
        user(13),
        reply(14, "Another."),
    ]
    assert [answer.text for answer in answers_of(facts)] == [
        "looking",
        "One, two, three.",
        "After a hook.",
        "cut",
        "Another.",
    ]
    assert newest_answer(facts[:8]) == Answer((4, 6, 8), "One, two, three.")
    assert newest_answer(facts, since=14) == Answer((), "")


def test_an_unfinished_reply_is_replaced_by_the_next_attempt_and_not_a_piece() -> None:
    cut = reply(2, "One, ", "max_tokens")
    unfinished = Reply(4, 0.0, (TextBlock("tw"),), complete=False)
    facts: list[Fact] = [user(1), cut, harness(3), unfinished, reply(5, "two.")]
    assert answers_of(facts) == [Answer((2, 5), "One, two.")]
    assert answers_of(facts[:4]) == [Answer((2, 4), "One, tw")]
    assert answers_of([unfinished, user(5), reply(6, "x")]) == [Answer((4,), "tw"), Answer((6,), "x")]
    assert answers_of([unfinished, reply(5, "", call=True)]) == []


def test_a_call_that_was_cut_off_is_not_continued_as_text() -> None:
    facts: list[Fact] = [
        reply(1, "I write the file.", "max_tokens", call=True),
        Result(2, 0.0, of=1, block=1, content=(TextBlock("cut"),)),
        reply(3, "Done."),
    ]
    assert newest_answer(facts).text == "Done."


def test_a_piece_that_repeats_the_end_of_the_last_one_is_joined_without_it() -> None:
    end = "the end of this first piece"
    assert joined_pieces([f"This is {end}", f"{end} and the rest"]) == f"This is {end} and the rest"
    assert joined_pieces(["on a", "a b", "a b"]) == "on aa b"
    for size, is_repetition in ((23, False), (24, True), (400, True), (401, False)):
        words = "".join(chr(0x4E00 + number) for number in range(size))
        joined = joined_pieces([f"first {words}", f"{words} last"])
        assert joined == f"first {words}{'' if is_repetition else words} last", size

"""The second check of a request finds what the API would refuse, also in what changed since the last one."""

import pytest

from agent.replay.grammar import Grammar
from transcripts.messages import TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from transcripts.view import Message, Part, PartKind


def message(role, *blocks):
    return Message(role, tuple(Part(b, 1, i, PartKind.USER, 1) for i, b in enumerate(blocks)), 1, 1)


def use(ident="t1"):
    return ToolUseBlock(ident, "f", {})


def result(ident="t1"):
    return ToolResultBlock(ident, (TextBlock("ok"),))


USER, CALL, ANSWER = message("user", TextBlock("hi")), message("assistant", use()), message("user", result())
SOUND = [USER, CALL, ANSWER]


def test_a_sound_request_has_no_problems():
    assert Grammar().problems(SOUND, 0) == []


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([CALL, ANSWER], "not the user's"),
        ([USER, CALL], "last message"),
        ([USER, USER], "role of the one before"),
        ([USER, CALL, USER], "asked were"),
        ([USER, message("assistant", TextBlock("a")), ANSWER], "answers"),
        ([USER, message("assistant", use(), use("t2")), ANSWER], "asked were"),
        ([*SOUND, CALL, ANSWER], "used 2 times"),
        ([USER, CALL, message("user", TextBlock("x"), result())], "behind other content"),
        ([message("user", TextBlock(" "))], "empty text"),
        ([message("user")], "without content"),
        ([USER, message("assistant", ThinkingBlock("x", "s")), USER], "thinking alone"),
        ([USER, message("assistant", ThinkingBlock("x", ""), TextBlock("a")), USER], "without its signature"),
        ([message("user", use())], "call by the user"),
        ([USER, CALL, message("user", ToolResultBlock("t1", ()))], "result without content"),
    ],
)
def test_each_fault_is_found(messages, fault):
    assert any(fault in found for found in Grammar().problems(messages, 0))


def test_only_what_changed_is_looked_at_and_a_fault_goes_away_when_it_is_mended():
    grammar = Grammar()
    assert grammar.problems(SOUND, 0) == []
    again = [*SOUND, CALL, ANSWER]
    assert grammar.problems(again, 3) == ["tool id t1 is used 2 times"]
    mended = [*SOUND, message("assistant", use("t2")), message("user", result("t2"))]
    assert grammar.problems(mended, 3) == []

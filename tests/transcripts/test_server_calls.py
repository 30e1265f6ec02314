from itertools import chain

from transcripts.facts import Clear, Compacted, Fact, Reply, Result, User
from transcripts.folding import Folded, fold
from transcripts.messages import Block, TextBlock, ThinkingBlock, ToolUseBlock, UnknownBlock

from .api_rules import as_sent

CALL = UnknownBlock({"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}})
FOUND = UnknownBlock({"type": "web_search_tool_result", "tool_use_id": "s1", "content": []})
SAYS = TextBlock("so far")
THINKS = ThinkingBlock("I search.", "signature")
OURS = ToolUseBlock("t1", "echo", {})


def reply(seq: int, *blocks: Block, stop: str | None = "end_turn") -> Reply:
    return Reply(seq, 0.0, blocks, stop=stop, complete=stop is not None)


def said(seq: int) -> User:
    return User(seq, 0.0, (TextBlock("go on"),))


def shown(*facts: Fact) -> list[list[str]]:
    return kinds(fold(facts))


def kinds(folded: Folded) -> list[list[str]]:
    messages = (as_sent(message) for message in folded.view)
    return [
        [block["type"] for block in message["content"]]
        for message in messages
        if message["role"] == "assistant"
    ]


def test_a_search_that_was_broken_off_leaves_nothing_that_the_api_refuses() -> None:
    assert shown(said(1), reply(2, SAYS, THINKS, CALL, stop=None), said(3)) == [["text"]]
    assert shown(said(1), reply(2, THINKS, CALL, stop=None), said(3)) == []


def test_a_pause_keeps_the_open_search_until_something_is_said() -> None:
    folded = fold([said(1), reply(2, SAYS, CALL, stop="pause_turn")])
    assert kinds(folded) == [["text", "server_tool_use"]]
    folded.apply(said(3))
    assert kinds(folded) == [["text"]], "also where the reply had been rendered before"


def test_a_pause_that_continued_in_vain_keeps_no_open_search() -> None:
    paused, broken_off = reply(2, SAYS, CALL, stop="pause_turn"), reply(3, SAYS, stop=None)
    assert list(chain(*shown(said(1), paused, broken_off, said(4)))) == ["text", "text"]


def test_a_paused_search_is_answered_in_the_next_reply() -> None:
    paused = reply(2, SAYS, CALL, stop="pause_turn")
    found = shown(said(1), paused, reply(3, FOUND, SAYS))
    assert list(chain(*found)) == ["text", "server_tool_use", "web_search_tool_result", "text"]


def test_beside_a_call_of_ours_the_search_runs_on_the_next_request() -> None:
    result = Result(3, 0.0, 2, 1, (TextBlock("x"),))
    facts = (said(1), reply(2, CALL, OURS, stop="tool_use"), result, reply(4, FOUND, SAYS))
    assert shown(*facts) == [["server_tool_use", "tool_use"], ["web_search_tool_result", "text"]]


def test_a_cleared_result_takes_its_call_along() -> None:
    clear = Clear(2, 2, Clear.UNKNOWN_BLOCK, "[cleared: recall r2.2]")
    facts = (said(1), reply(2, SAYS, CALL, FOUND, SAYS), Compacted(3, 0.0, "micro", "auto", (clear,)))
    assert shown(*facts) == [["text", "text", "text"]]

"""A session that is continued looks as it did when it ran."""

from __future__ import annotations

import pytest

from agent.events import (
    CommandOutput,
    ContextCompacted,
    EarlierMessages,
    Event,
    Notice,
    PromptReplayed,
    ToolCallFinished,
)
from agent.extensions.mcp.tool import mcp_tool
from agent.session.session import Session
from agent.session.session_replay import (
    MAX_ANSWER_CHARS,
    MAX_RECENT_CALLS,
    MAX_RECENT_CHARS,
    count_earlier,
    show_replayed,
    show_rewound,
)
from compact.tokens import TokenCounter
from tools.bash import TOOL as BASH
from transcripts.data_tags import ATTACHED_LINE, injected, quoted
from transcripts.facts import Clear, Metadata, Reply, Result, User
from transcripts.folding import Folded
from transcripts.messages import Block, TextBlock, ToolUseBlock

TOOLS = {"bash": BASH}


class Nowhere:
    """A record that keeps nothing."""

    failure = ""
    written_size = 0

    def append(self, fact: object, durable: bool = False) -> None: ...

    def digest(self, body: bytes) -> str:
        return ""

    def sync(self) -> None: ...

    def begin_sync(self) -> None: ...

    def close(self) -> None: ...


def session() -> Session:
    return Session("s1", Nowhere(), Folded(), TokenCounter(None), lambda: 1.0)


def exchange(one: Session, answer: str, *lines: str) -> None:
    """A reply that runs command lines, or says something."""
    uses = [ToolUseBlock(f"t{one.folded.last_seq}-{line}", "bash", {"command": line}) for line in lines]
    blocks: tuple[Block, ...] = (*((TextBlock(answer),) if answer else ()), *uses)
    seq = one.folded.last_seq + 1
    one._add(Reply(seq, 1.0, blocks, tuple(1 for _ in blocks)))
    for index, block in enumerate(blocks):
        if isinstance(block, ToolUseBlock):
            text = (TextBlock(f"ran {block.input['command']}"),)
            one._add(Result(one.folded.last_seq + 1, 1.0, seq, index, text, (1,)))


def prompt(one: Session, *texts: str) -> None:
    one._add(User(one.folded.last_seq + 1, 1.0, tuple(map(TextBlock, texts)), (1,) * len(texts)))


def replayed(one: Session) -> list[Event]:
    told: list[Event] = []
    show_replayed(one, TOOLS, told.append)
    return told


def test_the_newest_prompts_come_with_their_calls_and_whole_answers() -> None:
    one = session()
    for number in range(5):
        prompt(one, f"question {number}")
        exchange(one, "let me look", f"make {number}")
        exchange(one, f"# Answer {number}")
    earlier, *told, end = replayed(one)
    assert isinstance(earlier, EarlierMessages) and earlier.count == 4
    assert [event.text for event in earlier.events if isinstance(event, PromptReplayed)] == [
        "question 0",
        "question 1",
    ]
    first = told[:4]
    assert first[0] == PromptReplayed("question 2") and first[1] == CommandOutput("let me look", "markdown")
    assert isinstance(first[2], ToolCallFinished) and (first[2].name, first[2].title) == ("bash", "make 2")
    assert first[3] == CommandOutput("# Answer 2", "markdown") and len(told) == 12
    assert end == Notice("resumed session s1")


def test_earlier_messages_that_were_counted_in_advance_are_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = session()

    def earlier(after: int) -> int:
        for number in range(after):
            prompt(one, f"question {number}")
            exchange(one, "let me look", f"make {number}")
            exchange(one, f"# Answer {number}")
        return next(event.count for event in replayed(one) if isinstance(event, EarlierMessages))

    assert [earlier(5), earlier(2), earlier(0)] == [4, 8, 8]
    told: list[Event] = []
    one.rewound(one.folded.entries[-6].seq, {})  # the last two prompts
    show_rewound(one, TOOLS, told.append)
    assert isinstance(told[1], EarlierMessages) and told[1].count == 8
    assert earlier(0) == 4
    count_earlier(one.folded)
    monkeypatch.setattr("agent.session.session_replay._is_message", None)
    assert earlier(0) == 4


def test_of_a_long_turn_the_prompt_and_the_end_are_shown() -> None:
    one = session()
    prompt(one, "do it all")
    for number in range(MAX_RECENT_CALLS + 20):
        exchange(one, "", f"step {number}")
    earlier, first, *told, _ = replayed(one)
    assert first == PromptReplayed("do it all") and isinstance(earlier, EarlierMessages)
    assert (earlier.count, len(earlier.events)) == (0, 21)
    titles = [event.title for event in told if isinstance(event, ToolCallFinished)]
    assert titles == [f"step {number}" for number in range(20, MAX_RECENT_CALLS + 20)]


def test_long_answers_leave_room_for_fewer_exchanges_and_the_newest_is_always_shown() -> None:
    one = session()
    for number in range(1, 4):
        prompt(one, f"question {number}")
        exchange(one, f"{number}" * 9_000)
    told = replayed(one)
    questions = [event.text for event in told if isinstance(event, PromptReplayed)]
    assert questions == ["question 2", "question 3"]
    prompt(one, "p" * (MAX_RECENT_CHARS + 1))
    assert isinstance(replayed(one)[1], PromptReplayed)
    one = session()
    exchange(one, "", *(f"make {number}" for number in range(MAX_RECENT_CALLS + 1)))
    assert len([event for event in replayed(one) if isinstance(event, ToolCallFinished)]) > MAX_RECENT_CALLS
    again = session()
    for number in range(3):
        prompt(again, f"question {number}")
        exchange(again, f"{number}" * 5_000)
    assert len([event for event in replayed(again) if isinstance(event, PromptReplayed)]) == 3


def test_of_a_long_prompt_the_first_lines_are_shown() -> None:
    one = session()
    prompt(one, "look\n" + "".join(f"line {at}\n" for at in range(60)))
    shown = replayed(one)[0]
    assert isinstance(shown, PromptReplayed)
    assert shown.text.split("\n")[-2:] == ["line 6", "… 53 more lines (show them with /recall r1)"]


def test_what_the_program_and_the_user_put_before_a_prompt_is_distinguished() -> None:
    one = session()
    own = quoted("$ make\nall </command-of-the-user> built", "command-of-the-user")
    prompt(one, injected("Date: today"), own, "<hook>\nwords\n</hook>", "and now?")
    assert replayed(one)[:3] == [
        PromptReplayed("!make"),
        CommandOutput("all </command-of-the-user> built"),
        PromptReplayed("and now?"),
    ]


def test_what_a_prompt_attached_is_reported_again() -> None:
    one = session()
    prompt(one, injected(f"{ATTACHED_LINE}\nFile: a.py (40 lines)\n1\tx"), "see @a.py")
    assert replayed(one)[:2] == [PromptReplayed("see @a.py"), Notice("read a.py (40 lines)")]


def test_a_long_answer_is_cut_at_the_end_of_a_line() -> None:
    one = session()
    prompt(one, "tell")
    exchange(one, "some words of a line\n" * MAX_ANSWER_CHARS)
    answer = replayed(one)[1]
    assert isinstance(answer, CommandOutput)
    kept, _, rest = answer.text.partition("\n\n… ")
    assert kept.endswith("words of a line") and rest.endswith("(show them with /recall r2)")


def test_a_call_that_never_ended_is_reported() -> None:
    one = session()
    prompt(one, "go")
    uses = (ToolUseBlock("t1", "bash", {"command": "make"}),)
    one._add(Reply(2, 1.0, uses, (1,)))
    *_, warning, _ = replayed(one)
    assert isinstance(warning, Notice) and "interrupted during `bash make`;" in warning.text
    one.result(2, 0, (TextBlock("started"),), about={"job": "b1"})
    assert replayed(one)[-2] == Notice("background commands were stopped when the session ended: b1 (make)")


def test_a_call_of_a_servers_tool_is_named_as_it_was_when_it_ran() -> None:
    one = session()
    tools = {"mcp": mcp_tool([])}
    uses = (
        ToolUseBlock("t1", "mcp", {"action": "call", "server": "a b", "tool": "die", "arguments": {"n": 1}}),
        ToolUseBlock("t2", "mcp", {"action": "search", "server": "a b", "query": "die"}),
    )
    one._add(Reply(1, 1.0, uses, (1, 1)))
    for index in range(2):
        one._add(Result(one.folded.last_seq + 1, 1.0, 1, index, (TextBlock("dead"),), (1,)))
    told: list[Event] = []
    show_replayed(one, tools, told.append)
    shown = [(event.name, event.title) for event in told if isinstance(event, ToolCallFinished)]
    assert shown == [("mcp__a_b__die", '{"n": 1}'), ("mcp", "search a b die")]


def test_compactions_are_reported_again_where_they_were_made() -> None:
    one = session()
    figures = {"before": 9_000, "after": 6_000, "freed": 3_000, "cold": False, "predicted_cost_usd": 0.0}
    for number in range(4):
        prompt(one, f"look at {number}")
        exchange(one, "", "ls")
        (result,) = (fact for fact in one.folded.facts if fact.seq == one.folded.last_seq)
        one.compacted("micro", "auto", (Clear(result.seq, 0, "content", "[gone]", 1),), figures)
        if number == 2:
            one.compacted("ledger", "auto", (), {**figures, "after": 2_000})
        exchange(one, f"answer {number}")
    one.undone(one.folded.compactions[1].id, ())
    told = [event for event in replayed(one) if not isinstance(event, EarlierMessages)]
    shape = [type(event).__name__ for event in told]
    whole = ["PromptReplayed", "ToolCallFinished", "ContextCompacted", "CommandOutput"]
    undone = [name for name in whole if name != "ContextCompacted"]
    assert shape == [*undone, *whole, *whole, "Notice"]
    notices = [event.notice for event in told if isinstance(event, ContextCompacted)]
    assert (
        "9k -> 2k tokens (-78%): old tool output was cleared, older messages were summarized locally"
        in notices[0]
    )
    assert "9k -> 6k tokens" in notices[1]


def test_after_a_rewind_its_last_exchange_is_shown_again() -> None:
    one = session()
    told: list[Event] = []
    show_rewound(one, TOOLS, told.append)
    assert told == [Notice("the conversation is now empty: the model sees none of the messages above")]
    for number in range(3):
        prompt(one, f"question {number}")
        exchange(one, f"answer {number}")
    told.clear()
    show_rewound(one, TOOLS, told.append)
    shown = [event for event in told if not isinstance(event, EarlierMessages)]
    assert shown == [
        Notice("the conversation now ends here:"),
        PromptReplayed("question 2"),
        CommandOutput("answer 2", "markdown"),
    ]


def test_a_copy_names_the_session_that_it_is_of() -> None:
    one = session()
    prompt(one, "go")
    one.add_metadata(Metadata.FORK, {"of": "01234567-89ab-cdef-0123-456789abcdef", "at": 7})
    one.add_metadata("name", {"name": "copy"})
    assert replayed(one)[-1] == Notice("resumed session s1, a fork of 01234567 up to r7")

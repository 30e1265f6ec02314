"""The memory files of subdirectories that the model was given, found in the facts of a session."""

from __future__ import annotations

from pathlib import Path

from agent.loop.prompt_additions import ATTACHED_TOPIC, attached_files
from agent.loop.sent_memory import memory_sent_below
from agent.session.memory_files import memory_text
from agent.session.session import Session
from compact.tokens import TokenCounter
from tests.agent.loop.world import Memory
from transcripts.facts import Fact, Metadata, Opened, Reply, Result, User
from transcripts.folding import fold
from transcripts.messages import ChannelBlock, TextBlock, ToolUseBlock


def test_each_memory_file_is_listed_with_its_newest_text_and_the_file_it_came_with() -> None:
    def told(path: str, text: str) -> ChannelBlock:
        return ChannelBlock(memory_text(Path(path), text))

    calls = (ToolUseBlock("t1", "read", {}), ToolUseBlock("t2", "read", {}))
    first = told("/p/a/AGENTS.md", "one")
    second = told("/p/b/AGENTS.md", "x")
    third = told("/p/a/AGENTS.md", "two")
    files = [{"path": "/p/c/d.py"}, {"path": "/p/a/e.py"}]
    facts: list[Fact] = [
        Opened(1, 0.0, folder="/p"),
        User(2, 0.0, (first, TextBlock("see @c/d.py @a/e.py")), (1, 1)),
        Metadata(3, 0.0, ATTACHED_TOPIC, {"prompt": 2, "files": files}),
        Reply(4, 0.0, calls, (1, 1)),
        Result(5, 0.0, 4, 0, (TextBlock("x"),), (1,), about={"path": "/p/c/f.py"}),
        Result(6, 0.0, 4, 1, (TextBlock("x"), second), (1, 1)),
    ]
    session = Session("s", Memory(), fold(facts), TokenCounter(None), lambda: 0.0)
    assert memory_sent_below(session) == {
        "/p/a/AGENTS.md": (first.text, "/p/a/e.py"),
        "/p/b/AGENTS.md": (second.text, "/p/c/f.py"),
    }
    later = [*facts, User(7, 0.0, (third, TextBlock("on")), (1, 1))]
    session = Session("s", Memory(), fold(later), TokenCounter(None), lambda: 0.0)
    assert memory_sent_below(session)["/p/a/AGENTS.md"] == (third.text, "")


def test_attached_files_of_an_unknown_form_are_none() -> None:
    assert attached_files({"files": [{"path": "a"}, "b"]}) == [{"path": "a"}]
    assert attached_files({"files": "a"}) == attached_files({}) == []

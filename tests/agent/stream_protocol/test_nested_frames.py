"""Frames about agents for clients: they name the call that started the agent."""

from __future__ import annotations

from typing import Any

from agent import events
from agent.stream_protocol.message_frames import NestedFrames
from agent.ui.output_formats import RunOutput
from transcripts.facts import Reply, Result
from transcripts.messages import TextBlock, ToolUseBlock

REPLY = Reply(5, 0.0, (TextBlock("looking"), ToolUseBlock("t2", "read", {"file_path": "a"})), model="m")
RESULT = events.ToolCallFinished(5, 1, "read", "a", Result(6, 0.0, 5, 1, (TextBlock("text of a"),)), 0.1)


def progress(event: events.Event | None = None, **more: Any) -> events.AgentProgress:
    about = {"session": "s2", "background": False, "ended": False, **more}
    status = events.AgentStatus("explore #1", "find it", "t1", (3, 0), "read a", 1, 10, 0.0, **about)
    return events.AgentProgress(status, event)


def told(whole: bool, *steps: events.AgentProgress) -> list[dict[str, Any]]:
    run = RunOutput("stream-json")
    run.tells_agents_whole = whole
    frames = NestedFrames(run)
    return [frame for step in steps for frame in frames.frames(step)]


def test_calls_and_results_of_an_agent_name_the_call_that_started_it() -> None:
    steps = (progress(events.ReplyFinished(REPLY)), progress(RESULT), progress(ended=True))
    begun, call, result, ended = told(False, *steps)
    assert (begun["subtype"], begun["task_id"], begun["tool_use_id"]) == ("task_started", "s2", "t1")
    assert call["parent_tool_use_id"] == result["parent_tool_use_id"] == "t1"
    assert call["message"]["content"][0]["name"] == "Read"
    assert result["message"]["content"][0]["tool_use_id"] == "t2"
    assert (ended["subtype"], ended["status"]) == ("task_notification", "completed")


def test_its_words_are_reported_where_the_client_wants_them() -> None:
    texts = [
        frame["message"]["content"][0] for frame in told(True, progress(events.ReplyFinished(REPLY)))[1:]
    ]
    assert [text["type"] for text in texts] == ["text", "tool_use"]


def test_one_that_never_began_is_not_reported_and_how_one_ended_is() -> None:
    assert told(False, progress(session=""), progress(session="", ended=True)) == []
    _, failed = told(False, progress(), progress(ended=True, error="the budget is spent"))
    assert (failed["status"], failed["summary"]) == ("failed", "the budget is spent")
    _, stopped = told(False, progress(), progress(ended=True, error="interrupted", stopped=True))
    assert stopped["status"] == "stopped"

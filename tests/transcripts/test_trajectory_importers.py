"""Trajectories of ATIF and mini-SWE-agent, and compact transcripts of Entire, become sessions."""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.narrowing import block_text, narrow
from tests.sampling import scaled
from tests.tables import each_row
from tests.transcripts.test_codex_importer import ROLLOUT, line
from tests.transcripts.test_importers import PI, PLAIN, cc, result, use
from transcripts.codec import encode_fact
from transcripts.facts import Reply, User
from transcripts.folding import fold
from transcripts.importers import UnreadableRecording, import_session
from transcripts.importers.recording import ImportedSession
from transcripts.messages import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock

from .imported import count, kinds, results, uses


def read(value: Any) -> ImportedSession:
    return import_session(json.dumps(value, indent=1).encode(), count)


def read_lines(*objects: Any) -> ImportedSession:
    return import_session("\n".join(map(json.dumps, objects)).encode(), count)


def contents(made: ImportedSession) -> list[tuple[str, ...]]:
    return [tuple(map(block_text, each.content)) for each in results(made)]


ATIF: dict[str, Any] = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s",
    "agent": {"name": "terminus-2", "version": "2.0", "model_name": "m-1"},
    "steps": [
        {"step_id": 1, "source": "system", "message": "be good"},
        {"step_id": 2, "source": "user", "message": "fix it", "timestamp": "2026-01-01T00:00:00Z"},
        {
            "step_id": 3,
            "source": "agent",
            "timestamp": "2026-01-01T00:00:05Z",
            "model_name": "m-2",
            "reasoning_content": "hm",
            "message": "I look.",
            "tool_calls": [
                {"tool_call_id": "a", "function_name": "Read", "arguments": {"file_path": "p.py"}},
                {"tool_call_id": "b", "function_name": "Bash", "arguments": {"command": "false"}},
            ],
            "observation": {
                "results": [
                    {"source_call_id": "b", "content": "exit 1", "extra": {"is_error": True}},
                    {
                        "source_call_id": "a",
                        "content": [
                            {"type": "text", "text": "x = 1"},
                            {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}},
                        ],
                    },
                ]
            },
        },
        {
            "step_id": 4,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "c", "function_name": "keys", "arguments": {"keystrokes": "ls"}},
                {"tool_call_id": "d", "function_name": "keys", "arguments": {"keystrokes": "\n"}},
            ],
            "observation": {"results": [{"content": "$ ls\np.py"}]},
        },
        {
            "step_id": 5,
            "source": "agent",
            "message": "Hm.",
            "observation": {"results": [{"content": "go on"}]},
        },
        {"step_id": 6, "source": "agent", "message": "Done."},
    ],
    "subagent_trajectories": [{"trajectory_id": "t", "steps": []}],
}


def test_an_atif_trajectory_keeps_calls_results_reasoning_times_and_models() -> None:
    made = read(ATIF)
    assert made.format == "atif"
    expected = ["User", "Reply", "Result", "Result", "Reply", "Result", "Result", "Reply", "User", "Reply"]
    assert kinds(made.facts) == expected
    first, second = (fact for fact in made.facts[:5] if isinstance(fact, Reply))
    assert first.blocks[:2] == (ThinkingBlock("hm", ""), TextBlock("I look."))
    assert (first.model, second.model, first.ts - made.facts[0].ts) == ("m-2", "m-1", 5)
    assert [(use.id, use.name) for use in uses(made)] == [
        ("a", "Read"),
        ("b", "Bash"),
        ("c", "keys"),
        ("d", "keys"),
    ]
    assert [(each.block, each.error) for each in results(made)][:2] == [(3, True), (2, False)]
    assert contents(made) == [("exit 1",), ("x = 1", "[image: images/1.png]"), (), ("$ ls\np.py",)]
    assert block_text(narrow(made.facts[-2], User).blocks[0]) == "go on"
    assert made.skipped == {"system steps": 1, "subagent trajectories": 1} and made.damaged == 0
    assert len(fold(made.facts).view) == 8


def mini(*messages: dict[str, Any]) -> ImportedSession:
    config = {"model": {"model_name": "anthropic/claude-x"}}
    about = {"trajectory_format": "mini-swe-agent-1.1", "info": {"config": config}}
    return read({"messages": [{"role": "system", "content": "be good"}, *messages], **about})


MINI = (
    {"role": "user", "content": "solve it"},
    {
        "role": "assistant",
        "content": "I look.",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}},
            {
                "id": "b",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "false"}'},
            },
        ],
        "extra": {"actions": [{"command": "ls", "tool_call_id": "a"}], "timestamp": 1_770_000_000.0},
    },
    {
        "role": "tool",
        "tool_call_id": "b",
        "content": "<returncode>1</returncode>",
        "extra": {"returncode": 1, "timestamp": 1_770_000_002.0},
    },
    {"role": "tool", "tool_call_id": "a", "content": "p.py", "extra": {"returncode": 0}},
    {"role": "assistant", "content": "Done."},
    {"role": "exit", "content": "Submitted", "extra": {"exit_status": "Submitted", "submission": "diff"}},
)


def test_a_mini_swe_agent_trajectory_with_calls_keeps_results_times_and_the_model() -> None:
    made = mini(*MINI)
    assert made.format == "mini-swe-agent"
    assert kinds(made.facts) == ["User", "Reply", "Result", "Result", "Reply"]
    reply = narrow(made.facts[1], Reply)
    assert reply.blocks[:2] == (ThinkingBlock("hm", ""), TextBlock("I look."))
    assert (reply.model, reply.ts) == ("anthropic/claude-x", 1_770_000_000.0)
    assert [use.input for use in uses(made)] == [{"command": "ls"}, {"command": "false"}]
    assert [(each.block, each.error) for each in results(made)] == [(3, True), (2, False)]
    assert made.facts[2].ts == 1_770_000_002.0
    assert made.skipped == {"messages of other roles": 2} and made.damaged == 0


def test_actions_that_mini_swe_agents_model_wrote_as_text_become_calls() -> None:
    made = mini(
        {"role": "user", "content": "solve it"},
        {"role": "assistant", "content": "```sh\nls\n```", "extra": {"actions": [{"command": "ls"}]}},
        {"role": "user", "content": "p.py", "extra": {"returncode": 0, "raw_output": "p.py"}},
        {"role": "user", "content": "Expected 1 action.", "extra": {"interrupt_type": "FormatError"}},
        {"role": "user", "content": "the user's own command", "extra": {"returncode": 0}},
        {"role": "assistant", "content": "Done."},
    )
    assert kinds(made.facts) == ["User", "Reply", "Result", "User", "User", "Reply"]
    assert [(use.name, use.input) for use in uses(made)] == [("bash", {"command": "ls"})]
    assert contents(made) == [("p.py",)] and made.damaged == 0


def test_responses_that_mini_swe_agent_recorded_whole_are_one_reply_each() -> None:
    items = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "a", "name": "bash", "arguments": '{"command": "ls"}'},
    ]
    picture = "data:image/png;base64,iVBORw0KGgo="
    made = mini(
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture}}]},
        {"object": "response", "model": "gpt-x", "output": items},
        {"type": "function_call_output", "call_id": "a", "output": "p.py", "extra": {"returncode": 0}},
    )
    assert kinds(made.facts) == ["User", "Reply", "Result"]
    assert isinstance(narrow(made.facts[0], User).blocks[0], ImageBlock)
    reply = narrow(made.facts[1], Reply)
    assert [type(block) for block in reply.blocks] == [ThinkingBlock, TextBlock, ToolUseBlock]
    assert (reply.model, contents(made)) == ("gpt-x", [("p.py",)])


def entire(role: str, content: Any, **more: Any) -> dict[str, Any]:
    stamp = "2026-04-07T21:07:50.689Z"
    about = {"v": 1, "agent": "codex", "cli_version": "0.5.1", "type": role, "ts": stamp}
    return {**about, "content": content, **more}


PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch"
ENTIRE = (
    entire("user", [{"id": "p1", "text": "fix it"}]),
    entire(
        "assistant",
        [
            {"type": "text", "text": "I look."},
            {
                "type": "tool_use",
                "id": "a",
                "name": "exec_command",
                "input": {"cmd": "ls"},
                "result": {"output": "p.py", "status": "success"},
            },
            {
                "type": "tool_use",
                "name": "apply_patch",
                "input": {"input": PATCH},
                "result": {"output": "no such line", "status": "error"},
            },
        ],
        id="m1",
        output_tokens=9,
    ),
    entire("user", "text of an older version", ts=""),
    entire("assistant", None),
    entire("note", []),
    entire(
        "assistant", [{"type": "text", "text": "Done."}, {"type": "tool_use", "id": "b", "name": "Skill"}]
    ),
)


def test_an_entire_transcript_keeps_the_results_within_the_calls_and_the_times() -> None:
    made = read_lines(*ENTIRE)
    assert made.format == "entire"
    assert kinds(made.facts) == ["User", "Reply", "Result", "Result", "User", "Reply"]
    assert {fact.ts for fact in made.facts} == {1_775_596_070.689}
    assert [(use.name, use.input) for use in uses(made)] == [
        ("bash", {"command": "ls"}),
        ("edit", {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}),
        ("Skill", {}),
    ]
    assert contents(made) == [("p.py",), ("no such line",)]
    assert [each.error for each in results(made)] == [False, True]
    assert made.skipped == {"empty messages": 1, "note lines": 1} and made.damaged == 0


def variants(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value with one part of it replaced by a value of another type."""
    yield from (None, 7, 10**30, "x", "9999-12-31T23:59:59-14:00", True, [], {}, [[]], [None], {"type": []})
    if isinstance(value, dict):
        for key, part in value.items():
            yield from ({**value, key: other} for other in variants(part))
            yield {name: each for name, each in value.items() if name != key}
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from ([*value[:at], other, *value[at + 1 :]] for other in variants(part))


CLAUDE = (
    cc("user", "hello", "1"),
    cc("assistant", [use("a")], "2", "1", "m1", timestamp="2026-01-01T00:00:00Z"),
    cc("user", [result("a")], "3", "2", toolUseResult={"stdout": "ok"}),
)
SWE_HISTORY = (
    {"role": "user", "content": "go", "message_type": "observation"},
    {"role": "assistant", "content": "I look.", "thought": "I look.", "action": "ls"},
    {"role": "tool", "content": "a.py", "tool_call_ids": ["step_1"]},
)
SWE_STEPS = (
    {"query": [{"role": "user", "content": "go"}], "thought": "t", "action": "ls", "observation": "a"},
    {"response": "done", "thought": "done", "action": "submit", "observation": ""},
)


@pytest.mark.parametrize("every", scaled(4, 1))
@each_row(
    ("objects", "whole"),
    [
        (ROLLOUT, False),
        ((*ROLLOUT, line("event_msg", {"type": "thread_rolled_back", "num_turns": 1})), False),
        (ENTIRE, False),
        (PI, False),
        (CLAUDE, False),
        (PLAIN, False),
        (ATIF, True),
        ({"trajectory_format": "mini-swe-agent-1.1", "messages": list(MINI)}, True),
        ({"history": list(SWE_HISTORY)}, True),
        ({"trajectory": list(SWE_STEPS)}, True),
    ],
)
def test_a_part_of_an_unexpected_type_never_stops_an_import(objects: Any, whole: bool, every: int) -> None:
    tried = 0
    for changed in islice(variants(objects), 0, None, every):
        if not whole and not isinstance(changed, list):
            continue
        try:
            made = read(changed) if whole else read_lines(*changed)
        except UnreadableRecording:
            continue
        for fact in fold(made.facts).facts:
            encode_fact(fact, "imported")
        tried += 1
    assert tried > 60 // every


def _content_of(kind: str, content: list[Any], calls: list[Any]) -> Any:
    """A recording of each format with these parts and calls in one reply."""
    match kind:
        case "atif":
            step = {"source": "agent", "message": content, "tool_calls": calls}
            return {"schema_version": "ATIF-v1.7", "steps": [step]}
        case "mini_swe_agent":
            message = {"role": "assistant", "content": content, "tool_calls": calls}
            return {"trajectory_format": "mini-swe-agent-1.1", "messages": [message]}
        case "responses":
            items = [{"type": "message", "content": content}, *({"type": "function_call"} for _ in calls)]
            output = {"object": "response", "output": [*items, {"type": "sight"}, "x"]}
            return {"trajectory_format": "mini-swe-agent-1.1", "messages": [output]}
        case "swe_agent":
            return {"history": [{"role": "assistant", "content": content, "tool_calls": calls}]}
        case "codex":
            item = {"type": "message", "role": "assistant", "content": content}
            return [{"type": "response_item", "payload": item}]
        case "pi":
            message = {"role": "assistant", "content": content}
            return [{"type": "session", "cwd": "/"}, {"type": "message", "message": message}]
        case "entire":
            return [{"v": 1, "agent": "x", "type": "assistant", "content": content}]
        case _:
            return [{"role": "assistant", "content": content}]


PARTS = "unreadable parts of messages"
WITHOUT_ID = "calls without an id"


@each_row(
    "kind, skipped",
    [
        ("atif", {PARTS: 2, WITHOUT_ID: 2}),
        ("mini_swe_agent", {PARTS: 2, WITHOUT_ID: 2}),
        ("responses", {PARTS: 4, WITHOUT_ID: 2}),
        ("swe_agent", {PARTS: 2, WITHOUT_ID: 2}),
        ("codex", {PARTS: 2}),
        ("pi", {PARTS: 2, "session lines": 1}),
        ("entire", {PARTS: 2}),
        ("messages", {PARTS: 2}),
    ],
)
def test_parts_and_calls_that_cannot_be_read_are_counted(kind: str, skipped: dict[str, int]) -> None:
    content = [
        {"type": "output_text" if kind == "responses" else "text", "text": "I look."},
        {"type": "text"},
        7,
    ]
    value = _content_of(kind, content, calls=[{"function_name": "Bash"}, 5])
    made = read_lines(*value) if isinstance(value, list) else read(value)
    assert made.skipped == skipped
    assert [block_text(block) for block in narrow(made.facts[0], Reply).blocks] == ["I look."]

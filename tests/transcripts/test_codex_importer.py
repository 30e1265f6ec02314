"""Rollouts of Codex become sessions whose commands and patches are calls of makeroom's tools."""

import json
from typing import Any

from tests.narrowing import block_text, narrow
from tests.tables import each_row
from transcripts.facts import Reply, User
from transcripts.folding import fold
from transcripts.importers import import_session
from transcripts.importers.recording import ImportedSession
from transcripts.messages import ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock

from .imported import count, kinds, results, uses

PIXEL = "iVBORw0KGgo="


def line(kind: str, payload: dict[str, Any], second: int = 0) -> dict[str, Any]:
    return {"timestamp": f"2026-03-01T10:00:{second:02}.000Z", "type": kind, "payload": payload}


def item(kind: str, second: int = 0, **more: Any) -> dict[str, Any]:
    return line("response_item", {"type": kind, **more}, second)


def said(role: str, *texts: str, second: int = 0) -> dict[str, Any]:
    part = "output_text" if role == "assistant" else "input_text"
    return item("message", second, role=role, content=[{"type": part, "text": text} for text in texts])


def call(ident: str, name: str, arguments: Any, second: int = 0) -> dict[str, Any]:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return item("function_call", second, call_id=ident, name=name, arguments=given)


def output(ident: str, text: Any, second: int = 0) -> dict[str, Any]:
    return item("function_call_output", second, call_id=ident, output=text)


def read(*objects: dict[str, Any]) -> ImportedSession:
    return import_session("\n".join(map(json.dumps, objects)).encode(), count)


ROLLOUT = (
    line("session_meta", {"id": "s", "cwd": "/w", "cli_version": "0.100.0"}),
    said("developer", "<permissions instructions>ask</permissions instructions>"),
    said("user", "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nbe brief\n</INSTRUCTIONS>"),
    said("user", "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>"),
    line("turn_context", {"cwd": "/w", "model": "gpt-5.6"}),
    said("user", "fix the parser", second=1),
    line("event_msg", {"type": "user_message", "message": "fix the parser"}),
    item("reasoning", 2, summary=[{"type": "summary_text", "text": "**Looking**"}], encrypted_content="gAAA"),
    item("reasoning", 2, summary=[], encrypted_content="gBBB"),
    said("assistant", "I look at it.", second=3),
    call("c1", "exec_command", {"cmd": "cat p.py", "workdir": "/w"}, second=4),
    call("c2", "shell", {"command": ["bash", "-lc", "ls | wc -l"], "timeout_ms": 9}, second=5),
    line("event_msg", {"type": "token_count", "info": None}),
    output("c2", '{"output": "3\\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}', second=6),
    output(
        "c1",
        "Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nno such file",
        second=7,
    ),
    line("compacted", {"message": "a summary", "replacement_history": []}),
    item("web_search_call", action={"type": "search", "query": "x"}),
    item("ghost_snapshot", ghost_commit={"id": "abc"}),
    said("assistant", "Done.", second=9),
)


def test_consecutive_items_of_the_model_are_one_reply_and_outputs_find_their_calls() -> None:
    made = read(*ROLLOUT)
    assert made.format == "codex"
    assert kinds(made.facts) == ["User", "Reply", "Result", "Result", "Reply"]
    prompt, reply = narrow(made.facts[0], User), narrow(made.facts[1], Reply)
    assert [block_text(block) for block in prompt.blocks] == ["fix the parser"]
    assert reply.blocks[:2] == (ThinkingBlock("**Looking**", ""), TextBlock("I look at it."))
    assert reply.model == "gpt-5.6"
    assert [(use.name, use.input) for use in uses(made)] == [
        ("bash", {"command": "cat p.py", "workdir": "/w"}),
        ("bash", {"command": "ls | wc -l", "timeout_ms": 9}),
    ]
    assert [(result.block, result.error) for result in results(made)] == [(3, False), (2, True)]
    assert block_text(results(made)[0].content[0]) == "3\n"
    assert [fact.ts - made.facts[0].ts for fact in made.facts] == [0, 4, 5, 6, 8]
    assert len(fold(made.facts).view) == 4


def test_each_line_is_read_or_counted_by_what_it_is() -> None:
    made = read(*ROLLOUT)
    assert made.skipped == {
        "session_meta lines": 1,
        "instructions for the model": 1,
        "context that Codex added": 2,
        "turn_context lines": 1,
        "event_msg lines": 2,
        "encrypted reasoning": 1,
        "summaries": 1,
        "searches by the service": 1,
        "ghost_snapshot lines": 1,
    }
    parts = sum(len(fact.blocks) for fact in made.facts if isinstance(fact, User | Reply))
    assert parts + len(results(made)) + sum(made.skipped.values()) == len(ROLLOUT)
    assert made.damaged == 0


PATCH = """*** Begin Patch
*** Add File: new.py
+import os
+
*** Update File: a.py
@@ def f():
     x = 1
-    return 1
+    return x

@@
-old()
+new()
*** Update File: b.py
*** Move to: c.py
@@
-b = 1
+b = 2
*** End of File
*** Delete File: gone.py
*** End Patch"""
CALLS_OF_PATCH = [
    ("write", {"file_path": "new.py", "content": "import os\n\n"}),
    (
        "edit",
        {
            "file_path": "a.py",
            "old_string": "    x = 1\n    return 1\n",
            "new_string": "    x = 1\n    return x\n",
        },
    ),
    ("edit", {"file_path": "a.py", "old_string": "old()", "new_string": "new()"}),
    ("edit", {"file_path": "b.py", "old_string": "b = 1", "new_string": "b = 2"}),
    ("apply_patch", {"file_path": "b.py", "patch": "*** Update File: b.py\n*** Move to: c.py"}),
    ("apply_patch", {"file_path": "gone.py", "patch": "*** Delete File: gone.py"}),
]


@each_row(
    "made_call",
    [
        item("custom_tool_call", call_id="p", name="apply_patch", input=PATCH),
        call("p", "apply_patch", {"input": PATCH}),
        call("p", "shell", {"command": ["apply_patch", PATCH]}),
        call("p", "shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"]}),
        call("p", "functions.shell_command", {"command": f"cd /w && apply_patch <<'EOF'\n{PATCH}\nEOF"}),
    ],
)
def test_the_pieces_of_a_patch_become_edits_with_its_result(made_call: dict[str, Any]) -> None:
    told = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."
    made = read(said("user", "go"), made_call, output("p", told), said("assistant", "done"))
    assert [(use.name, use.input) for use in uses(made)] == CALLS_OF_PATCH
    assert len({use.id for use in uses(made)}) == len(CALLS_OF_PATCH) and uses(made)[0].id == "p"
    assert [(block_text(each.content[0]), each.error) for each in results(made)] == [(told, False)] * 6
    assert made.damaged == 0


def test_a_patch_without_old_text_stays_a_patch() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n+    x = 1\n*** End Patch"
    made = read(item("custom_tool_call", call_id="p", name="apply_patch", input=patch))
    (use,) = uses(made)
    section = patch.removeprefix("*** Begin Patch\n").removesuffix("\n*** End Patch")
    assert (use.name, use.input) == ("apply_patch", {"file_path": "a.py", "patch": section})


def test_calls_of_other_tools_and_damaged_arguments_stay_as_they_are() -> None:
    broken: dict[str, Any] = {"namespace": "mcp__web__", "name": "fetch", "call_id": "b", "arguments": "{"}
    made = read(
        call("a", "update_plan", {"plan": []}),
        item("function_call", **broken),
        call("c", "read_file", {"file_path": "/w/p.py"}),
        item("local_shell_call", call_id="d", action={"type": "exec", "command": ["git", "log", "a b"]}),
        item("custom_tool_call", call_id="e", name="exec", input="text(1)"),
    )
    assert [(use.name, use.input) for use in uses(made)] == [
        ("update_plan", {"plan": []}),
        ("mcp__web__fetch", {ToolUseBlock.INVALID_JSON: "{"}),
        ("read", {"file_path": "/w/p.py"}),
        ("bash", {"command": "git log 'a b'", "type": "exec"}),
        ("exec", {"input": "text(1)"}),
    ]


@each_row(
    ("told", "text", "failed"),
    [
        ("plain", "plain", False),
        ('{"output": "bad", "metadata": {"exit_code": 2}}', "bad", True),
        ({"content": "denied", "success": False}, "denied", True),
        ({"type": "text", "text": "one part"}, "one part", False),
        ("Exit code: 1\nOutput:\n", "Exit code: 1\nOutput:\n", True),
        ("Wall time: 1\nOutput:\nProcess exited with code 1", None, False),
        ("apply_patch verification failed: no such line", None, True),
        ('{"output": "torn', '{"output": "torn', False),
    ],
)
def test_an_output_is_unwrapped_and_a_failure_is_known(told: Any, text: str | None, failed: bool) -> None:
    made = read(call("a", "shell", {"command": ["ls"]}), output("a", told))
    (result,) = results(made)
    assert (block_text(result.content[0]), result.error) == (told if text is None else text, failed)


def test_images_are_kept_and_remote_ones_are_named() -> None:
    parts = [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        {"type": "input_image", "image_url": "https://example.com/a.png"},
    ]
    made = read(item("message", role="user", content=parts), said("assistant", "seen"))
    prompt = narrow(made.facts[0], User)
    assert prompt.blocks == (ImageBlock("image/png", PIXEL), TextBlock("[image: https://example.com/a.png]"))


def test_turns_that_were_rolled_back_are_left_out() -> None:
    made = read(
        said("user", "one"),
        said("assistant", "1"),
        said("user", "two"),
        call("a", "shell", {"command": ["ls"]}),
        said("user", "three"),
        said("assistant", "3"),
        line("event_msg", {"type": "thread_rolled_back", "num_turns": 2}),
        output("a", "too late"),
        said("user", "other"),
        said("assistant", "4"),
    )
    texts = [block_text(fact.blocks[0]) for fact in made.facts if isinstance(fact, User | Reply)]
    assert texts == ["one", "1", "other", "4"]
    assert (made.skipped["rewound messages"], made.damaged) == (4, 1)
    assert [fact.seq for fact in made.facts] == [1, 2, 3, 4]


def test_words_of_the_user_that_look_like_context_are_kept() -> None:
    made = read(said("user", "<environment_context> is what?", "<b>bold</b>"), said("assistant", "a tag"))
    assert [block_text(block) for block in narrow(made.facts[0], User).blocks] == [
        "<environment_context> is what?",
        "<b>bold</b>",
    ]


def test_bare_items_of_the_responses_api_are_read_too() -> None:
    bare = [each["payload"] for each in (said("user", "go"), call("a", "shell", {"command": ["ls"]}))]
    made = read(*bare, output("a", "x")["payload"], {"role": "assistant", "content": "done"})
    assert made.format == "codex"
    assert kinds(made.facts) == ["User", "Reply", "Result", "Reply"]


def test_calls_without_an_id_and_outputs_without_a_call_are_damage() -> None:
    made = read(said("assistant", "x"), item("function_call", name="shell"), output("zz", "?"))
    assert (made.damaged, kinds(made.facts)) == (2, ["Reply"])

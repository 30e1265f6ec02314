"""Hooks in settings: those that an event is for, and invalid ones."""

import subprocess
from typing import Any

from agent.extensions.hooks.answers import hook_answer
from agent.extensions.hooks.entries import HOOK_TIMEOUT_S, chosen
from agent.extensions.hooks.inputs import hook_input
from agent.extensions.hooks.table import HookTable
from agent.ports import HookAnswer, HookEvent
from tests.tables import each_row

CODES = "\x1b[31mone\x1b[0m\x07\n\u202etwo\U000e0041"  # as a linter that colours its words writes


def matches(matcher: Any, tool: str) -> bool:
    table = HookTable.read({"PreToolUse": [{"matcher": matcher, "hooks": [{"command": "c"}]}]})
    return bool(chosen(table.entries, HookEvent.PRE_TOOL, {"tool": tool}))


@each_row(
    ("matcher", "yes", "no"),
    [
        (None, "bash edit mcp__memory__add", ""),
        ("", "bash", ""),
        ("*", "bash", ""),
        ("Bash", "bash", "read"),
        ("bash", "bash", "read"),
        ("Edit|Write", "edit write", "read bash"),
        ("Edit, Write", "edit write", "read"),
        ("Task", "task", "bash"),
        ("Agent", "task", "bash"),
        ("mcp__memory", "", "mcp__memory__add"),
        ("mcp__memory__.*", "mcp__memory__add mcp__memory__get", "mcp__other__add"),
        ("mcp__my-server__do", "mcp__my-server__do", "mcp__my-server__undo"),
        ("^Ed", "edit", "read"),
        ("(", "bash read", ""),  # no pattern: called for all
    ],
)
def test_a_matcher_is_exact_names_or_a_pattern(matcher: Any, yes: str, no: str) -> None:
    assert [tool for tool in (*yes.split(), *no.split()) if matches(matcher, tool)] == yes.split()


@each_row(
    ("event", "about", "matcher", "yes"),
    [
        ("SessionStart", {"source": "compact"}, "compact", True),
        ("SessionStart", {"source": "startup"}, "compact|clear", False),
        ("PreCompact", {"trigger": "reactive"}, "auto", True),
        ("PreCompact", {"trigger": "manual"}, "auto", False),
        ("SubagentStop", {"agent_type": "explore"}, "explore", True),
        ("Notification", {"type": "permission_prompt"}, "idle_prompt", False),
        ("Stop", {}, "Bash", True),
        ("UserPromptSubmit", {}, "Bash", True),
    ],
)
def test_other_events_are_matched_by_what_they_are_about(
    event: str, about: dict[str, Any], matcher: str, yes: bool
) -> None:
    table = HookTable.read({event: [{"matcher": matcher, "hooks": [{"command": "c"}]}]})
    assert bool(chosen(table.entries, HookEvent(event), about)) is yes


def test_an_entry_has_its_time_and_a_guard_blocks_unless_it_says_otherwise() -> None:
    hooks = [{"command": "a", "timeout": 5}, {"command": "b", "onFailure": "continue"}, {"command": "a"}]
    table = HookTable.read(
        {"PreToolUse": [{"hooks": hooks}], "Stop": [{"hooks": [{"command": "a"}]}]}, "here"
    )
    first, second, third, stop = table.entries
    assert (first.timeout, second.timeout, first.origin) == (5.0, HOOK_TIMEOUT_S, "here")
    assert (first.blocks, second.blocks, stop.blocks) == (True, False, False)
    assert chosen(table.entries, HookEvent.PRE_TOOL, {"tool": "bash"}) == (first, second), "each command once"
    assert third == HookTable.read({"PreToolUse": [{"hooks": [{"command": "a"}]}]}, "here").entries[0]


def test_a_command_blocks_if_any_of_its_entries_does_and_never_in_the_background() -> None:
    open_guard = {"command": "a", "onFailure": "continue"}
    hooks = [open_guard, {"command": "a"}, {"command": "b", "async": True, "onFailure": "block"}]
    table = HookTable.read({"PreToolUse": [{"hooks": hooks}]})
    found = chosen(table.entries, HookEvent.PRE_TOOL, {"tool": "bash"})
    assert [(each.run, each.blocks, each.background) for each in found] == [
        ("a", True, False),
        ("b", False, True),
    ]


@each_row(
    ("raw", "problem"),
    [
        ({"PreToolUs": []}, "did you mean 'PreToolUse'?"),
        ({"Stop": [{"hooks": [{"type": "prompt", "prompt": "p"}]}]}, "only commands are supported"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "must be a command line, not None"),
        ({"Stop": [5]}, "must be a list of objects"),
        ({"Stop": [{"hooks": 5}]}, "must be a list of objects"),
        ({"PreToolUse": [{"hooks": {"command": "check.sh"}}]}, "must be a list of objects"),
        ({"PreToolUse": [{"command": "check.sh"}]}, "must be a list of objects"),
        ({"Stop": [{"hookCallbackIds": "h1"}]}, "must be a list of objects"),
        ({"Stop": {"hooks": []}}, "must be a command"),
        ({"PreToolUse": [{"matcher": "(", "hooks": []}]}, "is not a valid pattern"),
        ({"PreToolUse": [{"matcher": 5, "hooks": []}]}, "is not a string"),
        ([], "must be a table"),
        ({"PreCommit": []}, "does not have this event"),
        ({"SubagentStart": [{"hooks": [{"command": "c"}]}]}, "does not have this event"),
        ({"Stop": [{"hooks": [{"command": "c", "if": "Bash(git *)"}]}]}, "the hook always runs"),
    ],
)
def test_what_is_not_a_hook_is_reported(raw: Any, problem: str) -> None:
    (told,) = HookTable.read(raw).all_lines
    assert problem in told


def test_fields_of_a_command_without_effect_are_named_and_its_words_are_kept() -> None:
    fields = {"if": "Bash(git push:*)", "asyncRewake": True, "shell": "powershell"}
    table = HookTable.read({"Stop": [{"hooks": [{"type": "command", "command": "x.sh", **fields}]}]})
    assert [remark.partition(" is ignored")[0] for remark in table.remarks] == [
        "the condition 'Bash(git push:*)' of a hook for Stop",
        "asyncRewake of a hook for Stop",
        "the shell 'powershell' of a hook for Stop",
    ]
    words = {
        "command": "${CLAUDE_PLUGIN_ROOT}/my run",
        "args": ["--at", "$HOME; ls", "${CLAUDE_PROJECT_DIR}/a b", ""],
    }
    (entry,) = HookTable.read({"Stop": [{"hooks": [{"type": "command", **words}]}]}).entries
    environ = {"CLAUDE_PLUGIN_ROOT": "/p q", "CLAUDE_PROJECT_DIR": "/d"}
    line = f"printf '%s|' {entry.run}"
    assert (
        subprocess.check_output(["bash", "-c", line], env=environ, text=True)
        == "/p q/my run|--at|$HOME; ls|/d/a b||"
    )


@each_row(
    ("condition", "tool", "given", "runs"),
    [
        ("Bash(git push:*)", "bash", {"command": "cd x && git push origin main"}, True),
        ("Bash(git push:*)", "bash", {"command": "git status"}, False),
        ("Bash(git push:*)", "bash", {"command": 'eval "$X"'}, True),
        ("Bash(git push:*)", "read", {"file_path": "/p/a.py"}, False),
        ("Edit(src/**)", "edit", {"file_path": "/p/src/a.py"}, True),
        ("Edit(src/**)", "write", {"file_path": "/p/tests/a.py"}, False),
        ("mcp__memory", "mcp__memory__add", {}, True),
        ("mcp__memory", "mcp__maps__route", {}, False),
    ],
)
def test_a_condition_is_a_rule_that_the_call_has_to_meet(
    condition: str, tool: str, given: dict[str, str], runs: bool
) -> None:
    hooks = [{"type": "command", "command": "x.sh", "if": condition}, {"command": "always.sh"}]
    table = HookTable.read({"PostToolUse": [{"hooks": hooks}]})
    found = chosen(table.entries, HookEvent.POST_TOOL, {"tool": tool, "input": given}, "/p")
    assert [entry.run for entry in found] == (["x.sh", "always.sh"] if runs else ["always.sh"])
    assert table.remarks == ()


def test_the_same_command_runs_if_one_of_its_conditions_is_met() -> None:
    hooks = [{"command": "x.sh", "if": f"Bash(git {word}:*)"} for word in ("commit", "push")]
    table = HookTable.read({"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]})
    called = {"tool": "bash", "input": {"command": "git push"}}
    assert len(chosen(table.entries, HookEvent.PRE_TOOL, called, "/p")) == 1


def test_an_older_name_stands_for_its_events() -> None:
    entries = HookTable.read({"post_tool": "format.sh", "pre_tool": "guard.sh"}).entries
    assert [(each.event, each.blocks) for each in entries] == [
        (HookEvent.POST_TOOL, False),
        (HookEvent.POST_TOOL_FAILURE, False),
        (HookEvent.PRE_TOOL, True),
    ]


CALL = {"tool": "bash", "input": {"command": "ls"}, "id": "t"}
AFTER = {**CALL, "output": "a", "error": False, "seconds": 0.25}


@each_row(
    ("event", "about", "told"),
    [
        (
            HookEvent.PRE_TOOL,
            CALL,
            {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t"},
        ),
        (HookEvent.POST_TOOL, AFTER, {"duration_ms": 250}),
        (HookEvent.POST_TOOL_FAILURE, {**AFTER, "output": "no"}, {"error": "no"}),
        (HookEvent.PROMPT, {"prompt": "p"}, {"prompt": "p"}),
        (
            HookEvent.SUBAGENT_STOP,
            {"answer": "a", "again": True, "agent_id": "s", "agent_type": "explore"},
            {"stop_hook_active": True, "last_assistant_message": "a", "agent_type": "explore"},
        ),
        (
            HookEvent.PRE_COMPACT,
            {"trigger": "tool", "focus": "f"},
            {"trigger": "auto", "custom_instructions": "f"},
        ),
        (HookEvent.POST_COMPACT, {"trigger": "manual"}, {"trigger": "manual", "compact_summary": ""}),
        (HookEvent.NOTIFICATION, {"message": "m", "type": "t"}, {"message": "m", "notification_type": "t"}),
        (HookEvent.SESSION_START, {"source": "clear", "model": "m"}, {"source": "clear", "model": "m"}),
        (HookEvent.SESSION_END, {"reason": "clear"}, {"reason": "clear"}),
    ],
)
def test_each_event_is_reported_in_the_words_of_claude_code(
    event: HookEvent, about: dict[str, Any], told: dict[str, Any]
) -> None:
    assert hook_input(event, about).items() >= {"hook_event_name": str(event), **told}.items()


def test_the_output_of_a_call_has_what_scripts_ask_for() -> None:
    response = hook_input(HookEvent.POST_TOOL, AFTER)["tool_response"]
    assert response.items() >= {"stdout": "a", "stderr": "", "interrupted": False}.items()
    edited = {**AFTER, "tool": "edit", "input": {"file_path": "/x/a.py"}}
    assert hook_input(HookEvent.POST_TOOL, edited)["tool_response"]["filePath"] == "/x/a.py"


@each_row(
    ("answer", "wanted"),
    [
        ({}, HookAnswer()),
        ({"decision": "block", "reason": "r"}, HookAnswer(veto="r")),
        ({"decision": "approve"}, HookAnswer(decision="allow")),
        ({"continue": False, "stopReason": "s"}, HookAnswer(stop="s")),
        ({"hookSpecificOutput": {"permissionDecision": "deny"}}, HookAnswer(veto="no reason given")),
        ({"hookSpecificOutput": {"permissionDecision": "allow"}}, HookAnswer(decision="allow")),
        ({"hookSpecificOutput": {"permissionDecision": "ask"}}, HookAnswer(decision="ask")),
        ({"hookSpecificOutput": {"additionalContext": "c"}}, HookAnswer(words="c")),
        ({"hookSpecificOutput": {"additionalContext": CODES}}, HookAnswer(words="one\ntwo")),
        ({"hookSpecificOutput": {"updatedToolOutput": CODES}}, HookAnswer(updated_output="one\ntwo")),
        ({"decision": "block", "reason": CODES}, HookAnswer(veto="one\ntwo")),
        ({"hookSpecificOutput": {"updatedInput": {"a": 1}}}, HookAnswer(updated_input={"a": 1})),
        ({"hookSpecificOutput": {"updatedToolOutput": "o"}}, HookAnswer(updated_output="o")),
        ({"hookSpecificOutput": {"updatedToolOutput": {"a": 1}}}, HookAnswer(updated_output='{"a": 1}')),
        ({"systemMessage": "m"}, HookAnswer(message="m")),
        ({"hookSpecificOutput": 5, "decision": 5, "systemMessage": None}, HookAnswer()),
        ({"veto": "v", "words": "w"}, HookAnswer(veto="v", words="w")),
    ],
)
def test_each_field_of_a_hooks_answer_counts(answer: dict[str, Any], wanted: HookAnswer) -> None:
    assert hook_answer(answer) == wanted


def test_a_veto_and_an_ask_win_over_what_other_hooks_say() -> None:
    joined = HookAnswer(decision="allow", words="a").then(HookAnswer(decision="ask", words="b"))
    assert (joined.decision, joined.words) == ("ask", "a\nb")
    assert HookAnswer(veto="first").then(HookAnswer(veto="second", decision="allow")).veto == "first"

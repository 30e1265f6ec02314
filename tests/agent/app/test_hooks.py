"""Hooks that are commands: run in the sandbox or open, with their input, all at once."""

import asyncio
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.app.own_commands import commands_within
from agent.extensions.hooks import asking, command_hooks
from agent.extensions.hooks.table import HookTable
from agent.loop.session_sandbox import SessionSandbox
from agent.permissions import PermissionRules, PermissionStore, parse_rules
from agent.ports import HookAnswer, HookEvent
from tests.real_home import real_home
from tests.tools.sandbox_session import SandboxedSession, sandboxed_session
from tools.sandbox.command_socket import SupervisorLost

BASH = {"tool": "bash", "input": {"command": "rm -rf build"}, "id": "t1"}
EDITED = {"tool": "edit", "input": {"file_path": "a.txt"}, "id": "t", "output": "ok", "error": False}
GUARD = """jq -e '.tool_input.command | test("rm -rf")' >/dev/null || exit 0
echo "no rm -rf in $(basename "$CLAUDE_PROJECT_DIR")" >&2; exit 2"""
FORMATTER = """file=$(jq -r '.tool_input.file_path // empty')
tr a-z A-Z <"$file" >formatted && mv formatted "$file"; echo formatted"""
DENIAL = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxedSession]:
    made = sandboxed_session(tmp_path_factory.mktemp("hooks"))
    assert isinstance(made.context.environ, dict)
    made.context.environ["PATH"] += (
        f":{real_home()}/bin"  # or the sandbox would hide it as the home of another user
    )
    yield made
    made.end()


@pytest.fixture
def sandbox(session: SandboxedSession) -> SessionSandbox:
    """A sandbox whose rules may be changed."""
    store = PermissionStore(PermissionRules(folder=str(session.folder)))
    made = SessionSandbox(session.context, store, session.home)
    session.runner.run(made.warm())
    if made.level == "none":
        pytest.skip(f"no wall here: {made.why}")
    return made


Asked = tuple[HookAnswer, list[str]]


def ask(
    session: SandboxedSession,
    sandbox: SessionSandbox,
    event: HookEvent,
    about: dict[str, Any],
    *hooks: Any,
    origin: str = "",
) -> Asked:
    """Answers of hooks, both commands and objects of a settings file, and the notices about them."""
    told: list[str] = []
    entries = [{"type": "command", "command": each} if isinstance(each, str) else each for each in hooks]
    table = HookTable.read({event: [{"hooks": entries}]}, origin)
    made = command_hooks(table.entries, commands_within(sandbox), lambda: {"session_id": "s"}, told.append)
    return session.runner.run(made.run(event, about)), told


def stopping(session: SandboxedSession, sandbox: SessionSandbox, command: str) -> Asked:
    """The answer of a command that our settings list under an older name."""
    told: list[str] = []
    table = HookTable.read({"stop": command})
    hooks = command_hooks(table.entries, commands_within(sandbox), dict, told.append)
    about = {"answer": 'it\'s "done"', "again": False, "é": 1}
    return session.runner.run(hooks.run(HookEvent.STOP, about)), told


def test_a_hook_under_an_older_name_is_reported_and_answers_as_before(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    for command, answer in (
        ("true", HookAnswer()),
        ("echo keep the list; echo and more >&2", HookAnswer(words="keep the list")),
        ("""echo '{"veto": "not now"}'""", HookAnswer(veto="not now")),
        ("""echo '{"words": "look at x"}'""", HookAnswer(words="look at x")),
        (
            "python3 -c 'import json, sys; about = json.load(sys.stdin); print(about[\"answer\"])'",
            HookAnswer(words='it\'s "done"'),
        ),
        ("echo out; echo no >&2; exit 2", HookAnswer(veto="no")),
        ("echo ${ANTHROPIC_API_KEY-no key}; touch here", HookAnswer(words="no key")),
    ):
        assert stopping(session, sandbox, command) == (answer, []), command
    assert (session.folder / "here").exists()


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_a_guard_with_jq_and_a_formatter_work_unchanged(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    assert ask(session, sandbox, HookEvent.PRE_TOOL, BASH, GUARD) == (
        HookAnswer(veto=f"no rm -rf in {session.folder.name}"),
        [],
    )
    harmless = {**BASH, "input": {"command": "ls"}}
    assert ask(session, sandbox, HookEvent.PRE_TOOL, harmless, GUARD) == (HookAnswer(), [])
    (session.folder / "a.txt").write_text("text")
    assert ask(session, sandbox, HookEvent.POST_TOOL, EDITED, FORMATTER) == (HookAnswer(), [])
    assert (session.folder / "a.txt").read_text() == "TEXT"


def test_hooks_run_at_once_each_with_its_input_and_a_command_once(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    # Each waits for a file that the other makes, so one after the other would take too long.
    meet = "cat >in-{0}; touch did-{0}; until [ -e did-{1} ]; do sleep 0.01; done; echo >>count; exit 0"
    answer, told = ask(
        session, sandbox, HookEvent.PRE_TOOL, BASH, meet.format(1, 2), meet.format(2, 1), meet.format(1, 2)
    )
    assert (answer, told) == (HookAnswer(), [])
    first, second = (json.loads((session.folder / f"in-{n}").read_text()) for n in (1, 2))
    assert (
        first
        == second
        == {
            "session_id": "s",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "rm -rf build"},
            "tool_use_id": "t1",
        }
    )
    assert (session.folder / "count").read_text() == "\n\n"


def test_deny_beats_ask_and_that_allow_and_two_rewrites_are_an_error(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    def says(**fields: Any) -> str:
        return f"cat >/dev/null; echo '{json.dumps({'hookSpecificOutput': fields})}'"

    allow, asks = says(permissionDecision="allow"), says(permissionDecision="ask")
    answer, _ = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, allow, asks)
    assert answer.decision == "ask" and answer.veto is None
    answer, _ = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, allow, f"echo '{json.dumps(DENIAL)}'")
    assert answer.veto == "no reason given"
    one, other = says(updatedInput={"command": "ls"}), says(updatedInput={"command": "pwd"})
    answer, _ = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, one, other)
    assert str(answer.veto).startswith("two hooks changed the input")
    answer, told = ask(
        session, sandbox, HookEvent.PRE_TOOL, BASH, one, """echo '{"systemMessage": "mind the gap"}'"""
    )
    assert (answer.updated_input, told) == (
        {"command": "ls"},
        ["a hook for PreToolUse says: mind the gap"],
    )


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("/no/such/guard", "could not be started: exit code 127: bash: line 1: /no/such/guard: No such file"),
        ("./guard", "could not be started: exit code 126"),
        ("python3 gone.py", "could not be started: exit code 2: "),
        ("echo '{not json'", "answered with invalid JSON"),
        (
            "printf '{'; head -c 10000000 /dev/zero | tr '\\0' ' '",
            "answered with more than 1048576 characters of JSON",
        ),
        ("sleep 30", "took longer than 0.2 s"),
    ],
)
def test_a_guard_that_cannot_be_asked_lets_nothing_through(
    session: SandboxedSession, sandbox: SessionSandbox, command: str, fault: str
) -> None:
    (session.folder / "guard").write_text("#!/bin/sh\n")
    guard = {"command": command, "timeout": 0.2 if "sleep" in command else 30}
    answer, told = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, guard)
    assert str(answer.veto).startswith(f"the hook PreToolUse ({command}) {fault}") and told == []
    answer, told = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, {**guard, "onFailure": "continue"})
    assert answer == HookAnswer() and fault in told[0]


def test_a_guard_that_cannot_run_is_explained_with_its_file_once(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    two = ({"command": "gone", "timeout": 30}, {"command": "gone"})
    answer, told = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, *two, origin="/p/settings.json")
    assert "command not found" in str(answer.veto)
    (hint,) = told
    assert hint.endswith('fix it in /p/settings.json, or set its onFailure to "continue"')


def test_what_else_a_hook_does_wrong_is_reported_and_changes_nothing(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    answer, told = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, "printf 'first\nsecond' >&2; exit 1")
    assert answer == HookAnswer() and told[0].endswith("failed: exit code 1: first")
    answer, told = ask(session, sandbox, HookEvent.PRE_TOOL, BASH, f"echo '{json.dumps(DENIAL)}'; exit 1")
    assert answer.veto == "no reason given" and told == []
    answer, told = ask(session, sandbox, HookEvent.PROMPT, {"prompt": "p"}, "yes word | head -c 10000000")
    assert len(answer.words) == 10_000 and told == []
    answer, told = ask(
        session, sandbox, HookEvent.STOP, {"answer": "", "again": False}, "gone; sleep 0.1; exec gone"
    )
    assert answer == HookAnswer() and "could not be started" in told[0]


def test_what_a_hook_leaves_in_the_background_is_not_waited_for(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    hook = {"command": 'sleep 300 & echo \'{"decision": "block", "reason": "go on"}\'', "timeout": 20}
    answer, told = ask(session, sandbox, HookEvent.STOP, {"answer": "", "again": False}, hook)
    assert (answer.veto, told) == ("go on", [])


def test_a_hook_in_the_background_is_not_waited_for_and_decides_nothing(
    session: SandboxedSession, sandbox: SessionSandbox
) -> None:
    slow = {"command": "until [ -e go ]; do sleep 0.01; done; touch went; exit 2", "async": True}
    assert ask(session, sandbox, HookEvent.PRE_TOOL, BASH, slow) == (HookAnswer(), [])
    assert not (session.folder / "went").exists()
    done = {"answer": "", "again": False}
    assert ask(session, sandbox, HookEvent.STOP, done, "touch go") == (HookAnswer(), [])
    assert ask(session, sandbox, HookEvent.PRE_TOOL, BASH, "until [ -e went ]; do sleep 0.01; done")[1] == []


def test_the_end_of_a_session_waits_for_no_hook_for_long(
    session: SandboxedSession, sandbox: SessionSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asking.SESSION_END_TIMEOUT_S == 1.5
    monkeypatch.setattr(asking, "SESSION_END_TIMEOUT_S", 0.1)
    slow = {"command": "sleep 300", "timeout": 600}
    _, told = ask(session, sandbox, HookEvent.SESSION_END, {"reason": "other"}, slow)
    assert told == ["the hook SessionEnd (sleep 300) took longer than 0.1 s"]


def test_a_hook_that_the_sandbox_blocked_is_reported_with_the_rule_that_would_allow_it(
    session: SandboxedSession, sandbox: SessionSandbox, outside: Path
) -> None:
    command = f"touch {outside}/log"
    answer, (told,) = stopping(session, sandbox, command)
    assert answer == HookAnswer()
    assert "blocked: write" in told and f"allow open({command}) in your settings" in told
    sandbox.permissions.rules = PermissionRules(allow=parse_rules(f"open({command})"), sandboxed=True)
    assert stopping(session, sandbox, command) == (HookAnswer(), [])
    assert (outside / "log").exists()


def test_further_blocks_of_a_hook_are_reported_briefly(
    session: SandboxedSession, sandbox: SessionSandbox, outside: Path
) -> None:
    told: list[str] = []
    table = HookTable.read({"Stop": [{"hooks": [{"type": "command", "command": f"touch {outside}/log"}]}]})
    hooks = command_hooks(table.entries, commands_within(sandbox), dict, told.append)
    for _ in range(3):
        session.runner.run(hooks.run(HookEvent.STOP, {"answer": "done", "again": False}))
    first, *others = told
    assert "in your settings" in first
    assert len(others) == 2 and all(line.endswith("/log (touch), as before") for line in others)


def test_where_there_is_no_sandbox_or_the_mode_has_none_hooks_run_open(
    session: SandboxedSession, sandbox: SessionSandbox, outside: Path
) -> None:
    sandbox.permissions.set_mode("bypassPermissions")
    assert stopping(session, sandbox, f"touch {outside}/bypass") == (HookAnswer(), [])
    sandbox.level, sandbox.why = "none", "switched off"
    sandbox.permissions.set_mode("manual")
    assert stopping(session, sandbox, f"touch {outside}/none") == (HookAnswer(), [])
    assert {"bypass", "none"} == {path.name for path in outside.iterdir()}


def test_a_guard_without_anything_to_run_it_lets_nothing_through() -> None:
    async def run(line: str, given: str) -> Any:
        raise OSError(str(SupervisorLost("the supervisor is gone")))

    table = HookTable.read({"pre_tool": "true", "post_tool": "true"})
    told: list[str] = []
    hooks = command_hooks(table.entries, run, dict, told.append)
    assert "gone" in str(asyncio.run(hooks.run(HookEvent.PRE_TOOL, BASH)).veto)
    assert asyncio.run(hooks.run(HookEvent.POST_TOOL, EDITED)) == HookAnswer() and "gone" in told[0]

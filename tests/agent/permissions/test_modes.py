"""The table of modes: what becomes of a command, of an edit, and of leaving the sandbox."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.permissions.modes import MODES, Mode
from agent.permissions.rule_syntax import OPENING, Rule, parse_rules
from agent.permissions.rules import PermissionRules, judge_call
from agent.shell.project_environment import ProjectEnvironment
from tests.tables import each_row
from tools.base import Access

FOLDER = "/w/app"
COMMAND = Access("run", "make install", cwd=FOLDER)
DESTRUCTIVE = Access("run", "rm -rf ~", cwd=FOLDER)
EDIT = Access("write", f"{FOLDER}/a.py")
PROTECTED_EDIT = Access("write", f"{FOLDER}/.git/config", protected=True)
ALLOWED, DENIED = (Rule("bash", "make install"),), (Rule("bash", "make"),)
OPENED = (Rule(OPENING, "make install"),)
# mode -> a command with the sandbox, one without; asking to leave; an edit, one of a protected file
TABLE: dict[Mode, tuple[str, str, bool, str, str]] = {
    "manual": ("walled", "ask", True, "ask", "ask"),
    "acceptEdits": ("walled", "ask", True, "allow", "ask"),
    "plan": ("deny", "deny", False, "deny", "deny"),
    "dontAsk": ("walled", "deny", False, "deny", "deny"),
    "bypassPermissions": ("allow", "allow", False, "allow", "allow"),
}


def judged(access: Access, rules: PermissionRules) -> str:
    verdict = judge_call("bash" if access.kind == "run" else "edit", [access], rules)
    return "walled" if verdict.answer == "allow" and verdict.sandboxed else verdict.answer


@each_row("mode", MODES)
def test_each_mode_does_what_the_table_says(mode: Mode) -> None:
    sandboxed, unsandboxed, leaving, edit, protected = TABLE[mode]
    inside, outside = (PermissionRules(mode, folder=FOLDER, sandboxed=sandbox) for sandbox in (True, False))
    assert judged(COMMAND, inside) == sandboxed
    assert judged(COMMAND, outside) == unsandboxed
    assert inside.may_leave is leaving
    for rules in (inside, outside):
        assert judged(EDIT, rules) == edit
        assert judged(PROTECTED_EDIT, rules) == protected


@each_row("mode", MODES)
@each_row("sandbox", [True, False])
def test_denied_and_destructive_commands_stay_so_in_every_mode(mode: Mode, sandbox: bool) -> None:
    rules = PermissionRules(mode, deny=DENIED, folder=FOLDER, sandboxed=sandbox)
    assert judged(COMMAND, rules) == "deny"
    assert judged(DESTRUCTIVE, rules) == ("deny" if mode in ("plan", "dontAsk") else "ask")
    if mode not in ("plan", "dontAsk", "bypassPermissions"):
        assert judge_call("bash", [DESTRUCTIVE], rules).sandboxed is sandbox  # also once a user allowed it


@each_row(
    ("mode", "sandboxed", "unsandboxed"),
    [
        ("manual", "walled", "allow"),
        ("acceptEdits", "walled", "allow"),
        ("plan", "deny", "deny"),
        ("dontAsk", "walled", "allow"),
        ("bypassPermissions", "allow", "allow"),
    ],
)
def test_a_rule_that_allows_a_command_does_not_open_the_sandbox(
    mode: Mode, sandboxed: str, unsandboxed: str
) -> None:
    assert judged(COMMAND, PermissionRules(mode, ALLOWED, sandboxed=True)) == sandboxed
    assert judged(COMMAND, PermissionRules(mode, ALLOWED)) == unsandboxed


@each_row("mode", MODES)
def test_a_rule_that_opens_a_line_opens_exactly_this_one(mode: Mode) -> None:
    rules = PermissionRules(mode, OPENED, sandboxed=True)
    assert judged(COMMAND, rules) == ("deny" if mode == "plan" else "allow")
    if mode not in ("plan", "bypassPermissions"):
        assert judged(Access("run", "make install -j8"), rules) == "walled"
        assert judged(COMMAND, PermissionRules(mode, OPENED, OPENED, sandboxed=True)) == "walled"


@each_row("mode", MODES)
def test_where_the_sandbox_is_required_and_missing_no_command_runs(mode: Mode) -> None:
    rules = PermissionRules(mode, (*ALLOWED, *OPENED), sandbox_required=True)
    assert judged(COMMAND, rules) == ("allow" if mode == "bypassPermissions" else "deny")


@pytest.mark.parametrize("sandbox", [True, False])
def test_in_plan_mode_only_what_looks_goes_ahead(sandbox: bool, tmp_path: Path) -> None:
    allow = (Rule("bash"), Rule("edit"), Rule("mcp__docs__search"))
    folder = str(tmp_path.resolve())
    (tmp_path / "a.py").touch()
    environment = ProjectEnvironment(folder, {"PATH": "/usr/bin:/bin", "HOME": folder})
    rules = PermissionRules("plan", allow, folder=folder, sandboxed=sandbox, reading=lambda: environment)

    def judged_line(line: str) -> str:
        return judged(Access("run", line, cwd=folder), rules)

    looks = ("ls -la", "git status", "cat a.py | head -3", "grep -rn x .", "find . -name '*.py'")
    assert {line: judged_line(line) for line in looks} == dict.fromkeys(
        looks, "walled" if sandbox else "allow"
    )
    changes = (
        "sed -i s/a/b/ a.py",
        "echo x > a.py",
        "ls; rm a.py",
        "git commit -m x",
        "find . -delete",
        "make",
    )
    assert {line: judged_line(line) for line in changes} == dict.fromkeys(changes, "deny")
    assert judge_call("mcp__docs__search", [Access("server", "docs")], rules).answer == "allow"
    assert judge_call("mcp__docs__store", [Access("server", "docs")], rules).answer == "deny"
    assert judge_call("web_fetch", [Access("network", "docs.example")], rules).answer == "ask"
    assert judge_call("read", [Access("read", f"{folder}/a.py")], rules).answer == "allow"
    assert judge_call("todo", [Access("none")], rules).answer == "allow"


def test_in_plan_mode_a_sandbox_that_holds_the_project_lets_commands_run(tmp_path: Path) -> None:
    folder = str(tmp_path.resolve())
    held = PermissionRules("plan", folder=folder, sandboxed=True, sandbox_read_only=True)
    for line, answer in (("make test", "walled"), ("rm -rf .git", "deny"), ("rm -rf /", "deny")):
        assert judged(Access("run", line, cwd=folder), held) == answer
    denying = replace(held, deny=(Rule("bash", "make"),))
    assert judged(Access("run", "make test", cwd=folder), denying) == "deny"
    for others in ({"sandboxed": False}, {"sandbox_read_only": False}, {"asks_sandboxed": True}):
        assert judged(Access("run", "make test", cwd=folder), replace(held, **others)) == "deny"


def test_rules_about_bash_are_about_every_tool_that_runs_commands() -> None:
    rules = PermissionRules("manual", (Rule("bash", "make test"),), (Rule("bash", "make install"),))
    found = [
        judge_call("monitor", [Access("run", line)], rules) for line in ("make test", "make install", "x")
    ]
    assert [each.answer for each in found] == ["allow", "deny", "ask"]
    assert str(found[-1].prefix) == "bash(=x)"


def test_a_call_that_does_several_things_is_sandboxed_in_all_the_same() -> None:
    rules = PermissionRules("acceptEdits", sandboxed=True, folder=FOLDER)
    assert judge_call("bash", [COMMAND, EDIT], rules).sandboxed
    assert judge_call("bash", [COMMAND, PROTECTED_EDIT], rules).answer == "ask"


def test_servers_and_hosts_need_approval_each_by_its_own_rule() -> None:
    server, host = Access("server", "docs"), Access("network", "docs.example")
    manual, planning = PermissionRules(), PermissionRules("plan")
    asked = judge_call("mcp__docs__store", [server], manual)
    assert (asked.answer, asked.prefix) == ("ask", Rule("mcp__docs__store"))
    asked = judge_call("web_fetch", [host], manual)
    assert (asked.answer, asked.prefix) == ("ask", Rule("web_fetch", "docs.example"))
    assert judge_call("mcp__docs__store", [server], planning).answer == "deny"
    assert judge_call("web_fetch", [host], planning).answer == "ask"


def test_a_rule_for_all_hosts_covers_no_port_of_this_machine() -> None:
    local = Access("network", "localhost:8000", outside=True)
    every, named = parse_rules("web_fetch"), parse_rules("WebFetch(domain:localhost:8000)")
    public = Access("network", "a.example")
    assert judge_call("web_fetch", [public], PermissionRules(allow=every)).answer == "allow"
    asked = judge_call("web_fetch", [local], PermissionRules(allow=every))
    assert (asked.answer, asked.prefix) == ("ask", Rule("web_fetch", "localhost:8000"))
    assert judge_call("web_fetch", [local], PermissionRules(allow=named)).answer == "allow"
    assert judge_call("web_fetch", [local], PermissionRules(allow=every, deny=named)).answer == "deny"


def test_an_open_line_needs_approval_again_where_its_program_was_replaced(tmp_path: Path) -> None:
    folder = str(tmp_path.resolve())
    tool = tmp_path / "tool"
    tool.write_text("one")
    environment = ProjectEnvironment(folder, {"PATH": "/usr/bin:/bin"})
    opened = (Rule("open", "./tool x"),)
    rules = PermissionRules("manual", opened, folder=folder, sandboxed=True, reading=lambda: environment)
    rules = rules.noting_programs("./tool x")
    line = Access("run", "./tool x", cwd=folder)
    assert rules.runs_open(line) and judged(line, rules) == "allow"
    tool.write_text("two")
    verdict = judge_call("bash", [line], rules)
    assert (verdict.answer, verdict.prefix, verdict.binding) == ("ask", opened[0], True)
    assert not rules.runs_open(line) and verdict.why.startswith("it runs a program of the project")
    bypassing = replace(rules, mode="bypassPermissions")
    assert judge_call("bash", [line], bypassing).answer == "allow" and bypassing.runs_open(line)


def test_a_question_that_has_to_be_asked_binds_the_whole_call() -> None:
    rules = PermissionRules(folder=FOLDER)
    for accesses in ([EDIT, PROTECTED_EDIT], [PROTECTED_EDIT, EDIT]):
        verdict = judge_call("edit", accesses, rules)
        assert verdict.answer == "ask" and verdict.binding
    assert not judge_call("edit", [EDIT], rules).binding

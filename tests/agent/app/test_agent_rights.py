"""The permissions of an agent are the session's, in a mode that allows no more."""

from __future__ import annotations

from agent.app.agent_rights import NarrowedPermissions
from agent.permissions import Mode, PermissionRules, PermissionStore, Rule
from tests.tables import each_row
from transcripts import ToolUseBlock


def test_a_narrower_mode_holds_for_the_agent_alone_and_a_wider_one_for_no_one() -> None:
    session = PermissionStore(PermissionRules("acceptEdits"))
    planning, bypassing = (
        NarrowedPermissions(session, "plan"),
        NarrowedPermissions(session, "bypassPermissions"),
    )
    assert (planning.rules.mode, bypassing.rules.mode, session.rules.mode) == (
        "plan",
        "acceptEdits",
        "acceptEdits",
    )
    session.set_mode("plan")
    assert bypassing.rules.mode == "plan" and bypassing.planning


@each_row(
    ("session", "agent", "narrower"),
    [
        ("manual", "bypassPermissions", "manual"),
        ("bypassPermissions", "acceptEdits", "acceptEdits"),
        ("plan", "dontAsk", "plan"),
        ("manual", None, "manual"),
    ],
)
def test_a_mode_is_never_wider_than_the_session_s(session: Mode, agent: Mode | None, narrower: Mode) -> None:
    assert NarrowedPermissions(PermissionStore(PermissionRules(session)), agent).rules.mode == narrower


def test_what_the_user_grants_to_an_agent_is_granted_to_the_session() -> None:
    session = PermissionStore(PermissionRules("manual"))
    agent = NarrowedPermissions(session, "plan")
    agent.allow(Rule("bash", "make"))
    agent.deny(Rule("write"))
    agent.let_through("write", "/elsewhere")
    assert [str(rule) for rule in (*session.rules.allow, *session.rules.deny)] == ["bash(make)", "write"]
    assert session.sandbox.write == ("/elsewhere",) == agent.sandbox.write
    assert session.rules.mode == "manual" and not session.rules.asks_sandboxed
    agent.set_mode("acceptEdits")
    assert (session.rules.mode, agent.rules.mode) == ("acceptEdits", "plan")


def test_a_denial_to_an_agent_counts_for_the_run() -> None:
    session = PermissionStore(PermissionRules())
    call = ToolUseBlock("t1", "bash", {"command": "make"})
    NarrowedPermissions(session, None).denied.append(call)
    assert session.denied == [call]

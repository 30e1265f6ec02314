"""The user's answers about blocked accesses, without a sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from agent.events import Notice
from agent.loop.call_permission import ParsedCall
from agent.loop.call_questions import WAITING, WHY, CallQuestions
from agent.loop.session_sandbox import SessionSandbox
from agent.permissions import REACHING, PermissionRules, PermissionStore, Rule
from agent.ports import Allow, Deny
from tests.agent.loop.world import World, world
from tests.tables import each_row
from tools.base import Access
from tools.sandbox import BlockedAccess, SandboxLevel, UnblockDecision
from tools.user_questions import Preview
from transcripts.messages import (
    ToolUseBlock,
)

HOST = BlockedAccess("reach", "example.com", waiting=True)
PYPI = BlockedAccess("reach", "pypi.org", waiting=True)
FAILED = BlockedAccess("reach", "example.com", output="no route")
PORT = BlockedAccess("reach", "localhost:5432", waiting=True)
PRIVATE = BlockedAccess("reach", "example.com", waiting=True, address="10.0.0.1")


def questions_of(made: World, line: str = "make all", level: SandboxLevel = "namespaces") -> CallQuestions:
    """Return the questions of a call that runs a command line."""
    tools = made.context.tool_context
    call = ParsedCall(
        use=ToolUseBlock("call_1", "act", {"words": line}),
        tool=made.tools["act"],
        title=line,
        arguments=None,
        access=(Access("run", line, cwd=str(tools.folder)),),
    )
    home = tools.folder.parent.resolve()
    made.context.sandbox = SessionSandbox(tools, made.context.permissions, home, level=level)
    return CallQuestions(made.context, made.events.append, call)


def answer_to(refusal: BlockedAccess, made: World) -> tuple[CallQuestions, UnblockDecision]:
    """Return the decision about a blocked access, made by the next answer of the user."""
    asked = questions_of(made)
    asked.context.sandbox = None
    return asked, asyncio.run(asked.ask_about_access(refusal))


def test_a_denial_has_the_user_s_reason_and_may_end_the_turn(tmp_path: Path) -> None:
    with world(
        [], tmp_path, Deny("use the cache"), Deny(stop=True), Deny("nobody is here", unattended=True)
    ) as w:
        asked, decision = answer_to(HOST, w)
        assert decision == UnblockDecision("no", "the user declined", reason="use the cache")
        assert (asked.denied, asked.stop, asked.reason) == (True, False, "use the cache")
        asked, decision = answer_to(HOST, w)
        assert decision == UnblockDecision("no", "the user declined", stop=True)
        assert (asked.denied, asked.stop, asked.reason) == (True, True, "")
        asked, decision = answer_to(HOST, w)
        assert decision == UnblockDecision("no", "nobody is here")
        assert (asked.denied, asked.stop, asked.reason) == (True, False, "")
        denied = ToolUseBlock("call_1", "act", {"words": "make all"})
        assert w.context.permissions.denied == [denied] * 3


@each_row(
    "rules, why",
    [
        (PermissionRules(mode="plan"), "the mode is plan: access outside the sandbox is denied"),
        (PermissionRules(mode="dontAsk"), "the mode is dontAsk: access outside the sandbox is denied"),
        (PermissionRules(deny=(Rule(REACHING, "example.com"),)), "the rule net(example.com) denies this"),
    ],
)
def test_a_rule_or_a_mode_denies_without_a_question(rules: PermissionRules, why: str, tmp_path: Path) -> None:
    with world([], tmp_path) as w:
        w.context.permissions = PermissionStore(rules)
        asked, decision = answer_to(HOST, w)
        assert decision == UnblockDecision("no", why) and asked.denied and not w.approver.questions


def test_an_approval_holds_for_the_line_or_once_and_has_a_remark(tmp_path: Path) -> None:
    with world([], tmp_path, Allow(remark="be quick"), Allow("always")) as w:
        asked, decision = answer_to(FAILED, w)
        assert decision == UnblockDecision("once") and not asked.denied
        assert (asked.remark, asked.notes) == (
            "be quick",
            ("The user approved this call and says: be quick",),
        )
        [question] = w.approver.questions
        assert (question.tool, question.title, question.why) == ("act", "make all", WHY)
        assert (question.prefix, question.through, question.waits) == ("open(make all)", "", False)
        assert question.preview == Preview(text="make all", output="no route") and question.call == "call_1"
        assert not w.context.permissions.rules.allow
        answer_to(FAILED, w)
        [rule] = w.context.permissions.rules.allow
        assert str(rule) == "open(make all)"
        [notice] = w.told(Notice)
        assert notice.text.startswith("open(make all) is now always allowed in this project")


@each_row(
    "refusal, level, ask, through, prefix, port",
    [
        (HOST, "namespaces", "", "example.com", None, ""),
        (FAILED, "namespaces", "", "example.com", "open(make all)", ""),
        (HOST, "landlock", "", "", None, ""),
        (FAILED, "landlock", "", "", "open(make all)", ""),
        (HOST, "namespaces", "example.com", "", None, ""),
        (HOST, "namespaces", "example.org", "example.com", None, ""),
        (PORT, "namespaces", "", "localhost:5432", None, "localhost:5432"),
        (replace(PORT, waiting=False), "namespaces", "", "localhost:5432", None, "localhost:5432"),
        (PRIVATE, "namespaces", "", "", None, ""),
        (replace(HOST, target="1.2.3.4"), "namespaces", "", "", None, ""),
        (replace(HOST, program="ssh"), "namespaces", "", "", None, ""),
    ],
)
def test_a_question_about_a_host_offers_what_can_be_allowed(
    refusal: BlockedAccess,
    level: SandboxLevel,
    ask: str,
    through: str,
    prefix: str | None,
    port: str,
    tmp_path: Path,
) -> None:
    with world([], tmp_path) as w:
        if ask:
            w.context.permissions.ask(Rule(REACHING, ask))
        question, _ = questions_of(w, level=level)._question(refusal)
        assert question.through == (f"reach {through}" if through else "")
        assert question.remedy == (f"--allowedTools 'net({through})'" if through else "")
        assert (question.prefix, question.port) == (prefix, port)
        assert question.waits == refusal.waiting and question.why == (WAITING if question.waits else WHY)
        assert question.once == (ask == "example.com")
        unkept, _ = questions_of(w, line="", level="none")._question(refusal)
        assert (unkept.prefix, unkept.remedy, unkept.through) == (None, "--sandbox off", "")


def test_hosts_of_a_package_index_are_one_question_unless_a_rule_names_them(tmp_path: Path) -> None:
    with world([], tmp_path) as w:
        question, passage = questions_of(w)._question(PYPI)
        assert passage is not None and passage.parts == ("files.pythonhosted.org",)
        assert question.through == "reach pypi.org and files.pythonhosted.org"
        w.context.permissions.ask(Rule(REACHING, "files.pythonhosted.org"))
        _, passage = questions_of(w)._question(PYPI)
        assert passage is not None and passage.parts == ()
        _, passage = questions_of(w)._question(replace(PYPI, waiting=False))
        assert passage is not None and passage.parts == ()

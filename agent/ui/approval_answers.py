"""The answers to a permission question, for every face that shows it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from agent.permissions import EDITING
from agent.ports import Allow, PermissionQuestion, PermissionUpdate

from .terminal_text import one_line

DENIAL = "No, and tell makeroom what to do instead"


class ApprovalChoice(Struct, frozen=True):
    """One answer: its letter, its text, its meaning (None: a denial, which asks for a reason), its digit."""

    letter: str
    text: str
    answer: Allow | None
    digit: str = ""

    @property
    def lasting(self) -> bool:
        """Return whether it grants more than this call."""
        return self.answer is not None and self.answer.scope != "once"


def approval_choices(question: PermissionQuestion) -> tuple[ApprovalChoice, ...]:
    """Return the answers to a question, numbered in their order: once, in this session, no, always.

    In all questions `y` means once, `a` in this session, `n` no and `p` always in this project.
    """
    if question.preview.plan:
        offered = _plan_answers()
    elif question.refused:
        offered = _unblocking_answers(question)
    else:
        offered = _call_answers(question)
    return tuple(replace(choice, digit=str(at)) for at, choice in enumerate(offered, 1))


def _plan_answers() -> Iterator[ApprovalChoice]:
    """Yield the answers to the question whether to carry out a plan."""
    accept_edits = Allow(updates=(PermissionUpdate(mode="acceptEdits"),))
    yield ApprovalChoice("y", text="Yes, and ask before each edit", answer=Allow())
    yield ApprovalChoice("a", text="Yes, and accept all edits", answer=accept_edits)
    yield ApprovalChoice("n", text="No, keep planning, and tell makeroom what to change", answer=None)


def _call_answers(question: PermissionQuestion) -> Iterator[ApprovalChoice]:
    """Yield the answers to the question whether a call may run. Each says exactly what it allows."""
    unboxed = "without the sandbox, " if question.outside else ""
    yield ApprovalChoice("y", text=f"Yes, {unboxed}this once", answer=Allow("once"))
    if question.prefix is not None:
        text = f"Yes, and allow {_allowed_by(question.prefix)} in this session"
        if question.outside:
            text = f"Yes, and run this without the sandbox in this session: {one_line(question.prefix)}"
        yield ApprovalChoice("a", text=text, answer=Allow("session"))
    elif not question.once and not any(access.kind == "run" for access in question.access):
        special = [each for each in question.access if each.outside or each.protected]
        rules = [f"{question.tool}({each.target})" for each in special] or [question.tool]
        text = f"Yes, and allow {', '.join(map(_allowed_by, rules))} in this session"
        yield ApprovalChoice("a", text=text, answer=Allow("session"))
    yield ApprovalChoice("n", text=DENIAL, answer=None)
    if question.prefix is not None:
        text = f"Yes, and always allow {_allowed_by(question.prefix)} in this project"
        if question.outside:
            text = _always_outside(question.prefix)
        yield ApprovalChoice("p", text=text, answer=Allow("always"))


def _always_outside(rule: str) -> str:
    return f"Yes, and always run this without the sandbox: {one_line(rule)}"


def _allowed_by(rule: str) -> str:
    """Describe the calls that a rule allows; a rule with a pattern says it best itself."""
    if rule == EDITING:
        return "all edits"
    return one_line(rule) if "(" in rule else f"all calls of {one_line(rule)}"


def _unblocking_answers(question: PermissionQuestion) -> Iterator[ApprovalChoice]:
    """Yield the answers to the question whether a blocked command may run with more access."""
    text = "Yes, rerun without the sandbox, this once"
    if question.waits:
        text = "Yes, while this command runs" if question.through or question.once else "Yes, in this session"
    elif question.port:
        text = "Yes, in this session, and rerun the command"
    yield ApprovalChoice("y", text=text, answer=Allow("session" if question.port else "once"))
    if question.waits and question.through:
        text = f"Yes, and let commands {one_line(question.through)} in this session"
        yield ApprovalChoice("a", text=text, answer=Allow("session"))
    yield ApprovalChoice("n", text=DENIAL, answer=None)
    if question.through:
        text = f"Yes, and always allow commands in this project to {one_line(question.through)}"
        yield ApprovalChoice("p", text=text, answer=Allow("through"))
    if question.prefix is not None:
        text = _always_outside(question.prefix)
        yield ApprovalChoice("o" if question.through else "p", text=text, answer=Allow("always"))

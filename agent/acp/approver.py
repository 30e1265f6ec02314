"""The editor as approver: it shows permission questions, plans and the questions of the model."""

from __future__ import annotations

from collections.abc import Callable

from acp import Client, RequestError, text_block, tool_content
from acp.schema import (
    AllowedOutcome,
    PermissionOption,
    PermissionOptionKind,
    ToolCallLocation,
    ToolCallUpdate,
    ToolKind,
)

from agent.ports import Allow, Deny, PermissionQuestion
from agent.ui import approval_choices
from tools.user_questions import ANSWERS

from .contents import CallContent, code_block, diff_contents
from .updates import SessionUpdates, named

NO = "No"  # an editor has no place for the reason
SKIP = "skip"  # the id of the option that leaves a question of the model unanswered


class EditorApprover:
    """A ports.Approver: the editor asks its user."""

    def __init__(self, client: Client, updates: SessionUpdates, mask: Callable[[str], str]) -> None:
        self._client = client
        self._updates = updates
        self._mask = mask
        self.session = ""

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        try:
            if question.preview.questions:
                return await self._ask_questions(question)
            return await self._ask_permission(question)
        except (RequestError, ConnectionError) as error:
            return Deny(f"the editor did not answer: {error}", unattended=True)

    async def _ask_permission(self, question: PermissionQuestion) -> Allow | Deny:
        choices = {choice.letter: choice for choice in approval_choices(question)}
        options = [
            PermissionOption(
                option_id=letter,
                name=self._mask(choice.text) if choice.answer is not None else NO,
                kind=_kind_of(choice.answer, letter),
            )
            for letter, choice in choices.items()
        ]
        is_plan = bool(question.preview.plan)
        title = "Carry out this plan?" if is_plan else named(question.tool, question.title)
        kind: ToolKind | None = "switch_mode" if is_plan else None
        chosen = await self._choose(question, title, self._content(question), options, kind)
        if chosen is None:
            return Deny(stop=True)
        return choices[chosen].answer or Deny()

    async def _ask_questions(self, question: PermissionQuestion) -> Allow | Deny:
        """Ask the model's questions one after another; an editor takes one answer to each."""
        answers: dict[str, str] = {}
        for each in question.preview.questions:
            lines = [
                f"- {option.label}: {option.description}" for option in each.options if option.description
            ]
            options = [
                PermissionOption(option_id=str(number), name=self._mask(option.label), kind="allow_once")
                for number, option in enumerate(each.options)
            ]
            options.append(PermissionOption(option_id=SKIP, name="Skip this question", kind="reject_once"))
            content = [_text(self._mask("\n".join(lines)))] if lines else []
            chosen = await self._choose(question, each.question, content, options, "other")
            if chosen is None:
                return Deny(stop=True)
            if chosen != SKIP:
                answers[each.question] = each.options[int(chosen)].label
        return Allow(updated_input={**question.input, ANSWERS: answers}) if answers else Deny()

    async def _choose(
        self,
        question: PermissionQuestion,
        title: str,
        content: list[CallContent],
        options: list[PermissionOption],
        kind: ToolKind | None,
    ) -> str | None:
        """Return the id of the chosen option, None if the turn was cancelled."""
        await self._updates.outbox.flush()  # the editor knows the call by then
        asker = f"[{question.asker}] " if question.asker else ""
        places = (each for each in question.access if each.kind in ("read", "write"))
        call = ToolCallUpdate(
            tool_call_id=self._updates.call_known(question.call) or question.call or "question",
            title=self._mask(f"{asker}{title}"),
            kind=kind,
            status="pending",
            content=list(content),
            locations=[ToolCallLocation(path=each.target) for each in places],
        )
        answer = await self._client.request_permission(self.session, call, options)
        outcome = answer.outcome
        ids = {option.option_id for option in options}
        is_known = isinstance(outcome, AllowedOutcome) and outcome.option_id in ids
        return outcome.option_id if isinstance(outcome, AllowedOutcome) and is_known else None

    def _content(self, question: PermissionQuestion) -> list[CallContent]:
        """Return the whole call in question, and the reason for the question."""
        preview = question.preview
        shown: list[CallContent] = []
        if preview.plan:
            return [_text(self._mask(preview.plan))]
        if preview.diff:
            path = next((each.target for each in question.access if each.kind == "write"), question.title)
            shown = diff_contents(path, self._mask(preview.diff))
        elif text := preview.text or question.title:
            shown = [_text(code_block(self._mask(text)))]
        reason = "" if preview.diff and question.cause == "edit" else question.why
        why = [question.refused, reason]
        why += [
            f"{each.kind}s outside the project: {each.target}"
            for each in question.access
            if each.outside and each.kind in ("read", "write")
        ]
        reasons = "\n\n".join(filter(None, why))
        return [*shown, _text(self._mask(reasons))] if reasons else shown


def _kind_of(answer: Allow | None, letter: str) -> PermissionOptionKind:
    if answer is None:
        return "reject_once"
    return "allow_once" if letter == "y" else "allow_always"


def _text(text: str) -> CallContent:
    return tool_content(text_block(text))

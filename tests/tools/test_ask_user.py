"""Questions and plans as tools: the result for each answer, and when no one is there."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.tables import each_row
from tools import ask_user, exit_plan
from tools.base import Tool, ToolCall, ToolContext, ToolError, ToolResult
from tools.user_questions import UserAnswer

from .bash_session import text
from .tool_run import run_tool

PLACE = Path("/nowhere")
OPTIONS = [{"label": "arrow", "description": "small"}, {"label": "pendulum"}]
ASKED = {"question": "Which one?", "header": "Library for dates", "options": OPTIONS}


@dataclass
class Planning:
    """Plan mode as a session has it."""

    planning: bool = True

    def leave_plan(self) -> None:
        self.planning = False


def result_of(tool: Tool, answer: UserAnswer | None, mode: Planning | None, **given: Any) -> ToolResult:
    async def say() -> UserAnswer:
        assert answer is not None
        return answer

    context = replace(ToolContext(PLACE, PLACE, PLACE, PLACE), plan_mode=mode)
    call = ToolCall(context, ask=say if answer is not None else None)
    return asyncio.run(run_tool(tool, tool.parse(given), call))


@each_row(
    ("answer", "told"),
    [
        (UserAnswer("yes", {"answers": {"Which one?": "arrow"}}), "answered:\nWhich one? arrow"),
        (UserAnswer("yes", {"answers": {"Which one?": ["a", "b"]}}), "Which one? a, b"),
        (UserAnswer("yes", {}), "Which one? (no answer)"),
        (UserAnswer("yes", {"answers": "yes"}), "Which one? (no answer)"),
        (UserAnswer("no"), "declined to answer"),
        (UserAnswer("no", reason="ask Bob"), "The user said: ask Bob"),
    ],
)
def test_what_was_answered_is_reported_with_its_question(answer: UserAnswer, told: str) -> None:
    result = result_of(ask_user.TOOL, answer, None, questions=[ASKED])
    assert told in text(result) and not result.error


def test_the_user_sees_each_answer_with_the_header_of_its_question() -> None:
    two = [ASKED, {**ASKED, "question": "And then?", "header": ""}]
    answers = UserAnswer("yes", {"answers": {"And then?": ["a", "b"], "Which one?": "my own"}})
    shown = result_of(ask_user.TOOL, answers, None, questions=two).human.text
    assert shown == "Library for dates: my own\nAnd then? a, b"


def test_what_the_user_said_is_distinguished_from_what_the_model_asked() -> None:
    def said(tool: Tool, answer: UserAnswer, **given: Any) -> Any:
        return result_of(tool, answer, Planning(), **given).about.get("said")

    two = [ASKED, {**ASKED, "question": "And then?"}, {**ASKED, "question": "At last?"}]
    answers = {"And then?": ["a", "b"], "Which one?": "my own"}
    assert said(ask_user.TOOL, UserAnswer("yes", {"answers": answers}), questions=two) == [
        ["Which one?", "my own"],
        ["And then?", "a, b"],
    ]
    declined = said(ask_user.TOOL, UserAnswer("no", reason="ask Bob"), questions=two)
    assert declined == [["Which one?", "ask Bob"]]
    assert said(exit_plan.TOOL, UserAnswer("no", reason="slower"), plan="# Do it") == [["", "slower"]]
    for tool, given in ((ask_user.TOOL, {"questions": two}), (exit_plan.TOOL, {"plan": "# Do it"})):
        assert said(tool, UserAnswer("no"), **given) is None


@pytest.mark.parametrize("answer", [UserAnswer("nobody"), None])
def test_where_no_one_is_there_a_question_is_an_error_and_a_plan_the_result(answer: Any) -> None:
    with pytest.raises(ToolError, match="No one can answer"):
        result_of(ask_user.TOOL, answer, None, questions=[ASKED])
    mode = Planning()
    result = result_of(exit_plan.TOOL, answer, mode, plan="# Do it")
    assert result.ends_turn and result.human.answer == "# Do it" and mode.planning


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ToolError, match="Two of the questions are identical"):
        result_of(ask_user.TOOL, UserAnswer("yes"), None, questions=[ASKED, ASKED])
    for questions in (
        [],
        [ASKED] * 5,
        [{**ASKED, "options": OPTIONS[:1]}],
        [{**ASKED, "options": OPTIONS * 3}],
    ):
        with pytest.raises(ToolError, match="ask_user could not be called"):
            ask_user.TOOL.parse({"questions": questions})


def test_a_plan_ends_plan_mode_once_it_is_approved_and_is_as_the_user_changed_it() -> None:
    mode = Planning()
    result = result_of(exit_plan.TOOL, UserAnswer("no", reason="shorter"), mode, plan="# Do it")
    assert "did not approve the plan: shorter" in text(result) and mode.planning
    result = result_of(exit_plan.TOOL, UserAnswer("yes", {"plan": "# Do less"}), mode, plan="# Do it")
    assert text(result).endswith("this version:\n# Do less") and result.about == {"plan": "# Do less"}
    for over in (mode, None):
        with pytest.raises(ToolError, match="Plan mode is off, so"):
            result_of(exit_plan.TOOL, UserAnswer("yes"), over, plan="# Do it")
    result = result_of(exit_plan.TOOL, UserAnswer("yes"), Planning(), plan="\n## Do it\n")
    assert text(result) == "The user approved the plan. Carry it out."
    assert exit_plan.TOOL.title(exit_plan.TOOL.parse({"plan": "\n## Do it\n"})) == "Do it"

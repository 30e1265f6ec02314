"""The ask_user tool: the model asks questions with a few options; the user may also answer freely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from msgspec import Meta

from tools.parameters import Arguments
from transcripts import Display, Result

from .base import (
    SMALL_WINDOW_TOKENS,
    Tool,
    ToolCall,
    ToolContext,
    ToolError,
    ToolResult,
    decision_result,
    no_access,
)
from .user_questions import ANSWERS, NOBODY_THERE, Preview, UserQuestion

MAX_QUESTIONS = 4
DECLINED = "The user declined to answer. Continue as you judge best, or end your turn and say what you need."


class QuestionArguments(Arguments):
    """The questions to ask."""

    questions: Annotated[tuple[UserQuestion, ...], Meta(min_length=1, max_length=MAX_QUESTIONS)]


NOBODY_TO_ASK = """\
No one can answer.
Decide yourself and say what you assumed, or end your turn with the questions."""


async def ask_user(arguments: QuestionArguments, call: ToolCall) -> ToolResult:
    if len({each.question for each in arguments.questions}) < len(arguments.questions):
        raise ToolError("Two of the questions are identical.\nAsk each question once.")
    answer = await call.ask() if call.ask is not None else NOBODY_THERE
    if answer.decision == "nobody":
        raise ToolError(NOBODY_TO_ASK)
    if answer.decision == "no":
        message = f"{DECLINED}\nThe user said: {answer.reason}" if answer.reason else DECLINED
        about = Result.about_remarks((arguments.questions[0].question, answer.reason))
        return decision_result(message, human=Display(note="declined"), about=about)
    answers = list(_answers(arguments, answer.input))
    lines = [f"{question} {text or '(no answer)'}" for question, text in answers]
    message = "\n".join(["The user answered:", *lines])
    shown = [answers[0][1] or "(no answer)"]  # the title is the question
    if len(answers) > 1:  # an answer behind a long question would be cut off
        labels = [f"{each.header}:" if each.header else each.question for each in arguments.questions]
        shown = [f"{label} {text or '(no answer)'}" for label, (_, text) in zip(labels, answers, strict=True)]
    return decision_result(
        message, human=Display(text="\n".join(shown)), about=Result.about_remarks(*answers)
    )


def _answers(arguments: QuestionArguments, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (question, answer) in the order of the questions; "" for one that was not answered."""
    answers = given.get(ANSWERS)
    answers = answers if isinstance(answers, Mapping) else {}
    for each in arguments.questions:
        answer = answers.get(each.question)
        text = ", ".join(map(str, answer)) if isinstance(answer, list | tuple) else str(answer or "")
        yield each.question, text


def _preview(arguments: QuestionArguments, context: ToolContext) -> Preview:
    return Preview(questions=arguments.questions)


TOOL = Tool(
    name="ask_user",
    description="""\
Ask the user and wait for the answer. Use it only if a wrong guess would waste work and the project does \
not answer the question. The user can always type another answer, so do not offer "other"; put your \
recommendation first.""",
    arguments=QuestionArguments,
    kind="asks",
    title=lambda arguments: arguments.questions[0].question,
    access=no_access,
    preview=_preview,
    run=ask_user,
    for_agents=False,
    least_window=SMALL_WINDOW_TOKENS + 1,
)

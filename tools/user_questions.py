"""Questions to the user about a call: their preview, those of the model, and the answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct, field

ANSWERS = "answers"  # the field of a changed input with the answers: {question: answer}
MAX_QUESTION_HEADER_CHARS = 12  # in the schema; a longer one is cut on the screen
MIN_OPTIONS = 2
MAX_OPTIONS = 4


class QuestionOption(Struct, frozen=True, kw_only=True):
    """An answer to choose from."""

    label: Annotated[str, Meta(min_length=1)]
    description: str = ""


class UserQuestion(Struct, frozen=True, kw_only=True):
    """A question with its options."""

    question: Annotated[str, Meta(min_length=1)]
    header: Annotated[str, Meta(extra_json_schema={"maxLength": MAX_QUESTION_HEADER_CHARS})] = ""
    options: Annotated[tuple[QuestionOption, ...], Meta(min_length=MIN_OPTIONS, max_length=MAX_OPTIONS)]
    multiSelect: bool = False


class Preview(Struct, frozen=True):
    """The view of a call before it runs, which faces show with control characters escaped.

    text       a command, or another text that says what the call does
    output     of the command's last run in the sandbox, which blocked an access
    diff       the change of a file
    changes    the call changes anything, as far as is known; if not, no one is asked
    plan       a plan to approve, in Markdown
    questions  the model's questions, instead of the question whether the call may run
    """

    text: str = ""
    output: str = ""
    diff: str = ""
    changes: bool = True
    plan: str = ""
    questions: tuple[UserQuestion, ...] = ()


class UserAnswer(Struct, frozen=True):
    """The user's answer: "yes", "no", or "nobody" if there is no one to ask.

    `input` is the call's input if the user changed it, `reason` the user's reason for a "no".
    """

    decision: Literal["yes", "no", "nobody"]
    input: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


NOBODY_THERE = UserAnswer("nobody")
AskUser = Callable[[], Awaitable[UserAnswer]]


class PlanMode(Protocol):
    """The plan mode of a session, and the way out of it."""

    @property
    def planning(self) -> bool: ...

    def leave_plan(self) -> None:
        """Leave plan mode to carry out the plan, unless that was done already."""

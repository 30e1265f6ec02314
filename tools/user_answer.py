"""The user's answer to a question of a tool: plain data between tools and whoever asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct, field

ANSWERS = "answers"  # the field of a changed input with the answers: {question: answer}


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

"""The user's answer to a question of a tool: plain data between tools and whoever asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol

from msgspec import Struct, field

ANSWERS = "answers"  # the field of a changed input that has what was answered: {question: answer}


class UserAnswer(Struct, frozen=True):
    """ "yes", "no", or "nobody" where none is there to ask.

    `input` is the call's input as they changed it, where they did; `reason` what they said to a no.
    """

    said: Literal["yes", "no", "nobody"]
    input: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


NOBODY_THERE = UserAnswer("nobody")
AskUser = Callable[[], Awaitable[UserAnswer]]


class PlanMode(Protocol):
    """The plan mode of a session, and the way out of it."""

    @property
    def planning(self) -> bool: ...

    def leave_plan(self) -> None:
        """Go back to a mode that works, unless that was done already."""

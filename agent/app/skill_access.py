"""Give a session its commands and skills: what uses them is loaded when there are any, 10 ms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any

from agent.loop.context import TurnContext
from agent.session.session import Session

from .composition import Services

_SKILLS_MODULE = f"{__package__}.skill_runs"


def give_skills(
    services: Services,
    session: Session,
    context: TurnContext,
    use_model: Callable[[str], Awaitable[None]] | None = None,
) -> None:
    """Let the tools of a session, and its prompts, use commands and skills.

    `use_model` changes the session's model; None in a session within another one, where skills take nothing:
    no rights, no model, no effort.
    """

    @cache
    def made() -> Any:
        return import_module(_SKILLS_MODULE).SessionSkills(services, session, context, use_model)

    context.tool_context.skills = lambda: made() if services.skills.skills else None

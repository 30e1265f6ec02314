"""The context of a session's commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from msgspec import field

from tools.files import Workspace
from transcripts.secrets import SecretMasks

from .inbox import Inbox

if TYPE_CHECKING:
    from transcripts import RecordsGuard

    from .jobs import BackgroundJob


class SessionJobs(Protocol):
    """The background commands of a session."""

    @property
    def running(self) -> list[BackgroundJob]: ...


class CommandContext(Workspace):
    """A workspace in which commands run.

    session   the session's id, which is part of the names of files in `outputs`
    attended  a user is present, so a command that exceeds its time limit continues in the background
    pass_env  variables that commands get although they look like credentials
    masks     values that are masked in stored outputs
    records   restores transcripts; None if the project has none
    jobs      the session's CommandRunner, made on first use
    inbox     notes for the model of this session
    offers    returns whether the model is offered a tool with this name
    """

    session: str = "session"
    attended: bool = False
    pass_env: frozenset[str] = frozenset()
    masks: SecretMasks = field(default_factory=SecretMasks)
    records: RecordsGuard | None = None
    jobs: SessionJobs | None = None
    inbox: Inbox = field(default_factory=Inbox)
    offers: Callable[[str], bool] = lambda name: True

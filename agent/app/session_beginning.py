"""How a session begins: the wall around its commands, and what hooks have to say before its first prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from agent.events import Emit
from agent.loop.compaction import tokens_when_cold
from agent.loop.context import TurnContext
from agent.loop.cost_preview import show_resumed
from agent.ports import HookEvent
from agent.session.environment_context import in_hook_tags
from agent.session.session import Session

from .composition import Services
from .session_factory import raise_wall
from .setup import RunSetup
from .start_screen import announce


class SessionBeginning:
    """What has to be over before the first prompt of a session, under way once it is made.

    wall  done when the wall around commands stands; raises ConfigError
    over  done when the first prompt may go out; the same
    """

    def __init__(
        self,
        session: Session,
        context: TurnContext,
        source: str,
        tell_missing_wall: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._session, self._context, self._source, self._tell = session, context, source, tell_missing_wall
        self.wall = asyncio.ensure_future(self._raise_wall())
        self.over = asyncio.ensure_future(self._ask_hooks())

    async def cancel(self) -> None:
        """Wait for no hook any more; the wall is there then, or will never be."""
        self.over.cancel()
        await asyncio.gather(self.wall, self.over, return_exceptions=True)

    async def _raise_wall(self) -> None:
        if missing := await raise_wall(self._session, self._context):
            self._tell(missing)

    async def _ask_hooks(self) -> None:
        await asyncio.shield(self.wall)
        if self._context.hooks is not None:
            about = {"source": self._source, "model": self._context.settings.model}
            answer = await self._context.hooks.run(HookEvent.SESSION_START, about)
            if answer.words:
                self._context.tool_context.inbox.post(in_hook_tags(answer.words))


def first_beginning(services: Services, session: Session, context: TurnContext) -> SessionBeginning:
    """Begin the session that the program was started for."""
    options = services.setup.options
    source = "startup" if options.resume is None else "fork" if options.fork_session else "resume"
    if options.headless:
        return SessionBeginning(session, context, source)
    return SessionBeginning(session, context, source, services.warn)


def greet(setup: RunSetup, session: Session, context: TurnContext, emit: Emit) -> None:
    """Say what the session is: how it went so far, or that it is new."""
    if session.folded.entries:
        show_resumed(session, context, emit, tokens_when_cold)
    else:
        announce(setup, context.settings.model, emit)

"""Tell hooks that the person is waited for: at a question, and where nothing happens after a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.formatting import client_name
from agent.ports import Allow, Approver, Deny, HookAnswer, HookEvent, Hooks, PermissionQuestion

IDLE_NOTICE_S = 60.0  # after a turn without anything new


@dataclass(frozen=True, slots=True)
class NotifyingApprover:
    """Asks another approver, and tells the hooks of that moment, for which nobody waits.

    Implements ports.Approver.
    """

    approver: Approver
    hooks: Callable[[], Hooks | None]
    _telling: set[asyncio.Future[HookAnswer]] = field(default_factory=set)

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """See ports.Approver."""
        if (hooks := self.hooks()) is not None:
            message = f"makeroom needs your permission to use {client_name(question.tool)}"
            _notify(hooks, message, "permission_prompt", self._telling)
        return await self.approver.ask(question)


@dataclass(slots=True)
class IdleNotices:
    """Hooks that are told besides when nothing came for a minute after a turn. Implements ports.Hooks."""

    hooks: Hooks
    _timer: asyncio.TimerHandle | None = None
    _telling: set[asyncio.Future[HookAnswer]] = field(default_factory=set)

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks; whatever happens stops the wait."""
        if self._timer is not None:
            self._timer.cancel()
        answer = await self.hooks.run(event, about)
        if event is HookEvent.STOP and answer.veto is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_NOTICE_S, self._notify)
        return answer

    def _notify(self) -> None:
        _notify(self.hooks, "makeroom is waiting for your input", "idle_prompt", self._telling)


def _notify(hooks: Hooks, message: str, kind: str, telling: set[asyncio.Future[HookAnswer]]) -> None:
    told = asyncio.ensure_future(hooks.run(HookEvent.NOTIFICATION, {"message": message, "type": kind}))
    telling.add(told)
    told.add_done_callback(telling.discard)

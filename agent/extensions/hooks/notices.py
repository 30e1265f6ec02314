"""Notify hooks when makeroom waits for the user: at a question, and some time after a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agent.client_names import client_name
from agent.ports import Allow, Approver, Deny, HookAnswer, HookEvent, Hooks, PermissionQuestion

IDLE_NOTICE_S = 60.0  # after the end of a turn without further events


class _Notices:
    """The notices in progress, which are not waited for."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[HookAnswer]] = set()

    def send(self, hooks: Hooks, message: str, kind: str) -> None:
        about = {"message": message, "type": kind}
        notice = asyncio.ensure_future(hooks.run(HookEvent.NOTIFICATION, about))
        self._under_way.add(notice)
        notice.add_done_callback(self._under_way.discard)


class NotifyingApprover:
    """Asks another approver, and notifies the hooks. Implements ports.Approver."""

    def __init__(self, approver: Approver, hooks: Callable[[], Hooks | None]) -> None:
        self.approver = approver
        self._hooks = hooks
        self._notices = _Notices()

    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        """See ports.Approver."""
        hooks = self._hooks()
        if hooks is not None:
            message = f"makeroom needs your permission to use {client_name(question.tool)}"
            self._notices.send(hooks, message, "permission_prompt")
        return await self.approver.ask(question)


class IdleNotices:
    """Hooks that are also notified if nothing happens for a minute after a turn. Implements ports.Hooks."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._timer: asyncio.TimerHandle | None = None
        self._notices = _Notices()

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks. Any event stops the wait."""
        if self._timer is not None:
            self._timer.cancel()
        answer = await self._hooks.run(event, about)
        if event is HookEvent.STOP and answer.veto is None:
            self._timer = asyncio.get_running_loop().call_later(IDLE_NOTICE_S, self._notify)
        return answer

    def _notify(self) -> None:
        self._notices.send(self._hooks, "makeroom is waiting for your input", "idle_prompt")

"""Hooks are notified that makeroom waits for the user, and nothing waits for them."""

import asyncio
from typing import Any

import pytest

from agent.extensions.hooks import notices
from agent.extensions.hooks.notices import IdleNotices, NotifyingApprover
from agent.ports import Allow, Deny, HookAnswer, HookEvent, PermissionQuestion
from tools.user_questions import Preview

BASH = PermissionQuestion("bash", "make", (), "", None, Preview())


class Told:
    """Hooks that keep their notifications; `noticed` is set by the first one."""

    def __init__(self, veto: str | None = None) -> None:
        self.answer, self.told, self.noticed = HookAnswer(veto), list[str](), asyncio.Event()

    async def run(self, event: HookEvent, about: Any) -> HookAnswer:
        if event is HookEvent.NOTIFICATION:
            self.told.append(f"{about['type']}: {about['message']}")
            self.noticed.set()
        return self.answer


class User:
    async def ask(self, question: PermissionQuestion) -> Allow | Deny:
        return Allow()


def test_a_question_is_reported_to_the_hooks_of_that_moment() -> None:
    hooks = Told()

    async def ask() -> None:
        assert await NotifyingApprover(User(), lambda: None).ask(BASH) == Allow()
        assert await NotifyingApprover(User(), lambda: hooks).ask(BASH) == Allow()
        assert hooks.told == []
        await hooks.noticed.wait()

    asyncio.run(ask())
    assert hooks.told == ["permission_prompt: makeroom needs your permission to use Bash"]


def test_a_minute_after_a_turn_without_anything_new_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "IDLE_NOTICE_S", 0.01)

    async def wait(hooks: Told, limit_s: float, *events: HookEvent) -> list[str]:
        watched = IdleNotices(hooks)
        for event in events:
            await watched.run(event, {})
        waiting = asyncio.ensure_future(hooks.noticed.wait())
        await asyncio.wait({waiting}, timeout=limit_s)
        waiting.cancel()
        return hooks.told

    idle = ["idle_prompt: makeroom is waiting for your input"]
    assert asyncio.run(wait(Told(), 20, HookEvent.PROMPT, HookEvent.STOP)) == idle
    assert asyncio.run(wait(Told(), 0.1, HookEvent.STOP, HookEvent.PROMPT)) == []
    assert asyncio.run(wait(Told("go on"), 0.1, HookEvent.STOP)) == []

"""The status line: model, context and its state, cost, mode, what waits. Less on narrow screens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.formatting import count

from .escape import one_line
from .labels import RenderContext
from .text_cells import fit, width
from .theme import MODE_ROLES, STATE_ROLES

if TYPE_CHECKING:
    from agent.ports import Status

MODE_NAMES = {
    "manual": "asks first",
    "acceptEdits": "accepts edits",
    "plan": "plans only",
    "dontAsk": "denies what is not allowed",
    "bypassPermissions": "BYPASSES PERMISSIONS",
}
SEPARATOR = " · "


def status_line(status: Status | None, queued: int, look: RenderContext) -> str:
    """One line in `look.columns`: what does not fit is left out, the least important first."""
    if status is None:
        return look.theme.paint("dim", "starting…"[: look.columns])
    parts = _parts(status, queued)
    while len(parts) > 1 and _size(parts) > look.columns:
        parts.remove(max(parts, key=lambda part: part[0]))
    paint = look.theme.paint
    shown = [paint(role, text[: look.columns]) for _, role, text in parts]
    return fit(paint("dim", SEPARATOR).join(shown), look.columns)


def _size(parts: list[tuple[int, str, str]]) -> int:
    return sum(width(text) for _, _, text in parts) + len(SEPARATOR) * (len(parts) - 1)


def _parts(status: Status, queued: int) -> list[tuple[int, str, str]]:
    """(rank, role, text) in the order of showing; the highest rank goes first when room is short."""
    parts = [(4, "dim", one_line(status.model)), _context(status)]
    if status.cost >= 0.00005:
        parts.append((3, "dim", f"${status.cost:.2f}" if status.cost >= 0.005 else f"${status.cost:.4f}"))
    parts.append((1, MODE_ROLES.get(status.mode, "dim"), MODE_NAMES.get(status.mode, one_line(status.mode))))
    if queued:
        parts.append((2, "accent", f"{queued} queued"))
    if status.jobs:
        parts.append((2, "accent", f"{status.jobs} job" + ("s" if status.jobs > 1 else "")))
    if status.note:
        parts.append((5, "dim", one_line(status.note)))
    return parts


def _context(status: Status) -> tuple[int, str, str]:
    role = STATE_ROLES.get(status.state, "dim")
    if status.tokens is None or not status.window:
        return (0, "dim", f"context ? of {count(status.window)}" if status.window else "context ?")
    share = f"{min(status.tokens / status.window, 9.99):.0%} of {count(status.window)}"
    return (0, role, share if status.state == "NORMAL" else f"{share} {status.state}")


class StatusHint:
    """A word on what the last key did, in place of the status line for a moment."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.text = ""
        self._about = ""
        self._changed = changed
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0

    def show(self, about: str, text: str, seconds: float) -> None:
        """Show the text for so long; `about` names it for `again`."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self.text, self._about, self._since = text, about, loop.time()
        self._timer = loop.call_later(seconds, self._clear)
        self._changed()

    def again(self, about: str, seconds: float) -> bool:
        """Whether the hint of that name was shown within so many seconds."""
        return self._about == about and asyncio.get_running_loop().time() - self._since <= seconds

    def _clear(self) -> None:
        self.text = self._about = ""
        self._timer = None
        self._changed()

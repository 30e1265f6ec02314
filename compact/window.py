"""The window and how full it is: when a warning is shown, when a summary is due, when it is over."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .settings import CompactSettings


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """What fits: `size` input tokens, and `max_output` tokens that a reply may take."""

    size: int
    max_output: int = 32_000


class WindowState(StrEnum):
    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"
    BLOCKING = "blocking"
    EXHAUSTED = "exhausted"


WARNING, CRITICAL, BLOCKING, EXHAUSTED = 80, 95, 98, 100  # percent of the input window


def percent(tokens: int, window: ContextWindow) -> float:
    """How much of the window `tokens` take, 0 to 100 and beyond."""
    return 100 * tokens / max(1, window.size)


def state_of(tokens: int, window: ContextWindow, settings: CompactSettings) -> WindowState:
    """The state at `tokens` (the model's). BLOCKING only where nothing makes room by itself."""
    share = percent(tokens, window)
    if share >= EXHAUSTED:
        return WindowState.EXHAUSTED
    if share >= BLOCKING and not settings.automatic:
        return WindowState.BLOCKING
    if share >= CRITICAL:
        return WindowState.CRITICAL
    return WindowState.WARNING if share >= WARNING else WindowState.NORMAL


def trigger_of(window: ContextWindow, settings: CompactSettings) -> int:
    """The size, in the model's tokens, from which on a summary is due."""
    if settings.trigger is not None:
        return min(settings.trigger, window.size)
    if settings.policy == "classic":
        return min(settings.classic_trigger, int(settings.classic_share * window.size))
    roomy = window.size - window.max_output - settings.trigger_reserve
    most = int(settings.trigger_share * window.size)
    return max(min(roomy, most), int(settings.trigger_least * window.size))

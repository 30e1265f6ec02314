"""The model's context window: how full it is, and the size at which a summary is due."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .settings import CompactSettings

WARNING_PERCENT, CRITICAL_PERCENT, BLOCKING_PERCENT, EXHAUSTED_PERCENT = 80, 95, 98, 100  # of the window


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """`size` input tokens fit, and a reply may take `max_output` tokens."""

    size: int
    max_output: int = 32_000


class WindowState(StrEnum):
    NORMAL = "normal"
    WARNING = "warning"
    CRITICAL = "critical"
    BLOCKING = "blocking"
    EXHAUSTED = "exhausted"


def percent(tokens: int, window: ContextWindow) -> float:
    """The share of the window that `tokens` take, in percent; more than 100 where they do not fit."""
    return 100 * tokens / max(1, window.size)


def state_of(tokens: int, window: ContextWindow, settings: CompactSettings) -> WindowState:
    """The state of the window at `tokens`; BLOCKING only while automatic compaction is off."""
    used = percent(tokens, window)
    if used >= EXHAUSTED_PERCENT:
        return WindowState.EXHAUSTED
    if used >= BLOCKING_PERCENT and not settings.automatic:
        return WindowState.BLOCKING
    if used >= CRITICAL_PERCENT:
        return WindowState.CRITICAL
    return WindowState.WARNING if used >= WARNING_PERCENT else WindowState.NORMAL


def trigger_of(window: ContextWindow, settings: CompactSettings) -> int:
    """The prompt size at which a summary is due, in the model's tokens."""
    if settings.trigger is not None:
        return min(settings.trigger, window.size)
    if settings.policy == "classic":
        return min(settings.classic_trigger_tokens, int(settings.classic_trigger_share * window.size))
    free = window.size - window.max_output - settings.trigger_reserve_tokens
    highest = int(settings.trigger_max_share * window.size)
    return max(min(free, highest), int(settings.trigger_min_share * window.size))

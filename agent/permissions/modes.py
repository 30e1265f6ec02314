"""The permission modes and their names. In a separate module, since the first paint needs no rules."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)


def mode_named(text: str) -> Mode | None:
    """Return the mode of that name (also a name of Claude Code), None if there is none."""
    name = "manual" if text in ("default", "auto") else text
    return next((mode for mode in MODES if mode == name), None)


def client_mode(mode: str) -> str:
    """Return a permission mode as Claude Code and its clients call it."""
    return "default" if mode == "manual" else mode

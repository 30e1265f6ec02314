"""The permission modes and their names, apart from the rules: the first paint needs no more."""

from __future__ import annotations

from typing import Literal, get_args

Mode = Literal["manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
WRITES_A_FILE = "it writes a file"  # why a plain edit is asked about; a diff says as much
OUTSIDE = "outside the project"  # why a place is asked about, which stands beside it


def mode_named(text: str) -> Mode | None:
    """Find the mode of that name, also as Claude Code calls it; None where there is none."""
    name = "manual" if text in ("default", "auto") else text
    return next((mode for mode in MODES if mode == name), None)


def client_mode(mode: str) -> str:
    """Return a permission mode as Claude Code and its clients call it."""
    return "default" if mode == "manual" else mode

"""The permission modes and their names, apart from the rules: the first paint needs no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

Mode = Literal["manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]
MODES: tuple[Mode, ...] = get_args(Mode)
WRITES_A_FILE = "it writes a file"  # why a plain edit is asked about; a diff says as much
OUTSIDE = "outside the project"  # why a place is asked about, which stands beside it
_MODES_OF_CLIENTS: Mapping[str, Mode] = {"default": "manual", "auto": "manual"}


def mode_named(text: str) -> Mode | None:
    """The mode of that name, also as Claude Code calls it; None where there is none."""
    name = _MODES_OF_CLIENTS.get(text, text)
    return next((mode for mode in MODES if mode == name), None)


def client_mode(mode: str) -> str:
    """A permission mode as Claude Code and its clients call it."""
    return "default" if mode == "manual" else mode

"""Colours: one table of roles, as SGR numbers for what is printed and as styles for the live part.

Only the sixteen colours of the terminal are used, so that its own palette decides how they look, in the
light and in the dark. Without colour (NO_COLOR, --color never) weight and dimness remain.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# role -> (attributes kept without colour, colours), as SGR numbers
ROLES: Mapping[str, tuple[str, str]] = {
    "dim": ("2", ""),
    "bold": ("1", ""),
    "italic": ("3", ""),
    "thinking": ("2;3", ""),
    "user": ("1", ""),
    "accent": ("", "36"),
    "good": ("", "32"),
    "bad": ("", "31"),
    "warning": ("", "33"),
    "added": ("", "32"),
    "removed": ("", "31"),
    "hunk": ("2", "36"),
    "room": ("", "35"),
    "command": ("1", ""),
    "error": ("1", "31"),
    **{f"chart{at}": ("", str(code)) for at, code in enumerate((36, 34, 33, 35, 32, 31, 96, 95))},
}
# Classes of prompt_toolkit for what is laid out by its windows.
STYLES: Mapping[str, str] = {
    "rule": "ansibrightblack",
    "prompt": "bold",
    "shell": "bold ansiyellow",
    "chip": "ansicyan",
    "menu": "",
    "menu.current": "ansicyan bold",
    "menu.about": "ansibrightblack",
    "hint": "ansibrightblack",
    "search": "ansicyan",
}
PLAIN_STYLES: Mapping[str, str] = {
    "prompt": "bold",
    "shell": "bold reverse",
    "chip": "underline",
    "menu.current": "bold",
    "search": "bold",
}
STATE_ROLES: Mapping[str, str] = {
    "NORMAL": "good",
    "WARNING": "warning",
    "CRITICAL": "bad",
    "BLOCKING": "error",
    "EXHAUSTED": "error",
}
MODE_ROLES: Mapping[str, str] = {
    "manual": "dim",
    "acceptEdits": "room",
    "plan": "accent",
    "dontAsk": "accent",
    "bypassPermissions": "error",
}


@dataclass(frozen=True, slots=True)
class Theme:
    """Whether colours are wanted, and weights; `paint` is how the rest of this room makes SGR codes."""

    colour: bool = True
    weight: bool = True

    def paint(self, role: str, text: str) -> str:
        """One line of text in a role; the codes are closed at its end."""
        plain, colour = ROLES[role]
        wanted = (plain if self.weight else "", colour if self.colour else "")
        codes = ";".join(code for code in wanted if code)
        return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def wants_colour(choice: str, environ: Mapping[str, str], is_terminal: bool) -> bool:
    """What --color and the environment come to; NO_COLOR counts when it is not empty (no-color.org)."""
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return is_terminal and environ.get("TERM") != "dumb"

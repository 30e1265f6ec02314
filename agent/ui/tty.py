"""Whether somebody is there, and whether one can draw for them. Imports nothing heavy."""

from __future__ import annotations

import os
import sys


def at_terminal() -> bool:
    """Whether a person is there."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def at_screen(plain: bool) -> bool:
    """Whether a person is there, at a terminal on which one can draw."""
    return at_terminal() and not plain and os.environ.get("TERM") != "dumb"

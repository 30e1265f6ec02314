"""Read what a user types: slash commands, and paths in quotes."""

from __future__ import annotations

import os
from collections.abc import Callable


def is_command(text: str, exists: Callable[[str], bool] = os.path.lexists) -> bool:
    """Return whether a line is a slash command and not text that starts with a path: `/usr/lib is slow`."""
    if not text.startswith("/") or "\n" in text.split(" ")[0]:
        return False
    word = text[1:].split(maxsplit=1)[0] if text[1:].strip() and not text[1].isspace() else ""
    return bool(word) and "/" not in word and not exists(f"/{word}")


def unquoted(path: str) -> str:
    """Return a typed path without the quotes around it."""
    return path[1:-1] if len(path) > 1 and path[0] in "\"'" and path[-1] == path[0] else path

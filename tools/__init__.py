"""What can be done: the tools that the model calls, by name; importing this loads none of them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import Tool

BUILTIN = ("bash", "read", "write", "edit", "compact", "recall")


def load() -> tuple[Tool, ...]:
    """The tools of BUILTIN in its order. Tool `grep` is the object GREP of the module tools/grep.py."""
    return tuple(getattr(import_module(f".{name}", __name__), name.upper()) for name in BUILTIN)

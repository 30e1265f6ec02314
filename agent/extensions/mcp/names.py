"""Names of servers and of their tools: `mcp__server__tool`, within the limits of the API. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from agent.permissions import FOREIGN_PREFIX


def server_words(names: Iterable[str]) -> dict[str, str]:
    """Return a unique word for each server, which represents it in the names of its tools.

    A word does not contain `__`, since a rule about one server must not cover the tools of another.
    """
    words: dict[str, str] = {}
    for name in sorted(set(names), key=lambda each: (_word(each) != each, each)):
        word = _word(name) or "server"
        words[name] = word if word not in words.values() else f"{word}_{_digest(name)}"
    return words


def tool_names(word: str, names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return `mcp__server__tool` for each tool of a server, except names that are too long.

    A digest is appended to a name that is already in use or in `taken`.
    """
    found: dict[str, str] = {}
    used = set(taken)
    for name in sorted(set(names), key=lambda each: (_plain(each) != each, each)):
        full = f"{FOREIGN_PREFIX}{word}__{_plain(name)}"
        if full in used:
            full = f"{full}_{_digest(name)}"
        if name and len(full) <= 128:  # the limit of the API
            found[name] = full
            used.add(full)
    return found


class MeantCall(NamedTuple):
    """The name and the input of a call as they are displayed."""

    name: str
    input: Any


def meant_call(name: str, given: Any) -> MeantCall:
    """Return the call of a server's tool that a call through the tool `mcp` stands for; others unchanged."""
    if name != "mcp" or not isinstance(given, dict) or given.get("action") != "call":
        return MeantCall(name, given)
    tool = str(given.get("tool", ""))
    if not tool.startswith(FOREIGN_PREFIX):
        tool = f"{FOREIGN_PREFIX}{_word(str(given.get('server', '')))}__{_plain(tool)}"
    arguments = given.get("arguments")
    return MeantCall(tool, arguments if isinstance(arguments, dict) else {})


def _plain(name: str) -> str:
    """Replace the characters that are not allowed in a name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _word(name: str) -> str:
    return re.sub(r"__+", "_", _plain(name)).strip("_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]

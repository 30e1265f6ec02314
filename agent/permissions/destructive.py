"""Whether a command line, roughly read, would remove the whole of a home, of the system, or of what is above.

Asked about in every mode. A mistake is meant here, not an attack: who may run anything can hide anything.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from .shell_syntax import rough_commands

_SYSTEM = (
    "bin|boot|dev|etc|home|lib\\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var"
    "|Users|System|Library|Applications|Volumes"
)
_WHOLE = re.compile(
    rf"/|//|/(?:{_SYSTEM})|/[^/]*[*?\[][^/]*|/(?:home|Users)/[^/]+|~[\w-]*|~/\.\..*|\.\.(?:/\.\.)*"
)
_INSIDE = re.compile(r"(?:/(?:\*+|\.|\.\*|))+\Z")  # what stands for everything in the folder before it


def is_destructive(line: str) -> bool:
    """Whether `rm -r`, or a find that deletes, is aimed at such a place."""
    there = False  # the line went to such a place
    for words in rough_commands(line):
        names = [posixpath.basename(word) for word in words]
        if names[0] in ("cd", "pushd"):
            there = _is_whole(words[1] if len(words) > 1 else "~")
        if "rm" in names and _removes(words[names.index("rm") + 1 :], there):
            return True
        if "find" in names and {"-delete", "rm"} & set(names) and any(map(_is_whole, words)):
            return True
    return False


def _removes(words: Sequence[str], there: bool) -> bool:
    options = [word for word in words if word.startswith("-")]
    if not any(word == "--recursive" or re.match(r"-\w*[rR]", word) for word in options):
        return False
    return any(_is_whole(word) or (there and word in ("*", ".", "./*", ".*")) for word in words)


def _is_whole(word: str) -> bool:
    if word.startswith("-"):
        return False
    folder = _INSIDE.sub("", word) or ("/" if word.startswith("/") else "")
    folder = posixpath.normpath(folder) if folder.startswith(("/", "..")) else folder
    return _WHOLE.fullmatch(folder) is not None

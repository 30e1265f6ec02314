"""Whether a command line would remove a whole home, the system, or the folders above the project.

Asked about in every mode. It is meant against mistakes, not against attacks: who may run any command can
hide any.
"""

from __future__ import annotations

import posixpath
import re

from .shell_syntax import Words, find_possible_commands

_SYSTEM_FOLDERS = (
    "bin|boot|dev|etc|home|lib\\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|usr|var"
    "|Users|System|Library|Applications|Volumes"
)
_VITAL_PLACE = re.compile(
    rf"/|//|/(?:{_SYSTEM_FOLDERS})|/[^/]*[*?\[][^/]*|/(?:home|Users)/[^/]+|~[\w-]*|~/\.\..*|\.\.(?:/\.\.)*"
)
_ALL_INSIDE = re.compile(r"(?:/(?:\*+|\.|\.\*|))+\Z")  # at the end of a path: everything in the folder before


def is_destructive(line: str) -> bool:
    """Whether the line aims a recursive `rm`, or a `find` that deletes, at such a place."""
    in_vital_place = False  # a `cd` before led there
    for words in find_possible_commands(line):
        names = [posixpath.basename(word) for word in words]
        if names[0] in ("cd", "pushd"):
            in_vital_place = _is_vital(words[1] if len(words) > 1 else "~")
        if "rm" in names and _removes_vital(words[names.index("rm") + 1 :], in_vital_place):
            return True
        if "find" in names and {"-delete", "rm"} & set(names) and any(map(_is_vital, words)):
            return True
    return False


def _removes_vital(arguments: Words, in_vital_place: bool) -> bool:
    """Whether `rm` with these arguments removes such a place, or all that is in the current one."""
    if not any(word == "--recursive" or re.match(r"-\w*[rR]", word) for word in arguments):
        return False
    everything = ("*", ".", "./*", ".*") if in_vital_place else ()
    return any(_is_vital(word) or word in everything for word in arguments)


def _is_vital(word: str) -> bool:
    folder = _ALL_INSIDE.sub("", word) or ("/" if word.startswith("/") else "")
    folder = posixpath.normpath(folder) if folder.startswith(("/", "..")) else folder
    return _VITAL_PLACE.fullmatch(folder) is not None

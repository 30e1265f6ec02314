"""Whether a command line would do what cannot be made good: it is asked about in every mode.

Removed or moved: the root, a home, a folder of the system, one above the project, the current folder, the
project, `.git`; devices written to, file systems made, disks wiped, files of the system overwritten; fork
bombs, all processes killed, the machine shut down, users and crontabs removed. It is meant against mistakes,
not against attacks: who may run any command can hide any.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from .line_reading import read_line
from .mass_deletion import (
    deleted_by_find,
    deleted_by_pipe,
    deleted_by_rm,
    deleted_by_rsync,
    moved_place,
    place_with_new_rights,
)
from .system_damage import (
    bombs_by_name,
    damages_disk,
    kills_all,
    overwritten,
    removes_accounts,
    runs_bomb,
    shuts_down,
)
from .vital_places import Places
from .working_folder import Scene, scenes

_MAX_CODE_CHARS = 20_000
_LITERAL = re.compile(r"\"((?:[^\"\\\n]|\\.){1,400})\"|'((?:[^'\\\n]|\\.){1,400})'")
_REMOVES_TREE = re.compile(
    r"rmtree|rm_rf|rm_r\b|rmSync|removeSync|rmdirSync|remove_tree|rimraf|removedirs|deltree"
)
_FORKS_FOREVER = re.compile(r"\bfork\b.*\bwhile\b|\b(?:while|loop|for\s*\(;;)\b.*\bfork\b", re.DOTALL)
_Check = Callable[[Scene], str]
# By programs: what they would do, in words that follow "it", "" where that is nothing of the kind.
_CHECKS: tuple[_Check, ...] = (
    deleted_by_rm,
    deleted_by_find,
    deleted_by_pipe,
    deleted_by_rsync,
    moved_place,
    place_with_new_rights,
    overwritten,
    damages_disk,
    kills_all,
    shuts_down,
    removes_accounts,
    runs_bomb,
)


@lru_cache(maxsize=32)
def ruin_by(line: str, places: Places) -> str:
    """What the line would ruin, in words that follow "it"; "" where it is nothing of the kind."""
    reading = read_line(line)
    for scene in scenes(reading.invocations, places):
        for check in _CHECKS:
            if found := check(scene):
                return found
    if bombs_by_name(line):
        return "starts processes without end"
    return next(filter(None, (_ruin_by_code(text, places) for text in reading.code)), "")


def _ruin_by_code(code: str, places: Places) -> str:
    """As `ruin_by`, for code of another language: its texts are looked at as command lines."""
    code = code[:_MAX_CODE_CHARS]
    if _FORKS_FOREVER.search(code):
        return "starts processes without end"
    literals = [first or second for first, second in _LITERAL.findall(code)][:50]
    texts = [text for text in literals if " " in text] + [" ".join(literals)]
    if _REMOVES_TREE.search(code):
        texts += [f"rm -r {text}" for text in literals]
    for text in texts:
        if found := _ruin_by_text(text, places):
            return found
    return ""


def _ruin_by_text(text: str, places: Places) -> str:
    reading = read_line(text)
    found = (check(scene) for scene in scenes(reading.invocations, places) for check in _CHECKS)
    return next(filter(None, found), "")

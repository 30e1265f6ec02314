"""Find irreversible commands in a command line. They need approval in every mode.

These are: removing or moving the root, a home, a system directory, one above the project, the current
directory, the project or `.git`; writing to devices, making file systems, wiping disks, overwriting system
files; fork bombs, killing all processes, shutting the machine down, removing users and crontabs. This
protects from mistakes, not from attacks: whoever may run any command can disguise one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .line_reading import Invocation, LineReading, read_line
from .mass_deletion import (
    FINDERS,
    REMOVERS,
    deleted_by_find,
    deleted_by_pipe,
    deleted_by_rm,
    deleted_by_rsync,
    moved_place,
    place_with_new_rights,
)
from .system_damage import (
    EDITORS,
    bombs_by_name,
    damages_disk,
    edits_in_place,
    kills_all,
    overwritten,
    removes_accounts,
    runs_bomb,
    shuts_down,
)
from .vital_places import Places, Scene, scenes

_LITERAL = lazy_pattern(r"\"((?:[^\"\\\n]|\\.){1,400})\"|'((?:[^'\\\n]|\\.){1,400})'")
_OVERWRITERS = REMOVERS | word_set(
    "rmdir mv cp dd truncate tee sponge install rsync ln patch tar unzip gzip gunzip xz unxz bzip2 bunzip2"
    " zstd unzstd 7z split csplit ed ex vi vim"
)
_OVERWRITING_GIT = word_set(
    "checkout restore reset clean stash rm mv switch merge rebase pull apply am cherry-pick revert bisect"
    " submodule worktree sparse-checkout read-tree checkout-index filter-branch"
)
_Check = Callable[[Scene], str]
# By program: functions that return the irreversible effect as a verb phrase, "" for none.
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
def irreversible_effect(line: str, places: Places) -> str:
    """Return the irreversible effect of a line as a verb phrase ("removes the project"), "" for none."""
    reading = read_line(line)
    for found in irreversible_commands(reading, places):
        return found.effect
    if bombs_by_name(line):
        return "starts an endless number of processes"
    return next(filter(None, (_effect_of_code(text, places) for text in reading.code)), "")


class IrreversibleCommand(NamedTuple):
    """A command, and its effect as a verb phrase."""

    command: Invocation
    effect: str


def irreversible_commands(reading: LineReading, places: Places) -> Iterator[IrreversibleCommand]:
    """Yield the commands that have an irreversible effect."""
    for scene in scenes(reading.invocations, places):
        found = next(filter(None, (check(scene) for check in _CHECKS)), "")
        if found:
            yield IrreversibleCommand(scene.command, found)


def may_overwrite(line: str) -> bool:
    """Return whether a line deletes or overwrites files with a program made for that, or cannot be read.

    The effects of a project's own programs are unknown.
    """
    reading = read_line(line)
    return bool(reading.opaque or reading.code) or any(map(_overwrites, reading.invocations))


def _overwrites(command: Invocation) -> bool:
    for redirect in command.redirects:
        empties = ">" in redirect.operator and not redirect.operator.endswith((">>", "&"))
        if empties and redirect.target != "/dev/null":
            return True
    program = command.program
    arguments = command.words[1:]
    if program == "git":
        return not _OVERWRITING_GIT.isdisjoint(arguments)
    if program in FINDERS:
        return "-delete" in arguments
    if program in EDITORS:
        return edits_in_place(arguments)
    return program in _OVERWRITERS or (not program and bool(command.words))  # the name is unknown


def _effect_of_code(code: str, places: Places) -> str:
    """Return the irreversible effect of code in another language, whose strings are read as command lines."""
    code = code[:20_000]
    if re.search(r"\bfork\b", code) and re.search(r"\b(?:while|loop)\b|\bfor\s*\(;;", code):
        return "starts an endless number of processes"
    literals = [first or second for first, second in _LITERAL.findall(code)][:50]
    texts = [text for text in literals if " " in text] + [" ".join(literals)]
    removing = r"rmtree|rm_rf|rm_r\b|rmSync|removeSync|rmdirSync|remove_tree|rimraf|removedirs|deltree"
    if re.search(removing, code):
        texts += [f"rm -r {text}" for text in literals]
    found = (each.effect for text in texts for each in irreversible_commands(read_line(text), places))
    return next(found, "")

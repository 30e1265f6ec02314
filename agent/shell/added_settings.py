"""Find lines that only add settings to the project's repository that are plain values.

The sandbox keeps `.git/config` read-only, since many settings name programs, files or hosts. A name, an
address or a choice between known words does not. So a line that gives such a setting its first value may run
outside the sandbox without a question. One that would replace a value may not, since /rewind could not
restore that.

    git config user.email a@example.org && git config pull.rebase true
    git config user.email b@example.org          asks: it would replace a value
    git config core.hooksPath hooks              asks: the next `git commit` would run what is in there

Pure: files are accessed through a port.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from tools.files import is_inside
from transcripts.patterns import lazy_pattern

from .git_files import parse_settings
from .outside_reading import may_run_outside
from .program_names import Standpoint
from .read_only import ReadingJudge
from .simple_commands import Glob, Words

_SWITCH = "true|false|yes|no|on|off"
_VALUES: Mapping[str, str] = {
    "user.name": r"[\w.@+'() -]{1,100}",
    "user.email": r"[\w.+-]{1,100}@[\w.-]{1,100}",
    "pull.rebase": f"{_SWITCH}|merges",
    "pull.ff": f"{_SWITCH}|only",
    "merge.conflictstyle": "merge|diff3|zdiff3",
    "rerere.enabled": _SWITCH,
    "rebase.autosquash": _SWITCH,
    "color.ui": f"{_SWITCH}|auto|always|never",
    "core.quotepath": _SWITCH,
}
_PATTERNS = {name: lazy_pattern(pattern) for name, pattern in _VALUES.items()}
# Variables that choose the repository or the file of settings.
_STEERING = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_CONFIG", "GIT_CEILING_DIRECTORIES")


def adds_plain_settings(
    line: str, seen: Standpoint, judge: ReadingJudge, written: Sequence[str] = ()
) -> bool:
    """Return whether each command of a line adds a plain value to the settings of the project.

    written: places outside the project where a sandboxed command could put another program named git
    """
    here = seen.places.cwd or seen.places.folder
    if not line.lstrip().startswith("git") or not may_run_outside(seen):
        return False
    if any(_may_steer(path, seen) for path in written):
        return False
    judged = judge.judge(line, here)
    if not judged or any(command.is_trap or not command.doubt for command in judged):
        return False
    added = [_added_setting(command.words) for command in judged]
    return "" not in added and len({*added}) == len(added) and _lacks(added, here, seen)


def _may_steer(written: str, seen: Standpoint) -> bool:
    """Return whether a writable place contains programs or the user's settings of git."""
    path = seen.files.variable("PATH").split(":")
    return is_inside(seen.places.home, written) or any(
        is_inside(written, each) or is_inside(each, written) for each in path
    )


def _added_setting(words: Words) -> str:
    """Return the name of the setting that a command gives a plain value, "" for any other command."""
    given = [word for word in words[2:] if word != "--local"]
    if (
        list(words[:2]) != ["git", "config"]
        or len(given) != 2
        or any(isinstance(word, Glob) for word in words)
    ):
        return ""
    name = given[0].lower()
    pattern = _PATTERNS.get(name)
    return name if pattern is not None and pattern.fullmatch(given[1]) else ""


def _lacks(names: Sequence[str], here: str, seen: Standpoint) -> bool:
    """Return whether a directory belongs to the project's own repository, which lacks these settings."""
    folder = seen.places.folder
    place = posixpath.normpath(here)
    if not seen.is_untouched("git", here, _STEERING):
        return False
    while place.startswith(f"{folder}/") and ".git" not in seen.files.file_names(place):
        place = posixpath.dirname(place)
    git = seen.files.file_names(f"{folder}/.git")
    if place != folder or "commondir" in git or "HEAD" not in git:
        return False
    text = seen.files.text(f"{folder}/.git/config")
    known = {f"{found.section}.{found.key}" for found in parse_settings(text) if not found.inner}
    return bool(text) and known.isdisjoint(names)

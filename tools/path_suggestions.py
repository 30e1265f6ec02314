"""Suggest existing paths for one that does not exist."""

# ruff: noqa: PTH113, PTH118, PTH122 - paths are texts here

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from time import monotonic

from tools.files import names_in
from tools.search import list_project
from transcripts.patterns import lazy_pattern

_NOT_OF_PATH = lazy_pattern(r"(?::\d+(?:[:-]\d+)?|#L\d+(?:-L?\d+)?)?[\s'\"]*\Z")  # a.py:12, a.py#L3, a space
_GUESSED_NAMES = lazy_pattern(r"|__init__\.py|index\.\w+|README.*", re.IGNORECASE)  # too common


def suggestions(path: str, root: Path) -> list[str]:
    """Return at most three existing paths that may have been meant by one that does not exist."""
    folder, name = os.path.split(_NOT_OF_PATH.sub("", path))
    name = name.lstrip("'\"")
    by_stem: dict[str, list[str]] = {}  # compared without extensions, which are often the same
    for each in names_in(folder):
        by_stem.setdefault(_stem(each), []).append(each)
    # The ratio of difflib for names without their extensions.
    stems = get_close_matches(_stem(name), by_stem, 3, 0.7)
    near = [each for stem in stems for each in _by_extension(by_stem[stem], name)[:2]]
    found = [os.path.join(folder, each) for each in near]
    parts = path.split("/")
    for drop in range(len(parts) - 1, 0, -1):  # the same file with superfluous directories in front
        guess = os.path.join(root, *parts[drop:])
        if guess != path and os.path.isfile(guess):
            found.append(guess)
    exact = [each for each in found if each.rpartition("/")[2].casefold() == name.casefold()]
    elsewhere = [] if exact or _GUESSED_NAMES.fullmatch(name) else _of_same_name(root, name)
    return list(dict.fromkeys((*exact, *elsewhere, *found)))[:3]


def _by_extension(names: list[str], wanted: str) -> list[str]:
    """Return the names of one stem, first those with the extension of the wanted one."""
    ending = os.path.splitext(wanted.casefold())[1]
    return sorted(names, key=lambda name: os.path.splitext(name.casefold())[1] != ending)


def _of_same_name(root: Path, name: str) -> list[str]:
    """Return files of that name anywhere in a project, as far as a short search finds them."""
    until = monotonic() + 0.15  # it keeps the screen waiting
    names = list_project(root, lambda: monotonic() > until)
    same = (each for each in names if each.rpartition("/")[2].casefold() == name.casefold())
    return [os.path.join(root, each) for each in islice(same, 3)]


def _stem(name: str) -> str:
    return os.path.splitext(name.casefold())[0]

"""Complete a path from the disk, as a shell does on Tab: after `!`, and for words of a prompt."""

from __future__ import annotations

import os
import re
from pathlib import Path

MOST = 200  # entries of a folder that are offered
_WORD = re.compile(r"(?:[^\s\\]|\\.)*\\?$")


def word_before(text: str) -> str:
    """The last word of a line, with escaped spaces in it; a leading `!` is not part of it."""
    found = _WORD.search(text)
    word = found[0] if found else ""
    return word.lstrip("!") if text.lstrip().startswith("!") and word == text.lstrip() else word


def paths(word: str, folder: Path, shell: bool) -> list[str]:
    """What a word may become, folders with a slash at the end. In a shell line spaces are escaped."""
    plain = re.sub(r"\\(.)", r"\1", word) if shell else word
    head, slash, base = plain.rpartition("/")
    place = folder / Path(f"{head}{slash}").expanduser() if slash else folder
    try:
        with os.scandir(place) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for entry in entries
                if entry.name.startswith(base) and (base.startswith(".") or not entry.name.startswith("."))
            ]
    except (OSError, ValueError):
        return []
    found = [f"{head}{slash}{name}" for name in sorted(names)[:MOST]]
    return [re.sub(r"([\s\\\"'$&|;()<>*?#`])", r"\\\1", name) for name in found] if shell else found

"""Find the commands and skills that people keep in files: one value for each, its text is read when used.

A command is a Markdown file in `commands/`, a skill a folder in `skills/` with a SKILL.md. They come from the
person's home and from the project: there from the folder up to the top of the repository.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.extensions.frontmatter import Markdown, read_markdown
from tools.files.resolve_path import is_inside
from tools.sandbox.guarded_names import is_protected
from transcripts.disk import trusted_owners

from .presence import Skill, SkillKind, SkillPlace

SKILL_FILE = "SKILL.md"
MAX_NAME_CHARS_OF_SKILL = 64
MAX_SAID_CHARS = 1_024
MAX_FOLDER_DEPTH = 6  # of commands below their folder
MAX_FILES = 2_000  # of one folder
SKILL_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_SKILL_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_COMMAND_NAME = re.compile(r"[^\W_][\w.-]*")


def read_skills(place: SkillPlace, warnings: list[str]) -> Iterator[Skill]:
    """The commands or skills of a place, by name; a line for each file that cannot be used."""
    if not place.folder.is_dir():
        return
    paths = _skill_paths(place, warnings) if place.kind == "skill" else _command_paths(place, warnings)
    for path in paths:
        try:
            if place.top is not None:
                check_origin(path, place.top)
            yield read_skill(path, place)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else error
            warnings.append(f"{path}: {reason}; it is left out")


def read_skill(path: Path, place: SkillPlace) -> Skill:
    """Raises ValueError, in one line, for a file that cannot be used."""
    return skill_of(read_markdown(path), path, place)


def skill_of(markdown: Markdown, path: Path, place: SkillPlace) -> Skill:
    """A file's fields as a command or skill. Raises ValueError where it can have no name."""
    fields = markdown.fields
    said = _text(fields.get("description"))
    first = next((line.strip("# ").strip() for line in markdown.body.splitlines() if line.strip("# ")), "")
    return Skill(
        name=_name(fields, path, place.kind),
        kind=place.kind,
        scope=place.scope,
        path=path,
        description=(said or first)[:MAX_SAID_CHARS],
        described=bool(said),
        top=place.top,
        hint=_hint(fields.get("argument-hint")),
        arguments=tuple(_words(fields.get("arguments"))),
        allowed_tools=tuple(_words(fields.get("allowed-tools"))),
        for_model=not _is_set(fields.get("disable-model-invocation")),
        for_user=_is_set(fields.get("user-invocable"), True),
        model=_text(fields.get("model")).replace("inherit", ""),
        effort=_effort(fields.get("effort")),
        forks=_text(fields.get("context")) == "fork",
        agent=_text(fields.get("agent")),
    )


def _name(fields: Mapping[str, Any], path: Path, kind: SkillKind) -> str:
    """The name it is called by: of a skill that of its field or folder, of a command that of its file."""
    if kind == "command":
        if _COMMAND_NAME.fullmatch(path.stem) and len(path.stem) <= MAX_NAME_CHARS_OF_SKILL:
            return path.stem
        raise ValueError("its name is no word that can be typed after a slash")
    for name in (_text(fields.get("name")), path.parent.name):
        if _SKILL_NAME.fullmatch(name) and len(name) <= MAX_NAME_CHARS_OF_SKILL:
            return name
    raise ValueError("neither its name nor its folder's is made of a-z, 0-9 and - (at most 64 characters)")


def _skill_paths(place: SkillPlace, warnings: list[str]) -> Iterator[Path]:
    for name in _listed(place.folder, warnings):
        path = place.folder / name / SKILL_FILE
        if os.path.lexists(path):
            yield path
        elif (place.folder / name).is_symlink() and not (place.folder / name).exists():
            warnings.append(f"{place.folder / name}: it leads nowhere; it is left out")


def _command_paths(place: SkillPlace, warnings: list[str]) -> Iterator[Path]:
    """Files at any depth, those above first; a folder that was seen is not gone through again."""
    seen: set[tuple[int, int]] = set()
    waiting = [(place.folder, 0)]
    count = 0
    for folder, depth in waiting:
        try:
            found = folder.stat()
        except OSError:
            warnings.append(f"{folder}: it leads nowhere; it is left out")
            continue
        if (found.st_dev, found.st_ino) in seen:
            warnings.append(f"{folder}: it leads back to where it comes from; it is left out")
            continue
        seen.add((found.st_dev, found.st_ino))
        for name in _listed(folder, warnings):
            path = folder / name
            if path.is_dir() and depth < MAX_FOLDER_DEPTH:
                waiting.append((path, depth + 1))
            elif name.endswith(".md") and (count := count + 1) <= MAX_FILES:
                yield path


def _listed(folder: Path, warnings: list[str]) -> list[str]:
    try:
        names = sorted(each.name for each in folder.iterdir() if not each.name.startswith("."))
    except OSError as error:
        warnings.append(f"{folder}: {error.strerror}; it is left out")
        return []
    if len(names) > MAX_FILES:
        warnings.append(f"{folder}: it holds {len(names):,} entries; those after {MAX_FILES:,} are left out")
    return names[:MAX_FILES]


def check_origin(path: Path, top: Path) -> None:
    """A checkout's file must be its own: no link to a secret or another place, and of no other user."""
    owners = {path.stat().st_uid, path.lstat().st_uid}  # raises OSError for a link in a circle
    real = path.resolve()
    if not is_inside(str(real), str(top)):
        raise ValueError("it leads out of the project")
    if real != path and is_protected(str(real), "read"):
        raise ValueError("it leads to a secret")
    if not owners <= trusted_owners(top):
        raise ValueError("it belongs to another user")


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _hint(value: Any) -> str:
    """`[a] [b]` as it was written: YAML takes one pair of brackets for a list."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return _text(value)


def _is_set(value: Any, unset: bool = False) -> bool:
    if value is None:
        return unset
    return value is True or _text(value).lower() in ("true", "yes", "on")


def _effort(value: Any) -> str:
    return text if (text := _text(value).lower()) in SKILL_EFFORTS else ""


def _words(value: Any) -> Sequence[str]:
    """The words of a list, or of a text, which commas or blanks part; brackets hold a word together."""
    text = ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)
    words, depth, begun = [], 0, ""
    for char in f"{text} ":
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth <= 0 and char in ", ":
            words += [begun] if begun else []
            begun = ""
        else:
            begun += char
    return words

"""Read the files of commands and skills, one value per file. The text is read again when it is used.

A command is a Markdown file in `commands/`, a skill a directory in `skills/` with a SKILL.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.extensions.frontmatter import Markdown, judged_path, read_head
from agent.extensions.ignored import IgnoredPart, ignored_fields
from agent.extensions.plugins import Plugin
from transcripts.wording import cause_of

from .places import SkillKind, SkillPlace

MAX_NAME_CHARS_OF_SKILL = 64
MAX_FILES = 2_000  # of one directory
# Fields of Claude Code's commands and skills that have no effect here.
IGNORED_FIELDS = {
    "hooks": "hooks of a skill do not run; define them in a settings file",
    "disallowed-tools": "a skill cannot remove tools; use deny rules",
    "paths": "the skill is always offered, whichever files are in use",
}
_HIDDEN_FROM_MODEL = ("disable-model-invocation", "hide-from-slash-command-tool")  # now, and formerly


class Skill(Struct, frozen=True):
    """A command or skill as its file describes it.

    described      the file has a description, not only a first line
    top            the top of the checkout that contains it, which no link may leave; None for the user's own.
                   Command lines and permissions of one in a checkout need approval
    hint           its arguments, for the user; `arguments` are their names
    allowed_tools  the rules that it grants for a turn, as written
    for_model      the model may load it; for_user: it can be typed as /name
    forks          it runs in a session of its own, with the agent of that name
    plugin_root    the directory of the plugin that it is part of, the value of ${CLAUDE_PLUGIN_ROOT}
    ignored        its fields that have no effect
    """

    name: str
    kind: SkillKind
    path: Path
    description: str = ""
    described: bool = False
    top: Path | None = None
    hint: str = ""
    arguments: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    for_model: bool = True
    for_user: bool = True
    model: str = ""
    effort: str = ""
    forks: bool = False
    agent: str = ""
    plugin_root: Path | None = None
    ignored: tuple[IgnoredPart, ...] = ()

    @property
    def folder(self) -> Path:
        """The value of ${CLAUDE_SKILL_DIR}."""
        return self.path.parent

    @property
    def from_project(self) -> bool:
        """Return whether it is part of a checkout."""
        return self.top is not None

    @property
    def origin(self) -> str:
        """The origin, for the user."""
        if self.plugin_root is not None:
            return "plugin"
        return "project" if self.from_project else "user"

    @property
    def summary(self) -> str:
        """The text after its name in a list."""
        return " · ".join(filter(None, (self.hint, self.description, f"({self.origin})")))


def read_skills(place: SkillPlace) -> Iterator[Skill | IgnoredPart]:
    """Yield the commands or skills of a place, by name, and the files and directories that are not used."""
    if not place.folder.is_dir():
        return
    for path in _skill_paths(place) if place.kind == "skill" else _command_paths(place):
        if isinstance(path, IgnoredPart):
            yield path
            continue
        try:
            yield skill_of(read_head(judged_path(path, place.top)), path, place)
        except (OSError, ValueError) as error:
            yield IgnoredPart(path, place.kind, cause_of(error))
    if place.kind == "skill":
        yield from _misplaced_skills(place.folder)


def read_plugin_skills(plugin: Plugin) -> Iterator[Skill | IgnoredPart]:
    """Yield the commands and skills of a plugin, under its name, and the files that cannot be used."""
    kinds: tuple[tuple[SkillKind, Sequence[Path]], ...] = (
        ("skill", plugin.skills),
        ("command", plugin.commands),
    )
    for kind, paths in kinds:
        for path in paths:
            place = SkillPlace(path.parent, kind=kind)
            try:
                skill = skill_of(read_head(path.resolve()), path, place)
            except ValueError as error:
                yield IgnoredPart(path, kind, str(error))
                continue
            name = plugin.names.get(path, skill.name)
            yield replace(skill, name=f"{plugin.name}:{name}", plugin_root=plugin.root)


def skill_of(markdown: Markdown, path: Path, place: SkillPlace) -> Skill:
    """Return the command or skill that a file describes. Raises ValueError if its name is not valid."""
    fields = markdown.fields
    texts = (_text(fields.get(name)) for name in ("description", "when_to_use"))
    description = " ".join(filter(None, texts))
    first = next((line.strip("# ").strip() for line in markdown.body.splitlines() if line.strip("# ")), "")
    effort = _text(fields.get("effort")).lower()
    model = _text(fields.get("model"))
    return Skill(
        name=_name(fields, path, place.kind),
        kind=place.kind,
        path=path,
        description=(description or first)[:1_024],
        described=bool(description),
        top=place.top,
        hint=_hint(fields.get("argument-hint")),
        arguments=tuple(_words(fields.get("arguments"))),
        allowed_tools=tuple(_words(fields.get("allowed-tools"))),
        for_model=not any(_is_set(fields.get(name), unset=False) for name in _HIDDEN_FROM_MODEL),
        for_user=_is_set(fields.get("user-invocable"), unset=True),
        model="" if model == "inherit" else model,
        effort=effort if effort in ("low", "medium", "high", "xhigh", "max") else "",
        forks=_text(fields.get("context")) == "fork",
        agent=_text(fields.get("agent")),
        ignored=tuple(ignored_fields(fields, path, IGNORED_FIELDS)),
    )


def _name(fields: Mapping[str, object], path: Path, kind: SkillKind) -> str:
    """Return the name of a command (that of its file) or of a skill (that of its field or directory)."""
    if kind == "command":
        if re.fullmatch(r"[^\W_][\w.-]*", path.stem) and len(path.stem) <= MAX_NAME_CHARS_OF_SKILL:
            return path.stem
        raise ValueError("its name cannot be typed after a slash")
    for name in (_text(fields.get("name")), path.parent.name):
        if re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) and len(name) <= MAX_NAME_CHARS_OF_SKILL:
            return name
    raise ValueError("its name (or its directory's) must have 1 to 64 characters of a-z, 0-9 and -")


def _skill_paths(place: SkillPlace) -> Iterator[Path | IgnoredPart]:
    for entry in _listed(place.folder):
        if isinstance(entry, IgnoredPart):
            yield entry
            continue
        path = entry / "SKILL.md"
        if os.path.lexists(path):
            yield path
        elif entry.is_symlink() and not entry.exists():
            yield IgnoredPart(entry, "skill", "broken link")


def _misplaced_skills(folder: Path) -> Iterator[IgnoredPart]:
    """Yield the files in a directory of skills that look like skills but are not where skills are."""
    for path in _usable(_listed(folder)):
        if path.suffix == ".md" and path.name.lower() != "readme.md" and path.is_file():
            yield IgnoredPart(path, "text", "a skill is a directory: move the file to NAME/SKILL.md")
        elif path.is_dir() and not os.path.lexists(path / "SKILL.md"):
            nested = (below for below in _usable(_listed(path)) if (below / "SKILL.md").is_file())
            yield from (
                IgnoredPart(below, "skill", f"move the directory to {folder}, since skills have no groups")
                for below in nested
            )


class _FolderBelow(NamedTuple):
    """A directory of commands, and its depth below the first."""

    path: Path
    depth: int


def _command_paths(place: SkillPlace) -> Iterator[Path | IgnoredPart]:
    """Yield files at any depth, outer ones first. Each directory is visited once."""
    seen: set[tuple[int, int]] = set()
    waiting = [_FolderBelow(place.folder, 0)]
    count = 0
    for folder, depth in waiting:
        try:
            found = folder.stat()
        except OSError:
            yield IgnoredPart(folder, "commands", "broken link")
            continue
        if (found.st_dev, found.st_ino) in seen:
            yield IgnoredPart(folder, "commands", "link to a directory that contains it")
            continue
        seen.add((found.st_dev, found.st_ino))
        for path in _listed(folder):
            if isinstance(path, IgnoredPart):
                yield path
            elif path.is_dir() and depth < 6:
                waiting.append(_FolderBelow(path, depth + 1))
            elif path.name.endswith(".md"):
                count += 1
                if count <= MAX_FILES:
                    yield path


def _listed(folder: Path) -> Iterator[Path | IgnoredPart]:
    """Yield the first entries of a directory by name, after a remark if others are not read."""
    try:
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        yield IgnoredPart(folder, "entries", cause_of(error))
        return
    if len(paths) > MAX_FILES:
        yield IgnoredPart(folder, "entries", f"only {MAX_FILES:,} of its {len(paths):,} are read")
    yield from paths[:MAX_FILES]


def _usable(entries: Iterable[Path | IgnoredPart]) -> Iterator[Path]:
    return (entry for entry in entries if isinstance(entry, Path))


def _text(value: object) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _hint(value: object) -> str:
    """Return `[a] [b]` as written, which YAML reads as a list if there is one pair of brackets."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    return _text(value)


def _is_set(value: object, *, unset: bool) -> bool:
    if value is None:
        return unset
    return value is True or _text(value).lower() in ("true", "yes", "on")


def _words(value: object) -> list[str]:
    """Return the words of a list, or of a text with commas or spaces, which do not split parentheses."""
    text = ", ".join(map(_text, value)) if isinstance(value, list) else _text(value)
    words: list[str] = []
    word = ""
    depth = 0
    for char in f"{text} ":
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth > 0 or char not in ", ":
            word += char
        elif word:
            words.append(word)
            word = ""
    return words

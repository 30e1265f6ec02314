"""The commands and skills of a run: names, precedence and search."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import NamedTuple

from agent.extensions.ignored import IgnoredPart
from agent.extensions.plugins import Plugin
from agent.ports import CommandSummary

from .files import Skill, read_plugin_skills, read_skills
from .places import SkillPlace, skill_places


class Shadowed(NamedTuple):
    """A command or skill that is hidden by another one of the same name."""

    hidden: Skill
    known: Skill


class TypedSkill(NamedTuple):
    """The command or skill that a line calls, with the arguments after its name."""

    skill: Skill
    arguments: str


class SkillLibrary:
    """The commands and skills by name. If several have the same name, the first one added counts.

    `others` contains alternative names: `folder:name` of a command in a subdirectory, and `name` of one in a
    plugin, whose full name is `plugin:name`.
    """

    def __init__(self) -> None:
        self.skills: dict[str, Skill] = {}
        self.others: dict[str, Skill] = {}
        self.shadowed: list[Shadowed] = []
        self.unusable: list[IgnoredPart] = []

    def add(self, skill: Skill, place: SkillPlace) -> None:
        existing = self.skills.setdefault(skill.name, skill)
        if existing is not skill and existing.path.resolve() != skill.path.resolve():
            self.shadowed.append(Shadowed(skill, existing))
        above = skill.path.parent.relative_to(place.folder).parts
        if skill.kind == "command" and above:
            self.others.setdefault(":".join((*above, skill.name)), skill)

    def add_from_plugin(self, skill: Skill) -> None:
        self.skills[skill.name] = skill
        self.others.setdefault(skill.name.partition(":")[2], skill)

    def hidden(self, builtin: Iterable[str]) -> Iterator[IgnoredPart]:
        """Yield the files that no name leads to: another file or a built-in command has it."""
        reachable = {skill.path for skill in self.others.values()}
        for skill, known in self.shadowed:
            if skill.path not in reachable:
                yield IgnoredPart(skill.path, f"/{skill.name}", f"{known.path} has the same name")
        for name in sorted(self.skills.keys() & set(builtin)):
            skill = self.skills[name]
            if skill.path not in reachable and not (skill.kind == "skill" and skill.for_model):
                yield IgnoredPart(skill.path, f"/{name}", "makeroom has a command of this name")

    def find(self, name: str) -> Skill | None:
        """Return the one of that name, in any letter case."""
        for known in (self.skills, self.others):
            if name in known:
                return known[name]
        low = name.lower()
        return next((skill for known, skill in self.skills.items() if known.lower() == low), None)

    def typed(self, line: str) -> TypedSkill | None:
        """Return the call in a line such as `/name arguments`; None for any other line."""
        if not line.lstrip().startswith("/"):
            return None
        name, _, arguments = line.strip().removeprefix("/").partition(" ")
        first, _, rest = name.partition("\n")
        skill = self.find(first) if first else None
        if skill is None or not skill.for_user:
            return None
        return TypedSkill(skill, f"{rest} {arguments}".strip())

    def for_users(self) -> list[Skill]:
        """Return those that can be typed, by name."""
        return [self.skills[name] for name in sorted(self.skills) if self.skills[name].for_user]

    def summaries(self, builtin: Set[str] = frozenset()) -> list[CommandSummary]:
        """List those that can be typed; built-in commands have the names `builtin`."""
        named = [one for one in self.for_users() if one.name not in builtin]
        found = [CommandSummary(one.name, one.summary) for one in named]
        for name, one in sorted(self.others.items()):
            if one in named:
                found.append(CommandSummary(name, alias_of=one.name))
            elif one.for_user:
                found.append(CommandSummary(name, one.summary))
        return found

    def for_model(self) -> list[Skill]:
        """Return those that the model may load, in order. A command needs a description for that."""
        return [
            one for one in self.skills.values() if one.for_model and (one.kind == "skill" or one.described)
        ]

    def search(self, words: str) -> list[Skill]:
        """Return those for the model that match by name or description, best first."""
        import difflib  # 3 ms

        wanted = _words(words)
        candidates = self.for_model()
        scores = {skill.name: _score(skill, wanted) for skill in candidates}
        found = sorted((one for one in candidates if scores[one.name]), key=lambda one: -scores[one.name])
        near = difflib.get_close_matches(words.lower(), list(scores), 3, 0.6)
        return [*found, *(self.skills[name] for name in near if not scores[name])]

    @classmethod
    def load(
        cls,
        folder: Path,
        environ: Mapping[str, str],
        user_dir: Path | None,
        sources: Sequence[str] | None = None,
        plugins: Sequence[Plugin] = (),
    ) -> SkillLibrary:
        """Return all for a directory, or only those of some `sources`, and of plugins. Blocks on the disk."""
        library = cls()
        for place in skill_places(folder, environ, user_dir):
            if sources is None or ("user" if place.top is None else "project") in sources:
                for found in read_skills(place):
                    if isinstance(found, Skill):
                        library.add(found, place)
                    else:
                        library.unusable.append(found)
        for plugin in plugins:
            for found in read_plugin_skills(plugin):
                if isinstance(found, Skill):
                    library.add_from_plugin(found)
                else:
                    library.unusable.append(found)
        # A directory is often a link to another place.
        parts = library.unusable[::-1]
        by_place = {(os.path.realpath(part.path.parent), part.path.name): part for part in parts}
        library.unusable = list(by_place.values())[::-1]
        return library


def _score(skill: Skill, wanted: set[str]) -> int:
    return 3 * len(wanted & _words(skill.name)) + len(wanted & _words(skill.description))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))

"""The commands and skills of a run: which of one name counts, how they are found and searched."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.extensions.approvals import ProjectItem
from agent.extensions.frontmatter import MAX_MARKDOWN_BYTES, parse_markdown
from transcripts.disk import read_regular

from .files import read_skills
from .presence import Skill, SkillPlace, skill_places
from .substitution import written_lines

MAX_WARNINGS = 20  # about files, told one by one
MAX_SHOWN_LINES = 3  # of the command lines of a file, where a person is asked about it
_SEARCHED_WORD = re.compile(r"\w+")


@dataclass(slots=True)
class SkillLibrary:
    """Implements SkillCatalog: what hides others of its name counts, and each file is read once.

    `others` has further names: `folder:name` of a command in a subfolder.
    """

    skills: dict[str, Skill] = field(default_factory=dict)
    shadowed: list[tuple[Skill, Skill]] = field(default_factory=list)  # (hidden, the one that counts)
    warnings: list[str] = field(default_factory=list)
    others: dict[str, Skill] = field(default_factory=dict)

    def add(self, skill: Skill, place: SkillPlace) -> None:
        """Add one; the first of a name counts."""
        known = self.skills.setdefault(skill.name, skill)
        if known is not skill and known.path != skill.path:
            self.shadowed.append((skill, known))
        above = skill.path.parent.relative_to(place.folder).parts
        if skill.kind == "command" and above:
            self.others.setdefault(":".join((*above, skill.name)), skill)

    def find(self, name: str) -> Skill | None:
        """The one of that name, in any letter case."""
        for known in (self.skills, self.others):
            if name in known:
                return known[name]
        low = name.lower()
        return next((skill for known, skill in self.skills.items() if known.lower() == low), None)

    def typed(self, line: str) -> tuple[Skill, str] | None:
        """What a line such as `/name arguments` calls, and the arguments; None where that is no such line."""
        name, _, arguments = line.strip().removeprefix("/").partition(" ")
        first, _, rest = name.partition("\n")
        skill = self.find(first) if line.lstrip().startswith("/") and first else None
        return None if skill is None or not skill.for_user else (skill, f"{rest} {arguments}".strip())

    def for_people(self) -> list[Skill]:
        """Those that can be typed, by name."""
        return [self.skills[name] for name in sorted(self.skills) if self.skills[name].for_user]

    def summaries(self) -> list[tuple[str, str]]:
        """(name, summary) of each that can be typed."""
        main = [(one.name, one.summary) for one in self.for_people()]
        others = ((name, one) for name, one in sorted(self.others.items()) if one.for_user)
        return main + [
            (name, f"same as /{one.name}" if self.skills[one.name] is one else one.summary)
            for name, one in others
        ]

    def for_model(self) -> list[Skill]:
        """Those that the model may load, in their order: a command needs a description."""
        return [
            one for one in self.skills.values() if one.for_model and (one.kind == "skill" or one.described)
        ]

    def search(self, words: str) -> list[Skill]:
        """Those that the model may load and whose name or description fits, the best first."""
        wanted = set(_SEARCHED_WORD.findall(words.lower()))
        scores = {skill.name: _score(skill, wanted) for skill in self.for_model()}
        found = sorted(
            (skill for skill in self.for_model() if scores[skill.name]), key=lambda s: -scores[s.name]
        )
        near = difflib.get_close_matches(words.lower(), list(scores), 3, 0.6)
        return [*found, *(self.skills[name] for name in near if not scores[name])]


def _score(skill: Skill, wanted: set[str]) -> int:
    named = wanted & set(_SEARCHED_WORD.findall(skill.name.lower()))
    return 3 * len(named) + len(wanted & set(_SEARCHED_WORD.findall(skill.description.lower())))


def load_library(
    folder: Path, environ: Mapping[str, str], user_dir: Path | None, sources: Sequence[str] | None = None
) -> SkillLibrary:
    """All that apply in a folder. `sources`: only those "user" or "project" has. Blocks on the disk."""
    library = SkillLibrary()
    for place in skill_places(folder, environ, user_dir):
        if sources is None or ("user" if place.top is None else "project") in sources:
            for skill in read_skills(place, library.warnings):
                library.add(skill, place)
    if (more := len(library.warnings) - MAX_WARNINGS) > 0:
        library.warnings[MAX_WARNINGS:] = [
            f"{more} more commands and skills cannot be used; /skills lists all"
        ]
    return library


def items_in(places: Iterable[SkillPlace]) -> Iterator[ProjectItem]:
    """The commands and skills that run command lines or take rights."""
    for place in places:
        for skill in read_skills(place, []):
            try:
                item = skill_item(skill, read_regular(skill.path, MAX_MARKDOWN_BYTES))
            except (OSError, ValueError):
                continue  # it has changed meanwhile; what it says now is judged when it is used
            if item is not None:
                yield item


def skill_item(skill: Skill, content: bytes) -> ProjectItem | None:
    """What has to be approved before a file with this content runs or takes anything; None for nothing."""
    lines = written_lines(parse_markdown(content).body)
    shown = [f"allows {', '.join(skill.allowed_tools)}"] if skill.allowed_tools else []
    more = [f"{len(lines) - MAX_SHOWN_LINES} more"] if len(lines) > MAX_SHOWN_LINES else []
    if skill.model:
        shown.append(f"uses the model {skill.model}")
    if lines:
        shown.append(f"runs {'; '.join((*lines[:MAX_SHOWN_LINES], *more))}")
    name = f"/{skill.name}" if skill.for_user else skill.name
    return ProjectItem(skill.kind, name, ", ".join(shown), content) if shown else None

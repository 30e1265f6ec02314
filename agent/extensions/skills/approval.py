"""Approval of commands and skills, by content, if they run command lines or grant permissions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.extensions.approvals import ProjectItem
from agent.extensions.frontmatter import MAX_SKILL_BYTES, judged_path, parse_markdown, read_content

from .files import Skill, read_skills, skill_of
from .places import SkillPlace, skill_places
from .substitution import CommandLine, GivenValues, counts_from_one, fill_in, written_lines

MAX_SHOWN_LINES = 3  # of the command lines of a file, in the question for approval


class OpenedSkill(Struct, frozen=True):
    """A command or skill with the current content of its file. `item` needs approval before it acts."""

    skill: Skill
    body: str
    item: ProjectItem | None

    @property
    def counts_from_one(self) -> bool:
        """Return whether `$1` is the first argument of the text."""
        return counts_from_one(self.body)

    def filled(self, arguments: str, variables: Mapping[str, str]) -> list[str | CommandLine]:
        """Return the text with its placeholders filled in, as texts and the command lines between them."""
        given = GivenValues(arguments=arguments, names=self.skill.arguments, variables=variables)
        return fill_in(self.body, given)


def open_skill(skill: Skill) -> OpenedSkill:
    """Read the file of a command or skill again. Raises OSError and ValueError if it cannot be used."""
    real = judged_path(skill.path, skill.top)  # commands can change it between two checks
    content = read_content(real, MAX_SKILL_BYTES)
    markdown = parse_markdown(content)
    place = SkillPlace(folder=skill.folder, kind=skill.kind, top=skill.top)
    now = replace(skill_of(markdown, skill.path, place), name=skill.name, plugin_root=skill.plugin_root)
    item = _item(now, markdown.body, content) if now.from_project else None
    return OpenedSkill(now, body=markdown.body, item=item)


def skill_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """Return the project's commands and skills that need approval; see approvals.ItemSource."""
    items = []
    for place in skill_places(folder, environ, None):
        for skill in read_skills(place) if place.top is not None else ():
            if not isinstance(skill, Skill):
                continue
            try:
                item = open_skill(skill).item
            except (OSError, ValueError):
                continue  # it has changed since, and is checked again when it is used
            if item is not None:
                items.append(item)
    return items


def _item(skill: Skill, body: str, content: bytes) -> ProjectItem | None:
    """Return the item to approve before a file with this content acts; None if it only has instructions."""
    shown = [f"allows {', '.join(skill.allowed_tools)}"] if skill.allowed_tools else []
    if skill.model:
        shown.append(f"uses the model {skill.model}")
    lines = written_lines(body)
    if lines:
        more = [f"{len(lines) - MAX_SHOWN_LINES} more"] if len(lines) > MAX_SHOWN_LINES else []
        shown.append(f"runs {'; '.join((*lines[:MAX_SHOWN_LINES], *more))}")
    name = f"/{skill.name}" if skill.for_user else skill.name
    return ProjectItem(skill.kind, name=name, shows=", ".join(shown), content=content) if shown else None

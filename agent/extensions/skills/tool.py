"""The skill tool: the model loads the instructions of a skill, or searches for one."""

from __future__ import annotations

from typing import Annotated, Protocol

from msgspec import Meta

from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, text_result
from tools.parameters import Arguments
from transcripts import Display

from .library import SkillLibrary

MAX_SEARCH_HITS = 12


class SkillArguments(Arguments):
    """A skill to load, or words to search for."""

    name: Annotated[str, Meta(description="Name of the skill to load.")] = ""
    args: Annotated[str, Meta(description="Its arguments, as the user would type them after its name.")] = ""
    query: Annotated[str, Meta(description="Without `name`: words to search for among all skills.")] = ""

    @property
    def plain_name(self) -> str:
        return self.name.strip().removeprefix("/")


class LoadsSkills(Protocol):
    """The skills of a session."""

    @property
    def library(self) -> SkillLibrary:
        """All commands and skills."""

    async def load(self, name: str, arguments: str) -> ToolResult:
        """Return the instructions of a skill. Raises ToolError."""


def _skills(context: ToolContext) -> LoadsSkills | None:
    return context.skills() if context.skills is not None else None


def named_skill(arguments: SkillArguments, context: ToolContext) -> tuple[Access, ...]:
    """Return the access of a call: loading needs no permission; rules such as `skill(deploy)` deny it."""
    skills = _skills(context)
    found = skills.library.find(arguments.plain_name) if skills is not None else None
    return (Access("none", found.name if found is not None else ""),)


async def use_skill(arguments: SkillArguments, call: ToolCall) -> ToolResult:
    """Load the skill that is named, or search."""
    skills = _skills(call.context)
    if skills is None:
        raise ToolError("There are no skills here.\nContinue without one.")
    if arguments.name.strip():
        return await skills.load(arguments.plain_name, arguments.args.strip())
    return search_result(skills.library, arguments.query.strip())


def search_result(library: SkillLibrary, words: str) -> ToolResult:
    """Return a line for each skill that matches; without words, for all."""
    found = library.search(words) if words else library.for_model()
    lines = [f"- {one.name}: {one.description[:250]}" for one in found[:MAX_SEARCH_HITS]]
    more = len(found) - MAX_SEARCH_HITS
    if more > 0:
        lines.append(f"[{more} more; other words narrow the search]")
    text = "\n".join(lines) if lines else f"No skills match: {words}"
    return text_result(text, human=Display(note=f"{len(found)} found"))


TOOL = Tool(
    name="skill",
    description="""\
Loads the instructions of a skill, for you to follow. The system prompt lists the skills.

Load a skill before you start the work that it is for, and only once: its instructions stay in the context. \
Use `query` to find skills that are not listed.""",
    arguments=SkillArguments,
    kind="instructs",
    title=lambda arguments: " ".join(
        filter(None, (arguments.name or arguments.query, arguments.args))
    ).strip(),
    access=named_skill,
    run=use_skill,
)

"""The skill tool: the model loads the instructions of a skill, or looks for one."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult, text_result
from tools.parameters import Arguments

from .library import SkillLibrary

MAX_SEARCH_HITS = 12
MAX_HIT_CHARS = 250  # of the description of one


class SkillArguments(Arguments):
    """A skill to load, or words to look for."""

    name: Annotated[str, Meta(description="The name of the skill to load.")] = ""
    args: Annotated[str, Meta(description="Its arguments, as a person would type them after its name.")] = ""
    query: Annotated[str, Meta(description="Without `name`: words to look for among all skills.")] = ""


def named_skill(arguments: SkillArguments, context: ToolContext) -> tuple[Access, ...]:
    """Loading one needs no permission; rules such as `skill(deploy)` deny it."""
    skills = context.skills() if context.skills is not None else None
    found = skills.library.find(_plain_name(arguments)) if skills is not None else None
    return (Access("none", found.name if found is not None else ""),)


def _plain_name(arguments: SkillArguments) -> str:
    return arguments.name.strip().removeprefix("/")


async def use_skill(arguments: SkillArguments, call: ToolCall) -> ToolResult:
    skills = call.context.skills() if call.context.skills is not None else None
    if skills is None:
        raise ToolError("There are no skills here.\nGo on without one.")
    if arguments.name.strip():
        loaded: ToolResult = await skills.load(_plain_name(arguments), arguments.args.strip())
        return loaded
    return search_result(skills.library, arguments.query.strip())


def search_result(library: SkillLibrary, words: str) -> ToolResult:
    found = library.search(words) if words else library.for_model()
    lines = [f"- {one.name}: {one.description[:MAX_HIT_CHARS]}" for one in found[:MAX_SEARCH_HITS]]
    if (more := len(found) - MAX_SEARCH_HITS) > 0:
        lines.append(f"[{more} more; other words narrow the search]")
    text = "\n".join(lines) if lines else f"No skill fits: {words}"
    return text_result(text, human={"note": f"{len(found)} found"})


TOOL = Tool(
    name="skill",
    description="""\
Loads the instructions of a skill, to be followed for the work at hand. The system prompt lists the skills.

Load one before you begin with work that it is for, and once only: its instructions stay. With `query` look \
for one that is not in the list.""",
    arguments=SkillArguments,
    kind="instructs",
    title=lambda arguments: " ".join(
        filter(None, (arguments.name or arguments.query, arguments.args))
    ).strip(),
    access=named_skill,
    run=use_skill,
)

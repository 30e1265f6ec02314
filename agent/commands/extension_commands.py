"""Commands about what people bring in files: /skills and /trust."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from agent.app.context_building import session_hooks
from agent.app.controller import Controller
from agent.app.project_items import choose_items, item_lines, project_items, record_decision
from agent.events import CommandOutput, Event, Notice
from agent.extensions.agents.agent_definitions import agents_section
from agent.extensions.skills.skill_presence import Skill, SkillCatalog, SkillKind
from agent.formatting import shorten

MAX_SUMMARY_CHARS = 75  # shown of a command or skill in a list
NO_SKILLS = (
    "no commands and skills: a command is a file .claude/commands/NAME.md, a skill a file"
    " .claude/skills/NAME/SKILL.md, in the project or in your home"
)


async def show_trust(controller: Controller, argument: str) -> Event | None:
    """Show or change what this project may bring: commands that its files run, rights that they take. \
`all` allows all of it, `none` nothing."""
    approvals, emit = controller.services.approvals, controller.emit
    items = await project_items(controller.setup)
    if not items:
        return Notice("this project brings nothing that needs your approval")
    if argument in ("all", "none"):
        record_decision(approvals, items, argument == "all", emit)
    elif argument:
        return Notice(
            "/trust shows and changes what this project may bring; /trust all, /trust none", "warning"
        )
    elif controller.chooser is not None:
        before = [approvals.decided(item) for item in items]
        await choose_items(approvals, items, controller.chooser, emit)
        if before == [approvals.decided(item) for item in items]:
            return Notice("nothing was changed")
    session, context = controller.in_use
    known = controller.services.agents
    await controller.services.read_approved()
    new = {name: each for name, each in controller.services.agents.items() if each != known.get(name)}
    if told := agents_section(new):  # the system prompt stays as it is until the next session
        context.tool_context.inbox.post(told, "agents")
    if context.wall is not None:
        context.hooks = session_hooks(controller.services, session, context.wall)
    if controller.services.mcp is not None:
        await controller.services.mcp.settle_approvals()
    emit(CommandOutput("\n".join(item_lines(items, approvals))))
    return None


async def show_skills(controller: Controller, argument: str) -> Event | None:
    """List your commands and skills and the project's: what each is for, where it is, what is off. They are \
looked for anew. With a name, show all about that one."""
    services = controller.services
    warnings = await services.find_skills()
    library = services.skills
    if argument:
        skill = library.find(argument.lstrip("/"))
        if skill is None:
            return Notice(f"there is no command or skill named {argument}; /skills lists them", "warning")
        return CommandOutput(skill_help(skill))
    if not library.skills and not warnings:
        return Notice(NO_SKILLS)
    lines = [f"{len(library.skills)} commands and skills", *_skill_lines(library)]
    lines += [f"  hidden: {hidden.path} by {known.path}" for hidden, known in library.shadowed]
    ours = {name for name, _ in controller.command_table.command_summaries()} & library.skills.keys()
    lines += [f"  hidden: {library.skills[name].path} by /{name} of makeroom" for name in sorted(ours)]
    controller.emit(CommandOutput("\n".join(lines)))
    for warning in warnings:
        controller.emit(Notice(warning, "warning"))
    waiting = services.approvals.undecided(await project_items(controller.setup))
    if open_items := [item for item in waiting if item.kind in get_args(SkillKind)]:
        controller.emit(Notice("until /trust allows them, these run no line and are granted nothing:"))
        controller.emit(CommandOutput("\n".join(item_lines(open_items))))
    return None


def typed_lines(library: SkillCatalog) -> list[str]:
    """A line for each that can be typed."""
    skills = library.for_people()
    width = max((len(one.name) for one in skills), default=0)
    return [f"/{one.name:<{width}}  {shorten(one.summary, MAX_SUMMARY_CHARS)}" for one in skills]


def _skill_lines(library: SkillCatalog) -> Iterator[str]:
    width = max((len(one.name) for one in library.skills.values()), default=0)
    for name in sorted(library.skills):
        one = library.skills[name]
        slash, about = "/" if one.for_user else " ", " · ".join(filter(None, (one.hint, one.description)))
        yield f"  {slash}{name:<{width}}  {one.origin:<7}  {one.kind:<7}  {shorten(about, MAX_SUMMARY_CHARS)}"


def skill_help(skill: Skill) -> str:
    """All about one."""
    facts = {
        "for": skill.description,
        "takes": skill.hint or " ".join(skill.arguments),
        "allows": ", ".join(skill.allowed_tools),
        "model": " ".join(filter(None, (skill.model, skill.effort))),
        "runs": f"in a session of its own {skill.agent}".strip() if skill.forks else "",
        "only": "" if skill.for_model and skill.for_user else "you" if skill.for_user else "the model",
        "file": str(skill.path),
    }
    name = f"/{skill.name}" if skill.for_user else skill.name
    lines = (f"  {label:<7} {text}" for label, text in facts.items() if text)
    return "\n".join((f"{name}: a {skill.kind} of the {skill.origin}", *lines))

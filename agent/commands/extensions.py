"""Commands about extensions (/skills, /trust, /hooks, /plugin) and about running agents (/agents)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence, Set
from typing import get_args

from agent.app import Controller, choose_items, item_lines, project_items, record_decision, session_hooks
from agent.events import CommandOutput, Event, Notice
from agent.extensions.agents import agents_section
from agent.extensions.hooks import HOOK_KINDS, HookEntry
from agent.extensions.plugins import Plugin
from agent.extensions.skills import SkillKind, SkillLibrary
from agent.formatting import format_count
from agent.loop import AGENT_TOPIC, Agent
from agent.ports import HookEvent
from tools.sandbox import short_path
from transcripts.export import conversation_text
from transcripts.wording import pluralize, shorten

from .running import usage_notice
from .screen import MAX_SUMMARY_CHARS, skill_help
from .settings import shown_settings_path


async def show_trust(controller: Controller, argument: str) -> Event | None:
    """Run /trust."""
    approvals = controller.services.approvals
    emit = controller.emit
    items = await project_items(controller.setup)
    if not items:
        return Notice("this project defines no extensions that need your approval")
    if argument in ("all", "none"):
        record_decision(approvals, items, argument == "all", emit)
    elif argument:
        return usage_notice("trust", f"unknown argument {argument!r}")
    elif controller.chooser is not None:
        before = [approvals.decided(item) for item in items]
        await choose_items(approvals, items, controller.chooser, emit)
        if before == [approvals.decided(item) for item in items]:
            return Notice("no changes")
    await _use_approved(controller)
    emit(CommandOutput("\n".join(item_lines(items, approvals))))
    return None


async def _use_approved(controller: Controller) -> None:
    """Enable the approved agents, hooks and servers, and disable all others."""
    services = controller.services
    session, context = controller.in_use
    agents_before = services.agents
    before = services.approved
    await services.read_approved()
    await services.find_skills()
    if services.approved.variables != before.variables:
        services.emit(Notice("run /clear to use the variables in a new session"))
    if services.approved.model != before.model:
        services.emit(Notice("the new model is used after a restart; /model changes it now"))
    new = {name: each for name, each in services.agents.items() if each != agents_before.get(name)}
    section = agents_section(new)
    if section:  # the system prompt does not change until the next session
        context.tool_context.inbox.post(section, "agents")
    if context.sandbox is not None:
        context.hooks = session_hooks(services, session, context.sandbox)
    if services.mcp is not None:
        await services.mcp.settle_approvals()


async def show_skills(controller: Controller, argument: str) -> Event | None:
    """Run /skills."""
    services = controller.services
    await services.find_skills()
    library = services.skills
    if argument:
        skill = library.find(argument.lstrip("/"))
        if skill is None:
            return usage_notice("skills", f"no command or skill is named {argument!r}")
        return CommandOutput(skill_help(skill))
    if not library.skills and not library.unusable:
        return Notice(
            "no commands or skills; create .claude/commands/NAME.md or .claude/skills/NAME/SKILL.md in the"
            " project or in your home directory"
        )
    builtin = {one.name for one in controller.command_table.command_summaries()}
    lines = [
        f"{pluralize(len(library.skills), 'command or skill', 'commands and skills')}",
        *_skill_lines(library, builtin),
    ]
    unused = (*library.hidden(builtin), *library.unusable)
    lines += [f"  unused: {part.path} ({part.why})" for part in unused]
    controller.emit(CommandOutput("\n".join(lines)))
    waiting = services.approvals.undecided(await project_items(controller.setup))
    if open_items := [item for item in waiting if item.kind in get_args(SkillKind)]:
        controller.emit(Notice("not approved, so their commands and permissions are disabled (see /trust):"))
        controller.emit(CommandOutput("\n".join(item_lines(open_items))))
    return None


async def show_plugins(controller: Controller, argument: str) -> Event | None:
    """Run /plugin."""
    services = controller.services
    await services.read_approved()
    verb, _, name = argument.partition(" ")
    if verb in ("enable", "disable") and name:
        found = [plugin for plugin in services.plugins if name.strip() in (plugin.id, plugin.name)]
        if len(found) != 1:
            return usage_notice(
                "plugin", f"{'several plugins are' if found else 'no plugin is'} named {name}"
            )
        (plugin,) = found
        if plugin.problem or plugin.source == "flag":
            return Notice(f"{plugin.id}: {plugin.problem or 'loaded by --plugin-dir'}", "warning")
        record_decision(services.approvals, [plugin.item], verb == "enable", controller.emit)
        await _use_approved(controller)
        if plugin.servers:
            controller.emit(Notice("its MCP servers are started or stopped at the next start of makeroom"))
    elif argument not in ("", "list"):
        return usage_notice("plugin", f"unknown argument {argument!r}")
    if not services.plugins:
        return Notice(
            "no plugins; makeroom uses those that Claude Code has installed, and those of --plugin-dir"
        )
    return CommandOutput("\n".join(_plugin_lines(services.plugins, services.active_plugins)))


def _plugin_lines(plugins: Sequence[Plugin], active: Sequence[Plugin]) -> Iterator[str]:
    width = max(len(plugin.id) for plugin in plugins)
    for plugin in plugins:
        state = "enabled" if plugin in active else "disabled"
        about = plugin.problem or " · ".join(filter(None, (plugin.version, plugin.contents)))
        yield f"{state:<8}  {plugin.id:<{width}}  {shorten(about, 400)}"
        if plugin.ignored and plugin in active:
            names = ", ".join(dict.fromkeys(name for name, _ in plugin.ignored))
            yield f"{'':<8}  {'':<{width}}  without effect: {names}"


def _skill_lines(library: SkillLibrary, builtin: Set[str]) -> Iterator[str]:
    """List all by the names that the user types; a built-in command may have the first one."""
    others = {one.path: name for name, one in library.others.items()}
    typed = {
        name: others.get(one.path, "") if name in builtin else name for name, one in library.skills.items()
    }
    width = max(map(len, (*library.skills, *typed.values())), default=0)
    for name in sorted(library.skills):
        one = library.skills[name]
        shown = f"/{typed[name]}" if one.for_user and typed[name] else f" {name}"
        about = shorten(" · ".join(filter(None, (one.hint, one.description))), MAX_SUMMARY_CHARS)
        yield f"  {shown:<{width + 1}}  {one.origin:<7}  {one.kind:<7}  {about}"


async def show_agents(controller: Controller, argument: str) -> Event | None:
    """Run /agents."""
    session, context = controller.in_use
    if context.agents is None:
        return Notice("agents are disabled in this session")
    pool = context.agents
    verb, _, rest = argument.partition(" ")
    known = {agent.number: agent for agent in pool.agents}
    if verb == "stop":
        one = known.get(int(rest)) if rest.isdecimal() else None
        if rest and one is None:
            return usage_notice("agents", f"no agent in this session has the number {rest!r}")
        count = pool.interrupt(one)
        stopped = f"stopped {pluralize(count, 'background agent')}"
        return Notice(stopped if count else "no background agent is running")
    notes = [note.about for note in session.folded.metadata if note.topic == AGENT_TOPIC]
    by_number = {about.get("number"): about for about in notes}
    if number := argument.removeprefix("#"):
        noted = by_number.get(int(number)) if number.isdecimal() else None
        if noted is None:
            return usage_notice("agents", f"no agent in this session has the number {number!r}")
        text = await asyncio.to_thread(
            conversation_text,
            str(noted.get("session")),
            controller.services.repository.home,
            controller.setup.masks,
            int(noted.get("since") or 0),
        )
        return CommandOutput(text)
    earlier = [
        f"#{about.get('number')}  {about.get('agent')}  {about.get('task')}  (in an earlier run)"
        for about in notes
        if about.get("number") not in known
    ]
    lines = [*earlier, *map(agent_line, known.values())]
    shown = [*(lines or ["no agent has run yet"]), *_definition_lines(controller)]
    controller.emit(CommandOutput("\n".join(shown)))
    await pool.let_ask()
    return None


def _definition_lines(controller: Controller) -> Iterator[str]:
    """Yield the agents that the task tool can run, with their sources."""
    agents = controller.services.agents
    width = max(map(len, agents))
    yield ""
    yield "available:"
    for name, one in sorted(agents.items()):
        origin = one.origin if one.origin in ("built in", "given") else short_path(one.origin)
        yield f"  {name:<{width}}  {shorten(one.description, MAX_SUMMARY_CHARS)}  ({origin})"


def agent_line(agent: Agent) -> str:
    """Return a line: `#1  explore  find the parser  (done, 12 requests, 34k tokens, $0.0210)`."""
    if not agent.ended:
        state = agent.status.doing
    elif agent.stopped:
        state = "interrupted"
    else:
        state = "ended early" if agent.error else "done"
    figures = f"{pluralize(agent.requests, 'request')}, {format_count(agent.tokens)} tokens"
    cost = f", ${agent.dollars:.4f}" if agent.dollars else ""  # prices may be unknown
    return f"#{agent.number}  {agent.name}  {agent.task}  ({state}; {figures}{cost})"


def _with_condition(entry: HookEntry) -> str:
    return f"if {entry.condition}: {entry.run}" if entry.condition else entry.run


def active_hooks(controller: Controller) -> tuple[HookEntry, ...]:
    """Return the hooks that are in force: of makeroom's settings, approved ones, and those of plugins."""
    services = controller.services
    of_plugins = (entry for plugin in services.active_plugins for entry in plugin.hooks)
    return (*controller.setup.config.hooks, *services.approved.hooks, *of_plugins)


async def show_hooks(controller: Controller, argument: str) -> Event | None:
    """Run /hooks."""
    config = controller.setup.config
    services = controller.services
    entries = active_hooks(controller)
    moments = max((len(entry.moment) for entry in entries), default=0)
    matchers = max((len(entry.matcher) for entry in entries), default=0)
    lines = [
        f"{entry.moment:<{moments}}  {entry.matcher:<{matchers}}  {_with_condition(entry)}  ({entry.origin})"
        for entry in entries
    ]
    hooks = [item for item in await project_items(controller.setup) if item.kind in HOOK_KINDS]
    waiting = [item for item in hooks if not services.approvals.allows(item)]
    if waiting:
        lines.append(f"disabled until approved (see /trust): {pluralize(len(waiting), 'hook')}")
    controller.emit(CommandOutput("\n".join(lines) or "no hooks"))
    return Notice(
        f"define hooks in [hooks] of {shown_settings_path(config)}, or in settings files of Claude"
        f" Code; the events are {', '.join(HookEvent)}"
    )

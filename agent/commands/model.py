"""Change the model and its effort: /model and /effort."""

from __future__ import annotations

from agent.app import EFFORT_CHOICES, NO_EFFORT, Controller
from agent.events import CommandOutput, Event, Notice
from agent.loop import OTHER_MODEL, show_cold_cost, tokens_when_cold
from agent.settings_files import write_setting

from .running import usage_notice
from .setting_menus import effort_menu, model_menu
from .table import usage_of

SAVE = "--save"  # for new sessions too


async def set_model(controller: Controller, argument: str) -> Event | None:
    """Run /model."""
    selection = controller.services.selection
    if controller.setup.options.offline:
        return Notice("cannot change the model with --offline; restart without it", "warning")
    facts = selection.facts
    catalog = selection.model.catalog
    argument, keeps = _without_save(argument)
    listed = () if argument else await selection.available()
    if not argument and controller.chooser is not None:
        row = await controller.chooser.choose(model_menu(catalog, facts, listed))
        if row is None:
            return None
        if row.value == facts.id and not keeps:
            return Notice(f"already using {facts.id}")
        argument = row.value if row.value != facts.id else ""
    if not argument and not keeps:
        named = {alias: id for alias, id in catalog.aliases.items() if not listed or id in listed}
        lines = "\n".join(
            [
                *(f"/model {alias:<8} {id}" for alias, id in named.items()),
                *(f"/model {id}" for id in listed if id not in named.values()),
            ]
        )
        size = f"window {facts.window:,} tokens, max output {facts.max_output:,} tokens"
        if facts.retires_on:
            size += f", retires on {facts.retires_on}"
        return CommandOutput(f"{facts.id}: {size}\n{lines}\n/model ID       any other model")
    if argument:
        await _change_model(controller, argument)
    return _keep(controller, "model", argument or facts.id) if keeps else None


def _without_save(argument: str) -> tuple[str, bool]:
    """Return the words of an argument without --save, and whether it was among them."""
    words = argument.split()
    return " ".join(word for word in words if word != SAVE), SAVE in words


async def _change_model(controller: Controller, name: str) -> None:
    """Change the model and report it. Raises UsageError."""
    session, context = controller.in_use
    if context.asking.locked():
        controller.emit(Notice(f"the model changes to {name} after the current request"))
    await controller.factory.change_model(session, context, name)
    controller.emit(Notice(f"the model is now {context.settings.model}"))
    await show_cold_cost(session, context, controller.emit, OTHER_MODEL, cold=tokens_when_cold)
    controller.services.warn_of_retirement()
    if doubt := controller.services.selection.doubt():
        controller.emit(Notice(doubt, "warning"))


def _keep(controller: Controller, name: str, value: str) -> Notice:
    """Write a setting for new sessions to the settings file. Raises ConfigError and OSError."""
    setup = controller.setup
    path = setup.config.settings_path
    write_setting(path, name, value)
    variable = setup.config.origins.get(name, "")
    if name == "model" and setup.config.names_openai and variable not in setup.environ:
        variable = "OPENAI_MODEL"
    unless = f", unless {variable} in the environment overrides it" if variable in setup.environ else ""
    return Notice(f'wrote {name} = "{value}" to {path}; new sessions use it{unless}')


async def set_effort(controller: Controller, argument: str) -> Event | None:
    """Run /effort."""
    session, context = controller.in_use
    facts = controller.services.selection.facts
    argument, keeps = _without_save(argument)
    if argument and argument not in EFFORT_CHOICES:
        return usage_notice("effort", f"unknown effort {argument!r}")
    able, needs = (facts.thinking, "thinking") if argument == NO_EFFORT else (facts.effort, "effort")
    if not able or needs in context.settings.rejected:
        return Notice(f"cannot change the effort: {context.settings.model} does not support it", "warning")
    chosen = controller.services.setup.options.effort or controller.setup.config.effort
    now = NO_EFFORT if chosen == NO_EFFORT else context.settings.effort
    if not argument and controller.chooser is not None:
        row = await controller.chooser.choose(effort_menu(now))
        if row is None:
            return None
        argument = row.value
    if keeps:
        argument = argument or now or ""
    if not argument:
        return Notice(f"the effort is {now or 'the default of the model'} ({usage_of('effort')})")
    controller.factory.change_effort(context, argument)
    cached = "; the next request rewrites the cache" if session.folded.entries else ""
    changed = Notice(f"the effort is now {argument}{cached}")
    if not keeps:
        return changed
    controller.emit(changed)
    return _keep(controller, "effort", argument)

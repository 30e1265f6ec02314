"""Show and change settings: /status and /config."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import structs

from agent.app import Config, Controller, form_of, setting_names, with_setting
from agent.errors import ConfigError, UsageError
from agent.events import CommandOutput, Event, Notice
from agent.keys import with_keys
from agent.settings_files import typed_value
from compact import CompactSettings, describe_server_cache
from transcripts.secrets import mask
from transcripts.wording import pluralize

from .model import set_effort, set_model
from .permissions import set_permissions
from .screen import choose_editing, set_theme
from .setting_menus import SettingRow, mode_words, settings_menu
from .system import show_sandbox

FLAG_SETTINGS = ("model", "effort", "context_window", "permission_mode", "sandbox")  # flags set them as well
# Settings whose values are never shown -> the environment variable that each is read from.
SECRET_SETTINGS: Mapping[str, str] = {
    "key": "ANTHROPIC_API_KEY",
    "token": "ANTHROPIC_AUTH_TOKEN",
    "custom_headers": "ANTHROPIC_CUSTOM_HEADERS",
}
CHANGED_AT_ONCE = ("max_tokens", "context_window", "cache")  # as well as all of [compact]
OPTIONS_OF_FLAGS = {"context_window": "context_window", "compact.policy": "policy"}  # of these settings
# Hints shown with settings that another command changes for this session.
CHANGED_ELSEWHERE = {
    "allow": "use /permissions allow RULE to add one for this session; ",
    "deny": "use /permissions deny RULE to add one for this session; ",
    "ask": "use /permissions ask RULE to add one for this session; ",
}


async def show_status(controller: Controller, argument: str) -> Event | None:
    """Run /status."""
    session, context = controller.in_use
    if context.sandbox is not None:
        with suppress(ConfigError):  # its line gives the reason
            await context.sandbox.warm()
    window = context.compaction.window
    source = context.compaction.window_source
    source = f"from {source}" if source else "assumed, set it with --context-window"
    cache = describe_server_cache(session.folded)
    rules = context.permissions.rules
    lines = [
        f"model       {context.settings.model}",
        f"window      {window.size:,} tokens ({source})",
        f"server      {mask(controller.services.selection.model.server)}",
        f"session     {session.sid}",
        f"directory   {controller.setup.folder}",
        f"mode        {rules.mode}: {mode_words(rules.mode, rules.sandboxed)}",
        *([f"sandbox     {context.sandbox.line}"] if context.sandbox is not None else ()),
        f"policy      {context.compaction.settings.policy}",
        *([f"cache       {cache}"] if not context.compaction.cuts_silently else ()),
        f"settings    {shown_settings_path(controller.setup.config)}",
    ]
    return CommandOutput("\n".join(lines))


async def show_settings(controller: Controller, argument: str) -> Event | None:
    """Run /config."""
    rows = list(_rows(controller))
    if argument:
        name, _, value = argument.partition(" ")
        return await _change_named(controller, name, value.strip(), {row.name for row in rows})
    if controller.chooser is not None:
        shown = [each._replace(value=_shown_value(each.name, each.value)) for each in rows]
        row = await controller.chooser.choose(settings_menu(shown))
        return await _change_setting(controller, row.value) if row is not None else None
    controller.emit(CommandOutput("\n".join(setting_lines(controller))))
    return Notice(f"change settings permanently in {shown_settings_path(controller.setup.config)}")


def shown_settings_path(config: Config) -> str:
    """Return the path of the user's settings file, and whether it has yet to be created."""
    path = config.settings_path
    return str(path) if path.exists() else f"{path} (not created yet)"


def setting_lines(controller: Controller) -> list[str]:
    """List the settings in force and where each was set; of secrets only whether they are set."""
    rows = list(_rows(controller))
    width = max(len(row.name) for row in rows)
    return [f"{row.name:<{width}}  {_shown_value(row.name, row.value)}  ({row.origin})" for row in rows]


async def _change_named(controller: Controller, name: str, value: str, listed: set[str]) -> Event | None:
    """Change or show a setting by its name; one of [compact] may be named without its table."""
    tuning = (f"compact.{name}" for name in CompactSettings.__struct_fields__)
    names = {*listed, *tuning}
    name = name if name in names or f"compact.{name}" not in names else f"compact.{name}"
    if name not in names:
        short = {each.removeprefix("compact."): each for each in sorted(names)}
        near = difflib.get_close_matches(name.removeprefix("compact."), short, 1)
        hint = f"did you mean {short[near[0]]}?" if near else "run /config to list the settings"
        return Notice(f"unknown setting {name!r}; {hint}", "warning", UsageError.code)
    if value and controller.setup.options.headless:
        ways = "use a flag, the environment or a settings file"
        return Notice(f"cannot change a setting with --print; {ways}", "error")
    return await _change_setting(controller, name, value)


async def _change_setting(controller: Controller, name: str, value: str = "") -> Event | None:
    """Change a setting for this session if possible; without a value, show it or choose a value."""
    is_of_screen = name in ("theme", "editing")  # their commands save the value, and do not show it
    if name in CHANGED_BY and (value or controller.chooser is not None or not is_of_screen):
        changed = await CHANGED_BY[name](controller, value)
        if isinstance(changed, Notice) and changed.code:  # it shows the usage of the other command
            text = f"cannot set {name} to {value!r}: it must be {form_of(name)}"
            return Notice(text, changed.level, changed.code)
        return changed
    if name in SECRET_SETTINGS:
        return Notice(f"set {SECRET_SETTINGS[name]} in the environment and restart")
    path = controller.setup.config.settings_path
    table = "in [compact] " if name.startswith("compact.") else ""
    written = value or "..."
    if value and isinstance(typed := typed_value(value), str):
        written = json.dumps(typed, ensure_ascii=False)
    entry = f"`{name.removeprefix('compact.')} = {written}` {table}to {path}"
    at_once = bool(table) or name in CHANGED_AT_ONCE or name in CHANGED_BY
    elsewhere = CHANGED_ELSEWHERE.get(name, "")
    if not value:
        controller.emit(CommandOutput(f"{_shown_setting(controller, name)}; it takes {form_of(name)}"))
        if is_of_screen:
            return Notice(f"use /config {name} VALUE to change it")
        here = f"use /config {name} VALUE to change it for this session; " if at_once else elsewhere
        return Notice(f"{here}add {entry} to change it permanently")
    try:
        config = with_setting(controller.setup.config, name, value)
        if not at_once:
            return Notice(f"{elsewhere}add {entry} and restart")
        _use_setting(controller, name, config)
    except ConfigError as error:
        return Notice(str(error), "warning")
    return Notice(f"{_shown_setting(controller, name)}; to keep it, add {entry}")


def _use_setting(controller: Controller, name: str, config: Config) -> None:
    """Use changed settings from now on. Raises ConfigError."""
    flagged: dict[str, Any] = {OPTIONS_OF_FLAGS[name]: None} if name in OPTIONS_OF_FLAGS else {}
    setups = [
        structs.replace(setup, config=config, options=structs.replace(setup.options, **flagged))
        for setup in (controller.services.setup, controller.setup)
    ]
    controller.factory.use_settings(*controller.in_use, setups[0])
    controller.setup = setups[1]


def _shown_setting(controller: Controller, name: str) -> str:
    """Return the value of a setting and where it was set, as in `theme = dark (default)`."""
    row = next(each for each in _rows(controller, whole=True) if each.name == name)
    shown = _shown_value(name, row.value)
    return f"{name} is not set" if shown == "-" else f"{name} = {shown} ({row.origin})"


async def _set_mode(controller: Controller, value: str) -> Event | None:
    return await set_permissions(controller, f"mode {value}" if value else "")


# Setting -> the function that changes it for this session; without a value, it shows a menu.
CHANGED_BY: Mapping[str, Callable[[Controller, str], Awaitable[Event | None]]] = {
    "model": set_model,
    "effort": set_effort,
    "permission_mode": _set_mode,
    "sandbox": show_sandbox,
    "theme": set_theme,
    "editing": choose_editing,
}


def _rows(controller: Controller, whole: bool = False) -> Iterator[SettingRow]:
    """Yield the settings with their values; those of [compact] at their default only if `whole`."""
    yield from _settings(controller)
    yield from _compaction_settings(controller, whole)


def _settings(controller: Controller) -> Iterator[SettingRow]:
    setup = controller.setup
    _, context = controller.in_use
    model = controller.services.selection.model.catalog.resolve(setup.model_name)
    modes = with_keys("{mode} or /permissions", setup.key_names, " or ")
    changeable = {  # by a command: the current value, the value at the start, the command
        "model": (context.settings.model, model, "/model"),
        "effort": (controller.services.setup.options.effort, setup.options.effort, "/effort"),
        "permission_mode": (context.permissions.rules.mode, setup.mode, modes),
        "sandbox": (context.permissions.sandbox.summary, setup.sandbox.summary, "/sandbox"),
    }
    for name in (*(name for name in setting_names() if name != "compact"), *SECRET_SETTINGS):
        value = getattr(setup.config, name)
        origin = setup.config.origins.get(name, "default")
        if name in FLAG_SETTINGS and (given := getattr(setup.options, name)) is not None:
            flag = f"--{name.replace('_', '-')}"
            value = given
            origin = setup.options.window_flag if name == "context_window" else flag
        if name == "model":
            value = model
            origin = "--offline" if setup.options.offline else origin
        now, then, command = changeable.get(name, (None, None, ""))
        yield SettingRow(name, value, origin) if now == then else SettingRow(name, now, command)


def _compaction_settings(controller: Controller, whole: bool) -> Iterator[SettingRow]:
    """Yield the policy and the settings of [compact] that are not the default; all of them if `whole`."""
    setup = controller.setup
    origins = setup.config.origins
    settings = controller.in_use.context.compaction.settings
    for name, default in structs.asdict(CompactSettings()).items():
        value = getattr(settings, name)
        if value == default and name != "policy" and not whole:
            continue
        flag = "--policy" if name == "policy" and setup.options.policy else ""
        yield SettingRow(f"compact.{name}", value, flag or origins.get(f"compact.{name}", "default"))


def _shown_value(name: str, value: Any) -> str:
    if value in (None, (), {}, ""):
        return "-"
    if name in SECRET_SETTINGS:
        return "set"
    if name == "hooks":
        return f"{pluralize(len(value), 'hook')} (see /hooks)"
    if isinstance(value, float):
        return str(value).removesuffix(".0")
    text = ", ".join(dict.fromkeys(map(str, value))) if isinstance(value, tuple | Mapping) else str(value)
    return text.lower() if isinstance(value, bool) else text

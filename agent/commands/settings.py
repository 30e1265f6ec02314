"""Commands that show and change settings: /status, /model, /effort, /permissions, /config."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import structs

from agent.app import EFFORTS, NO_EFFORT, Config, Controller, form_of, setting_names, with_setting
from agent.errors import ConfigError, UsageError
from agent.events import CommandOutput, Event, Notice
from agent.keys import with_keys
from agent.loop import OTHER_MODEL, show_cold_cost, tokens_when_cold
from agent.permissions import MODES, SESSION_ORIGIN, PermissionStore, Rule, explain_line, parse_rules
from agent.settings_files import typed_value, write_setting
from compact import CompactSettings, describe_server_cache
from tools.access import command_access
from tools.base import ToolError
from transcripts.secrets import mask
from transcripts.wording import pluralize, shorten

from .importing_rules import import_rules
from .running import usage_notice
from .screen import choose_editing, set_theme
from .setting_menus import (
    RuleRow,
    SettingRow,
    effort_menu,
    mode_words,
    model_menu,
    permission_menu,
    settings_menu,
)
from .system import show_sandbox
from .table import usage_of

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
SAVE = "--save"  # of /model: for new sessions too


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
    lines = [
        f"model       {context.settings.model}",
        f"window      {window.size:,} tokens ({source})",
        f"server      {mask(controller.services.selection.model.server)}",
        f"session     {session.sid}",
        f"directory   {controller.setup.folder}",
        f"mode        {context.permissions.rules.mode}",
        *([f"sandbox     {context.sandbox.line}"] if context.sandbox is not None else ()),
        f"policy      {context.compaction.settings.policy}",
        *([f"cache       {cache}"] if not context.compaction.cuts_silently else ()),
        f"settings    {shown_settings_path(controller.setup.config)}",
    ]
    return CommandOutput("\n".join(lines))


async def set_model(controller: Controller, argument: str) -> Event | None:
    """Run /model."""
    selection = controller.services.selection
    words = argument.split()
    if controller.setup.options.offline:
        return Notice("cannot change the model with --offline; restart without it", "warning")
    facts = selection.facts
    catalog = selection.model.catalog
    keeps = SAVE in words
    argument = " ".join(word for word in words if word != SAVE)
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
    return _keep_model(controller, argument or facts.id) if keeps else None


async def _change_model(controller: Controller, name: str) -> None:
    """Change the model and report it. Raises UsageError."""
    session, context = controller.in_use
    if context.asking.locked():
        controller.emit(Notice(f"the model changes to {name} after the current request"))
    await controller.factory.change_model(session, context, name)
    await show_cold_cost(session, context, controller.emit, OTHER_MODEL, cold=tokens_when_cold)
    controller.emit(Notice(f"the model is now {context.settings.model}"))
    controller.services.warn_of_retirement()
    if doubt := controller.services.selection.doubt():
        controller.emit(Notice(doubt, "warning"))


def _keep_model(controller: Controller, name: str) -> Notice:
    """Write the model for new sessions to the settings file. Raises ConfigError and OSError."""
    setup = controller.setup
    path = setup.config.settings_path
    write_setting(path, "model", name)
    before = setup.config.origins.get("model", "OPENAI_MODEL")
    overridden = f", unless {before} in the environment overrides it" if setup.names_model else ""
    return Notice(f'wrote model = "{name}" to {path}; new sessions use it{overridden}')


async def set_effort(controller: Controller, argument: str) -> Event | None:
    """Run /effort."""
    session, context = controller.in_use
    takes = (NO_EFFORT, *EFFORTS)
    facts = controller.services.selection.facts
    if argument and argument not in takes:
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
    if not argument:
        return Notice(f"the effort is {now or 'the default of the model'} ({usage_of('effort')})")
    controller.factory.change_effort(context, argument)
    cached = "; the next request rewrites the cache" if session.folded.entries else ""
    return Notice(f"the effort is now {argument}{cached}")


async def set_permissions(controller: Controller, argument: str) -> Event | None:
    """Run /permissions."""
    context = controller.in_use.context
    store = context.permissions
    if context.sandbox is not None:
        await context.sandbox.check()
    if not argument and controller.chooser is not None:
        menu = permission_menu(store.rules.mode, _rule_rows(store), store.rules.sandboxed)
        row = await controller.chooser.choose(menu)
        if row is None or not row.value:
            return None if row is None else Notice(usage_of("permissions"))
        argument = row.value
    verb, _, rest = argument.partition(" ")
    if verb not in ("", "mode", "allow", "deny", "ask", "remove", "import", "explain"):
        return usage_notice("permissions", f"unknown argument {verb!r}")
    try:
        if verb == "explain" and rest.strip():
            access = command_access(rest.strip(), controller.in_use.context.tool_context.cwd)
            return CommandOutput("\n".join(explain_line("bash", access, store.rules)))
        if verb == "import":
            return import_rules(controller, rest.strip())
        for text in _change_permissions(store, verb, rest.strip()):
            controller.emit(Notice(text))
    except (ValueError, ToolError) as error:
        return Notice(str(error), "warning")
    usage = () if verb else (usage_of("permissions"),)
    return CommandOutput("\n".join((*_permission_lines(store), *usage)))


def _change_permissions(store: PermissionStore, verb: str, rest: str) -> list[str]:
    """Make the change and return lines about it. Raises ValueError for wrong arguments."""
    if verb == "mode":
        if rest not in MODES:
            raise ValueError(f"unknown mode {rest!r}; the modes are {', '.join(MODES)}")
        store.set_mode(rest)
    elif verb in ("allow", "deny", "ask"):
        adding = {"allow": store.allow, "deny": store.deny, "ask": store.ask}
        for rule in parse_rules(rest, restricting=verb != "allow"):
            adding[verb](rule)
    elif verb == "remove":
        return _remove_rules(store, rest)
    elif verb == "explain":
        raise ValueError(usage_of("permissions"))
    return []


def _remove_rules(store: PermissionStore, text: str) -> list[str]:
    rules = _rules_by_kind(store)
    in_force = {str(rule) for _, rule in rules}
    wanted = {text}
    if text not in in_force:
        with suppress(ValueError):  # text that is not a rule cannot be one of ours
            wanted = {str(rule) for rule in parse_rules(text, restricting=True)}
    if missing := wanted - in_force:
        named = ", ".join(map(repr, sorted(missing)))
        raise ValueError(f"unknown rule {named}; run /permissions to list the rules")
    lines = []
    for kind, rule in rules:
        if str(rule) in wanted and (rule.origin == SESSION_ORIGIN or store.is_permanent(rule)):
            store.remove(rule)
            lines.append(f"removed {kind} {rule} ({_origin(store, rule)})")
        elif str(rule) in wanted:
            lines.append(f"cannot remove {kind} {rule}: remove it from {rule.origin} and restart")
    return list(dict.fromkeys(lines))


def _origin(store: PermissionStore, rule: Rule) -> str:
    return f"always allowed, in {rule.origin}" if store.is_permanent(rule) else rule.origin


def _permission_lines(store: PermissionStore) -> list[str]:
    rules = store.rules
    denied = store.denied[-5:]
    return [
        f"mode   {rules.mode}: {mode_words(rules.mode, rules.sandboxed)}",
        *(f"{row.kind:<5}  {row.rule}  ({row.origin})" for row in _rule_rows(store)),
        *(["recently denied:"] if denied else []),
        *(f"  {call.name}: {_first_argument(call.input)}" for call in denied),
    ]


def _rule_rows(store: PermissionStore) -> list[RuleRow]:
    """Return the rules to show, each once: several may translate one of another program."""
    rows = (RuleRow(kind, str(rule), _origin(store, rule)) for kind, rule in _rules_by_kind(store))
    return list(dict.fromkeys(rows))


def _rules_by_kind(store: PermissionStore) -> list[tuple[str, Rule]]:
    rules = store.rules
    kinds = (("allow", rules.allow), ("deny", rules.deny), ("ask", rules.ask))
    return [(kind, rule) for kind, each in kinds for rule in each]


def _first_argument(arguments: Mapping[str, Any]) -> str:
    """Return the first text among the arguments of a call, shortened."""
    text = next((value for value in arguments.values() if isinstance(value, str)), str(dict(arguments)))
    return shorten(text, 80)


async def show_settings(controller: Controller, argument: str) -> Event | None:
    """Run /config."""
    rows = [*_settings(controller), *_compaction_settings(controller)]
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
    rows = [*_settings(controller), *_compaction_settings(controller)]
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
    # The commands of these two do not show the value.
    if name in CHANGED_BY and (value or controller.chooser is not None or name not in ("theme", "editing")):
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
        if name in ("theme", "editing"):  # their commands save them
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
    rows = (*_settings(controller), *_compaction_settings(controller, whole=True))
    row = next(each for each in rows if each.name == name)
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


def _compaction_settings(controller: Controller, whole: bool = False) -> Iterator[SettingRow]:
    """Yield the policy and the settings of [compact] that are not the default; all of them if `whole`."""
    setup = controller.setup
    origins = controller.setup.config.origins
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

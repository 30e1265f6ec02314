"""Commands that show and change what is set: /status, /model, /effort, /permissions, /config."""

from __future__ import annotations

import difflib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from msgspec import structs

from agent.app import EFFORTS, NO_EFFORT, Config, Controller, form_of, with_setting
from agent.errors import ConfigError
from agent.events import CommandOutput, Event, Notice
from agent.formatting import shorten, with_keys
from agent.loop import OTHER_MODEL, tell_cold_cost, tokens_when_cold
from agent.permissions import MODES, SESSION_ORIGIN, PermissionStore, Rule, explain_line, parse_rules
from agent.settings_files import typed_value, write_setting
from compact import CompactSettings
from tools.access import command_access
from tools.base import ToolError
from tools.text import pluralize
from transcripts.secrets import mask

from .screen import choose_editing, set_theme
from .setting_menus import CHANGE_HINT, effort_menu, mode_words, model_menu, permission_menu, settings_menu
from .system import show_sandbox

FLAG_SETTINGS = (
    "model",
    "effort",
    "context_window",
    "permission_mode",
    "sandbox",
)  # that a flag may set as well
PLAIN_SETTINGS = (
    "theme",
    "editing",
    "max_tokens",
    "cache",
    "base_url",
    "timeout",
    "allow",
    "deny",
    "pass_env",
)
# Shown as set or not; the variable that each is read from.
SECRET_SETTINGS: Mapping[str, str] = {
    "key": "ANTHROPIC_API_KEY",
    "token": "ANTHROPIC_AUTH_TOKEN",
    "custom_headers": "ANTHROPIC_CUSTOM_HEADERS",
}
OTHER_SETTINGS = ("provider", "notify", "status_line", "output_style", "hooks", "prices")
CHANGED_AT_ONCE = ("max_tokens", "context_window", "cache")  # and all of [compact]
OPTIONS_OF_FLAGS = {"context_window": "context_window", "compact.policy": "policy"}  # that set some of these
# What a command of its own changes in this session, told where the setting is looked at.
CHANGED_ELSEWHERE = {
    "allow": "/permissions allow RULE adds one for this session; ",
    "deny": "/permissions deny RULE adds one for this session; ",
}
SAVE = "--save"  # of /model: for new sessions too
SettingRow = tuple[str, Any, str]  # name, value, where it was set


async def show_status(controller: Controller, argument: str) -> Event | None:
    """/status."""
    session, context = controller.in_use
    if context.sandbox is not None:
        with suppress(ConfigError):  # its line says why there is none
            await context.sandbox.warm()
    window = context.compaction.window
    source = context.compaction.window_source
    source = f"from {source}" if source else "a guess: nobody told; --context-window sets it"
    lines = [
        f"model       {context.settings.model}",
        f"window      {window.size:,} tokens ({source})",
        f"server      {mask(controller.services.selection.model.server)}",
        f"session     {session.sid}",
        f"folder      {controller.setup.folder}",
        f"permission  {context.permissions.rules.mode}",
        *([f"wall        {context.sandbox.line}"] if context.sandbox is not None else ()),
        f"policy      {context.compaction.settings.policy}",
        f"settings    {controller.setup.config.user_dir / 'settings.toml'}",
    ]
    return CommandOutput("\n".join(lines))


async def set_model(controller: Controller, argument: str) -> Event | None:
    """/model."""
    selection = controller.services.selection
    words = argument.split()
    if controller.setup.options.offline:
        return Notice("--offline has only the demo; start without it to choose a model")
    facts = selection.facts
    catalog = selection.model.catalog
    keeps = SAVE in words
    argument = " ".join(word for word in words if word != SAVE)
    if not argument and controller.chooser is not None:
        row = await controller.chooser.choose(model_menu(catalog, facts))
        if row is None:
            return None
        if row.value == facts.id and not keeps:
            return Notice(f"the model is {facts.id} already")
        argument = row.value if row.value != facts.id else ""
    if not argument and not keeps:
        lines = "\n".join(f"/model {alias:<8} {id}" for alias, id in catalog.aliases.items())
        size = f"window {facts.window:,} tokens, output up to {facts.max_output:,}"
        return CommandOutput(f"{facts.id}: {size}\n{lines}\n/model ID       any other")
    if argument:
        await _change_model(controller, argument)
    return _keep_model(controller, argument or facts.id) if keeps else None


async def _change_model(controller: Controller, name: str) -> None:
    """Change to a model, and tell of it. Raises UsageError."""
    session, context = controller.in_use
    selection = controller.services.selection
    if context.asking.locked():
        controller.emit(Notice(f"the model changes to {name} when the request that runs is answered"))
    await controller.factory.change_model(session, context, name)
    tell_cold_cost(session, context, controller.emit, OTHER_MODEL, cold=tokens_when_cold)
    controller.emit(Notice(f"the model is now {context.settings.model}"))
    if not selection.facts.known:
        near = selection.model.catalog.suggest(name)
        hint = f"; did you mean {near}?" if near and near != name else ""
        controller.emit(Notice(f"{selection.model.server} knows no model of that name{hint}", "warning"))


def _keep_model(controller: Controller, name: str) -> Notice:
    """Set the model of new sessions. Raises ConfigError and OSError."""
    setup = controller.setup
    path = setup.config.user_dir / "settings.toml"
    write_setting(path, "model", name)
    before = setup.config.origins.get("model", "OPENAI_MODEL")
    here = f"; {before} in the environment comes before it" if setup.names_model else ""
    return Notice(f'model = "{name}" is written to {path}: new sessions begin with it{here}')


async def set_effort(controller: Controller, argument: str) -> Event | None:
    """/effort."""
    session, context = controller.in_use
    takes = (NO_EFFORT, *EFFORTS)
    facts = controller.services.selection.facts
    if argument and argument not in takes:
        return Notice(f"the efforts are {', '.join(takes)}", "warning")
    able, needs = (facts.thinking, "thinking") if argument == NO_EFFORT else (facts.effort, "effort")
    if not able or needs in context.settings.rejected:
        return Notice(f"{context.settings.model} takes no effort here", "warning")
    told = controller.services.setup.options.effort or controller.setup.config.effort
    now = NO_EFFORT if told == NO_EFFORT else context.settings.effort
    if not argument and controller.chooser is not None:
        row = await controller.chooser.choose(effort_menu(now))
        if row is None:
            return None
        argument = row.value
    if not argument:
        now = now or "the default of the model"
        return Notice(f"the effort is {now}; /effort {'|'.join(takes)} changes it")
    controller.factory.change_effort(context, argument)
    cached = "; the next request writes the conversation to the cache anew" if session.folded.entries else ""
    return Notice(f"the effort is now {argument}{cached}")


async def set_permissions(controller: Controller, argument: str) -> Event | None:
    """/permissions."""
    store = controller.in_use[1].permissions
    if not argument and controller.chooser is not None:
        menu = permission_menu(store.rules.mode, _rule_rows(store), store.rules.sandboxed)
        row = await controller.chooser.choose(menu)
        if row is None or not row.value:
            return None if row is None else Notice(CHANGE_HINT)
        argument = row.value
    verb, _, rest = argument.partition(" ")
    try:
        if verb == "explain" and rest.strip():
            access = command_access(rest.strip(), controller.in_use[1].tool_context.cwd)
            return CommandOutput("\n".join(explain_line("bash", access, store.rules)))
        for text in _change_permissions(store, verb, rest.strip()):
            controller.emit(Notice(text))
    except (ValueError, ToolError) as error:
        return Notice(str(error), "warning")
    return CommandOutput("\n".join(_permission_lines(store)))


def _change_permissions(store: PermissionStore, verb: str, rest: str) -> list[str]:
    """Carry out the change and return the lines about it. Raises ValueError with the possible changes."""
    if verb == "mode":
        if rest not in MODES:
            raise ValueError(f"the modes are {', '.join(MODES)}")
        store.set_mode(rest)
    elif verb in ("allow", "deny"):
        add = store.allow if verb == "allow" else store.deny
        for rule in parse_rules(rest):
            add(rule)
    elif verb == "remove":
        return _remove_rules(store, rest)
    elif verb:
        choices = "`mode NAME`, `allow RULE`, `deny RULE`, `remove RULE` and `explain LINE`"
        raise ValueError(f"/permissions takes {choices}, not {verb!r}")
    return []


def _remove_rules(store: PermissionStore, text: str) -> list[str]:
    rules = [("allow", rule) for rule in store.rules.allow] + [("deny", rule) for rule in store.rules.deny]
    known = {str(rule) for _, rule in rules}
    wanted = {text} if text in known else {str(rule) for rule in parse_rules(text)}
    if missing := wanted - known:
        raise ValueError(f"no rule here is {', '.join(sorted(missing))}; /permissions lists them")
    told = []
    for kind, rule in rules:
        if str(rule) in wanted and (rule.origin == SESSION_ORIGIN or store.is_permanent(rule)):
            store.remove(rule)
            told.append(f"removed: {kind} {rule} ({_origin(store, rule)})")
        elif str(rule) in wanted:
            where = f"is set in {rule.origin}; remove it there and start again"
            told.append(f"not removed: {kind} {rule} {where}")
    return told


def _origin(store: PermissionStore, rule: Rule) -> str:
    return f"granted permanently in {rule.origin}" if store.is_permanent(rule) else rule.origin


def _permission_lines(store: PermissionStore) -> list[str]:
    rules = store.rules
    denied = store.denied[-5:]
    return [
        f"mode   {rules.mode}: {mode_words(rules.mode, rules.sandboxed)}",
        *(f"{kind:<5}  {rule}  ({origin})" for kind, rule, origin in _rule_rows(store)),
        *(f"denied {call['tool_name']}: {_first_argument(call['tool_input'])}" for call in denied),
        f"change {CHANGE_HINT}",
    ]


def _rule_rows(store: PermissionStore) -> list[tuple[str, str, str]]:
    """The rules as (kind, rule, where it was set)."""
    kinds = (("allow", store.rules.allow), ("deny", store.rules.deny))
    return [(kind, str(rule), _origin(store, rule)) for kind, rules in kinds for rule in rules]


def _first_argument(arguments: object) -> str:
    """The first text among a call's arguments, cut."""
    values = arguments.values() if isinstance(arguments, dict) else ()
    text = next((value for value in values if isinstance(value, str)), str(arguments))
    return shorten(text, 80)


async def show_settings(controller: Controller, argument: str) -> Event | None:
    """/config."""
    rows = [*_settings(controller), *_compaction_settings(controller)]
    if argument:
        name, _, value = argument.partition(" ")
        return await _change_named(controller, name, value.strip(), {name for name, _, _ in rows})
    if controller.chooser is not None:
        shown = [(name, _shown_value(name, value), origin) for name, value, origin in rows]
        row = await controller.chooser.choose(settings_menu(shown))
        return await _change_setting(controller, row.value) if row is not None else None
    path = controller.setup.config.user_dir / "settings.toml"
    controller.emit(CommandOutput("\n".join(setting_lines(controller))))
    return Notice(f"to change them permanently: {path}; the README lists the names")


def setting_lines(controller: Controller) -> list[str]:
    """The settings in force, a line each with where it was set; secrets are only said to be there."""
    rows = [*_settings(controller), *_compaction_settings(controller)]
    width = max(len(name) for name, _, _ in rows)
    return [f"{name:<{width}}  {_shown_value(name, value)}  ({origin})" for name, value, origin in rows]


async def _change_named(controller: Controller, name: str, value: str, listed: set[str]) -> Event | None:
    """Change the setting of that name; one of [compact] may be named without its table."""
    tuning = (f"compact.{name}" for name in CompactSettings.__struct_fields__)
    known = {*listed, *tuning}
    name = name if name in known or f"compact.{name}" not in known else f"compact.{name}"
    if name not in known:
        short = {each.removeprefix("compact."): each for each in sorted(known)}
        near = difflib.get_close_matches(name.removeprefix("compact."), short, 1)
        hint = f"did you mean {short[near[0]]}?" if near else "/config lists them"
        return Notice(f"there is no setting {name}; {hint}", "warning")
    if value and controller.setup.options.headless:
        return Notice("a script sets it by a flag, the environment or a settings file", "error")
    return await _change_setting(controller, name, value)


async def _change_setting(controller: Controller, name: str, value: str = "") -> Event | None:
    """Change a setting in this session where that can be; without a value show it, or choose one."""
    if name in CHANGED_BY and (value or controller.chooser is not None or name not in SCREEN_SETTINGS):
        return await CHANGED_BY[name](controller, value)
    if name in SECRET_SETTINGS:
        return Notice(f"{SECRET_SETTINGS[name]} in the environment sets it, from the next start on")
    path = controller.setup.config.user_dir / "settings.toml"
    table = "in [compact] " if name.startswith("compact.") else ""
    written = value or "..."
    if value and isinstance(typed := typed_value(value), str):
        written = json.dumps(typed, ensure_ascii=False)
    entry = f"`{name.removeprefix('compact.')} = {written}` {table}in {path}"
    at_once = bool(table) or name in CHANGED_AT_ONCE or name in CHANGED_BY
    elsewhere = CHANGED_ELSEWHERE.get(name, "")
    if not value:
        controller.emit(CommandOutput(_told_setting(controller, name)))
        here = f"/config {name} VALUE sets it for this session; " if at_once else elsewhere
        return Notice(f"{here}{entry} sets it from the next start on")
    try:
        config = with_setting(controller.setup.config, name, value)
        if not at_once:
            return Notice(f"{elsewhere}{entry} sets it from the next start on")
        _use_setting(controller, name, config)
    except ConfigError as error:
        return Notice(str(error), "warning")
    told, _, _ = _told_setting(controller, name).partition("; it takes ")
    return Notice(f"{told}; {entry} keeps it")


def _use_setting(controller: Controller, name: str, config: Config) -> None:
    """Work with a setting that was changed from now on. Raises ConfigError."""
    flagged: dict[str, Any] = {OPTIONS_OF_FLAGS[name]: None} if name in OPTIONS_OF_FLAGS else {}
    setups = [
        structs.replace(setup, config=config, options=setup.options._replace(**flagged))
        for setup in (controller.services.setup, controller.setup)
    ]
    controller.factory.use_settings(*controller.in_use, setups[0])
    controller.setup = setups[1]


def _told_setting(controller: Controller, name: str) -> str:
    """The value in force of a setting, where it was set, and what it takes."""
    rows = (*_settings(controller), *_compaction_settings(controller, whole=True))
    value, origin = next((value, origin) for each, value, origin in rows if each == name)
    return f"{name} = {_shown_value(name, value)} ({origin}); it takes {form_of(name)}"


async def _set_mode(controller: Controller, value: str) -> Event | None:
    return await set_permissions(controller, f"mode {value}" if value else "")


SCREEN_SETTINGS = ("theme", "editing")  # whose commands do not show them
# What changes a setting in this session; without a value, by a menu.
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
    changeable = {  # what a command may have changed: the value now, the one at the start, the command
        "model": (context.settings.model, model, "/model"),
        "effort": (controller.services.setup.options.effort, setup.options.effort, "/effort"),
        "permission_mode": (context.permissions.rules.mode, setup.mode, modes),
        "sandbox": (context.permissions.sandbox.summary, setup.sandbox.summary, "/sandbox"),
    }
    for name in (*FLAG_SETTINGS, *PLAIN_SETTINGS, *SECRET_SETTINGS, *OTHER_SETTINGS):
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
        yield (name, value, origin) if now == then else (name, now, command)


def _compaction_settings(controller: Controller, whole: bool = False) -> Iterator[SettingRow]:
    """The entries of [compact]: those that differ from the defaults, and always the policy."""
    setup = controller.setup
    origins = controller.setup.config.origins
    settings = controller.in_use[1].compaction.settings
    for name, default in structs.asdict(CompactSettings()).items():
        value = getattr(settings, name)
        if value == default and name != "policy" and not whole:
            continue
        flag = "--policy" if name == "policy" and setup.options.policy else ""
        yield f"compact.{name}", value, flag or origins.get(f"compact.{name}", "default")


def _shown_value(name: str, value: Any) -> str:
    if value in (None, (), {}, ""):
        return "-"
    if name in SECRET_SETTINGS:
        return "set"
    if name == "hooks":
        return f"{pluralize(len(value), 'hook')}, see /hooks"
    text = ", ".join(map(str, value)) if isinstance(value, tuple | Mapping) else str(value)
    return text.lower() if isinstance(value, bool) else text

"""Menus for the model, the effort, the theme, permission modes and rules, and settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, get_args

from agent.app import THEMES
from agent.formatting import format_count
from agent.menus import Menu, MenuRow
from agent.model_port import ModelCatalog, ModelFacts
from agent.permissions import Mode

EFFORT_WORDS = {
    "off": "no thinking",
    "low": "quick answers, fewest tokens",
    "medium": "less thinking than most models do by default",
    "high": "thinks when it helps",
    "xhigh": "thinks long, for hard problems",
    "max": "no limit, most tokens",
}
THEME_WORDS = {
    "auto": "dark or light, depending on the terminal's background",
    "dark": "for a dark background",
    "light": "for a light background",
    "ansi": "only the terminal's sixteen colours, no backgrounds",
    "colour-blind": "blue and yellow instead of green and red, for a dark background",
    "colour-blind-light": "the same for a light background",
}
MODE_WORDS: dict[str, str] = {
    "manual": "asks before edits, and before running a command outside the sandbox",
    "acceptEdits": "edits files of the project without asking",
    "plan": "reads and plans, but changes nothing",
    "dontAsk": "denies what would need your approval, without asking",
    "bypassPermissions": "asks only before irreversible actions, and runs commands outside the sandbox",
}
# For the modes that differ without a sandbox.
UNSANDBOXED_MODE_WORDS: dict[str, str] = {
    "manual": "asks before edits, and before commands that are not read-only",
    "acceptEdits": "edits files of the project without asking, but asks before commands as manual does",
    "bypassPermissions": "asks only before irreversible actions",
}


class SettingRow(NamedTuple):
    """A setting, its value, and where it was set."""

    name: str
    value: object
    origin: str


class RuleRow(NamedTuple):
    """A permission rule, its kind ("allow", "deny", "ask"), and where it was set."""

    kind: str
    rule: str
    origin: str


def model_menu(catalog: ModelCatalog, now: ModelFacts, listed: Sequence[str] = ()) -> Menu:
    """Return a menu of the models by their short names, with their windows; the current one is marked.

    With the models that a compatible server lists, it contains these instead.
    """
    by_id = {facts.id: facts for facts in catalog.models}
    names = {id: alias for alias, id in catalog.aliases.items() if not listed or id in listed}
    ids = dict.fromkeys((now.id, *names, *(listed or (by_id if len(by_id) <= len(names) else ()))))
    rows = []
    for id in sorted(ids, key=lambda each: each not in names):
        facts = now if id == now.id else by_id.get(id)
        known_by = (id,) if id in names else ()
        rows.append(
            MenuRow(id, title=names.get(id, id), facts=(*_mark(id == now.id), *known_by, *_sizes(facts)))
        )
    title = "Which model? (/model ID selects any other, --save also sets it for new sessions)"
    return Menu(title, tuple(rows), at=_place(rows, now.id))


def effort_menu(now: str | None) -> Menu:
    """Return a menu of the efforts; the current one is marked."""
    rows = [
        MenuRow(name, title=name, facts=(*_mark(name == now), words)) for name, words in EFFORT_WORDS.items()
    ]
    return Menu("How much should the model think?", tuple(rows), at=_place(rows, now or "high"))


def theme_menu(now: str) -> Menu:
    """Return a menu of the themes; `now` is the current one."""
    rows = [MenuRow(name, title=name, facts=(*_mark(name == now), THEME_WORDS[name])) for name in THEMES]
    return Menu("Which colours?", tuple(rows), at=_place(rows, now))


def mode_words(mode: str, sandbox: bool) -> str:
    """Describe a permission mode with or without a sandbox, as the rest of a sentence."""
    return MODE_WORDS[mode] if sandbox else UNSANDBOXED_MODE_WORDS.get(mode, MODE_WORDS[mode])


def permission_menu(mode: str, rules: Iterable[RuleRow], sandbox: bool) -> Menu:
    """Return a menu of the modes and of the rules."""
    modes = [
        MenuRow(f"mode {name}", title=f"mode {name}", facts=(*_mark(name == mode), mode_words(name, sandbox)))
        for name in get_args(Mode)
    ]
    shown = [
        MenuRow(f"remove {row.rule}", title=f"{row.kind} {row.rule}", facts=(row.origin,)) for row in rules
    ]
    more = MenuRow("", title="add a rule…", facts=("/permissions allow RULE", "deny RULE", "ask RULE"))
    title = "Permissions: choose a mode, or a rule to remove"
    return Menu(title, (*modes, *shown, more), at=_place(modes, f"mode {mode}"))


def settings_menu(rows: Sequence[SettingRow]) -> Menu:
    """Return a menu of the settings, whose values are texts."""
    width = max((len(row.name) for row in rows), default=0)
    shown = []
    for row in rows:
        where = f"  ({row.origin})" if row.origin != "default" else ""
        shown.append(MenuRow(row.name, f"{row.name:<{width}}  {row.value}{where}"))
    return Menu("Which setting?", tuple(shown))


def _mark(is_now: bool) -> tuple[str, ...]:
    return ("current",) if is_now else ()


def _sizes(facts: ModelFacts | None) -> tuple[str, ...]:
    if facts is None:
        return ()
    ending = (f"retires on {facts.retires_on}",) if facts.retires_on else ()
    return (
        f"window {format_count(facts.window)}",
        f"max output {format_count(facts.max_output)}",
        *ending,
    )


def _place(rows: Sequence[MenuRow], value: str) -> int:
    return next((at for at, row in enumerate(rows) if row.value == value), 0)

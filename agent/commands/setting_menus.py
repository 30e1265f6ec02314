"""Menus for settings: which model, how much effort, which permission mode and rules, which setting. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from agent.app import THEMES
from agent.formatting import format_count
from agent.menus import Menu, MenuRow
from agent.model_port import ModelCatalog, ModelFacts
from agent.permissions import Mode

EFFORT_WORDS = {
    "off": "answers without thinking first",
    "low": "quick answers, the fewest tokens",
    "medium": "less thinking than the default of most models",
    "high": "thinks where it helps",
    "xhigh": "thinks long; for hard work",
    "max": "without a limit; the most tokens",
}
THEME_WORDS = {
    "auto": "dark or light, as the terminal's background is",
    "dark": "for a dark background",
    "light": "for a light background",
    "ansi": "only the terminal's sixteen colours, no backgrounds",
    "colour-blind": "blue and yellow instead of green and red, for a dark background",
    "colour-blind-light": "the same for a light background",
}
MODE_WORDS: dict[str, str] = {
    "manual": "asks before edits, and before a command leaves the wall",
    "acceptEdits": "edits files of the project without a question",
    "plan": "looks and plans; changes nothing",
    "dontAsk": "denies what no rule allows, without a question",
    "bypassPermissions": "asks only about what cannot be made good; commands run outside the wall",
}
# Of the modes in which it matters that there is no wall around commands.
OPEN_MODE_WORDS: dict[str, str] = {
    "manual": "asks before edits, and before a command that does more than read",
    "acceptEdits": "edits files of the project unasked; asks before commands as manual does",
    "bypassPermissions": "asks only about what cannot be made good",
}
CHANGE_HINT = "/permissions allow, deny or remove RULE; mode NAME; explain LINE"


def model_menu(catalog: ModelCatalog, now: ModelFacts) -> Menu:
    """The models by their short names, with their windows, and the present one."""
    known = {facts.id: facts for facts in catalog.models}
    names = {id: alias for alias, id in catalog.aliases.items()}
    ids = dict.fromkeys((now.id, *names, *(known if len(known) <= len(names) else ())))
    rows = []
    for id in sorted(ids, key=lambda each: each not in names):
        facts = now if id == now.id else known.get(id)
        known_by = (id,) if id in names else ()
        rows.append(
            MenuRow(id, title=names.get(id, id), facts=(*_mark(id == now.id), *known_by, *_sizes(facts)))
        )
    title = "Which model? (/model ID takes any other, --save keeps it for new sessions)"
    return Menu(title, tuple(rows), at=_place(rows, now.id))


def effort_menu(now: str | None) -> Menu:
    """The efforts; the present one is marked."""
    rows = [
        MenuRow(name, title=name, facts=(*_mark(name == now), words)) for name, words in EFFORT_WORDS.items()
    ]
    return Menu("How hard is the model to think?", tuple(rows), at=_place(rows, now or "high"))


def theme_menu(now: str) -> Menu:
    """The themes; `now` is the one in force."""
    rows = [MenuRow(name, title=name, facts=(*_mark(name == now), THEME_WORDS[name])) for name in THEMES]
    return Menu("Which colours?", tuple(rows), at=_place(rows, now))


def mode_words(mode: str, sandbox: bool) -> str:
    """Describe a permission mode, where commands are sandboxed or not."""
    return MODE_WORDS[mode] if sandbox else OPEN_MODE_WORDS.get(mode, MODE_WORDS[mode])


def permission_menu(mode: str, rules: Iterable[tuple[str, str, str]], sandbox: bool) -> Menu:
    """The modes, then the rules as (kind, rule, where it was set)."""
    modes = [
        MenuRow(f"mode {name}", title=f"mode {name}", facts=(*_mark(name == mode), mode_words(name, sandbox)))
        for name in get_args(Mode)
    ]
    shown = [
        MenuRow(f"remove {rule}", title=f"{kind} {rule}", facts=(origin,)) for kind, rule, origin in rules
    ]
    more = MenuRow("", title="add a rule…", facts=(CHANGE_HINT,))
    title = "Permissions: choose a mode, or a rule to remove"
    return Menu(title, (*modes, *shown, more), at=_place(modes, f"mode {mode}"))


def settings_menu(rows: Sequence[tuple[str, str, str]]) -> Menu:
    """The settings as (name, value, where it was set)."""
    width = max((len(name) for name, _, _ in rows), default=0)
    shown = []
    for name, value, origin in rows:
        where = f"  ({origin})" if origin != "default" else ""
        shown.append(MenuRow(name, f"{name:<{width}}  {value}{where}"))
    return Menu("Which setting?", tuple(shown))


def _mark(is_now: bool) -> tuple[str, ...]:
    return ("in use",) if is_now else ()


def _sizes(facts: ModelFacts | None) -> tuple[str, ...]:
    if facts is None:
        return ()
    return f"window {format_count(facts.window)}", f"up to {format_count(facts.max_output)} out"


def _place(rows: Sequence[MenuRow], value: str) -> int:
    return next((at for at, row in enumerate(rows) if row.value == value), 0)

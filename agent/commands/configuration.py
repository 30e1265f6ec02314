"""Commands that show what is set and where it was set: /config, /hooks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent.events import CommandOutput, Notice
from agent.ports import HookEvent

if TYPE_CHECKING:
    from agent.app.controller import Controller

FLAGS = ("model", "effort", "context_window", "permission_mode")
HIDDEN = ("key", "token", "custom_headers")
OPEN = ("max_tokens", "cache", "base_url", "timeout", "allow", "deny", "pass_env")
Row = tuple[str, Any, str]  # name, value, where it was set


async def config(agent: Controller, argument: str) -> None:
    """Show the settings in force and where each was set. A file, the environment, a flag, or here."""
    rows = [*_rows(agent), *_compact(agent)]
    wide = max(len(name) for name, _, _ in rows)
    lines = [f"{name:<{wide}}  {_words(name, value)}  ({where})" for name, value, where in rows]
    user_dir = agent.setup.config.user_dir
    agent.emit(CommandOutput("\n".join(lines)))
    agent.emit(Notice(f"to change them for good: {user_dir / 'settings.toml'}; the README lists the names"))


async def hooks(agent: Controller, argument: str) -> None:
    """Show the hooks: which command runs at which moment."""
    config = agent.setup.config
    wide = max(map(len, HookEvent))
    lines = [f"{moment:<{wide}}  {config.hooks.get(moment, '-')}" for moment in HookEvent]
    agent.emit(CommandOutput("\n".join(lines)))
    agent.emit(Notice(f"[hooks] in {config.user_dir / 'settings.toml'} sets them"))


def _rows(agent: Controller) -> Iterator[Row]:
    setup, (_, context) = agent.setup, agent.in_use
    selection = agent.services.selection
    model = selection.model.catalog.resolve(setup.model_name)
    here = {  # what may have been changed since the start: as it is, as it was then, by what
        "model": (context.settings.model, model, "/model"),
        "effort": (agent.services.setup.options.effort, setup.options.effort, "/effort"),
        "permission_mode": (context.permissions.rules.mode, setup.mode, "Shift+Tab or /permissions"),
    }
    for name in (*FLAGS, *OPEN, *HIDDEN):
        value, where = getattr(setup.config, name), setup.config.origins.get(name, "default")
        if name in FLAGS and (given := getattr(setup.options, name)) is not None:
            value, where = given, f"--{name.replace('_', '-')}"
        if name == "model":
            value, where = model, "--offline" if setup.options.offline else where
        now, then, by = here.get(name, (None, None, ""))
        if now != then:
            value, where = now, by
        yield name, value, where


def _compact(agent: Controller) -> Iterator[Row]:
    """The entries of [compact] that are not as they are by default, and always the policy."""
    setup, origins = agent.setup, agent.setup.config.origins
    settings = agent.in_use[1].compaction.settings
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if value == field.default and field.name != "policy":
            continue
        flag = "--policy" if field.name == "policy" and setup.options.policy else ""
        yield f"compact.{field.name}", value, flag or origins.get(f"compact.{field.name}", "default")


def _words(name: str, value: Any) -> str:
    if value in (None, (), {}):
        return "-"
    if name in HIDDEN:
        return "set"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)

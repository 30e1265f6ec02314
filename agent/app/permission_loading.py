"""Load the permission mode, the rules and the sandbox settings that a session begins with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from msgspec.structs import replace

from agent import shell
from agent.permissions import (
    OPENING,
    PermissionRules,
    PermissionStore,
    Rule,
    parse_rules,
    stored_openings,
    stored_places,
    stored_rules,
)
from agent.settings_files import home_folder, permissions_path
from tools.processes import filter_environment

from .setup import RunSetup


def permission_store(setup: RunSetup) -> PermissionStore:
    """Return the permission mode and rules to begin with; permanent permissions are read from disk now."""
    options = setup.options
    config = setup.config
    path = permissions_path(config.user_dir, setup.folder)
    configured = [rule for rule in config.allow if rule.origin != str(path)]
    sources = options.setting_sources
    reads_stored = options.safe_mode or sources is None or "local" in sources
    stored = stored_rules(path) if reads_stored else ()
    allow = (*configured, *stored, *_from_flag("--allowedTools", options.allowed_tools))
    deny = _deny_rules(setup)
    environ = filter_environment(setup.program_environ, config.pass_env)
    folder = str(setup.folder)
    home = str(home_of(setup.environ))
    rules = PermissionRules(
        setup.mode,
        allow=allow,
        deny=deny,
        ask=config.ask,
        folder=folder,
        home=home,
        reading=lambda: shell.ProjectEnvironment(folder, environ),
        asks_sandboxed=setup.has_other_spellings
        or (options.asks_client and options.input_format == "stream-json"),
        asks_edits=bool(setup.why_no_project),
        opened=stored_openings(path),
    )
    opening = {rule.pattern.strip() for rule in allow if rule.tool == OPENING and rule.pattern is not None}
    for line in opening - rules.opened.keys():
        rules = rules.noting_programs(line)
    places = stored_places(path) if reads_stored else {}
    sandbox = setup.sandbox.with_entries(places)
    if setup.why_no_project:
        sandbox = replace(sandbox, project="read-only")
    return PermissionStore(rules, path, sandbox=sandbox)


def denied_tools(setup: RunSetup) -> Set[str]:
    """Return the tools that settings or a flag deny altogether."""
    return {rule.tool for rule in _deny_rules(setup) if rule.pattern is None}


def _deny_rules(setup: RunSetup) -> tuple[Rule, ...]:
    flag = _from_flag("--disallowedTools", setup.options.disallowed_tools, restricting=True)
    return (*setup.config.deny, *flag)


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the real path of the user's home directory."""
    return home_folder(environ).resolve()


def _from_flag(flag: str, texts: Sequence[str], restricting: bool = False) -> list[Rule]:
    return [replace(rule, origin=flag) for text in texts for rule in parse_rules(text, restricting)]

"""`makeroom import claude`: import the allow rules and MCP servers of Claude Code.

    import claude [--yes]

Lists the allow rules in Claude Code's settings files and the MCP servers in ~/.claude.json that makeroom does
not have yet, and copies them if you confirm: rules for this project, servers to their scope. Agents are
listed too, but not copied: makeroom reads them in place, like commands, skills, hooks and plugins.

    --yes    copy without asking
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from agent.app import RunSetup, claude_rules, offered_rules, permission_store
from agent.errors import UsageError
from agent.extensions.agents import BUILTIN_AGENTS, AgentPlaces
from agent.ui import at_terminal
from tools.sandbox import short_path
from transcripts.wording import cause_of, pluralize

from .arguments import parse
from .command_words import asks_for_help
from .launch import run_setup, with_errors_reported
from .mcp_command import files_of, store_server
from .printing import complain, print_text

SOURCES = ("claude",)


class Offer(NamedTuple):
    """A rule or server to copy, with the function that does it."""

    kind: str
    name: str
    origin: str
    take: Callable[[], object]


def run_import(words: list[str]) -> int:
    """Run `import` with these words. Returns 0, 2 for a usage error, 6 for invalid settings."""
    if not words or asks_for_help(words):
        return print_text(__doc__ or "")
    if words[0] not in SOURCES or words[1:] not in ([], ["--yes"]):
        return complain(f"cannot import {' '.join(words)}; use import claude [--yes]")
    return with_errors_reported(partial(import_all, words[1:] == ["--yes"]))


def import_all(agreed: bool) -> int:
    """Show the rules, servers and agents of Claude Code, and copy them if the user agrees."""
    setup = run_setup(parse([]))
    offers = [*_rules(setup), *_servers(setup)]
    rows = [f"{each.kind:<6}  {each.name}  ({each.origin})" for each in offers]
    print_text("\n".join([*rows, *_not_copied(setup)]) or "Claude Code has no rules, servers or agents here")
    if not offers:
        return print_text("nothing to import")
    if not agreed and not _agrees(len(offers)):
        return print_text("nothing was imported; makeroom import claude --yes imports all of it")
    try:
        for offer in offers:
            offer.take()
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {cause_of(error)}") from error
    return print_text(f"imported {pluralize(len(offers), 'item')}")


def _agrees(number: int) -> bool:
    """Ask the user; without a terminal nobody can answer."""
    if not at_terminal():
        return False
    sys.stdout.write(f"Import {pluralize(number, 'item')}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _rules(setup: RunSetup) -> Iterator[Offer]:
    store = permission_store(setup)
    for rule in offered_rules(setup.environ, setup.folder, store.rules.allow):
        yield Offer("allow", str(rule), short_path(rule.origin), partial(store.allow_always, rule))


def _servers(setup: RunSetup) -> Iterator[Offer]:
    files = files_of(setup)
    try:
        found = files.entries_of_claude(Path.home())
    except ValueError as error:
        raise UsageError(str(error)) from error
    for scope, entries in found.items():
        for name, raw in entries.items():
            if not files.has(scope, name):
                entry = files.entry(name, raw, scope, setup.environ)
                place = short_path(str(files.path(scope)))
                take = partial(store_server, setup, scope, name, raw)
                remark = f"; not usable yet: {entry.problem}" if entry.problem else ""
                yield Offer("server", f"{name}: {entry.shows}", f"~/.claude.json, to {place}{remark}", take)


def _not_copied(setup: RunSetup) -> Iterator[str]:
    """Yield a line about each rule that cannot be used, and each agent, which is read where it is."""
    unusable = claude_rules(setup.environ, setup.folder).unusable
    yield from (f"skipped {line}" for line in unusable)
    places = AgentPlaces(setup.folder, setup.environ, user_dir=setup.config.user_dir)
    known = places.agents(lambda item: True)
    for name, agent in known.agents.items():
        if agent is not BUILTIN_AGENTS.get(name):
            in_project = Path(agent.origin).is_relative_to(setup.folder)
            used = "used after approval" if in_project else "used without approval"
            yield f"agent   {name}  ({short_path(agent.origin)}, {used})"
    yield from known.problems

"""Hooks that are commands: they get JSON on standard input, and answer with an exit code and text or JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent.permissions import OPENING, Rule
from agent.ports import HookAnswer
from tools.processes import OwnCommandEnd
from tools.sandbox import short_path

from .answers import VETO_EXIT_CODE, HookFailed, answer_of_end
from .asking import AskedHooks
from .entries import HookEntry

RunCommand = Callable[[str, str], Awaitable[OwnCommandEnd]]  # a command line and its input; raises OSError


def command_hooks(
    entries: Sequence[HookEntry],
    run_command: RunCommand,
    about_session: Callable[[], Mapping[str, Any]],
    tell: Callable[[str], None],
) -> AskedHooks:
    """Return the hooks of `entries`, which are commands that `run_command` runs.

    An access that the sandbox blocks repeatedly is explained once.
    """
    blocked = set[tuple[str, str]]()

    async def ask(entry: HookEntry, payload: dict[str, Any]) -> HookAnswer:
        end = await run_command(entry.line, json.dumps(payload, default=str))
        err = end.err
        if end.refusal is not None and end.code != VETO_EXIT_CODE:
            key = (entry.line, str(end.refusal))
            remedy = (
                f"; to run it outside the sandbox, allow {Rule(OPENING, entry.line)} in your settings\n{err}"
            )
            err = f"{end.refusal}, as before" if key in blocked else f"{end.refusal}{remedy}"
            blocked.add(key)
        if end.cut and end.out.lstrip().startswith("{"):
            raise HookFailed(f"answered with more than {len(end.out)} characters of JSON")
        return answer_of_end(entry, end.code, end.out, err)

    return AskedHooks(entries, ask=ask, about_session=about_session, label=_label, tell=tell)


def _label(entry: HookEntry) -> str:
    plugin = f" of the plugin in {short_path(entry.origin)}" if entry.start else ""
    return f"the hook {entry.moment} ({entry.run}){plugin}"

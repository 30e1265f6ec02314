"""Hooks that are commands: JSON on standard input, an exit code and JSON or plain text back.

They run within the session's wall, but for those that a rule `open(command)` lets out.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from agent.extensions.hooks import (
    VETO_EXIT_CODE,
    AskedHooks,
    HookEntry,
    HookFailed,
    answer_of_end,
    named_files,
)
from agent.loop.session_wall import SessionWall
from agent.permissions import OPENING, Rule
from agent.ports import HookAnswer
from tools.base import ToolError
from tools.processes.command_socket import SupervisorLost
from tools.processes.jobs import command_runner
from tools.processes.own_command import OwnCommand, OwnCommandEnd, command_access, run_own_command

RunCommand = Callable[[str, str], Awaitable[OwnCommandEnd]]  # a command line and its input; raises OSError


CHANGED = "a file of the project that it runs has changed since it was approved; /trust approves it anew"


def commands_within(wall: SessionWall, approved: Mapping[str, str] = MappingProxyType({})) -> RunCommand:
    """Runs commands of the user within the wall as it is at that moment.

    `approved` has by command line the digest of the project's files that it names: where they have changed
    since, it is not run.
    """

    async def run(line: str, given: str) -> OwnCommandEnd:
        files = approved.get(line)
        if files is not None and named_files(line, wall.tools.folder, wall.tools.environ) != files:
            raise OSError(CHANGED)
        if wall.level == "none" and not wall.why:  # nobody has looked yet
            await wall.settle()
        access = command_access(line, wall.tools.folder)
        walled = wall.level != "none" and not wall.permissions.rules.runs_open(access)
        command = OwnCommand(line, given, {"CLAUDE_PROJECT_DIR": str(wall.tools.folder)})
        try:
            return await run_own_command(command_runner(wall.tools), command, walled=walled)
        except (SupervisorLost, ToolError) as error:
            raise OSError(str(error)) from error

    return run


def command_hooks(
    entries: Sequence[HookEntry],
    run_command: RunCommand,
    about_session: Callable[[], Mapping[str, Any]],
    tell: Callable[[str], None],
) -> AskedHooks:
    """The hooks of `entries`, which are commands that `run_command` runs.

    What the wall refuses to one again and again is told whole once.
    """
    refused = set[tuple[str, str]]()

    async def ask(entry: HookEntry, told: dict[str, Any]) -> HookAnswer:
        end = await run_command(entry.run, json.dumps(told, default=str))
        err = end.err
        if end.refusal is not None and end.code != VETO_EXIT_CODE:
            known = (entry.run, str(end.refusal))
            remedy = f"; the rule {Rule(OPENING, entry.run)} in your settings lets it out\n{err}"
            err = f"{end.refusal}, as before" if known in refused else f"{end.refusal}{remedy}"
            refused.add(known)
        if end.cut and end.out.lstrip().startswith("{"):
            raise HookFailed(f"answered with more JSON than {len(end.out)} characters")
        return answer_of_end(entry, end.code, end.out, err)

    return AskedHooks(entries, ask=ask, about_session=about_session, label=_label, tell=tell)


def _label(entry: HookEntry) -> str:
    return f"the hook {entry.short_name or entry.event} ({entry.run})"

"""Commands of the user that run at named moments: JSON on standard input, JSON or plain text back.

A hook answers on standard output with {"veto": reason} or {"words": text}, or with plain text, which counts
as words; exit code 2 is a veto with standard error as its reason. A hook that fails otherwise is reported and
changes nothing, except for one that guards: where the hook before a tool cannot be started or exceeds its
time limit, the call is refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.loop.session_wall import SessionWall
from agent.permissions.rule_syntax import OPENING, Rule
from agent.permissions.rules import runs_open
from agent.ports import HookAnswer, HookEvent, Hooks
from tools.base import ToolError
from tools.bash import command_access
from tools.command_socket import SupervisorLost
from tools.env_filter import filter_environment
from tools.jobs import command_runner
from tools.walled_run import run_walled

HOOK_TIMEOUT_S = 30.0
VETO_EXIT_CODE = 2
NOT_STARTED_EXIT_CODES = (126, 127)  # of bash: the command cannot be run, or does not exist
MAX_REASON_CHARS = 200
GUARDS = (HookEvent.PRE_TOOL,)  # nothing goes ahead that these could not be asked about


HookEnd = tuple[int, str, str]  # exit code, standard output, standard error
# Runs a command line with an input within the wall; None where it is to run open.
RunWalled = Callable[[str, str], Awaitable[HookEnd | None]]


def hooks_within(wall: SessionWall) -> RunWalled:
    """Hooks run within the session's wall, but for those that a rule `open(command)` lets out."""

    async def run(command: str, given: str) -> HookEnd | None:
        if wall.level == "none" or runs_open(
            command_access(command, wall.tools.folder), wall.permissions.rules
        ):
            return None
        try:
            end = await run_walled(command_runner(wall.tools), command, given)
        except SupervisorLost as error:
            raise OSError(str(error)) from error
        if end.refusal is None or end.code == VETO_EXIT_CODE:
            return end.code, end.out, end.err
        remedy = f"the rule {Rule(OPENING, command.strip())} in your settings lets it out"
        return end.code, end.out, f"{end.refusal}; {remedy}\n{end.err}"

    return run


@dataclass(frozen=True, slots=True)
class CommandHooks:
    """`commands` by event, run with bash in `folder`; `tell` takes one line about a hook that failed.

    `environ` is what they get, without credentials. They run within the wall as `walled` has it, else open:
    then `before` is awaited first, so that no walled command has left something that they would run.
    """

    commands: Mapping[str, str]
    folder: Path
    tell: Callable[[str], None]
    timeout: float = HOOK_TIMEOUT_S
    environ: Mapping[str, str] = field(default_factory=lambda: filter_environment(os.environ))
    before: Callable[[], Awaitable[None]] | None = None
    walled: RunWalled | None = None

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        command = self.commands.get(event)
        if command is None:
            return HookAnswer()
        try:
            code, out, err = await self._call(command, {"moment": event, **about})
        except TimeoutError:  # an OSError too
            fault = f"took longer than {self.timeout:g} s"
        except (OSError, ToolError) as error:
            fault = f"could not be started: {str(error).partition(chr(10))[0]}"
        else:
            if code == 0:
                return _parse(out)
            if code == VETO_EXIT_CODE:
                return HookAnswer(veto=err.strip() or out.strip() or "no reason given")
            if code not in NOT_STARTED_EXIT_CODES:
                self.tell(f"the hook {event} failed: {_failure(code, err)}")
                return HookAnswer()
            fault = f"could not be started: {_failure(code, err)}"
        words = f"the hook {event} ({command}) {fault}"
        if event in GUARDS:
            return HookAnswer(veto=words)
        self.tell(words)
        return HookAnswer()

    async def _call(self, command: str, about: Mapping[str, Any]) -> HookEnd:
        given = json.dumps(about, default=str)
        if self.walled is not None:
            ended = await asyncio.wait_for(self.walled(command, given), self.timeout)
            if ended is not None:
                return ended
        if self.before is not None:
            await self.before()
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self.folder,
            env=self.environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(given.encode()), self.timeout)
        except (TimeoutError, asyncio.CancelledError):
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class JoinedHooks:
    """Several hooks as one: each is asked, the first veto counts, the words of all are taken along."""

    parts: tuple[Hooks, ...]

    async def run(self, event: HookEvent, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        joined = HookAnswer()
        for part in self.parts:
            joined = joined.then(await part.run(event, {**about, **joined.changed_input}))
            if joined.veto is not None:
                break
        return joined


def _failure(code: int, err: str) -> str:
    how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
    reason = next(iter(err.strip().splitlines()), "it wrote no reason")
    return f"{how}: {reason[:MAX_REASON_CHARS]}"


def _parse(out: str) -> HookAnswer:
    try:
        answer = json.loads(out)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return HookAnswer(words=out.strip())
    veto = answer.get("veto")
    return HookAnswer(None if veto is None else str(veto), str(answer.get("words", "")))

"""Commands of the user that run at named moments: JSON on standard input, JSON or words back.

A hook answers on standard output with {"veto": reason} or {"words": text}, or with plain text, which counts
as words; exit code 2 is a veto with standard error as its reason. A hook that fails otherwise is reported and
changes nothing, but for a guard that could not be asked: where the hook before a tool cannot be started or
takes longer than its time, the call is refused.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.ports import HookAnswer

PATIENCE = 30.0  # seconds that a hook may take
VETO = 2
NOT_STARTED = (126, 127)  # what bash ends with when a command cannot be run, or is not there
GUARDS = ("pre_tool",)  # moments whose hooks may forbid: nothing goes ahead that they were not asked about


@dataclass(frozen=True, slots=True)
class CommandHooks:
    """`commands` by moment, run with bash in `folder`; `tell` takes one line about a hook that failed."""

    commands: Mapping[str, str]
    folder: Path
    tell: Callable[[str], None]
    patience: float = PATIENCE

    async def run(self, moment: str, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        command = self.commands.get(moment)
        if command is None:
            return HookAnswer()
        try:
            code, out, err = await self._call(command, {"moment": moment, **about})
        except TimeoutError:  # an OSError too
            return self._unasked(moment, f"took longer than {self.patience:g} s")
        except OSError as error:
            return self._unasked(moment, f"could not be started: {error}")
        if code == VETO:
            return HookAnswer(veto=err.strip() or out.strip() or "no reason given")
        if code in NOT_STARTED:
            return self._unasked(moment, f"could not be started: {_ended(code, err)}")
        if code != 0:
            self.tell(f"the hook {moment} failed: {_ended(code, err)}")
            return HookAnswer()
        return _read(out)

    def _unasked(self, moment: str, what: str) -> HookAnswer:
        """A hook that gave no answer: told, and a veto where it was to guard."""
        words = f"the hook {moment} ({self.commands[moment]}) {what}"
        if moment in GUARDS:
            return HookAnswer(veto=words)
        self.tell(words)
        return HookAnswer()

    async def _call(self, command: str, about: Mapping[str, Any]) -> tuple[int, str, str]:
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command,
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        sent = json.dumps(about, default=str).encode()
        try:
            out, err = await asyncio.wait_for(process.communicate(sent), self.patience)
        except (TimeoutError, asyncio.CancelledError):
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _ended(code: int, err: str) -> str:
    how = f"exit code {code}" if code > 0 else f"ended by signal {-code}"
    return f"{how}: {next(iter(err.strip().splitlines()), 'it wrote no reason')[:200]}"


def _read(out: str) -> HookAnswer:
    try:
        answer = json.loads(out)
    except ValueError:
        return HookAnswer(words=out.strip())
    if not isinstance(answer, dict):
        return HookAnswer(words=out.strip())
    veto = answer.get("veto")
    return HookAnswer(None if veto is None else str(veto), str(answer.get("words", "")))

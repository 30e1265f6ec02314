"""Commands of the user that run at named moments: JSON on standard input, JSON or words back.

A hook answers on standard output with {"veto": reason} or {"words": text}, or with plain text, which counts
as words; exit code 2 is a veto with standard error as its reason. A hook that fails otherwise, or takes
longer than its time, is reported and changes nothing.
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

from .ports import HookAnswer

PATIENCE = 30.0  # seconds that a hook may take
VETO = 2


@dataclass(frozen=True, slots=True)
class CommandHooks:
    """`commands` by moment, run with bash in `folder`; `tell` takes one line about a hook that failed."""

    commands: Mapping[str, str]
    folder: Path
    tell: Callable[[str], None]

    async def run(self, moment: str, about: Mapping[str, Any]) -> HookAnswer:
        """See ports.Hooks."""
        command = self.commands.get(moment)
        if command is None:
            return HookAnswer()
        try:
            code, out, err = await self._call(command, {"moment": moment, **about})
        except (OSError, TimeoutError) as error:
            self.tell(f"hook {moment} failed: {error or 'it took too long'}")
            return HookAnswer()
        if code == VETO:
            return HookAnswer(veto=err.strip() or out.strip() or "no reason given")
        if code != 0:
            self.tell(f"hook {moment} ended with exit code {code}: {err.strip()[:200]}")
            return HookAnswer()
        return _read(out)

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
            out, err = await asyncio.wait_for(process.communicate(sent), PATIENCE)
        except (TimeoutError, asyncio.CancelledError):
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        return process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def _read(out: str) -> HookAnswer:
    try:
        answer = json.loads(out)
    except ValueError:
        return HookAnswer(words=out.strip())
    if not isinstance(answer, dict):
        return HookAnswer(words=out.strip())
    veto = answer.get("veto")
    return HookAnswer(None if veto is None else str(veto), str(answer.get("words", "")))

"""Cost of a hook beyond its own command.

`python -m pytest -m bench -n 0 -s tests/bench/test_hook_bench.py` prints it.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.app.own_commands import commands_within
from agent.extensions.hooks import command_hooks
from agent.extensions.hooks.table import HookTable
from agent.loop.session_sandbox import SessionSandbox
from agent.permissions import PermissionRules, PermissionStore
from agent.ports import HookEvent
from tests.tools.sandbox_session import sandboxed_session

pytestmark = pytest.mark.bench
ROUNDS = 40
MAX_OVERHEAD_S = 0.02
GUARD = "cat >/dev/null"
ABOUT = {"tool": "bash", "input": {"command": "ls"}, "id": "t"}


async def median(what: Callable[[], Awaitable[object]]) -> float:
    """Seconds, of ROUNDS after one to warm up."""
    await what()
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await what()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


@pytest.mark.parametrize("level", ["walled", "open"])
def test_a_hook_costs_little_beyond_its_command(tmp_path: Path, level: str, capsys: Any) -> None:
    session = sandboxed_session(tmp_path)
    sandbox = SessionSandbox(
        session.context, PermissionStore(PermissionRules(folder=str(session.folder))), session.home
    )

    async def bare() -> None:
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", GUARD, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await process.communicate(json.dumps(ABOUT).encode())

    async def compare() -> tuple[float, float, float]:
        await sandbox.warm()
        if level == "open":
            sandbox.permissions.set_mode("bypassPermissions")
        one = HookTable.read({"PreToolUse": [{"hooks": [{"command": GUARD}]}]}).entries
        four = HookTable.read(
            {"PreToolUse": [{"hooks": [{"command": f"{GUARD}; : {n}"} for n in range(4)]}]}
        ).entries
        made = [command_hooks(entries, commands_within(sandbox), dict, print) for entries in (one, four)]
        timed = [await median(lambda each=each: each.run(HookEvent.PRE_TOOL, ABOUT)) for each in made]  # type: ignore[misc]
        return await median(bare), timed[0], timed[1]

    try:
        command, hook, hooks = session.runner.run(compare())
    finally:
        session.end()
    with capsys.disabled():
        print(
            f"\n{level}: command {command * 1e3:.1f} ms, as a hook {hook * 1e3:.1f} ms,"
            f" four at once {hooks * 1e3:.1f} ms"
        )
    assert hook - command < MAX_OVERHEAD_S

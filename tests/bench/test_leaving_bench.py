"""Time to exit: from the signal or the key to the end of the process, with a tool running."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.ui.pty_terminal import PtyTerminal, makeroom
from tests.strict_api.reply import Reply, calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]
STUBBORN = "trap '' TERM; echo begun; while :; do sleep 1; done"  # ends only when it is killed
WILLING = "echo begun; sleep 100"
GOAL_S = 0.7
WAYS: dict[str, Callable[[PtyTerminal], object]] = {
    "TERM": lambda terminal: terminal.signal(signal.SIGTERM),
    "HUP": lambda terminal: terminal.signal(signal.SIGHUP),
    "Ctrl-D": lambda terminal: terminal.type("\x04"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("line", [WILLING, STUBBORN], ids=["ends at TERM", "ignores TERM"])
def test_leaving_with_a_running_tool(tmp_path: Path, line: str, way: str) -> None:
    with Server(ScriptedModel([Reply((calls("bash", command=line),))])) as server:
        environ = {"ANTHROPIC_BASE_URL": server.base_url, "ANTHROPIC_API_KEY": "bench-key-1234"}
        with PtyTerminal(tmp_path, (100, 30), makeroom(""), **environ) as terminal:
            terminal.ready().type("go\r").sees("begun", "running, 1 s")
            began = time.monotonic()
            WAYS[way](terminal)
            terminal.ends()
            took = time.monotonic() - began
    tool = "a tool that ignores TERM" if line is STUBBORN else "a tool that ends at TERM"
    print(f"\nleaving by {way}, {tool}: {took:.2f} s")
    if os.getloadavg()[0] < (os.cpu_count() or 1):
        assert took <= GOAL_S

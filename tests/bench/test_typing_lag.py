"""Time from a key to its echo while text streams in, with a long history; against an idle prompt."""

import json
import time

import pytest

from tests.agent.ui.pty_terminal import PtyTerminal

KEYS = "abcdefghijklmnopqrstuvwxyz" * 4


def echoes(terminal):
    """Milliseconds from each key to the frame that shows it."""
    times = []
    shown = ""
    for key in KEYS:
        shown += key
        began = time.perf_counter()
        terminal.type(key).sees(shown[-40:] if len(shown) > 40 else shown)
        times.append((time.perf_counter() - began) * 1000)
        terminal.writes_within(0.01)
    return sorted(times)


@pytest.mark.bench
def test_typing_stays_quick_while_text_streams(tmp_path):
    (tmp_path / "state").mkdir()
    entries = [
        json.dumps({"t": 1, "text": f"prompt number {number}\nof two lines"}) for number in range(2000)
    ]
    (tmp_path / "state" / "history").write_text("\n".join(entries) + "\n")
    with PtyTerminal(tmp_path, (120, 40)) as terminal:
        terminal.ready()
        idle = echoes(terminal)
        terminal.type("\x03").type("drip\r").sees("Ctrl-C to interrupt")
        busy = echoes(terminal)
    at = int(len(busy) * 0.99)
    print(f"\nkey to echo, p99: {busy[at]:.1f} ms while streaming, {idle[at]:.1f} ms idle", end="")
    print(f"; median {busy[len(busy) // 2]:.1f} and {idle[len(idle) // 2]:.1f} ms")
    assert busy[len(busy) // 2] < 30

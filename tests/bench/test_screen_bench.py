"""Cost of the screen: bytes and processor time for streamed text, a spinner, waiting, keys.

The whole program runs in a real pseudo-terminal against the strict server, which streams at a given rate.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.ui.pty_terminal import ROOT, PtyTerminal

PIECE_CHARS = 24  # of a delta, while a text has less than 400 of them
COLUMNS, ROWS = 120, 40
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TYPED = "the quick brown fox jumps over the lazy dog " * 3

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@contextmanager
def served(delay_s: float) -> Iterator[str]:
    """The address of a strict server in a process of its own."""
    script = "tests.bench.streamed_text:brain"
    command = [sys.executable, "-m", "tests.strict_api", "--script", script, "--delay", str(delay_s)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None and server.stdin is not None
        yield server.stdout.readline().decode().strip()
        server.stdin.close()


@contextmanager
def started(folder: Path, delay_s: float) -> Iterator[PtyTerminal]:
    """makeroom on a terminal, ready for a prompt; its screen is not looked at until it is asked for."""
    argv = [sys.executable, "-P", "-m", "agent"]
    with served(delay_s) as address:
        environ = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "sk-ant-test-0000", "LANG": "C.UTF-8"}
        with PtyTerminal(folder, (COLUMNS, ROWS), argv, **environ) as terminal:
            terminal.sees("❯", "% of")
            yield terminal


def cpu_s(terminal: PtyTerminal) -> float:
    """Seconds of processor time that the program has used, without what it started."""
    fields = Path(f"/proc/{terminal.child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def cpu_share(terminal: PtyTerminal, seconds: float) -> float:
    """Per cent of a processor over the next seconds; what is written meanwhile is read."""
    began, used = time.monotonic(), cpu_s(terminal)
    while (left := began + seconds - time.monotonic()) > 0:
        terminal.drain(left)
    return 100 * (cpu_s(terminal) - used) / (time.monotonic() - began)


def streamed(folder: Path, size: int, rate: int) -> tuple[float, float, float, float]:
    """(bytes per KB, CPU of the turn, of the whole program, seconds) for a text at so many bytes a second."""
    piece = max(PIECE_CHARS, size // 400)
    with started(folder, piece / rate) as terminal:
        before, used, began = len(terminal.raw), cpu_s(terminal), time.monotonic()
        terminal.type(f"stream {size}\r")
        while b"All streamed." not in terminal.raw[-20_000:]:
            terminal.drain(1.0)
        spent = time.monotonic() - began
        terminal.drain(0.5)
        return (
            (len(terminal.raw) - before) / (size / 1000),
            cpu_s(terminal) - used,
            cpu_s(terminal),
            spent,
        )


@pytest.mark.parametrize(("size", "rate", "bytes_per_kb"), [(12_000, 2_000, 1_800), (90_000, 50_000, 1_300)])
def test_streaming_writes_little_more_than_the_text(
    tmp_path: Path, size: int, rate: int, bytes_per_kb: int
) -> None:
    written, turn, whole, spent = streamed(tmp_path, size, rate)
    print(f"\n{size / spent / 1000:.1f} KB/s: {written:.0f} bytes per KB; CPU {turn:.2f} s", end="")
    print(f" for {size // 1000} KB, {whole:.2f} s with the start")
    assert written <= bytes_per_kb


def test_waiting_takes_hardly_any_time(tmp_path: Path) -> None:
    with started(tmp_path, 30.0) as terminal:
        terminal.drain(3.0)
        idle = cpu_share(terminal, 8.0)
        terminal.type("stream 10\r").sees("Ctrl-C to interrupt")
        terminal.drain(2.0)
        before = len(terminal.raw)
        spinner = cpu_share(terminal, 8.0)
    print(f"\nCPU {spinner:.1f} % for a spinner ({(len(terminal.raw) - before) / 8:.0f} bytes/s)", end="")
    print(f", {idle:.1f} % idle")


def test_keys_are_echoed_at_once_while_text_streams(tmp_path: Path) -> None:
    with started(tmp_path, PIECE_CHARS / 2_000) as terminal:
        terminal.type("stream 9600\r").sees("Ctrl-C to interrupt")
        times, shown = [], ""
        for key in TYPED:
            shown += key
            began = time.perf_counter()
            terminal.type(key).sees(shown.rstrip()[-50:])
            times.append((time.perf_counter() - began) * 1000)
            terminal.drain(0.03)
    times.sort()
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"\nkey to echo while 2 KB/s stream: {p50:.1f} ms, p99 {p99:.1f} ms, max {times[-1]:.1f} ms")


def test_the_prompt_is_painted_and_takes_keys_soon(tmp_path: Path) -> None:
    painted, echoed = [], []
    for _ in range(5):
        began = time.monotonic()
        argv = [sys.executable, "-P", "-m", "agent", "--offline"]
        with PtyTerminal(tmp_path, (COLUMNS, ROWS), argv) as terminal:
            terminal.type("hello there").sees("❯")
            painted.append(time.monotonic() - began)
            terminal.sees("❯ hello there")
            echoed.append(time.monotonic() - began)
    print(f"\npainted after {sorted(painted)[2]:.2f} s, typed keys echoed after {sorted(echoed)[2]:.2f} s")

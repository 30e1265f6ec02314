"""Cost of a bash call compared with a bare subprocess, measured alternately; `-m bench -s` prints it."""

import asyncio
import os
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from tests.tools.bash_session import BashSession, text

pytestmark = pytest.mark.bench
ROUNDS = 200
BARE = ["bash", "-c", "true"]
UNSHARE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *BARE]


def timed(work: object, times: list[float]) -> None:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    times.append((time.perf_counter() - start) * 1000)


def test_a_bash_call_costs_at_most_three_times_a_bare_subprocess(tmp_path: Path) -> None:
    ballast = bytearray(os.urandom(100_000_000))  # an agent is about this large, and forking costs by size
    enclosed, plain = BashSession(tmp_path.resolve()), BashSession(tmp_path.resolve(), "subreaper")
    hows = enclosed.how(), plain.how()
    rows: dict[str, list[float]] = {"bare": [], "subreaper": [], "namespace": [], "unshare": []}
    for _ in range(ROUNDS):
        timed(lambda: subprocess.run(BARE, capture_output=True, stdin=subprocess.DEVNULL), rows["bare"])
        timed(lambda: plain.run("true"), rows["subreaper"])
        timed(lambda: enclosed.run("true"), rows["namespace"])
        timed(lambda: subprocess.run(UNSHARE, capture_output=True, stdin=subprocess.DEVNULL), rows["unshare"])
    bare = statistics.median(rows["bare"])
    print(f"\nbash -c true, {ROUNDS} rounds in turns, median (p90) ms, held by {hows}")
    print(f"  (with {len(ballast):,} bytes of ballast)")
    for name, times in rows.items():
        middle, slow = statistics.median(times), sorted(times)[ROUNDS * 9 // 10]
        print(f"  {name:10} {middle:6.2f} ({slow:6.2f})  {middle / bare:5.2f}x")
    for shell in (enclosed, plain):
        shell.close()
        shell.runner.close()
    for name in ("subreaper", "namespace"):  # by the quicker quarter: the machine has other work too
        assert sorted(rows[name])[ROUNDS // 4] <= 3 * sorted(rows["bare"])[ROUNDS // 4]


def test_what_a_session_pays_once(tmp_path: Path) -> None:
    print()
    for mode in ("subreaper", "namespace"):
        start: list[float] = []
        close: list[float] = []
        for _ in range(10):
            shell = BashSession(tmp_path.resolve(), mode)
            timed(shell.how, start)
            shell.run("true")
            timed(shell.close, close)
            shell.runner.close()
        print(f"  {mode}: start {statistics.median(start):.0f} ms, close {statistics.median(close):.0f} ms")


def test_an_interrupt_returns_within_0_3_s_and_everything_is_gone_soon(tmp_path: Path) -> None:
    shell = BashSession(tmp_path.resolve())
    back, gone = [], []

    async def interrupted() -> None:
        task = asyncio.ensure_future(shell.arun("trap '' TERM; touch on; sleep 300; sleep 300; sleep 300"))
        while not (shell.folder / "on").exists():
            await asyncio.sleep(0.005)
        start = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        back.append(time.perf_counter() - start)
        while shell.survivors():
            await asyncio.sleep(0.005)
        gone.append(time.perf_counter() - start)
        (shell.folder / "on").unlink()

    for _ in range(5):
        shell.runner.run(interrupted())
    print(f"\n  interrupt: back after {max(back) * 1000:.1f} ms, all gone after {max(gone) * 1000:.0f} ms")
    shell.close()
    shell.runner.close()
    assert max(back) < 0.3


def test_throughput_of_a_large_output(tmp_path: Path) -> None:
    shell = BashSession(tmp_path.resolve())
    times: list[float] = []
    for _ in range(5):
        timed(lambda: shell.run("head -c 40M /dev/zero | tr '\\0' '\\n'"), times)
    said = text(shell.run("seq 3"))
    print(f"\n  40 MB of output: {statistics.median(times):.0f} ms")
    shell.close()
    shell.runner.close()
    assert said == "1\n2\n3"

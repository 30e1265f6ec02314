"""Run makeroom headless and measure what it takes, signals included.

It is started by a small process in between, this file as a program: the memory of a process that forks counts
towards the peak of its child.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Measured(NamedTuple):
    """What came of a run: `seconds` in all, `deaf` of those behind the signal (0 without), `peak` in MB."""

    code: int
    seconds: float
    deaf: float
    peak: float
    processor: float  # seconds of it
    out: bytes
    err: bytes


def measured(
    folder: Path, environ: dict[str, str], argv: list[str], ready: Callable[[int], None] = lambda pid: None
) -> Measured:
    """Run `python -m agent ARGV` to its end. `ready` gets its process id when it has started."""
    told, tells = os.pipe()
    command = [sys.executable, "-S", "-E", __file__, str(tells), sys.executable, "-m", "agent", *argv]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        pass_fds=(tells,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(tells)
        with os.fdopen(told, encoding="utf-8") as lines:
            ready(int(lines.readline()))
            out, err = process.communicate(timeout=120)
            code, seconds, deaf, peak, processor = json.loads(lines.readline())
            return Measured(
                code=code, seconds=seconds, deaf=deaf, peak=peak, processor=processor, out=out, err=err
            )


def _start_and_measure(tells: int, command: list[str]) -> None:
    """Write the process id of the command, and what it took when it has ended."""
    began, signalled = time.monotonic(), 0.0
    child = os.fork()
    if child == 0:
        os.close(tells)
        os.execv(command[0], command)

    def pass_on(number: int, frame: Any) -> None:
        nonlocal signalled
        signalled = time.monotonic()
        os.kill(child, number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    os.write(tells, b"%d\n" % os.getpid())
    _, status, usage = os.wait4(child, 0)
    ended = time.monotonic()
    peak = usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024 * 1024)
    found = (
        os.waitstatus_to_exitcode(status),
        ended - began,
        ended - signalled if signalled else 0.0,
        peak,
        usage.ru_utime + usage.ru_stime,
    )
    os.write(tells, json.dumps(found).encode() + b"\n")


if __name__ == "__main__":
    _start_and_measure(int(sys.argv[1]), sys.argv[2:])

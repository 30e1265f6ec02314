"""Continue a session of 50 and of 500 MB with a prompt, against a small one in the same run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agent.ui.headless_run import environment
from tests.strict_api.reply import Reply, says
from tests.strict_api.server import Server
from transcripts.load_cache import write_pieces
from transcripts.session_key import SessionKey

from .large_record import LargeRecord

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3_600)]
# Of the CPU time with a small transcript, which is 0.37 s on a quiet machine: 0.3 and 2 s more.
MAX_RATIO = {50_000_000: 1.8, 500_000_000: 6.4}
MAX_RATIO_WITHOUT = {50_000_000: 3.3, 500_000_000: 17.5}
MAX_MB = {50_000_000: 120, 500_000_000: 250}


class Measured(NamedTuple):
    """A run with a prompt: seconds, seconds of CPU time, and the most memory in MB."""

    seconds: float
    cpu: float
    megabytes: float


def run(folder: Path, server: Server, *argv: str) -> Measured:
    command = [sys.executable, "-m", "agent", "-p", *argv]
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=folder, env=environment(folder, server), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"hello\n"
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return Measured(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6)


def key_of(folder: Path) -> SessionKey:
    return SessionKey.load(next((folder / "home").rglob("session_key.json")).parent, folder)


def test_a_large_session_is_continued_soon(tmp_path: Path) -> None:
    failed = []
    with Server(lambda body: Reply([says("hello")])) as server:
        run(tmp_path, server, "hi")
        path = next(tmp_path.glob(".transcripts/*.jsonl"))
        small = min((run(tmp_path, server, "-c", "and now?") for _ in range(3)), key=lambda one: one.cpu)
        print(f"\nsmall: {small.seconds:.2f} s, {small.cpu:.2f} s of CPU time, {small.megabytes:.0f} MB")
        for size, most in MAX_RATIO.items():
            LargeRecord(path, key_of(tmp_path)).grow(size)
            compacting = run(tmp_path, server, "-c", "and now?")  # what was added has not been summarized
            shutil.rmtree(path.parent / "cache")
            without = run(tmp_path, server, "-c", "and now?")
            write_pieces(path, key_of(tmp_path))
            cached = min((run(tmp_path, server, "-c", "and now?") for _ in range(2)), key=lambda one: one.cpu)
            runs = {"with a compaction": compacting, "without the cache": without, "with it": cached}
            for name, one in runs.items():
                print(
                    f"{size / 1e6:.0f} MB {name}: {one.seconds:.2f} s, {one.cpu:.2f} s of CPU time "
                    f"(ratio {one.cpu / small.cpu:.2f}), {one.megabytes:.0f} MB"
                )
            if without.cpu > MAX_RATIO_WITHOUT[size] * small.cpu:
                failed.append(-size)
            if cached.cpu > most * small.cpu or cached.megabytes > MAX_MB[size]:
                failed.append(size)
        assert server.refused == [] and failed == []

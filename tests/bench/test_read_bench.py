"""Cost of reading 2,000 lines compared with read().splitlines() of Python; `-m bench -s` prints it."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.narrowing import block_text
from tests.tools.file_session import FileSession
from tools.base import ToolCall
from tools.read import ReadArguments, read_file, read_page

pytestmark = pytest.mark.bench
ROUNDS = 300


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e6


@pytest.mark.parametrize("width", [20, 24, 40])
def test_reading_costs_at_most_five_times_what_python_needs(tmp_path: Path, width: int):
    """Lines of 24 characters just fit a page; of longer ones 50 KB are shown and the rest is counted."""
    files = FileSession(tmp_path)
    lines = [f"{n:05d} ".ljust(width, "x") for n in range(2_000)]
    path = files.put("f.py", ("\n".join(lines) + "\n").encode())

    def python() -> list[str]:
        with path.open() as file:
            return file.read().splitlines()

    def core() -> object:
        return read_page(str(path), (1, 2_000), None, threading.Event())

    async def rounds() -> dict[str, list[float]]:
        times: dict[str, list[float]] = {"python": [], "core": [], "tool": []}
        call = ToolCall(files.context)
        for _ in range(ROUNDS):
            times["python"].append(timed(python))
            times["core"].append(timed(core))
            arguments = ReadArguments(file_path=str(path))
            start = time.perf_counter()
            result = await read_file(arguments, call)
            times["tool"].append((time.perf_counter() - start) * 1e6)
        assert "\n1000\t" in block_text(result.content[0])
        return times

    times = asyncio.run(rounds())
    bare = statistics.median(times["python"])
    print(f"\n2,000 lines of {width} characters, {ROUNDS} rounds in turns, median (p90) µs")
    for name, each in times.items():
        middle = statistics.median(each)
        print(f"  {name:7} {middle:6.0f} ({sorted(each)[ROUNDS * 9 // 10]:6.0f})  {middle / bare:5.2f}x")
    for name in ("core", "tool"):  # by the quicker quarter: the machine has other work too
        assert sorted(times[name])[ROUNDS // 4] <= 5 * sorted(times["python"])[ROUNDS // 4]

"""The record beside the bare calls that it cannot do without. Ratios, both measured in one run, by turns."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from transcripts import Display
from transcripts.codec import encode_fact
from transcripts.facts import Compacted, Fact, Fold, Reply, Result, Started, User
from transcripts.load import read_transcript
from transcripts.messages import TextBlock, ToolUseBlock
from transcripts.store import Store

pytestmark = pytest.mark.bench
SIZE = 100_000_000
LINE = '{:5} some line of output, "quoted"\tand more\n'
# Lines of output a result: records of 6.7 KB on average (large outputs), and of 2 KB (an ordinary session).
LARGE, SMALL = 540, 140


def turn(seq: int, lines: int = SMALL) -> list[tuple[Fact, bool]]:
    """One exchange with the durable points as the agent sets them."""
    output = "".join(LINE.format(number) for number in range(lines))
    use = ToolUseBlock(f"toolu_{seq}", "bash", {"command": "make test", "description": "run the tests"})
    return [
        (User(seq, 1.5e9, (TextBlock("and now?" * 20),), (40,)), True),
        (Reply(seq + 1, 1.5e9, (TextBlock("let me see " * 30), use), (90, 30)), True),
        (Started(seq + 2, 1.5e9, seq + 1, 1), True),
        (Result(seq + 3, 1.5e9, seq + 1, 1, (TextBlock(output),), (2000,), human=Display(text="ok")), True),
    ]


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def test_appending_takes_at_most_half_as_long_again_as_the_bare_calls(tmp_path: Path) -> None:
    """os.write + fdatasync of the same bytes on a second file, turn by turn."""
    store = Store.create(tmp_path, "s", pytest.fail)
    bare = os.open(tmp_path / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    ours: list[float] = []
    theirs: list[float] = []
    for number in range(120):
        facts = turn(1 + 4 * number)
        lines = [(encode_fact(fact, "s"), durable) for fact, durable in facts]

        def write(lines: list[tuple[bytes, bool]] = lines) -> None:
            for line, durable in lines:
                os.write(bare, line)
                if durable:
                    os.fdatasync(bare)

        def record(facts: list[tuple[Fact, bool]] = facts) -> None:
            for fact, durable in facts:
                store.append(fact, durable)

        pair: list[tuple[list[float], Callable[[], object]]] = [(theirs, write), (ours, record)]
        for times, work in pair if number % 2 else reversed(pair):
            times.append(seconds(work))
    os.close(bare)
    store.close()
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(
        f"\nappend: {statistics.median(ours) * 250:.3f} ms a record, "
        f"bare {statistics.median(theirs) * 250:.3f} ms"
    )
    print(f"append: ratio of the medians {ratio:.2f}, of the sums {sum(ours) / sum(theirs):.2f}")
    assert ratio <= 1.5


@pytest.fixture(scope="module", params=[LARGE, SMALL], ids=["6.7 KB records", "2 KB records"])
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of 100 MB that was compacted near its end."""
    path = tmp_path_factory.mktemp("large") / "s.jsonl"
    seq, written = 1, 0
    with path.open("wb") as file:
        while written < SIZE * 0.97:
            for fact, _ in turn(seq, request.param):
                written += file.write(encode_fact(fact, "s"))
            seq += 4
        edits = (Fold(1, seq - 1, (TextBlock("all so far"),), 9),)
        written += file.write(encode_fact(Compacted(seq, 1.5e9, "summary", "auto", edits), "s"))
        seq += 1
        while written < SIZE:
            for fact, _ in turn(seq, request.param):
                written += file.write(encode_fact(fact, "s"))
            seq += 4
    return path


def bare_pass(path: Path) -> int:
    with path.open("rb") as file:
        return sum(len(json.loads(line)) for line in file)


@pytest.mark.parametrize("defer", [False, True], ids=["whole", "deferred"])
def test_loading_100_mb_takes_at_most_half_as_long_again_as_parsing_it(
    large: Path, defer: bool, request: pytest.FixtureRequest
) -> None:
    """As a session is resumed, with what no view shows left in the file; and whole, as it is exported.

    Whole, with records of 2 KB, keeping everything is a quarter of the time and making the facts another
    two fifths: there 2 is the bound.
    """
    ours: list[float] = []
    theirs: list[float] = []
    pair = [(theirs, lambda: bare_pass(large)), (ours, lambda: read_transcript(large, defer=defer))]
    for number in range(6):
        for times, work in pair if number % 2 else reversed(pair):
            times.append(seconds(work))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(
        f"\n{large.stat().st_size / 1e6:.0f} MB: {statistics.median(ours):.2f} s, json.loads alone", end=" "
    )
    print(f"{statistics.median(theirs):.2f} s, ratio {ratio:.2f}")
    assert ratio <= (1.5 if defer or "6.7 KB" in request.node.name else 2)


def test_a_compacted_session_of_100_mb_is_there_in_3_seconds_and_300_mb(large: Path) -> None:
    """In a process of its own, imports and the first view included."""
    script = (
        "import sys, time, resource; began = time.perf_counter(); from pathlib import Path\n"
        "from transcripts.store import Store; from transcripts.folding import fold\n"
        "store, loaded = Store.resume(Path(sys.argv[1]), print); folded = fold(loaded.facts)\n"
        "n = len(folded.view)\n"
        "print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, n)\n"
        "store.close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(large)], capture_output=True, text=True, check=True
    )
    took, kilobytes, messages = done.stdout.split()
    unit = 1 if sys.platform == "darwin" else 1024
    megabytes = int(kilobytes) * unit / 1e6
    print(f"\nresume: {float(took):.2f} s, {megabytes:.0f} MB at most, {messages} messages in view")
    assert float(took) <= 3 and megabytes <= 300

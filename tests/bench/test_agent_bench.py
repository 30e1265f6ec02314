"""Cost of the agent itself: time between requests, memory, growth with the conversation, start-up.

Run with `pytest -m bench -n 0 -s`. Every figure is printed; what is asserted are ratios measured in the same
run, and ceilings of memory, which do not depend on how busy the machine is.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from compact.tokens import TokenCounter
from transcripts.codec import encode_fact
from transcripts.facts import Fact, Opened, Reply, RequestSent, Result, Started, User
from transcripts.messages import TextBlock, ToolUseBlock, Usage

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
ROOT = Path(__file__).resolve().parents[2]


STRICT = ["-m", "tests.strict_api", "--port", "0", "--script", "tests.bench.many_calls:brain"]
SINK = [str(ROOT / "tests" / "bench" / "sink.py")]


@contextmanager
def server(times: Path, calls: int, argv: list[str]) -> Iterator[str]:
    """A server in a process of its own; yields its URL."""
    environ = {**os.environ, "BENCH_TIMES": str(times), "BENCH_CALLS": str(calls), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, *argv],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(10)
        process.stdout.close()


def home_of(folder: Path) -> Path:
    """The home directory, beside the project: what is in a project is watched while commands run."""
    return folder.with_name(f"{folder.name}-home")


def agent(url: str, folder: Path, *argv: str) -> int:
    """Run the agent headless; returns its peak memory in KiB."""
    home = home_of(folder)
    home.mkdir(exist_ok=True)
    environ = {**os.environ, "HOME": str(home), "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "bench"}
    environ["PYTHONDONTWRITEBYTECODE"] = ""  # modules are compiled once, as where they are installed
    command = [
        sys.executable,
        "-m",
        "agent",
        "-p",
        "go",
        "--allowedTools",
        "bash",
        "-m",
        "makeroom-offline",
        *argv,
    ]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None
    out, errors = process.stdout.read(), process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, errors.decode()
    assert out.strip() == b"done"
    return used.ru_maxrss


def gaps(times: Path) -> list[float]:
    """Milliseconds from one request to the next."""
    moments = [float(line) for line in times.read_text().split()]
    return [1000 * (later - sooner) for sooner, later in pairwise(moments)]


def test_milliseconds_from_one_request_to_the_next(tmp_path: Path) -> None:
    times = tmp_path / "times"
    with server(times, 200, STRICT) as url:
        agent(url, tmp_path)
    bare = bare_calls(50)
    found = gaps(times)
    median, worst = statistics.median(found), sorted(found)[int(len(found) * 0.95)]
    print(f"\none request to the next, 200 bash calls: median {median:.1f} ms, p95 {worst:.1f} ms")
    print(f"bare subprocess + 2 fdatasync, the same run: {bare:.1f} ms; ratio {median / bare:.2f}")
    assert median < 30


PI_BETA = "interleaved-thinking-2025-05-14"
MAX_OF_PI = 0.9  # of its time


@pytest.mark.skipif(shutil.which("pi") is None, reason="pi is not installed")
def test_two_hundred_bash_calls_take_less_time_than_pis(tmp_path: Path) -> None:
    """Start to end, in turn, three times; the best of each counts."""
    seconds: dict[str, list[float]] = {"makeroom": [], "pi": []}
    for _ in range(3):
        for name, run in (("makeroom", agent), ("pi", pi)):
            with server(tmp_path / "times", 200, [*STRICT, "--beta", PI_BETA]) as url:
                began = time.perf_counter()
                run(url, tmp_path)
                seconds[name].append(time.perf_counter() - began)
    ours, theirs = min(seconds["makeroom"]), min(seconds["pi"])
    print(f"\n200 bash calls: {ours:.2f} s, pi {theirs:.2f} s; ratio {ours / theirs:.2f}")
    assert ours <= MAX_OF_PI * theirs


def pi(url: str, folder: Path) -> None:
    """Run pi headless with the server as its only provider."""
    home = home_of(folder)
    settings = home / ".pi" / "agent" / "models.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    model = {
        "id": "makeroom-offline",
        "reasoning": False,
        "input": ["text"],
        "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite"), 0),
        "contextWindow": 200_000,
        "maxTokens": 8_000,
    }
    provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "bench", "models": [model]}
    settings.write_text(json.dumps({"providers": {"bench": provider}}))
    command = ["pi", "-p", "go", "--provider", "bench", "--model", "makeroom-offline"]
    environ = {**os.environ, "HOME": str(home), "PI_OFFLINE": "1"}
    ended = subprocess.run(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "done"


def bare_calls(count: int) -> float:
    """Median milliseconds of what no agent with a durable record can do without."""
    path = Path(f"/tmp/bench-{os.getpid()}")
    taken = []
    with path.open("wb") as file:
        for _ in range(count):
            began = time.perf_counter()
            for _ in range(2):
                file.write(b"x" * 500)
                file.flush()
                os.fdatasync(file.fileno())
            subprocess.run(["bash", "-c", "true"], check=True)
            taken.append(1000 * (time.perf_counter() - began))
    path.unlink()
    return statistics.median(taken)


def session(folder: Path, messages: int) -> str:
    """A recorded session of so many messages in the view; returns its id."""
    sid = f"20260101-000000-{messages:05d}"
    place = folder / ".transcripts"
    place.mkdir(mode=0o700)
    # makeroom was used before: the session is ours
    (home_of(folder) / ".local/state/makeroom").mkdir(parents=True)
    count = TokenCounter.load()
    facts: list[Fact] = [
        Opened(1, 0.0, ("s",), (), "makeroom-offline", 1_000_000, str(folder)),
        User(2, 0.0, (TextBlock("begin"),), (1,)),
    ]
    for number in range((messages - 1) // 2):
        seq = facts[-1].seq + 1
        use = ToolUseBlock(f"toolu_{number:06d}", "bash", {"command": f"echo {number}"})
        answer = (TextBlock(f"line {number} " * 8),)
        facts += [
            RequestSent(seq, 0.0, "turn", 0, 0),
            Reply(
                seq + 1, 0.0, (use,), count.blocks((use,)), Usage(), "tool_use", True, "makeroom-offline", seq
            ),
            Started(seq + 2, 0.0, seq + 1, 0),
            Result(seq + 3, 0.0, seq + 1, 0, answer, count.blocks(answer)),
        ]
    (place / f"{sid}.jsonl").write_bytes(b"".join(encode_fact(fact, sid) for fact in facts))
    return sid


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[float, int]]:
    """Messages in the view -> (median ms between requests, peak KiB), all in one run."""
    found = {}
    for messages in (10, 1_000, 4_000, 10_000):
        folder = tmp_path_factory.mktemp(f"view-{messages}")
        sid = session(folder, messages)
        times = folder / "times"
        with server(times, 60, SINK) as url:
            peak = agent(url, folder, "-r", sid, "--policy", "off", "--context-window", "10000000")
        found[messages] = (statistics.median(gaps(times)[5:]), peak)
    return found


def test_peak_memory_of_the_headless_agent(measured: dict[int, tuple[float, int]]) -> None:
    peaks = {messages: peak / 1024 for messages, (_, peak) in measured.items()}
    print(
        "\npeak memory, headless agent alone: "
        + ", ".join(f"{n} messages {mb:.0f} MB" for n, mb in peaks.items())
    )
    assert peaks[1_000] <= 130
    # Two messages are an exchange: four facts, an entry, two messages of the view and their bytes, 4 KB in 30
    # objects, of which the dicts of its calls, results and input take most. The body and a copy take 4 MB.
    assert peaks[10_000] - peaks[1_000] <= 27


def test_growth_with_the_view(measured: dict[int, tuple[float, int]]) -> None:
    print("\n" + ", ".join(f"{n} messages: {ms:.1f} ms" for n, (ms, _) in measured.items()))
    slope = (measured[10_000][0] - measured[1_000][0]) / 9
    print(f"slope: {slope:.2f} ms per 1,000 messages in the view (copying and sending the body)")
    assert slope <= 2


def bare_python() -> float:
    return startup([sys.executable, "-c", "pass"])


def startup(argv: list[str], rounds: int = 15) -> float:
    """The best of some rounds, in milliseconds: what it takes when nothing else runs."""
    best = 1e9
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(argv, cwd="/", stdout=subprocess.DEVNULL, check=True)
        best = min(best, 1000 * (time.perf_counter() - began))
    return best


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_start_up_against_a_bare_interpreter(flag: str) -> None:
    bare, ours = bare_python(), startup([sys.executable, "-m", "agent", flag])
    print(f"\n{flag}: {ours:.0f} ms, bare interpreter {bare:.0f} ms; ratio {ours / bare:.2f}")
    assert ours / bare <= 5


def test_our_own_work_does_not_grow_with_the_view() -> None:
    """Fold, pipeline and record for one more exchange, at 1,000 and at 10,000 messages in the view."""
    found = json.loads(
        subprocess.run(
            [sys.executable, str(ROOT / "tests" / "bench" / "own_work.py")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    print(
        "\nour own work for one exchange: "
        + ", ".join(f"{n} messages {us:.0f} us" for n, us in found.items())
    )
    slope = (found["10000"] - found["1000"]) / 9 / 1000
    print(f"slope: {slope:.3f} ms per 1,000 messages kept")
    assert slope <= 0.05

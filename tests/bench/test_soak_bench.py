"""Memory and CPU time of a REPL over thousands of calls, with random interrupts, resizes and stops.

SOAK_CALLS=3000 python -m pytest -m bench -n 0 -s tests/bench/test_soak_bench.py

Half as many calls of `-p` are printed beside those of pi and Claude Code, where these are on the PATH.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agent.ui.headless_run import credentials, environment
from tests.agent.ui.pty_terminal import PtyTerminal, makeroom
from tests.strict_api.reply import Block, Body, Reply, calls, says, thinks
from tests.strict_api.server import Server, ServerOptions

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7_200)]
CALLS = int(os.environ.get("SOAK_CALLS", "3000"))
SAMPLES = 24
QUIET_S = 0.5  # without a request, after which the next prompt is typed
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
MAX_CPU_GROWTH = 1.5  # of a call in the last quarter over one in the second; the first fills the context
MAX_MEMORY_PER_BYTE = 5.0  # of the transcript, which stays in memory; 3.5 on Python 3.11


class Brain:
    """The model's part: a mix of calls, every one different, and in a tenth of the replies an answer."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.calls = 0
        self.requests = 0
        self.last = time.monotonic()  # of a request or a prompt
        self.asked = self.last

    def __call__(self, body: Body) -> Reply:
        self.last = self.asked = time.monotonic()
        self.requests += 1
        if not body.get("tools"):
            return Reply([says("## State\nThe soak goes on.\n## Next\nContinue.")])
        if self.dice.random() < 0.1:
            return Reply([thinks("It is time to report."), says("All is well. " * 20)])
        return Reply([self.call() for _ in range(self.dice.choice((1, 1, 1, 2)))])

    def call(self) -> Block:
        self.calls += 1
        number, dice = self.calls, self.dice
        name = f"part_{dice.randrange(40)}.txt"
        line = dice.randrange(300)
        tool, arguments = dice.choice(
            (
                ("bash", {"command": f"echo call {number}; seq {dice.randrange(200)}"}),
                ("bash", {"command": f"sleep 0.{dice.randrange(1, 4)}; echo slept {number}"}),
                ("bash", {"command": f"printf 'new {number}\\n' >> {name}"}),
                ("bash", {"command": f"ls missing-{number}; exit {dice.randrange(1, 9)}"}),
                ("read", {"file_path": name, "offset": 1 + line, "limit": 60}),
                ("grep", {"pattern": f"value {line} of", "path": name}),
                ("glob", {"pattern": f"**/part_{line % 10}*.txt"}),
                ("write", {"file_path": f"out_{number % 50}.txt", "content": f"by call {number}\n" * 40}),
                (
                    "edit",
                    {"file_path": name, "old_string": f"value {line} of", "new_string": f"value {line} OF"},
                ),
            )
        )
        return calls(tool, **arguments)


class Sample(NamedTuple):
    """The program after a number of calls; its CPU time is without that of the commands that it runs."""

    calls: int
    record_mib: float
    resident_mib: float
    cpu_s: float
    threads: int
    descriptors: int


def sample(pid: int, folder: Path, calls: int) -> Sample:
    record = sum(path.stat().st_size for path in folder.glob(".transcripts/*.jsonl"))
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    return Sample(
        calls,
        record_mib=record / 2**20,
        resident_mib=int(status.partition("VmRSS:")[2].split()[0]) / 1024,
        cpu_s=(int(stat[11]) + int(stat[12])) / TICKS_PER_S,
        threads=int(stat[17]),
        descriptors=len(list(Path(f"/proc/{pid}/fd").iterdir())),
    )


def disturb(terminal: PtyTerminal, dice: random.Random, *, busy: bool) -> bool:
    """Interrupt the turn if there is one, change the terminal's size, or stop the program for a moment.

    Returns whether it was interrupted.
    """
    how = dice.choice(("escape", "interrupt", "resize", "stop") if busy else ("resize", "stop"))
    if how == "escape":
        terminal.type("\x1b")
    elif how == "interrupt":
        terminal.signal(signal.SIGINT)
    elif how == "resize":
        terminal.resize(dice.randrange(60, 140), dice.randrange(15, 50))
    else:
        terminal.signal(signal.SIGSTOP).drain(0.05).signal(signal.SIGCONT)
    return how in ("escape", "interrupt")


def soak(folder: Path, brain: Brain, server: Server) -> list[Sample]:
    """Run the REPL until the model has made all its calls, and leave it with Ctrl-D."""
    dice = random.Random(11)
    samples: list[Sample] = []
    interrupted = 0  # the requests before; on a busy machine, nothing else would ever be done
    argv = makeroom("--permission-mode bypassPermissions")
    with PtyTerminal(folder, (100, 40), argv, **credentials(folder, server)) as terminal:
        terminal.sees("❯")
        while brain.calls < CALLS:
            assert terminal.status is None, f"ended with {terminal.status}:\n{terminal.text}"
            assert time.monotonic() - brain.asked < 60, f"takes no prompt any more:\n{terminal.text}"
            if brain.calls >= len(samples) * CALLS / SAMPLES:
                samples.append(sample(terminal.child, folder, brain.calls))
            if time.monotonic() - brain.last > QUIET_S:
                brain.last = time.monotonic()
                if "Esc to cancel" in terminal.text:  # two interrupts in a row opened the menu of /rewind
                    terminal.type("\x1b").drain(0.1)
                terminal.type("go on\r")
            terminal.drain(dice.random())
            is_busy = time.monotonic() - brain.last < QUIET_S / 2 and brain.requests > interrupted + 1
            if disturb(terminal, dice, busy=is_busy):
                interrupted = brain.requests
            del terminal.raw[:]
        samples.append(sample(terminal.child, folder, brain.calls))
        terminal.again("\x1b", lambda: time.monotonic() - brain.last > QUIET_S)
        terminal.again("\x04", lambda: terminal.status is not None)
    return samples


def test_memory_and_cpu_time_of_a_call_stay_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(40):
        lines = (f"value {line} of part {number}\n" for line in range(300))
        (tmp_path / f"part_{number}.txt").write_text("".join(lines))
    brain = Brain(seed=7)
    with Server(brain) as server:
        samples = soak(tmp_path, brain, server)
        refused = server.refused
    with capsys.disabled():
        print("\ncalls  record  resident MiB  ms of CPU a call  threads  descriptors")
        for before, after in pairwise(samples):
            row = f"{after.calls:5}  {after.record_mib:6.1f}  {after.resident_mib:12.1f}"
            print(f"{row}  {cpu_ms(before, after):16.1f}  {after.threads:7}  {after.descriptors:11}")
    assert refused == []
    argv = [sys.executable, "-m", "agent", "verify"]
    verified = subprocess.run(
        argv, cwd=tmp_path, env=environment(tmp_path, None), capture_output=True, text=True, check=False
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    first, half, third, last = (samples[len(samples) * quarter // 4 - 1] for quarter in (1, 2, 3, 4))
    assert cpu_ms(third, last) <= MAX_CPU_GROWTH * cpu_ms(first, half)
    grown = last.resident_mib - half.resident_mib  # until then the tokenizer's table, 30 MiB, is loaded
    assert grown <= MAX_MEMORY_PER_BYTE * (last.record_mib - half.record_mib)
    assert last.descriptors <= first.descriptors + 8


def cpu_ms(before: Sample, after: Sample) -> float:
    """Return the milliseconds of CPU time for each call between two samples."""
    return 1000 * (after.cpu_s - before.cpu_s) / max(1, after.calls - before.calls)


MODEL = "claude-haiku-4-5"
PEERS = {
    "makeroom": (sys.executable, "-m", "agent", "-p", "go", "--allowedTools", "bash", "--model", MODEL),
    "pi": ("pi", "-p", "go", "--provider", "bench", "--model", MODEL),
    "claude": ("claude", "-p", "go", "--allowedTools", "Bash", "--model", MODEL),
}
BETAS_OF_PEERS = frozenset(
    ["claude-code-20250219", "interleaved-thinking-2025-05-14", "fine-grained-tool-streaming-2025-05-14"]
)


class ShellBrain:
    """The model's part for any agent with a shell: a command in each reply, and a sample now and then."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        self.calls = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.samples: list[Sample] = []

    def __call__(self, body: Body) -> Reply:
        names = {tool.get("name") for tool in body.get("tools") or ()}
        shell = next((name for name in ("bash", "Bash") if name in names), None)
        if shell is None or self.calls >= self.count:
            return Reply([says("## State\nThe calls go on.\n## Next\nContinue.")])
        if self.process is not None and self.calls >= len(self.samples) * self.count / SAMPLES:
            self.samples.append(sample(self.process.pid, self.folder, self.calls))
        self.calls += 1
        command = f"echo call {self.calls}; seq {100 + self.calls % 200}"
        more = {"description": "count"} if shell == "Bash" else {}
        return Reply([calls(shell, command=command, **more)])


def write_pi_models(folder: Path, url: str) -> None:
    """Tell pi about the server."""
    model = {"id": MODEL, "input": ["text"], "contextWindow": 200_000, "maxTokens": 8_000}
    provider = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "bench", "models": [model]}
    path = folder / "home" / ".pi" / "agent" / "models.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"providers": {"bench": provider}}))


def test_memory_and_cpu_time_of_a_call_beside_other_agents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, argv in PEERS.items():
        found = shutil.which(argv[0])
        if found is None:
            continue
        folder = tmp_path / name
        folder.mkdir()
        brain = ShellBrain(folder, CALLS // 2)
        with Server(brain, ServerOptions(keep_requests=False, betas=BETAS_OF_PEERS)) as server:
            write_pi_models(folder, server.base_url)
            quiet = {"PI_OFFLINE": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
            more = {"CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1"}
            brain.process = subprocess.Popen(
                [found, *argv[1:]],
                cwd=folder,
                env=environment(folder, server, **quiet, **more),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            assert brain.process.wait() == 0, name
            refused = server.refused
        with capsys.disabled():
            print(f"\n{name}: calls  resident MiB  ms of CPU a call")
            for before, after in pairwise(brain.samples):
                print(f"{after.calls:5}  {after.resident_mib:12.1f}  {cpu_ms(before, after):16.1f}")
        assert brain.calls == CALLS // 2, name
        assert name != "makeroom" or refused == []

"""How long a person waits at the start: for the prompt, for a session that is ready, for a whole answer.

Run with `pytest -m bench -n 0 -s`, and without PYTHONDONTWRITEBYTECODE, so that modules are compiled once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.ui.headless_run import environment
from tests.agent.ui.pty_terminal import PtyTerminal, makeroom
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server
from transcripts.codec import encode_fact
from transcripts.facts import Fact, Opened, Reply, RequestSent, Result, Started, User
from transcripts.messages import TextBlock, ToolUseBlock, Usage
from transcripts.session_lock import RECORDS_FOLDER

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]
ROUNDS = 4  # of which the best counts: the first one compiles
RECORD_BYTES = 1_900_000
SID = "20261122-100000-abcd"
OUTPUT = "".join(f'{number:5} some line of output, "quoted"\tand more\n' for number in range(140))


def long_record(folder: Path) -> None:
    """A session of 1.9 MB in the folder: prompts with three calls each."""
    path = folder / RECORDS_FOLDER / f"{SID}.jsonl"
    path.parent.mkdir(mode=0o700)
    now = time.time() - 100_000
    facts: list[Fact] = [Opened(1, now, ("system",), (), "claude-sonnet-5-5", 200_000, str(folder))]
    size = 0
    with path.open("wb") as file:
        while size < RECORD_BYTES:
            seq = facts[-1].seq if size else 1
            facts = facts if not size else []
            facts.append(User(seq + 1, now, (TextBlock(f"look at part {seq} of it"),), (8,)))
            for call in range(3):
                at = seq + 2 + 4 * call
                use = ToolUseBlock(f"t{at}", "bash", {"command": f"make test{call}"})
                said = (TextBlock("Let me see. " * 20), use)
                facts.append(RequestSent(at, now, "turn", tokens=1_000))
                facts.append(
                    Reply(at + 1, now, said, (60, 20), usage=Usage(9, 90), stop="tool_use", asked=at)
                )
                facts.append(Started(at + 2, now, at + 1, 1))
                facts.append(
                    Result(at + 3, now, at + 1, 1, (TextBlock(OUTPUT),), (1_900,), about={"exit": 0})
                )
            size += sum(file.write(encode_fact(fact, SID)) for fact in facts)


def seconds_of_a_start(folder: Path, server: Server, words: str, shown: str) -> tuple[float, float]:
    """(until the prompt is painted, until the session is ready) of the program on a terminal."""
    environ = environment(folder, server, PYTHONDONTWRITEBYTECODE="", TERM="xterm-256color")
    began = time.perf_counter()
    with PtyTerminal(folder, (120, 40), makeroom(words), **environ) as terminal:
        terminal.sees("❯")
        painted = time.perf_counter() - began
        terminal.until(lambda: shown in terminal.everything, shown)
        ready = time.perf_counter() - began
        terminal.type("\x04").ends()
    return painted, ready


@pytest.mark.parametrize("words", ["", "-c"], ids=["new", "1.9 MB resumed"])
def test_seconds_until_the_prompt_and_until_the_session_is_ready(tmp_path: Path, words: str) -> None:
    if words:
        long_record(tmp_path)
    with Server(ScriptedModel([])) as server:
        shown = "going on with" if words else "/help lists"
        starts = [seconds_of_a_start(tmp_path, server, words, shown) for _ in range(ROUNDS)]
    painted, ready = min(start[0] for start in starts), min(start[1] for start in starts)
    print(f"\n{words or 'a new session'}: painted {painted:.2f} s, ready {ready:.2f} s")
    assert ready <= 6 * painted


def test_seconds_of_a_whole_answer_without_a_screen(tmp_path: Path) -> None:
    bare, ours = [], []
    with Server(ScriptedModel(["echo"] * ROUNDS)) as server:
        environ = environment(tmp_path, server, PYTHONDONTWRITEBYTECODE="")
        for _ in range(ROUNDS):
            for times, argv in ((bare, ["-c", "import anthropic"]), (ours, ["-m", "agent", "-p", "echo"])):
                began = time.perf_counter()
                subprocess.run(
                    [sys.executable, *argv], cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, check=True,
                )  # fmt: skip
                times.append(time.perf_counter() - began)
    load = os.getloadavg()[0]
    print(f"\n-p echo: {min(ours):.2f} s; the plain import of the SDK {min(bare):.2f} s (load {load:.1f})")
    assert min(ours) <= 1.5 * min(bare)

"""The whole program under strace: at each request and each act, what the power can not take any more."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.model.anthropic.messages import MessageForm, encode_message
from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment
from tests.agent.ui.headless_run import run_headless as headless
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server, ServerOptions
from tests.transcripts.simulated_disk import DiskState, SimulatedDisk, write_out
from transcripts.facts import Compacted, Fact, Reply, Result, Started
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.messages import ToolUseBlock

from .test_long_session import accepted
from .traced import STRACE, apply, command, steps

_NAMED = re.compile(r"\.task_outputs/[\w./-]+\.txt")


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that must not come before its record: what, after how many requests, what a loss leaves."""

    what: str
    request: int
    left: DiskState


@dataclass(slots=True)
class Run:
    """A run: its directory, what was asked, and every disk that a loss could leave when it mattered."""

    folder: Path
    requests: list[dict[str, Any]]
    moments: list[Moment] = field(default_factory=list)

    def owed(self, moment: Moment) -> dict[str, Any]:
        """Return the newest request that must be on the disk: while one is under way, the one before.

        The results of a request are synced while the model answers, and before anything that the answer does.
        """
        under_way = moment.what == "request" and moment.request > 1
        return self.requests[moment.request - 1 - under_way]

    def facts(self, left: DiskState) -> list[Fact]:
        """Return the facts that a loss left; the API accepts the conversation that they fold to."""
        after = self.folder.with_name("after")
        write_out(left, self.folder, after)
        (record,) = after.glob(".transcripts/*.jsonl")
        assert accepted(record) == []
        facts = read_transcript(record).facts
        shutil.rmtree(after)
        return facts

    def put_back(self, left: DiskState) -> None:
        """Have in the directory itself what a loss left."""
        after = self.folder.with_name("after")
        write_out(left, self.folder, after)
        for name in (".transcripts", ".task_outputs"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            if (after / name).exists():
                (after / name).rename(self.folder / name)
        shutil.rmtree(after)


def film(folder: Path, answers: list[Answer | str]) -> Run:
    log = folder.with_suffix(".strace")
    argv = [sys.executable, "-m", "agent", "-p", "go", "--allowedTools", "bash", "write"]
    with Server(ScriptedModel(answers)) as server:
        done = subprocess.run(
            command(log, *argv),
            cwd=folder,
            env=environment(folder, server),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert list(server.refused) == []
        run = Run(folder, list(server.requests))
    platter, sent = SimulatedDisk(folder), 0
    for step in steps(log):
        if step.ends:
            apply(step, platter)
        elif what := _moment(step.name, step.arguments):
            sent += what == "request"
            run.moments += [Moment(what, sent, left) for left in platter.after_power_loss(3)]
    run.moments += [Moment("end", sent, left) for left in platter.after_power_loss(3)]
    return run


def _moment(name: str, arguments: str) -> str:
    """Return the event that must not precede the transcript: a request, an act, or ""."""
    if name == "sendto" and '"POST /v1/messages ' in arguments:
        return "request"
    if name == "linkat" and '"made.txt"' in arguments:
        return "write"
    return "bash" if name == "execve" and "MARK" in arguments else ""


def said(request: dict[str, Any]) -> Iterator[str]:
    """Yield the parts of a request that must be on the disk: prompts, calls, and results."""
    for message in request["messages"]:
        for block in message["content"]:
            match block["type"]:
                case "text":
                    yield block["text"]
                case "tool_use":
                    yield block["id"]
                case "tool_result":
                    yield block["content"][0]["text"]


def known(facts: list[Fact]) -> str:
    folded = fold(facts)
    form = MessageForm(tag=folded.opened.tag if folded.opened else "")
    return json.dumps(
        [json.loads(encode_message(message, form)) for message in folded.view], ensure_ascii=False
    )


def outputs(facts: list[Fact]) -> Iterator[tuple[str, str]]:
    """(path, SHA-256 or "") of each stored output that a record names."""
    for fact in facts:
        if isinstance(fact, Result) and fact.stored is not None:
            yield fact.stored.path, fact.stored.sha256
        elif isinstance(fact, Compacted):
            yield from ((path, "") for path in _NAMED.findall(repr(fact.edits)))


def begun(facts: list[Fact], tool: str) -> bool:
    """Return whether a call of the tool and its start are in the transcript."""
    uses = {
        (fact.seq, index)
        for fact in facts
        if isinstance(fact, Reply)
        for index, block in enumerate(fact.blocks)
        if isinstance(block, ToolUseBlock) and block.name == tool
    }
    return any(isinstance(fact, Started) and (fact.of, fact.block) in uses for fact in facts)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "project"
    settings = folder / "home" / ".config" / "makeroom" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("[compact]\nbudget_max_chars = 20000\n")
    large = [calls("bash", command=f"seq {n} 4000  # MARK") for n in (1, 2, 3)]
    answers: list[Answer | str] = [
        Answer([calls("bash", command="seq 1 40000  # MARK")]),
        Answer([calls("write", file_path="made.txt", content="x")]),
        Answer(large),
        "done",
    ]
    return film(folder, answers)


@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_the_power_takes_nothing_that_was_sent_or_acted_on(run: Run) -> None:
    assert run.moments[-1].request == len(run.requests) == 4
    assert {moment.what for moment in run.moments} == {"request", "bash", "write", "end"}
    for moment in run.moments:
        facts = run.facts(moment.left)
        if moment.what in ("bash", "write"):
            assert begun(facts, moment.what)
        there = known(facts)
        for text in said(run.owed(moment)):
            assert json.dumps(text, ensure_ascii=False)[1:-1] in there
        for path, sha in outputs(facts):
            content = moment.left[str(run.folder / path)]
            assert content is not None and sha in ("", hashlib.sha256(content).hexdigest())
    last = list(outputs(run.facts(run.moments[-1].left)))
    assert len([sha for _, sha in last if sha]) == 1 and len(last) > 1, (
        "both ways to store an output were seen"
    )


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_the_program_continues_with_whatever_a_power_loss_left(run: Run) -> None:
    for moment in run.moments:
        run.put_back(moment.left)
        with Server(ScriptedModel(["gone on"]), ServerOptions(binds_thinking=True)) as server:
            done = headless(run.folder, server, "-c", "go on")
            assert (done.stdout, list(server.refused)) == ("gone on\n", []), done.stderr
            sent = json.dumps(server.requests[0]["messages"], ensure_ascii=False)
        for text in said(run.owed(moment)):
            assert json.dumps(text, ensure_ascii=False)[1:-1] in sent
        (record,) = run.folder.glob(".transcripts/*.jsonl")
        assert read_transcript(record).torn_size == 0


WRITES = """
import sys
from pathlib import Path
from tools.files.opening import load_file
from tools.files.writing import WriteRequest, atomic_write

place = Path(sys.argv[1])
spare = place / ".task_outputs" / "tool-results" / "journals"
atomic_write(WriteRequest(str(place / "a" / "b" / "new.txt"), b"new", None, spare))
linked = place / "linked.txt"
atomic_write(WriteRequest(str(linked), b"new", load_file(str(linked)), spare))
"""


@pytest.mark.skipif(STRACE is None, reason="needs strace")
def test_a_file_written_outlives_the_power_and_one_written_in_place_has_its_journal_first(
    tmp_path: Path,
) -> None:
    folder, log = tmp_path / "project", tmp_path / "log"
    folder.mkdir()
    (folder / "linked.txt").write_text("old")
    (folder / "other name.txt").hardlink_to(folder / "linked.txt")
    subprocess.run(
        command(log, sys.executable, "-c", WRITES, str(folder)), check=True, timeout=RUN_DEADLINE_S
    )
    platter, overwritten = SimulatedDisk(folder), 0
    for step in steps(log):
        if step.ends:
            apply(step, platter)
        elif step.name == "pwrite64" and step.path.endswith("linked.txt"):
            overwritten += 1
            for left in platter.after_power_loss(20):
                assert left[str(folder / "a" / "b" / "new.txt")] == b"new"
                (journal,) = (content for name, content in left.items() if name.endswith(".undo"))
                assert journal is not None and journal.endswith(b"\noldnew")
    assert overwritten > 0

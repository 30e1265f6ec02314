"""Agents of a program that was killed: their transcripts are complete, and their cost is known."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agent.cli.sessions_command import in_tree_order
from agent.session.session import Session
from compact.tokens import TokenCounter
from tests.agent.loop.world import Memory
from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment, run_here, start_makeroom
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply, calls
from tests.strict_api.server import Server
from transcripts.facts import Opened
from transcripts.folding import fold
from transcripts.listing import ProjectRecords
from transcripts.load import LoadedTranscript, read_transcript

from .agent_session import parts, task


def session_of(record: LoadedTranscript) -> Session:
    return Session(record.sid, Memory(), fold(record.facts), TokenCounter.load(), lambda: 0.0)


def test_a_kill_leaves_whole_records_and_every_cost_that_was_paid(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    look = Reply([calls("glob", pattern="*.py")])
    model = parts(
        go=[Reply([task("alpha", "explore"), task("beta")])],
        alpha=[look, look, "-"],
        beta=[look, look, "-"],
        again=["well"],
    )
    with Server(model) as server:
        server.faults.add(Fault("stall", times=None, when=lambda body: len(body["messages"]) >= 5))
        run = start_makeroom(
            tmp_path,
            environment(tmp_path, server, DISABLE_PROMPT_CACHING="1"),
            *("-p", "go"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert server.arrived(7)  # the session's request, and three of each agent, of which the last is held
        run.kill()
        assert run.wait(RUN_DEADLINE_S) == -9
        check_records(tmp_path)
        server.faults.clear()
        gone_on = run_here(tmp_path, capfd, server, "-c", "again")
        assert (gone_on.stdout, server.refused) == ("well\n", [])


def check_records(folder: Path) -> None:
    """Three records, all whole; the session's cost is that of all requests that were answered."""
    listed = in_tree_order(ProjectRecords(folder).sessions())
    assert [depth for depth, _ in listed] == [0, 1, 1]
    records = [read_transcript(one.path) for _, one in listed]
    assert len(records) == 3 and all(not record.damaged for record in records)
    parent, *children = map(session_of, records)
    newest = ProjectRecords(folder).continuable()[0].path
    assert newest is not None and newest.stem == parent.sid
    opened = [fact for child in children for fact in child.folded.facts if isinstance(fact, Opened)]
    assert [fact.parent for fact in opened] == [parent.sid] * 2
    own = sum(fact.usage.output for fact in parent.folded.facts if hasattr(fact, "usage"))
    assert parent.spent.output == own + sum(child.spent.output for child in children)
    assert parent.cost > sum(child.cost for child in children) > 0
    shown = str([part.block for message in parent.folded.view for part in message.parts])
    assert shown.count("may have run") == 2

"""Making room in a running session: in which order things reach the disk, and what a full disk does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.events import MadeRoom, Notice
from agent.offline.reply import Reply as Answer
from agent.offline.reply import calls, says
from compact.settings import Settings
from tests.agent.world import World, world
from tools.base import Outcome, say
from transcripts.facts import Compacted, Failed

LONG = "a sentence that says something. " * 1_200
SUMMARY = Settings(policy="classic", trigger=14_000, min_compact_size=1_000, tail_tokens=100)
BUDGET = Settings(budget_chars=20_000)


@contextmanager
def loud(settings: Settings, folder: Path, *steps: Any) -> Iterator[World]:
    """A world whose echo says far more than it is told to."""

    async def run(arguments: Any, call: Any) -> Outcome:
        return say(LONG)

    with world(steps, folder) as w:
        w.parts.tools["echo"].run = run
        w.parts.room.settings = settings
        yield w
        w.check()


def test_results_are_durable_before_a_summary_is_asked_for(tmp_path: Path) -> None:
    durable: list[bool] = []

    def answer(body: Any) -> Answer:
        durable.append(w.record.durable == len(w.record.facts))
        return Answer([says("<summary>much was done</summary>")])

    call = Answer([calls("echo")])
    with loud(SUMMARY, tmp_path, call, call, answer, "done") as w:
        assert w.run().reason == "done"
        assert w.told(MadeRoom) and durable == [True]


def test_a_disk_that_takes_no_outputs_does_not_end_the_turn(tmp_path: Path) -> None:
    (tmp_path / "outputs").write_text("in the way of the folder")
    with loud(BUDGET, tmp_path, Answer([calls("echo", words=str(n)) for n in range(3)]), "done") as w:
        assert w.run().reason == "done"
        assert [fact.what for fact in w.record.facts if isinstance(fact, Failed)] == ["budget"]
        assert [fact for fact in w.record.facts if isinstance(fact, Compacted)] == []
        assert "cannot be kept" in w.told(Notice)[0].text and w.texts() == [LONG] * 3

"""Records that come from another directory, that were changed under a session, or whose clock went back."""

import asyncio
import shutil
from pathlib import Path

import pytest

from agent.session.repository import damaged_text
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller
from tests.agent.loop.world import world
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls
from transcripts.facts import Opened
from transcripts.load import read_transcript
from transcripts.messages import TextBlock


def record_of(folder: Path) -> Path:
    (path,) = (folder / ".transcripts").glob("*.jsonl")
    return path


async def greet(run: ControllerRun) -> None:
    await run.do("hello")


def test_a_transcript_of_another_project_continues_here_and_the_model_is_informed(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there, here):
        (folder / ".transcripts").mkdir(parents=True, mode=0o700)
    state = {"state_dir": tmp_path / "state"}
    run_controller(there, greet, configured=state)
    path = Path(shutil.copy(record_of(there), here / ".transcripts"))
    words: list[str] = []

    async def work(run: ControllerRun) -> None:
        words.append(await run.do("hello again"))

    server = run_controller(here, work, resume=path.stem, configured=state)
    assert f"directory has changed from {there} to {here}" in words[0]
    first, *_, last = server.requests[-1]["messages"]
    assert f"Project directory: {there}" in first["content"][0]["text"]
    assert f"Project directory: {here}" in last["content"][0]["text"]
    opened = [fact.folder for fact in read_transcript(path).facts if isinstance(fact, Opened)]
    assert opened == [str(there), str(here)]
    server = run_controller(here, work, resume=path.stem, configured=state)
    assert "so far" not in words[1] and len(server.requests[-1]["messages"][-1]["content"]) == 1


def test_a_record_that_was_damaged_under_a_session_is_reported_and_the_session_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compact.local_summary.FADED_CALLS", -1)  # else a resumed session loads all results
    files(tmp_path)

    async def fill(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact")

    async def ask_back(run: ControllerRun) -> None:
        session, _ = run.controller.in_use
        offset, length = next(iter(session.deferred.values()))
        with path.open("r+b") as file:
            file.seek(offset + length // 2)
            file.write(b"~~~~")
        for line in ("/uncompact", "/fork"):
            assert f"{line}: {path} has changed since it was read" in await run.do(line)
        await run.do("hello")

    run_controller(tmp_path, fill)
    path = record_of(tmp_path)
    run_controller(tmp_path, ask_back, resume=path.stem, verified=False)
    assert len(read_transcript(path).damaged) == 1
    assert record_of(tmp_path) == path, "the fork that could not be made left nothing behind"


def test_a_clock_that_goes_back_a_day_between_two_turns_changes_no_order(tmp_path: Path) -> None:
    with world(["one", Answer([calls("echo", words="x")]), "two"], tmp_path) as w:

        async def both() -> None:
            await w.turn("first")
            w.clock.time -= 86_400
            await w.turn("second")
            await w.context.model.close()

        asyncio.run(both())
        facts = w.record.facts
        assert facts[-1].ts == facts[0].ts - 86_400
        assert [fact.seq for fact in facts] == list(range(1, len(facts) + 1))
        assert w.session.folded.entries[-1].fact.blocks == (TextBlock("two"),)
        w.check()


def test_one_damaged_record_is_reported_in_the_singular() -> None:
    assert damaged_text(1, 7) == "skipped 1 damaged line in the transcript: line 7"
    assert damaged_text(1_200, 7) == "skipped 1,200 damaged lines in the transcript; the first is line 7"


def test_two_continuations_of_a_session_become_two_sessions(tmp_path: Path) -> None:
    """As where no lock kept two processes apart, or a sync tool joined two copies of a file."""
    run_controller(tmp_path, greet)
    path = record_of(tmp_path)
    begun = path.read_bytes()
    ends = []
    told: list[str] = []
    for word in ("first", "second"):
        path.write_bytes(begun)

        async def go_on(run: ControllerRun, word: str = word) -> None:
            await run.do(f"echo the {word}")

        run_controller(tmp_path, go_on, resume=path.stem)
        ends.append(path.read_bytes()[len(begun) :])
    path.write_bytes(begun + ends[0] + ends[1])

    async def look(run: ControllerRun) -> None:
        told.append(run.text())
        shown = str(run.controller.in_use[0].folded.view)
        assert "the first" in shown and "the second" not in shown
        await run.do("hello again")

    run_controller(tmp_path, look, resume=path.stem)
    (other,) = set((tmp_path / ".transcripts").glob("*.jsonl")) - {path}
    assert f"the second is now session {other.stem}" in told[0] and "damaged" not in told[0]
    assert b"the second" in other.read_bytes() and b"the first" not in other.read_bytes()
    run_controller(tmp_path, look, resume=path.stem)
    assert "two processes" not in told[1] and "damaged" not in told[1]
    assert set((tmp_path / ".transcripts").glob("*.jsonl")) == {path, other}

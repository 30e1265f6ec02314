"""Commands in the background: started at once, seen, stopped, announced, and gone when the session goes."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.base import Access, ToolError
from tools.bash import BASH
from tools.jobs import BackgroundJob, announcement, close, jobs_of, warm

from .workbench import Bench, text, wait_until


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path.resolve())
    yield bench
    bench.close()
    assert not bench.survivors()
    bench.runner.close()


async def ended(job: BackgroundJob) -> None:
    await asyncio.wait_for(job.changed.wait(), 30)


def test_a_background_command_is_started_and_the_call_returns(bench: Bench) -> None:
    outcome = bench.run("echo up; sleep 300", run_in_background=True)
    assert not outcome.error
    assert text(outcome).startswith("Started in the background as job b1 (pid ")
    assert 'bash(job="b1")' in text(outcome)
    assert wait_until(bench.survivors)


def test_a_look_shows_only_what_is_new(bench: Bench) -> None:
    bench.run("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; sleep 300", run_in_background=True)
    assert wait_until(lambda: bench.say(job="b1").startswith("one\n[job b1: running, "))
    assert bench.say(job="b1").startswith("[job b1: running, ")
    (bench.folder / "go").touch()
    assert wait_until(lambda: bench.say(job="b1").startswith("two\n[job b1: running, "))


def test_its_output_is_in_a_file_that_the_look_names(bench: Bench) -> None:
    said = bench.say("seq 3; sleep 300", run_in_background=True)
    assert wait_until(lambda: "3 lines, 6 bytes" in bench.say(job="b1"))
    (file,) = (bench.folder / ".task_outputs").glob("*.txt")
    assert file.read_text() == "1\n2\n3\n"
    assert f".task_outputs/{file.name}" in said


def test_a_stop_ends_the_whole_tree_and_tells_the_last_output(bench: Bench) -> None:
    command = "trap 'echo tidied; exit 0' TERM; setsid -f sleep 300; echo up; while :; do sleep 0.01; done"
    bench.run(command, run_in_background=True)
    assert wait_until(lambda: "up" in bench.say(job="b1"))
    said = bench.say(job="b1", kill=True)
    assert "tidied\n[job b1: stopped, exit code 0," in said
    assert not bench.survivors()
    assert bench.say(job="b1", kill=True).startswith("[job b1: stopped, exit code 0,")


def test_one_that_ends_is_announced_once_to_each(bench: Bench) -> None:
    told: list[str] = []
    jobs = jobs_of(bench.context)
    jobs.on_finish = lambda job: told.append(job.id)
    bench.run("echo out; exit 3", run_in_background=True)
    bench.runner.run(ended(jobs.jobs["b1"]))
    assert told == ["b1"]
    (job,) = jobs.finished()
    words = announcement(job, bench.context)
    assert words.startswith("Background command b1 (echo out; exit 3) finished, exit code 3, after 0.")
    assert words.endswith("Output: .task_outputs/session-1.0.txt (4 bytes).")
    assert jobs.finished() == []
    assert jobs.running == []


def test_processes_that_a_command_left_behind_are_announced_in_a_sentence(bench: Bench) -> None:
    bench.run("(until [ -e go ]; do sleep 0.01; done) & echo up")
    jobs = jobs_of(bench.context)
    (bench.folder / "go").touch()
    bench.runner.run(ended(jobs.jobs["b1"]))
    (job,) = jobs.finished()
    assert " ended, and all of its processes with it, after " in announcement(job, bench.context)


def test_one_that_the_model_saw_end_is_not_announced_again(bench: Bench) -> None:
    jobs = jobs_of(bench.context)
    bench.run("exit 3", run_in_background=True)
    bench.runner.run(ended(jobs.jobs["b1"]))
    outcome = bench.run(job="b1")
    assert outcome.error
    assert "[job b1: finished, exit code 3," in text(outcome)
    assert jobs.finished() == []


def test_one_that_was_stopped_on_request_is_not_announced(bench: Bench) -> None:
    jobs = jobs_of(bench.context)
    bench.run("sleep 300", run_in_background=True)
    bench.run(job="b1", kill=True)
    assert jobs.finished() == []


def test_all_that_it_wrote_is_there_when_it_is_announced(bench: Bench) -> None:
    jobs = jobs_of(bench.context)
    bench.run("seq 200000", run_in_background=True)
    bench.runner.run(ended(jobs.jobs["b1"]))
    assert jobs.jobs["b1"].spool.lines == 200_000
    said = bench.say(job="b1")
    assert "200000\n[job b1: finished" in said
    assert len(said) <= 30_000


def test_one_that_writes_too_much_is_ended(bench: Bench) -> None:
    bench.limit(output=1_000_000)
    jobs = jobs_of(bench.context)
    bench.run("yes", run_in_background=True)
    bench.runner.run(ended(jobs.jobs["b1"]))
    (job,) = jobs.finished()
    assert "stopped at the limit of its output" in announcement(job, bench.context)
    assert job.spool.path.stat().st_size == 1_000_000
    assert wait_until(lambda: not bench.survivors())


def test_a_question_that_nobody_answers_is_pointed_out(bench: Bench) -> None:
    bench.limit(quiet=0.05)
    bench.run("printf 'Password: '; sleep 300", run_in_background=True)
    assert wait_until(lambda: "seems to wait for an answer" in bench.say(job="b1"))


def test_the_folder_does_not_follow_a_background_command(bench: Bench) -> None:
    bench.run("mkdir sub; cd sub", run_in_background=True)
    bench.runner.run(ended(jobs_of(bench.context).jobs["b1"]))
    assert bench.say("pwd") == str(bench.folder)


def test_an_unknown_job_is_an_error_that_names_those_there_are(bench: Bench) -> None:
    with pytest.raises(ToolError, match="Jobs of this session: none"):
        bench.run(job="b7")
    bench.run("sleep 300", run_in_background=True)
    with pytest.raises(ToolError, match="Jobs of this session: b1"):
        bench.run(job="b7")
    with pytest.raises(ToolError, match="both given"):
        bench.run("ls", job="b1")


def test_looking_at_a_job_needs_no_permission_and_starting_one_does(bench: Bench) -> None:
    assert BASH.touches(BASH.arguments(job="b1", kill=True), bench.context) == (Access("none"),)
    assert BASH.touches(BASH.arguments(restart=True), bench.context) == (Access("none"),)
    started = BASH.arguments(command="make", run_in_background=True)
    assert BASH.touches(started, bench.context) == (Access("run", "make"),)
    assert BASH.title(started) == "make"


def test_closing_a_session_twice_or_before_its_first_command_is_fine(bench: Bench) -> None:
    bench.close()
    bench.run("sleep 300", run_in_background=True)
    bench.close()
    assert not bench.survivors()
    bench.close()
    assert bench.say("echo again") == "again"


def test_closing_while_a_command_runs_ends_that_too(bench: Bench) -> None:
    async def both() -> str:
        task = asyncio.ensure_future(bench.arun("touch on; sleep 300"))
        while not (bench.folder / "on").exists():
            await asyncio.sleep(0.005)
        await close(bench.context)
        return text(await task)

    assert "was killed" in bench.runner.run(both())
    assert not bench.survivors()


def test_warming_up_starts_what_runs_commands_and_no_more(bench: Bench) -> None:
    bench.runner.run(warm(bench.context))
    supervisor = jobs_of(bench.context)._supervisor
    assert supervisor is not None
    assert supervisor.alive
    assert bench.say("echo hi") == "hi"
    assert jobs_of(bench.context)._supervisor is supervisor


def test_another_event_loop_gets_a_supervisor_of_its_own(bench: Bench) -> None:
    assert bench.say("echo one") == "one"

    async def in_another_loop() -> str:
        said = text(await bench.arun("echo two"))
        await close(bench.context)
        return said

    assert asyncio.run(in_another_loop()) == "two"


def test_a_loop_that_was_closed_with_a_command_under_way_hurts_nobody(tmp_path: Path) -> None:
    first = Bench(tmp_path.resolve())
    first.run("sleep 300", run_in_background=True)
    first.runner.close()
    first.runner = asyncio.Runner()
    assert first.say("echo next") == "next"
    first.close()
    assert not first.survivors()
    first.runner.close()


def test_time_limits_come_from_the_call_the_environment_and_the_maximum(bench: Bench) -> None:
    bench.context.environ = {
        **bench.context.environ,
        "BASH_DEFAULT_TIMEOUT_MS": "200",
        "BASH_MAX_TIMEOUT_MS": "400",
    }
    assert "timed out after 0.2 s" in bench.say("sleep 300")
    assert "timed out after 0.4 s" in bench.say("sleep 300", timeout=999_999)
    bench.context.environ = {**bench.context.environ, "BASH_DEFAULT_TIMEOUT_MS": "soon"}
    with pytest.raises(ToolError, match="BASH_DEFAULT_TIMEOUT_MS is 'soon'"):
        bench.run("true")


def test_where_commands_cannot_be_run_at_all_the_error_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path.resolve())
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ToolError, match="No such file or directory: '/no/such/python'"):
        bench.run("true")
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho broken by design >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(ToolError, match="broken by design"):
        bench.run("true")
    monkeypatch.undo()
    assert bench.say("echo mended") == "mended"
    bench.close()
    bench.runner.close()


def test_a_title_is_one_line() -> None:
    assert BASH.title(BASH.arguments(command="cd x\nmake\n")) == "cd x ⏎ make"
    assert BASH.title(BASH.arguments(job="b1", kill=True)) == "stop b1"


def test_no_command_is_an_error_that_says_what_to_give(bench: Bench) -> None:
    with pytest.raises(ToolError, match="There is no command"):
        bench.run("  \n")

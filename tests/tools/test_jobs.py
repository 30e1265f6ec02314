"""Commands in the background: started at once, seen, stopped, announced, and ended with the session."""

import asyncio
import sys
from pathlib import Path

import pytest

from tools.base import Access, ToolError
from tools.bash import TOOL, BashArguments, required_access
from tools.processes import runner
from tools.processes.runner import command_runner
from tools.sandbox.command_socket import CommandHandle
from transcripts.messages import ChannelBlock

from .bash_session import BashSession, text, wait_until


def test_a_background_command_is_started_and_the_call_returns(shell: BashSession) -> None:
    result = shell.run("echo up; sleep 300", run_in_background=True)
    assert not result.error
    assert text(result).startswith("Started in the background as job b1 (pid ")
    assert 'bash(job="b1")' in text(result)
    assert wait_until(shell.survivors)


def test_a_look_shows_only_what_is_new(shell: BashSession) -> None:
    shell.run("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; sleep 300", run_in_background=True)
    assert wait_until(lambda: shell.say(job="b1").startswith("one\n[job b1: running, "))
    assert shell.say(job="b1").startswith("[job b1: running, ")
    (shell.folder / "go").touch()
    assert wait_until(lambda: shell.say(job="b1").startswith("two\n[job b1: running, "))


def test_its_output_is_in_a_file_that_the_look_names(shell: BashSession) -> None:
    said = shell.say("seq 3; sleep 300", run_in_background=True)
    assert wait_until(lambda: "3 lines, 6 bytes" in shell.say(job="b1"))
    (file,) = (shell.folder / ".task_outputs").glob("*.txt")
    assert file.read_text() == "1\n2\n3\n"
    assert f".task_outputs/{file.name}" in said


def test_a_stop_ends_the_whole_tree_and_reports_the_last_output(shell: BashSession) -> None:
    command = "trap 'echo tidied; exit 0' TERM; setsid -f sleep 300; echo up; while :; do sleep 0.01; done"
    shell.run(command, run_in_background=True)
    assert wait_until(lambda: "up" in shell.say(job="b1"))
    said = shell.say(job="b1", kill=True)
    assert "tidied\n[job b1: stopped, exit code 0," in said
    assert not shell.survivors()
    assert shell.say(job="b1", kill=True).startswith("[job b1: stopped, exit code 0,")


def test_one_that_ends_is_announced_once_to_each(shell: BashSession) -> None:
    told: list[str] = []
    runner = command_runner(shell.context)
    runner.on_finish = told.append
    shell.run("echo out; exit 3", run_in_background=True)
    shell.wait_for("b1")
    (words,) = told
    output = "Output: .task_outputs/session-1.0.txt (4 bytes)."  # which the user sees with /tasks
    assert shell.context.inbox.take() == [ChannelBlock(f"[{words} {output}]")]
    assert words.startswith("Background command b1 (echo out; exit 3) finished, exit code 3, after 0.")
    assert runner.running == []


def test_one_whose_children_hold_its_output_ends_with_its_shell_and_only_once(
    shell: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "DRAIN_LIMIT_S", 0.0)
    told: list[str] = []
    command_runner(shell.context).on_finish = told.append
    shell.run("(while [ ! -e go ]; do sleep 0.01; done) & echo up; exit 3", run_in_background=True)
    shell.wait_for("b1")
    (shell.folder / "go").touch()

    async def closed() -> None:
        await shell.jobs["b1"].command.closed

    shell.runner.run(closed())
    (words,) = told
    assert " finished, exit code 3, after " in words


def test_one_that_was_asked_to_end_is_not_said_to_have_written_too_much(shell: BashSession) -> None:
    shell.limit(output_bytes=10)
    shell.run(
        "while [ ! -e go ]; do sleep 0.01; done; echo more than ten bytes; sleep 300", run_in_background=True
    )

    async def asked() -> None:
        job = shell.jobs["b1"]
        job.stopped = "asked"
        (shell.folder / "go").touch()
        while job.spool.total == 0:
            await asyncio.sleep(0.001)

    shell.runner.run(asked())
    assert shell.jobs["b1"].stopped == "asked"


def test_processes_that_a_command_left_behind_are_announced_in_a_sentence(shell: BashSession) -> None:
    shell.run("(until [ -e go ]; do sleep 0.01; done) & echo up")
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    words = shell.context.inbox.take()[0].text
    assert " ended, after " in words


def test_omitted_output_that_no_file_holds_is_reported_as_such(shell: BashSession) -> None:
    (shell.folder / ".task_outputs").write_text("in the way")
    shell.run("seq 20000", run_in_background=True)
    shell.wait_for("b1")
    announced = shell.context.inbox.take()[0].text
    assert "finished, exit code 0" in announced and "Its output is not stored: " in announced
    said = shell.say(job="b1")
    assert said.startswith("[older output is omitted]\n1\n2\n") and "; its output is not stored: " in said


def test_a_look_at_what_a_command_left_behind_shows_only_what_came_since(shell: BashSession) -> None:
    shell.run("(until [ -e go ]; do sleep 0.01; done; echo later) & echo up")
    assert shell.say(job="b1").startswith("[job b1: running, ")
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    assert shell.say(job="b1").startswith("later\n[job b1: ended")


def test_one_that_the_model_saw_end_is_not_announced_again(shell: BashSession) -> None:
    shell.run("exit 3", run_in_background=True)
    shell.wait_for("b1")
    result = shell.run(job="b1")
    assert result.error
    assert "[job b1: finished, exit code 3," in text(result)
    assert shell.context.inbox.take() == []


def test_one_that_was_stopped_on_request_is_not_announced(shell: BashSession) -> None:
    shell.run("sleep 300", run_in_background=True)
    shell.run(job="b1", kill=True)
    assert shell.context.inbox.take() == []


def test_all_that_it_wrote_is_there_when_it_is_announced(shell: BashSession) -> None:
    shell.run("seq 200000", run_in_background=True)
    shell.wait_for("b1")
    assert shell.jobs["b1"].spool.lines == 200_000
    said = shell.say(job="b1")
    assert "200000\n[job b1: finished" in said
    assert len(said) <= 30_000


def test_one_that_writes_too_much_is_ended(shell: BashSession) -> None:
    shell.limit(output_bytes=1_000_000)
    shell.run("yes", run_in_background=True)
    shell.wait_for("b1")
    words = shell.context.inbox.take()[0].text
    assert "stopped at its output limit" in words
    assert shell.jobs["b1"].spool.path.stat().st_size == 1_000_000
    assert wait_until(lambda: not shell.survivors())


def test_a_question_that_no_one_answers_is_pointed_out(shell: BashSession) -> None:
    shell.limit(quiet_s=0.05)
    shell.run("printf 'Password: '; sleep 300", run_in_background=True)
    assert wait_until(lambda: "seems to be waiting for input" in shell.say(job="b1"))


def test_the_directory_does_not_follow_a_background_command(shell: BashSession) -> None:
    shell.run("mkdir sub; cd sub", run_in_background=True)
    shell.wait_for("b1")
    assert shell.say("pwd") == str(shell.folder)


def test_an_unknown_job_is_an_error_that_names_those_there_are(shell: BashSession) -> None:
    with pytest.raises(ToolError, match="Jobs of this session: none"):
        shell.run(job="b7")
    shell.run("sleep 300", run_in_background=True)
    with pytest.raises(ToolError, match="Jobs of this session: b1"):
        shell.run(job="b7")
    with pytest.raises(ToolError, match="both given"):
        shell.run("ls", job="b1")


def test_a_command_with_a_job_that_does_not_exist_is_judged_and_run(shell: BashSession) -> None:
    assert shell.say("echo ran", job="b7") == "ran"
    both = BashArguments(command="make", job="b7")
    assert required_access(both, shell.context) == (Access("run", "make", cwd=str(shell.folder)),)
    with pytest.raises(ToolError, match="both given"):
        shell.run("ls", job="b7", kill=True)


def test_looking_at_a_job_needs_no_permission_and_starting_one_does(shell: BashSession) -> None:
    assert required_access(BashArguments(job="b1", kill=True), shell.context) == (Access("none"),)
    assert required_access(BashArguments(restart=True), shell.context) == (Access("none"),)
    started = BashArguments(command="make", run_in_background=True)
    assert required_access(started, shell.context) == (Access("run", "make", cwd=str(shell.folder)),)
    assert TOOL.title(started) == "make"


def test_closing_a_session_twice_or_before_its_first_command_is_fine(new_shell: BashSession) -> None:
    new_shell.close()
    new_shell.run("sleep 300", run_in_background=True)
    new_shell.close()
    assert not new_shell.survivors()
    new_shell.close()
    assert new_shell.say("echo again") == "again"


def test_one_that_the_session_ended_is_not_said_to_have_an_exit_code(new_shell: BashSession) -> None:
    told: list[str] = []
    new_shell.say("echo up; sleep 300", run_in_background=True)
    command_runner(new_shell.context).on_finish = told.append
    assert wait_until(lambda: "up" in new_shell.say(job="b1"))
    new_shell.close()
    (line,) = told
    assert line.startswith("Background command b1 (echo up; sleep 300) ended with the session, after ")
    assert line.endswith(" s.")
    assert "[job b1: ended with the session, " in new_shell.say(job="b1")


def test_one_whose_supervisor_was_killed_is_said_to_have_been_killed_with_it(tmp_path: Path) -> None:
    shell = BashSession(tmp_path.resolve(), "subreaper")
    if shell.how() != "subreaper":
        pytest.skip("this system gives no subreaper")
    shell.run("while [ ! -e go ]; do sleep 0.01; done; kill -9 $PPID; exec sleep 300", run_in_background=True)
    (shell.folder / "go").touch()
    shell.wait_for("b1")
    words = shell.context.inbox.take()[0].text
    assert " killed together with the supervisor process, after " in words
    assert wait_until(lambda: not shell.survivors())
    shell.close()
    shell.runner.close()


def test_one_that_cannot_be_ended_alone_takes_the_others_along_which_is_said(
    new_shell: BashSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The request never arrives: the supervisor could answer even before a limit of 0 s is over.
    monkeypatch.setattr(CommandHandle, "end", lambda command: None)
    monkeypatch.setattr(runner, "_END_LIMIT_S", 0.0)
    for _ in range(2):
        new_shell.run("sleep 300", run_in_background=True)
    assert new_shell.say(job="b1", kill=True).startswith("[job b1: stopped, ")
    assert (
        new_shell.jobs["b2"].state
        == "killed with all other commands, since one of them could not be ended separately"
    )


def test_closing_while_the_supervisor_is_being_started_ends_that_too(new_shell: BashSession) -> None:
    async def both() -> bool:
        started = asyncio.ensure_future(command_runner(new_shell.context).supervisor())
        await asyncio.sleep(0)
        await command_runner(new_shell.context).close()
        return (await started).alive

    assert not new_shell.runner.run(both())


def test_closing_while_a_command_runs_ends_that_too(new_shell: BashSession) -> None:
    async def both() -> str:
        task = asyncio.ensure_future(new_shell.arun("touch on; sleep 300"))
        while not (new_shell.folder / "on").exists():
            await asyncio.sleep(0.005)
        await command_runner(new_shell.context).close()
        return text(await task)

    assert "was killed" in new_shell.runner.run(both())
    assert not new_shell.survivors()


def test_warming_up_starts_what_runs_commands_and_no_more(new_shell: BashSession) -> None:
    new_shell.runner.run(command_runner(new_shell.context).supervisor())
    supervisor = command_runner(new_shell.context)._supervisor
    assert supervisor is not None
    assert supervisor.alive
    assert new_shell.say("echo hi") == "hi"
    assert command_runner(new_shell.context)._supervisor is supervisor


def test_another_event_loop_gets_a_supervisor_of_its_own(new_shell: BashSession) -> None:
    assert new_shell.say("echo one") == "one"

    async def in_another_loop() -> str:
        said = text(await new_shell.arun("echo two"))
        await command_runner(new_shell.context).close()
        return said

    assert asyncio.run(in_another_loop()) == "two"


def test_a_loop_that_was_closed_with_a_command_under_way_does_no_harm(tmp_path: Path) -> None:
    first = BashSession(tmp_path.resolve())
    first.run("sleep 300", run_in_background=True)
    first.runner.close()
    first.runner = asyncio.Runner()
    assert first.say("echo next") == "next"
    first.close()
    assert not first.survivors()
    first.runner.close()


def test_time_limits_come_from_the_call_the_environment_and_the_maximum(shell: BashSession) -> None:
    shell.context.environ = {
        **shell.context.environ,
        "BASH_DEFAULT_TIMEOUT_MS": "200",
        "BASH_MAX_TIMEOUT_MS": "400",
    }
    assert "timed out after 0.2 s" in shell.say("sleep 300")
    assert "timed out after 0.4 s" in shell.say("sleep 300", timeout=999_999)
    shell.context.environ = {**shell.context.environ, "BASH_DEFAULT_TIMEOUT_MS": "soon"}
    with pytest.raises(ToolError, match="BASH_DEFAULT_TIMEOUT_MS is 'soon'"):
        shell.run("true")


def test_where_commands_cannot_be_run_at_all_the_error_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = BashSession(tmp_path.resolve())
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(ToolError, match="No such file or directory: '/no/such/python'"):
        shell.run("true")
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho broken by design >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(ToolError, match="broken by design"):
        shell.run("true")
    monkeypatch.undo()
    assert shell.say("echo mended") == "mended"
    shell.close()
    shell.runner.close()


def test_a_title_is_one_line() -> None:
    assert TOOL.title(BashArguments(command="cd x\nmake\n")) == "cd x ⏎ make"
    assert TOOL.title(BashArguments(job="b1", kill=True)) == "stop b1"


def test_no_command_is_an_error_that_says_what_to_give(shell: BashSession) -> None:
    with pytest.raises(ToolError, match="The command is missing"):
        shell.run("  \n")

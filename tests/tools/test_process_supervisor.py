"""Nothing that a command starts outlives its call or its session, however it hides, and it harms no other."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.forked import start_forked
from tests.open_files import open_files
from tests.sampling import sampled
from tests.tables import each_row
from tools.base import ToolResult
from tools.processes.runner import command_runner
from tools.sandbox import SandboxProfile, SupervisorLost
from tools.sandbox.supervisor import process_table

from . import bash_process
from .bash_session import GUARD_S, MODES, BashSession, survivors, text, wait_until

BASH_PROCESS = bash_process.__file__
OUR_NAMESPACE = str(Path("/proc/self/ns/pid").readlink()) if Path("/proc/self/ns/pid").exists() else ""
# Nothing that signals all processes or forks for ever may run where the tests themselves live.
ONLY_ENCLOSED = f'[ "$(readlink /proc/self/ns/pid)" != "{OUR_NAMESPACE}" ] || exit 99; '


@pytest.fixture(params=MODES)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BashSession]:
    shell = BashSession(tmp_path.resolve(), request.param)
    try:
        if shell.how() != request.param:
            pytest.skip(f"this system gives no {request.param}")
        yield shell
    finally:
        shell.close()
        assert not shell.survivors()
        shell.runner.close()


@pytest.fixture
def enclosed(tmp_path: Path) -> Iterator[BashSession]:
    shell = BashSession(tmp_path.resolve())
    try:
        if shell.how() != "namespace":
            pytest.skip("this system gives no namespace")
        yield shell
    finally:
        shell.close()
        assert not shell.survivors()
        shell.runner.close()


def drive(
    folder: Path,
    mode: str,
    timeout: int,
    command: str,
    environ: dict[str, str] | None = None,
    **streams: Any,
) -> "subprocess.Popen[str]":
    """An agent in a process of its own; returns once it is ready."""
    program = partial(bash_process.run, [str(folder), mode, str(timeout), command])
    agent = start_forked(program, folder, environ or dict(os.environ), stdout=subprocess.PIPE, **streams)
    assert agent.stdout is not None
    ready = json.loads(agent.stdout.readline())
    if ready["ready"] != mode:
        agent.kill()
        agent.communicate()
        pytest.skip(f"this system gives no {mode}")
    return agent


@pytest.mark.parametrize("argument", ["a\0b", "a\ud83d"])
def test_a_program_with_an_impossible_argument_fails_alone(shell: BashSession, argument: str) -> None:
    async def start() -> None:
        supervisor = await command_runner(shell.context).supervisor()
        command = supervisor.run(print, path="/bin/echo", argv=["echo", argument], env={}, cwd="/")
        assert str(await command.pid) == "[Errno 22] Invalid argument"

    shell.run("sleep 300", run_in_background=True)
    shell.runner.run(start())
    assert shell.say(job="b1").startswith("[job b1: running, ")


HIDING = [
    "sleep 300 & sleep 300",
    "setsid sleep 300",
    "nohup sleep 300 >/dev/null 2>&1",
    "(setsid bash -c 'sleep 300 & sleep 300' &) ; sleep 300",
    "trap '' TERM; sleep 300; sleep 300; sleep 300",
    "bash -c 'trap \"\" TERM HUP INT; setsid -f sleep 300; while :; do sleep 1; done'",
]


def test_a_timeout_ends_the_whole_tree_and_returns_what_came(shell: BashSession) -> None:
    """The limit is longer each time that a busy machine let it pass before all of them began."""

    async def all_at_once(timeout: int) -> list[ToolResult]:
        return await asyncio.gather(
            *(shell.arun(f"echo so far; {command}", timeout=timeout) for command in HIDING)
        )

    results: list[ToolResult] = []
    for timeout in (500, 2_000, 8_000, 32_000):
        results = shell.runner.run(all_at_once(timeout))
        assert all(f"[timed out after {timeout / 1000:g} s;" in text(result) for result in results)
        if all(text(result).startswith("so far\n") for result in results):
            break
    for command, result in zip(HIDING, results, strict=True):
        assert result.error, command
        assert text(result).startswith("so far\n[timed out after "), command
    assert not shell.survivors()


def test_an_interrupt_ends_the_tree_and_the_next_command_runs(shell: BashSession) -> None:
    async def interrupted() -> None:
        task = asyncio.ensure_future(
            shell.arun("trap '' TERM; touch on; setsid -f sleep 300; sleep 300; sleep 300")
        )
        while not (shell.folder / "on").exists():
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    shell.runner.run(interrupted())
    assert wait_until(lambda: not shell.survivors())
    assert shell.say("echo next") == "next"


def test_an_interrupt_while_a_command_is_being_started_leaves_nothing(shell: BashSession) -> None:
    async def interrupted(delay: int) -> None:
        task = asyncio.ensure_future(shell.arun("sleep 300"))
        for _ in range(delay):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    for delay in range(12):
        shell.runner.run(interrupted(delay))
    assert shell.say("echo next") == "next"
    assert wait_until(lambda: not shell.survivors())


def test_an_interrupt_before_the_first_command_could_start_leaves_nothing(tmp_path: Path) -> None:
    shell = BashSession(tmp_path.resolve())

    async def interrupted() -> None:
        task = asyncio.ensure_future(shell.arun("sleep 300"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    shell.runner.run(interrupted())
    shell.close()
    assert not shell.survivors()
    shell.runner.close()


@pytest.mark.skipif(process_table.children() is None, reason="the system does not list children")
@each_row("waits", [False, True])
def test_a_supervisor_that_gets_no_profile_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """Its process starts while the profile is made."""
    (private := tmp_path / "private").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(private))
    session = BashSession(tmp_path)
    runner = command_runner(session.context)
    others = process_table.children()

    async def profile() -> SandboxProfile:
        if waits:
            named = {getattr(each.get_coro(), "__name__", ""): each for each in asyncio.all_tasks()}
            await asyncio.wait({named["begin_supervisor"]})
        raise SupervisorLost("the disk does not respond")

    runner.first_profile = profile
    with session.runner, pytest.raises(SupervisorLost, match="disk"):
        session.runner.run(runner.supervisor())
    assert process_table.children() == others and not [*private.iterdir()]


@pytest.mark.parametrize(
    "command", sampled(["sleep 300 &", "(sleep 300 &)", "nohup sleep 300 &", "setsid -f sleep 300"], 3)
)
def test_a_child_in_the_background_is_named_and_not_waited_for(shell: BashSession, command: str) -> None:
    said = shell.say(f"{command} echo hi" if command.endswith("&") else f"{command}; echo hi")
    assert said.startswith("hi\n[still running in the background as job b1: pid ")
    assert "(sleep 300)" in said
    assert shell.survivors() == ["sleep 300 "]
    shell.run(job="b1", kill=True)
    assert not shell.survivors()


def test_the_name_that_a_process_gives_itself_is_escaped(shell: BashSession) -> None:
    said = shell.say(r"(exec -a $'a\x1b[31m\u202e' sleep 300 &); echo hi")
    assert "\x1b" not in said and "\u202e" not in said and "(a" in said
    shell.run(job="b1", kill=True)


def test_a_server_in_the_background_can_continue_writing_and_be_seen(shell: BashSession) -> None:
    shell.run("(while [ ! -e go ]; do sleep 0.01; done; echo served; sleep 300) & echo up")
    (shell.folder / "go").touch()
    assert wait_until(lambda: "served" in shell.say(job="b1"))


def test_processes_that_end_with_their_shell_are_not_called_left(shell: BashSession) -> None:
    assert shell.say("echo hi > >(cat; cat /dev/null)") == "hi"


DETACHED = [
    "setsid -f sleep 300",
    "nohup setsid sleep 300 >/dev/null 2>&1 &",
    "(setsid bash -c '(sleep 300 &) ; exec sleep 300' >/dev/null 2>&1 &)",
    "env -i PATH=$PATH TEST_MARK=$TEST_MARK setsid -f bash -c 'sleep 300 & disown; exec sleep 300'",
]


@pytest.mark.parametrize("mode", MODES)
def test_setsid_nohup_and_double_forks_die_with_the_session(tmp_path: Path, mode: str) -> None:
    shell = BashSession(tmp_path.resolve(), mode)
    if shell.how() == mode:
        for command in DETACHED:
            before = len(shell.survivors())
            shell.run(command)
            assert len(shell.survivors()) > before, command
    shell.close()
    assert not shell.survivors()
    shell.runner.close()


def test_what_an_ended_command_detached_does_not_take_its_neighbour_along(shell: BashSession) -> None:
    """An orphan without its mark and in a session of its own still belongs to the command it came from."""

    async def both() -> tuple[str, str]:
        keep = asyncio.ensure_future(shell.arun("while [ ! -e stop ]; do sleep 0.01; done; echo whole"))
        ended = await shell.arun("setsid -f sleep 300; sleep 300", timeout=300)
        (shell.folder / "stop").touch()
        return text(await keep), text(ended)

    kept, ended = shell.runner.run(both())
    assert kept == "whole"
    assert "timed out" in ended
    assert not shell.survivors()


def count(shell: BashSession, number: int) -> None:
    before = open_files()
    for turn in range(number):
        shell.run(["true", "ls", "seq 5 | sort | head -2", "(sleep 0 &)", "exit 3"][turn % 5])
    assert open_files() <= before  # the garbage of other tests may hold some that are closed meanwhile
    assert wait_until(lambda: zombies() == 0)
    if shell.mode == "namespace":
        assert "defunct" not in shell.say("ps ax")  # all that there is to see, and not the machine's


def zombies() -> int:
    """Dead children of ours, and of the supervisors below us, that no one collected."""
    found = subprocess.run(
        ["ps", "-eo", "ppid=,stat=,pid="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in found.splitlines()]
    ours = {str(os.getpid())}
    for _ in range(3):
        ours |= {pid for parent, _, pid in rows if parent in ours}
    return sum(1 for parent, state, _ in rows if parent in ours and state.startswith("Z"))


def test_ten_commands_leave_no_zombie_and_no_descriptor(shell: BashSession) -> None:
    count(shell, 10)


@pytest.mark.sweep
def test_a_thousand_commands_leave_no_zombie_and_no_descriptor(shell: BashSession) -> None:
    count(shell, 1000)


def test_a_command_inherits_no_descriptor_of_ours(shell: BashSession) -> None:
    secret = os.open(shell.folder, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        assert shell.say("ls /proc/$$/fd").split() == ["0", "1", "2"]
    finally:
        os.close(secret)


@pytest.mark.sweep
def test_a_fork_bomb_is_bounded_and_ended_and_the_agent_answers(enclosed: BashSession) -> None:
    bomb = ONLY_ENCLOSED + ":(){ :|:& };:; sleep 300"
    result = enclosed.run(bomb, timeout=1500)
    assert "timed out" in text(result)
    assert not enclosed.survivors()
    assert enclosed.say("echo alive") == "alive"


def test_the_number_of_processes_is_bounded(enclosed: BashSession) -> None:
    limits = enclosed.say(ONLY_ENCLOSED + "ulimit -u; cat /proc/sys/kernel/pid_max").split()
    assert min(int(limit) for limit in limits) <= 4096


def test_when_memory_runs_out_the_command_dies_and_the_agent_lives(tmp_path: Path) -> None:
    """Agent and command in one memory cgroup of 200 MB; the command takes all there is."""
    group = Path("/sys/fs/cgroup/memory") / f"makeroom-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(200 * 1024 * 1024))
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    bomb = "python3 -c 'b = []\nwhile True: b.append(bytearray(10**7))'; echo status $?"
    enter = f'echo $$ >{group}/cgroup.procs; exec "$@"'
    argv = [
        "bash",
        "-c",
        enter,
        "-",
        sys.executable,
        BASH_PROCESS,
        str(tmp_path),
        "namespace",
        "20000",
        bomb,
        "echo ok",
    ]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=GUARD_S, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert "status 137" in lines[1]["text"]
        assert lines[2]["text"] == "ok"
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


def test_the_kernel_would_take_a_command_before_the_agent(shell: BashSession) -> None:
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    assert int(shell.say("cat /proc/self/oom_score_adj")) > ours


@pytest.mark.parametrize(
    "command",
    [
        "kill -9 -1",
        "kill 0",
        "kill -9 $PPID",
        "pkill -9 -f python",
        "kill -9 1",
        "kill -STOP 1",
        "kill -INT 1",
    ],
)
def test_a_command_cannot_kill_the_agent_nor_what_watches_it(enclosed: BashSession, command: str) -> None:
    supervisor = command_runner(enclosed.context)._supervisor
    enclosed.run(ONLY_ENCLOSED + command, timeout=3000)
    assert enclosed.say("echo alive") == "alive"
    assert command_runner(enclosed.context)._supervisor is supervisor


def test_without_a_namespace_a_killed_supervisor_is_replaced(tmp_path: Path) -> None:
    shell = BashSession(tmp_path.resolve(), "subreaper")
    if shell.how() != "subreaper":
        pytest.skip("no subreaper on this system")
    result = shell.run("kill -9 $PPID; exec sleep 300")
    assert "was killed" in text(result)
    assert result.error
    assert shell.say("echo alive") == "alive"
    assert wait_until(lambda: not any("sleep" in line for line in shell.survivors()))
    shell.close()
    shell.runner.close()


def test_closing_its_own_output_does_not_end_a_command(shell: BashSession) -> None:
    assert shell.say("exec 1>&- 2>&-; touch done; exit 4") == "[exit code 4]"
    assert (shell.folder / "done").exists()


def test_a_stopped_command_is_ended_too(shell: BashSession) -> None:
    result = shell.run("sleep 300 & kill -STOP $!; kill -STOP $$; sleep 300", timeout=300)
    assert "timed out" in text(result)
    assert not shell.survivors()


@pytest.mark.parametrize("mode", [*MODES, "walled"])
def test_when_the_agent_is_killed_everything_goes_with_it(tmp_path: Path, mode: str) -> None:
    """All that the command starts holds a pipe open, whose end is waited for: /proc need not be polled.

    One agent for each signal; all of them end at the same time.
    """
    hiding = "exec 9>held; trap '' TERM HUP; setsid -f sleep 300; echo on >&9; sleep 300; sleep 300"
    with ExitStack() as stack:
        agents = []
        for sign in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, signal.SIGINT):
            folder, mark = tmp_path.resolve() / sign.name, f"mark-{uuid.uuid4().hex}"
            folder.mkdir()
            os.mkfifo(folder / "held")
            environ = {**os.environ, "TEST_MARK": mark}
            agent = drive(folder, mode, 60_000, hiding, environ=environ, stderr=subprocess.DEVNULL)
            held = stack.enter_context((folder / "held").open("rb", buffering=0))
            assert held.read(3) == b"on\n"
            assert survivors(mark)
            agents.append((sign, agent, held, mark))
        for sign, agent, _, _ in agents:
            agent.send_signal(sign)
        for sign, agent, held, mark in agents:
            agent.communicate()
            assert held.read(1) == b"", sign
            assert not survivors(mark), sign


def test_an_agent_that_was_stopped_finds_its_command_done_when_it_continues(tmp_path: Path) -> None:
    command = "touch on; while [ ! -e go ]; do sleep 0.01; done; echo went"
    agent = drive(tmp_path.resolve(), "namespace", 20_000, command)
    assert wait_until((tmp_path / "on").exists)
    agent.send_signal(signal.SIGWINCH)
    agent.send_signal(signal.SIGSTOP)
    (tmp_path / "go").touch()
    agent.send_signal(signal.SIGCONT)
    out, _ = agent.communicate(timeout=GUARD_S)
    assert json.loads(out)["text"] == "went"


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_jumps_changes_no_time_limit(
    shell: BashSession, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """The sandbox's clock as this process sees it: the machine's own cannot be turned in a test."""
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + jump)

    async def both() -> list[str]:
        calls = (shell.arun("sleep 0.3; echo whole", timeout=20_000), shell.arun("sleep 300", timeout=200))
        return [text(result) for result in await asyncio.gather(*calls)]

    whole, late = shell.runner.run(both())
    assert whole == "whole"
    assert "timed out after 0.2 s" in late


def test_of_three_at_once_one_may_time_out(shell: BashSession) -> None:
    async def three() -> list[str]:
        calls = (
            shell.arun("while [ ! -e late ]; do sleep 0.01; done; echo first"),
            shell.arun("sleep 300", timeout=300),
            shell.arun("echo third; sleep 0.4; touch late"),
        )
        return [text(result) for result in await asyncio.gather(*calls)]

    first, second, third = shell.runner.run(three())
    assert (first, third) == ("first", "third")
    assert "timed out" in second


def test_the_supervisor_gets_what_its_interpreter_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interpreter that finds its libraries by LD_LIBRARY_PATH, and its modules by PYTHONHOME."""
    wrapper = tmp_path / "python"
    wrapper.write_text(
        '#!/bin/sh\n[ "$LD_LIBRARY_PATH$PYTHONHOME" = /libraries/modules ] || exit 1\n'
        'for word; do case "$word" in -I|-E) exit 1;; -c) break;; esac; done\n'
        f'unset LD_LIBRARY_PATH PYTHONHOME\nexec {sys.executable} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("LD_LIBRARY_PATH", "/libraries")
    monkeypatch.setenv("PYTHONHOME", "/modules")
    monkeypatch.setattr(sys, "executable", str(wrapper))
    shell = BashSession((tmp_path / "project").resolve())
    shell.folder.mkdir()
    assert shell.say("echo well") == "well"
    shell.close()
    shell.runner.close()


def test_the_supervisor_starts_without_modules_that_are_only_for_the_type_checker() -> None:
    """`typing` would take a sixth of the time for which the first command waits."""
    code = "import sys; sys.path.append('.'); import supervisor.serve; sys.exit('typing' in sys.modules)"
    folder = Path(__file__).parents[2] / "tools" / "sandbox"
    argv = [sys.executable, "-P", "-s", "-S", "-c", code]
    assert subprocess.run(argv, cwd=folder, timeout=GUARD_S).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="relays are forked on Linux")
def test_a_port_can_be_connected_to_as_soon_as_its_relay_is_started() -> None:
    """Otherwise a command that starts at once is refused, although the user has allowed the port."""
    code = """if True:
        import os, signal, socket
        from supervisor.relay import open_listener
        from supervisor.sandboxed_spawner import fork_relay
        free = open_listener()
        port = free.getsockname()[1]
        free.close()
        os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGSTOP))
        relay = fork_relay(open_listener(), "/nowhere", [f"/nowhere/{port}"])
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        finally:
            os.kill(relay, signal.SIGKILL)
    """
    folder = Path(__file__).parents[2] / "tools" / "sandbox"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=folder)

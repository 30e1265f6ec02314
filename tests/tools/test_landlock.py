"""The sandbox of Landlock and its filter keeps commands in the project, as root and as an ordinary user."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tables import each_row
from tools.base import ToolCall
from tools.bash import BashArguments, run_bash
from tools.processes.jobs import exit_status
from tools.processes.own_command import run_own_command
from tools.processes.runner import DRAIN_LIMIT_S, command_runner
from tools.sandbox.supervisor.landlock import LEAST_ABI, confine, landlock_abi, readable_places
from tools.sandbox.supervisor.shared_calls import shared_calls_program

from .bash_session import GUARD_S, BashSession, text, wait_until
from .profile_messages import NAMES_NOTHING
from .sandbox_session import sandboxed_session

ABI = landlock_abi() if sys.platform == "linux" else 0
NOBODY = 65534
pytestmark = pytest.mark.skipif(ABI < LEAST_ABI, reason=f"Landlock {LEAST_ABI} is needed, here it is {ABI}")

# What must not work: an expression of Python, tried by a confined process, and what it gives instead.
ESCAPES = {
    "write outside": ("open(outside / 'kept', 'w')", "EACCES"),
    "append outside": ("open(outside / 'kept', 'a')", "EACCES"),
    "truncate outside": ("os.truncate(outside / 'kept', 0)", "EACCES"),
    "create outside": ("open(outside / 'new', 'x')", "EACCES"),
    "remove outside": ("os.unlink(outside / 'kept')", "EACCES"),
    "make a folder outside": ("os.mkdir(outside / 'new')", "EACCES"),
    "make a link outside": ("os.symlink('x', outside / 'new')", "EACCES"),
    "make a pipe outside": ("os.mkfifo(outside / 'new')", "EACCES"),
    "make a socket outside": ("socket.socket(socket.AF_UNIX).bind(str(outside / 'new'))", "EACCES"),
    "rename outside": ("os.rename(outside / 'kept', outside / 'moved')", "EACCES"),
    "move into the project": ("os.rename(outside / 'kept', project / 'kept')", "EXDEV|EACCES"),
    "move out of the project": ("os.rename(project / 'file', outside / 'file')", "EXDEV|EACCES"),
    "exchange with outside": ("os.replace(project / 'file', outside / 'kept')", "EXDEV|EACCES"),
    "hard link into the project": ("os.link(outside / 'kept', project / 'kept')", "EXDEV|EPERM"),
    "hard link of a secret": ("os.link(home / '.ssh/id', project / 'id')", "EXDEV|EPERM"),
    "rename the project": ("os.rename(project, project.parent / 'moved')", "EACCES|EXDEV"),
    "write through a link": ("open(project / 'leads-out', 'w')", "EACCES"),
    "write by the descriptor of a folder": (
        "os.open('kept', os.O_WRONLY, dir_fd=os.open(outside, os.O_RDONLY))",
        "EACCES",
    ),
    "unnamed file, linked outside": (
        "os.link(f'/proc/self/fd/{os.open(project, os.O_TMPFILE | os.O_RDWR)}', outside / 'new')",
        "EXDEV|EACCES|ENOENT|EPERM",
    ),
    "write /tmp": ("open('/tmp/makeroom-escape', 'x')", "EACCES"),
    "write the private folder of the session": ("open(private / 'prelude', 'w')", "EACCES"),
    "read a secret": ("open(home / '.ssh/id').read()", "EACCES"),
    "read a secret by a link": ("open(project / 'leads-to-secret').read()", "EACCES"),
    "read a secret by another name of its folder": (
        "open(f'/proc/self/root{home}/.ssh/id').read()",
        "EACCES",
    ),
    "run a secret": ("sh(f'{home}/.ssh/id')", r"(?s).*\[126\]\Z"),
    "read a hidden file": ("open('/etc/shadow').read()", "EACCES"),
    "copy the secrets": ("sh(f'tar c {home} | grep -c KEY')", r"(?s).*\[1\]\Z"),
    "search the secrets": ("sh(f'grep -r KEY {home}')", r"(?s)(?!.*id:KEY).*\[2\]\Z"),
    "read a terminal": ("os.open('/dev/ptmx', os.O_RDWR)", "EACCES"),
    "read a terminal of the person": ("os.open('/dev/pts/0', os.O_RDONLY)", "EACCES|ENOENT"),
    "read a disk": ("[open(each, 'rb') for each in Path('/dev').glob('[vsxn][dv][a-z]*')]", r"\[\]|EACCES"),
    "read the memory": ("os.open('/dev/mem', os.O_RDONLY)", "EACCES|ENOENT"),
    "make a device": ("os.mknod(project / 'disk', 0o60666, os.makedev(8, 0))", "EACCES|EPERM"),
    "connect by TCP": ("socket.socket().connect(('127.0.0.1', tcp_port))", "ENETUNREACH"),
    "connect by TCP version 6": ("socket.socket(socket.AF_INET6).connect(('::1', tcp_port))", "ENETUNREACH"),
    "connect by multipath TCP": (
        "socket.socket(socket.AF_INET, 1, 262).connect(('127.0.0.1', tcp_port))",
        "ENETUNREACH",
    ),
    "send with the first packet": (
        "socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', tcp_port))",
        "ENETUNREACH",
    ),
    "listen": ("socket.create_server(('127.0.0.1', 0))", "ENETUNREACH"),
    "send by UDP": (
        "socket.socket(2, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', udp_port))",
        "ENETUNREACH",
    ),
    "send by ICMP": ("socket.socket(2, socket.SOCK_DGRAM, 1)", "ENETUNREACH"),
    "send raw packets": ("socket.socket(2, socket.SOCK_RAW, 255)", "ENETUNREACH"),
    "open a packet socket": ("socket.socket(17, socket.SOCK_RAW)", "E.*"),
    "open a socket to the host": ("socket.socket(40, 1)", "E.*"),
    "open a crypto socket": ("socket.socket(38, socket.SOCK_SEQPACKET)", "E.*"),
    "resolve a name": ("sh('getent hosts example.com')", r".*\[2\]\Z"),
    "connect to a socket file": ("socket.socket(socket.AF_UNIX).connect(stream)", "EACCES"),
    "connect to an abstract socket": ("socket.socket(socket.AF_UNIX).connect(abstract)", "EACCES|EPERM"),
    "send to a socket file": ("socket.socket(1, socket.SOCK_DGRAM).sendto(b'x', datagram)", "EACCES"),
    "send to a socket file by an old name": (
        "socket.socket(1, socket.SOCK_RAW).sendto(b'x', datagram)",
        "EACCES",
    ),
    "send from one of a pair": (
        "socket.socketpair(1, socket.SOCK_DGRAM)[0].sendmsg([b'x'], [], 0, datagram)",
        "EACCES",
    ),
    "signal the agent": ("os.kill(agent, 0)", "EPERM" if ABI >= 6 else "None|EPERM"),
    "signal everybody": ("os.kill(-1, 9)", "EPERM"),
    "limit the agent": ("resource.prlimit(agent, resource.RLIMIT_CPU, (1, 1))", "EPERM"),
    "see the agent's environment": ("open(f'/proc/{agent}/environ').read()", "EACCES"),
    "see the agent's files": ("os.readlink(f'/proc/{agent}/fd/0')", "EACCES"),
    "go through the agent's root": ("open(f'/proc/{agent}/root{outside}/new', 'w')", "EACCES"),
    "trace the agent": ("call('ptrace', 16, agent, 0, 0)", "EPERM"),
    "read the agent's memory": ("open(f'/proc/{agent}/mem', 'rb').read(1)", "EACCES"),
    "take a descriptor of the agent": ("call('syscall', 438, os.pidfd_open(agent), 0, 0)", "EPERM"),
    "set the program for core files": ("open('/proc/sys/kernel/core_pattern', 'w')", "EACCES"),
    "press the panic key": ("open('/proc/sysrq-trigger', 'w')", "EACCES|ENOENT"),
    "release a control group": ("sh('echo x > /sys/fs/cgroup/release_agent')", r"(?s).*\[1\]\Z"),
    "mount": ("call('mount', b'tmpfs', bytes(project), b'tmpfs', 0, None)", "EPERM"),
    "unmount": ("call('umount2', b'/proc', 2)", "EPERM"),
    "new user namespace": ("call('unshare', 0x10000000)", "EPERM"),
    "new mount namespace": ("call('unshare', 0x20000)", "EPERM"),
    "enter a namespace": ("call('setns', os.open('/proc/self/ns/mnt', os.O_RDONLY), 0)", "EPERM"),
    "clone into a namespace": ("call('syscall', 435, (ctypes.c_ulong * 11)(0x10000000), 88)", "ENOSYS"),
    "change the root": ("os.chroot(project)", "EPERM"),
    "open by handle": ("call('open_by_handle_at', 3, b'\\0' * 32, 0)", "EPERM"),
    "io_uring": ("call('syscall', 425, 1, b'\\0' * 120)", "EPERM"),
    "open the root with io_uring": ("call('syscall', 427, 3, 0, None, 0)", "EPERM"),
    "shared memory of System V": ("call('shmget', 0, 4096, 0o1600)", "EPERM"),
    "message queue of System V": ("call('msgget', 0, 0o1600)", "EPERM"),
    "message queue": ("call('mq_open', b'/makeroom', 0o102, 0o600, None)", "EPERM"),
    "numbers of another architecture": (
        "ctypes.CFUNCTYPE(ctypes.c_int)"
        if os.uname().machine != "x86_64"
        else "call('syscall', 0x40000000 + 20, 1, None, 0)",
        "<class.*" if os.uname().machine != "x86_64" else "killed",
    ),
    "gain rights by a program": (
        "sh('sudo -n id -u || su -c id || pkexec id')",
        r"(?s)(?!0\n).*\[[1-9]\d*\]\Z",
    ),
    "gain capabilities": ("sh('grep CapEff: /proc/self/status')", r"CapEff:\s0{14}[02]0?.*(?s:.*)"),
    "become another user": ("os.setuid(12345)", "EPERM"),
    "give a file away": ("os.chown(project / 'file', 12345, -1)", "EPERM"),
    "crontab": ("sh('echo \"* * * * * id\" | crontab -')", r"(?s).*\[[1-9]\d*\]\Z"),
    "a service of systemd": (
        "sh('systemd-run --user id || systemctl --user start x')",
        r"(?s).*\[[1-9]\d*\]\Z",
    ),
    "type into a terminal": ("fcntl.ioctl(0, 0x5412, b'x')", "EPERM"),
    "widen the wall": (
        "(landlock.confine({**profile, 'folder': str(outside)}), open(outside / 'new', 'w'))",
        "EACCES",
    ),
}
# What must work in the project: the same.
WORK = {
    "a new file at the top": (
        "(project / 'new').write_text('x'), (project / 'new').read_text()",
        r"\(1, 'x'\)",
    ),
    "a new folder": (
        "sh('mkdir -p a/b && echo x > a/b/c && cat a/b/c && mv a/b/c d && rm -r a d')",
        r"x\n\[0\]",
    ),
    "change a file in place": ("sh('echo y >> file && sed -i s/y/z/ file && cat file')", r"z\n\[0\]"),
    "links and pipes": ("sh('ln -s file s && ln file h && mkfifo p && rm s h p')", r"\[0\]"),
    "run what was built": ("sh('printf \"#!/bin/sh\\necho ran\" > run; chmod +x run; ./run')", r"ran\n\[0\]"),
    "temporary files": ("sh('t=$(mktemp) && echo x > $t && cat $t')", r"x\n\[0\]"),
    "read the system": ("sh('head -c1 /etc/passwd && ls / /usr /etc /proc/self >/dev/null')", r".\[0\]"),
    "read a neighbour of secrets": ("(home / 'notes').read_text()", "notes"),
    "list the home folder": ("sorted(os.listdir(home))", r"\['.ssh', 'notes'\]"),
    "read what is outside": ("(outside / 'kept').read_text()", "kept"),
    "the usual devices": (
        "sh('head -c2 /dev/urandom /dev/zero > /dev/null && echo x > /dev/null')",
        r"\[0\]",
    ),
    "process substitution": ("sh('cat <(echo x)')", r"x\n\[0\]"),
    "its own processes": ("sh('sleep 9 & kill $! && wait; ps -p $$ >/dev/null')", r"\[0\]"),
    "a pair of sockets": ("[each.close() for each in socket.socketpair()]", r"\[None, None\]"),
    "a pair of sockets for whole messages": (
        "[each.close() for each in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)]",
        r"\[None, None\]",
    ),
    "serve a socket file": ("socket.socket(socket.AF_UNIX).bind('socket')", "None"),
    "shared memory": ("os.unlink(sh('mktemp /dev/shm/makeroom-XXXX').split()[0])", "None"),
    "semaphores": ("multiprocessing.Semaphore().acquire()", "True"),
    "threads": ("[t := threading.Thread(target=int), t.start(), t.join()][1:]", r"\[None, None\]"),
    "its own limits": ("resource.setrlimit(resource.RLIMIT_CORE, (0, 0))", "None"),
    "git": (
        "sh('git init -q r && cd r && git -c user.name=a -c user.email=b commit -qm x --allow-empty"
        " && git log --format=%s')",
        r"x\n\[0\]",
    ),
    "make": ("sh('printf \"all:\\n\\t@echo built\" > Makefile && make -s')", r"built\n\[0\]"),
    "an out-of-memory score that spares the agent": ("open('/proc/self/oom_score_adj').read()", "800\n"),
}


@pytest.fixture(scope="module", params=["the user", "nobody"])
def told(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The outcome of all attempts, as this user and, if this is root, as an unprivileged user.

    The directory is none of pytest's: those are closed to others, and whenever another run begins again.
    """
    other = request.param == "nobody"
    if other and os.geteuid() != 0:
        pytest.skip("only root can become another user")
    base = Path(tempfile.mkdtemp(prefix="makeroom-test-")).resolve()
    base.chmod(0o755)
    try:
        yield tried_in(base, other)
    finally:
        shutil.rmtree(base)


def tried_in(base: Path, other: bool) -> dict[str, str]:
    """The outcome of all attempts in a directory."""
    for name in ("project", "outside", "home/.ssh", "private/walled"):
        (base / name).mkdir(parents=True)
    (base / "home/.ssh/id").write_text("KEY")
    (base / "home/.ssh/id").chmod(0o755)
    (base / "home/notes").write_text("notes")
    (base / "outside/kept").write_text("kept")
    (base / "project/file").write_text("")
    (base / "project/leads-out").symlink_to(base / "outside/kept")
    (base / "project/leads-to-secret").symlink_to(base / "home/.ssh/id")
    if other:
        for path in (base, *base.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    profile = {
        **NAMES_NOTHING,
        "folder": f"{base}/project", "private": f"{base}/private", "scratch": f"{base}/private/walled",
        "hidden": [f"{base}/home/.ssh", "/etc/shadow"], "project_writable": True,
    }  # fmt: skip
    tries = {name: expression for name, (expression, _) in (WORK | ESCAPES).items()}
    asked = {"profile": profile, "uid": NOBODY if other else None, "tries": tries}
    process = [sys.executable, str(Path(__file__).with_name("confined_process.py"))]
    ran = subprocess.run(process, input=json.dumps(asked), capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert (base / "outside/kept").read_text() == "kept"
    assert sorted(path.name for path in (base / "outside").iterdir()) == ["datagram", "kept", "stream"]
    answers: dict[str, str] = json.loads(ran.stdout)
    return answers


def wrong(table: dict[str, tuple[str, str]], told: dict[str, str]) -> dict[str, str]:
    """Return the differences from the table."""
    return {name: told[name] for name, (_, right) in table.items() if not re.fullmatch(right, told[name])}


def test_what_leads_out_of_the_project_is_refused(told: dict[str, str]) -> None:
    assert wrong(ESCAPES, told) == {}


def test_what_stays_in_the_project_works(told: dict[str, str]) -> None:
    assert wrong(WORK, told) == {}


def test_neighbours_of_what_is_hidden_are_readable_one_by_one(tmp_path: Path) -> None:
    for name in ("home/.ssh", "home/work", "home/.aws/sso", "other"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/notes").touch()
    (tmp_path / "home/link").symlink_to("work")
    hidden = [tmp_path / "home/.ssh", tmp_path / "home/.aws", tmp_path / "home/.aws/sso", tmp_path / "gone"]
    readable = set(readable_places(map(str, hidden)))
    assert {path for path in readable if path.startswith(str(tmp_path))} == {
        f"{tmp_path}/home/work", f"{tmp_path}/home/notes", f"{tmp_path}/other",
    }  # fmt: skip
    assert str(tmp_path) not in readable
    assert "/usr" in readable


def test_a_secret_within_a_writable_place_means_no_sandbox(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    with pytest.raises(OSError, match=r"Landlock cannot hide .*/.ssh"):
        confine({**NAMES_NOTHING, "folder": str(tmp_path), "hidden": [str(tmp_path / ".ssh")]})


@each_row("machine", ["x86_64", "aarch64", "riscv64"])
def test_the_filter_of_each_machine_is_whole_steps_and_smaller_where_sockets_are_kept_apart(
    machine: str,
) -> None:
    strict, loose = (shared_calls_program(machine, path_sockets) for path_sockets in (False, True))
    assert len(strict) % 8 == len(loose) % 8 == 0
    assert len(loose) < len(strict)


# The same sandbox around the commands of a session.


@dataclass
class SandboxedSession:
    """A session whose commands have no namespaces."""

    shell: BashSession

    def run(self, line: str) -> str:
        """Return what a sandboxed command writes, and how it ended."""
        return self.shell.runner.run(self._run(line))

    async def _run(self, line: str) -> str:
        output: list[bytes] = []
        runner = command_runner(self.shell.context)
        command, _ = await runner.start(line, self.shell.folder, output.append, sandboxed=True)
        await asyncio.wait({command.exited}, timeout=GUARD_S)
        await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
        code, _ = exit_status(command.exited.result())
        return f"{b''.join(output).decode()}[{code}]"

    def sandbox(self) -> tuple[str, str]:
        return self.shell.runner.run(command_runner(self.shell.context).sandbox())


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[SandboxedSession]:
    shell = BashSession(tmp_path.resolve(), "subreaper")
    yield SandboxedSession(shell)
    shell.close()
    assert not shell.survivors()
    shell.runner.close()


def test_without_namespaces_the_sandbox_is_the_weaker_one(sandboxed: SandboxedSession) -> None:
    assert sandboxed.sandbox() == ("landlock", "namespaces are disabled")
    folder = sandboxed.shell.folder
    assert sandboxed.run(f"pwd; echo x > made && cat made; echo x > {folder.parent}/out").startswith(
        f"{folder}\nx\nbash: line 1: {folder.parent}/out: Permission denied"
    )
    assert sandboxed.run('[ -w "$TMPDIR" ] && touch "$TMPDIR/x" && echo $GOCACHE').startswith("/")
    assert sandboxed.run("echo $npm_config_fetch_retries $PIP_RETRIES").startswith("0 1\n")
    assert sandboxed.shell.say(f"echo x > {folder.parent}/out && cat {folder.parent}/out") == "x"
    (folder.parent / "out").unlink()


def test_a_hook_that_fails_silently_without_a_network_is_known_to_be_blocked(
    sandboxed: SandboxedSession,
) -> None:
    runner = command_runner(sandboxed.shell.context)
    asked = run_own_command(runner, "false https://a.example/", "", variables={}, sandboxed=True)
    assert str(sandboxed.shell.runner.run(asked).refusal) == "blocked: reach a.example (false)"


def test_files_that_were_replaced_beside_secrets_can_be_read(tmp_path: Path) -> None:
    """As `git config --global` replaces ~/.gitconfig: what is around ~/.ssh is allowed file by file."""
    shell = sandboxed_session(tmp_path)
    (shell.home / ".ssh").mkdir()
    settings = shell.home / ".gitconfig"
    settings.write_text("old")
    assert isinstance(shell.context.environ, dict)
    shell.context.environ["MAKEROOM_NAMESPACE"] = "off"
    shell.require_sandbox("landlock")
    assert shell.prints(f"cat {settings}") == "old"
    (shell.home / "new").write_text("new")
    (shell.home / "new").rename(settings)
    (shell.home / ".ssh/id").write_text("secret")
    assert shell.prints(f"cat {settings}") == "new"
    assert "Permission denied" in shell.prints(f"cat {shell.home}/.ssh/id")
    shell.end()


def test_a_hook_that_a_sandboxed_command_writes_is_put_back_and_reported(sandboxed: SandboxedSession) -> None:
    hook = sandboxed.shell.folder / ".git/hooks/pre-commit"
    hook.parent.mkdir(parents=True)
    hook.write_text("true")

    def bash(line: str, inside: bool = True, background: bool = False) -> str:
        call = ToolCall(sandboxed.shell.context, sandboxed=inside)
        arguments = BashArguments(command=line, run_in_background=background)
        return text(sandboxed.shell.runner.run(run_bash(arguments, call)))

    assert sandboxed.sandbox()[0] == "landlock"
    assert "changed .git/hooks/pre-commit: restored" in bash("echo evil > .git/hooks/pre-commit")
    assert hook.read_text() == "true"
    bash("echo evil > .git/hooks/pre-commit; touch on; sleep 300", background=True)
    assert wait_until((sandboxed.shell.folder / "on").exists)
    told = bash("cat .git/hooks/pre-commit", inside=False)
    assert told.startswith(
        "true\n[a sandboxed command or another process changed .git/hooks/pre-commit: restored"
    )


def test_a_sandboxed_command_that_detaches_dies_with_the_session(sandboxed: SandboxedSession) -> None:
    assert sandboxed.run("setsid -f sleep 300 >/dev/null; (sleep 300 >/dev/null &) ; echo on") == "on\n[0]"
    assert len(sandboxed.shell.survivors()) == 2


def test_killing_all_that_can_be_killed_leaves_the_agent_and_open_commands(
    sandboxed: SandboxedSession,
) -> None:
    assert sandboxed.shell.say("sleep 300 & echo on").startswith("on")
    before = sandboxed.shell.survivors()
    with suppress(OSError):  # its spawner may be killed before it could report that the command runs
        sandboxed.run("kill -9 -1; for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done 2>/dev/null")
    assert wait_until(lambda: sandboxed.shell.survivors() == before)
    assert sandboxed.run("echo again") == "again\n[0]"
    assert sandboxed.shell.say("echo alive") == "alive"


def test_a_command_that_stops_its_spawner_holds_nothing_up(sandboxed: SandboxedSession) -> None:
    assert sandboxed.run("kill -STOP $PPID; echo on") == "on\n[0]"
    assert sandboxed.run("echo again") == "again\n[0]"

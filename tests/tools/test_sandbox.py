"""Sandboxed commands write in the project and in temporary directories, read the rest, and reach no one."""

import asyncio
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.narrowing import present
from tools.processes.session_shell import last_folder
from tools.sandbox.command_socket import SupervisorLost

from .sandbox_session import SandboxedSession, git, sandboxed_session


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[SandboxedSession]:
    """A session that has not begun yet: what lies in its project and home now is judged."""
    shell = sandboxed_session(tmp_path)
    yield shell
    shell.end()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxedSession]:
    """A session that continues, in a repository with a commit and our records."""
    shell = sandboxed_session(tmp_path_factory.mktemp("used"))
    (shell.folder / ".transcripts").mkdir()
    (shell.folder / ".transcripts" / "1.jsonl").write_text("old_name\n")
    (shell.folder / ".gitignore").write_text(".transcripts\n")
    git(shell.folder, "init", "-q")
    git(shell.folder, "add", ".")
    git(shell.folder, "commit", "-qm", "one")
    shell.require_sandbox("namespaces")
    yield shell
    shell.end()


def test_a_sandboxed_command_writes_in_the_project_and_in_temporary_directories_only(
    used: SandboxedSession,
) -> None:
    places = "a /tmp/b /var/tmp/c"
    said = used.prints(f"for p in {places}; do echo $p >$p; done; echo d >/etc/d; cat {places}")
    assert said.endswith("/etc/d: Read-only file system\na\n/tmp/b\n/var/tmp/c")
    assert (used.folder / "a").read_text() == "a\n"
    assert not Path("/tmp/b").exists()


def test_a_sandboxed_command_reads_what_lies_in_temporary_directories(used: SandboxedSession) -> None:
    """A script that was written there a moment ago can be run."""
    script = used.folder.parent / "script"
    script.write_text("echo from outside")
    assert used.prints(f"sh {script}; echo changed >{script}").startswith("from outside")
    assert script.read_text() == "echo from outside"


def test_a_sandboxed_command_sees_no_process_but_its_own_and_no_network(used: SandboxedSession) -> None:
    used.runner.run(used.commands.start("sleep 300", used.folder, lambda data: None))
    assert "sleep" not in used.prints("ps ax")
    assert used.prints("cat /proc/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]


def test_open_commands_run_as_before_beside_sandboxed_ones(used: SandboxedSession) -> None:
    look = "readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/net"
    within, without = used.prints(look).split(), used.prints(look, sandboxed=False).split()
    assert not set(within) & set(without)


@pytest.mark.parametrize("sandboxed", [True, False])
def test_our_records_are_not_in_the_way_of_a_search_or_a_cleaning(
    used: SandboxedSession, sandboxed: bool
) -> None:
    assert used.prints("grep -rq old_name . && echo used; find . -name '*.jsonl'", sandboxed) == ""
    assert "Device or resource busy" in used.prints("rm -rf .transcripts; mv .transcripts away", sandboxed)
    used.prints("git clean -ffdxq", sandboxed)
    assert (used.folder / ".transcripts" / "1.jsonl").read_text() == "old_name\n"


def test_a_repository_can_be_committed_to_but_not_steered(used: SandboxedSession) -> None:
    commit = (
        "git -c user.name=A -c user.email=a@example.org commit -qm two --allow-empty && git log --format=%s"
    )
    assert used.prints(commit) == "two\none"
    assert "Read-only" in used.prints("echo 'echo owned' >.git/hooks/post-commit")
    assert "busy" in used.prints("mv .git/config .git/c; mv .git g")
    assert "busy" in used.prints("git config core.fsmonitor ./evil")


def test_git_finds_the_repository_that_the_project_is_a_part_of(sandboxed: SandboxedSession) -> None:
    git(sandboxed.folder.parent, "init", "-q")
    sandboxed.require_sandbox("namespaces")
    assert sandboxed.prints("git rev-parse --show-prefix") == "project/"


def test_a_server_within_the_sandbox_is_reached_within_the_sandbox(used: SandboxedSession) -> None:
    serve = (
        'python3 -c \'import socket as s; l = s.create_server(("127.0.0.1", 8765)); print(1, flush=True)\n'
    )
    serve += 'l.accept()[0].send(b"served")\''
    read = "python3 -c 'import socket as s; print(s.create_connection((\"127.0.0.1\", 8765)).recv(9))'"

    async def both() -> str:
        up = asyncio.Event()
        command, _ = await used.commands.start(serve, used.folder, lambda data: up.set(), sandboxed=True)
        await up.wait()
        said = await used.output(read)
        await command.exited
        return said

    assert used.runner.run(both()) == "b'served'"


def test_a_sandboxed_command_never_runs_open(sandboxed: SandboxedSession) -> None:
    supervisor = sandboxed.runner.run(sandboxed.commands.supervisor())
    spawner = present(supervisor.sandboxed)
    supervisor.sandboxed = None
    with pytest.raises(SupervisorLost, match="no sandbox"):
        sandboxed.prints("touch open")
    supervisor.sandboxed = spawner  # which is closed with the supervisor
    assert not (sandboxed.folder / "open").exists()


def test_secrets_are_refused_and_empty_of_everything(sandboxed: SandboxedSession) -> None:
    (sandboxed.home / ".ssh").mkdir()
    secrets = [sandboxed.home / ".ssh/id_rsa", sandboxed.home / ".netrc", sandboxed.folder / ".env"]
    for secret in secrets:
        secret.write_text("private")
    sandboxed.require_sandbox("namespaces")
    for secret in secrets:
        assert "Permission denied" in sandboxed.prints(f"cat {secret}"), secret
    assert "Permission denied" in sandboxed.prints("ls /run")


def test_what_is_written_to_a_cache_stays_with_the_project(sandboxed: SandboxedSession) -> None:
    cache = sandboxed.home / ".cache"
    cache.mkdir()
    (cache / "built").write_text("old")
    sandboxed.require_sandbox("namespaces")
    look = "cat ~/.cache/built ~/.cache/more"
    if "PIP_CACHE_DIR=/tmp" in sandboxed.prints("env"):
        pytest.skip("this system gives no overlays")
    assert sandboxed.prints(f"echo new >~/.cache/built; echo more >~/.cache/more; {look}") == "new\nmore"
    assert (cache / "built").read_text() == "old"
    sandboxed.runner.run(sandboxed.commands.close())
    assert sandboxed.prints(look) == "new\nmore", "a later session of the project finds it"
    assert sorted(cache.iterdir()) == [cache / "built"]


def test_two_sessions_of_a_project_share_no_layer_and_old_ones_of_others_are_removed(
    sandboxed: SandboxedSession,
) -> None:
    (sandboxed.home / ".cache").mkdir()
    old = sandboxed.home / ".local/state/makeroom/cache_layers/old"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    sandboxed.require_sandbox("namespaces")
    for thread in threading.enumerate():
        if thread.name == "old layers":
            thread.join()
    assert not old.exists()
    sandboxed.prints("echo one >~/.cache/file")
    other = SandboxedSession(sandboxed.folder)
    other.require_sandbox("namespaces")
    assert "No such file" in other.prints("cat ~/.cache/file")
    other.end()


def test_what_commands_left_is_there_in_a_wider_sandbox(sandboxed: SandboxedSession) -> None:
    """Temporary files, caches, and a server that continues."""
    (sandboxed.home / ".cache").mkdir()
    sandboxed.require_sandbox("namespaces")
    serve = (
        "import socket; l = socket.create_server(('127.0.0.1', 8766)); print(1, flush=True);"
        "l.accept()[0].send(b'served')"
    )
    read = "import socket; print(socket.create_connection(('127.0.0.1', 8766)).recv(9).decode())"

    async def widened() -> str:
        up = asyncio.Event()
        await sandboxed.output("echo one >~/.cache/file; echo two >/tmp/file; echo three >/var/tmp/file")
        job, _ = await sandboxed.commands.start(
            f'python3 -c "{serve}"', sandboxed.folder, lambda data: up.set(), sandboxed=True
        )
        await up.wait()
        profile = sandboxed.commands.profile
        assert profile is not None
        await sandboxed.commands.use_profile(replace(profile, writable=(sandboxed.home,)))
        said = await sandboxed.output(
            f'cat ~/.cache/file /tmp/file /var/tmp/file; echo ok >~/allowed; python3 -c "{read}"'
        )
        await job.exited
        return said

    assert sandboxed.runner.run(widened()).split() == ["one", "two", "three", "served"]
    assert (sandboxed.home / "allowed").read_text() == "ok\n"


def test_open_commands_find_nothing_of_what_sandboxes_are_made_of(sandboxed: SandboxedSession) -> None:
    (sandboxed.home / ".cache").mkdir()
    sandboxed.require_sandbox("namespaces")
    private = sandboxed.runner.run(sandboxed.commands.supervisor()).scratch.parent
    found = sandboxed.prints(f"find {private} -mindepth 1 -maxdepth 2 -printf '%P '", sandboxed=False)
    assert sorted(found.split()) == ["prelude", "stage", "walled"]


def test_a_job_keeps_its_sandbox_when_a_wider_one_is_raised(sandboxed: SandboxedSession) -> None:
    sandboxed.require_sandbox("namespaces")
    wait = "touch on; while [ ! -e go ]; do sleep 0.01; done; touch ~/reached; echo done >done"

    async def widened() -> None:
        job, _ = await sandboxed.commands.start(wait, sandboxed.folder, lambda data: None, sandboxed=True)
        profile = sandboxed.commands.profile
        assert profile is not None
        await sandboxed.commands.use_profile(replace(profile, writable=(sandboxed.home,)))
        await sandboxed.output("touch ~/allowed; touch go")
        await job.exited

    sandboxed.runner.run(widened())
    assert (sandboxed.home / "allowed").exists()
    assert (sandboxed.folder / "done").exists()
    assert not (sandboxed.home / "reached").exists()


def test_a_project_may_be_read_only_as_a_whole(sandboxed: SandboxedSession) -> None:
    sandboxed.require_sandbox("namespaces")
    profile = sandboxed.commands.profile
    assert profile is not None
    sandboxed.runner.run(sandboxed.commands.use_profile(replace(profile, project_writable=False)))
    assert "Read-only" in sandboxed.prints("touch a")
    assert sandboxed.prints("echo a >/tmp/a; cat /tmp/a") == "a"


def test_a_session_within_its_own_home_keeps_that_one_s_secrets(sandboxed: SandboxedSession) -> None:
    sandboxed.context.environ = {**sandboxed.context.environ, "HOME": str(sandboxed.folder)}
    (sandboxed.folder / ".ssh").mkdir()
    (sandboxed.folder / ".bashrc").write_text("")
    sandboxed.require_sandbox("namespaces")
    assert "Permission denied" in sandboxed.prints("ls .ssh")
    assert "Read-only" in sandboxed.prints("echo evil >>.bashrc")


def test_what_a_sandboxed_command_reaches_goes_through_the_proxy(
    sandboxed: SandboxedSession, tmp_path: Path
) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "proxy"))
    server.listen()
    asked: list[bytes] = []

    def answer() -> None:
        for _ in range(2):
            connection, _ = server.accept()
            with connection:
                first = b""
                while b":443" not in first:
                    first += connection.recv(4096)
                asked.append(first)
                connection.sendall(
                    b"HTTP/1.1 403 Forbidden\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000
                )

    thread = threading.Thread(target=answer)
    thread.start()
    sandboxed.require_sandbox("namespaces")
    profile = sandboxed.commands.profile
    assert profile is not None
    sandboxed.runner.run(sandboxed.commands.use_profile(replace(profile, proxy=tmp_path / "proxy")))
    script = (
        "import os, socket; host, port = os.environ['http_proxy'][7:].split(':');"
        "s = socket.create_connection((host, int(port))); s.send(b'CONNECT a.example:443');"
        "print(sum(len(piece) for piece in iter(lambda: s.recv(65536), b'')))"
    )
    for _ in range(2):
        assert int(sandboxed.prints(f'python3 -c "{script}"')) > 200_000
    thread.join()
    server.close()
    for each in asked:  # the relay says first which process has connected
        assert re.fullmatch(rb"\0\d+\nCONNECT a\.example:443", each)
    assert sandboxed.prints("echo $HTTPS_PROXY $NODE_USE_ENV_PROXY $NO_PROXY").endswith(
        " 1 localhost,127.0.0.1,::1"
    )


def test_what_a_sandboxed_shell_reports_is_read_without_waiting_or_following(tmp_path: Path) -> None:
    """The report lies where sandboxed commands write: one may put a pipe or a link in its place."""
    report, real = tmp_path.resolve() / "cwd-1", tmp_path.resolve() / "real"
    real.mkdir()
    os.mkfifo(report)
    assert last_folder(report) is None
    report.symlink_to("/etc/hostname")
    assert last_folder(report) is None
    report.unlink()
    (tmp_path / "link").symlink_to(real)
    report.write_text(f"{tmp_path}/link\n")
    assert last_folder(report) == str(real)
    assert not report.exists()


def test_what_steers_other_programs_is_reported_when_it_is_made(sandboxed: SandboxedSession) -> None:
    sandboxed.require_sandbox("namespaces")
    made = (
        "git init -q . && mkdir .vscode && echo '{}' >.vscode/tasks.json && echo hook >.git/hooks/pre-commit"
    )
    told = sandboxed.told(made)
    for name in (".git/config", ".git/hooks", ".vscode"):
        assert (
            f"[check {name}: a sandboxed command or another process created it, and other programs act on it]"
            in told
        )
    assert len(told) == 3
    assert sandboxed.told("true") == []


def test_an_emptied_repository_is_put_back(sandboxed: SandboxedSession) -> None:
    git(sandboxed.folder, "init", "-q")
    git(sandboxed.folder, "commit", "-qm", "one", "--allow-empty")
    sandboxed.require_sandbox("namespaces")
    (line,) = sandboxed.told("rm -rf .git")
    assert line.startswith("[a sandboxed command or another process emptied .git: HEAD, ")
    assert sandboxed.prints("git log --format=%s; git fsck") == "one"
    sandboxed.runner.run(sandboxed.commands.close())
    assert list((sandboxed.folder.parent / "state/git_copies").iterdir()) == []


def test_a_session_in_the_home_itself_still_keeps_its_caches_apart(sandboxed: SandboxedSession) -> None:
    sandboxed.context.environ = {**sandboxed.context.environ, "HOME": str(sandboxed.folder)}
    (sandboxed.folder / ".cache").mkdir()
    sandboxed.require_sandbox("namespaces")
    sandboxed.prints("echo planted >.cache/tool; echo a >a")
    assert (sandboxed.folder / "a").exists()
    assert list((sandboxed.folder / ".cache").iterdir()) == []


def test_a_project_within_a_cache_is_the_real_one(sandboxed: SandboxedSession) -> None:
    """As is one below GOPATH."""
    gopath = sandboxed.folder.parent
    sandboxed.context.environ = {**sandboxed.context.environ, "GOPATH": str(gopath)}
    sandboxed.require_sandbox("namespaces")
    sandboxed.prints("echo a >a; echo planted >../planted")
    assert (sandboxed.folder / "a").exists()
    assert not (gopath / "planted").exists()


def test_links_of_a_project_that_lead_elsewhere_do_no_harm(sandboxed: SandboxedSession) -> None:
    for name, target in {
        "AGENTS.md": "/",
        ".npmrc": "nowhere",
        ".vscode": "/etc",
        ".env": "/etc/hostname",
    }.items():
        (sandboxed.folder / name).symlink_to(target)
    sandboxed.require_sandbox("namespaces")
    assert sandboxed.prints("echo a >a; cat a; ls .vscode/passwd") == "a\n.vscode/passwd"
    assert "Permission denied" in sandboxed.prints("cat .env")


def test_a_single_file_can_be_allowed(sandboxed: SandboxedSession) -> None:
    sandboxed.require_sandbox("namespaces")
    profile, file = sandboxed.commands.profile, sandboxed.home / "notes"
    file.write_text("")
    assert profile is not None
    sandboxed.runner.run(
        sandboxed.commands.use_profile(replace(profile, writable=(file,), hidden=(sandboxed.home,)))
    )
    assert "rm: cannot remove" in sandboxed.prints("echo noted >~/notes; rm ~/notes")
    assert file.read_text() == "noted\n"
    assert sandboxed.prints("ls ~") == "notes"

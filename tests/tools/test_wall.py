"""Walled commands write in the project and in temporary folders, read the rest, and reach nobody."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tools.processes.jobs import last_folder
from tools.sandbox.command_socket import SupervisorLost

from .wall_session import WalledSession, git, walled_session


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[WalledSession]:
    """A session that has not begun yet: what lies in its project and home now is judged."""
    shell = walled_session(tmp_path)
    yield shell
    shell.end()


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WalledSession]:
    """A session that goes on, in a repository with a commit and our records."""
    shell = walled_session(tmp_path_factory.mktemp("used"))
    (shell.folder / ".transcripts").mkdir()
    (shell.folder / ".transcripts" / "1.jsonl").write_text("old_name\n")
    (shell.folder / ".gitignore").write_text(".transcripts\n")
    git(shell.folder, "init", "-q")
    git(shell.folder, "add", ".")
    git(shell.folder, "commit", "-qm", "one")
    shell.require_wall("namespaces")
    yield shell
    shell.end()


def test_a_walled_command_writes_in_the_project_and_in_temporary_folders_only(used: WalledSession) -> None:
    places = "a /tmp/b /var/tmp/c"
    said = used.prints(f"for p in {places}; do echo $p >$p; done; echo d >/etc/d; cat {places}")
    assert said.endswith("/etc/d: Read-only file system\na\n/tmp/b\n/var/tmp/c")
    assert (used.folder / "a").read_text() == "a\n"
    assert not Path("/tmp/b").exists()


def test_a_walled_command_reads_what_lies_in_temporary_folders(used: WalledSession) -> None:
    """A script that was written there a moment ago can be run."""
    script = used.folder.parent / "script"
    script.write_text("echo from outside")
    assert used.prints(f"sh {script}; echo changed >{script}").startswith("from outside")
    assert script.read_text() == "echo from outside"


def test_a_walled_command_sees_no_process_but_its_own_and_no_network(used: WalledSession) -> None:
    used.runner.run(used.commands.start("sleep 300", used.folder, lambda data: None))
    assert "sleep" not in used.prints("ps ax")
    assert used.prints("cat /proc/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]


def test_open_commands_run_as_before_beside_walled_ones(used: WalledSession) -> None:
    look = "readlink /proc/self/ns/mnt /proc/self/ns/pid /proc/self/ns/net"
    within, without = used.prints(look).split(), used.prints(look, walled=False).split()
    assert not set(within) & set(without)


@pytest.mark.parametrize("walled", [True, False])
def test_our_records_are_not_in_the_way_of_a_search_or_a_cleaning(used: WalledSession, walled: bool) -> None:
    assert used.prints("grep -rq old_name . && echo used; find . -name '*.jsonl'", walled) == ""
    assert "Device or resource busy" in used.prints("rm -rf .transcripts; mv .transcripts away", walled)
    used.prints("git clean -ffdxq", walled)
    assert (used.folder / ".transcripts" / "1.jsonl").read_text() == "old_name\n"


def test_a_repository_can_be_committed_to_but_not_steered(used: WalledSession) -> None:
    commit = (
        "git -c user.name=A -c user.email=a@example.org commit -qm two --allow-empty && git log --format=%s"
    )
    assert used.prints(commit) == "two\none"
    assert "Read-only" in used.prints("echo 'echo owned' >.git/hooks/post-commit")
    assert "busy" in used.prints("mv .git/config .git/c; mv .git g")
    assert "busy" in used.prints("git config core.fsmonitor ./evil")


def test_a_server_within_the_wall_is_reached_within_the_wall(used: WalledSession) -> None:
    serve = (
        'python3 -c \'import socket as s; l = s.create_server(("127.0.0.1", 8765)); print(1, flush=True)\n'
    )
    serve += 'l.accept()[0].send(b"served")\''
    read = "python3 -c 'import socket as s; print(s.create_connection((\"127.0.0.1\", 8765)).recv(9))'"

    async def both() -> str:
        up = asyncio.Event()
        command, _ = await used.commands.start(serve, used.folder, lambda data: up.set(), walled=True)
        await up.wait()
        said = await used.output(read)
        await command.exited
        return said

    assert used.runner.run(both()) == "b'served'"


def test_a_walled_command_never_runs_open(walled: WalledSession) -> None:
    supervisor = walled.runner.run(walled.commands.supervisor())
    supervisor.walled = None
    with pytest.raises(SupervisorLost, match="no wall"):
        walled.prints("touch open")
    assert not (walled.folder / "open").exists()


def test_secrets_are_refused_and_empty_of_everything(walled: WalledSession) -> None:
    (walled.home / ".ssh").mkdir()
    secrets = [walled.home / ".ssh/id_rsa", walled.home / ".netrc", walled.folder / ".env"]
    for secret in secrets:
        secret.write_text("private")
    walled.require_wall("namespaces")
    for secret in secrets:
        assert "Permission denied" in walled.prints(f"cat {secret}"), secret
    assert "Permission denied" in walled.prints("ls /run")


def test_what_is_written_to_a_cache_stays_with_the_project(walled: WalledSession) -> None:
    cache = walled.home / ".cache"
    cache.mkdir()
    (cache / "built").write_text("old")
    walled.require_wall("namespaces")
    look = "cat ~/.cache/built ~/.cache/more"
    if "PIP_CACHE_DIR=/tmp" in walled.prints("env"):
        pytest.skip("this system gives no overlays")
    assert walled.prints(f"echo new >~/.cache/built; echo more >~/.cache/more; {look}") == "new\nmore"
    assert (cache / "built").read_text() == "old"
    walled.runner.run(walled.commands.close())
    assert walled.prints(look) == "new\nmore", "a later session of the project finds it"
    assert sorted(cache.iterdir()) == [cache / "built"]


def test_two_sessions_of_a_project_share_no_layer(walled: WalledSession) -> None:
    (walled.home / ".cache").mkdir()
    walled.require_wall("namespaces")
    walled.prints("echo one >~/.cache/file")
    other = WalledSession(walled.folder)
    other.require_wall("namespaces")
    assert "No such file" in other.prints("cat ~/.cache/file")
    other.end()


def test_what_commands_left_is_there_in_a_wider_wall(walled: WalledSession) -> None:
    """Temporary files, caches, and a server that goes on."""
    (walled.home / ".cache").mkdir()
    walled.require_wall("namespaces")
    serve = (
        "import socket; l = socket.create_server(('127.0.0.1', 8766)); print(1, flush=True);"
        "l.accept()[0].send(b'served')"
    )
    read = "import socket; print(socket.create_connection(('127.0.0.1', 8766)).recv(9).decode())"

    async def widened() -> str:
        up = asyncio.Event()
        await walled.output("echo one >~/.cache/file; echo two >/tmp/file; echo three >/var/tmp/file")
        job, _ = await walled.commands.start(
            f'python3 -c "{serve}"', walled.folder, lambda data: up.set(), walled=True
        )
        await up.wait()
        profile = walled.commands.profile
        assert profile is not None
        await walled.commands.use_profile(replace(profile, writable=(walled.home,)))
        said = await walled.output(
            f'cat ~/.cache/file /tmp/file /var/tmp/file; echo ok >~/allowed; python3 -c "{read}"'
        )
        await job.exited
        return said

    assert walled.runner.run(widened()).split() == ["one", "two", "three", "served"]
    assert (walled.home / "allowed").read_text() == "ok\n"


def test_open_commands_find_nothing_of_what_walls_are_made_of(walled: WalledSession) -> None:
    (walled.home / ".cache").mkdir()
    walled.require_wall("namespaces")
    private = walled.runner.run(walled.commands.supervisor()).scratch.parent
    found = walled.prints(f"find {private} -mindepth 1 -maxdepth 2 -printf '%P '", walled=False)
    assert sorted(found.split()) == ["prelude", "stage", "walled"]


def test_a_job_keeps_its_wall_when_a_wider_one_is_raised(walled: WalledSession) -> None:
    walled.require_wall("namespaces")
    wait = "touch on; while [ ! -e go ]; do sleep 0.01; done; touch ~/reached; echo done >done"

    async def widened() -> None:
        job, _ = await walled.commands.start(wait, walled.folder, lambda data: None, walled=True)
        profile = walled.commands.profile
        assert profile is not None
        await walled.commands.use_profile(replace(profile, writable=(walled.home,)))
        await walled.output("touch ~/allowed; touch go")
        await job.exited

    walled.runner.run(widened())
    assert (walled.home / "allowed").exists()
    assert (walled.folder / "done").exists()
    assert not (walled.home / "reached").exists()


def test_a_project_may_be_read_only_as_a_whole(walled: WalledSession) -> None:
    walled.require_wall("namespaces")
    profile = walled.commands.profile
    assert profile is not None
    walled.runner.run(walled.commands.use_profile(replace(profile, project_writable=False)))
    assert "Read-only" in walled.prints("touch a")
    assert walled.prints("echo a >/tmp/a; cat /tmp/a") == "a"


def test_a_session_within_its_own_home_keeps_that_one_s_secrets(walled: WalledSession) -> None:
    walled.context.environ = {**walled.context.environ, "HOME": str(walled.folder)}
    (walled.folder / ".ssh").mkdir()
    (walled.folder / ".bashrc").write_text("")
    walled.require_wall("namespaces")
    assert "Permission denied" in walled.prints("ls .ssh")
    assert "Read-only" in walled.prints("echo evil >>.bashrc")


def test_what_a_walled_command_reaches_goes_through_the_proxy(walled: WalledSession, tmp_path: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(tmp_path / "proxy"))
    server.listen()
    asked: list[bytes] = []

    def answer() -> None:
        for _ in range(2):
            connection, _ = server.accept()
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(
                    b"HTTP/1.1 403 Forbidden\r\ncontent-length: 200000\r\n\r\n" + b"x" * 200_000
                )

    thread = threading.Thread(target=answer)
    thread.start()
    walled.require_wall("namespaces")
    profile = walled.commands.profile
    assert profile is not None
    walled.runner.run(walled.commands.use_profile(replace(profile, proxy=tmp_path / "proxy")))
    script = (
        "import os, socket; host, port = os.environ['http_proxy'][7:].split(':');"
        "s = socket.create_connection((host, int(port))); s.send(b'CONNECT a.example:443');"
        "print(sum(len(piece) for piece in iter(lambda: s.recv(65536), b'')))"
    )
    for _ in range(2):
        assert int(walled.prints(f'python3 -c "{script}"')) > 200_000
    thread.join()
    server.close()
    assert asked == [b"CONNECT a.example:443"] * 2
    assert walled.prints("echo $HTTPS_PROXY $NODE_USE_ENV_PROXY $NO_PROXY").endswith(
        " 1 localhost,127.0.0.1,::1"
    )


def test_what_a_walled_shell_reports_is_read_without_waiting_or_following(tmp_path: Path) -> None:
    """The report lies where walled commands write: one may put a pipe or a link in its place."""
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


def test_what_steers_other_programs_is_told_when_it_is_made(walled: WalledSession) -> None:
    walled.require_wall("namespaces")
    made = (
        "git init -q . && mkdir .vscode && echo '{}' >.vscode/tasks.json && echo hook >.git/hooks/pre-commit"
    )
    told = walled.told(made)
    for name in (".git/config", ".git/hooks", ".vscode"):
        assert (
            f"[look at {name}: a walled command, or somebody meanwhile, made it; other programs act on it]"
            in told
        )
    assert len(told) == 3
    assert walled.told("true") == []


def test_an_emptied_repository_is_put_back(walled: WalledSession) -> None:
    git(walled.folder, "init", "-q")
    git(walled.folder, "commit", "-qm", "one", "--allow-empty")
    walled.require_wall("namespaces")
    (line,) = walled.told("rm -rf .git")
    assert line.startswith("[a walled command, or somebody meanwhile, emptied .git: HEAD, ")
    assert walled.prints("git log --format=%s; git fsck") == "one"
    walled.runner.run(walled.commands.close())
    assert list((walled.folder.parent / "state/git_copies").iterdir()) == []


def test_a_session_in_the_home_itself_still_keeps_its_caches_apart(walled: WalledSession) -> None:
    walled.context.environ = {**walled.context.environ, "HOME": str(walled.folder)}
    (walled.folder / ".cache").mkdir()
    walled.require_wall("namespaces")
    walled.prints("echo planted >.cache/tool; echo a >a")
    assert (walled.folder / "a").exists()
    assert list((walled.folder / ".cache").iterdir()) == []


def test_a_project_within_a_cache_is_the_real_one(walled: WalledSession) -> None:
    """As is one below GOPATH."""
    gopath = walled.folder.parent
    walled.context.environ = {**walled.context.environ, "GOPATH": str(gopath)}
    walled.require_wall("namespaces")
    walled.prints("echo a >a; echo planted >../planted")
    assert (walled.folder / "a").exists()
    assert not (gopath / "planted").exists()


def test_links_of_a_project_that_lead_elsewhere_do_no_harm(walled: WalledSession) -> None:
    for name, target in {
        "AGENTS.md": "/",
        ".npmrc": "nowhere",
        ".vscode": "/etc",
        ".env": "/etc/hostname",
    }.items():
        (walled.folder / name).symlink_to(target)
    walled.require_wall("namespaces")
    assert walled.prints("echo a >a; cat a; ls .vscode/passwd") == "a\n.vscode/passwd"
    assert "Permission denied" in walled.prints("cat .env")


def test_a_single_file_can_be_let_through(walled: WalledSession) -> None:
    walled.require_wall("namespaces")
    profile, file = walled.commands.profile, walled.home / "notes"
    file.write_text("")
    assert profile is not None
    walled.runner.run(walled.commands.use_profile(replace(profile, writable=(file,), hidden=(walled.home,))))
    assert "rm: cannot remove" in walled.prints("echo noted >~/notes; rm ~/notes")
    assert file.read_text() == "noted\n"
    assert walled.prints("ls ~") == "notes"

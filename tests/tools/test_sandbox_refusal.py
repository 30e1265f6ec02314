"""Blocked accesses are distinguished from other failures, in the words of many programs."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.tables import each_row
from tools.processes.command_hints import hint
from tools.sandbox.block_detection import (
    NO_HOST,
    SandboxedRun,
    find_blocked_access,
    forbidden_action,
    unnamed_refusal,
)
from tools.sandbox.blocked_access import BlockedAccess
from tools.sandbox.profile import SandboxProfile


@pytest.fixture
def run(tmp_path: Path) -> SandboxedRun:
    """A command in a project beside a home with a secret."""
    project, home = tmp_path / "project", tmp_path / "home"
    for folder in (project / ".git" / "hooks", home / ".ssh", home / ".cargo", tmp_path / "tmp"):
        folder.mkdir(parents=True)
    for file in (home / ".ssh" / "id", project / ".env", project / ".git" / "config", home / "notes"):
        file.write_text("x")
    profile = SandboxProfile(
        folder=project,
        read_only=(project / ".git" / "hooks", project / ".git" / "config"),
        hidden=(home / ".ssh", project / ".env"),
    )
    return SandboxedRun("make install", project, "", profile, tmp_path / "tmp")


def found(run: SandboxedRun, output: str) -> BlockedAccess | None:
    """What is found in an output, in which {out}, {home} and {project} stand for the places."""
    root = run.cwd.parent
    return find_blocked_access(
        replace(run, output=output.format(out=root, home=root / "home", project=run.cwd))
    )


@pytest.mark.parametrize(
    ("output", "action", "target", "program"),
    [
        ("touch: cannot touch '{home}/new': Read-only file system", "write", "home/new", "touch"),
        ("mkdir: cannot create directory ‘{home}/a b’: Read-only file system", "write", "home/a b", "mkdir"),
        ("cp: cannot create regular file '{home}/x': Permission denied", "write", "home/x", "cp"),
        ("bash: line 1: {home}/x: Read-only file system", "write", "home/x", "bash"),
        ("sh: 1: cannot create {home}/x: Read-only file system", "write", "home/x", "sh"),
        ("pyenv: cannot rehash: {home}/.cargo isn't writable", "write", "home/.cargo", "pyenv"),
        ("tee: ../home/x: Read-only file system", "write", "home/x", "tee"),
        (f"tee: {{home}}/{'x' * 300}: Read-only file system", "write", f"home/{'x' * 300}", "tee"),
        ("cat: {home}/.ssh/id: Permission denied", "read", "home/.ssh/id", "cat"),
        ("cat: .env: Permission denied", "read", "project/.env", "cat"),
        (
            "error: could not write config file .git/config: Read-only file system",
            "write",
            "project/.git/config",
            "make",
        ),
        (
            "fatal: cannot create directory at '{home}/repo': Read-only file system",
            "write",
            "home/repo",
            "make",
        ),
        (
            "PermissionError: [Errno 13] Permission denied: '{home}/.ssh/id'",
            "read",
            "home/.ssh/id",
            "make",
        ),
        ("OSError: [Errno 30] Read-only file system: '{home}/x'", "write", "home/x", "make"),
        ("Error: EROFS: read-only file system, open '{home}/x'", "write", "home/x", "make"),
        (
            "Error: EROFS: read-only file system, symlink '../home/lib/y' -> '{home}/x'",
            "write",
            "home/x",
            "make",
        ),
        (
            "npm ERR! code EROFS\nnpm ERR! syscall mkdir\nnpm ERR! path {home}/lib",
            "write",
            "home/lib",
            "make",
        ),
        ("open {home}/go/x: read-only file system", "write", "home/go/x", "make"),
        (
            "error: failed to create directory `{home}/.cargo/r`\n\nCaused by:\n"
            "  Read-only file system (os error 30)",
            "write",
            "home/.cargo/r",
            "make",
        ),
        (
            "java.io.FileNotFoundException: {home}/x (Read-only file system)",
            "write",
            "home/x",
            "make",
        ),
        ("Errno::EROFS: Read-only file system @ rb_sysopen - {home}/x", "write", "home/x", "make"),
        (
            "/usr/bin/ld: cannot open output file {home}/x: Read-only file system",
            "write",
            "home/x",
            "ld",
        ),
        ("mv: cannot move '.git' to 'old': Device or resource busy", "write", "project/.git", "mv"),
        (
            "mv: inter-device move failed: 'a' to '{home}/a': Invalid cross-device link",
            "write",
            "home/a",
            "mv",
        ),
        (
            "sed: couldn't open temporary file .git/hooks/sedAb1: Read-only file system",
            "write",
            "project/.git/hooks/sedAb1",
            "sed",
        ),
        (
            "lots\nof\nlines\nrm: cannot remove '{home}/notes': Read-only file system\nmake: *** Error",
            "write",
            "home/notes",
            "rm",
        ),
    ],
)
def test_a_path_beyond_the_sandbox_is_recognised(
    run: SandboxedRun, output: str, action: str, target: str, program: str
) -> None:
    refusal, place = found(run, output), str(run.cwd.parent / target)
    assert refusal is not None
    assert (refusal.action, refusal.target, refusal.program) == (action, place, program)
    assert str(refusal).startswith(f"blocked: {action} {place.removeprefix(f'{run.cwd}/')}")


def test_a_relative_path_is_one_of_the_directory_in_which_the_program_ran(run: SandboxedRun) -> None:
    own = run.cwd / "a b" / "sub" / ".git" / "config"
    own.parent.mkdir(parents=True)
    own.touch()
    profile = replace(run.profile, read_only=(*run.profile.read_only, own))
    message = "error: could not lock config file .git/config: Read-only file system"
    for line, place in {
        "git config a.b c": ".git/config",
        "git -C 'a b/sub' config a.b c": "a b/sub/.git/config",
        'cd "a b" && git -C sub config a.b c': "a b/sub/.git/config",
        "cd 'a b/sub'; git config a.b c": "a b/sub/.git/config",
        "cd 'a b' && git --git-dir ../.git config a.b c": ".git/config",
    }.items():
        refusal = found(replace(run, line=line, profile=profile), message)
        assert refusal is not None and refusal.target == str(run.cwd / place), line


def test_who_was_refused_is_reported_as_well_as_can_be_known(run: SandboxedRun) -> None:
    message = "error: could not lock config file .git/config: Read-only file system"
    for line, program in (
        ("cd x && make y", "make"),
        ("A=1 git config x", "git"),
        ("echo a; git fetch", "git"),
        ("A=1 make 'a; b' \"c|d\" >log 2>&1", "make"),
        ("cat a; make", ""),
        ("make | tail -1", ""),
        ("x() { make; }\nx", ""),
    ):
        refusal = found(replace(run, line=line), message)
        assert refusal is not None and refusal.program == program


def test_a_file_that_a_command_was_to_make_in_a_hidden_place_is_recognised(run: SandboxedRun) -> None:
    message = "bash: line 1: {home}/.ssh/log: Permission denied"
    refusal = found(replace(run, line="jq . >> ~/.ssh/log"), message)
    assert refusal is not None and (refusal.action, Path(refusal.target).name) == ("write", "log")


@pytest.mark.parametrize(
    "output",
    [
        "bash: line 1: ./script.sh: Permission denied",
        "bash: line 1: {project}/script.sh: Permission denied",
        "touch: cannot touch '/dev/full': Permission denied",
        "cat: /proc/1/environ: Permission denied",
        "bash: line 1: {out}/tmp/a: Permission denied",
        "assertion failed: expected 'read-only file system' in the message",
        "remote: Permission denied to user for repository",
        "cat: {home}/.ssh/absent: No such file or directory",
        "cat: {home}/.ssh/absent: Permission denied",
        "cat: {home}/notes: No such file or directory",
        "FAILED tests/test_a.py - assert 1 == 2",
        "fakeroot, while creating channels: Operation not permitted\n{home}/fakeroot: 1: kill: Usage: kill",
        'error during connect: Get "http://%2Fvar%2Frun%2Fdocker.sock/_ping": permission denied',
        "",
    ],
)
def test_other_failures_are_the_commands_own(run: SandboxedRun, output: str) -> None:
    assert found(run, output) is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_what_the_agent_could_not_write_either_was_not_refused_by_the_sandbox(run: SandboxedRun) -> None:
    (run.cwd.parent / "home" / "closed").mkdir(mode=0o500)
    assert found(run, "touch: cannot touch '{home}/closed/x': Permission denied") is None


@pytest.mark.parametrize(
    ("output", "host"),
    [
        ("curl: (6) Could not resolve host: crates.example", "crates.example"),
        ("fatal: unable to access 'https://git.example/a/b.git/': Could not resolve host", "git.example"),
        ("npm ERR! getaddrinfo EAI_AGAIN registry.example\nnpm ERR! network", "registry.example"),
        ("Error: getaddrinfo ENOTFOUND api.example", "api.example"),
        ("dial tcp: lookup proxy.golang.example: no such host", "proxy.golang.example"),
        ("ssh: Could not resolve hostname git.example: Temporary failure", "git.example"),
        ("HTTPSConnectionPool(host='pypi.example', port=443): Failed to resolve", "pypi.example"),
        ("ping: www.example.org: Temporary failure in name resolution", "www.example.org"),
        ("curl: CONNECT tunnel failed, response 403 for https://Files.Example/x", "files.example"),
        ("error: failed to lookup address information for index.example: Name or", "index.example"),
        ("connect: Network is unreachable", NO_HOST),
        ("WARNING: Retrying after connection broken: Network is unreachable", NO_HOST),
    ],
)
def test_a_host_beyond_the_sandbox_is_recognised(run: SandboxedRun, output: str, host: str) -> None:
    refusal = found(run, output)
    assert refusal is not None and (refusal.action, refusal.target) == ("reach", host)
    assert refusal.program != "WARNING"


def test_what_the_proxy_refused_is_known_whatever_the_command_wrote(run: SandboxedRun) -> None:
    refused = replace(run, hosts=("index.example",), output="it did not work", line="cd x && cargo build")
    assert find_blocked_access(refused) == BlockedAccess("reach", "index.example", "cargo")


def test_a_host_that_only_the_command_line_names_is_found_there(run: SandboxedRun) -> None:
    line = "wget -q https://files.example/a.tgz"
    refusal = find_blocked_access(replace(run, line=line, output="wget: Network is unreachable"))
    assert refusal == BlockedAccess("reach", "files.example", "wget")


@pytest.mark.parametrize(
    ("line", "output", "refused"),
    [
        ("touch {home}/x; echo done", "touch: cannot touch '{home}/x': Read-only file system\ndone", True),
        ("echo 1 > {home}/x | tail", "bash: line 1: {home}/x: Read-only file system", True),
        ("curl -sS https://a.example 2>&1 | tail -3", "curl: (6) Could not resolve host: a.example", True),
        ("git config a.b c; true", "error: could not lock .git/config: Read-only file system", True),
        ("cat log", "touch: cannot touch '{home}/x': Read-only file system", False),
        ("git log", "    mend 'touch: cannot touch {home}/x: Read-only file system'", False),
        ("tail -f touch.log", "touch: cannot touch '{home}/x': Read-only file system", False),
    ],
)
def test_a_line_that_ended_well_was_refused_what_its_own_programs_say(
    run: SandboxedRun, line: str, output: str, refused: bool
) -> None:
    home = str(run.cwd.parent / "home")
    passed = replace(run, line=line.format(home=home), output=output.format(home=home), failed=False)
    refusal = find_blocked_access(passed)
    assert (refusal is not None) is refused
    assert refusal is None or refusal.output == passed.output


def test_the_own_machine_is_within_the_sandbox(run: SandboxedRun) -> None:
    assert found(run, "getaddrinfo failed for http://localhost:8080/") is None
    assert found(run, "curl: (7) Failed to connect to localhost port 80: Connection refused") is None


@pytest.mark.parametrize(
    ("line", "output"),
    [
        (
            "curl -sS localhost:{port}",
            "curl: (7) Failed to connect to localhost port {port} after 0 ms",
        ),
        ("curl -s localhost:{port}/x", ""),
        ("curl -so x -w '%{{http_code}}' localhost:{port}/x", "000\n"),
        ("npm test", "Error: connect ECONNREFUSED 127.0.0.1:{port}"),
        (
            "psql -h localhost -p {port}",
            'connection to server at "localhost" (127.0.0.1), port {port} failed: Connection refused',
        ),
        ("python x.py http://127.0.0.1:{port}", "<urlopen error [Errno 111] Connection refused>"),
        ("go test ./...", "dial tcp [::1]:{port}: connect: connection refused"),
        (
            "python -c 'connect((\"127.0.0.1\", {port}))'",
            "ConnectionRefusedError: [Errno 111] Connection refused",
        ),
        ("python x.py", "HTTPConnectionPool(host='localhost', port={port}): [Errno 111] Connection refused"),
        ("perl -e 'new(PeerAddr=>\"127.0.0.1\",PeerPort=>{port})'", "Connection refused at -e line 1."),
        ("python x.py", "[Errno 111] Connect call failed ('127.0.0.1', {port})"),
        (
            "python x.py",
            "  connect(('localhost', {port}))\nConnectionRefusedError: [Errno 111] Connection refused",
        ),
        ("node -e 'connect({{host: \"localhost\", port: {port}}})'", "connect ECONNREFUSED"),
    ],
)
def test_a_server_outside_the_sandbox_is_recognised(run: SandboxedRun, line: str, output: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        failed = replace(run, line=line.format(port=port), output=output.format(port=port))
        refusal = find_blocked_access(failed)
        assert refusal is not None and str(refusal).startswith(f"blocked: reach localhost:{port}")
        assert find_blocked_access(replace(failed, loopback=False)) == refusal  # with Landlock as well
        assert find_blocked_access(replace(failed, published=[port])) is None
    assert find_blocked_access(failed) is None  # nothing listens there now
    assert find_blocked_access(replace(failed, output="", failed=False)) is None


def low_server() -> socket.socket:
    """Listen on a port that is not one of those for clients."""
    for port in range(3_000, 30_000):
        with suppress(OSError):
            return socket.create_server(("127.0.0.1", port))
    raise AssertionError("all ports are in use")


def test_a_refused_connection_without_an_address_is_explained_by_the_servers_outside(
    run: SandboxedRun,
) -> None:
    failed = replace(
        run, line="python app.py", output="ConnectionRefusedError: [Errno 111] Connection refused"
    )
    with low_server() as server:
        port = server.getsockname()[1]
        assert find_blocked_access(failed) is None
        assert f"{port}" in unnamed_refusal(failed)
        assert "localhost:" in unnamed_refusal(failed)
        assert f"{port}" not in unnamed_refusal(replace(failed, published=[port]))
        assert unnamed_refusal(replace(failed, line="make", loopback=False)) == ""
        assert unnamed_refusal(replace(failed, output="no such file")) == ""


def test_a_link_that_could_not_be_removed_is_named_itself(run: SandboxedRun) -> None:
    """Not the file that it leads to, for which the question would offer a rule."""
    link = run.cwd / ".git/hooks/pre-commit"
    link.symlink_to(run.cwd.parent / "home/notes")
    removing = found(run, f"rm: cannot remove '{link}': Read-only file system")
    writing = found(run, f"tee: {link}: Read-only file system")
    assert removing is not None and removing.target == str(link)
    assert writing is not None and writing.target.endswith("home/notes")


def test_a_socket_that_is_missing_outside_as_well_is_said_to_be(run: SandboxedRun) -> None:
    """The client says that permission is denied, as if the permissions of the socket were the cause."""
    folder = run.profile.hidden[0]
    output = f'psql: error: connection to server on socket "{folder}/.s.PGSQL.5432" failed: Permission denied'
    failed = replace(run, line="psql -c 'select 1'", output=output)
    assert find_blocked_access(failed) is None
    for refused in (failed, replace(failed, loopback=False)):  # with Landlock as well
        assert unnamed_refusal(refused) == (
            f"{folder}/.s.PGSQL.5432 is hidden in the sandbox, but nothing is there outside either"
        )
    (folder / ".s.PGSQL.5432").touch()
    assert unnamed_refusal(failed) == ""


def test_a_file_of_the_system_is_said_to_be_another_users(
    run: SandboxedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program says that the file system is read-only, which the model would believe."""
    place = run.cwd.parent / "home/tool"
    refused = replace(run, line="touch tool", output=f"touch: cannot touch '{place}': Read-only file system")
    assert unnamed_refusal(replace(refused, output=f"touch: cannot touch '{place}': Permission denied")) == ""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert find_blocked_access(refused) is None
    note = f"{place} is read-only in the sandbox, and this user may not write it outside either"
    assert unnamed_refusal(refused) == unnamed_refusal(replace(refused, loopback=False)) == note


@pytest.mark.parametrize(
    ("line", "output", "noted"),
    [
        ("lsof -ti :3000 | xargs -r kill", "", True),
        ("ss -ltnp | grep :3000", "", True),
        ("ps aux | grep '[n]ode'", "", True),
        ("kill 4711", "bash: line 1: kill: (4711) - No such process", True),
        ("tmux send-keys -t dev 'npm test' Enter", "no server running on /tmp/tmux-0/default", True),
        ("ss -ltn | head -3", "State Recv-Q Local Address:Port\nLISTEN 0 127.0.0.1:52379", True),
        ("lsof -i :3000", "node 12 me 20u IPv4 TCP *:3000 (LISTEN)", False),
        ("grep lsof notes", "", False),
    ],
)
def test_a_program_that_found_no_process_is_told_that_it_does_not_see_those_outside(
    run: SandboxedRun, line: str, output: str, noted: bool
) -> None:
    ended = replace(run, line=line, output=output, failed=not line.startswith("lsof"))
    assert unnamed_refusal(ended).startswith("commands see only the processes") == noted
    assert unnamed_refusal(replace(ended, loopback=False)) == ""  # with Landlock they do


def test_a_refused_log_of_the_kernel_is_explained_also_at_the_start_of_a_pipeline(run: SandboxedRun) -> None:
    refused = "dmesg: read kernel buffer failed: Operation not permitted"
    ended = replace(run, line="dmesg | tail -1", output=refused, failed=False)
    for each in (ended, replace(ended, loopback=False)):
        assert unnamed_refusal(each) == "commands cannot read the log of the kernel in the sandbox"


def test_a_silent_client_in_a_pipeline_was_blocked_if_a_server_listens_outside(run: SandboxedRun) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        piped = replace(run, line=f"curl -s localhost:{port}/api | jq .", output="", failed=False)
        assert str(find_blocked_access(piped)).startswith(f"blocked: reach localhost:{port}")
        assert find_blocked_access(replace(piped, line=f"curl -s localhost:{port} || true")) is not None
        assert find_blocked_access(replace(piped, line=f"echo localhost:{port} | sort >a")) is None
        assert find_blocked_access(replace(piped, output="3 items")) is None  # of a server in the sandbox
    assert find_blocked_access(piped) is None


def test_a_silent_client_was_blocked_where_there_is_no_network(run: SandboxedRun) -> None:
    silent = replace(run, line="wget -q https://files.example/a", output="", loopback=False)
    assert str(find_blocked_access(silent)) == "blocked: reach files.example (wget)"
    assert find_blocked_access(replace(silent, loopback=True)) is None  # the proxy knows
    assert find_blocked_access(replace(silent, failed=False)) is None
    assert find_blocked_access(replace(silent, line="false")) is None


@pytest.mark.parametrize(
    ("line", "output", "noted"),
    [
        ("npm i | tail -1", "npm error A complete log of this run can be found in: /tmp/x.log", True),
        ("npm --silent ci; echo $?", "1", True),
        ("npm i 2>/dev/null | tail -1", "", True),
        ("pip install -q x 2>&1 | tail -1", "ERROR: No matching distribution found for x", True),
        ("npm i | tail -1", "up to date in 2s", False),
        ("git pull | tail -1", "Already up to date.", False),
        ("cargo build 2>&1 | tail -1", "Could not resolve hostname (index.crates.io)", True),
        ("pip list --outdated | head -1", "[Errno -2] Name or service not known", True),
        ("(go run . >log &); curl -s localhost:81; tail -1 log", "dial udp: network is unreachable", True),
        ("tail -1 build.log", "curl: (6) Could not resolve host: a.example", False),
        ("npm test | tail -1", "1 failed", False),
        ("grep -r curl . | tail -1", "a.sh: curl: error", False),
    ],
)
def test_a_client_whose_exit_code_is_lost_is_explained_where_there_is_no_network(
    run: SandboxedRun, line: str, output: str, noted: bool
) -> None:
    ended = replace(run, line=line, output=output, loopback=False, failed=False)
    assert find_blocked_access(ended) is None
    assert unnamed_refusal(ended).startswith("no network: ") == noted
    assert unnamed_refusal(replace(ended, loopback=True)) == ""
    is_client = noted or line.startswith(("npm i", "git"))
    assert bool(unnamed_refusal(replace(ended, failed=True))) == is_client


def test_a_client_that_prints_without_its_name_was_blocked_in_a_pipeline(run: SandboxedRun) -> None:
    output = "802B:error:10080002:BIO routines:BIO_lookup_ex:Temporary failure in name resolution"
    line = "openssl s_client -connect files.example:443 </dev/null 2>&1 | head -1"
    piped = replace(run, line=line, output=output, failed=False)
    assert str(find_blocked_access(piped)).startswith("blocked: reach ")
    assert find_blocked_access(replace(piped, line="cat server.log | head -1")) is None


def test_our_own_files_are_no_reason_to_ask(run: SandboxedRun) -> None:
    records = run.cwd / ".transcripts"
    records.mkdir()
    output = "warning: failed to remove .transcripts/: Device or resource busy"
    failed = replace(
        run, profile=replace(run.profile, records=(records,)), line="git clean -fdx", output=output
    )
    assert find_blocked_access(failed) is None
    assert "belong to makeroom" in (hint(failed.line, output) or "")


def test_a_socket_of_a_service_outside_is_recognised(run: SandboxedRun) -> None:
    place = run.cwd.parent / "home" / ".ssh" / "s"
    output = f"Cannot connect to the daemon at unix://{place}. Is the docker daemon running?"
    assert find_blocked_access(replace(run, output=output)) is None
    curl = f"curl --unix-socket {place} http://x/info"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        for line, told in (("make up", output), (curl, "curl: (7) Couldn't connect to server")):
            refusal = find_blocked_access(replace(run, line=line, output=told))
            assert refusal is not None and (refusal.action, refusal.target) == ("reach", str(place))


def test_a_push_to_a_directory_outside_is_recognised(run: SandboxedRun) -> None:
    place = run.cwd.parent / "home"
    message = f"error: remote unpack failed: unable to create temporary object directory\nTo {place}\n"
    refusal = find_blocked_access(replace(run, line="git push ../home", output=message))
    assert refusal is not None and str(refusal) == f"blocked: write {place} (git)"


def test_a_url_near_a_message_names_no_path_and_a_host_precedes_settings(run: SandboxedRun) -> None:
    near = "W: failed - Setup (30: Read-only file system)\nErr:1 http://deb.example/debian x InRelease"
    assert found(run, near) is None
    output = "Cannot read {home}/.ssh/id (Permission denied).\nwget: unable to resolve host: files.example: x"
    host = "Could not resolve host: files.example"
    refusal = found(replace(run, line="wget x"), f"{output}\n{host}")
    assert refusal is not None and refusal.target == "files.example"


def test_a_project_that_is_read_only_refuses_its_files_too(run: SandboxedRun) -> None:
    closed = replace(run, profile=replace(run.profile, project_writable=False))
    refusal = found(closed, "touch: cannot touch 'new file': Read-only file system")
    assert str(refusal) == "blocked: write new file (touch)"
    assert found(run, "touch: cannot touch 'new file': Read-only file system") is None


@each_row(
    "frame",
    [
        '  File "/usr/lib/python3.11/shutil.py", line 681, in _rmtree_safe_fd',
        "    at Object.rmSync (/usr/lib/node_modules/x/fs.js:1233:14)",
        "/usr/lib/ruby/fileutils.rb:12:in `unlink'",
    ],
)
def test_the_code_of_a_stack_trace_is_not_blocked(tmp_path: Path, frame: str) -> None:
    output = f"Traceback:\n{frame}\nOSError: [Errno 16] Device or resource busy: 'config'\n{frame}"
    profile = SandboxProfile(tmp_path, read_only=(tmp_path / ".git/config",))
    assert find_blocked_access(SandboxedRun("python3 x.py", tmp_path, output, profile)) is None


def test_git_deletes_a_branch_although_it_cannot_change_its_settings(run: SandboxedRun) -> None:
    """A question would come after the effect, and a rerun would find no branch."""
    told = "error: could not write config file .git/config: Device or resource busy"
    output = f"{told}\nwarning: Update of config-file failed\nerror: branch 'x' not found."
    line = replace(run, line="git branch -D a x")
    assert find_blocked_access(replace(line, output=output)) is None
    assert find_blocked_access(replace(line, output=told)) is not None


def test_a_search_that_meets_a_secret_on_its_way_is_not_a_reason_to_ask(run: SandboxedRun) -> None:
    output = "grep: {home}/.ssh: Permission denied"
    assert found(replace(run, line="grep -r token ~"), output) is None
    assert found(replace(run, line="grep token ~/.ssh/id"), output) is not None


def test_a_search_writes_nothing_where_it_may_not_look(run: SandboxedRun) -> None:
    message = f"grep: {run.cwd.parent}/home/kept: Permission denied"
    assert find_blocked_access(replace(run, line="grep -r word ../home", output=message)) is None


def test_a_place_that_the_user_allowed_is_not_forbidden(run: SandboxedRun) -> None:
    home = run.cwd.parent / "home"
    wider = replace(run.profile, writable=(home / ".cargo",), hidden=())
    assert forbidden_action(run.profile, home / ".cargo" / "x") == "write"
    assert forbidden_action(wider, home / ".cargo" / "x") is None
    assert forbidden_action(run.profile, home / ".ssh") == "read"
    assert forbidden_action(wider, home / ".ssh") == "write"


def test_an_endless_output_is_judged_by_its_end_and_at_once(run: SandboxedRun) -> None:
    noise = "'" * 3_000_000 + "\n" + "permission denied: '" * 100_000
    assert found(run, noise) is None
    assert found(run, noise + "\ntouch: cannot touch '{home}/x': Read-only file system") is not None


def test_an_allowed_host_without_a_connection_is_not_blocked(run: SandboxedRun) -> None:
    message = "curl: (56) CONNECT tunnel failed, response 502"
    assert found(replace(run, line="curl https://a.example", failed=True), message) is not None
    unreached = replace(run, line="curl https://a.example", unreached=("a.example cannot be resolved",))
    assert found(unreached, message) is None
    other = found(replace(unreached, hosts=("b.example",)), message)
    assert other is not None and other.target == "b.example"

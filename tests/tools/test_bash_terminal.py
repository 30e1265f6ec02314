"""A command gets no terminal, no credential and no say over where we are: rows B11-B15 of the list of faults
that command tools have.

What of B11 a person's screen shows (the terminal's state after the whole program) is tested with the screen.
"""

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.base import ToolError

from .workbench import GUARD, MODES, Bench, text

DRIVER = Path(__file__).with_name("driver.py")
KEY = "sk-ant-SENTINEL-0123456789abcdef"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path.resolve())
    yield bench
    bench.close()
    assert not bench.survivors()
    bench.runner.close()


INTERACTIVE = {
    "vim": "vim f",
    "vi": "cd . && vi",
    "nano": "nano f",
    "emacs": "emacs -nw f",
    "less": "less /etc/passwd",
    "man": "man ls",
    "top": "top",
    "read": "read answer",
    "cat": "cat",
    "python3": "python3",
    "node": "node",
    "bash": "bash -i",
    "sudo": "sudo true",
    "su": "su nobody",
    "passwd": "passwd",
    "ssh": "ssh -o ConnectTimeout=2 nowhere.invalid",
    "npm": "npm init",
    "gpg": "gpg --sign f",
    "git": "git commit",
}
WITH_ADVICE = {"vim": "edit or write", "vi": "edit or write", "node": "use -c, -e", "python3": "use -c, -e"}


@pytest.mark.parametrize("program", INTERACTIVE)
def test_B11_an_interactive_program_ends_soon_and_the_result_says_what_to_do(
    bench: Bench, program: str
) -> None:
    if shutil.which(program) is None and program != "read":
        pytest.skip(f"there is no {program} here")
    bench.limit(editor=0.5, timeout=GUARD)
    bench.run("git init -q; git config user.name N; git config user.email e@x; echo x >f; git add f")
    outcome = bench.run(INTERACTIVE[program])
    assert "timed out" not in text(outcome)
    assert WITH_ADVICE.get(program, "") in text(outcome)


def test_B11_git_does_not_open_an_editor_nor_ask_for_a_password(bench: Bench) -> None:
    bench.limit(timeout=GUARD)
    bench.run("git init -q; git config user.name N; git config user.email e@x")
    bench.run("for n in 1 2 3; do git commit -q --allow-empty -m c$n; done")
    assert "git commit -m" in bench.say("git commit --allow-empty")
    assert bench.run("git rebase -i HEAD~2").about == {"exit": 0}
    assert bench.run("git log; git diff --stat HEAD~1; git help commit | head -1").about == {"exit": 0}
    asking = "git -c credential.helper='!echo' clone -q http://127.0.0.1:9/x.git"
    assert bench.run(asking).about == {"exit": 128}


def test_B11_a_question_at_the_time_limit_is_pointed_out(bench: Bench) -> None:
    bench.limit(quiet=0.1)
    said = bench.say("printf 'Overwrite f? [y/N] '; sleep 300", timeout=300)
    assert "the last line looks like a question" in said
    said = bench.say("echo 'Compiling:'; sleep 300", timeout=300)
    assert "question" not in said


@pytest.mark.parametrize(
    "command",
    [
        "vim -es -c 'wq' f",
        "vim -Nu NONE -es +'%s/x/y/' +wq f",
        "ex -s f -c wq",
        "echo vim",
        "ls vi.txt; true",
    ],
)
def test_an_editor_as_a_batch_tool_is_let_be(bench: Bench, command: str) -> None:
    if shutil.which("vim") is None:
        pytest.skip("there is no vim here")
    bench.limit(editor=0.001)
    assert "an editor waits" not in bench.say(f"echo x >f; {command}")


@pytest.fixture
def terminal() -> Iterator[int]:
    """The far end of a terminal, as a person's shell would have it."""
    near, far = os.openpty()
    yield far
    os.close(near)
    os.close(far)


def drive(folder: Path, far: int, *commands: str, mode: str = "namespace") -> list[str]:
    """Run commands by an agent whose controlling terminal is `far`; their texts."""
    argv = ["setsid", "--ctty", "--wait", sys.executable, str(DRIVER), str(folder), mode, "20000", *commands]
    done = subprocess.run(argv, stdin=far, capture_output=True, text=True, timeout=2 * GUARD, check=True)
    ready, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    if ready["ready"] != mode:
        pytest.skip(f"this system gives no {mode}")
    return [line["text"] for line in lines]


def test_B11_the_terminal_is_left_as_it_was(tmp_path: Path, terminal: int) -> None:
    before = termios.tcgetattr(terminal)
    drive(
        tmp_path,
        terminal,
        "stty raw -echo </dev/tty",
        "stty raw; read x; bash -i; top -b -n1; less /etc/passwd",
    )
    assert termios.tcgetattr(terminal) == before


@pytest.mark.parametrize("mode", MODES)
def test_B12_there_is_no_controlling_terminal(tmp_path: Path, terminal: int, mode: str) -> None:
    said, tty, pids = drive(tmp_path, terminal, "echo x >/dev/tty", "tty", "ps -o tty= -p $$", mode=mode)
    assert "/dev/tty: No such device or address" in said
    assert tty.startswith("not a tty")
    assert pids.strip() == "?"


INJECT = """python3 - <<'EOF'
import fcntl, glob, os, termios
for name in ["/dev/tty", "/dev/console", *glob.glob("/dev/pts/[0-9]*")]:
    try:
        fd = os.open(name, os.O_RDWR)
        for char in b"touch stolen\\n":
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([char]))
        print("injected into", name)
    except OSError as error:
        print(name, error.strerror)
EOF"""


def test_B13_nothing_can_be_typed_into_the_persons_terminal(tmp_path: Path, terminal: int) -> None:
    (said,) = drive(tmp_path, terminal, INJECT)
    assert "/dev/tty No such device or address" in said
    assert "injected into /dev/pts" not in said
    waiting = fcntl.ioctl(terminal, termios.FIONREAD, struct.pack("i", 0))
    assert struct.unpack("i", waiting) == (0,)


SECRETS = {
    "ANTHROPIC_API_KEY": KEY,
    "ANTHROPIC_AUTH_TOKEN": "bearer-token",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    "OPENAI_API_KEY": "x",
    "MY_SERVICE_APIKEY": "x",
    "GH_TOKEN": "x",
    "GITHUB_TOKEN": "x",
    "NPMTOKEN": "x",
    "CLIENT_SECRET": "x",
    "SECRET_KEY_BASE": "x",
    "DB_PASSWORD": "x",
    "PGPASSWORD": "x",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
    "AWS_SESSION_TOKEN": "x",
    "AZURE_CLIENT_ID": "x",
    "SSH_PRIVATE_KEY": "x",
    "GOOGLE_CREDENTIALS": "x",
    "INNOCENT": KEY,
    "SHAPED": "ghp_" + "a" * 36,
}
HARMLESS = {
    "TOKENIZERS_PARALLELISM": "false",
    "SSH_AUTH_SOCK": "/run/agent",
    "KEYBOARD": "us",
    "MONKEY": "1",
    "HOME": "/home/x",
    "HTTP_PROXY": "http://p:1",
    "XAUTHORITY": "/x",
    "MAX_TOKENIZED": "5",
}


def test_B14_credentials_are_taken_out_of_the_environment_and_nothing_else(bench: Bench) -> None:
    bench.context.environ = {**bench.context.environ, **SECRETS, **HARMLESS}
    names = {line.partition("=")[0] for line in bench.say("env").splitlines()}
    assert not names & SECRETS.keys()
    assert names >= HARMLESS.keys()


def test_B14_a_person_may_let_a_variable_pass(bench: Bench) -> None:
    bench.context.environ = {**bench.context.environ, **SECRETS}
    bench.context.passed = frozenset(("GH_TOKEN",))
    assert bench.say("echo $GH_TOKEN-$GITHUB_TOKEN-") == "x--"


STEAL = (
    "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'sk-ant-SENTINE[L]'"
)


def test_B14_the_agents_own_environment_cannot_be_read_from_a_command(tmp_path: Path) -> None:
    environ = {**os.environ, "ANTHROPIC_API_KEY": KEY}
    argv = [
        sys.executable,
        str(DRIVER),
        str(tmp_path),
        "namespace",
        "20000",
        STEAL,
        "cat /proc/$PPID/environ",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=GUARD, check=True, env=environ)
    ready, stolen, parent = [json.loads(line) for line in done.stdout.splitlines()]
    if ready["ready"] != "namespace":
        pytest.skip("this system gives no namespace")
    assert stolen["text"].startswith("0\n")
    assert KEY not in parent["text"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that another user may work in; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", MODES)
def test_B14_nor_by_another_process_of_an_ordinary_user(shared: Path, mode: str) -> None:
    """Root can read what it likes where there is no namespace; an ordinary user cannot."""
    python, drop = sys.executable, []
    if os.geteuid() == 0:
        python = "/usr/bin/python3"
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
        if shutil.which("setpriv") is None or _version(python) != sys.version_info[:2]:
            pytest.skip("no way to be an ordinary user here with a Python that has what we need")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": packages, "ANTHROPIC_API_KEY": KEY, "HOME": "/tmp"}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    argv = [*drop, python, str(DRIVER), str(shared), mode, "20000", STEAL, "id -u", "setsid -f sleep 300"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=GUARD, env=environ, cwd="/")
    assert done.returncode == 0, done.stderr
    ready, stolen, user, left = [json.loads(line) for line in done.stdout.splitlines()]
    if ready["ready"] != mode:
        pytest.skip(f"this system gives an ordinary user no {mode}")
    assert stolen["text"].startswith("0\n")
    assert user["text"] != "0"
    assert "still running" in left["text"]


def _version(python: str) -> tuple[int, ...]:
    try:
        ask = [python, "-c", "import sys; print(*sys.version_info[:2])"]
        done = subprocess.run(ask, capture_output=True, text=True, check=True)
    except OSError:
        return ()
    return tuple(int(part) for part in done.stdout.split())


def test_B15_the_folder_carries_over(bench: Bench) -> None:
    bench.run("mkdir -p 'a dir/b' && cd 'a dir'")
    assert bench.say("pwd") == str(bench.folder / "a dir")
    bench.run("cd b; false")
    assert bench.say("pwd") == str(bench.folder / "a dir" / "b")


LEAVING = {
    "exit": "cd sub; exit 3",
    "set -e": "set -e; cd sub; false; cd /",
    "set -eu": "set -eu; cd sub; echo $nothing",
    "kill": "cd sub; kill $$",
    "pushd": "pushd sub >/dev/null",
    "noclobber": "set -C; cd sub",
    "xtrace": "set -x; cd sub",
    "closed": "exec >&- 2>&-; cd sub",
    "function": "pwd() { echo /; }; cd sub",
    "alias": "shopt -s expand_aliases; alias pwd='echo /'; cd sub",
    "PWD": "cd sub; PWD=/",
    "link": "ln -sfn sub link; cd link",
    "stdin": "cd sub <<EOF\n/\nEOF",
}


@pytest.mark.parametrize("command", LEAVING.values(), ids=LEAVING)
def test_B15_the_folder_carries_over_however_the_shell_ends(bench: Bench, command: str) -> None:
    (bench.folder / "sub").mkdir()
    said = bench.say(command)
    assert bench.context.cwd == bench.folder / "sub"
    assert "MAKEROOM" not in said
    assert "/tmp/makeroom" not in said


STAYING = {
    "subshell": "(cd sub)",
    "failed": "cd nowhere",
    "pushd popd": "pushd sub >/dev/null; popd >/dev/null",
    "exec": "cd sub; exec true",
    "kill -9": "cd sub; kill -9 $$",
    "own trap": "trap 'echo bye' EXIT; cd sub",
    "printed": "echo sub; echo $PWD/sub",
    "pipe": "cd sub | cat",
    "background": "cd sub &",
    "child": "bash -c 'cd sub'",
    "variable": "MAKEROOM_CWD=/tmp/x; BASH_ENV=/tmp/y",
}


@pytest.mark.parametrize("command", STAYING.values(), ids=STAYING)
def test_B15_nothing_else_moves_or_corrupts_it(bench: Bench, command: str) -> None:
    (bench.folder / "sub").mkdir()
    bench.run(command)
    assert bench.say("pwd") == str(bench.folder)


def test_B15_a_way_out_of_the_project_holds_for_one_command(bench: Bench) -> None:
    said = bench.say("cd /; pwd")
    assert said.startswith("/\n[the command ended in /, outside the project; the next one runs in ")
    assert bench.say("pwd") == str(bench.folder)
    sibling = bench.folder.with_name(bench.folder.name + "-sibling")
    sibling.mkdir()
    assert "outside the project" in bench.say(f"cd {sibling}")


def test_B15_a_folder_that_is_gone_is_left_with_a_note(bench: Bench) -> None:
    said = bench.say("mkdir -p sub/deep; cd sub/deep; rm -rf ../../sub")
    assert bench.say("pwd") == str(bench.folder)
    bench.run("mkdir sub; cd sub")
    shutil.rmtree(bench.folder / "sub")
    said = bench.say("pwd")
    assert said == f"{bench.folder}\n[{bench.folder}/sub is gone; this command ran in {bench.folder}]"
    assert bench.say("pwd") == str(bench.folder)


def test_B15_a_project_that_is_gone_is_an_error_that_says_so(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    bench = Bench(folder)
    said = bench.say("rm -rf $PWD; echo gone")
    assert said.startswith("gone")
    with pytest.raises(ToolError, match="bring it back"):
        bench.run("true")
    folder.mkdir()
    assert bench.say("echo back") == "back"
    bench.close()
    bench.runner.close()


def test_B15_names_with_newlines_and_odd_bytes_carry_over(bench: Bench) -> None:
    bench.run("mkdir -p $'new\\nline\\n/caf\\xe9 \"q\\'' && cd $'new\\nline\\n/caf\\xe9 \"q\\''")
    assert os.fsencode(bench.context.cwd).endswith(b"new\nline\n/caf\xe9 \"q'")
    bench.run("touch here")
    assert (bench.context.cwd / "here").exists()


def test_restart_goes_back_to_the_project(bench: Bench) -> None:
    bench.run("mkdir sub; cd sub")
    assert bench.say(restart=True) == f"Commands run in {bench.folder} again."
    bench.run("cd sub")
    assert bench.say("pwd", restart=True) == str(bench.folder)

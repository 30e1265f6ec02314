"""A command gets no terminal and no credential, and its directory carries over only within the project."""

import fcntl
import json
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import bash, monitor
from tools.files import FileError

from .bash_session import GUARD_S, MODES, BashSession, text

BASH_PROCESS = Path(__file__).with_name("bash_process.py")
KEY = "sk-ant-SENTINEL-0123456789abcdef"


INTERACTIVE = {
    "vim": "vim f",
    "vi": "cd . && vi",
    "nano": "nano f",
    "emacs": "emacs -nw f",
    "less": "less /etc/passwd",
    "man": "man ls",
    "top": "top",
    "watch": "watch -n1 date",
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
WITH_ADVICE = {"vim": "edit or write", "vi": "edit or write", "watch": "run the command itself"}
WITH_ADVICE |= {"node": "use -c, -e", "python3": "use -c, -e"}


@pytest.mark.parametrize("program", INTERACTIVE)
def test_an_interactive_program_ends_soon_and_the_result_says_what_to_do(
    shell: BashSession, program: str
) -> None:
    if shutil.which(program) is None and program != "read":
        pytest.skip(f"there is no {program} here")
    shell.limit(editor_s=0.2, timeout_s=GUARD_S)
    shell.run("echo x >f")
    if program == "git":
        shell.run("git init -q; git config user.name N; git config user.email e@x; git add f")
    result = shell.run(INTERACTIVE[program])
    assert "timed out" not in text(result)
    ended = "getchar()" in text(result)  # newer ones of `watch` end by themselves
    assert ended or WITH_ADVICE.get(program, "") in text(result)


def test_git_does_not_open_an_editor_nor_ask_for_a_password(shell: BashSession) -> None:
    shell.limit(timeout_s=GUARD_S)
    shell.run("git init -q; git config user.name N; git config user.email e@x")
    shell.run("for n in 1 2 3; do git commit -q --allow-empty -m c$n; done")
    assert "git commit -m" in shell.say("git commit --allow-empty")
    assert shell.run("git rebase -i HEAD~2").about == {"exit": 0}
    assert shell.run("git log; git diff --stat HEAD~1; git help commit | head -1").about == {"exit": 0}
    asking = "git -c credential.helper='!echo' clone -q http://127.0.0.1:9/x.git"
    assert shell.run(asking).about == {"exit": 128}


def test_a_question_at_the_time_limit_is_pointed_out(shell: BashSession) -> None:
    shell.limit(quiet_s=0.1)
    said = shell.timed_out("printf 'Overwrite f? [y/N] '; sleep 300", "looks like a prompt")
    assert "the last line looks like a prompt" in said
    said = shell.timed_out("echo 'Compiling:'; sleep 300", "Compiling")
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
def test_an_editor_as_a_batch_tool_is_let_be(shell: BashSession, command: str) -> None:
    if shutil.which("vim") is None:
        pytest.skip("there is no vim here")
    shell.limit(editor_s=0.001)
    assert "keyboard input" not in shell.say(f"echo x >f; {command}")


@pytest.fixture
def terminal() -> Iterator[int]:
    """The far end of a terminal, as a user's shell would have it."""
    near, far = os.openpty()
    yield far
    os.close(near)
    os.close(far)


def drive(folder: Path, far: int, *commands: str, mode: str = "namespace") -> list[str]:
    """Run commands by an agent whose controlling terminal is `far`; their texts."""
    argv = ["setsid", "--ctty", "--wait", sys.executable, str(BASH_PROCESS), str(folder), mode, "20000"]
    argv += commands
    done = subprocess.run(argv, stdin=far, capture_output=True, text=True, timeout=2 * GUARD_S, check=True)
    ready, *lines = [json.loads(line) for line in done.stdout.splitlines()]
    if ready["ready"] != mode:
        pytest.skip(f"this system gives no {mode}")
    return [line["text"] for line in lines]


def test_the_terminal_is_left_unchanged(tmp_path: Path, terminal: int) -> None:
    before = termios.tcgetattr(terminal)
    drive(
        tmp_path,
        terminal,
        "stty raw -echo </dev/tty",
        "stty raw; read x; bash -i; top -b -n1; less /etc/passwd",
    )
    assert termios.tcgetattr(terminal) == before


@pytest.mark.parametrize("mode", MODES)
def test_there_is_no_controlling_terminal(tmp_path: Path, terminal: int, mode: str) -> None:
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


def test_nothing_can_be_typed_into_the_users_terminal(tmp_path: Path, terminal: int) -> None:
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


def test_credentials_are_taken_out_of_the_environment_and_nothing_else(shell: BashSession) -> None:
    shell.context.environ = {**shell.context.environ, **SECRETS, **HARMLESS}
    names = {line.partition("=")[0] for line in shell.say("env").splitlines()}
    assert not names & SECRETS.keys()
    assert names >= HARMLESS.keys()


def test_a_user_may_let_a_variable_pass(shell: BashSession) -> None:
    shell.context.environ = {**shell.context.environ, **SECRETS}
    shell.context.pass_env = frozenset(("GH_TOKEN",))
    assert shell.say("echo $GH_TOKEN-$GITHUB_TOKEN-") == "x--"


STEAL = (
    "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c 'sk-ant-SENTINE[L]'"
)


def test_the_agents_own_environment_cannot_be_read_from_a_command(tmp_path: Path) -> None:
    environ = {**os.environ, "ANTHROPIC_API_KEY": KEY}
    argv = [
        sys.executable,
        str(BASH_PROCESS),
        str(tmp_path),
        "namespace",
        "20000",
        STEAL,
        "cat /proc/$PPID/environ",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=GUARD_S, check=True, env=environ)
    ready, stolen, parent = [json.loads(line) for line in done.stdout.splitlines()]
    if ready["ready"] != "namespace":
        pytest.skip("this system gives no namespace")
    assert stolen["text"].startswith("0\n")
    assert KEY not in parent["text"]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory that another user may work in; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="shared-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", MODES)
def test_the_agents_environment_cannot_be_read_by_another_process_of_an_ordinary_user(
    shared: Path, mode: str
) -> None:
    """Without a namespace root can read everything; an ordinary user cannot."""
    python, drop = sys.executable, []
    if os.geteuid() == 0:
        python = "/usr/bin/python3"
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]
        if shutil.which("setpriv") is None or _version(python) != sys.version_info[:2]:
            pytest.skip("no way to be an ordinary user here with a Python that has what we need")
        if any(not folder.stat().st_mode & stat.S_IXOTH for folder in BASH_PROCESS.parents):
            pytest.skip("this checkout is in a directory that is closed to ordinary users")
    packages = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    home = shared / "home"
    home.mkdir()
    home.chmod(0o777)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": packages, "ANTHROPIC_API_KEY": KEY}
    environ |= {"HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = [*drop, python, str(BASH_PROCESS), str(shared), mode, "20000"]
    argv += [STEAL, "id -u", "setsid -f sleep 300"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=GUARD_S, env=environ, cwd="/")
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


def test_the_directory_carries_over(shell: BashSession) -> None:
    shell.run("mkdir -p 'a dir/b' && cd 'a dir'")
    assert shell.say("pwd") == str(shell.folder / "a dir")
    shell.run("cd b; false")
    assert shell.say("pwd") == str(shell.folder / "a dir" / "b")


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
def test_the_directory_carries_over_however_the_shell_ends(shell: BashSession, command: str) -> None:
    (shell.folder / "sub").mkdir()
    said = shell.say(command)
    assert shell.context.cwd == shell.folder / "sub"
    assert "MAKEROOM" not in said
    assert "/tmp/makeroom" not in said


def test_a_result_says_once_that_the_current_directory_has_changed(shell: BashSession) -> None:
    (shell.folder / "tests" / "unit").mkdir(parents=True)
    moved = shell.run("cd tests")
    assert (text(moved), moved.about["cwd"]) == ("[cwd: tests]", "tests")
    stayed = shell.run("echo x")
    assert text(stayed) == "x" and "cwd" not in stayed.about
    assert shell.say("cd unit") == "[cwd: tests/unit]"
    assert shell.say("cd ../..") == "[cwd: .]"


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
    "no path": "f=$(trap -p EXIT | sed 's/.*>|//; s/; .*//'); trap EXIT; printf /%0300d 0 >$f",
}


@pytest.mark.parametrize("command", STAYING.values(), ids=STAYING)
def test_nothing_else_moves_or_corrupts_it(shell: BashSession, command: str) -> None:
    (shell.folder / "sub").mkdir()
    shell.run(command)
    assert shell.say("pwd") == str(shell.folder)


def test_a_way_out_of_the_project_holds_for_one_command(shell: BashSession) -> None:
    said = shell.say("cd /; pwd")
    assert said.startswith("/\n[the command ended in /, outside the project; the next one runs in ")
    assert shell.say("pwd") == str(shell.folder)
    sibling = shell.folder.with_name(shell.folder.name + "-sibling")
    sibling.mkdir()
    assert "outside the project" in shell.say(f"cd {sibling}")
    said = shell.say('cd "$(mktemp -d)"; rmdir "$PWD"')
    assert "outside the project" in said and "no longer exists" not in said


def test_a_directory_that_is_gone_is_left_with_a_note(shell: BashSession) -> None:
    said = shell.say("mkdir -p sub/deep; cd sub/deep; rm -rf ../../sub")
    assert said == f"[{shell.folder}/sub/deep no longer exists; the next command runs in {shell.folder}]"
    assert shell.say("pwd") == str(shell.folder)
    shell.run("mkdir sub; cd sub")
    shutil.rmtree(shell.folder / "sub")
    said = shell.say("pwd")
    assert (
        said == f"{shell.folder}\n[{shell.folder}/sub no longer exists; this command ran in {shell.folder}]"
    )
    assert shell.say("pwd") == str(shell.folder)


def test_a_project_that_is_gone_is_an_error_that_says_so(tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    shell = BashSession(folder)
    shell.run("true")
    shutil.rmtree(folder)
    with pytest.raises(FileError, match="has to restore it"):
        shell.run("true")
    folder.mkdir()
    assert shell.say("echo back") == "back"
    shell.close()
    shell.runner.close()


def test_names_with_newlines_and_odd_bytes_carry_over(shell: BashSession) -> None:
    shell.run("mkdir -p $'new\\nline\\n/caf\\xe9 \"q\\'' && cd $'new\\nline\\n/caf\\xe9 \"q\\''")
    assert os.fsencode(shell.context.cwd).endswith(b"new\nline\n/caf\xe9 \"q'")
    shell.run("touch here")
    assert (shell.context.cwd / "here").exists()


def test_a_title_shows_only_newlines_as_ends_of_lines() -> None:
    for tool in (bash.TOOL, monitor.TOOL):
        shown = tool.title(tool.parse({"command": "echo a\rrm -r x\necho b\u2028c\n"}))
        assert shown == "echo a\rrm -r x ⏎ echo b\u2028c"


def test_restart_goes_back_to_the_project(shell: BashSession) -> None:
    shell.run("mkdir sub; cd sub")
    assert shell.say(restart=True) == f"Commands run in {shell.folder} again."
    shell.run("cd sub")
    assert shell.say("pwd", restart=True) == str(shell.folder)

"""`permissions check` as a process: lines in, one JSON verdict per line out, with a directory's settings."""

import json
import os
import shlex
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest

from agent.cli.permissions_command import run_permissions
from agent.permissions.permission_store import store_rule
from agent.permissions.rule_syntax import exact_rule
from agent.settings_files import permissions_path
from transcripts.session_lock import RECORDS_FOLDER, acquire_lock, release_lock

ROOT = Path(__file__).resolve().parents[3]


class Checker:
    """A project and a home of its own; `check` runs the command in the project, within this process."""

    def __init__(self, folder: Path) -> None:
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()

    def run(self, text: str | bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
        data = text if isinstance(text, bytes) else text.encode()
        out = TextIOWrapper(BytesIO(), "ascii", write_through=True)
        err = TextIOWrapper(BytesIO(), "ascii", "backslashreplace", write_through=True)
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ.keys() - {"PATH", "TMPDIR"}:
                patch.delenv(name)
            patch.setenv("HOME", str(self.home))
            patch.chdir(self.project)
            patch.setattr("sys.stdin", TextIOWrapper(BytesIO(data)))
            patch.setattr("sys.stdout", out)
            patch.setattr("sys.stderr", err)
            try:
                code = run_permissions(list(words))
            except SystemExit as end:  # as argparse leaves
                code = int(end.code or 0)
        return subprocess.CompletedProcess(words, code, out.buffer.getvalue(), err.buffer.getvalue())

    def check(self, text: str | bytes, *words: str) -> list[dict[str, Any]]:
        done = self.run(text, "check", *words)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture
def checker(tmp_path: Path) -> Checker:
    return Checker(tmp_path)


_MEMBERS = ("command", "verdict", "why", "rule", "always", "sandboxed")


def test_each_line_gets_one_verdict_with_all_that_is_known_about_it(checker: Checker) -> None:
    lines = ["ls -la", "git push", "npm test", '"echo a\\nrm -rf ~"', '"no json', "", "echo é\u2028"]
    found = checker.check("\n".join(lines), "--disallowedTools", "bash(git push)", "--wall", "off")
    assert [set(each) for each in found] == [set(_MEMBERS)] * 7
    assert [each["verdict"] for each in found] == ["allow", "deny", "ask", "ask", "ask", "allow", "ask"]
    assert [each["command"] for each in found][3:] == ["echo a\nrm -rf ~", '"no json', "", "echo é\u2028"]
    assert found[1]["rule"] == "bash(git push)" and found[1]["why"] == "the rule bash(git push) denies this"
    assert found[2]["always"] == "bash(npm test)" and found[2]["rule"] is None
    assert found[3]["why"] == "it removes a home directory" and found[3]["always"] is None


def test_settings_stored_rules_and_flags_count_as_in_a_session(checker: Checker) -> None:
    settings = checker.project / ".makeroom" / "settings.toml"
    settings.parent.mkdir()
    settings.write_text('deny = ["bash(curl)"]\npermission_mode = "dontAsk"\nallow = ["bash"]\n')
    store_rule(permissions_path(checker.home / ".config" / "makeroom", checker.project), exact_rule("a > b"))
    done = checker.run("sudo curl x\na > b\nmake x\nmake y\n", "check", "--allowedTools", "bash(make x)")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["verdict"] for each in found] == ["deny", "allow", "allow", "deny"]
    assert [each["rule"] for each in found] == ["bash(curl)", "bash(=a > b)", "bash(make x)", None]
    assert "allow can only be set in your own settings" in done.stderr.decode()
    (bypassed,) = checker.check("make y", "--yolo")
    assert (bypassed["verdict"], bypassed["why"]) == ("allow", "the mode is bypassPermissions")


def test_within_the_sandbox_nothing_is_asked_but_what_is_ruinous_or_denied(checker: Checker) -> None:
    lines = "make\nrm -rf .git\ncurl x\n$x\n"
    found = checker.check(lines, "--wall", "on", "--disallowedTools", "bash(curl)")
    assert [each["verdict"] for each in found] == ["allow", "ask", "deny", "ask"]
    assert found[0]["why"] == "it runs in the sandbox" and found[0]["sandboxed"] is True
    assert found[3]["always"] == "bash(=$x)" and found[3]["rule"] == "bash(curl)"
    found = checker.check(lines, "--wall=off", "--permission-mode", "plan")
    assert [each["verdict"] for each in found] == ["deny"] * 4


def test_what_no_shell_can_take_is_denied_and_any_bytes_are_answered(checker: Checker) -> None:
    found = checker.check(b'"a\\u0000b"\n"\\ud800"\nls \xff\nls\r\n17\n')
    assert [each["verdict"] for each in found] == ["deny", "deny", "deny", "allow", "ask"]
    assert found[0]["why"] == "The command contains a NUL byte, which shells do not accept."
    assert found[3]["command"] == "ls" and found[4]["command"] == "17"
    assert [each["command"] for each in checker.check(b"pwd\n", "git push")] == ["git push"]


def test_what_follows_the_options_is_the_command_even_without_quotes(checker: Checker) -> None:
    written = ("ls -la", "git commit -m 'a b'", "du -h --sandboxed", "rm -c x")
    found = [checker.check("", "--permission-mode", "plan", *shlex.split(line))[0] for line in written]
    assert [each["command"] for each in found] == [*written]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("check", "--wall", "maybe"), "invalid choice: 'maybe'"),
        (("check", "--disallowedTools", "bash()"), "write bash for every use of bash"),
        (("check", "-C", "/does/not/exist"), "cannot change to /does/not/exist: No such file"),
        (("list",), "unknown command 'permissions list'"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    try:
        code: object = run_permissions(list(words))
    except SystemExit as end:  # as argparse leaves
        code = end.code
    out, err = capsys.readouterr()
    assert code == 2 and not out
    assert told in err.splitlines()[-1]


def test_the_help_and_a_reader_that_leaves_early(checker: Checker) -> None:
    for words in (("--help",), ("check", "--help"), ("check", "--sandboxed", "on", "-h")):
        assert b"permissions check [--sandboxed on|off]" in checker.run("", *words).stdout
    line = f"{sys.executable} -m agent permissions check | head -1"
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(checker.home)}
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        input=b"ls\n" * 3_000, cwd=checker.project, env=environ, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["verdict"] == "allow"


def test_a_check_in_a_terminal_does_not_ask_about_another_session_in_the_project(checker: Checker) -> None:
    subprocess.run(["git", "init", "-q", checker.project], check=True)
    record = checker.project / RECORDS_FOLDER / "other.jsonl"
    record.parent.mkdir()
    lock = acquire_lock(record)
    master, terminal = os.openpty()
    os.write(master, b"\n")  # cancels a question
    try:
        done = subprocess.run(
            [sys.executable, "-m", "agent", "-C", str(checker.project), "permissions", "check", "ls"],
            cwd=ROOT,
            env={"HOME": str(checker.home), "PATH": os.environ["PATH"], "TERM": "dumb"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            timeout=60,
        )
        assert done.returncode == 0 and b'"verdict": "allow"' in os.read(master, 10_000)
    finally:
        release_lock(record, lock)
        os.close(terminal)
        os.close(master)

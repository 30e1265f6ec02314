"""Every way out of a run without a screen: its exit code, its result line, and one line that says why."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.cli.arguments import parse
from agent.cli.launch import run
from agent.ui.headless import MAX_STDIN_BYTES
from tests.agent.ui.headless_run import RUN_DEADLINE_S, environment
from tests.sampling import sampled
from tests.strict_api.faults import Fault
from tests.strict_api.reply import Reply as Answer
from tests.strict_api.reply import calls, says
from tests.strict_api.scripted_model import ScriptedModel
from tests.strict_api.server import Server

Run = Callable[..., tuple[int, list[dict[str, Any]], str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Runs the program within this process: exit code, lines of stream-json, standard error."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def go(server: Server, *argv: str, stdin: Path = Path(os.devnull)) -> tuple[int, list[Any], str]:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-123456")
        with stdin.open() as given:
            monkeypatch.setattr("sys.stdin", given)
            code = run(parse(["-p", *argv, "--output-format", "stream-json", "--allowedTools", "bash"]))
        out, err = capfd.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    yield go


@pytest.mark.parametrize(
    ("fault", "code", "says_so"),
    [
        (Fault("status", status=429, headers={"retry-after": "3600"}), 75, "asks to wait 60 minutes"),
        (Fault("status", status=503, headers={"x-should-retry": "false"}), 75, "503"),
        (Fault("status", status=401), 5, "ANTHROPIC_API_KEY"),
        (
            Fault("status", status=402),
            5,
            "(check the billing of the account that ANTHROPIC_API_KEY belongs to)",
        ),
        (Fault("status", status=403), 5, "403"),
        (Fault("status", status=404, text="model: claude-typo"), 1, "model: claude-typo"),
        (Fault("status", status=400, text="no"), 1, "no"),
        (Fault("refusal"), 1, "refused"),
        (Fault("empty_content", times=None), 1, "empty"),
    ],
    ids=lambda value: str(value.status or value.kind) if isinstance(value, Fault) else "",
)
def test_each_error_has_its_code_its_result_and_one_line(
    here: Run, fault: Fault, code: int, says_so: str
) -> None:
    with Server(ScriptedModel(["hi"] * 5)) as server:
        server.faults.add(fault)
        ended, lines, err = here(server, "x")
    assert (ended, lines[0]["subtype"], lines[-1]["type"]) == (code, "init", "result")
    assert lines[-1]["is_error"] and says_so in lines[-1]["errors"][0]
    (line,) = [line for line in err.splitlines() if line.startswith("error: ")]
    assert says_so in line


def test_nothing_listening_is_worth_another_try_later(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "1")
    with Server(ScriptedModel([])) as server:
        pass
    code, lines, err = here(server, "x")
    assert (code, lines[-1]["type"]) == (75, "result")
    assert "nothing is listening there" in err and "(2 of " in err


def interrupting(**more: Any) -> Fault:
    """A fault that sends this process SIGTERM when its request arrives."""

    def interrupt(body: Any) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return True

    return Fault(when=interrupt, **more)


@pytest.mark.parametrize(
    "fault",
    [
        interrupting(kind="stall", path="/v1/models"),
        interrupting(kind="stall"),
        interrupting(kind="stall", at=900),
        interrupting(kind="status", status=429, headers={"retry-after": "500"}),
    ],
    ids=["starting", "waiting", "reading", "between tries"],
)
def test_terminated_at_any_moment_a_run_ends_with_its_result(here: Run, fault: Fault) -> None:
    with Server(ScriptedModel(["words " * 100] * 2)) as server:
        server.faults.add(fault)
        code, lines, _ = here(server, "x")
        assert (code, lines[-1]["type"], lines[-1]["is_error"]) == (143, "result", True)
        assert here(server, "again")[0] == 0


def test_a_record_that_cannot_be_made_is_reported_with_a_result(here: Run, tmp_path: Path) -> None:
    (tmp_path / ".transcripts").write_text("no folder", "utf-8")
    with Server(ScriptedModel(["hi"])) as server:
        code, lines, err = here(server, "x")
    assert (code, lines[-1]["type"]) == (2, "result")
    assert ".transcripts" in err


def test_a_fault_of_our_own_still_has_its_result(here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.session.environment.environment_context", lambda now_is, now: 1 / 0)
    with Server(ScriptedModel(["hi"])) as server:
        code, lines, err = here(server, "x")
    assert (code, lines[-1]["type"]) == (1, "result")
    assert "internal error in makeroom: ZeroDivisionError" in err


@pytest.mark.parametrize("where", ["agent.loop.turn.compact_if_due", "agent.ui.headless._answer"])
@pytest.mark.parametrize(
    ("error", "says_so"),
    [
        (RuntimeError("can't start new thread"), "not enough memory or threads; raise the limits (ulimit -v"),
        (OSError(errno.EMFILE, "Too many open files"), "too many open files; raise the limit (ulimit -n)"),
        (
            FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"),
            "cannot write temporary files; free disk space, raise the limit on the size of files (ulimit -f)",
        ),
    ],
)
def test_a_limit_of_the_system_is_named_with_its_remedy(
    here: Run, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception, says_so: str
) -> None:
    def fail(*given: object) -> None:
        raise error

    monkeypatch.setattr(where, fail)
    with Server(ScriptedModel(["hi"])) as server:
        code, lines, err = here(server, "x")
    assert (code, lines[-1]["type"]) == (1, "result")
    assert err.startswith(f"error: {says_so}") and err.count("\n") == 1


def test_more_on_standard_input_than_a_prompt_can_be_is_refused(here: Run, tmp_path: Path) -> None:
    (tmp_path / "big.txt").write_bytes(b"x" * (MAX_STDIN_BYTES + 1))
    with Server(ScriptedModel([])) as server:
        code, lines, err = here(server, "sum it up", stdin=tmp_path / "big.txt")
    assert (code, [line["type"] for line in lines]) == (2, ["result"])
    assert "cannot read more than 10 MB of standard input" in err


@pytest.mark.parametrize(
    ("argv", "code", "says_so"),
    [
        (["x", "-C", "nowhere"], 2, "cannot change to nowhere"),
        ([], 2, "-p needs a prompt"),
        (["x"], 6, "settings.toml"),
        (["x", "-C", "test-key-123456"], 2, "cannot change to ****"),
        (["--input-format", "stream-json"], 6, "settings.toml"),
    ],
)
def test_a_run_that_cannot_begin_has_its_result(
    here: Run, tmp_path: Path, argv: list[str], code: int, says_so: str
) -> None:
    path = tmp_path / "home" / ".config" / "makeroom" / "settings.toml"
    path.parent.mkdir(parents=True)
    path.write_text('model = "x' if code == 6 else "", "utf-8")
    with Server(ScriptedModel([])) as server:
        ended, (line,), err = here(server, *argv)
    assert (ended, line["type"], line["is_error"]) == (code, "result", True)
    assert says_so in line["errors"][0] and says_so in err
    assert "test-key" not in str(line) + err


def test_a_typo_in_the_settings_is_named_with_its_file_and_what_was_meant(here: Run, tmp_path: Path) -> None:
    path = tmp_path / "home" / ".config" / "makeroom" / "settings.toml"
    path.parent.mkdir(parents=True)
    path.write_text('efort = "low"\n', "utf-8")
    with Server(ScriptedModel(["hi", "hi"])) as server:
        code, _, err = here(server, "x")
        assert (code, f"{path}: unknown setting `efort`; did you mean `effort`?" in err) == (0, True)
        path.write_text("[compact]\ntriger = 5\n", "utf-8")
        code, _, err = here(server, "x")
        told = f"{path}: unknown setting `triger` in [compact]; did you mean `trigger`? (ignored)"
        assert (code, told in err) == (0, True)
        path.write_text("[compact]\ntrigger = true\n", "utf-8")
        code, _, err = here(server, "x")
    assert (code, f"{path}: [compact] trigger must be an integer" in err) == (6, True)


def test_closed_standard_input_and_a_slow_reader_lose_nothing(tmp_path: Path) -> None:
    wanted = ("--output-format=stream-json", "--allowedTools=bash")
    answer = "words\u2028 and é " * 10_000  # more than a pipe holds, less than 32,000 tokens
    with Server(
        ScriptedModel([Answer([calls("bash", command="seq 1 3000")]), Answer([says(answer)])])
    ) as server:
        process = subprocess.Popen(
            ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-m", "agent", "-p", "x", *wanted],
            cwd=tmp_path,
            env=environment(tmp_path, server),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        assert server.arrived(2, RUN_DEADLINE_S)
        out = b""
        with process.stdout as slow:
            while piece := os.read(slow.fileno(), 1_000):
                out += piece
        assert process.wait(RUN_DEADLINE_S) == 0
    lines = [json.loads(line) for line in out.decode().splitlines()]
    assert lines[-1]["type"] == "result" and lines[-1]["result"] == answer


@pytest.mark.parametrize("words", ["-p x --output-format=json --bogus", "--output-format stream-json --at 1"])
def test_a_command_line_that_makes_no_sense_has_its_result(
    words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(words.split())
    out, err = capfd.readouterr()
    line = json.loads(out)
    assert (line["type"], line["is_error"]) == ("result", True) and line["errors"][0] in err
    with pytest.raises(SystemExit, match="2"):
        parse(["-p", "x", "--bogus"])
    assert capfd.readouterr()[0] == ""


@pytest.mark.parametrize("form", sampled(["text", "json", "stream-json"], 3))
def test_an_answer_that_the_disk_does_not_take_is_reported_once(tmp_path: Path, form: str) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Server(ScriptedModel(["hi"])) as server, open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(
            [sys.executable, "-m", "agent", "-p", "x", "--output-format", form],
            cwd=tmp_path,
            env=environment(tmp_path, server),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
    assert ended.returncode == 1
    (line,) = [line for line in ended.stderr.splitlines() if "error" in line]
    assert line == "error: cannot write to standard output: No space left on device"


@pytest.mark.parametrize("unbuffered", sampled(["", "1"], 2))
@pytest.mark.parametrize(
    "words",
    sampled(
        ["--version", "--help", "sessions", "sessions --help", "verify", "completion bash", "permissions"],
        every=2,
    ),
)
def test_output_that_the_disk_does_not_take_is_reported_in_one_line(
    tmp_path: Path, words: str, unbuffered: str
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    (tmp_path / ".transcripts").mkdir()
    (tmp_path / ".transcripts" / "9be1e0c2-90b3-4f4f-9d0c-0f3b0f7a2a11.jsonl").touch()
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(
            [sys.executable, "-m", "agent", *words.split()],
            cwd=tmp_path,
            env=environment(tmp_path, None, PYTHONUNBUFFERED=unbuffered),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
    error = "error: cannot write to standard output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, error)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_does_not_become_another_file(tmp_path: Path, closed: int) -> None:
    model = ScriptedModel([Answer([calls("bash", command="echo noise >&2")]), "the answer"])
    program = f'exec "$0" -m agent -p x --permission-mode bypassPermissions {closed}>&-'
    with Server(model) as server:
        ended = subprocess.run(
            ["sh", "-c", program, sys.executable],
            cwd=tmp_path,
            env=environment(tmp_path, server),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=RUN_DEADLINE_S,
            check=False,
        )
    assert ended.returncode == (1 if closed == 1 else 0), ended
    assert ended.stdout == ("" if closed == 1 else "the answer\n")
    if closed == 1:
        assert "error: cannot write to standard output: Bad file descriptor" in ended.stderr
    (transcript,) = (tmp_path / ".transcripts").glob("*.jsonl")
    facts = [json.loads(line) for line in transcript.read_bytes().splitlines()]
    assert "noise" in json.dumps([fact for fact in facts if fact["kind"] == "result"])


def ended_command(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Return the end of a process that runs this program."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[1:] = ['--version']; {program}"],
        cwd=folder,
        env=environment(folder, None, PYTHONUNBUFFERED=""),
        capture_output=True,
        text=True,
        timeout=RUN_DEADLINE_S,
        check=False,
    )


def test_the_command_leaves_without_taking_the_interpreter_apart(tmp_path: Path) -> None:
    program = "import atexit; atexit.register(print, 'apart'); from agent.__main__ import command; command()"
    ended = ended_command(tmp_path, program)
    assert ended.returncode == 0 and ended.stdout.startswith("makeroom ") and "apart" not in ended.stdout


def test_the_traceback_of_a_defect_shows_no_secret(tmp_path: Path) -> None:
    fails = "m.main = lambda: int('hunter22-secret-word and sk-ant-api03-Zz9yX8wV7uT6sR5qP4oN3mL2')"
    begin = "import os; os.environ['DB_PASSWORD'] = 'hunter22-secret-word'; import agent.__main__ as m"
    ended = ended_command(tmp_path, f"{begin}; {fails}; m.command()")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback") and ended.stderr.endswith(
        ": '**** and [Anthropic key masked]'\n"
    ), ended.stderr


def test_with_any_umask_our_own_files_stay_readable(tmp_path: Path) -> None:
    shown = "m.main = lambda: print(oct(os.umask(0))) or 0"
    ended = ended_command(tmp_path, f"import os, agent.__main__ as m; {shown}; os.umask(0o722); m.command()")
    assert (ended.returncode, ended.stdout) == (0, "0o22\n"), ended


def test_a_last_line_that_no_one_takes_is_an_error(tmp_path: Path) -> None:
    ended = ended_command(tmp_path, "import os; from agent.__main__ import command; os.close(1); command()")
    assert ended.returncode == 1
    assert ended.stderr == "error: cannot write to standard output: Bad file descriptor\n"


@pytest.mark.parametrize("safe", [False, True])
def test_in_safe_mode_no_user_extensions_are_used_but_rules_apply(
    here: Run, tmp_path: Path, safe: bool
) -> None:
    config, skills = tmp_path / "home/.config/makeroom", tmp_path / "home/.claude/skills/tidy"
    config.mkdir(parents=True)
    skills.mkdir(parents=True)
    settings = f'deny = ["bash(echo one)"]\n[hooks]\nUserPromptSubmit = "touch {tmp_path}/ran"\n'
    (config / "settings.toml").write_text(settings)
    (config / "AGENTS.md").write_text("A rule of mine.")
    (tmp_path / "AGENTS.md").write_text("A rule of the project.")
    (skills / "SKILL.md").write_text("---\nname: tidy\ndescription: How to tidy.\n---\nTidy.\n")
    call = Answer([calls("bash", command="echo one")])
    with Server(ScriptedModel([call, "done"])) as server:
        _, _, err = here(server, "x", *["--safe-mode"] * safe)
    asked = json.dumps(server.requests[0])
    brought = [word in asked for word in ("A rule of mine", "A rule of the project", "How to tidy")]
    assert [*brought, (tmp_path / "ran").exists()] == [not safe] * 4
    assert ("--safe-mode: memory files" in err) == safe
    assert "denies" in json.dumps(server.requests[1])

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.cli.sessions_command import run_sessions
from agent.cli.verify_command import run_verify
from tests.agent.ui.headless_run import RUN_DEADLINE_S, start_makeroom
from tests.tables import each_row
from transcripts.codec import encode_fact
from transcripts.facts import Metadata, Opened, Reply, Result, User
from transcripts.messages import TextBlock, ToolUseBlock
from transcripts.session_lock import RECORDS_FOLDER

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / RECORDS_FOLDER).mkdir()
    for number, sid in enumerate(("20261121-093012-aaaa", "20261122-093012-bbbb")):
        facts = [
            Opened(1, 1.79e9 + number, (), (), "m", 9, str(tmp_path)),
            User(
                2,
                1.79e9 + number,
                (TextBlock("<surroundings>\nDate: x\n</surroundings>"), TextBlock(f"question {number}")),
            ),
            Reply(
                3, 1.79e9 + number, (TextBlock("Let me look"), ToolUseBlock("t", "bash", {"command": "ls"}))
            ),
            Result(4, 1.79e9 + number, 3, 1, (TextBlock(f"file{number}.txt \x1b[2Jevil"),), (5,)),
            Metadata(5, 1.79e9 + number, "name", {"name": f"name{number}"}),
        ]
        path = tmp_path / RECORDS_FOLDER / f"{sid}.jsonl"
        path.write_bytes(b"".join(encode_fact(fact, sid) for fact in facts))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], project: Path, *words: str) -> tuple[int, str, str]:
    try:
        code = run_sessions(list(words), project)
    except SystemExit as ended:  # by the parser of the words
        code = int(str(ended.code))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("words", [(), ("list",)])
def test_the_sessions_are_listed_newest_first(
    capsys: pytest.CaptureFixture[str], project: Path, words: tuple[str, ...]
) -> None:
    code, out, _ = run(capsys, project, *words)
    assert code == 0
    assert [line.split()[0][-4:] for line in out.splitlines()] == ["bbbb", "aaaa"]
    assert "1 prompt " in out and "[name1] question 1" in out


def test_names_with_emoji_are_listed_and_found_unchanged(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    words = "Team 👨\u200d👩\u200d👧 می\u200cخواهم ⚠\ufe0f"
    sid = "20261123-093012-cccc"
    facts = [
        Opened(1, 1.8e9, (), (), "m", 9, str(project)),
        User(2, 1.8e9, (TextBlock(f"{words} \u200dseldom"),)),
        Metadata(3, 1.8e9, "name", {"name": f"{words} a\u200db"}),
    ]
    path = project / RECORDS_FOLDER / f"{sid}.jsonl"
    path.write_bytes(b"".join(encode_fact(fact, sid) for fact in facts))
    assert f"[{words} aU+200Db] {words} U+200Dseldom" in run(capsys, project)[1]
    assert f"{words} U+200Dseldom" in run(capsys, project, "search", "seldom")[1]


def test_one_is_shown_and_nothing_in_it_reaches_the_terminal_raw(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    for wanted in ("name0", "20261121", str(project / RECORDS_FOLDER / "20261121-093012-aaaa.jsonl")):
        code, out, _ = run(capsys, project, "show", wanted)
        assert code == 0
        assert "> question 0" in out and "[call] bash" in out and "[result r4]\nfile0.txt" in out
        assert "\x1b" not in out and "surroundings" not in out


def test_work_that_takes_longer_than_a_second_is_announced(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    path = project / RECORDS_FOLDER / "20261121-093012-aaaa.jsonl"
    with path.open("ab") as file:
        file.write(b" " * 5_000_000 + b"\n")
    for words in (("show", "20261121"), ("export", "name0", "-"), ("export", str(path), "-")):
        assert run(capsys, project, *words)[2] == "converting 5.0 MB ...\n", words
    assert run(capsys, project, "export", "name1", "-")[2] == ""
    run_verify([], project)
    assert capsys.readouterr().err == "verifying 20261121-093012-aaaa: 5.0 MB ...\n"


def test_words_are_searched_for_in_all_of_them(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = run(capsys, project, "search", "FILE1.txt", "evil")
    assert code == 0
    assert out.startswith("20261122-093012-bbbb/r4  ")
    assert re.search(r'result of bash ls  in ".*"\n    file1\.txt', out) and "\x1b" not in out
    assert run(capsys, project, "search", "nowhere") == (1, "", "nothing found\n")
    assert run(capsys, project, "search", "surroundings") == (1, "", "nothing found\n")


def test_one_is_exported_privately_and_never_over_a_file(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    code, out, _ = run(capsys, project, "export", "name0", "x.json")
    target = project / "x.json"
    assert code == 0 and out == f"wrote {target.resolve()}\n"
    assert json.loads(target.read_text())["session"] == "20261121-093012-aaaa"
    assert target.stat().st_mode & 0o777 == 0o600
    code, _, err = run(capsys, project, "export", "name0", "x.json")
    assert code == 2 and "the file exists" in err
    assert run(capsys, project, "export", "name0", "-")[1].startswith("# name0\n")
    assert run(capsys, project, "export", "name0")[0] == 0
    assert (project / "20261121-093012-aaaa.md").exists()


def test_what_a_file_of_another_agent_leaves_out_is_reported(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    reply = {"role": "assistant", "content": [{"type": "output_text", "text": "It prints a line."}]}
    lines = [
        {"type": "session_meta", "payload": {"id": "s"}},
        {"type": "response_item", "payload": {"type": "message", **reply}},
        {"type": "event_msg", "payload": {"type": "agent_message"}},
    ]
    rollout = project / "rollout-1.jsonl"
    rollout.write_text("".join(json.dumps(line) + "\n" for line in lines) + "torn")
    told = "skipped in rollout-1.jsonl: damaged lines (1), event_msg lines (1), session_meta lines (1)"
    for words in (("show", str(rollout)), ("export", str(rollout), "-")):
        code, out, err = run(capsys, project, *words)
        assert (code, err) == (0, f"warning: {told}\n") and "It prints a line." in out


def test_a_session_is_written_where_claude_code_looks_for_it_and_never_over_a_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    home = project / "config"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    code, out, _ = run(capsys, project, "export", "name0", "--format=claude-code")
    (path,) = home.glob("projects/*/*.jsonl")
    assert (code, out) == (0, f"wrote {path.resolve()}\n")
    assert path.parent.name == "".join(each if each.isalnum() else "-" for each in str(project.resolve()))
    assert path.parent.stat().st_mode & 0o777 == 0o700 and path.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["sessionId"] for line in lines} == {path.stem}
    assert {line["cwd"] for line in lines if "cwd" in line} == {str(project)}
    code, _, err = run(capsys, project, "export", "--format", "claude-code", "name0")
    assert code == 2 and "the file exists" in err
    code, out, _ = run(capsys, project, "export", "name0", "-", "--format", "claude-code")
    assert code == 0 and out == path.read_text()
    code, out, _ = run(capsys, project, "export", str(path), "x", "--format", "json")
    assert code == 0 and "question 0" in (project / "x").read_text()
    assert run(capsys, project, "show", str(path))[1].startswith("> question 0\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("bogus",), "the commands are list, show, search, export"),
        (("show",), "usage: makeroom sessions show ID\n"),
        (("show", "nope"), "no session 'nope'"),
        (("show", "2026112"), "matches 2 sessions"),
        (("search",), "usage: makeroom sessions search WORDS\n"),
        (("export",), "usage: makeroom sessions export ID [FILE] [--format FORMAT]\n"),
        (("export", "name0", "--format"), "argument --format: expected one argument"),
        (("export", "name0", "--format=pdf"), "argument --format: invalid choice: 'pdf' (choose from"),
        (("export", "name0", "x.pdf"), "cannot export to a .pdf file"),
        (("export", "name0", "no/such/folder.md"), "cannot write "),
    ],
)
def test_a_mistake_is_exit_2_and_one_line(
    capsys: pytest.CaptureFixture[str], project: Path, words: tuple[str, ...], complaint: str
) -> None:
    code, out, err = run(capsys, project, *words)
    assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1


def test_a_directory_without_sessions_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, tmp_path)
    assert code == 0 and "no sessions" in out


@each_row("words", ["sessions", "recall word", "verify", "-c -p go", "sessions show x"])
def test_records_that_cannot_be_read_are_not_said_to_be_none(tmp_path: Path, words: str) -> None:
    (tmp_path / RECORDS_FOLDER).write_text("in the way\n")  # a directory without permissions is read by root
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "k"}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = start_makeroom(tmp_path, environ, *words.split(), **streams)
    _, told = run.communicate(timeout=RUN_DEADLINE_S)
    assert run.returncode == 2 and told.count("\n") == 1, told
    assert f"{RECORDS_FOLDER}: Not a directory" in told


def test_it_runs_as_a_command_without_anything_slow(project: Path) -> None:
    script = (
        "import sys; from agent.__main__ import main; code = main(['sessions']);"
        "slow = {'anthropic', 'pydantic', 'rich', 'prompt_toolkit', 'tiktoken', 'asyncio'};"
        "print(sorted(slow & set(sys.modules))); sys.exit(code)"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=project, env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_has_seen_enough_is_not_an_error(project: Path) -> None:
    command = f"{sys.executable} -m agent sessions show name0 | true"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["sh", "-c", command], cwd=project, env=environ, capture_output=True, check=False)
    assert done.stderr == b""


def test_the_help_is_given_wherever_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    for words in (("--help",), ("show", "--help"), ("export", "-h")):
        code, out, err = run(capsys, project, *words)
        assert code == 0 and "sessions show ID" in out and not err


def test_a_file_that_is_no_session_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text, why in (
        ("a.jsonl", "", "the file is empty"),
        ("b.md", "# Plan", "unknown format"),
    ):
        path = tmp_path / name
        path.write_text(text)
        assert run_sessions(["show", str(path)], tmp_path) == 2
        assert f"error: cannot read {path}: {why}" in capsys.readouterr().err

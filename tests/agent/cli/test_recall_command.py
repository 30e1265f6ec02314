import io
import json
import os
import pkgutil
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from agent.__main__ import SUBCOMMANDS
from agent.cli.recall_command import run_recall
from transcripts.codec import encode_fact
from transcripts.facts import User
from transcripts.file_states import SEARCH_FOLDER
from transcripts.messages import TextBlock
from transcripts.session_lock import RECORDS_FOLDER


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for number, sid in enumerate(("20261121-093012-aaaa", "20261122-093012-bbbb")):
        path = tmp_path / RECORDS_FOLDER / f"{sid}.jsonl"
        path.parent.mkdir(exist_ok=True)
        words = ("a walrus\x1b[2J in the harbour", f"the bikeshed number {number}")
        facts = [User(seq, 1.79e9 + number, (TextBlock(text),)) for seq, text in enumerate(words, 1)]
        path.write_bytes(b"".join(encode_fact(fact, sid) for fact in facts))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], project: Path, *words: str) -> tuple[int, str, str]:
    code = run_recall(list(words), project)
    out, err = capsys.readouterr()
    return code, out, err


def test_the_best_hits_of_all_sessions_are_printed(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    code, out, _ = run(capsys, project, "where", "was", "the", "walrus?")
    assert code == 0 and "\x1b" not in out
    assert {line.split()[0] for line in out.splitlines() if line[0] != " "} >= {
        "20261121-093012-aaaa/r1",
        "20261122-093012-bbbb/r1",
    }
    assert out.count('  in "a walrus') == len(out.splitlines()) // 2 and "weak match" not in out
    assert run(capsys, project, "unicorn") == (1, "", "nothing found\n")
    for vague in ("x", "what is it", "**"):
        told = "nothing found: the words are too short or too common to search for\n"
        assert run(capsys, project, vague) == (1, "", told)


def test_a_hit_with_few_of_the_words_is_marked(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    _, out, _ = run(capsys, project, "walrus", "zebra", "kangaroo", "plutonium")
    assert ", weak match  in " in out.splitlines()[0]


@pytest.mark.parametrize("given", [("--scope", "session"), ("--session", "20261122")])
def test_one_session_can_be_searched(
    capsys: pytest.CaptureFixture[str], project: Path, given: tuple[str, ...]
) -> None:
    (project / RECORDS_FOLDER / "20261122-093012-bbbb.jsonl").touch()
    _, out, _ = run(capsys, project, "bikeshed", "--json", *given)
    assert {hit["session"] for hit in json.loads(out)["hits"]} == {"20261122-093012-bbbb"}


def test_many_queries_are_answered_at_once(
    capsys: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = 'bikeshed number 0\n\n{"query": "walrus", "case": 7}\nunicorn\n'
    (project / "queries").write_text(queries)
    code, out, _ = run(capsys, project, "--queries", str(project / "queries"), "--limit", "1")
    first, second, third = map(json.loads, out.splitlines())
    assert code == 0
    assert first["hits"][0]["id"] == "20261121-093012-aaaa/r2"
    assert first["hits"][0].keys() >= {"ts", "age_s", "kind", "score", "excerpt", "path", "changed"}
    assert (second["case"], len(second["hits"]), third["hits"]) == (7, 1, [])
    monkeypatch.setattr("sys.stdin", io.StringIO(queries))
    assert run(capsys, project, "--queries", "-", "--limit", "1")[1].count("\n") == 3


def test_an_id_is_recalled(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    assert run(capsys, project, "20261121-093012-aaaa/r2")[1] == "the bikeshed number 0\n"
    assert run(capsys, project, "r2", "--session", "20261121")[1] == "the bikeshed number 0\n"


def test_on_a_terminal_each_line_of_a_hit_is_one_row_with_the_match_in_it(tmp_path: Path) -> None:
    path = tmp_path / RECORDS_FOLDER / "s.jsonl"
    path.parent.mkdir()
    path.write_bytes(
        encode_fact(
            User(1, 1.79e9, (TextBlock("the harbour " * 5 + "has a walrus " + "and no ship " * 5),)), "s"
        )
    )
    main_end, program_end = pty.openpty()
    command = [sys.executable, "-m", "agent", "recall", "walrus"]
    environ = {**os.environ, "COLUMNS": "40", "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run(command, cwd=tmp_path, env=environ, stdout=program_end, timeout=60, check=True)
    rows = os.read(main_end, 4_000).decode().split("\r\n")
    assert all(len(row) <= 40 for row in rows)
    assert [row[:4].strip() for row in rows] == ["s/r1", "", "", ""]
    assert " has a walrus and " in rows[2]
    os.close(program_end)
    os.close(main_end)


def test_an_index_that_cannot_be_used_is_complained_of(
    capsys: pytest.CaptureFixture[str], project: Path
) -> None:
    (project / SEARCH_FOLDER).mkdir()
    (project / SEARCH_FOLDER / "lock").mkdir()
    code, out, err = run(capsys, project, "walrus")
    assert (code, out) == (1, "") and err.startswith("nothing found: transcripts cannot be searched: ")


def test_secrets_of_the_environment_are_masked(
    capsys: pytest.CaptureFixture[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARBOUR_PASSWORD", "bikeshed number")
    assert "bikeshed number" not in run(capsys, project, "number")[1]


@pytest.mark.parametrize("words", ["begin rsa private key", "line3abcdef", "the lighthouse"])
def test_no_line_of_a_private_key_is_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: str
) -> None:
    lines = "\n".join(f"line{number}abcdefMIIEpAIBAAKCAQEA{number * 7}walrusHARBOUR" for number in range(9))
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----\n"
    path = tmp_path / RECORDS_FOLDER / "20261121-093012-aaaa.jsonl"
    path.parent.mkdir()
    said = User(1, 1.79e9, (TextBlock(f"the key:\n{key}of the lighthouse"),))
    path.write_bytes(encode_fact(said, path.stem))
    code, out, _ = run(capsys, tmp_path, *words.split())
    assert code == 0 and "MIIEpAIB" not in out
    assert "[private key masked]" in out or "of the lighthouse" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "usage: makeroom recall"),
        (("--json",), "usage: makeroom recall"),
        (("x", "--session", "nope"), "no session 'nope'"),
        (("r9",), "unknown recall id r9"),
        (("--queries", "/none"), "cannot read the queries from /none: No such file or directory\n"),
        (("--queries", "-"), 'not a query: {"query'),
    ],
)
def test_a_mistake_is_exit_2_and_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    words: tuple[str, ...],
    complaint: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"query": '))
    code, out, err = run(capsys, project, *words)
    assert (code, out) == (2, "") and complaint in err and err.count("\n") == 1


def test_a_directory_without_sessions_is_left_unchanged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(capsys, tmp_path, "x")[0] == 2
    assert list(tmp_path.iterdir()) == []
    assert pkgutil.resolve_name(SUBCOMMANDS["recall"]) is run_recall


@pytest.mark.parametrize("words", [["--help"], ["list", "--help"], ["walrus", "-h"]])
def test_the_help_is_given_wherever_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], project: Path, words: list[str]
) -> None:
    code, out, err = run(capsys, project, *words)
    assert code == 0 and "--limit N" in out and not err
    assert run(capsys, project, "--", "--help")[0] == 1, "a search for that word"

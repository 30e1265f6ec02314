"""Subcommands, prompts, and words that look like commands: which is which, before anything is paid for."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from agent.__main__ import SUBCOMMANDS, main
from agent.cli.arguments import parse, subcommand_of
from tests.tables import each_row


@each_row(
    ("line", "asked"),
    [
        ("sessions list", ("sessions", ["list"], "")),
        ("-C there sessions list", ("sessions", ["list"], "there")),
        ("--cd=there sessions", ("sessions", [], "there")),
        ("recall lost words --cd there --json", ("recall", ["lost", "words", "--json"], "there")),
        ("mcp add name -C x", ("mcp", ["add", "name", "-C", "x"], "")),
        ("verify -- -C", ("verify", ["--", "-C"], "")),
    ],
)
def test_a_subcommand_is_found_with_the_directory_before_or_after_it(
    line: str, asked: tuple[str, list[str], str]
) -> None:
    assert subcommand_of(line.split(), SUBCOMMANDS) == asked


@each_row(
    ("argv", "prompt"),
    [
        (["-p", "recall", "the", "plan"], "recall the plan"),
        (["-m", "sessions", "fix it"], "fix it"),
        (["-r", "sessions"], ""),
        (["sessions are lost, why?"], "sessions are lost, why?"),
        (["--", "sessions"], "sessions"),
        (["update", "the", "readme"], "update the readme"),
        (["run", "the", "tests"], "run the tests"),
        (["continue", "with", "the", "parser"], "continue with the parser"),
        (["update", "python3"], "update python3"),
        (["commit"], "commit"),
        (["review"], "review"),
        (["--allowedTools", "bash", "edit"], ""),
        (["-p", "doctor"], "doctor"),
        (["hello"], "hello"),
        (["fix the tests"], "fix the tests"),
        (["--", "updat"], "updat"),
    ],
)
def test_what_is_meant_for_the_model_stays_a_prompt(argv: list[str], prompt: str) -> None:
    assert subcommand_of(argv, SUBCOMMANDS) is None
    assert parse(argv).prompt == prompt


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("doctor", "makeroom -p /doctor"),
        ("config list", "use /config in a session"),
        ("update", "upgrade with the tool that installed makeroom"),
        ("sesions list", "did you mean 'sessions'?"),
        ("status", "use it with a slash in a session (to send it as a prompt: makeroom -- status)"),
        ("continue", "use makeroom --continue"),
        ("stats", "use /cost in a session"),
        ("init", "use /init in a session"),
        ("skills list", "use it with a slash in a session"),
        ("logs", "use --debug-file FILE"),
        ("updat", "unknown command 'updat': upgrade with"),
        ("dotcor", "makeroom -p /doctor"),
        ("show 3f2a91c4", "unknown command 'show': use makeroom sessions show ID"),
        ("sesions r57", "did you mean 'sessions'?"),
        ("hlep", "did you mean 'help'?"),
        ("--at r5", "--at requires --continue or --resume\n"),
        ("--modle x", "unknown option --modle: did you mean --model? (see makeroom --help)"),
        ("--contnue", "did you mean --continue?"),
        ("--modle=x fix it", "did you mean --model?"),
        ("--bogus", "unknown option --bogus (see makeroom --help)"),
        ("--zzzz", "unknown option --zzzz (see makeroom --help)"),
        ("--effort hgh", "invalid choice: 'hgh'"),
        ("-m", "expected one argument"),
        ("recall x --limt 3", "unknown option --limt: did you mean --limit? (see makeroom recall --help)"),
        ("recall x --limit ten", "--limit: 'ten' is not a number (see makeroom recall --help)"),
        ("recall x --limit 0", "--limit: '0' is not a positive whole number"),
        ("-p hi --max-turns inf", "--max-turns: 'inf' is not a positive whole number"),
        ("-p hi --max-turns nan", "--max-turns: 'nan' is not a positive whole number"),
        ("mcp add x --scop user -- y", "did you mean --scope? (see makeroom mcp add --help)"),
        ("--model x sessions list", "--model cannot be used with the command 'sessions'"),
        ("-C /nowhere/at/all sessions", "cannot change to /nowhere/at/all"),
    ],
)
def test_what_looks_like_a_command_and_is_not_ends_with_one_line(
    line: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(line.split())
    except SystemExit as exit:
        code = int(exit.code or 0)
    err = capsys.readouterr().err
    assert code == 2 and told in err and err.count("\n") == 1


def test_a_subcommand_runs_with_the_garbage_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    gc.disable()
    try:
        assert main(["sessions", "list"]) == 0
        assert gc.isenabled()
    finally:
        gc.enable()

"""`makeroom completion`: the scripts complete flags, values and subcommands in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import pytest

from agent.__main__ import SUBCOMMANDS
from agent.cli.arguments import COMMAND_HELP
from agent.cli.completion_command import (
    SUBCOMMAND_FLAGS,
    SUBCOMMAND_WORDS,
    offers,
    run_completion,
    shown_flags,
)
from tests.tables import each_row
from transcripts.codec import encode_fact
from transcripts.facts import Opened, User
from transcripts.messages import TextBlock
from transcripts.session_lock import RECORDS_FOLDER

FLAGS = {name for action in shown_flags() for name in action.option_strings}
ROOT = Path(__file__).resolve().parents[3]
SESSION = "0a0b0c0d-0000-4000-8000-000000000001"
SHORT = SESSION[:8]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a session, a worktree, a file and directories, and `makeroom` in bin/."""
    (tmp_path / ".makeroom/worktrees/parser").mkdir(parents=True)
    for name in ("bin", "src", "my notes", RECORDS_FOLDER):
        (tmp_path / name).mkdir()
    (tmp_path / "README.md").write_text("")
    (tmp_path / "bin/makeroom").write_text("")
    (tmp_path / "bin/makeroom").chmod(0o755)
    facts = [
        Opened(1, 1.79e9, (), (), "m", 9, str(tmp_path)),
        User(2, 1.79e9, (TextBlock("What is: this?"),)),
    ]
    path = tmp_path / RECORDS_FOLDER / f"{SESSION}.jsonl"
    path.write_bytes(b"".join(encode_fact(fact, SESSION) for fact in facts))
    return tmp_path


def words_of(found: Sequence[str]) -> list[str]:
    return [offer.partition("\t")[0] for offer in found]


@each_row(
    "words, offered",
    [
        (["--output-f"], ["--output-format"]),
        (["--output-format", ""], ["text", "json", "stream-json"]),
        (["--output-format", "j"], ["json"]),
        (["--output-format=j"], ["--output-format=json"]),
        (["--permission-mode", "=", "p"], ["plan"]),
        (["--color", "="], ["auto", "always", "never"]),
        (["-p", "sess"], ["sessions"]),
        (["sessions", "s"], ["show", "search"]),
        (["acp", "--output-f"], ["--output-format"]),
        (["acp", ""], []),
        (["-C", "sr"], [":directories"]),
        (["--debug-file", "READ"], [":files"]),
        (["--max-turns", ""], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--fallback-model", "claude-opus-5-"], ["claude-opus-5-5"]),
        (["--setting-sources", ""], ["user", "project", "local"]),
        (["--worktree", ""], ["parser"]),
        (["--worktree", "--sand"], ["--sandbox"]),
        (
            ["sessions", "export", "x", "--format", ""],
            ["md", "html", "json", "jsonl", "claude-code"],
        ),
        (["sessions", "export", "x", "--"], ["--format"]),
        (["mcp", "add", ""], []),
        (["mcp", "add", "x", "--scope", "u"], ["user"]),
        (["recall", "x", "--scope", ""], ["session", "project"]),
        (["replay", "a.jsonl", "READ"], [":files"]),
        (["--permission-mode", "b"], ["bypassPermissions"]),
        (["-C", "m"], [":directories"]),
        (["sessions", "show", ""], [SHORT]),
        (["--resume", ""], [SHORT]),
        (["sessions", "export", ""], [SHORT]),
        (["verify", SHORT[:3]], [SHORT, ":files"]),
    ],
)
def test_words_are_offered(
    words: list[str], offered: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert words_of(list(offers(words))) == offered


def test_every_flag_and_subcommand_is_offered() -> None:
    assert set(words_of(list(offers(["-"])))) == FLAGS
    commands = {usage.split()[0] for usage in COMMAND_HELP}
    assert set(words_of(list(offers([""])))) == commands >= {*SUBCOMMAND_WORDS, *SUBCOMMAND_FLAGS}


BASH = """
. ./script
COMP_WORDS=($1 "$2"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _makeroom; printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = """
source script
complete -C "$argv[1] $argv[2]" | cut -f 1
"""
# An interactive zsh on a terminal of its own. Its `compadd` prints what is offered.
ZSH_SETUP = """
fpath=($PWD/functions $fpath)
autoload -Uz compinit
compinit -u -D
compadd() {
    local -a offered
    if (( ${@[(I)-[OAD]*]} )); then builtin compadd "$@"; return; fi
    builtin compadd -A offered "$@"
    (( $#offered )) && print -l -- "" "offered: "$^offered
}
finish() { print "the"" end" }
prepare() { comppostfuncs=(finish) }
compprefuncs=(prepare)
bindkey "^I" complete-word
print "is rea""dy"
"""
ZSH = """
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "source ./setup"
zpty -r shell seen "*is ready*"
zpty -w -n shell "$1 $2"$'\\t'
zpty -r shell seen "*the end*"
print -r -- $seen | tr -d '\\r' | sed -n 's/^offered: //p'
zpty -d shell
"""
# Answers as makeroom does to words that it is asked about in `test_words_are_offered` or here; a start of the
# program takes a second.
PROGRAM = f"""#!/bin/sh
case "$*" in
"completion offers -- --permission-mode b") printf 'bypassPermissions\\n' ;;
"completion offers -- --debug-file READ") printf ':files\\n' ;;
"completion offers -- -C m") printf ':directories\\n' ;;
"completion offers -- sessions show ") printf '{SHORT}\\tWhat is: this?\\n' ;;
*) exec {sys.executable} -m agent "$@" ;;
esac
"""
PROGRAMS = {
    "bash": ["bash", "--norc", "-c", BASH, "bash"],
    "zsh": ["zsh", "-f", "-c", ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", FISH],
}


@pytest.mark.parametrize("shell", PROGRAMS)
def test_shells_complete(shell: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_completion([shell]) == 0
    text = capsys.readouterr().out
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (project / "functions").mkdir()
    (project / "functions/_makeroom").write_text(text)
    (project / "script").write_text(text)
    (project / "setup").write_text(ZSH_SETUP)
    (project / "bin/makeroom").write_text(PROGRAM)
    environ = {
        "HOME": str(project),
        "PATH": f"{project}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
    }
    for (before, current), offered in {
        ("makeroom", "--output-f"): {"--output-format"},
        ("makeroom --permission-mode", "b"): {"bypassPermissions"},
        ("makeroom --debug-file", "READ"): {"README.md"},
        ("makeroom -C", "m"): {"my notes/"} if shell == "fish" else {"my notes"},
        ("makeroom sessions show", ""): {SHORT},
    }.items():
        argv = [*PROGRAMS[shell], before, current]
        ran = subprocess.run(
            argv, cwd=project, env=environ, capture_output=True, text=True, check=True, timeout=60
        )
        assert (set(ran.stdout.splitlines()), ran.stderr) == (offered, ""), (before, current)


def test_flags_are_offered_with_their_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_completion(["offers", "--", "--model"]) == 0
    assert capsys.readouterr().out.startswith("--model\tuse this model: an id, or ")
    assert run_completion(["offers", "--", "mcp", "add", ""]) == 0
    assert capsys.readouterr().out == ""


def test_the_flags_after_subcommands_are_in_their_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name, flags in SUBCOMMAND_FLAGS.items():
        assert resolve_name(SUBCOMMANDS[name])(["--help"]) == 0
        shown = capsys.readouterr().out
        short = {"--scope": "-s", "--transport": "-t"} if name == "mcp" else {}
        for flag in flags:
            assert f"{short.get(flag, flag)} " in shown, (name, flag)


def test_an_unknown_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_completion(["tcsh"]) == 2
    assert capsys.readouterr().err == "usage: makeroom completion bash|zsh|fish\n"
    assert run_completion(["--help"]) == 0

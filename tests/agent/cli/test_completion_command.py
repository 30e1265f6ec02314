"""`makeroom completion`: the scripts complete flags, values and subcommands in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name

import pytest

from agent.__main__ import SUBCOMMANDS
from agent.cli.arguments import COMMAND_HELP
from agent.cli.completion_command import SUBCOMMAND_FLAGS, SUBCOMMAND_WORDS, run_completion, shown_flags
from agent.menus import session_line
from transcripts import SessionSummary
from transcripts.secrets import SecretMasks

FLAGS = {name for action in shown_flags() for name in action.option_strings}


SESSION = "0a0b0c0d-0000-4000-8000-000000000001"
SUMMARY = SessionSummary(
    SESSION, Path("x"), name="", first_prompt="What is: this?", last_active=0.0, prompts=1, size=9, folder=""
)
LISTED = session_line(SUMMARY, 30.0, SecretMasks(()))
SHORT = SESSION[:8]


def make_places(folder: Path) -> None:
    """Make a project with a worktree, a file, and a makeroom that lists one session."""
    (folder / ".makeroom/worktrees/parser").mkdir(parents=True)
    (folder / "README.md").write_text("")
    (folder / "bin").mkdir()
    listing = f"printf '%s\\n' '{LISTED}' 'no sessions in x'"
    (folder / "bin/makeroom").write_text(f'#!/bin/sh\n[ "$*" = sessions ] && {listing}\n')
    (folder / "bin/makeroom").chmod(0o755)


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_completion([shell]) == 0
    return capsys.readouterr().out


def completed(text: str, words: Sequence[str], folder: Path) -> list[str]:
    """Return what bash offers for the last word of a line."""
    line = " ".join(f"'{word}'" for word in words)
    asked = (
        f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _makeroom; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    ran = subprocess.run(
        ["bash", "-c", f"{text}\n{asked}"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return list(filter(None, ran.stdout.splitlines()))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["--output-f"], ["--output-format"]),
        (["--output-format", ""], ["text", "json", "stream-json"]),
        (["--output-format", "j"], ["json"]),
        (["-p", "sess"], ["sessions"]),
        (["sessions", "s"], ["show", "search"]),
        (["acp", "--output-f"], ["--output-format"]),
        (["acp", ""], []),
        (["-C", "sr"], ["src"]),
        (["--debug-file", "READ"], ["README.md"]),
        (["-C", "my"], ["my notes"]),
        (["--max-turns", ""], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["--model", "h"], ["haiku"]),
        (["--setting-sources", ""], ["user", "project", "local"]),
        (["--permission-mode", "="], ["manual", "acceptEdits", "plan", "dontAsk", "bypassPermissions"]),
        (["--permission-mode", "=", "p"], ["plan"]),
        (["--worktree", "--sand"], ["--sandbox"]),
        (["sessions", "export", "x", "--format", ""], ["md", "html", "json", "jsonl", "claude-code"]),
        (["sessions", "export", "x", "--"], ["--format"]),
        (["mcp", "add", ""], []),
        (["mcp", "add", "x", "--scope", "u"], ["user"]),
        (["recall", "x", "--scope", ""], ["session", "project"]),
    ],
)
def test_bash_completes(
    words: list[str], offered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "my notes").mkdir()
    (tmp_path / "README.md").write_text("")
    assert completed(script("bash", capsys), ["makeroom", *words], tmp_path) == offered


def test_bash_offers_every_flag_and_subcommand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script("bash", capsys)
    assert set(completed(text, ["makeroom", "-"], tmp_path)) == FLAGS
    commands = {usage.split()[0] for usage in COMMAND_HELP}
    assert set(completed(text, ["makeroom", ""], tmp_path)) == commands >= set(SUBCOMMAND_WORDS)


def test_bash_offers_sessions_and_worktrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_places(tmp_path)
    text = f"PATH={tmp_path}/bin:$PATH\n{script('bash', capsys)}"
    for words in (["--resume", ""], ["-r", SHORT[:3]], ["sessions", "export", ""], ["verify", ""]):
        assert completed(text, ["makeroom", *words], tmp_path) == [SHORT]
    for words in (["verify", "READ"], ["sessions", "show", "READ"], ["-r", "READ"]):
        assert completed(text, ["makeroom", *words], tmp_path) == ["README.md"]
    assert completed(text, ["makeroom", "--worktree", ""], tmp_path) == ["parser"]


FISH = """
source script
complete -C "$argv[1]" | cut -f 1
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
zpty -w -n shell "$1"$'\\t'
zpty -r shell seen "*the end*"
print -r -- $seen | tr -d '\\r' | sed -n 's/^offered: //p'
zpty -d shell
"""


def offered_by(shell: str, line: str, folder: Path, environ: dict[str, str]) -> set[str]:
    """Return what a real shell offers at the end of a line."""
    if shell == "zsh":
        argv = ["zsh", "-f", "-c", ZSH, "zsh", line]
    else:
        argv = ["fish", "--no-config", "-c", FISH, line]
    ran = subprocess.run(
        argv, cwd=folder, env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    make_places(tmp_path)
    (tmp_path / "functions").mkdir()
    (tmp_path / "functions/_makeroom").write_text(text)
    (tmp_path / "script").write_text(text)
    (tmp_path / "setup").write_text(ZSH_SETUP)
    environ = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TERM": "dumb"}
    for line, offered in {
        "makeroom --output-f": {"--output-format"},
        "makeroom --output-format ": {"text", "json", "stream-json"},
        "makeroom --permission-mode b": {"bypassPermissions"},
        "makeroom --model h": {"haiku"},
        "makeroom --fallback-model claude-opus-5-": {"claude-opus-5-5"},
        "makeroom --setting-sources l": {"local"},
        "makeroom --resume 0": {SHORT},
        "makeroom --worktree p": {"parser", "permissions"} if shell == "zsh" else {"parser"},
        "makeroom --debug-file READ": {"README.md"},
        "makeroom sess": {"sessions"},
        "makeroom sessions ": {"list", "show", "search", "export"},
        "makeroom sessions show ": {SHORT},
        "makeroom verify ": {SHORT},
        "makeroom verify READ": {"README.md"},
        "makeroom completion z": {"zsh"},
        "makeroom sessions export x --format j": {"json", "jsonl"},
        "makeroom sessions export x --f": {"--format"},
        "makeroom mcp add x -t ": {"stdio", "http", "sse"},
        "makeroom replay READ": {"README.md"},
    }.items():
        assert offered_by(shell, line, tmp_path, environ) == offered, line


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_scripts_name_every_flag_and_are_valid(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    for name in FLAGS:
        long = name.startswith("--")
        assert (
            (f"-l {name[2:]} " if long else f"-s {name[1:]} ") in f"{text} "
            if shell == "fish"
            else name in text
        )
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    ran = subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_describes_flags_and_not_their_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "script").write_text(script("fish", capsys))
    asked = 'source script; complete -C "makeroom --mode"; complete -C "makeroom --model h"'
    argv = ["fish", "--no-config", "-c", asked]
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TERM": "dumb"}
    ran = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    flag, value = ran.stdout.splitlines()
    assert flag.startswith("--model\tuse this model") and value == "haiku"


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

"""`makeroom completion`: the scripts complete flags, values and subcommands in real shells."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.cli.arguments import COMMAND_HELP
from agent.cli.completion_command import SUBCOMMAND_WORDS, run_completion, shown_flags

FLAGS = {name for action in shown_flags() for name in action.option_strings}


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
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["--output-f"], ["--output-format"]),
        (["--output-format", ""], ["text", "json", "stream-json"]),
        (["--output-format", "j"], ["json"]),
        (["-p", "sess"], ["sessions"]),
        (["sessions", "s"], ["show", "search"]),
        (["-C", "sr"], ["src"]),
        (["--debug-file", "READ"], ["README.md"]),
        (["--max-turns", ""], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_bash_completes(
    words: list[str], offered: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "README.md").write_text("")
    assert completed(script("bash", capsys), ["makeroom", *words], tmp_path) == offered


def test_bash_offers_every_flag_and_subcommand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = script("bash", capsys)
    assert set(completed(text, ["makeroom", "-"], tmp_path)) == FLAGS
    commands = {usage.split()[0] for usage in COMMAND_HELP}
    assert set(completed(text, ["makeroom", ""], tmp_path)) == commands >= set(SUBCOMMAND_WORDS)


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


def test_an_unknown_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_completion(["tcsh"]) == 2
    assert capsys.readouterr().err == "usage: makeroom completion bash|zsh|fish\n"
    assert run_completion(["--help"]) == 0

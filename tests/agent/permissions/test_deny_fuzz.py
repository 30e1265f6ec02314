"""Random command lines with bash as the judge: what is not stopped runs nothing that is denied."""

import shlex
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from agent.permissions.deny_rules import denial_of
from agent.permissions.rule_syntax import parse_rules
from agent.shell import Certainty
from tests.agent.shell.command_grammar import ALONE, FAMILY, MEMBER, Grammar

RULES = parse_rules(f"bash({ALONE}), bash({FAMILY} {MEMBER})")
LINE_LIMIT_S = 3  # a disturbed line may wait for ever


def lines_by_verdict(folder: Path, count: int, seed: int) -> dict[Certainty, list[str]]:
    """Random lines, by what the deny rules say about them. `folder` gets the two programs, which log."""
    for name in (ALONE, FAMILY):
        program = folder / "s" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nprintf "%s\\0" {name} "$@" END >>ran\n')
        program.chmod(0o755)
    grammar = Grammar(Random(seed), str(folder / "s"))
    found: dict[Certainty, list[str]] = defaultdict(list)
    for _ in range(count):
        line = grammar.line()
        found[denial_of(RULES, line).certainty].append(line)
    return found


def ran_by_bash(folder: Path, lines: list[str]) -> list[tuple[str, str]]:
    """Let bash run each line in a directory of its own; those that ran what is denied, with what they ran."""
    for number, line in enumerate(lines):
        (folder / f"{number}").mkdir(parents=True)
        (folder / f"{number}.line").write_text(line, newline="")
    limit = f"timeout {LINE_LIMIT_S}" if shutil.which("timeout") else ""  # macOS has none
    every = (
        f"for n in {{0..{len(lines) - 1}}}; do cd {folder}/$n &&"
        f" {limit} /bin/bash --norc {folder}/$n.line; done; sleep 0.3"
    )
    subprocess.run(
        ["/bin/bash", "--norc", "-c", every],
        env={"PATH": f"{folder.parent}/s:/usr/bin:/bin", "HOME": str(folder), "FUNCNEST": "30"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=LINE_LIMIT_S * len(lines) + 60,
        check=False,
    )
    logs = [(line, folder / f"{number}" / "ran") for number, line in enumerate(lines)]
    found = [(line, log.read_bytes().decode("utf-8", "replace")) for line, log in logs if log.exists()]
    return [(line, log) for line, log in found if any(map(is_denied, log.split("\0END\0")))]


def is_denied(call: str) -> bool:
    """Return whether a rule denies a logged call."""
    return denial_of(RULES, shlex.join(call.split("\0"))).certainty is Certainty.YES


def test_bash_runs_nothing_that_is_denied(tmp_path: Path) -> None:
    found = lines_by_verdict(tmp_path, 400, seed=1)
    assert ran_by_bash(tmp_path / "free", found[Certainty.NO]) == []
    assert len(found[Certainty.NO]) > 50
    surely = found[Certainty.YES][:40]
    assert len(ran_by_bash(tmp_path / "denied", surely)) > 20, "the programs are found, and log"


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_bash_runs_nothing_that_is_denied_in_many_lines(tmp_path: Path) -> None:
    found = lines_by_verdict(tmp_path, 12_000, seed=2)
    assert ran_by_bash(tmp_path / "free", found[Certainty.NO]) == []
    assert len(found[Certainty.NO]) > 1_500
    ran, surely = len(ran_by_bash(tmp_path / "denied", found[Certainty.YES])), len(found[Certainty.YES])
    assert ran > 0.6 * surely, "what is surely denied would mostly run"

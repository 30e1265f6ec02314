"""A rule for a program stands for arguments inside the project, unless it names a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.permissions import PermissionRules, judge_call, parse_rules
from agent.shell import ProjectEnvironment
from tools.base import Access

# Builtins that evaluate subscripts, as the manual of bash describes them.
EVALUATING = (
    *("read", "unset", "declare", "typeset", "local", "export", "readonly", "let", "wait"),
    *("mapfile", "readarray"),
)
_RULES = (
    ", ".join(f"bash({builtin})" for builtin in (*EVALUATING, "printf"))
    + ", bash(black), bash(pytest), bash(ruff check), bash(git fetch), bash(docker ps), bash(test), bash(cp)"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    (folder / "sub").mkdir(parents=True)
    (folder / "away").symlink_to(tmp_path)
    return folder


def rules_in(folder: Path, allow: str = _RULES) -> PermissionRules:
    reading = ProjectEnvironment(str(folder), {"PATH": "/usr/bin:/bin"})
    return PermissionRules(folder=str(folder), allow=parse_rules(allow), reading=lambda: reading)


@pytest.mark.parametrize(
    "line",
    [
        *(
            "black /home",
            "ruff check --fix /home",
            "pytest /tmp/x.py",
            "git fetch /tmp/evil",
            "pytest ../x.py",
        ),
        *("docker ps -H tcp://example.org", "docker ps -Hunix:///tmp/s", "git fetch file:///tmp/evil"),
        *(
            "black sub/../../x",
            "black away/x",
            "cp a ../b",
        ),
        *("test -v 'a[$(id)]'", "printf -v 'a[$(id)]' x", "test -v 'a[`id`]'"),
        *(f"{builtin} 'a[$(id)]'" for builtin in EVALUATING),
    ],
)
def test_an_argument_outside_the_project_is_asked_about(folder: Path, line: str) -> None:
    """The reason names the argument, and "always" is for exactly this line."""
    rules = rules_in(folder)
    verdict = judge_call("bash", [Access("run", line, cwd=str(folder))], rules)
    assert verdict.answer == "ask" and "does not cover" in verdict.why
    assert verdict.prefix is not None and verdict.prefix.exact and verdict.prefix.is_exactly(line)


@pytest.mark.parametrize(
    "line",
    [
        *("black .", "black sub", "pytest -x sub/test_a.py::test_b", "ruff check --fix --select=E,W sub"),
        *(
            "git fetch origin",
            "git fetch https://example.org/a",
            "docker ps -a",
            "cp a sub/../b",
            "cp a /dev/null",
        ),
        *(f"cp a /dev/{stream}" for stream in ("stdin", "stdout", "stderr", "tty")),
        *("test -f a", "pytest sub -k 'a and not b'", "test -n 'a[1]'", "cp a /dev/null"),
    ],
)
def test_arguments_inside_the_project_are_covered(folder: Path, line: str) -> None:
    assert judge_call("bash", [Access("run", line, cwd=str(folder))], rules_in(folder)).answer == "allow"


def test_always_for_a_line_with_one_argument_outside_means_exactly_this_line(folder: Path) -> None:
    line = "mypy sub && mypy /home"
    verdict = judge_call("bash", [Access("run", line, cwd=str(folder))], rules_in(folder))
    assert verdict.prefix is not None and verdict.prefix.is_exactly(line)
    inside = judge_call("bash", [Access("run", "mypy sub && mypy .", cwd=str(folder))], rules_in(folder))
    assert str(inside.prefix) == "bash(mypy)"


def test_a_rule_that_names_a_path_covers_it(folder: Path) -> None:
    for allow, line in (
        ("bash(black /home)", "black /home/a"),
        ("bash(pytest ../shared/*)", "pytest ../shared/x"),
        ("bash(=black /home)", "black /home"),
        ("bash", "black /home"),
    ):
        rules = rules_in(folder, allow)
        verdict = judge_call("bash", [Access("run", line, cwd=str(folder))], rules)
        covers = allow != "bash(black /home)"
        assert (verdict.answer == "allow") is covers, line

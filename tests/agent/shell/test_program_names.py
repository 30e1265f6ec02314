"""A denied program is denied behind links, copies and aliases of git too."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.permissions.explanation import explain_line
from agent.permissions.rule_syntax import parse_rules
from agent.shell.absent_programs import missing_programs
from agent.shell.git_files import parse_settings
from agent.shell.option_syntax import NotProved
from agent.shell.program_names import own_programs_of
from agent.shell.project_environment import ProjectEnvironment
from agent.shell.reading_programs import Reading
from tests.tables import each_row
from tools.base import Access

from .reading_project import ReadingProject


def test_a_link_that_is_exchanged_while_it_is_followed_leads_nowhere(
    project: ReadingProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(path: str) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr("os.readlink", gone)
    folder = str(project.root)
    files = ProjectEnvironment(folder, project.environ)
    assert files.text(f"{folder}/linked") == "" and files.file_names(f"{folder}/linked") == ()
    assert files.is_outside("linked", folder)
    assert files.other_names("./linked", folder, frozenset({"true"})) == {"true"}  # a copy of it
    assert files.own_programs(["./linked"], folder) != ""
    monkeypatch.setitem(files.environ, "PATH", folder)
    with pytest.raises(NotProved, match="is being replaced"):
        files.check_program(Reading(program="linked"), folder)


DENIED = parse_rules("bash(git push), bash(true), bash(git-tool)")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReadingProject:
    made = ReadingProject(tmp_path_factory.mktemp("named"))
    made.commit()
    (made.root / "linked").symlink_to("src/through")
    (made.root / "src/through").symlink_to("/usr/bin/true")
    shutil.copy("/usr/bin/true", made.root / "copied")
    shutil.copy("/usr/bin/false", made.root / "another")
    (made.root / "g").symlink_to("/usr/bin/git")
    (made.root / "links form a loop").symlink_to("links form a loop")
    for name, value in {
        "p": "push",
        "sp": "!git push --force",
        "q": "p origin",
        "lg": "log --oneline",
    }.items():
        made.git("config", f"alias.{name}", value)
    made.git("config", "--global", "alias.up", "push -u")
    (made.place / "home/more").write_text('[Alias]\n\tfar = "!f() { true \\"$@\\"; }; f" ; as a script\n')
    made.git("config", "--global", "include.path", "more")
    subprocess.run(["git", "init", "-q", made.place / "other"], check=True, env=made.environ)
    (made.place / "other/.git/config").write_text("[alias] there = pu\\\nsh\n")
    return made


def answer(project: ReadingProject, line: str, folder: str = "") -> str:
    """Return the verdict for a line that only deny rules can stop."""
    return project.verdict(line, folder=folder, mode="bypassPermissions", deny=DENIED).answer


@each_row(
    "line",
    ["./linked x", "./copied", "timeout 5 ./linked", "$PWD/linked", "bash -c './copied x'",
     "cd src; ../linked", "cd src && ./through", "PATH=.:$PATH; ./copied", "./g push",
     "./g p", "git p", "git -C src p",
     "git --no-pager p x", "git sp", "git q", "git up", "git far away", "git P", "cd src && git p",
     "git -C ../other there", "git tool x", "./linked || ls"],
)  # fmt: skip
def test_links_copies_and_aliases_of_what_is_denied_are_denied(project: ReadingProject, line: str) -> None:
    expected = "ask" if line == "git tool x" else "deny"  # git may have no such program
    assert answer(project, line) == expected


@each_row(
    "line",
    ["HOME=/x git p", "GIT_CONFIG_GLOBAL=x git p", "env XDG_CONFIG_HOME=/x git p", "git -c include.path=x p",
     "git --config-env=alias.z=Z z", "git -c alias.z=q z",
     "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.z GIT_CONFIG_VALUE_0=push git z",
     "export GIT_DIR=x; git z"],
)  # fmt: skip
def test_where_the_line_steers_git_its_aliases_are_not_known(project: ReadingProject, line: str) -> None:
    assert answer(project, line) == "ask"


@each_row(
    "line",
    ["./another", "git lg", "git status", "HOME=/x git status", "git z", "./circle", "./absent", "git",
     "git -C src", "ls linked copied", "cat ./linked", "/usr/bin/ls", "./src", "git log p", "git lg p"],
)  # fmt: skip
def test_other_programs_and_aliases_are_not_stopped(project: ReadingProject, line: str) -> None:
    assert answer(project, line) == "allow"


def test_an_alias_means_what_git_makes_of_it(project: ReadingProject) -> None:
    """git itself is asked; a setting may be written in many ways."""
    text = (
        '[user]\nname = p = push\n[alias]# x = push\n a = "pu\\\nsh" # x\n; b = \\\n c = push;d\n'
        '[alias "e f"]\ncommand = push\n[ALIAS]\r\n\tG=push "a \\" b"\\t\\\\ \r\n[alias] h = push\n i\n'
        ' j=\n k = a ; b\n l = "a ; b" \'#\n'
    )
    path = project.place / "written"
    path.write_text(text)
    listed = project.git("config", "--file", str(path), "--null", "--get-regexp", r"^alias\.")
    asked = [pair.partition("\n")[::2] for pair in listed.split("\0") if pair]
    found = [
        (".".join(filter(None, (section, inner, key))), value)
        for section, inner, key, value in parse_settings(text)
        if section == "alias"
    ]
    assert found == asked


def test_settings_that_cannot_be_read_make_an_alias_doubtful(tmp_path: Path) -> None:
    made = ReadingProject(tmp_path)
    made.git("config", "--global", "include.path", "pipe")
    os.mkfifo(made.place / "home/pipe")
    assert (answer(made, "git p"), answer(made, "git status")) == ("ask", "allow")


def test_aliases_that_lead_in_a_circle_need_approval(project: ReadingProject) -> None:
    project.git("config", "alias.c1", "c2")
    project.git("config", "alias.c2", "c1")
    assert answer(project, "git c1") == "ask"


def test_an_explanation_reports_what_an_alias_stands_for(project: ReadingProject) -> None:
    rules = project.rules(deny=DENIED)
    lines = explain_line("bash", Access("run", "git sp now", cwd=str(project.root)), rules)
    assert lines[0] == "deny: the rule bash(git push) denies this"
    assert "  git push --force now  the rule bash(git push) denies this" in lines


def test_what_is_denied_without_a_name_of_a_program_is_judged_as_before(tmp_path: Path) -> None:
    made = ReadingProject(tmp_path)
    for rules, expected in (("bash(*)", "deny"), ("bash(=git p)", "deny"), ("bash(=git q)", "allow")):
        given = {"mode": "bypassPermissions", "deny": parse_rules(rules)}
        assert made.verdict("git p", **given).answer == expected  # type: ignore[arg-type]


def relinked(tool: Path, target: str) -> None:
    tool.unlink()
    tool.symlink_to(target)


def rewritten(tool: Path, text: str) -> None:
    tool.unlink()
    tool.write_text(text)


def test_programs_of_the_project_are_known_by_where_they_lead_and_what_they_hold(tmp_path: Path) -> None:
    made = ReadingProject(tmp_path)
    files, folder = ProjectEnvironment(str(made.root), made.environ), str(made.root)
    tool = made.root / ".venv/bin/tool"
    tool.parent.mkdir(parents=True)
    seen = [own_programs_of("ls; git status", folder, files)]
    assert seen == [""]
    for line, change in (
        (".venv/bin/tool x", lambda: tool.symlink_to("/usr/bin/true")),
        (".venv/bin/tool x", lambda: relinked(tool, "/usr/bin/env")),
        (".venv/bin/tool x", lambda: rewritten(tool, "echo a")),
        (".venv/bin/tool x", lambda: tool.write_text("echo b")),
        ("env A=1 .venv/bin/tool", lambda: tool.write_text("echo c")),
        ("cd src && bash a.sh; bash a.sh", lambda: (made.root / "a.sh").write_text("echo")),
        ("bash a.sh", lambda: (made.root / "a.sh").write_text("echo 2")),
    ):
        change()
        now = own_programs_of(line, folder, files)
        assert now not in seen and now == own_programs_of(f"{line} 2>x", folder, files)
        seen.append(now)
    assert own_programs_of("bash a.sh", str(made.root / "src"), files) == ""


@each_row(
    "line, missing",
    [
        ("true && ./tool x", []),
        ("./absent x", ["./absent"]),
        ("absent-program | cat", ["absent-program"]),
        ("python3 hooks/absent.py", ["hooks/absent.py"]),
        ("~/tool; ~/absent", ["HOME/absent"]),
        ("cd hooks && ./absent", []),
        ("test -x absent && ./absent", []),
        ("f() { true; }; f", []),
        ("$TOOL x; [ -f x ]; export A=b", []),
    ],
)
def test_programs_that_a_line_runs_and_that_do_not_exist(
    line: str, missing: list[str], tmp_path: Path
) -> None:
    (tmp_path / "tool").write_text("")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    found = missing_programs(line, str(tmp_path), environ)
    assert found == [name.replace("HOME", str(tmp_path)) for name in missing]

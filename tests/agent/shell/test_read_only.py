"""Read-only lines run without a question in every mode; lines that may do anything else do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.permissions.modes import MODES
from agent.permissions.rule_syntax import parse_rules
from tests.tables import each_row

from .reading_project import ReadingProject, lines_of


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ReadingProject:
    """A project that is only looked at."""
    made = ReadingProject(tmp_path_factory.mktemp("reading"))
    made.commit()
    (made.root / "link").symlink_to(made.place / "other/notes")
    (made.root / "folder_link").symlink_to(made.place / "other")
    return made


@pytest.fixture
def changing(tmp_path: Path) -> ReadingProject:
    """A project of its own for one test."""
    made = ReadingProject(tmp_path)
    made.commit()
    return made


@each_row("line", lines_of("lines_that_read.txt"))
def test_what_only_reads_the_project_runs_unasked(project: ReadingProject, line: str) -> None:
    verdict = project.verdict(line)
    assert verdict.answer == "allow", verdict


@each_row("line", lines_of("lines_in_doubt.txt"))
def test_what_may_do_more_or_reads_elsewhere_needs_approval(project: ReadingProject, line: str) -> None:
    assert not project.runs(line)


@each_row("mode", MODES)
def test_reading_is_free_in_every_mode_but_not_against_a_deny_rule(
    project: ReadingProject, mode: str
) -> None:
    line = "grep -rn x src | head"
    assert project.verdict(line, mode=mode).answer == "allow"
    assert project.verdict(line, mode=mode, deny=parse_rules("bash(grep)")).answer == "deny"


def test_a_hard_link_to_a_file_with_secrets_needs_approval(changing: ReadingProject) -> None:
    (changing.root / ".env").write_text("KEY=1\n")
    (changing.root / "twin").hardlink_to(changing.root / "a.py")
    (changing.root / "notes.txt").hardlink_to(changing.root / ".env")
    assert changing.runs("cat twin a.py") and not changing.runs("cat notes.txt")
    for line in ("grep -r x .", "grep -R x .", "rg x", "grep -rn x . --include=*.txt"):
        assert not changing.runs(line), line
    assert changing.runs("grep -r x src") and changing.runs("grep -rn x . --include=*.py")


def test_input_from_a_file_is_read_like_an_operand(changing: ReadingProject) -> None:
    (changing.root / ".env").write_text("KEY=1\n")
    (changing.root / "notes.txt").hardlink_to(changing.root / ".env")
    (changing.root / "link").symlink_to("../other/notes")
    for line in ("tr a b < a.py", "<a.py sort | uniq -c", "wc -l <src/b.py 2>/dev/null", "cat - < /dev/null"):
        assert changing.runs(line), line
    changing.commit()
    outside = (
        "tr a b < ../other/notes",
        "git -C src/deep log < ../other",
        "cat <link",
        "tr a b </proc/self/environ",
    )
    for line in (*outside, "head -1 < .env", "wc <notes.txt", "bash < a.py", "python3 <a.py", "cd <a.py"):
        assert not changing.runs(line), line


def test_a_rule_for_a_command_does_not_cover_what_its_input_comes_from(changing: ReadingProject) -> None:
    assert changing.runs("make test", "make test")
    for line in ("make test < a.py", "make test <../other/notes", "make test; make test < ~/.ssh/id_rsa"):
        assert not changing.runs(line, "make test"), line
    assert changing.runs("make test < a.py", "=make test < a.py")


def test_a_search_through_directories_needs_approval_where_files_with_secrets_lie(
    changing: ReadingProject,
) -> None:
    assert changing.runs("grep -r x .") and changing.runs("grep -r x src") and changing.runs("rg x")
    (changing.root / "src/.env").write_text("KEY=1\n")
    for line in (
        "grep -r x .",
        "grep -rn x src",
        "grep -R x src",
        "rg -uu x",
        "rg --hidden x",
        "diff -r src .",
    ):
        assert not changing.runs(line), line
    left_out = ("grep -r --exclude='.env*' x .", "grep -r --include='*.py' x .", "grep -rn x src/deep")
    for line in ("rg x", "rg -u x", "git grep x", "find . -name x", "ls -R", *left_out):
        assert changing.runs(line), line
    assert (
        not changing.runs("ls src/.e*") and not changing.runs("cat src/.[e]nv") and changing.runs("cat src/*")
    )
    (changing.root / "src/.env").rename(changing.root / "src/.env.example")
    assert changing.runs("grep -r x .")


@pytest.mark.parametrize(
    "line",
    [
        r"grep -r --include='\.env' x .",
        "grep -r --include='[^a]env' x .",
        "grep -r --exclude='[^.]env' x .",
        "rg x -g .env",
        "rg x -g '{.env,a}'",
        "rg x --glob='*'",
        "rg x --iglob='*.ENV'",
    ],
)
def test_a_pattern_that_lets_a_search_into_secrets_needs_approval(
    changing: ReadingProject, line: str
) -> None:
    assert changing.runs(line)
    (changing.root / "src/.env").write_text("KEY=1\n")
    assert not changing.runs(line)
    free = ("grep -r --include='*.[ch]' x .", "rg x -g '*.py' -g '!b*'")
    assert [other for other in free if not changing.runs(other)] == []


def test_private_keys_need_approval_also_where_git_shows_them(changing: ReadingProject) -> None:
    key = "-----BEGIN PRIVATE KEY-----\n"
    public = "-----BEGIN CERTIFICATE-----\n"
    for name, text in (("src/server.key", key), ("ca.pem", public), ("gone.key", key)):
        (changing.root / name).write_text(text)
    changing.git("add", ".")
    changing.git("commit", "-qm", "keys")
    (changing.root / "gone.key").unlink()
    asked = ("cat src/server.key", "grep -r x .", "head src/*.key", "git show HEAD:gone.key")
    assert [line for line in asked if changing.runs(line)] == []
    free = ("cat ca.pem", "grep -r x src/deep", "git show HEAD:ca.pem", "ls src/server.key", "wc -l a.py")
    assert [line for line in free if not changing.runs(line)] == ["ls src/server.key"]


def test_a_search_that_follows_links_needs_approval_where_they_lead_out(changing: ReadingProject) -> None:
    assert changing.runs("grep -R x src")
    (changing.root / "src/inside").symlink_to("../a.py")
    assert changing.runs("grep -R x src")
    (changing.root / "src/out").symlink_to(changing.place / "other")
    assert changing.runs("grep -r x src")
    assert not changing.runs("grep -R x src") and not changing.runs("diff -r src .")


def test_a_file_named_like_an_option_makes_a_glob_one(changing: ReadingProject) -> None:
    assert changing.runs("rg x *") and changing.runs("cat -- *")
    assert not changing.runs("touch y; rg x *", "touch")
    assert changing.runs("touch y; rg x ./*", "touch")
    (changing.root / "--pre=sh").touch()
    assert not changing.runs("rg x *") and not changing.runs("rg x -*")
    assert changing.runs("rg x ./*")


def test_a_program_of_the_project_is_not_taken_for_one_of_the_system(changing: ReadingProject) -> None:
    own = changing.root / "bin/ls"
    own.parent.mkdir()
    own.write_text("#!/bin/sh\n")
    system = changing.environ["PATH"]
    for before in (str(own.parent), "bin", f"{changing.root}/src/../bin"):
        changing.environ["PATH"] = f"{before}:{system}"
        assert changing.runs("ls"), "not executable yet"
        own.chmod(0o755)
        assert not changing.runs("ls") and changing.runs("cat a.py")
        own.chmod(0o644)
    own.chmod(0o755)
    beside = changing.place / "tools"
    beside.mkdir()
    (beside / "ls").symlink_to(own)
    changing.environ["PATH"] = f"{beside}:{system}"
    assert not changing.runs("ls")
    changing.environ["PATH"] = f":{system}"
    assert changing.runs("ls") and not changing.runs("cd bin && ls")


def test_a_function_of_the_environment_is_not_a_program(changing: ReadingProject) -> None:
    for name in ("ls", "echo", "cd"):
        changing.environ[f"BASH_FUNC_{name}%%"] = "() { rm -r .; }"
    assert not any(map(changing.runs, ("ls", "echo x", "cd src && pwd"))) and changing.runs("cat a.py")


def test_a_version_is_asked_of_the_program_itself(changing: ReadingProject) -> None:
    assert changing.runs("git --version") and changing.runs("bash --version")
    tools = changing.place / "home/.pyenv/shims"
    tools.mkdir(parents=True)
    for name in ("rustup", "go", "node"):
        shutil.copy("/bin/true", tools / name)
    (tools / "cargo").hardlink_to(tools / "rustup")
    changing.environ["PATH"] = f"{tools}:{changing.environ['PATH']}"
    assert changing.runs("node --version") and not changing.runs("node --version x")
    for name in ("python3", "npm", "mypy"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    for line in ("python3 --version", "npm -v", "mypy --version", "cargo --version", "go version"):
        assert not changing.runs(line), f"what runs may be chosen by the project: {line}"


def test_a_comparison_of_directories_reads_what_is_in_them(changing: ReadingProject) -> None:
    for name in ("one", "two"):
        (changing.root / name).mkdir()
        (changing.root / name / "a").write_text(name)
    lines = ("diff one two", "diff one two/a", "diff a.py one")
    assert changing.runs(lines[0]) and changing.runs(lines[1])
    (changing.root / "one/a.py").symlink_to("/etc/hosts")
    assert not any(changing.runs(line) for line in lines)


def test_what_git_prints_of_a_tracked_file_with_secrets_needs_approval(changing: ReadingProject) -> None:
    lines = ("git diff HEAD", "git show", "git log -p -1", "git grep x", "git diff --cached", "git show -p")
    free = ("git diff --stat HEAD", "git log", "git show --stat", "git diff HEAD -- src", "git show @:a.py")
    (changing.root / ".env.example").write_text("KEY=\n")
    changing.git("add", ".")
    assert all(map(changing.runs, (*lines, *free)))
    (changing.root / ".env").write_text("KEY=1\n")
    changing.git("add", ".env")
    assert [line for line in lines if changing.runs(line)] == []
    more = ("git diff", "git grep -l x", "git grep -e x src", "git grep x -- '*.py'", "git status")
    assert [line for line in (*free, *more) if not changing.runs(line)] == []
    assert changing.runs("git show", "git show"), "a rule for it counts"
    (changing.root / ".env").write_text("KEY=22\n")
    assert not changing.runs("git diff") and not changing.runs("git diff", folder="src")


@pytest.mark.parametrize("name", ["prod.env", ".dev.vars", "terraform.tfstate", "config/database.yml"])
def test_a_tracked_secret_under_another_name_needs_approval_to_be_printed(
    changing: ReadingProject, name: str
) -> None:
    (changing.root / name).parent.mkdir(exist_ok=True)
    (changing.root / name).write_text("password: hunter2\n")
    changing.git("add", ".")
    lines = ("git diff HEAD", "git grep x", f"cat {name}", f"git show HEAD:{name}", "grep -r x .")
    assert [line for line in lines if changing.runs(line)] == []

"""The project that `--sample` makes, and the demo that repairs it."""

from __future__ import annotations

import os
import runpy
import subprocess
from pathlib import Path

import pytest

from agent.app.options import Options
from agent.cli.sample_project import LOG_FILES, SAMPLE_WINDOW_TOKENS, with_sample
from agent.demo.dialogue import SAMPLE_BUG, SAMPLE_REMEDY
from agent.errors import UsageError
from tests.agent.ui.headless_run import run_here


def test_the_demo_repairs_the_sample_project(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = "--of-a-plugin"\n')
    flags = ("--offline", "--sample", "--permission-mode", "acceptEdits")
    done = run_here(tmp_path, capfd, None, "fix the failing test", *flags)
    module = tmp_path / "makeroom-sample" / "temperature.py"
    assert done.returncode == 0 and "Both tests pass" in done.stdout, done.stderr
    assert SAMPLE_REMEDY in module.read_text() and SAMPLE_BUG not in module.read_text()


def test_the_sample_project_is_made_once_and_its_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = with_sample(Options(folder=str(tmp_path), offline=True))
    folder = Path(options.folder or "")
    assert (
        options.context_window == SAMPLE_WINDOW_TOKENS and len(list((folder / "logs").iterdir())) == LOG_FILES
    )
    (folder / "README.md").write_text("mine")
    again = with_sample(Options(folder=str(tmp_path), context_window=9))
    assert again.context_window == 9 and options.remarks == ()
    assert again.remarks == (f"continuing in the sample project {folder}; delete it to begin with a new one",)
    assert with_sample(Options(folder=str(tmp_path), continue_=True)).remarks == ()
    assert (options.window_flag, Options().window_flag) == ("--sample", "--context-window")
    assert (folder / "README.md").read_text() == "mine"
    monkeypatch.setattr("sys.argv", ["report.py", str(folder / "logs" / "station-1.txt")])
    monkeypatch.syspath_prepend(folder)
    runpy.run_path(str(folder / "report.py"), run_name="__main__")
    assert "was the warmest" in capsys.readouterr().out


def test_git_does_not_show_the_sample_project_also_in_a_worktree(tmp_path: Path) -> None:
    def git(*words: str, at: Path) -> str:
        line = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words]
        return subprocess.run(line, cwd=at, check=True, capture_output=True, text=True).stdout

    main, sub, tree = tmp_path / "main", tmp_path / "main" / "sub", tmp_path / "tree"
    sub.mkdir(parents=True)
    git("init", "-q", at=main)
    git("commit", "-q", "--allow-empty", "-m", "first", at=main)
    git("worktree", "add", "-q", str(tree), at=main)
    for place in (main, sub, sub, tree):
        remarks = with_sample(Options(folder=str(place))).remarks
        assert not any("cannot" in remark for remark in remarks)
    assert [git("status", "--porcelain", at=place) for place in (main, tree)] == ["", ""]
    lines = (main / ".git" / "info" / "exclude").read_text().splitlines()
    assert [line for line in lines if "sample" in line] == ["/makeroom-sample/", "/sub/makeroom-sample/"]


def test_an_unknown_repository_is_a_remark(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "info").write_text("a file")
    (told,) = with_sample(Options(folder=str(tmp_path))).remarks
    assert told.startswith("cannot exclude makeroom-sample from git: ")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / "makeroom-sample"
    folder.mkdir()
    (folder / "README.md").symlink_to(elsewhere / "made")
    with_sample(Options(folder=str(tmp_path)))
    assert not (elsewhere / "made").exists()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/makeroom-sample").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="cannot create the sample project"):
        with_sample(Options(folder=str(tmp_path / "linked")))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/makeroom-sample").mkdir()
    (tmp_path / "logs/makeroom-sample/logs").symlink_to(elsewhere)
    with pytest.raises(UsageError, match="cannot create the sample project"):
        with_sample(Options(folder=str(tmp_path / "logs")))
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_the_exclude_file_of_git_is_not_written_if_it_is_no_file(tmp_path: Path, kind: str) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    exclude = tmp_path / ".git/info/exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.unlink(missing_ok=True)
    target = tmp_path / "target"
    target.write_text("mine\n")
    if kind == "link":
        exclude.symlink_to(target)
    else:
        os.mkfifo(exclude)
    (told,) = with_sample(Options(folder=str(tmp_path))).remarks
    assert told.startswith("cannot exclude makeroom-sample from git: ")
    assert target.read_text() == "mine\n"


def test_a_place_where_it_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "makeroom-sample").write_text("a file")
    with pytest.raises(UsageError, match="cannot create the sample project"):
        with_sample(Options(folder=str(tmp_path)))


def test_the_demo_does_not_quote_the_id_of_a_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = run_here(tmp_path, capfd, None, "read pytest.ini", "--offline", "--sample")
    assert "[pytest]" in done.stdout and "this result" not in done.stdout

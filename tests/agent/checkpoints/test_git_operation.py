"""The files of open merges and rebases are read and written without following what a command planted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.checkpoints.git_operation import Operation, git_places, operation_files, write_operation
from agent.checkpoints.reflogs import reflogs
from tests.tables import each_row
from tools.search import GitFailed


@pytest.fixture
def git(tmp_path: Path) -> Path:
    """The git directory of a working tree beside a directory with a secret."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "git-rebase-todo").write_text("secret")
    (folder := tmp_path / "project" / ".git").mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


@pytest.fixture
def places(git: Path) -> tuple[str, ...]:
    return git_places(git.parent)


def test_links_pipes_and_devices_are_not_read(git: Path, places: tuple[str, ...]) -> None:
    (git / "MERGE_MSG").write_text("a message")
    (git / "MERGE_HEAD").symlink_to("../../outside/git-rebase-todo")
    (git / "AUTO_MERGE").symlink_to("/dev/zero")
    (git / "rebase-merge").symlink_to("../../outside")
    os.mkfifo(git / "BISECT_LOG")
    (git / "sequencer").mkdir()
    os.mkfifo(git / "sequencer" / "todo")
    (git / "sequencer" / "todo.lock").write_text("of another git")
    (git / "sequencer" / "head").symlink_to("../../../outside/git-rebase-todo")
    assert operation_files(git.parent, places) == {"MERGE_MSG": "a message"}


@each_row(
    ("file", "branch", "kind", "moves_head"),
    [
        ("BISECT_START", "", "bisect", True),
        ("BISECT_START", "refs/heads/main", "bisect", False),
        ("rebase-merge/done", "", "rebase", True),
        ("rebase-apply/patch", "", "rebase", True),
        ("rebase-apply/applying", "", "am", True),
        ("rebase-apply/applying", "refs/heads/main", "am", False),
        ("MERGE_HEAD", "", "merge", False),
        ("CHERRY_PICK_HEAD", "", "cherry-pick", False),
        ("MERGE_MSG", "", "", False),
    ],
)
def test_operations_that_check_out_commits_move_head(
    file: str, branch: str, kind: str, moves_head: bool
) -> None:
    operation = Operation({file: ""}, commit="8d1c", branch=branch, tree="", conflicts="")
    assert (operation.kind, operation.moves_head) == (kind, moves_head)


def test_files_without_an_end_are_refused(git: Path, places: tuple[str, ...]) -> None:
    with (git / "MERGE_MSG").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(GitFailed, match="too large"):
        operation_files(git.parent, places)


def test_nothing_is_written_or_removed_behind_a_link(git: Path, places: tuple[str, ...]) -> None:
    (git / "rebase-merge").symlink_to("../../outside")
    with pytest.raises(OSError):
        write_operation(git.parent, {"rebase-merge/git-rebase-todo": "pick 1"}, places)
    write_operation(git.parent, {}, places)
    assert (git.parent.parent / "outside" / "git-rebase-todo").read_text() == "secret"
    (git / "MERGE_HEAD").symlink_to("../../outside/git-rebase-todo")
    write_operation(git.parent, {"MERGE_HEAD": "8d1c"}, places)
    assert (git / "MERGE_HEAD").read_text() == "8d1c" and not (git / "MERGE_HEAD").is_symlink()
    assert (git.parent.parent / "outside" / "git-rebase-todo").read_text() == "secret"


def test_reflogs_that_are_too_long_or_no_files_are_not_read(git: Path, places: tuple[str, ...]) -> None:
    line = f"{'0' * 40} {'1' * 40} a <a@b> 1 +0000\tcommit: one\n"
    (git / "logs/refs/heads").mkdir(parents=True)
    (git / "logs/HEAD").write_text(line)
    (git / "logs/refs/heads/main").write_text(line)
    (git / "logs/refs/heads/long").write_text(line * 20_000)
    os.mkfifo(git / "logs/refs/heads/pipe")
    (git / "logs/refs/heads/link").symlink_to("main")
    assert sorted(reflogs(git.parent, places)) == ["logs/HEAD", "logs/refs/heads/main"]


@pytest.mark.parametrize("is_link", [False, True])
def test_a_git_directory_outside_the_project_is_neither_read_nor_written(
    git: Path, places: tuple[str, ...], is_link: bool
) -> None:
    """A command may exchange that of a nested repository while /rewind restores it."""
    other = git.parent.parent / "other" / ".git"
    (other / "logs").mkdir(parents=True)
    (other / "MERGE_MSG").write_text("the user's")
    (other / "logs/HEAD").write_text(f"{'0' * 40} {'1' * 40} a <a@b> 1 +0000\tcommit: one\n")
    nested = git.parent / "nested"
    nested.mkdir()
    if is_link:
        (nested / ".git").symlink_to(other)
    else:
        (nested / ".git").write_text(f"gitdir: {other}\n")
    assert operation_files(nested, places) == {} == reflogs(nested, places)
    with pytest.raises(PermissionError, match="outside the project"):
        write_operation(nested, {"rebase-merge/git-rebase-todo": "exec true"}, places)
    assert (other / "MERGE_MSG").read_text() == "the user's" and not (other / "rebase-merge").exists()


def test_the_git_directory_of_a_worktree_is_read_and_written(tmp_path: Path) -> None:
    """It is outside the project."""
    own = tmp_path / "repository/.git/worktrees/tree"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (project := tmp_path / "project").mkdir()
    (project / ".git").write_text(f"gitdir: {own}\n")
    places = git_places(project)
    write_operation(project, {"MERGE_MSG": "a message"}, places)
    assert operation_files(project, places) == {"MERGE_MSG": "a message"}

"""A repository that a command emptied is put back: references, index and objects."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.sandbox.guards.git_backup import GitBackup

from .sandbox_session import git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "one")
    git(folder, "branch", "other/topic")
    (folder / "file").write_text("two\n")
    git(folder, "add", "file")
    return folder


def backup_of(project: Path) -> GitBackup:
    return GitBackup(project / ".git", project.parent / f"kept-{os.getpid()}")


def test_objects_that_are_linked_in_several_turns_are_put_back(project: Path) -> None:
    before, backup = state(project), backup_of(project)
    backup.max_links = 1
    backup.keep()
    turns = 1
    while backup.unlinked:
        backup.link_more()
        turns += 1
    shutil.rmtree(project / ".git" / "objects")
    assert backup.restore()
    assert state(project) == before
    assert turns > 2


def state(project: Path) -> str:
    """Return git's output about branches, the index, and faults."""
    looks = ("log --all --format=%s%d", "status --porcelain", "fsck --full", "diff --cached")
    done = (
        subprocess.run(["git", *look.split()], cwd=project, capture_output=True, text=True) for look in looks
    )
    return "".join(each.stdout + each.stderr for each in done)


@pytest.mark.parametrize("packed", [False, True])
def test_an_emptied_repository_is_put_back_whole(project: Path, packed: bool) -> None:
    if packed:
        git(project, "gc", "-q")
    before, backup = state(project), backup_of(project)
    backup.keep()
    for entry in list((project / ".git").iterdir()):
        if entry.name not in ("config", "hooks"):  # the sandbox keeps them
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    (line,) = backup.restore()
    assert line.startswith(
        "[a sandboxed command or another process emptied .git: HEAD, index, info, objects, "
    )
    assert state(project) == before


UNREADABLE = [
    *(
        (name, kind)
        for name in ("index", "packed-refs", "refs/heads/main")
        for kind in ("text", "pipe", "link")
    ),
    *(("HEAD", kind) for kind in ("text", "pipe")),  # git can read one that is a link
]


@pytest.mark.parametrize(("name", "kind"), UNREADABLE)
def test_a_file_that_git_cannot_read_is_replaced(project: Path, name: str, kind: str) -> None:
    if name == "packed-refs":
        git(project, "pack-refs", "--all")
    before, backup = state(project), backup_of(project)
    backup.keep()
    file = project / ".git" / name
    file.unlink()
    if kind == "text":
        file.write_text("text\n")
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.symlink_to("/etc/hostname")
    (line,) = backup.restore()
    assert name in line and line.endswith("restored]")
    assert file.is_file() and not file.is_symlink()
    assert state(project) == before
    assert backup.restore() == []


@pytest.mark.parametrize("part", ["objects", "refs"])
def test_a_directory_that_only_its_content_was_taken_from_is_put_back(project: Path, part: str) -> None:
    """The directory itself may be a mount, which stays."""
    before, backup = state(project), backup_of(project)
    backup.keep()
    for folder in (project / ".git" / part).iterdir():
        shutil.rmtree(folder)
    assert f"emptied .git: {part} were restored" in backup.restore()[0]
    assert state(project) == before


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let every file end after so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_copy_that_does_not_fit_on_the_disk_leaves_the_one_before(project: Path) -> None:
    backup = backup_of(project)
    backup.keep()
    before = (project / ".git" / "index").read_bytes()
    (project / "file").write_text("three\n")
    git(project, "add", "file")
    with full_disk(20):
        backup.keep()
    assert (backup.kept / "index").read_bytes() == before
    assert sorted(path.name for path in backup.kept.iterdir()) == [
        "HEAD",
        "index",
        "info",
        "object_copies",
        "objects",
        "refs",
    ]


def test_a_file_that_does_not_fit_on_the_disk_is_not_put_back_in_part(project: Path) -> None:
    backup = backup_of(project)
    backup.keep()
    index = project / ".git" / "index"
    index.unlink()
    shutil.rmtree(project / ".git" / "refs")
    with full_disk(60):
        (line,) = backup.restore()
    assert "refs were restored" in line and "index" not in line and not index.exists()


def test_what_changed_since_is_kept_in_its_last_state(project: Path) -> None:
    backup = backup_of(project)
    backup.keep()
    git(project, "commit", "-qm", "two")
    git(project, "branch", "-D", "other/topic")
    backup.keep()
    before = state(project)
    for name in ("objects", "refs"):
        shutil.rmtree(project / ".git" / name)
    (project / ".git/HEAD").unlink()
    assert backup.restore()
    assert state(project) == before
    assert "topic" not in before


def test_a_sound_repository_is_left_alone(project: Path) -> None:
    backup = backup_of(project)
    backup.keep()
    git(project, "commit", "-qm", "two")
    git(project, "gc", "-q", "--prune=now")
    after = state(project)
    assert backup.restore() == []
    assert state(project) == after


def test_nothing_is_put_back_through_a_link(project: Path, tmp_path: Path) -> None:
    backup = backup_of(project)
    backup.keep()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(project / ".git/refs")
    (project / ".git/refs").symlink_to(elsewhere)
    (project / ".git/HEAD").unlink()
    backup.restore()
    assert list(elsewhere.iterdir()) == []
    shutil.rmtree(project / ".git")
    (project / ".git").symlink_to(elsewhere)
    assert "could not be restored" in backup.restore()[0]
    assert list(elsewhere.iterdir()) == []


def test_a_repository_that_was_moved_is_not_made_again_and_one_that_was_deleted_is(project: Path) -> None:
    before, backup = state(project), backup_of(project)
    backup.keep()
    moved = project.rename(project.with_name("moved"))
    assert "could not be restored" in backup.restore()[0]
    assert not project.exists()
    moved.rename(project)
    assert backup.restore() == []
    shutil.rmtree(project / ".git")
    assert "emptied .git: HEAD" in backup.restore()[0]
    assert state(project) == before


def test_a_directory_that_is_not_a_repository_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    backup = GitBackup(tmp_path / ".git", tmp_path / "kept-1")
    backup.keep()
    (tmp_path / ".git").unlink()
    assert backup.restore() == []
    assert not (tmp_path / "kept-1").exists()


def test_copies_of_a_session_that_was_killed_are_removed_by_the_next(project: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    leftover, other = project.parent / f"kept-{ended.pid}", project.parent / "other-1"
    for folder in (leftover, other):
        folder.mkdir()
    backup_of(project).keep()
    assert not leftover.exists()
    assert other.exists()

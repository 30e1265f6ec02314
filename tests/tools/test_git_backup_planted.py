"""A git directory that a command filled with links, pipes, devices and huge files gives nothing away."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.sandbox.guards.git_backup import GitBackup

from .sandbox_session import git

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----\n"
Plant = Callable[[Path, Path], object]  # given the git directory and a hidden one


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    folder = tmp_path / "hidden"
    for name in ("id_rsa", "heads/id_rsa", "a" * 38):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(SECRET)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "file").write_text("one\n")
    git(folder, "add", "file")
    git(folder, "commit", "-qm", "one")
    return folder


def replace_folder(name: str) -> Plant:
    def plant(top: Path, hidden: Path) -> None:
        (top / name).rename(top.parent / "moved")
        (top / name).symlink_to(hidden)

    return plant


def link(name: str, target: str) -> Plant:
    def plant(top: Path, hidden: Path) -> None:
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).unlink(missing_ok=True)
        (top / name).symlink_to(hidden / target)

    return plant


def device(top: Path, hidden: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(top / "refs/heads/zero", 0o20666, os.makedev(1, 5))


def pipe(top: Path, hidden: Path) -> None:
    os.mkfifo(top / "refs/heads/pipe")


def pipe_for_index(top: Path, hidden: Path) -> None:
    (top / "index").unlink()
    os.mkfifo(top / "index")


def deep(top: Path, hidden: Path) -> None:
    here = os.open(top / "refs", os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def endless(top: Path, hidden: Path) -> None:
    for name in ("refs/heads/huge", "packed-refs", "shallow", "index", "gitdir"):
        with (top / name).open("wb") as file:
            file.truncate(1 << 40)


PLANTED: dict[str, Plant] = {
    "a link for refs": replace_folder("refs"),
    "a link for refs/heads": replace_folder("refs/heads"),
    "a link for objects": replace_folder("objects"),
    "a link for the reftable": link("reftable", "."),
    "a link for a reference": link("refs/heads/main", "id_rsa"),
    "a link for HEAD": link("HEAD", "id_rsa"),
    "a link for packed references": link("packed-refs", "id_rsa"),
    "a link for an object": link(f"objects/aa/{'a' * 38}", "id_rsa"),
    "a link for loose objects": link("objects/aa", "."),
    "a reference that is none": lambda top, _: (top / "refs/heads/x").write_text(SECRET),
    "a pipe": pipe,
    "a pipe for the index": pipe_for_index,
    "a device": device,
    "files without an end": endless,
    "a deep directory": deep,
}


def contents(folder: Path) -> bytes:
    """Return the first bytes of all files below a directory, without following links."""
    found = []
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    found.append(file.read(4096))
    return b"".join(found)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
def test_nothing_hidden_is_copied_or_restored(
    project: Path, hidden: Path, tmp_path: Path, plant: Plant, before: bool
) -> None:
    """A command plants it, another one empties the repository, and the guard restores it."""
    backup = GitBackup(project / ".git", tmp_path / f"kept-{os.getpid()}")
    if before:
        backup.keep()
    since = time.process_time()
    plant(project / ".git", hidden)
    backup.keep()
    kept = contents(tmp_path / f"kept-{os.getpid()}")
    shutil.rmtree(project / ".git")
    (project / ".git").mkdir()
    backup.restore()
    assert SECRET.encode() not in kept + contents(project / ".git")
    assert len(kept) < 1 << 20
    assert (hidden / "id_rsa").stat().st_nlink == 1
    assert time.process_time() - since < 5


def test_a_link_for_refs_is_put_aside_and_the_references_are_restored(project: Path, hidden: Path) -> None:
    backup = GitBackup(project / ".git", project.parent / f"kept-{os.getpid()}")
    backup.keep()
    PLANTED["a link for refs"](project / ".git", hidden)
    assert any("refs were restored" in line for line in backup.restore())
    assert (project / ".git/refs/heads/main").is_file()
    assert len(list((project / ".git").glob("refs.replaced-*"))) == 1


def test_no_race_copies_what_is_hidden(project: Path, hidden: Path, tmp_path: Path) -> None:
    """A command changes a directory to a link and back while the copies are made."""
    backup = GitBackup(project / ".git", tmp_path / f"kept-{os.getpid()}")
    heads = project / ".git/refs/heads"
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            heads.rename(heads.with_name("x"))
            heads.symlink_to(hidden)
            heads.unlink()
            heads.with_name("x").rename(heads)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(300):
            backup.keep()
            assert SECRET.encode() not in contents(tmp_path / f"kept-{os.getpid()}")
    finally:
        over.set()
        swapping.join()

"""Objects of a repository that a script deleted or overwrote are put back; those that git removed are not."""

import asyncio
import os
import subprocess
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import pytest

from tests.tables import each_row
from tools.sandbox.guards.git_backup import GitBackup
from tools.sandbox.guards.project_guard import ProjectGuard

LOOSE = "find .git/objects/?? -type f"
PACKS = "find .git/objects/pack -type f"
PREPARED = """
git init -q -b main; git config user.name me; git config user.email me@x; git config gc.auto 0
git config commit.gpgsign false; git config pack.writeReverseIndex false  # newer gits add a file to each pack
for n in 1 2 3 4; do echo $n >file$n; git add .; git commit -qm $n; done
git repack -dq; for n in 5 6 7 8; do echo $n >file$n; git add .; git commit -qm $n; done
git repack -dq; for n in 9 10 11; do echo $n >file$n; git add .; git commit -qm $n; done
echo lost | git hash-object -w --stdin
"""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two packs and ten loose objects, of which each test has a copy."""
    folder = tmp_path_factory.mktemp("original")
    subprocess.run(["bash", "-ec", PREPARED], cwd=folder, check=True, capture_output=True)
    return folder


def backup_of(project: Path) -> GitBackup:
    return GitBackup(project / ".git", project.parent / f"kept-{os.getpid()}")


def objects(folder: Path) -> str:
    """Return all objects with their contents, as git reads them, and the faults that it finds."""
    line = "git cat-file --batch-all-objects --batch; git fsck --full --no-dangling --no-progress 2>&1"
    return str(subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True).stdout)


@pytest.mark.parametrize("line", ["", f"; {LOOSE} -delete"])
def test_objects_that_a_clone_shares_with_its_original_are_whole_in_both(
    repository: Path, tmp_path: Path, line: str
) -> None:
    """A clone on the same disk has hard links to them."""
    original = copytree(repository, tmp_path / "original")
    before = objects(original)
    line_of_git = f"git clone -q --local {original} {tmp_path / 'clone'}"
    subprocess.run(["bash", "-c", line_of_git], check=True, capture_output=True)
    backup = backup_of(tmp_path / "clone")
    backup.keep()
    wreck = f"chmod u+w .git/objects/*/*; for f in $({LOOSE}); do : >$f; done {line}"
    subprocess.run(["bash", "-ec", wreck], cwd=tmp_path / "clone", check=True)
    assert objects(original) != before
    backup.restore()
    assert objects(tmp_path / "clone") == objects(original) == before
    backup.drop()


@each_row(
    "line, damaged",
    [
        (f"{LOOSE} -delete", 10),
        ("rm -rf .git/objects/* && mkdir .git/objects/pack", 14),
        (f"{PACKS} -delete", 4),
        (f"{PACKS} -name '*.idx' -delete", 2),
        (f"rm $({PACKS} -name '*.pack' | head -n 1)", 1),
        (f"{LOOSE} -exec sed -i 1d {{}} +", 10),
        (f"{PACKS} -exec sed -i 1d {{}} +", 4),
        (f"for f in $({LOOSE}); do rm $f; mkdir $f; done", 10),
        (f"for f in $({LOOSE}); do ln -sf /etc/hostname $f; done", 10),
        ("rm -rf .git/objects/pack; touch .git/objects/pack", 4),
        (f"rm $({LOOSE} | head -n 3)", 3),
        (f"git gc -q; {LOOSE} -delete; {PACKS} -delete", 14),
        (f"chmod -R u+w .git; for f in $({LOOSE}); do : >$f; done", 10),
        (f"chmod -R u+w .git; for f in $({PACKS}); do : >$f; done", 4),
        (f"chmod -R u+w .git; for f in $({LOOSE}); do echo x >>$f; done; chmod -R u-w .git/objects/??/*", 10),
        (f"f=$({LOOSE} | tail -n 1); chmod u+w $f; printf XX | dd conv=notrunc of=$f; touch -d @1 $f", 1),
        (f"f=$({PACKS} -name '*.pack' | head -n 1); chmod u+w $f; printf XX | dd conv=notrunc of=$f", 1),
        (f"chmod -R u+w .git; for f in $({LOOSE}; {PACKS}); do : >$f; rm $f; done", 14),
        (f"git fetch -q . main:x; git repack -q; {PACKS} -delete", 4),
    ],
)
def test_objects_that_a_script_damaged_are_put_back(
    repository: Path, tmp_path: Path, line: str, damaged: int
) -> None:
    project = copytree(repository, tmp_path / "project")
    backup = backup_of(project)
    backup.keep()
    before = objects(project)
    subprocess.run(["bash", "-c", line], cwd=project, check=True, capture_output=True)
    (told,) = backup.restore()
    assert objects(project) == before
    assert backup.restore() == []
    assert f"damaged {damaged} file" in told


TOUCH_OLD = "find .git/objects -type f -exec touch -d '20 days ago' {} +"


@each_row(
    "line, may_prune",
    [
        ("git gc -q", False),
        ("git repack -adq", False),
        ("git repack -dq; git prune-packed -q", False),
        ("git stash -q -u; git stash drop -q; git gc -q --prune=now", True),
        ("git prune --expire=now", True),
        (f"{TOUCH_OLD}; git gc -q", False),
        (f"git gc -q --cruft; {TOUCH_OLD}; git gc -q --cruft; git gc -q --cruft --prune=1.week.ago", True),
        ("git commit -q --allow-empty -m more; git -c gc.auto=1 gc --auto -q", False),
        ("git multi-pack-index write; git repack -adq; git multi-pack-index write", False),
        (
            "p=$(ls .git/objects/pack/*.pack); for f in $p; do mv $f .; done; cat *.pack >/dev/null;"
            " rm .git/objects/pack/*; for f in pack-*.pack; do git unpack-objects -q <$f; done",
            False,
        ),
    ],
)
def test_objects_that_git_removed_stay_away(
    repository: Path, tmp_path: Path, line: str, may_prune: bool
) -> None:
    project = copytree(repository, tmp_path / "project")
    (project / "new").write_text("new")
    backup = backup_of(project)
    backup.keep()
    subprocess.run(["bash", "-ec", line], cwd=project, check=True, capture_output=True)
    after = objects(project)
    assert backup.restore(may_prune=may_prune) == []
    backup.keep()
    assert backup.restore() == []
    assert objects(project) == after
    here = {path.relative_to(project / ".git/objects") for path in project.glob(".git/objects/*/*")}
    kept = {path.relative_to(backup.kept / "objects") for path in backup.kept.glob("objects/*/*")}
    assert {path.name for path in kept} == {path.name for path in here if path.parts[0] != "info"}


def test_damage_by_a_command_in_the_background_is_undone_before_the_next_one(
    repository: Path, tmp_path: Path
) -> None:
    project = copytree(repository, tmp_path.resolve() / "project")
    before = objects(project)

    async def main() -> None:
        guard = ProjectGuard(project, tmp_path)
        await guard.begin()
        for path in project.glob(".git/objects/*/*"):
            path.unlink()
        await guard.begin()
        (told,) = guard.take_reports()
        assert "damaged 14 files in .git/objects: restored" in told
        await guard.end()
        await guard.end()

    asyncio.run(main())
    assert objects(project) == before


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no second file system")
def test_objects_are_linked_beside_the_transcripts_if_our_own_directory_is_on_another_disk(
    repository: Path,
    tmp_path: Path,
) -> None:
    project = copytree(repository, tmp_path.resolve() / "project")
    (project / ".transcripts").mkdir()
    before = objects(project)

    async def main(own: Path) -> None:
        guard = ProjectGuard(project, own)
        await guard.begin()
        for path in project.glob(".git/objects/*/*"):
            path.unlink()
        await guard.end()
        (told,) = guard.take_reports()
        assert "damaged 14 files in .git/objects: restored" in told
        assert objects(project) == before
        await guard.close()
        assert not list(project.glob(".transcripts/*/*"))

    with TemporaryDirectory(dir="/dev/shm") as own:
        if Path(own).stat().st_dev == project.stat().st_dev:
            pytest.skip("there is no second file system")
        asyncio.run(main(Path(own)))

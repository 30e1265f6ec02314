"""Files are restored with contents, modes and links, and never through a link."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from agent.checkpoints.comparison import differences
from agent.checkpoints.file_restore import count_steps, line_counts, plan_restore, restore
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import THEIRS
from tests.sampling import sampled
from tests.tables import each_row

from .project import Seq, run, tree, write


def test_a_written_file_comes_back(root: Path, seq: Seq, checkpoints: Checkpoints) -> None:
    (root / "a.py").write_text("one\ntwo\n")
    (root / "a.py").chmod(0o751)
    before = tree(root)
    seq.value = 7
    write(checkpoints, root / "a.py", "one\nTWO\nthree\n")
    plan = plan_restore(checkpoints, 7)
    assert [(s.path, s.action, s.added, s.removed, s.changed_since) for s in plan] == [
        ("a.py", "restore", 1, 2, False)
    ]
    assert restore(checkpoints, plan, False) == {}
    assert tree(root) == before


def test_extended_attributes_come_back(root: Path, checkpoints: Checkpoints) -> None:
    noted, plain = root / "noted", root / "plain"
    for path in (noted, plain):
        path.write_text("text\n")
    try:
        os.setxattr(noted, "user.origin", b"a\0b")
    except OSError:
        pytest.skip("the file system has no extended attributes")

    def change() -> None:
        os.removexattr(noted, "user.origin")
        os.setxattr(plain, "user.new", b"x")
        plain.unlink()

    run(checkpoints, change)
    plan = plan_restore(checkpoints, 1)
    assert [(step.path, step.action) for step in plan] == [("noted", "restore"), ("plain", "create")]
    assert restore(checkpoints, plan, False) == {}
    assert os.getxattr(noted, "user.origin") == b"a\0b" and os.listxattr(plain) == []
    assert plan_restore(checkpoints, 1) == []


@pytest.mark.parametrize("removes", [False, True])
def test_extended_attributes_of_directories_come_back(
    root: Path, checkpoints: Checkpoints, removes: bool
) -> None:
    folder = root / "noted"
    folder.mkdir()
    try:
        os.setxattr(folder, "user.origin", b"a\0b")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    run(checkpoints, folder.rmdir if removes else lambda: os.removexattr(folder, "user.origin"))
    (step,) = plan = plan_restore(checkpoints, 1)
    assert (step.path, step.action) == ("noted", "create" if removes else "restore")
    assert restore(checkpoints, plan, False) == {}
    assert os.getxattr(folder, "user.origin") == b"a\0b"
    assert plan_restore(checkpoints, 1) == []


def test_a_hard_link_that_comes_back_as_a_file_is_named(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("text\n")
    (root / "b").hardlink_to(root / "a")
    run(checkpoints, (root / "b").unlink)
    again = Checkpoints(root, sid=checkpoints.sid, seq=seq)
    for each in (checkpoints, again):
        assert [(step.path, step.link) for step in plan_restore(each, 1)] == [("b", "a")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root creates files for others")
def test_what_root_restores_belongs_to_its_owner(root: Path, checkpoints: Checkpoints) -> None:
    for name in ("kept", "gone"):
        (root / name).write_text(name)
    for path in (root, root / "kept", root / "gone"):
        os.chown(path, 1234, 1234)

    def change() -> None:
        (root / "gone").unlink()
        (root / "kept").write_text("new")

    run(checkpoints, change)
    assert restore(checkpoints, plan_restore(checkpoints, 1), False) == {}
    assert {(root / name).stat().st_uid for name in ("kept", "gone")} == {1234}


def test_a_created_file_is_removed_with_the_directories_made_for_it(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    before = tree(root)
    write(checkpoints, root / "new" / "deep" / "a.py", "x\n")
    plan = plan_restore(checkpoints, 1)
    assert {step.path: step.action for step in plan} == {
        "new": "remove",
        "new/deep": "remove",
        "new/deep/a.py": "remove",
    }
    assert count_steps(plan) == "1 file and 2 directories"
    restore(checkpoints, plan, False)
    assert tree(root) == before
    again = plan_restore(checkpoints, 1)
    assert again == [] and count_steps(again) == ""


def test_only_changes_after_the_chosen_fact_are_undone(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    for number, text in enumerate(("first", "second", "third"), 1):
        seq.value = number * 10
        write(checkpoints, root / "a.py", text)
    restore(checkpoints, plan_restore(checkpoints, 20), False)
    assert (root / "a.py").read_text() == "first"
    assert plan_restore(checkpoints, 40) == []


def test_what_is_unchanged_needs_no_step(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    write(checkpoints, root / "a", "agent")
    (root / "a").write_text("old")
    assert plan_restore(checkpoints, 1) == []


def test_what_cannot_be_made_again_is_lost(root: Path, checkpoints: Checkpoints) -> None:
    os.mkfifo(root / "pipe")

    def command() -> None:
        (root / "pipe").unlink()
        (root / "pipe").write_text("a file now")

    run(checkpoints, command)
    (step,) = plan_restore(checkpoints, 1)
    assert step.action == "lost" and restore(checkpoints, [step], True) == {
        step: "its earlier contents were not stored"
    }
    assert (root / "pipe").read_text() == "a file now"


def test_contents_that_vanish_after_the_plan_leave_the_file_unchanged(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    write(checkpoints, root / "a", "agent")
    plan = plan_restore(checkpoints, 1)
    shutil.rmtree(checkpoints.scanner.store.folder)
    assert list(restore(checkpoints, plan, False).values()) == ["its stored contents are missing"]
    assert (root / "a").read_text() == "agent" and {path.name for path in root.iterdir()} == {
        ".transcripts",
        "a",
    }


def test_a_directory_with_a_file_of_others_is_not_replaced(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")

    def command() -> None:
        (root / "a").unlink()
        (root / "a").mkdir()

    run(checkpoints, command)
    (root / "a" / "theirs").write_text("x")
    assert list(restore(checkpoints, plan_restore(checkpoints, 1), True).values()) == ["Directory not empty"]
    assert (root / "a" / "theirs").read_text() == "x"


@pytest.mark.parametrize("name", ["n" * 255, "名" * 85])
def test_a_file_with_the_longest_name_comes_back(root: Path, checkpoints: Checkpoints, name: str) -> None:
    (root / name).write_text("old")
    write(checkpoints, root / name, "agent")
    assert restore(checkpoints, plan_restore(checkpoints, 1), False) == {}
    assert (root / name).read_text() == "old"
    assert all(change.after is not None for change in checkpoints.log.changes)


def test_the_changes_of_a_command_are_undone(root: Path, seq: Seq, checkpoints: Checkpoints) -> None:
    (root / "keep").write_text("x")
    (root / "gone").mkdir()
    (root / "gone" / "b").write_bytes(b"\0\xff")
    (root / "link").symlink_to("gone/b")
    before = tree(root)

    def command() -> None:
        shutil.rmtree(root / "gone")
        (root / "link").unlink()
        (root / "link").write_text("a file now")
        (root / "made").mkdir()
        (root / "made" / "c").symlink_to("/etc/passwd")
        (root / "keep").chmod(0o600)

    run(checkpoints, command)
    assert restore(checkpoints, plan_restore(checkpoints, 1), False) == {}
    assert tree(root) == before


def test_what_others_changed_since_is_kept_unless_asked_for(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    write(checkpoints, root / "a", "agent")
    (root / "a").write_text("mine")
    plan = plan_restore(checkpoints, 1)
    assert [step.changed_since for step in plan] == [True]
    (reason,) = restore(checkpoints, plan, False).values()
    assert "changed outside this session" in reason and (root / "a").read_text() == "mine"
    assert restore(checkpoints, plan_restore(checkpoints, 1), True) == {}
    assert (root / "a").read_text() == "old"


def test_what_another_session_recorded_while_a_command_ran_is_kept_unless_asked_for(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    """Also where the other records it only after the command has ended here."""
    (root / "mine").write_text("old")
    other, slow = Checkpoints(root, "s2", seq), Checkpoints(root, "s3", seq)
    write(other, root / "before", "theirs")
    checkpoints.begin()
    slow.begin()
    (root / "mine").write_text("new")
    write(other, root / "theirs", "theirs")
    (root / "late").write_text("theirs")
    checkpoints.finish()
    assert {change.path: change.after == THEIRS for change in checkpoints.log.changes} == {
        "late": False,
        "mine": False,
        "theirs": True,
    }
    assert [(one.path, one.how) for one in differences(checkpoints)][2] == ("theirs", "theirs")
    (root / "mine").write_text("newer")  # by the command that still runs
    slow.finish()
    plan = plan_restore(checkpoints, 1)
    assert {step.path for step in plan if step.changed_since} == {"late", "mine", "theirs"}
    assert set(restore(checkpoints, plan, False)) == set(plan) and (root / "late").exists()
    restore(checkpoints, plan, True)
    assert (root / "mine").read_text() == "old" and not (root / "theirs").exists()
    assert (root / "before").exists()


def test_a_restore_can_be_undone(root: Path, seq: Seq, checkpoints: Checkpoints) -> None:
    write(checkpoints, root / "a", "agent")
    after = tree(root)
    seq.value = 50
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert tree(root) == {}
    restore(checkpoints, plan_restore(checkpoints, 50), False)
    assert tree(root) == after


def test_a_link_is_never_followed_out_of_the_project(
    root: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("theirs")
    (root / "dir").mkdir()
    (root / "dir" / "a").write_text("ours")
    before = tree(root)

    def command() -> None:
        shutil.rmtree(root / "dir")
        (root / "dir").symlink_to(outside)

    run(checkpoints, command)
    plan = plan_restore(checkpoints, 1)
    assert restore(checkpoints, plan, False) == {}
    assert (outside / "a").read_text() == "theirs"
    assert tree(root) == before


def test_a_link_that_the_user_put_on_the_way_stops_the_way_back(
    root: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "dir").mkdir()
    write(checkpoints, root / "dir" / "a", "agent")
    write(checkpoints, root / "dir" / "a", "agent again")
    shutil.rmtree(root / "dir")
    (root / "dir").symlink_to(outside)
    (outside / "a").write_text("theirs")
    restore(checkpoints, plan_restore(checkpoints, 1), True)
    assert (outside / "a").read_text() == "theirs"
    (outside / "a").unlink()
    restore(checkpoints, plan_restore(checkpoints, 1), True)
    assert list(outside.iterdir()) == []


def test_a_hard_linked_file_stays_one_file(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    (root / "b").hardlink_to(root / "a")
    run(checkpoints, lambda: (root / "a").write_text("agent"))
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert (root / "b").read_text() == "old" and (root / "a").samefile(root / "b")


@each_row(
    "line, still_linked",
    [
        ("mv a c", False),
        ("mv -f c a", False),
        ("mv a c; mv b d", False),
        ("mv a t; mv c a; mv t c", False),
        ("mv a deep/e", False),
        ("ln -f c a", False),
        ("ln -f a c", True),
        ("ln -f a c; echo new >a", False),
        ("ln a deep/e", True),
        ("rm a", False),
        ("rm a; echo new >a", False),
        ("rm a; ln b a", True),
        ("rm a b; echo new >a; ln a b", True),
        ("sed -i s/one/new/ a", False),
        ("cp --remove-destination c a", False),
        ("cp c a", True),
        ("cp c a; rm c; ln a c", False),
        ("cat c >a", True),
        ("echo new >>a", True),
        ("truncate -s 0 b", True),
        ("chmod 600 a", True),
        ("chmod 600 a; mv a c", False),
        ("mv b c; echo new >a", False),
        ("cp -al deep copy; rm -r deep; echo new >copy/deep", True),
        ("rm c; ln -s a c", True),
        ("tar cf t a b c; rm a b c; tar xf t; echo new >b", True),
        ("dd if=/dev/zero of=a bs=1 count=2 conv=notrunc status=none", True),
    ],
)
def test_other_names_of_a_file_keep_their_content(tmp_path: Path, line: str, still_linked: bool) -> None:
    """`a` and `b` are one file, `deep/deep` and `deep/other` another; `c` is a third one."""
    root = tmp_path.resolve() / "project"
    (root / "deep").mkdir(parents=True)
    for name, text in {"a": "one\n", "c": "three\n", "deep/deep": "deep\n"}.items():
        (root / name).write_text(text)
    (root / "b").hardlink_to(root / "a")
    (root / "deep/other").hardlink_to(root / "deep/deep")
    before = tree(root)
    checkpoints = Checkpoints(root, "s1", Seq())
    run(checkpoints, lambda: subprocess.run(["bash", "-ec", line], cwd=root, check=True))
    assert restore(checkpoints, plan_restore(checkpoints, 1), False) == {}
    assert tree(root) == before
    assert (root / "a").samefile(root / "b") == still_linked


def test_a_file_with_a_name_outside_the_project_is_written_in_place_unless_it_was_moved(
    root: Path, checkpoints: Checkpoints
) -> None:
    outside = root.parent / "outside"
    for name in ("a", "b", "c"):
        (root / name).write_text(name)
    outside.hardlink_to(root / "a")
    run(checkpoints, lambda: (root / "a").write_text("agent"))
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert (root / "a").samefile(outside) and outside.read_text() == "a"
    run(checkpoints, lambda: (root / "a").replace(root / "c"))
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert (root / "c").read_text() == "c" and (root / "a").read_text() == outside.read_text() == "a"


def test_a_file_that_is_edited_by_one_of_its_names_comes_back_at_all(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    (root / "deep").mkdir()
    (root / "deep" / "b").hardlink_to(root / "a")
    before = tree(root)
    write(checkpoints, root / "a", "agent")
    assert {one.path for one in differences(checkpoints)} == {"a", "deep/b"}
    (root / "deep" / "b").unlink()
    (root / "deep" / "b").write_text("agent")  # as an editor saves it: no link any more
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert tree(root) == before


def test_the_name_of_a_file_that_is_still_being_written_is_not_recorded(
    root: Path, checkpoints: Checkpoints
) -> None:
    run(checkpoints, (root / ".makeroom-0123456789abcdef.tmp").touch)
    run(checkpoints, (root / ".makeroom-mine.tmp").touch)
    assert {one.path for one in checkpoints.log.changes} == {".makeroom-mine.tmp"}


def test_line_counts_are_those_of_a_diff_also_for_large_files() -> None:
    assert line_counts(b"a\nb\nc\n", b"a\nX\nc\nd\n") == (2, 1)
    old = b"".join(b"%d\n" % number for number in range(50_000))
    assert line_counts(old, old + b"one more\n") == (1, 0)
    assert line_counts(b"same\n" * 300, b"same\n" * 301) == (1, 0)


NAMES = ("a", "b", "c.py", "ü n", "-x", "deep")


def scramble(root: Path, random: Random, count: int) -> None:
    """Make, change, move, link, chmod and remove things in the project, at random."""
    for _ in range(count):
        here = [root, *(path for path in sorted(root.rglob("*")) if _is_folder(path) and _ours(root, path))]
        folder = random.choice(here)
        path = folder / random.choice(NAMES)
        kind = random.randrange(7)
        if kind < 3:
            _away(path)
            path.write_bytes(random.randbytes(random.randrange(2000)))
            path.chmod(random.choice((0o644, 0o755, 0o600, 0o640)))
        elif kind == 3:
            _away(path)
            path.symlink_to(random.choice(("a", "../b", "/etc/passwd", "nowhere", ".")))
        elif kind == 4:
            _away(path)
            path.mkdir(mode=random.choice((0o755, 0o700, 0o750)))
        elif kind == 5:
            _away(path)
        elif path.exists() and not path.is_symlink():
            path.chmod(0o711 if path.is_dir() else 0o444)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _ours(root: Path, path: Path) -> bool:
    return ".transcripts" not in path.relative_to(root).parts


def _away(path: Path) -> None:
    if _is_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("seed", sampled(range(25), 9))
def test_a_fuzzed_tree_comes_back_in_bytes_modes_and_links(root: Path, seq: Seq, seed: int) -> None:
    random = Random(seed)
    scramble(root, random, 25)
    checkpoints = Checkpoints(root, "s1", seq)
    trees = []
    for number in range(1, 5):
        seq.value = number * 10
        trees.append(tree(root))
        run(checkpoints, lambda: scramble(root, random, 12))
        if number == 2:
            checkpoints = Checkpoints(root, "s1", seq)  # another run continues
    seq.value = 100
    for number in (4, 3, 2, 1):
        assert restore(checkpoints, plan_restore(checkpoints, number * 10), False) == {}
        assert tree(root) == trees[number - 1]
    assert checkpoints.uncovered() == []

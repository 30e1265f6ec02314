"""Large files that commands change come back, within limits of room and time; what is not kept is named."""

import os
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from agent.checkpoints import held_files
from agent.checkpoints.file_restore import plan_restore, restore
from agent.checkpoints.large_contents import LargeContents
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import SnapshotLimits
from agent.checkpoints.store_folder import FRESH_CONTENT_S, prune

from .project import Seq, run, tree

LARGE = (1 << 20) + 1


def noise(seed: int, size: int = LARGE) -> bytes:
    return Random(seed).randbytes(size)


def copies(root: Path) -> list[Path]:
    return sorted(path for path in (root / ".transcripts/checkpoints/large").rglob("*") if path.is_file())


def test_large_files_come_back_byte_for_byte(root: Path, checkpoints: Checkpoints) -> None:
    """Removed, cut off, changed in place, replaced by a link, and with other rights."""
    names = ("removed", "cut", "in_place", "linked", "locked")
    for number, name in enumerate(names):
        (root / name).write_bytes(noise(number))
        (root / name).chmod(0o640)
    before = tree(root)

    def command() -> None:
        (root / "removed").unlink()
        os.truncate(root / "cut", 5)
        with (root / "in_place").open("r+b") as file:
            file.seek(500_000)
            file.write(b"!")
        (root / "linked").unlink()
        (root / "linked").symlink_to("/etc/hostname")
        (root / "locked").chmod(0o400)

    run(checkpoints, command)
    assert checkpoints.uncovered() == [] and checkpoints.recording.coverage() == "all"
    plan = plan_restore(checkpoints, 1)
    assert {step.path: (step.action, step.changed_since) for step in plan} == {
        "removed": ("create", False),
        "cut": ("restore", False),
        "in_place": ("restore", False),
        "linked": ("restore", False),
        "locked": ("mode", False),
    }
    assert restore(checkpoints, plan, False) == {} and tree(root) == before
    assert plan_restore(checkpoints, 1) == [], "nothing is left to do"


def test_restoring_a_large_file_can_be_undone(root: Path, seq: Seq, checkpoints: Checkpoints) -> None:
    (root / "a").write_bytes(noise(1, 17 << 20))
    run(checkpoints, lambda: (root / "a").write_bytes(noise(2, 17 << 20)))
    after = tree(root)
    seq.value = 5
    assert restore(checkpoints, plan_restore(checkpoints, 1), False) == {}
    assert tree(root) != after
    assert restore(checkpoints, plan_restore(checkpoints, 5), False) == {} and tree(root) == after


def test_a_large_file_that_others_changed_since_is_kept(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_bytes(noise(1, 17 << 20))
    run(checkpoints, lambda: (root / "a").write_bytes(noise(2, 17 << 20)))
    (root / "a").write_bytes(noise(3, 17 << 20))
    (step,) = plan_restore(checkpoints, 1)
    assert step.changed_since and step in restore(checkpoints, [step], False)
    assert (root / "a").read_bytes() == noise(3, 17 << 20)


def test_a_large_file_is_never_held_in_memory(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_bytes(noise(1, 20 << 20))
    tracemalloc.start()
    try:
        run(checkpoints, (root / "a").unlink)
        assert restore(checkpoints, plan_restore(checkpoints, 1), False) == {}
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    assert (root / "a").read_bytes() == noise(1, 20 << 20)


def test_unchanged_large_files_are_read_once(root: Path, seq: Seq) -> None:
    (root / "a").write_bytes(noise(1))
    os.utime(root / "a", (1, 1))
    checkpoints = Checkpoints(root, "s1", seq)
    checkpoints.scanner.wall = lambda: (root / "a").stat().st_ctime + 10
    assert [checkpoints.recording.scan().read for _ in range(3)] == [1, 0, 0]


def test_files_that_do_not_fit_are_named_and_smaller_ones_come_first(root: Path, seq: Seq) -> None:
    limits = SnapshotLimits(max_large_store_bytes=3 * LARGE)
    for name, size in (("small", LARGE), ("medium", LARGE + 1), ("huge", 2 * LARGE)):
        (root / name).write_bytes(noise(size, size))
    checkpoints = Checkpoints(root, "s1", seq, limits)
    assert checkpoints.recording.coverage() == "changes"
    assert checkpoints.recording.unkept == ["huge"]
    assert any(line.endswith(": huge") for line in checkpoints.uncovered())

    def remove() -> None:
        for name in ("small", "medium", "huge"):
            (root / name).unlink()

    run(checkpoints, remove)
    assert {step.path: step.action for step in plan_restore(checkpoints, 1)} == {
        "small": "create",
        "medium": "create",
        "huge": "create",
    }
    assert any(
        "store or its disk is full" in line and line.endswith("/large") for line in checkpoints.uncovered()
    )


def test_a_file_above_the_limit_is_named_in_the_warning(root: Path, seq: Seq) -> None:
    limits = SnapshotLimits(max_large_file_bytes=2 * LARGE)
    (root / "d").mkdir()
    (root / "d" / "disk.img").write_bytes(noise(1, 2 * LARGE + 1))
    checkpoints = Checkpoints(root, "s1", seq, limits)
    checkpoints.begin()
    warning = checkpoints.recording.take_warning()
    assert "too large for checkpoints, or the disk is full: d/disk.img." in warning
    assert checkpoints.recording.take_warning() == ""
    assert copies(root) == []


def test_each_gap_in_coverage_is_warned_of_once_and_the_larger_one_after_it(root: Path, seq: Seq) -> None:
    recording = Checkpoints(root, "s1", seq).recording
    recording.unread = 3
    recording.unkept = ["a"]
    assert "3 of its files are not in the checkpoint yet" in recording.take_warning()
    assert recording.take_warning() == ""
    recording.unread = 0
    assert recording.take_warning() == ""
    recording.complete = False
    assert "too large for checkpoints" in recording.take_warning()
    assert recording.take_warning() == ""


def test_a_file_that_takes_too_long_to_copy_is_given_up_and_named(root: Path, seq: Seq) -> None:
    readings = iter(range(10**6))
    limits = SnapshotLimits(max_seconds=10**6, max_reading_seconds=3)
    (root / "a").write_bytes(noise(1, 12 << 20))
    checkpoints = Checkpoints(root, "s1", seq, limits, clock=lambda: float(next(readings)))
    checkpoints.scanner.wall = lambda: (root / "a").stat().st_ctime + 10
    snapshot = checkpoints.recording.scan()
    assert snapshot.unkept == ["a"] and copies(root) == []
    assert checkpoints.recording.scan().read == 0, "it is not tried again until it changes"


def test_a_damaged_copy_leaves_the_file_as_it_is(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_bytes(noise(1, 5 << 20))
    (root / "hard").hardlink_to(root / "a")
    run(checkpoints, lambda: (root / "a").write_text("new"))
    (copy,) = copies(root)
    copy.write_bytes(b"damaged")
    plan = plan_restore(checkpoints, 1)
    failures = restore(checkpoints, plan, False)
    assert [step.path for step in failures] == ["a", "hard"] and "damaged" in str(failures.values())
    assert (root / "a").read_text() == "new" and not list(root.glob(".makeroom-*"))


def test_a_link_or_a_pipe_in_place_of_a_file_is_not_read(root: Path, tmp_path: Path) -> None:
    """A command that runs meanwhile may replace a directory that was just listed."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_bytes(noise(1))
    (root / "d").mkdir()
    (root / "d" / "key").write_bytes(noise(2))
    checkpoints = Checkpoints(root, "s1", Seq())
    found = (root / "d" / "key").stat()
    (root / "d").rename(root / "away")
    (root / "d").symlink_to(tmp_path / "secret")
    state = checkpoints.scanner.paths.stored_state(str(root / "d" / "key"), found, 1 << 20)
    assert state.value == "" and copies(root) == []


@pytest.mark.parametrize("size", [LARGE, LARGE + 5])
def test_copies_that_nothing_needs_are_pruned(root: Path, checkpoints: Checkpoints, size: int) -> None:
    (root / "kept").write_bytes(noise(1, size))
    (root / "untouched").write_bytes(noise(2, size))
    run(checkpoints, (root / "kept").unlink)
    assert len(copies(root)) == 2
    for path in copies(root):
        os.utime(path, (1, 1))
    folder = root / ".transcripts/checkpoints/large"
    left = folder / ".1234-5678"
    left.write_bytes(b"a copy that a crash interrupted")
    os.utime(left, (1, 2 * FRESH_CONTENT_S))
    assert prune(folder, 0) == size
    assert [path.read_bytes() for path in copies(root)] == [noise(1, size)]


def test_copies_take_at_most_a_tenth_of_the_free_disk(root: Path) -> None:
    usage = os.statvfs(root)
    free = usage.f_bavail * usage.f_frsize
    store = LargeContents(root / ".transcripts" / "checkpoints" / "large", max_bytes=free)
    (root / "a").write_bytes(b"a")
    with (root / "a").open("rb") as file:
        assert store.put(file.fileno(), free // 5, lambda: False) == "" and store.full
        assert store.put(file.fileno(), 1, lambda: False)


def test_copies_of_earlier_runs_count_towards_the_limit(root: Path) -> None:
    for number, stored in enumerate((True, False)):
        store = LargeContents(root / ".transcripts" / "checkpoints" / "large", max_bytes=LARGE * 3 // 2)
        path = root / f"big{number}"
        path.write_bytes(noise(number))
        with path.open("rb") as file:
            assert bool(store.put(file.fileno(), LARGE, lambda: False)) == stored
        assert store.full is not stored


def test_a_file_that_does_not_fit_is_not_read_to_its_end_when_time_is_up(root: Path) -> None:
    store = LargeContents(root / ".transcripts" / "checkpoints" / "large", max_bytes=LARGE - 1)
    (root / "big").write_bytes(noise(1))
    with (root / "big").open("rb") as file:
        assert store.put(file.fileno(), LARGE, is_late=lambda: True) == "" and not store.full
        assert file.tell() < LARGE
        grown = LargeContents(store.folder, max_bytes=LARGE - 1)
        assert grown.put(file.fileno(), 1, lambda: False) == "" and grown.full
        assert copies(root) == []
        exact = LargeContents(store.folder, max_bytes=LARGE)
        assert exact.put(file.fileno(), LARGE, lambda: False) and not exact.full


def big_files(root: Path, *names: str, seq: Seq | None = None) -> Checkpoints:
    """Return checkpoints for which these files are too large."""
    for number, name in enumerate(names):
        (root / name).write_bytes(noise(number, 2 * LARGE + 1))
        (root / name).chmod(0o640)
    return Checkpoints(root, "s1", seq or Seq(), SnapshotLimits(max_large_file_bytes=2 * LARGE))


def links(root: Path) -> list[Path]:
    return list((root / ".transcripts/checkpoints/held").glob("*"))


def test_files_that_are_too_large_to_copy_come_back_after_a_command_deleted_or_replaced_them(
    root: Path,
) -> None:
    checkpoints = big_files(root, "removed", "replaced", "moved", "written", "untouched")
    before = tree(root)

    def command() -> None:
        (root / "removed").chmod(0o600)
        (root / "removed").unlink()
        (root / "new").write_bytes(noise(8, 2 * LARGE + 1))
        (root / "new").replace(root / "replaced")
        (root / "moved").rename(root / "elsewhere")
        with (root / "written").open("r+b") as file:
            file.write(b"!")

    run(checkpoints, command)
    recording = checkpoints.recording
    assert "restores these files if commands delete or replace them" in recording.take_warning()
    assert "restore what was lost: removed, replaced. The disk space" in recording.take_kept()
    assert recording.take_kept() == "" and len(links(root)) == 3
    plan = plan_restore(checkpoints, 1)
    assert {step.path: step.action for step in plan} == {
        "elsewhere": "remove",
        "removed": "create",
        "replaced": "restore",
        "moved": "create",
        "written": "lost",
    }
    lost = {"written": (*before["written"][:2], (root / "written").read_bytes())}
    assert [step.path for step in restore(checkpoints, plan, False)] == ["written"]
    assert tree(root) == before | lost


def copied_blocks(source: int, target: int) -> bool:
    """Clone a file as on a file system that shares blocks."""
    os.pwrite(target, os.pread(source, 3 * LARGE, 0), 0)
    return True


def test_a_clone_also_keeps_what_a_command_writes_over(
    root: Path, seq: Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_files, "clone", copied_blocks)
    checkpoints = big_files(root, "removed", "written", "untouched", seq=seq)
    before = tree(root)

    def command() -> None:
        (root / "removed").unlink()
        with (root / "written").open("r+b") as file:
            file.write(b"!")

    run(checkpoints, command)
    after = tree(root)
    recording = checkpoints.recording
    assert recording.coverage() == "all" and recording.take_warning() == ""
    assert "restore what was lost: removed, written. The disk space" in recording.take_kept()
    assert len(links(root)) == 2
    for number, files in enumerate((before, after, before)):
        seq.value += 1
        assert restore(checkpoints, plan_restore(checkpoints, number + 1), False) == {}
        assert tree(root) == files


def test_restoring_a_file_that_is_too_large_to_copy_can_be_undone(root: Path, seq: Seq) -> None:
    checkpoints = big_files(root, "a", seq=seq)
    before = tree(root)

    def command() -> None:
        (root / "a").unlink()
        (root / "b").write_bytes(noise(3, 2 * LARGE + 1))

    run(checkpoints, command)
    after = tree(root)
    for number, files in enumerate((before, after, before)):
        seq.value += 1
        since = number + 1
        assert restore(checkpoints, plan_restore(checkpoints, since), False) == {}
        assert tree(root) == files and links(root) == []


def test_links_that_nothing_needs_are_removed(root: Path) -> None:
    """Of a file that is still there at once, of others when no recent session needs them."""
    checkpoints = big_files(root, "a", "b")
    checkpoints.begin()
    assert len(links(root)) == 2
    (root / "a").unlink()
    checkpoints.finish()
    (needed,) = links(root)
    (root / "other").hardlink_to(root / "b")
    run(checkpoints, lambda: None)
    assert links(root) == [needed], "a file with another name is not lost"
    (root / "other").unlink()
    (root / "b").rename(needed.with_name("1-2-3-4"))
    held = checkpoints.scanner.store.held
    held.prune()
    assert len(links(root)) == 2, "another session may just have made it"
    checkpoints.scanner.store.held.wall = lambda: needed.lstat().st_ctime + 2 * FRESH_CONTENT_S
    held.prune()
    assert links(root) == [needed]


def test_what_a_checkout_puts_in_the_place_of_links_is_not_moved(root: Path, tmp_path: Path) -> None:
    checkpoints = big_files(root, "a")
    run(checkpoints, (root / "a").unlink)
    folder = root / ".transcripts/checkpoints/held"
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    plan = plan_restore(checkpoints, 1)
    assert [step.action for step in plan] == ["lost"] and not (root / "a").exists()
    checkpoints.scanner.store.held.prune()
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1

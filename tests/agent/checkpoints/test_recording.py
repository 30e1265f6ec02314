"""What is recorded while tools and commands change files, and what of it survives a crash."""

import os
from pathlib import Path

from agent.checkpoints.content_store import ContentStore
from agent.checkpoints.file_restore import plan_restore, restore
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import ProjectScanner, SnapshotLimits

from .project import Seq, run, tree, write


def test_a_change_that_the_clock_of_the_file_system_hides_is_seen(
    root: Path, checkpoints: Checkpoints
) -> None:
    path = root / "a"
    path.write_text("1")
    for text in ("2", "3", "4"):
        about = path.stat()

        def command(text: str = text, about: os.stat_result = about) -> None:
            path.write_text(text)
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

        run(checkpoints, command)
    assert len(checkpoints.log.changes) == 3
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert path.read_text() == "1"


def test_what_somebody_changed_between_two_commands_is_not_undone(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    (root / "b").write_text("old")
    run(checkpoints, lambda: (root / "a").write_text("agent"))
    (root / "b").write_text("mine")
    run(checkpoints, lambda: None)
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert (root / "a").read_text() == "old" and (root / "b").read_text() == "mine"


def test_a_path_outside_the_project_is_reported_as_not_covered(
    root: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    checkpoints.announce(tmp_path / "elsewhere")
    assert "outside the project" in checkpoints.uncovered()[0]


def test_large_files_are_reported_as_not_covered_but_their_change_is_seen(root: Path, seq: Seq) -> None:
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_file_bytes=10))
    (root / "big").write_text("x" * 11)
    run(checkpoints, lambda: (root / "big").write_text("y" * 11))
    (step,) = plan_restore(checkpoints, 1)
    assert step.action == "lost"
    assert "big" in checkpoints.uncovered()[0]
    (why,) = restore(checkpoints, [step], True).values()
    assert "not kept" in why and (root / "big").read_text() == "y" * 11


def test_new_files_are_never_removed_after_an_incomplete_scan(root: Path, seq: Seq) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_files=4))
    run(checkpoints, lambda: [(root / f"f{number}").write_text("y") for number in range(10)])
    plan = plan_restore(checkpoints, 1)
    assert [step.path for step in plan] == ["f0", "f1", "f2", "f3"]
    assert {step.action for step in plan} == {"restore"}
    assert any("only 4 files" in line for line in checkpoints.uncovered())


def test_files_that_only_the_second_scan_reaches_are_never_taken_for_new(root: Path, seq: Seq) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_files=4))
    run(checkpoints, lambda: [(root / f"f{number}").unlink() for number in range(3)])
    plan = plan_restore(checkpoints, 1)
    assert [(step.path, step.action) for step in plan] == [
        ("f0", "create"),
        ("f1", "create"),
        ("f2", "create"),
    ]


def test_a_file_is_known_by_its_times_only_when_they_are_older_than_the_resolution_of_the_clock(
    root: Path,
) -> None:
    (root / "a").write_text("x")
    changed = (root / "a").stat().st_ctime
    for later, known in ((0.001, False), (1.0, True)):
        store = ContentStore(root / ".transcripts" / "checkpoints" / "objects", 1 << 20)
        wall = (changed + later).__abs__  # a clock that stands still
        scanner = ProjectScanner(root, store, SnapshotLimits(), lambda: 0.0, wall)
        scanner.scan()
        assert ("a" in scanner.stamps) == known


def test_a_project_that_is_too_large_is_scanned_a_few_times_only(root: Path, seq: Seq) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    ticks = iter(range(10**6))
    readings = []
    checkpoints = Checkpoints(
        root, "s1", seq, SnapshotLimits(max_seconds=2), clock=lambda: float(next(ticks))
    )
    for _ in range(8):
        run(checkpoints, lambda: None)
        readings.append(next(ticks))
    assert readings[-1] - readings[-2] == 1, "the clock was not read any more"


def test_a_later_run_can_undo_the_changes_of_this_one(root: Path, seq: Seq, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    before = tree(root)
    write(checkpoints, root / "a", "agent")
    run(checkpoints, lambda: (root / "b").write_text("agent"))
    later = Checkpoints(root, "s1", seq)
    plan = plan_restore(later, 1)
    assert [step.changed_since for step in plan] == [False, False]
    restore(later, plan, False)
    assert tree(root) == before
    assert plan_restore(Checkpoints(root, "s2", seq), 1) == []


def test_a_command_that_was_cut_short_by_a_crash_can_be_undone_when_asked_for(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    before = tree(root)
    checkpoints.begin()
    (root / "a").write_text("half")
    (root / "b").write_text("made")
    later = Checkpoints(root, "s1", seq)
    plan = plan_restore(later, 1)
    assert [(step.path, step.changed_since) for step in plan] == [("a", True), ("b", True)]
    assert len(restore(later, plan, False)) == 2
    assert restore(later, plan_restore(later, 1), True) == {}
    assert tree(root) == before


def test_a_write_that_was_cut_short_by_a_crash_counts_as_changed_since(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    checkpoints.announce(root / "a")
    (root / "a").write_text("half")
    (step,) = plan_restore(Checkpoints(root, "s1", seq), 1)
    assert step.changed_since and step.action == "restore"


def test_a_torn_log_loses_its_last_line_only(root: Path, seq: Seq, checkpoints: Checkpoints) -> None:
    write(checkpoints, root / "a", "agent")
    write(checkpoints, root / "b", "agent")
    log = root / ".transcripts" / "checkpoints" / "s1.jsonl"
    log.write_bytes(log.read_bytes()[:-9])
    assert [step.path for step in plan_restore(Checkpoints(root, "s1", seq), 1)] == ["a", "b"]
    log.write_bytes(b"\xff\n" + log.read_bytes()[:25])
    assert plan_restore(Checkpoints(root, "s1", seq), 1) == []


def test_a_change_behind_a_torn_line_of_the_log_is_kept(root: Path, seq: Seq) -> None:
    """One run is cut off within a line; the next one within its work, which is known from its first line."""
    (root / "second.txt").write_text("second")
    first = Checkpoints(root, "s1", seq)
    first.announce(root / "lost.txt")
    first.finish()
    log = root / ".transcripts" / "checkpoints" / "s1.jsonl"
    log.write_bytes(log.read_bytes()[:-10])
    Checkpoints(root, "s1", seq).announce(root / "second.txt")
    (root / "second.txt").write_text("changed")
    again = Checkpoints(root, "s1", seq)
    assert restore(again, plan_restore(again, 0), True) == {}
    assert (root / "second.txt").read_text() == "second"


def test_a_nested_session_that_shares_the_recorder_adds_to_the_changes_of_its_parent(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    before = tree(root)
    seq.value = 7
    write(checkpoints, root / "a", "nested")
    run(checkpoints, lambda: (root / "b").write_text("nested"))
    checkpoints.finish()  # the end of the parent's call, within which the nested session worked
    plan = plan_restore(checkpoints, 7)
    assert [step.path for step in plan] == ["a", "b"]
    assert restore(checkpoints, plan, False) == {} and tree(root) == before

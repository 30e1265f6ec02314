"""Recording of changes by tools and commands, and the part that survives a crash."""

import errno
import json
import math
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from agent.checkpoints.change_log import ChangeLog, FileChange, changed_files_since, copy_log, read_changes
from agent.checkpoints.content_store import ContentStore
from agent.checkpoints.file_restore import plan_restore, restore
from agent.checkpoints.project_scanner import ProjectScanner
from agent.checkpoints.recorder import MAX_INCOMPLETE_SCANS, Checkpoints
from agent.checkpoints.snapshot import PathState, ProjectSnapshot, SnapshotLimits
from tests.narrowing import present
from tests.tables import each_row

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


def test_what_someone_changed_between_two_commands_is_not_undone(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    (root / "b").write_text("old")
    run(checkpoints, lambda: (root / "a").write_text("agent"))
    (root / "b").write_text("mine")
    run(checkpoints, lambda: None)
    restore(checkpoints, plan_restore(checkpoints, 1), False)
    assert (root / "a").read_text() == "old" and (root / "b").read_text() == "mine"


@pytest.mark.parametrize("path", ["../elsewhere", "a/../../elsewhere", ".", ".transcripts/s1.jsonl"])
def test_a_path_outside_the_project_is_reported_as_not_covered(
    root: Path, checkpoints: Checkpoints, path: str
) -> None:
    checkpoints.announce(Path(f"{root}/{path}"))
    assert "outside the project" in checkpoints.uncovered()[0] and checkpoints.log.changes == []


def test_a_path_that_is_announced_again_is_recorded_once(root: Path, checkpoints: Checkpoints) -> None:
    for name in ("new/a", "new/b", "new/a"):
        checkpoints.announce(root / name)
    assert [change.path for change in checkpoints.log.changes] == ["new", "new/a", "new/b"]


def test_files_that_are_too_large_are_reported_but_their_change_is_seen(root: Path, seq: Seq) -> None:
    limits = SnapshotLimits(max_file_bytes=10, max_large_file_bytes=10)
    checkpoints = Checkpoints(root, "s1", seq, limits)
    (root / "big").write_text("x" * 11)
    run(checkpoints, lambda: (root / "big").write_text("y" * 11))
    (step,) = plan_restore(checkpoints, 1)
    assert step.action == "lost"
    assert checkpoints.uncovered()[0].endswith(": big")
    (why,) = restore(checkpoints, [step], True).values()
    assert "not stored" in why and (root / "big").read_text() == "y" * 11


def test_new_files_are_never_removed_after_an_incomplete_scan(root: Path, seq: Seq) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_files=4))
    run(checkpoints, lambda: [(root / f"f{number}").write_text("y") for number in range(10)])
    plan = plan_restore(checkpoints, 1)
    assert [step.path for step in plan] == ["f0", "f1", "f2", "f3"]
    assert {step.action for step in plan} == {"restore"}
    assert any("only 4 files" in line for line in checkpoints.uncovered())
    assert Checkpoints(root, "s1", seq).uncovered() == checkpoints.uncovered(), "a later run knows it too"


def test_files_that_only_the_second_scan_reaches_are_never_taken_for_new(root: Path, seq: Seq) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_files=4))

    def remove() -> None:
        for number in range(3):
            (root / f"f{number}").unlink()

    run(checkpoints, remove)
    plan = plan_restore(checkpoints, 1)
    assert [(step.path, step.action, step.changed_since) for step in plan] == [
        ("f0", "create", False),
        ("f1", "create", False),
        ("f2", "create", False),
    ]


def test_a_large_file_that_only_the_first_scan_reaches_is_not_taken_for_changed(root: Path, seq: Seq) -> None:
    for number in range(4):
        (root / f"f{number}").write_text("x" * 20)
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_files=4, max_file_bytes=10))
    run(checkpoints, lambda: [(root / f"a{number}").write_text("new") for number in range(4)])
    assert [change.path for change in checkpoints.log.changes] == ["a0", "a1", "a2", "a3"]


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
    scanned = [later - earlier > 2 for earlier, later in pairwise([-1, *readings])]
    assert scanned == [True] * MAX_INCOMPLETE_SCANS + [False] * 5, "the clock is only read once"


def test_contents_that_were_not_stored_in_time_are_stored_by_later_scans(root: Path, seq: Seq) -> None:
    """Meanwhile all changes are seen; those of files that were not stored cannot be taken back."""
    for number in range(4):
        (root / f"f{number}").write_text("x")
        os.utime(root / f"f{number}", (number, number))
    seconds = iter(range(10**6))
    limits = SnapshotLimits(max_seconds=100, max_reading_seconds=1)
    checkpoints = Checkpoints(root, "s1", seq, limits, clock=lambda: float(next(seconds)))
    checkpoints.scanner.wall = lambda: time.time() + 10  # the files are old enough to be known by their times
    assert checkpoints.recording.coverage() == "changes"

    def remove() -> None:
        for name in ("f0", "f3"):
            (root / name).unlink()

    run(checkpoints, remove)
    assert [(change.path, change.before.restorable) for change in checkpoints.log.changes] == [
        ("f0", False),
        ("f3", True),
    ]
    for _ in range(3):
        run(checkpoints, lambda: None)
    assert checkpoints.recording.coverage() == "all" and len(checkpoints.log.changes) == 2
    run(checkpoints, (root / "f1").unlink)
    assert {step.path: step.action for step in plan_restore(checkpoints, 1)} == {
        "f0": "lost",
        "f1": "create",
        "f3": "create",
    }


def test_a_project_that_is_moved_away_during_a_command_has_not_lost_its_files(
    root: Path, checkpoints: Checkpoints
) -> None:
    """Nothing is created at its place either; when it is back, the command's changes are recorded."""
    (root / "a").write_text("old")
    (root / "b").write_text("same")
    away = root.with_name("away")
    checkpoints.begin()
    (root / "a").write_text("new")
    root.rename(away)
    checkpoints.finish()
    run(checkpoints, lambda: None)
    assert checkpoints.log.changes == [] and not root.exists()
    away.rename(root)
    run(checkpoints, lambda: None)
    assert [change.path for change in checkpoints.log.changes] == ["a"]


def test_a_later_session_need_not_read_a_large_project_again(
    root: Path, seq: Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But what changed since, and what is no longer stored."""
    monkeypatch.setattr("agent.checkpoints.recorder.MANY_FILES", 3)
    for number in range(5):
        (root / f"f{number}").write_text(str(number))
    first = Checkpoints(root, "s1", seq)
    first.scanner.wall = lambda: time.time() + 10
    run(first, lambda: None)
    (root / "f1").write_text("changed")
    gone = first.scanner.stamps["f2"][1].value
    (first.scanner.store.folder / gone[:2] / gone[2:]).unlink()
    later = Checkpoints(root, "s2", seq)
    assert later.recording.scan().read == 2 and later.recording.coverage() == "all"
    (root / ".transcripts/checkpoints/all.stamps").write_text('{"f0": 1}')
    assert Checkpoints(root, "s3", seq).recording.scan().read == 5, "a damaged file is passed over"


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
    assert all(step.interrupted for step in plan)
    kept = "kept, since it may have been changed outside this session"
    assert list(restore(later, plan, False).values()) == [kept, kept]
    assert restore(later, plan_restore(later, 1), True) == {}
    assert tree(root) == before


def test_after_a_crash_files_that_are_not_read_in_time_count_as_unchanged(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    for name in "abc":
        (root / name).write_text(name)
    checkpoints.begin()
    (root / "made").write_text("made")
    later = Checkpoints(root, "s1", seq, SnapshotLimits(max_reading_seconds=-1))
    assert [step.path for step in plan_restore(later, 1)] == ["made"]
    assert changed_files_since(later.log.changes, [1]) == {1: 1}


def test_our_own_files_in_the_directory_are_not_recorded(root: Path, seq: Seq) -> None:
    own = root / ".local/state/makeroom"
    own.mkdir(parents=True)
    (own / "approvals.json").write_text("old")
    checkpoints = Checkpoints(root, "s1", seq, excluded=".local/state/makeroom")
    run(checkpoints, lambda: (own / "approvals.json").write_text("new"))
    assert checkpoints.log.changes == [] and len(checkpoints.scanner.store.digests()) == 0


def test_a_command_that_was_cut_short_ends_before_the_next_one_begins(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    checkpoints.begin()
    (root / "a").write_text("half")
    later = Checkpoints(root, "s1", seq)
    run(later, lambda: (root / "b").write_text("whole"))
    later = Checkpoints(root, "s1", seq)
    assert [(step.path, step.changed_since) for step in plan_restore(later, 1)] == [("a", True), ("b", False)]


def test_files_that_no_scan_had_reached_before_a_crash_are_not_taken_for_new(root: Path, seq: Seq) -> None:
    for number in range(9):
        (root / f"f{number}").write_text("x")
    Checkpoints(root, "s1", seq, SnapshotLimits(max_files=4)).begin()
    assert plan_restore(Checkpoints(root, "s1", seq), 1) == []


@pytest.mark.parametrize("damaged", ["", "null", "5", "[]", "[1, true, 5]", '[1, true, {"a": 5}]', "[1, tr"])
def test_a_damaged_snapshot_of_an_earlier_run_is_passed_over(root: Path, seq: Seq, damaged: str) -> None:
    folder = root / ".transcripts" / "checkpoints"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "s1.look").write_text(damaged)
    checkpoints = Checkpoints(root, "s1", seq)
    run(checkpoints, lambda: (root / "a").write_text("new"))
    assert [step.path for step in plan_restore(checkpoints, 1)] == ["a"]


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
    foreign = b'\xff\n5\nnull\n[1, 2]\n[1, "a", 5, null]\n{"a": 1}\n'
    log.write_bytes(foreign + log.read_bytes()[:25])
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


def test_changes_at_one_seq_are_one_change_for_a_later_run(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    for text in ("first", "second"):
        write(checkpoints, root / "a", text)
    (change,) = Checkpoints(root, "s1", seq).log.changes
    assert (change.before, change.after) == (
        checkpoints.log.changes[0].before,
        checkpoints.log.changes[1].after,
    )


def test_a_copy_of_a_session_takes_its_changes_over_if_there_are_any(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    copy_log(root, "s1", "s2")
    assert Checkpoints(root, "s2", seq).log.changes == []
    write(checkpoints, root / "a", "agent")
    copy_log(root, "s1", "s2")
    assert Checkpoints(root, "s2", seq).log.changes == checkpoints.log.changes != []


@pytest.mark.parametrize("obstacle", ["a file for the folder", "a folder for the log", "a link for the log"])
def test_what_cannot_be_saved_is_reported_and_holds_for_this_run(
    root: Path, seq: Seq, tmp_path: Path, obstacle: str
) -> None:
    checkpoints = Checkpoints(root, "s1", seq)
    folder = root / ".transcripts" / "checkpoints"
    if obstacle == "a file for the folder":
        (root / ".transcripts").write_text("")
    else:
        folder.mkdir(parents=True, mode=0o700)
    if obstacle == "a folder for the log":
        (folder / "s1.jsonl").mkdir()
    elif obstacle == "a link for the log":
        (folder / "s1.jsonl").symlink_to(tmp_path / "elsewhere")
    write(checkpoints, root / "a", "agent")
    assert any("cannot save checkpoints" in line for line in checkpoints.uncovered())
    assert not (tmp_path / "elsewhere").exists()
    assert [step.action for step in plan_restore(checkpoints, 1)] == ["remove"]


def scanner(root: Path, clock: Callable[[], float] = lambda: 0.0) -> ProjectScanner:
    """A scanner long after the last change of any file."""
    store = ContentStore(root / ".transcripts" / "checkpoints" / "objects", 1 << 20)
    return ProjectScanner(root, store, SnapshotLimits(), clock, lambda: time.time() + 10)


def test_what_vanishes_during_a_scan_is_left_out(root: Path) -> None:
    for name in ("a", "b"):
        (root / name).write_text("x")
        (root / f"folder-{name}").mkdir()
    readings: list[int] = []

    def clock() -> float:
        readings.append(0)
        if len(readings) == 2:  # the first path is about to be read, the directories are known
            (root / "b").unlink(missing_ok=True)
        if len(readings) == 5:
            (root / "folder-a").rmdir()
        return 0.0

    snapshot = scanner(root, clock).scan()
    assert set(snapshot.states) - {"folder-a"} == {"a", "folder-b"} and snapshot.complete


def test_a_file_whose_directory_was_closed_since_it_was_listed_has_no_contents(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a").touch()
    lstat = os.lstat

    def closed(path: str) -> os.stat_result:
        if path == f"{root}/a":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", closed)
    assert scanner(root).scan().at("a") == PathState("file", stamp="unreadable")


def test_a_change_that_keeps_size_and_time_of_a_known_file_is_seen(root: Path) -> None:
    (root / "a").write_text("1")
    watching = scanner(root)
    first, known = watching.scan().at("a"), (root / "a").stat()
    (root / "a").write_text("2")
    os.utime(root / "a", ns=(known.st_atime_ns, known.st_mtime_ns))
    assert first != watching.scan().at("a")


def test_a_file_whose_times_were_set_back_is_not_known_by_them(root: Path) -> None:
    (root / "a").write_text("1")
    changed = (root / "a").stat().st_ctime
    os.utime(root / "a", (1, 1))
    watching = scanner(root)
    watching.wall = (changed + 0.001).__abs__
    watching.scan()
    assert watching.stamps == {}


def test_contents_that_were_pruned_since_the_last_scan_are_stored_again(root: Path) -> None:
    (root / "a").write_text("1")
    watching = scanner(root)
    state = watching.scan().at("a")
    for path in [path for path in watching.store.folder.rglob("*") if path.is_file()]:
        path.unlink()
    assert watching.scan().at("a") == state and watching.store.get(state.value) == b"1"


def test_a_path_that_cannot_be_looked_at_is_of_another_kind(root: Path) -> None:
    assert scanner(root).paths.state("x" * 300) == PathState("other")


def test_a_link_that_is_exchanged_while_it_is_looked_at_counts_as_not_stored(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").symlink_to("b")
    about = (root / "a").lstat()
    (root / "a").unlink()
    (root / "a").write_text("x")
    state = checkpoints.scanner.paths.stored_state(str(root / "a"), about, max_bytes=100)
    assert not state.restorable and state.kind == "file"


def test_what_agents_change_at_the_same_time_is_recorded_and_taken_back(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    before = tree(root)
    one, two, three = (checkpoints.for_agent() for _ in range(3))
    one.begin()
    (root / "a").write_text("one")
    two.begin()
    (root / "b").write_text("two")
    three.announce(root / "c")
    one.finish()
    (root / "a").write_text("two")
    (root / "c").write_text("three")
    three.finish()
    two.finish()
    assert {change.path for change in checkpoints.log.changes} == {"a", "b", "c"}
    steps = plan_restore(checkpoints, 1)
    assert not any(step.changed_since for step in steps)
    restore(checkpoints, steps, False)
    assert tree(root) == before


def test_changes_of_paths_outside_the_project_are_not_read_from_a_log(tmp_path: Path) -> None:
    states = [["file", 420, "0" * 64, ""], ["none", 0, "", ""]]
    names = ["a", "b/..c", "/etc/passwd", "../a", "b/../../a", "b/.."]
    log = tmp_path / "s1.jsonl"
    log.write_text("".join(json.dumps([1, name, *states]) + "\n" for name in names))
    assert [change.path for change in read_changes(log).files] == ["a", "b/..c"]


def test_gaps_are_counted_in_words(checkpoints: Checkpoints) -> None:
    lost = PathState("file", stamp="1 2")
    checkpoints.log.changes += [FileChange(1, "a", lost)]
    assert (
        "1 changed file was too large or unreadable to keep, or the disk was full: a"
        in checkpoints.uncovered()
    )
    checkpoints.log.changes += [FileChange(1, "b", lost)]
    assert "2 changed files were too large" in "\n".join(checkpoints.uncovered())


@each_row(
    "moment, edited, is_enough",
    [
        (0.0, set(), True),  # it ended while the command waited for it
        (math.inf, set(), False),
        (0.0, {"kept.txt"}, False),  # it may have looked at that file before a tool edited it
    ],
)
def test_a_command_that_waited_for_the_first_scan_needs_no_other(
    tmp_path: Path, moment: float, edited: set[str], is_enough: bool
) -> None:
    recording = Checkpoints(tmp_path, "20260101-000000", seq=lambda: 1).recording
    recording.coverage()
    first = present(recording.first).found
    recording.edited |= edited
    assert (recording.scan_since(moment) is first) is is_enough
    assert recording.scan_since(moment) is not first, "of the first command only"


@each_row("in_git, states", [("a", "b"), ("", "b"), ("a", ""), ("", ""), ("a\udcff", "b\udcff"), ("a", "a")])
def test_a_saved_snapshot_contains_all_files(tmp_path: Path, in_git: str, states: str) -> None:
    log = ChangeLog(tmp_path, "20260101-000000")
    watched = {name: PathState("file", 0o644, f"git:{'1' * 40}") for name in [in_git] if name}
    others = {name: PathState("file", 0o600, "2" * 64) for name in [states] if name}
    for snapshot in (
        ProjectSnapshot(others, watched),
        ProjectSnapshot(others, watched, complete=False),
        ProjectSnapshot(others, {"c": PathState("file")}),
    ):
        log.save_snapshot(7, snapshot)
        seq, found = present(log.load_snapshot())
        assert (seq, found.states, found.complete) == (7, {**snapshot.in_git, **others}, snapshot.complete)

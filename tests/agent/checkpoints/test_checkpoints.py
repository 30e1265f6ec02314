import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from agent.checkpoints.file_restore import RestoreStep, line_counts
from agent.checkpoints.pruning import FRESH, RECENT, prune
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import ContentStore, SnapshotLimits


def always(step: RestoreStep) -> bool:
    return True


def never(step: RestoreStep) -> bool:
    return False


class Numbers:
    """The record's newest number."""

    def __init__(self) -> None:
        self.value = 1

    def __call__(self) -> int:
        return self.value


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return (tmp_path / "project").resolve()


@pytest.fixture
def seq() -> Numbers:
    return Numbers()


@pytest.fixture
def checkpoints(root: Path, seq: Numbers) -> Checkpoints:
    return Checkpoints(root, "s1", seq)


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Bytes, modes and links of everything in the project but the record."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        if ".transcripts" in folders:
            folders.remove(".transcripts")
        for name in folders + files:
            path = Path(folder) / name
            about = path.lstat()
            if stat.S_ISLNK(about.st_mode):
                value: tuple[object, ...] = ("link", str(path.readlink()))
            elif stat.S_ISDIR(about.st_mode):
                value = ("dir", stat.S_IMODE(about.st_mode))
            else:
                value = ("file", stat.S_IMODE(about.st_mode), path.read_bytes())
            found[path.relative_to(root).as_posix()] = value
    return found


def run(checkpoints: Checkpoints, command: Callable[[], object]) -> None:
    checkpoints.begin()
    command()
    checkpoints.finish()


def write(checkpoints: Checkpoints, path: Path, text: str) -> None:
    checkpoints.announce(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    checkpoints.finish()


def test_a_written_file_comes_back(root: Path, seq: Numbers, checkpoints: Checkpoints) -> None:
    (root / "a.py").write_text("one\ntwo\n")
    (root / "a.py").chmod(0o751)
    before = tree(root)
    seq.value = 7
    write(checkpoints, root / "a.py", "one\nTWO\nthree\n")
    plan = checkpoints.plan_restore(7)
    assert [(s.path, s.action, s.added, s.removed, s.by_user) for s in plan] == [
        ("a.py", "restore", 1, 2, False)
    ]
    assert checkpoints.restore(plan, never) == []
    assert tree(root) == before


def test_a_made_file_goes_and_the_folders_that_were_made_for_it(
    root: Path, seq: Numbers, checkpoints: Checkpoints
) -> None:
    before = tree(root)
    write(checkpoints, root / "new" / "deep" / "a.py", "x\n")
    plan = checkpoints.plan_restore(1)
    assert {step.path: step.action for step in plan} == {
        "new": "remove",
        "new/deep": "remove",
        "new/deep/a.py": "remove",
    }
    checkpoints.restore(plan, never)
    assert tree(root) == before


def test_only_what_came_after_the_chosen_moment_is_taken_back(
    root: Path, seq: Numbers, checkpoints: Checkpoints
) -> None:
    for number, text in enumerate(("first", "second", "third"), 1):
        seq.value = number * 10
        write(checkpoints, root / "a.py", text)
    checkpoints.restore(checkpoints.plan_restore(20), never)
    assert (root / "a.py").read_text() == "first"
    assert checkpoints.plan_restore(40) == []


def test_what_a_command_did_is_taken_back(root: Path, seq: Numbers, checkpoints: Checkpoints) -> None:
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
    assert checkpoints.restore(checkpoints.plan_restore(1), never) == []
    assert tree(root) == before


def test_a_change_within_one_tick_of_the_clock_is_seen(root: Path, checkpoints: Checkpoints) -> None:
    path = root / "a"
    path.write_text("1")
    for text in ("2", "3", "4"):
        about = path.stat()

        def command(text: str = text, about: os.stat_result = about) -> None:
            path.write_text(text)
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))

        run(checkpoints, command)
    assert len(checkpoints.changes) == 3
    checkpoints.restore(checkpoints.plan_restore(1), never)
    assert path.read_text() == "1"


def test_what_somebody_else_changed_since_is_kept_unless_confirmed(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    write(checkpoints, root / "a", "agent")
    (root / "a").write_text("mine")
    plan = checkpoints.plan_restore(1)
    assert [step.by_user for step in plan] == [True]
    (left,) = checkpoints.restore(plan, never)
    assert "somebody else" in left[1] and (root / "a").read_text() == "mine"
    assert checkpoints.restore(checkpoints.plan_restore(1), always) == []
    assert (root / "a").read_text() == "old"


def test_what_somebody_changed_between_two_commands_is_not_taken_back(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    (root / "b").write_text("old")
    run(checkpoints, lambda: (root / "a").write_text("agent"))
    (root / "b").write_text("mine")
    run(checkpoints, lambda: None)
    checkpoints.restore(checkpoints.plan_restore(1), never)
    assert (root / "a").read_text() == "old" and (root / "b").read_text() == "mine"


def test_going_back_can_be_gone_back_on(root: Path, seq: Numbers, checkpoints: Checkpoints) -> None:
    write(checkpoints, root / "a", "agent")
    after = tree(root)
    seq.value = 50
    checkpoints.restore(checkpoints.plan_restore(1), never)
    assert tree(root) == {}
    checkpoints.restore(checkpoints.plan_restore(50), never)
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
    plan = checkpoints.plan_restore(1)
    assert checkpoints.restore(plan, never) == []
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
    checkpoints.restore(checkpoints.plan_restore(1), always)
    assert (outside / "a").read_text() == "theirs"
    (outside / "a").unlink()
    checkpoints.restore(checkpoints.plan_restore(1), always)
    assert list(outside.iterdir()) == []


def test_a_path_outside_the_project_is_said_not_to_be_covered(
    root: Path, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    checkpoints.announce(tmp_path / "elsewhere")
    assert "outside the project" in checkpoints.uncovered()[0]


def test_large_files_are_said_not_to_be_covered_but_their_change_is_seen(root: Path, seq: Numbers) -> None:
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(each=10))
    (root / "big").write_text("x" * 11)
    run(checkpoints, lambda: (root / "big").write_text("y" * 11))
    (step,) = checkpoints.plan_restore(1)
    assert step.action == "lost"
    assert "big" in checkpoints.uncovered()[0]
    ((_, why),) = checkpoints.restore([step], always)
    assert "not kept" in why and (root / "big").read_text() == "y" * 11


def test_a_full_store_says_so_and_loses_only_what_is_new(root: Path, seq: Numbers) -> None:
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(total=60))
    (root / "a").write_text("a")
    (root / "b").write_bytes(Random(1).randbytes(100))
    run(checkpoints, lambda: [(root / name).write_text("!") for name in "ab"])
    assert {step.path: step.action for step in checkpoints.plan_restore(1)} == {"a": "restore", "b": "lost"}
    assert any("no room" in line for line in checkpoints.uncovered())


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def test_a_store_that_fills_up_lets_go_of_what_no_recent_session_changed(root: Path, seq: Numbers) -> None:
    def session(sid: str, total: int) -> Checkpoints:
        return Checkpoints(root, sid, seq, SnapshotLimits(total=total))

    old, recent = session("old", 1 << 20), session("recent", 1 << 20)
    for name in ("changed", "untouched", "ancient"):
        (root / name).write_bytes(Random(name).randbytes(10_000))
    for each, name in ((old, "ancient"), (recent, "changed")):
        each.begin()
        (root / name).write_bytes(b"new " + name.encode())
        each.finish()
    home = root / ".transcripts" / "checkpoints"
    for path in home.rglob("*"):
        age(path, 2 * FRESH)
    age(home / "old.jsonl", 2 * RECENT)
    fresh = session("fresh", 50_000)
    fresh.begin()
    (root / "more").write_bytes(Random(1).randbytes(15_000))
    fresh.finish()
    assert fresh.uncovered() == []
    assert [step.action for step in recent.plan_restore(0)] == ["restore"]
    assert [step.action for step in old.plan_restore(0)] == ["lost"]
    assert recent.content(recent.changes[0].before) == Random("changed").randbytes(10_000)


def test_contents_just_put_aside_or_named_by_a_look_are_never_let_go(root: Path, seq: Numbers) -> None:
    names = ("a", "b")
    for name in names:
        (root / name).write_bytes(Random(name).randbytes(10_000))
    running = Checkpoints(root, "running", seq)
    running.begin()
    objects = root / ".transcripts" / "checkpoints" / "objects"
    there = sorted(path for path in objects.rglob("*") if path.is_file())
    assert len(there) == 2 and prune(objects, 0) == sum(path.stat().st_size for path in there)
    for path in there:
        age(path, 2 * FRESH)
    assert prune(objects, 0) > 0 and all(path.exists() for path in there)
    running.finish()
    for path in there:
        age(path, 2 * FRESH)
    assert prune(objects, 0) == 0 and not any(path.exists() for path in there)


def test_new_files_are_never_removed_when_not_everything_was_seen_before(root: Path, seq: Numbers) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(files=4))
    run(checkpoints, lambda: [(root / f"f{number}").write_text("y") for number in range(10)])
    plan = checkpoints.plan_restore(1)
    assert [step.path for step in plan] == ["f0", "f1", "f2", "f3"]
    assert {step.action for step in plan} == {"restore"}
    assert any("only 4 files" in line for line in checkpoints.uncovered())


def test_files_that_come_into_sight_only_afterwards_are_never_taken_for_new(root: Path, seq: Numbers) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(files=4))
    run(checkpoints, lambda: [(root / f"f{number}").unlink() for number in range(3)])
    plan = checkpoints.plan_restore(1)
    assert [(step.path, step.action) for step in plan] == [
        ("f0", "create"),
        ("f1", "create"),
        ("f2", "create"),
    ]


def test_a_file_is_known_by_its_times_only_when_they_are_older_than_the_clock_is_coarse(root: Path) -> None:
    (root / "a").write_text("x")
    changed = (root / "a").stat().st_ctime
    for later, known in ((0.001, False), (1.0, True)):
        shadow = ContentStore(root / ".transcripts" / "checkpoints" / "objects")
        wall = (changed + later).__abs__  # a clock that stands still
        shadow.look(root, lambda: 0.0, wall)
        assert ("a" in shadow.stamps) == known


def test_a_project_that_is_too_large_is_not_looked_at_for_ever(root: Path, seq: Numbers) -> None:
    for number in range(10):
        (root / f"f{number}").write_text("x")
    ticks = iter(range(10**6))
    looks = []
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(seconds=2), clock=lambda: float(next(ticks)))
    for _ in range(8):
        run(checkpoints, lambda: None)
        looks.append(next(ticks))
    assert looks[-1] - looks[-2] == 1, "the clock was not read any more"


def test_another_run_can_take_the_work_of_this_one_back(
    root: Path, seq: Numbers, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    before = tree(root)
    write(checkpoints, root / "a", "agent")
    run(checkpoints, lambda: (root / "b").write_text("agent"))
    later = Checkpoints(root, "s1", seq)
    plan = later.plan_restore(1)
    assert [step.by_user for step in plan] == [False, False]
    later.restore(plan, never)
    assert tree(root) == before
    assert Checkpoints(root, "s2", seq).plan_restore(1) == []


def test_a_command_that_was_cut_short_by_a_crash_can_be_taken_back_when_confirmed(
    root: Path, seq: Numbers, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    before = tree(root)
    checkpoints.begin()
    (root / "a").write_text("half")
    (root / "b").write_text("made")
    later = Checkpoints(root, "s1", seq)
    plan = later.plan_restore(1)
    assert [(step.path, step.by_user) for step in plan] == [("a", True), ("b", True)]
    assert len(later.restore(plan, never)) == 2
    assert later.restore(later.plan_restore(1), always) == []
    assert tree(root) == before


def test_a_write_that_was_cut_short_by_a_crash_is_asked_about(
    root: Path, seq: Numbers, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("old")
    checkpoints.announce(root / "a")
    (root / "a").write_text("half")
    (step,) = Checkpoints(root, "s1", seq).plan_restore(1)
    assert step.by_user and step.action == "restore"


def test_a_torn_log_loses_its_last_line_only(root: Path, seq: Numbers, checkpoints: Checkpoints) -> None:
    write(checkpoints, root / "a", "agent")
    write(checkpoints, root / "b", "agent")
    log = root / ".transcripts" / "checkpoints" / "s1.jsonl"
    log.write_bytes(log.read_bytes()[:-9])
    assert [step.path for step in Checkpoints(root, "s1", seq).plan_restore(1)] == ["a", "b"]
    log.write_bytes(b"\xff\n" + log.read_bytes()[:25])
    assert Checkpoints(root, "s1", seq).plan_restore(1) == []


def test_damaged_contents_are_never_written_back(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    write(checkpoints, root / "a", "agent")
    for kept in (root / ".transcripts" / "checkpoints" / "objects").rglob("*"):
        if kept.is_file():
            kept.write_bytes(b"damaged")
    plan = checkpoints.plan_restore(1)
    assert [step.action for step in plan] == ["lost"]
    checkpoints.restore(plan, always)
    assert (root / "a").read_text() == "agent"


def test_a_hard_linked_file_stays_one_file(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    (root / "b").hardlink_to(root / "a")
    run(checkpoints, lambda: (root / "a").write_text("agent"))
    checkpoints.restore(checkpoints.plan_restore(1), never)
    assert (root / "b").read_text() == "old" and (root / "a").samefile(root / "b")


def test_everything_kept_is_private(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("secret")
    write(checkpoints, root / "a", "agent")
    for path in (root / ".transcripts").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) in (0o600, 0o700), path


def test_line_counts_are_those_of_a_diff_and_large_files_are_no_trouble() -> None:
    assert line_counts(b"a\nb\nc\n", b"a\nX\nc\nd\n") == (2, 1)
    old = b"".join(b"%d\n" % number for number in range(50_000))
    assert line_counts(old, old + b"one more\n") == (1, 0)


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


@pytest.mark.parametrize("seed", range(25))
def test_a_fuzzed_tree_comes_back_in_bytes_modes_and_links(root: Path, seq: Numbers, seed: int) -> None:
    random = Random(seed)
    scramble(root, random, 25)
    checkpoints = Checkpoints(root, "s1", seq)
    trees = []
    for number in range(1, 5):
        seq.value = number * 10
        trees.append(tree(root))
        run(checkpoints, lambda: scramble(root, random, 12))
        if number == 2:
            checkpoints = Checkpoints(root, "s1", seq)  # another run goes on
    seq.value = 100
    for number in (4, 3, 2, 1):
        assert checkpoints.restore(checkpoints.plan_restore(number * 10), never) == []
        assert tree(root) == trees[number - 1]
    assert checkpoints.uncovered() == []


def test_a_change_behind_a_torn_line_of_the_log_is_kept(root: Path, seq: Numbers) -> None:
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
    assert again.restore(again.plan_restore(0), always) == []
    assert (root / "second.txt").read_text() == "second"

"""Tracked files of a large repository come back although no copy of them is kept before a command."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.checkpoints.file_restore import plan_restore, restore
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import PathState, SnapshotLimits
from agent.events import Event, Notice
from agent.loop.changed_files import report_if_slow
from tests.tools.bash_session import BashSession
from tools.processes import command_runner

from .project import Seq, tree
from .test_git_refs import sh

OLD_S = 1_600_000_000


@pytest.fixture
def session(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BashSession]:
    """A session in a project in which git is asked for any number of files."""
    monkeypatch.setattr("tools.search.git_index._MIN_INDEX_BYTES", 0)
    monkeypatch.setattr("agent.checkpoints.project_scanner.MANY_FILES", 0)
    session = BashSession(root)
    session.how()
    yield session
    session.close()
    session.runner.close()


@pytest.fixture
def in_session(session: BashSession, checkpoints: Checkpoints) -> Callable[[Callable[[], object]], None]:
    """Run something in a thread of the session, as a command whose changes are recorded."""

    async def work(command: Callable[[], object]) -> None:
        checkpoints.use_git(session.context)
        await asyncio.to_thread(checkpoints.begin)
        await asyncio.to_thread(command)
        await asyncio.to_thread(checkpoints.finish)

    return lambda command: session.runner.run(work(command))


def commit(root: Path, *lines: str) -> None:
    """Commit all files, as long ago: what changed in the second of the commit is copied."""
    begin = ("git init -q -b main .", "printf '.t*\\njournals\\n' >.git/info/exclude")
    sh(root, "\n".join((*begin, *lines, "git add . && git commit -qm all")))
    settle(root)


def settle(root: Path) -> None:
    """Let the second pass in which the files changed, as git's index does not tell changes in it apart."""
    newest = max(path.lstat().st_ctime for path in root.rglob("*"))
    clock = threading.Event()  # never set: waiting for it uses no CPU time
    while int(time.time()) - 0.06 < newest:
        clock.wait(0.01)
    os.utime(root / ".git/index", ns=(time.time_ns(), time.time_ns()))  # the file system's clock is behind


def states_in_git(checkpoints: Checkpoints) -> set[str]:
    return {name for name, state in checkpoints.scanner.tracked.items() if state.blob}


def stored(root: Path) -> int:
    """The number of copies."""
    folder = root / ".transcripts/checkpoints"
    return len([path for kind in ("objects", "large") for path in (folder / kind).rglob("??/*")])


def rewound(checkpoints: Checkpoints) -> list[str]:
    """Restore everything, and return the actions."""
    steps = plan_restore(checkpoints, 0)
    assert restore(checkpoints, steps, with_changed=False) == {}
    return [f"{step.action} {step.path}" for step in steps]


def test_what_a_command_does_to_tracked_files_is_undone(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    """Without a copy of any file that does not change."""
    commit(
        root, "mkdir d; for n in 1 2 3 4 5 6 7 8; do seq $n >d/f$n; done", "chmod 600 d/f4; chmod 755 d/f5"
    )
    (root / "untracked").write_text("mine")
    before = tree(root)

    def command() -> None:
        sh(root, "echo x >>d/f1; rm d/f2; chmod 640 d/f3; echo y >d/f4; rm d/f5 untracked; echo new >d/new")
        sh(root, "touch d/f6; cp d/f7 d/other; mv d/other d/f7")

    in_session(command)
    assert stored(root) < 12
    assert [each.path for each in checkpoints.log.changes] == [
        *("d/f1", "d/f2", "d/f3", "d/f4", "d/f5", "d/new", "untracked")
    ], "touched and rewritten files have not changed"
    assert all(each.before.restorable for each in checkpoints.log.changes)
    in_session(lambda: (root / "d/f8").write_text("later"))
    assert states_in_git(checkpoints) == set() or "d/f8" not in states_in_git(checkpoints)
    rewound(checkpoints)
    assert tree(root) == before


def test_the_configuration_of_a_submodule_runs_no_program(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None], tmp_path: Path
) -> None:
    """Commands can make one. git would compare its files by another git, with that one's own filters."""
    ran = tmp_path / "ran"
    commit(root, "echo one >a")
    plant = f"""
        git init -q within; cd within; echo one >f; git add f; git commit -qm one
        git config filter.x.clean 'touch {ran}; cat'; echo 'f filter=x' >.gitattributes; echo two >f
        cd ..; git add within; echo two >a
    """
    in_session(lambda: sh(root, plant))
    in_session(lambda: sh(root, "echo three >a"))
    assert not ran.exists() and [each.path for each in checkpoints.log.changes if each.path == "a"]
    sh(root, "git status")
    assert ran.exists(), "the filter works"


def test_a_change_that_keeps_the_size_and_time_of_a_tracked_file_is_seen(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    commit(root, "echo one >a; echo one >b; touch -d @1600000000 a b")

    def change() -> None:
        (root / "a").write_text("two\n")
        os.utime(root / "a", (OLD_S, OLD_S))

    in_session(lambda: None)
    assert states_in_git(checkpoints) == {"a", "b"}
    in_session(change)
    assert [each.path for each in checkpoints.log.changes] == ["a"]
    assert rewound(checkpoints) == ["restore a"] and (root / "a").read_text() == "one\n"


def test_files_whose_contents_differ_from_gits_are_copied(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    """Converted line ends, filters, and files that git does not compare."""
    commit(
        root,
        r"git config filter.secret.clean 'tr x y'; git config filter.secret.smudge 'tr y x'",
        r"printf '*.txt text\n*.key filter=secret\n' >.gitattributes; git add .gitattributes",
        r"printf 'a\r\nb\r\n' >dos.txt; echo xx >k.key; for n in plain assumed sparse; do echo $n >$n; done",
    )
    sh(root, "git update-index --assume-unchanged assumed && git update-index --skip-worktree sparse")
    sh(root, "echo other-than-git >assumed; echo other-than-git >sparse")
    settle(root)
    before = tree(root)
    in_session(lambda: None)
    assert states_in_git(checkpoints) == {".gitattributes", "plain"}
    in_session(lambda: sh(root, "rm dos.txt k.key plain assumed sparse"))
    rewound(checkpoints)
    assert tree(root) == before


def test_files_that_changed_in_the_second_of_the_index_are_read(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    """Their times do not tell a later change from one that git has seen. Those that differ are copied."""
    commit(root, "echo one >a; echo one >b")
    (root / "b").write_text("two\n")
    now = (root / "a").stat()
    os.utime(root / ".git/index", ns=(now.st_ctime_ns, now.st_ctime_ns))
    before = tree(root)
    in_session(lambda: None)
    assert states_in_git(checkpoints) == set() and checkpoints.recording.coverage() == "all"
    assert stored(root) == 1
    in_session(lambda: sh(root, "rm a b"))
    rewound(checkpoints)
    assert tree(root) == before


def test_files_that_a_setting_of_the_repository_converts_are_copied(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    commit(root, r"printf 'a\r\nb\r\n' >dos; echo one >unix; git config core.autocrlf input")
    before = tree(root)
    in_session(lambda: None)
    assert states_in_git(checkpoints) == {"unix"}
    in_session(lambda: sh(root, "rm dos unix"))
    rewound(checkpoints)
    assert tree(root) == before


def test_large_files_are_not_copied_before_they_change(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    commit(root, "head -c 3000000 /dev/urandom >a; cp a b; head -c 2000000 /dev/zero >c")
    before = tree(root)
    in_session(lambda: None)
    assert states_in_git(checkpoints) == {"a", "b", "c"} and stored(root) == 0
    in_session(lambda: sh(root, "rm a; echo >>b; mv c d"))
    assert all(each.before.restorable for each in checkpoints.log.changes)
    rewound(checkpoints)
    assert tree(root) == before


def test_files_with_the_modes_of_another_umask_come_back_with_them(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    commit(
        root,
        "echo 1 >a; echo 2 >b; echo 3 >c; echo 4 >d; chmod 664 a; chmod 775 b; chmod 4755 c; chmod 600 d",
    )
    before = tree(root)
    in_session(lambda: None)
    assert states_in_git(checkpoints) == {"a", "b", "c", "d"}
    in_session(lambda: sh(root, "echo 5 >a; echo 6 >b; rm c; chmod 644 d"))
    rewound(checkpoints)
    assert tree(root) == before


def test_what_git_cannot_compare_is_read_again(
    root: Path,
    session: BashSession,
    checkpoints: Checkpoints,
    in_session: Callable[[Callable[[], object]], None],
) -> None:
    """The copy of the index may get lost."""
    commit(root, "for n in 1 2 3; do echo $n >f$n; done")
    before = tree(root)

    async def lose() -> None:
        supervisor = await command_runner(session.context).supervisor()
        (supervisor.private / "index").unlink()

    in_session(lambda: (root / "f1").write_text("one"))
    session.runner.run(lose())
    in_session(lambda: (root / "f2").write_text("two"))
    assert [each.path for each in checkpoints.log.changes] == ["f1", "f2"]
    assert checkpoints.recording.coverage() == "all" and states_in_git(checkpoints) == {"f3"}
    rewound(checkpoints)
    assert tree(root) == before


def test_a_scan_that_was_cut_short_blames_no_command_for_the_other_files(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    """Nor does it read them."""
    commit(root, "mkdir d; for n in 1 2 3; do echo $n >d/f$n; done")

    def first() -> None:
        checkpoints.scanner.index = None
        checkpoints.scanner.limits = SnapshotLimits(max_seconds=-1)
        checkpoints.begin()
        checkpoints.scanner.limits = SnapshotLimits()

    first()
    checkpoints.finish()
    assert checkpoints.log.changes == [] and checkpoints.log.gaps != set()
    in_session(lambda: (root / "d/f1").write_text("one"))
    assert [each.path for each in checkpoints.log.changes] == ["d/f1"]


def test_another_branch_and_back(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    """The index is read again after many changes."""
    commit(root, "for n in 1 2 3; do mkdir d$n; echo $n >d$n/f; done")
    before = tree(root)
    sh(
        root,
        "git checkout -qb other; git rm -q d1/f; echo o >d2/f; echo n >d3/n; git add .; git commit -qm o",
    )
    sh(root, "git checkout -q main; git update-index --refresh")
    settle(root)
    in_session(lambda: sh(root, "git checkout -q other"))
    assert {each.path for each in checkpoints.log.changes} == {"d1", "d1/f", "d2/f", "d3/n"}
    rewound(checkpoints)
    assert {name: each for name, each in tree(root).items() if ".git" not in name} == {
        name: each for name, each in before.items() if ".git" not in name
    }


def test_a_later_run_restores_what_a_crash_left(
    root: Path,
    seq: Seq,
    session: BashSession,
    checkpoints: Checkpoints,
    in_session: Callable[[Callable[[], object]], None],
) -> None:
    commit(root, "echo one >a; echo one >b")

    async def crash() -> None:
        checkpoints.use_git(session.context)
        await asyncio.to_thread(checkpoints.begin)
        (root / "a").write_text("half of it")

    async def recover(later: Checkpoints) -> None:
        later.use_git(session.context)
        await asyncio.to_thread(later.catch_up)

    session.runner.run(crash())
    assert states_in_git(checkpoints) == {"a", "b"}
    later = Checkpoints(root, "s1", seq)
    session.runner.run(recover(later))
    steps = plan_restore(later, 0)
    restore(later, steps, with_changed=True)
    assert [step.path for step in steps] == ["a"] and (root / "a").read_text() == "one\n"


def test_contents_that_git_has_lost_are_reported(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    commit(root, "echo one >a; echo one >b")
    in_session(lambda: sh(root, "rm -rf .git a"))
    assert [(each.path, each.before.restorable) for each in checkpoints.log.changes] == [("a", False)]
    assert any("too large or unreadable" in line for line in checkpoints.uncovered())
    in_session(lambda: (root / "b").write_text("two"))
    assert checkpoints.log.changes[-1].before == checkpoints.scanner.paths.state("b") or (
        checkpoints.log.changes[-1].before.value == ""
    )


def test_directories_are_listed_again_when_their_times_change(
    root: Path, checkpoints: Checkpoints, in_session: Callable[[Callable[[], object]], None]
) -> None:
    commit(root, "mkdir -p a/b/c empty; echo 1 >a/b/c/f; echo 2 >a/f")
    in_session(lambda: None)
    in_session(
        lambda: sh(root, "mkdir -p a/b/new/deep; echo 3 >a/b/new/deep/f; rmdir empty; chmod 700 a/b/c")
    )
    assert {each.path for each in checkpoints.log.changes} == {
        *("a/b/c", "a/b/new", "a/b/new/deep", "a/b/new/deep/f", "empty")
    }
    in_session(lambda: sh(root, "rm -r a/b; ln -s /etc a/b"))
    assert {each.path for each in checkpoints.log.changes[5:]} >= {"a/b", "a/b/c/f", "a/b/new/deep/f"}
    assert checkpoints.scanner.paths.state("a/b") == PathState("link", value="/etc")


@pytest.mark.parametrize(("many", "limit"), [(2_000, ""), (0, ", for at most 60 s")])
def test_a_slow_scan_says_what_it_waits_for_and_how_long_if_there_are_many_files(
    root: Path,
    session: BashSession,
    checkpoints: Checkpoints,
    monkeypatch: pytest.MonkeyPatch,
    many: int,
    limit: str,
) -> None:
    """And only then."""
    monkeypatch.setattr("agent.checkpoints.project_scanner.MANY_FILES", many)
    monkeypatch.setattr("agent.loop.changed_files.SLOW_S", 0.05)
    (root / "a").write_text("one")
    told = threading.Event()
    notices: list[str] = []

    def emit(event: Event) -> None:
        assert isinstance(event, Notice)
        notices.append(event.text)
        told.set()

    def slow_clock() -> float:
        if checkpoints.scanner.activity.startswith("keeping"):
            told.wait(30)
        return 0.0

    checkpoints.scanner.clock = slow_clock
    session.runner.run(report_if_slow(checkpoints, emit, asyncio.to_thread(checkpoints.begin)))
    assert notices == [f"keeping copies of 1 file for /rewind{limit}..."]
    session.runner.run(report_if_slow(checkpoints, emit, asyncio.to_thread(list)))
    assert len(notices) == 1


def test_a_slow_scan_says_what_it_does_next(
    root: Path, session: BashSession, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.checkpoints.project_scanner.MANY_FILES", 2_000)
    monkeypatch.setattr("agent.loop.changed_files.SLOW_S", 0.05)
    (root / "a").write_text("one")
    told = {"comparing": threading.Event(), "keeping": threading.Event()}
    notices: list[str] = []

    def emit(event: Event) -> None:
        assert isinstance(event, Notice)
        notices.append(event.text)
        told[event.text.split()[0]].set()

    def slow_clock() -> float:
        told[checkpoints.scanner.activity.split()[0]].wait(30)
        return 0.0

    checkpoints.scanner.clock = slow_clock
    session.runner.run(report_if_slow(checkpoints, emit, asyncio.to_thread(checkpoints.begin)))
    assert notices == ["comparing the project's files...", "keeping copies of 1 file for /rewind..."]


def test_a_copied_repository_is_compared_by_content_once(
    session: BashSession,
    root: Path,
    checkpoints: Checkpoints,
    in_session: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Its files have other inodes and times than in the index; nothing that a setting names is run."""
    monkeypatch.setattr("tools.search.git_index._MANY_STALE", 0)
    ran = tmp_path / "ran"
    settings = tmp_path / "settings"
    settings.write_text(f'[filter "x"]\n\tclean = touch {ran}; cat\n')
    session.context.environ = {**session.context.environ, "GIT_CONFIG_GLOBAL": str(settings)}
    commit(root, "for n in a b c d; do seq 9 >$n; done; chmod 755 b; touch -d @1600000000 a b c d")
    sh(root, "for n in a b c d; do cp -p $n .copy; mv .copy $n; done")
    (root / "c").write_text("other\n" * 3)
    os.utime(root / "c", (OLD_S, OLD_S))
    assert (root / "c").stat().st_size == (root / "a").stat().st_size, "only its content tells"
    sh(root, f"git config filter.x.clean 'touch {ran}; cat'; echo 'd filter=x' >.git/info/attributes")
    settle(root)
    before = tree(root)
    in_session(lambda: sh(root, "echo 1 >>a; echo 1 >>c; echo 1 >>d"))
    assert states_in_git(checkpoints) == {"b"} and stored(root) >= 2
    assert [each.path for each in checkpoints.log.changes] == ["a", "c", "d"]
    in_session(lambda: sh(root, "rm b"))
    assert not ran.exists()
    rewound(checkpoints)
    assert tree(root) == before
    assert "M c" in sh(root, "git status --short"), "the index of the user is as it was"


def test_a_change_in_the_second_of_the_index_is_seen_although_other_files_are_compared(
    root: Path,
    checkpoints: Checkpoints,
    in_session: Callable[[Callable[[], object]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """git takes the time of the index into account; our copy of it is newer."""
    monkeypatch.setattr("tools.search.git_index._MANY_STALE", 0)
    sh(root, "git init -q -b main .; printf '.t*\\njournals\\n' >.git/info/exclude; echo a >stale")
    clock = threading.Event()  # never set: waiting for it uses no CPU time
    while time.time() % 1 > 0.3:
        clock.wait(0.01)
    sh(root, "echo one >changed; git add . && git commit -qm all; touch -r changed .git/index .t")
    sh(root, "echo two >changed; touch -r .t changed; rm .t; touch -d @1600000000 stale")
    while int(time.time()) - 0.06 < (root / "changed").stat().st_ctime:
        clock.wait(0.01)
    before = tree(root)
    in_session(lambda: sh(root, "rm changed stale"))
    rewound(checkpoints)
    assert tree(root) == before


def test_a_file_that_is_too_large_gets_no_link_if_git_has_it(
    root: Path, seq: Seq, session: BashSession
) -> None:
    """Its ctime would change with each command, so that git would read all of it again."""
    limits = SnapshotLimits(max_file_bytes=4, max_large_file_bytes=8)
    sh(root, "git init -q; printf 0123456789 | tee a b >'*'; git add a b; printf 98765432101 >b")
    checkpoints = Checkpoints(root, "s1", seq, limits)
    before = tree(root)

    async def work() -> None:
        checkpoints.use_git(session.context)
        await asyncio.to_thread(checkpoints.begin)
        sh(root, "rm a b '*'")
        await asyncio.to_thread(checkpoints.finish)

    session.runner.run(work())
    plan = plan_restore(checkpoints, 0)
    assert {step.path: step.action for step in plan} == {"*": "create", "a": "lost", "b": "create"}
    assert [step.path for step in restore(checkpoints, plan, with_changed=False)] == ["a"]
    assert tree(root) == {path: state for path, state in before.items() if path != "a"}

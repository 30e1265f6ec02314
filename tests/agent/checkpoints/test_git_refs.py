"""Branches, tags, stash entries and staged changes that commands destroy come back, whatever gc did since."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.checkpoints import git_keeper
from agent.checkpoints.change_log import RefChange
from agent.checkpoints.file_restore import plan_restore, restore
from agent.checkpoints.git_fingerprint import fingerprint
from agent.checkpoints.git_restore import RefStep, plan_refs, restore_refs
from agent.checkpoints.git_state import GitRunner, parse_state
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import SnapshotLimits
from agent.loop import changed_files
from agent.loop.changed_files import keep_refs
from tests.sampling import sampled, sampled_rows
from tools.base import ToolContext
from tools.search import GitFailed

from .project import Seq, copy_tree

DESCRIBED = "git status -sb; git ls-files -s; git fsck --no-dangling 2>&1"
PRUNE = ("reflog expire --expire=now --expire-unreachable=now --all", "gc -q --prune=now")
AUTHOR = {
    f"GIT_{who}_{what}": f"{who.lower()}@example.org"
    for who in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}
ENVIRON = {
    **os.environ,
    **AUTHOR,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def sh(folder: Path, line: str) -> str:
    """What a line prints."""
    done = subprocess.run(["bash", "-ec", line], cwd=folder, env=ENVIRON, check=True, capture_output=True)
    return done.stdout.decode().strip()


class Git:
    """Runs the scripts of git calls, without a sandbox; counts them."""

    def __init__(self) -> None:
        self.runs = 0
        self.scripts: list[str] = []

    async def __call__(self, folder: Path, script: str, arguments: Sequence[str]) -> str:
        self.runs += 1
        self.scripts.append(script)
        argv = ["sh", "-c", script, "git", *arguments]
        done = subprocess.run(argv, cwd=folder, env=ENVIRON, capture_output=True)
        if done.returncode:
            raise GitFailed(code=done.returncode)
        return os.fsdecode(done.stdout)


@pytest.fixture
def git() -> Git:
    return Git()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two branches, tags, two stash entries and staged changes."""
    root = tmp_path_factory.mktemp("template")
    lines = """
        git init -q -b main .
        echo .transcripts >.git/info/exclude
        for n in 1 2 3; do echo $n >a; git add a; git commit -qm "commit $n"; done
        git checkout -qb topic; echo topic >t; git add t; git commit -qm topic; git checkout -q main
        git tag light topic; git tag -am 'the message' heavy topic
        echo first >a; git stash -q; echo second >a; git stash push -qm 'my work'
        echo staged >s; git add s; echo later >s
    """
    sh(root, lines)
    return root


@pytest.fixture
def repository(root: Path, template: Path) -> Path:
    """A copy of the template, for one test."""
    copy_tree(template, root)
    sh(root, "git update-index -q --refresh || true")  # copies have other inodes than the index says
    return root


def run(checkpoints: Checkpoints, git: Git, *lines: str) -> None:
    """Run lines of git as one command."""

    async def call() -> None:
        checkpoints.begin()
        await checkpoints.keep_refs(git, is_own=False)
        for line in lines:
            sh(checkpoints.root, line if line.startswith(("rm ", "cd ")) else f"git {line}")
        await checkpoints.keep_refs(git, is_own=True)
        checkpoints.finish()

    asyncio.run(call())


def planned(checkpoints: Checkpoints, git: Git, to_seq: int = 0) -> list[RefStep]:
    return asyncio.run(plan_refs(checkpoints, to_seq, git))


def planned_refs(checkpoints: Checkpoints, git: Git) -> list[RefStep]:
    """The plan without the reflogs, in which every line changes something."""
    return [step for step in planned(checkpoints, git) if not step.name.startswith("logs/")]


def rewind(checkpoints: Checkpoints, git: Git, theirs: bool = False) -> dict[RefStep, str]:
    """Restore files and refs."""
    assert restore(checkpoints, plan_restore(checkpoints, 0), theirs) == {}
    return asyncio.run(restore_refs(checkpoints, planned(checkpoints, git), theirs, git))


def described(root: Path) -> str:
    """All that a user can lose: refs, stash, index, files and whether every object is there."""
    refs = "git for-each-ref --format='%(objectname) %(refname)' refs/heads refs/tags refs/remotes refs/notes"
    stash = "git reflog show --format='%H %gs' refs/stash -- || true"
    return sh(root, f"{refs}; {stash}; git ls-files -s; git status -sb; git fsck --no-dangling 2>&1; cat *")


@pytest.fixture(scope="module")
def before(template: Path) -> str:
    """The description of each repository before a command."""
    return described(template)


DESTROYED = [
    ("branch -D topic",),
    ("tag -d heavy light",),
    ("tag -f heavy main", "tag -fam other light main"),
    ("stash drop",),
    ("stash clear",),
    ("stash drop stash@{1}",),
    ("stash pop -q || true",),
    ("reset -q --hard HEAD~2",),
    ("checkout -q -f topic", "branch -f main HEAD~2", "checkout -q main"),
    ("commit -q --amend -m amended -a",),
    ("checkout -q -B main topic~3",),
    ("branch -M topic renamed", "branch -D renamed"),
    ("update-ref -d refs/heads/topic",),
    ("reset -q -- s",),
    ("reset -q",),
    ("branch -D topic", "tag -d heavy light", "stash clear", "reset -q --hard HEAD~1"),
    ("worktree add -q ../wt topic", "-C ../wt rebase -q --onto main~1 main", "worktree remove ../wt"),
]


@pytest.mark.parametrize(
    ("lines", "pruned"),
    [
        # Each kind of loss once: a branch, tags, stash entries, commits, the index, and all of them.
        *sampled_rows(((lines, True) for lines in DESTROYED), every=3),
        # Restoring is easier where git still has the objects.
        *sampled_rows(((lines, False) for lines in DESTROYED), every=8),
    ],
)
def test_what_a_command_destroys_comes_back(
    repository: Path, checkpoints: Checkpoints, git: Git, before: str, lines: tuple[str, ...], pruned: bool
) -> None:
    run(checkpoints, git, *lines, *(PRUNE if pruned else ()))
    assert rewind(checkpoints, git) == {}
    after = described(repository)
    extra = [line for line in after.splitlines() if line not in before.splitlines()]
    assert all("refs/heads/renamed" in line for line in extra)
    assert [line for line in before.splitlines() if line not in after.splitlines()] == []
    assert planned(checkpoints, git) == []


@pytest.mark.parametrize(
    "lines",
    sampled(
        [
            ("stash drop stash@{1}", "cd . && echo new >stashed && git add stashed && git stash -q -m new"),
            ("stash drop stash@{1}",),
            ("stash clear",),
            ("stash drop stash@{2}", "stash drop stash@{0}"),
            ("stash pop -q stash@{1} || true", "stash drop -q || true"),
            ("reflog delete stash@{0}",),
        ],
        every=2,
    ),
)
def test_stash_entries_come_back_in_their_order(
    repository: Path, checkpoints: Checkpoints, git: Git, lines: tuple[str, ...]
) -> None:
    for n in range(2):
        sh(repository, f"echo {n} >stashed; git add stashed; git stash -q -m {n}")
    order = "git reflog show --format='%H %gs' refs/stash --; git rev-parse refs/stash stash@{0}"
    before = sh(repository, order)
    run(checkpoints, git, *lines)
    assert rewind(checkpoints, git) == {}
    if "-m new" in lines[-1]:
        assert "On main: new" in sh(repository, "git stash list -n 1; git stash drop")
    assert sh(repository, order) == before


@pytest.mark.parametrize(("line", "restored"), [("notes remove HEAD", 1), ("notes add -m more HEAD~1", 0)])
def test_notes_that_were_removed_come_back_and_new_ones_stay(
    repository: Path, checkpoints: Checkpoints, git: Git, line: str, restored: int
) -> None:
    sh(repository, "git notes add -f -m note HEAD; git notes remove HEAD~1 || true")
    run(checkpoints, git, line)
    steps = [step for step in planned_refs(checkpoints, git) if step.name.startswith("refs/notes/")]
    assert len(steps) == restored
    assert rewind(checkpoints, git) == {}
    assert sh(repository, "git notes show HEAD") == "note"
    if not restored:
        assert sh(repository, "git notes show HEAD~1") == "more"


def test_commits_that_only_reflogs_have_survive(repository: Path, checkpoints: Checkpoints, git: Git) -> None:
    lost = sh(repository, "echo x >x; git add x; git commit -qm x; git rev-parse HEAD")
    sh(repository, "git reset -q --hard HEAD~1")
    run(checkpoints, git, *PRUNE)
    assert sh(repository, f"git cat-file -t {lost}") == "commit"


def test_a_staged_version_that_no_file_has_survives(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    run(checkpoints, git, "reset -q --hard", *PRUNE)
    assert rewind(checkpoints, git) == {}
    assert sh(repository, "git show :s") == "staged" and (repository / "s").read_text() == "later\n"


def test_a_merge_with_conflicts_is_kept_without_an_index(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    sh(repository, "git reset -q --hard; git checkout -qb other HEAD~1; echo o >a; git commit -qam o")
    sh(repository, "git merge -q main || true; echo both >a")
    blob = sh(repository, "git rev-parse :2:a")
    run(checkpoints, git, "merge --abort", "branch -D topic", *PRUNE)
    assert rewind(checkpoints, git) == {}
    assert sh(repository, f"git cat-file -t {blob} && git rev-parse -q --verify topic")
    assert (repository / "a").read_text() == "both\n"
    assert sh(repository, "git rev-parse MERGE_HEAD") == sh(repository, "git rev-parse main")


@pytest.mark.parametrize("start", sampled(["merge -q --no-commit --no-ff topic", "cherry-pick -n topic"], 2))
@pytest.mark.parametrize("end", ["reset -q --merge", "reset -q --hard", "commit -qm done", "merge --quit"])
def test_an_open_merge_that_a_command_gave_up_is_open_again(
    repository: Path, checkpoints: Checkpoints, git: Git, start: str, end: str
) -> None:
    """But not one that it concluded with a commit."""
    sh(repository, f"git reset -q --hard; git {start}")
    opened = sh(repository, "cat .git/MERGE_HEAD || true")
    run(checkpoints, git, end)
    steps = planned(checkpoints, git)
    assert rewind(checkpoints, git) == {} and planned(checkpoints, git) == []
    expected = "" if "commit" in end else opened
    assert sh(repository, "cat .git/MERGE_HEAD || true") == expected
    titles = [step.title for step in steps if "open merge" in step.title]
    assert titles == (["the open merge"] if expected else [])


OPENED = [
    ("bisect start -q HEAD HEAD~2", "bisect reset", "bisect"),
    ("merge -q topic || true", "merge --abort", "merge"),
    ("merge -q topic || true", "reset -q --hard", "merge"),
    ("checkout -q topic; git rebase -q main || true", "rebase --abort", "rebase"),
    ("checkout -q topic; git rebase -q --apply main || true", "checkout -q -f main", "rebase"),
    ("cherry-pick topic~1 topic || true", "cherry-pick --abort", "cherry-pick"),
    ("revert --no-edit HEAD~1 || true", "revert --quit", "revert"),
    ("format-patch -q --stdout -1 topic | git am -q -3 || true", "am --abort", "am"),
]


@pytest.mark.parametrize(("start", "end", "kind"), sampled_rows(OPENED, every=3))
def test_what_git_had_begun_is_open_again(
    repository: Path, checkpoints: Checkpoints, git: Git, start: str, end: str, kind: str
) -> None:
    """With its conflicts, the list of what is left to do, and HEAD where it was."""
    sh(
        repository,
        "git reset -q --hard; git checkout -q topic; echo t >a; git commit -qam t; git checkout -q main",
    )
    sh(repository, f"echo m >a; git commit -qam more; git {start}")
    files = "find .git/[A-Z]*_* .git/rebase-* .git/sequencer .git/refs/bisect -type f"
    files += " ! -name ORIG_HEAD ! -name COMMIT_EDITMSG"
    shown = f"{files} -exec grep -H '' {{}} + | sort || true"
    look = f"{DESCRIBED}; git symbolic-ref -q HEAD || git rev-parse HEAD; {shown}"
    before = sh(repository, look)
    run(checkpoints, git, end, *PRUNE)
    assert sh(repository, look) != before
    titles = [step.title for step in planned_refs(checkpoints, git)]
    assert f"the open {kind}" in titles and "the staged changes" not in titles
    assert rewind(checkpoints, git) == {} and planned(checkpoints, git) == []
    assert sh(repository, look) == before


def test_an_operation_that_a_checkout_brought_runs_nothing(
    repository: Path, checkpoints: Checkpoints, git: Git, seq: Seq
) -> None:
    """A list of commits may contain commands, and a store may be part of a checkout."""
    sh(repository, "git reset -q --hard")
    sh(repository, "GIT_SEQUENCE_EDITOR='sed -i 1iedit' git rebase -q -i -x 'touch run' HEAD~1 || true")
    sh(repository, "printf 'exec touch run\n' >.git/rebase-merge/git-rebase-todo")
    run(checkpoints, git, "rebase --abort")
    later = Checkpoints(repository, "s1", seq)
    (step, *_) = [step for step in planned(later, git) if step.name == "operation"]
    assert "an earlier run recorded it" in rewind(later, git)[step]
    assert not (repository / ".git/rebase-merge").exists()
    assert rewind(checkpoints, git) == {} and (repository / ".git/rebase-merge").exists()


def test_a_branch_that_became_a_link_to_another_one_is_restored_alone(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    before = sh(repository, "git rev-parse main topic")
    run(checkpoints, git, "symbolic-ref refs/heads/topic refs/heads/main")
    assert rewind(checkpoints, git) == {}
    assert sh(repository, "git rev-parse main topic") == before


def test_a_head_without_a_branch_is_detached_again(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    sh(repository, "git reset -q --hard; git checkout -q --detach HEAD~1; echo x >x; git add x")
    before = sh(repository, DESCRIBED)
    run(checkpoints, git, "stash -q", "checkout -q topic")
    assert "HEAD at" in " ".join(step.title for step in planned(checkpoints, git))
    assert rewind(checkpoints, git) == {} and planned(checkpoints, git) == []
    assert sh(repository, DESCRIBED) == before


@pytest.mark.parametrize(
    ("lines", "titles"),
    [
        (("reflog expire --expire=now --all",), ["the reflog of HEAD", "the reflog of main"]),
        (("branch -D topic",), ["branch topic", "the reflog of topic"]),
        (("reflog delete HEAD@{1}",), ["the reflog of HEAD"]),
        (("reflog expire --expire=now refs/remotes/o/main",), ["the reflog of refs/remotes/o/main"]),
        (("commit -qm more",), []),
    ],
)
def test_entries_of_reflogs_come_back(
    repository: Path, checkpoints: Checkpoints, git: Git, lines: tuple[str, ...], titles: list[str]
) -> None:
    sh(repository, "git update-ref refs/remotes/o/main HEAD~1; git update-ref refs/remotes/o/main HEAD")
    show = "for name in HEAD main refs/remotes/o/main; do git reflog show $name; echo; done"
    before = sh(repository, show)
    run(checkpoints, git, *lines, *(PRUNE if len(titles) > 1 else ()))
    shown = [step.title for step in planned(checkpoints, git)]
    assert [title for title in titles if not any(title in each for each in shown)] == [], shown
    assert bool(shown) == bool(titles)
    assert rewind(checkpoints, git) == {} and planned(checkpoints, git) == []
    if titles:
        assert sh(repository, show) == before
        sh(repository, "git fsck && git reflog show topic | grep 'commit: topic'")


def test_a_long_reflog_comes_back_with_what_was_added_since(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    log = repository / ".git/logs/refs/heads/topic"
    line = log.read_text().splitlines()[-1]
    log.write_text("".join(f"{line} {number}\n" for number in range(2_000)))
    before = log.read_text()
    assert len(before) > 200_000
    run(checkpoints, git, "reflog expire --expire=now refs/heads/topic")
    sh(repository, "git branch -f topic main")
    added = log.read_text()
    assert added.count("\n") == 1
    assert [step.title for step in planned(checkpoints, git)][-1] == "the reflog of topic"
    assert rewind(checkpoints, git) == {} and log.read_text() == before + added


@pytest.mark.parametrize("name", ["MERGE_HEAD", "refs/heads/pipe", "logs/refs/pipe", "HEAD"])
def test_a_repository_with_a_pipe_is_named_and_not_read(
    repository: Path, checkpoints: Checkpoints, git: Git, name: str
) -> None:
    """git would wait for it, before each command."""
    place = repository / ".git" / name
    place.unlink(missing_ok=True)
    os.mkfifo(place)
    run(checkpoints, git)
    assert git.runs == 0
    assert checkpoints.uncovered() == [
        f"branches and stash of the repository: {name} is a pipe, a device or a socket"
    ]
    place.unlink()


def test_git_checks_the_objects_of_a_repository_again_only_after_a_change(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    def checks() -> int:
        git.scripts.clear()
        planned(checkpoints, git)
        return sum("echo damaged" in script for script in git.scripts)

    def settle() -> None:
        """Make all files older than the clock of the file system can hide."""
        for path in (repository / ".git").rglob("*"):
            os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)

    run(checkpoints, git, "commit -q --allow-empty -m more")
    settle()
    assert [checks(), checks(), checks()] == [1, 0, 0]
    damage = "f=$(git rev-parse HEAD^{tree} | sed 's,..,.git/objects/&/,'); chmod u+w $f; : >$f"
    run(checkpoints, git, f"cd . && {damage}")
    assert checks() == 1 and "are missing or damaged" in str(checkpoints.uncovered())
    checks()
    assert "are missing or damaged" in str(checkpoints.uncovered())  # it still is


@pytest.mark.parametrize(
    "line",
    [
        "rm $(find .git/objects/?? -type f | head -n 3)",
        "cd . && f=$(git rev-parse HEAD^{tree} | sed 's,..,.git/objects/&/,'); chmod u+w $f; : >$f",
    ],
)
def test_missing_and_damaged_objects_are_reported(
    repository: Path, checkpoints: Checkpoints, git: Git, line: str
) -> None:
    run(checkpoints, git, "status")
    planned(checkpoints, git)
    assert checkpoints.uncovered() == []
    run(checkpoints, git, line)
    planned(checkpoints, git)
    expected = "objects of the repository: git reports that some are missing or damaged"
    assert expected in checkpoints.uncovered()


@pytest.mark.parametrize(
    "lines",
    sampled(
        [
            ("stash -q", "checkout -q --detach topic"),
            ("stash -q", "checkout -q topic"),
            ("checkout -q -f topic", "branch -D main"),
            ("checkout -q -b new", "commit -qam new"),
            ("checkout -q --orphan new", "-C . rm -rfq ."),
            ("branch -m main renamed",),
        ],
        every=2,
    ),
)
def test_the_branch_that_was_checked_out_is_again(
    repository: Path, checkpoints: Checkpoints, git: Git, lines: tuple[str, ...], seq: Seq
) -> None:
    before = sh(repository, DESCRIBED)
    run(checkpoints, git, *lines)
    after = sh(repository, "git symbolic-ref -q HEAD || git rev-parse HEAD")
    assert rewind(checkpoints, git) == {} and planned(checkpoints, git) == []
    assert sh(repository, DESCRIBED) == before
    assert sh(repository, "git symbolic-ref HEAD") == "refs/heads/main" != after


def test_a_branch_that_the_user_checked_out_since_stays(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    run(checkpoints, git, "stash -q", "checkout -q topic")
    sh(repository, "git checkout -q -b mine")
    steps = [step for step in planned(checkpoints, git) if step.name == "HEAD"]
    assert [step.title for step in steps] == ["HEAD at branch main"] and steps[0].changed_since
    assert steps[0] in asyncio.run(restore_refs(checkpoints, steps, False, git))
    assert sh(repository, "git symbolic-ref HEAD") == "refs/heads/mine"


def test_new_commits_and_new_branches_stay(repository: Path, checkpoints: Checkpoints, git: Git) -> None:
    run(checkpoints, git, "commit -qm new", "branch new", "stash push -q", "tag new")
    assert planned(checkpoints, git) == []


def test_a_commit_that_no_branch_had_gets_one(repository: Path, checkpoints: Checkpoints, git: Git) -> None:
    lost = sh(repository, "git checkout -q --detach; git commit -qam lost; git rev-parse HEAD")
    run(checkpoints, git, "checkout -q main", *PRUNE)
    titles = [step.title for step in planned_refs(checkpoints, git) if step.name != "refs/stash"]
    assert titles == [f"HEAD at {lost[:9]}", "the staged changes"]
    sh(repository, "git checkout -q topic")
    actions = {step.title: step.action for step in planned_refs(checkpoints, git)}
    assert actions[f"branch makeroom-{lost[:9]} at {lost[:9]}"] == "create"
    assert actions["the staged changes"] == "restore"
    assert {step.name for step in rewind(checkpoints, git)} == {"HEAD", "index"}
    assert sh(repository, f"git rev-parse makeroom-{lost[:9]}") == lost
    assert sh(repository, "git symbolic-ref HEAD") == "refs/heads/topic"


def test_a_head_on_no_branch_moves_back_unless_commits_were_added(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    """In a worktree too, which is a repository of its own to the plan."""
    sh(repository, "git worktree add -q --detach inner; git reset -q --hard; git checkout -q --detach")
    for tree in (".", "inner"):
        sh(repository, f"cd {tree}; git commit -q --allow-empty -m lost; echo i >i; git add i")
    show = "for d in . inner; do git -C $d rev-parse HEAD; git -C $d branch; git -C $d ls-files; done"
    before = sh(repository, show)
    run(checkpoints, git, "-C inner reset -q --hard HEAD~1", "reset -q --hard HEAD~1", *PRUNE)
    titles = {step.title for step in planned_refs(checkpoints, git) if step.name == "HEAD"}
    assert len(titles) == 2 and any(title.endswith("of inner") for title in titles)
    assert rewind(checkpoints, git) == {} and sh(repository, show) == before
    assert "makeroom-" not in sh(repository, "git branch")
    assert [step.name for step in planned_refs(checkpoints, git) if step.name == "HEAD"] == []


def test_commits_added_to_a_head_on_no_branch_stay(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    sh(repository, "git reset -q --hard; git checkout -q --detach")
    run(checkpoints, git, "commit -q --allow-empty -m added")
    assert planned(checkpoints, git) == []


def test_what_others_changed_since_is_kept_unless_asked_for(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    topic = sh(repository, "git rev-parse topic")
    run(checkpoints, git, "branch -D topic")
    sh(repository, "git branch topic main")
    (step,) = planned_refs(checkpoints, git)
    assert step.changed_since and list(rewind(checkpoints, git)) == [step]
    assert sh(repository, "git rev-parse topic") != topic
    assert rewind(checkpoints, git, theirs=True) == {} and sh(repository, "git rev-parse topic") == topic


def test_changes_of_the_user_between_commands_are_not_undone(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    run(checkpoints, git, "branch -D topic")
    sh(repository, "git tag -d light")
    run(checkpoints, git, "tag -d heavy")
    assert [step.name for step in planned_refs(checkpoints, git)] == ["refs/heads/topic", "refs/tags/heavy"]


def test_only_what_was_destroyed_since_a_prompt_is_restored(
    repository: Path, checkpoints: Checkpoints, git: Git, seq: Seq
) -> None:
    run(checkpoints, git, "branch -D topic")
    seq.value = 9
    run(checkpoints, git, "stash drop")
    (step,) = planned(checkpoints, git, 9)
    assert step.title.startswith("the stash entry 'On main: my work' (")


def test_restoring_can_be_undone(repository: Path, checkpoints: Checkpoints, git: Git, seq: Seq) -> None:
    run(checkpoints, git, "reset -q --hard HEAD~1")
    after = sh(repository, "git rev-parse main")
    seq.value = 5
    assert rewind(checkpoints, git) == {} and sh(repository, "git rev-parse main") != after
    steps = planned(checkpoints, git, 5)
    assert [step.name for step in steps] == [], "the branch has moved to a descendant"
    run(checkpoints, git, "commit -q --amend -m amended")
    amended = sh(repository, "git rev-parse main")
    seq.value = 6
    assert rewind(checkpoints, git) == {} and sh(repository, "git rev-parse main") != amended
    again = planned(checkpoints, git, 6)
    assert asyncio.run(restore_refs(checkpoints, again, False, git)) == {}
    assert sh(repository, "git rev-parse main") == amended


def test_where_git_fails_the_steps_of_that_repository_are_named(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    sh(repository, "git init -q inner; git -C inner commit -q --allow-empty -m inner; git -C inner tag t")
    run(checkpoints, git, "-C inner tag -d t", "branch -D topic")

    async def fails_at_the_top(folder: Path, script: str, arguments: Sequence[str]) -> str:
        if folder == repository and "read-tree" in script:
            raise GitFailed("no space left")
        return await git(folder, script, arguments)

    plan = planned_refs(checkpoints, git)
    failures = asyncio.run(restore_refs(checkpoints, plan, False, fails_at_the_top))
    assert {step.name: why for step, why in failures.items()} == {"refs/heads/topic": "no space left"}
    assert sh(repository, "git -C inner tag") == "t"


def test_a_later_run_restores_what_this_one_recorded(
    repository: Path, checkpoints: Checkpoints, git: Git, seq: Seq
) -> None:
    run(checkpoints, git, "branch -D topic", "tag -d heavy", *PRUNE)
    later = Checkpoints(repository, "s1", seq)
    assert later.log.refs == checkpoints.log.refs != []
    assert rewind(later, git) == {}
    assert sh(repository, "git cat-file -p heavy").endswith("the message")


class TickingGit(Git):
    """Git with a clock that is a second later for each script."""

    async def __call__(self, folder: Path, script: str, arguments: Sequence[str]) -> str:
        return await super().__call__(folder, f"date() {{ echo {self.runs}; }}\n{script}", arguments)


def test_what_any_worktree_kept_survives_that_the_ref_is_deleted(
    repository: Path, root: Path, seq: Seq
) -> None:
    git = TickingGit()
    sh(repository, "git worktree add -q -b inner inner; echo staged >inner/i; git -C inner add i")
    checkpoints = Checkpoints(root, "s1", seq)
    run(checkpoints, git, "branch other")
    kept = sh(repository, "git rev-parse refs/makeroom/keep/s1")
    run(checkpoints, git, "update-ref -d refs/makeroom/keep/s1")
    sh(repository, f"git merge-base --is-ancestor {kept} refs/makeroom/keep/s1")
    assert "unreachable" not in sh(repository, "git fsck --unreachable --no-dangling 2>&1")


def test_worktrees_of_the_repository_are_kept_as_well(
    repository: Path, checkpoints: Checkpoints, git: Git, tmp_path: Path
) -> None:
    inner, outer = repository / "inner", tmp_path / "outer"
    sh(repository, f"git worktree add -q --detach {outer}; git worktree add -q -b inner {inner}")
    lost = sh(outer, "echo o >o; git add o; git commit -qm outer; git rev-parse HEAD")
    staged = sh(inner, "echo i >i; git add i; git rev-parse :i")
    run(
        checkpoints,
        git,
        f"-C {outer} checkout -q main~1",
        "-C inner reset -q --hard",
        "-C inner checkout -q -b else",
        "branch -D topic",
        *PRUNE,
    )
    assert sh(repository, f"git cat-file -t {lost}; git cat-file -t {staged}") == "commit\nblob"
    names = {(step.repository, step.name) for step in planned_refs(checkpoints, git)}
    assert names == {
        ("", f"refs/heads/makeroom-{lost[:9]}"),
        ("", "refs/heads/topic"),
        ("", "refs/stash"),  # its entries are in a reflog, which has expired
        ("inner", "HEAD"),
        ("inner", "index"),
    }
    assert rewind(checkpoints, git) == {} and sh(inner, "git rev-parse :i") == staged


def test_repositories_within_the_project_are_kept(root: Path, checkpoints: Checkpoints, git: Git) -> None:
    (root / "vendor" / "lib").mkdir(parents=True)
    sh(root / "vendor/lib", "git init -q -b main; git commit -q --allow-empty -m one; git branch topic")
    run(checkpoints, git, "-C vendor/lib branch -D topic")
    (step,) = planned_refs(checkpoints, git)
    assert (step.repository, step.name) == ("vendor/lib", "refs/heads/topic")
    assert step.title.endswith(" of vendor/lib") and rewind(checkpoints, git) == {}


def test_staged_changes_come_back_beside_a_repository_with_the_same_branch(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    inner = repository / "inner"
    inner.mkdir()
    sh(inner, "git init -q -b main; git commit -q --allow-empty -m one; git commit -q --allow-empty -m two")
    sh(inner, "echo i >i; git add i")
    run(checkpoints, git, "reset -q --hard HEAD~1", "-C inner reset -q --hard HEAD~1")
    assert {step.repository for step in planned(checkpoints, git) if step.name == "index"} == {"", "inner"}
    assert rewind(checkpoints, git) == {}
    assert sh(repository, "git show :s; git -C inner show :i") == "staged\ni"


def test_an_unchanged_repository_is_not_read_again(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    for path in (repository / ".git").rglob("*"):
        os.utime(path, (1, 1))
    run(checkpoints, git)
    known = git.runs
    for folder in (repository / ".git", repository / ".git/refs"):
        os.utime(folder, (1, 1))
    before = fingerprint(repository)
    sh(repository, "git update-ref refs/makeroom/keep/other HEAD")
    assert fingerprint(repository) == before is not None and before.newest_ns == 10**9
    os.utime(repository / ".git/refs/heads", (2, 2))
    newer = fingerprint(repository)
    assert newer is not None and newer.newest_ns == 2 * 10**9
    run(checkpoints, git)
    settled = git.runs
    run(checkpoints, git, "status", "log -1")
    assert known >= 1 and git.runs == settled


def test_a_repository_with_very_many_reflogs_is_read_each_time(
    repository: Path, checkpoints: Checkpoints, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.checkpoints.git_fingerprint._MAX_ENTRIES", 300)
    logs = repository / ".git/logs/refs/heads"
    for number in range(301):
        os.mknod(logs / f"b{number}")
    (logs / "more").mkdir()
    for path in (repository / ".git").rglob("*"):
        os.utime(path, (1, 1))
    found = fingerprint(repository)
    assert found is not None and not found.complete
    assert {"refs/heads", "refs/tags"} <= {name for name, *_ in found.stamps}
    run(checkpoints, git)
    known = git.runs
    run(checkpoints, git, "branch -D topic")
    assert git.runs == known + 2
    assert [step.name for step in planned_refs(checkpoints, git)] == ["refs/heads/topic"]


def test_a_commit_that_keeps_names_only_what_is_new(
    repository: Path, checkpoints: Checkpoints, git: Git
) -> None:
    run(checkpoints, git, "commit -qm new")
    kept = sh(repository, "git log -2 --first-parent --format=%P refs/makeroom/keep/s1").splitlines()
    assert len(kept[0].split()) == 2 and len(kept[1].split()) >= 4


def test_what_old_sessions_kept_is_let_go(repository: Path, seq: Seq, git: Git) -> None:
    old = "GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' git commit-tree -m old 'HEAD^{tree}'"
    sh(repository, f"git update-ref refs/makeroom/keep/old $({old})")
    sh(repository, "git update-ref refs/makeroom/keep/recent $(git commit-tree -m recent 'HEAD^{tree}')")
    run(Checkpoints(repository, "s1", seq), git)
    names = sh(repository, "git for-each-ref --format='%(refname)' refs/makeroom").split()
    assert names == ["refs/makeroom/keep/recent", "refs/makeroom/keep/s1"]


def test_a_repository_where_git_fails_is_named(repository: Path, checkpoints: Checkpoints, git: Git) -> None:
    (repository / ".git/refs/heads/topic").write_text("no id\n")
    (repository / ".git/HEAD").write_text("nonsense\n")
    run(checkpoints, git)
    assert checkpoints.uncovered() == ["branches and stash of the repository: git cannot read the repository"]
    assert checkpoints.recording.keeper.hanging == set(), "it failed at once"


def test_a_repository_whose_tags_do_not_fit_into_the_store_is_named(
    repository: Path, seq: Seq, git: Git
) -> None:
    checkpoints = Checkpoints(repository, "s1", seq, SnapshotLimits(max_store_bytes=0))
    run(checkpoints, git)
    assert "branches and stash of the repository: the checkpoint store is full" in checkpoints.uncovered()


def test_repositories_beyond_the_limit_are_named(root: Path, checkpoints: Checkpoints, git: Git) -> None:
    for number in range(12):
        sh(root, f"mkdir -p a/r{number:02}; git init -q a/r{number:02}")
    run(checkpoints, git)
    assert checkpoints.uncovered() == [
        "branches and stash of a/r10, a/r11: only the 10 git repositories nearest the root are covered"
    ]
    sh(root, "rm -r a/r00 a/r01")
    run(checkpoints, git)
    assert checkpoints.uncovered() == []


@pytest.mark.parametrize("written", ["gitdir: loop", "gitdir: a\0b", "gitdir: /proc/self/fd/0", ""])
def test_a_git_file_that_leads_nowhere_is_no_repository(
    root: Path, checkpoints: Checkpoints, git: Git, written: str
) -> None:
    (root / "loop").symlink_to("loop")
    (root / ".git").write_text(written)
    run(checkpoints, git)
    assert git.runs == 0 and checkpoints.uncovered() == []


@pytest.mark.parametrize("state", ["bare of everything", "without commits"])
def test_a_repository_with_little_in_it_is_no_failure(
    root: Path, checkpoints: Checkpoints, git: Git, state: str
) -> None:
    sh(root, "git init -q -b main")
    if state == "without commits":
        sh(root, "echo a >a; git add a")
    run(checkpoints, git, "status")
    assert checkpoints.uncovered() == []


def test_an_id_or_a_name_that_git_would_not_write_is_left_out() -> None:
    good = "8" * 40
    output = f"ref {good} commit refs/heads/a\nref ../x commit refs/heads/b\nstash {good[1:]} m\nindex x\n"
    state = parse_state(output)
    assert state.refs == {"refs/heads/a": good} and state.stash == {} and state.index == ""


@pytest.mark.parametrize(
    "line",
    [
        '[5, "", "refs/heads/a", "-x", "", ""]',
        '[5, "../b", "refs/heads/a", "", "", ""]',
        '[5, "/b", "refs/heads/a", "", "", ""]',
        '[5, "", "refs/../../x", "", "", ""]',
        '[5, "", "--upload-pack", "", "", ""]',
        '[5, "", "refs/heads/a", ""]',
        "5",
    ],
)
def test_lines_that_makeroom_did_not_write_are_passed_over(root: Path, seq: Seq, line: str) -> None:
    folder = root / ".transcripts" / "checkpoints"
    folder.mkdir(parents=True, mode=0o700)
    good = '{"ref": [1, "", "refs/heads/a", "", "", ""]}'
    (folder / "s1.jsonl").write_text(f'{{"ref": {line}}}\n{good}\n')
    assert Checkpoints(root, "s1", seq).log.refs == [
        RefChange(1, repository="", name="refs/heads/a", before="", after="")
    ]


def _replaced_by_a_link(git: Path, secret: Path) -> None:
    (git / "refs").rename(git / "away")
    (git / "refs").symlink_to(secret)


def _replaced_by_a_pipe(git: Path, secret: Path) -> None:
    (git / "index").unlink()
    os.mkfifo(git / "index")


@pytest.mark.parametrize("plant", [_replaced_by_a_link, _replaced_by_a_pipe])
def test_what_a_command_plants_in_a_repository_is_not_followed(
    repository: Path, tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    secret = tmp_path / "secret"
    (secret / "key").mkdir(parents=True)
    plain = fingerprint(repository)
    plant(repository / ".git", secret)
    planted = fingerprint(repository)
    assert plain is not None and planted is not None and plain != planted
    assert not any(name.startswith("refs") for name, *_ in planted.stamps) or plant is _replaced_by_a_pipe
    assert "key" not in str(planted)


def test_commands_wait_only_briefly_for_a_git_that_hung_before(
    repository: Path, seq: Seq, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_keeper, "HANGING_S", 0.0)
    monkeypatch.setattr(git_keeper, "RETRY_S", 0.01)
    told: list[str] = []
    checkpoints = Checkpoints(repository, "s1", seq)
    keeper = checkpoints.recording.keeper
    tools = ToolContext(repository, cwd=repository, outputs=repository, journals=repository)

    async def gives_up(*_: object) -> str:
        raise GitFailed("it took longer than 20 s")

    async def hangs(*_: object) -> str:
        await asyncio.Event().wait()
        return ""

    async def look(runner: GitRunner) -> None:
        monkeypatch.setattr(changed_files, "run_git_script", lambda tools, *call: runner(*call))
        await keep_refs(checkpoints, lambda event: told.append(str(event)), tools)

    asyncio.run(look(gives_up))
    assert len(told) == 1 and "git did not answer in time in the repository" in told[0]
    for _ in range(2):
        asyncio.run(look(hangs))
        assert keeper.gaps() == ["branches and stash of the repository: git takes too long there"]
    monkeypatch.setattr(git_keeper, "RETRY_S", 20.0)
    asyncio.run(look(git))
    assert keeper.gaps() == [] and keeper.hanging == set() and len(told) == 1

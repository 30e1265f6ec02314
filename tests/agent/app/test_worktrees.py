"""Sessions in git worktrees: opened before the session, and kept, merged or removed after it."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from agent.app.worktrees import Worktree, Worktrees, git_outside_session
from agent.checkpoints import GitRunner
from agent.errors import UsageError
from tests.agent.ui.headless_run import run_here
from tests.agent.ui.pty_terminal import PtyTerminal, forked_makeroom, makeroom
from tools.guarded import is_protected
from transcripts.session_lock import RECORDS_FOLDER, acquire_lock, release_lock


def git(at: Path, *words: str) -> str:
    line = ["git", "-c", "user.name=x", "-c", "user.email=x@y", *words]
    return subprocess.run(line, cwd=at, check=True, capture_output=True, text=True).stdout


def commit_all(at: Path) -> None:
    git(at, "add", "-A")
    git(at, "commit", "-qm", "more")


def with_git(project: Path, work: Callable[[GitRunner], Awaitable[None]]) -> None:
    async def run() -> None:
        async with git_outside_session(project, {"PATH": os.environ["PATH"], "HOME": str(project)}) as runner:
            await work(runner)

    asyncio.run(run())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one commit, an ignored file that worktrees get, and one that they do not get."""
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "src" / "a.py").write_text("def f():\n    return 1\n")
    (top / ".gitignore").write_text(".env\n.cache\n/home\n")
    (top / ".worktreeinclude").write_text(".env\n")
    git(top, "init", "-qb", "main")
    git(top, "config", "user.name", "x")
    git(top, "config", "user.email", "x@y")
    commit_all(top)
    (top / ".env").write_text("PORT=1\n")
    (top / ".cache").write_text("big")
    return top


@pytest.fixture
def run(project: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def run(*argv: str, folder: Path = project) -> subprocess.CompletedProcess[str]:
        return run_here(folder, capfd, None, "--offline", "--permission-mode", "acceptEdits", *argv)

    return run


async def opened(runner: GitRunner, project: Path, name: str = "") -> Worktree:
    worktree, warnings = await Worktrees(project).open(runner, name)
    assert warnings == []
    return worktree


def test_a_new_worktree_names_the_changes_that_are_not_in_it(
    project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    told = "begins at the last commit: uncommitted changes in "
    assert told not in run("--worktree", "clean", "-p", "help").stderr
    (project / "src" / "a.py").write_text("def f():\n    return 7\n")
    (project / "new").write_text("x")
    assert f"warning: the new worktree {told}2 files" in run("--worktree", "parser", "-p", "help").stderr
    assert told not in run("--worktree", "parser", "-p", "help").stderr  # it is not new now


def test_a_directory_that_is_not_committed_leaves_no_worktree_behind(
    project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (project / "new").mkdir()
    done = run("-p", "--worktree", "", "hello", folder=project / "new")
    assert done.returncode == 2
    assert f"the last commit has no directory new; commit it first, or start in {project}" in done.stderr
    assert Worktrees(project).listed() == []
    assert git(project, "branch", "--format=%(refname:short)").split() == ["main"]


def test_a_session_works_and_commits_in_its_worktree(
    project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    prompt = (
        "replace 'return 1' by 'return 2' in src/a.py then run `git commit -qam two && git log --oneline`"
    )
    done = run("--worktree", "parser", "-p", prompt)
    place = project / ".makeroom" / "worktrees" / "parser"
    assert done.returncode == 0 and "kept the worktree parser (1 commit not in main)" in done.stderr
    assert "return 2" in git(place, "show", "parser:src/a.py")
    assert "return 1" in (project / "src" / "a.py").read_text()
    assert (place / ".env").read_text() == "PORT=1\n" and not (place / ".cache").exists()
    assert (
        git(project, "status", "--short") == "" and len(list((place / RECORDS_FOLDER).glob("*.jsonl"))) == 1
    )
    again = run("--worktree", "parser", "-p", "--continue", "run `pwd`", folder=project / "src")
    assert f"{place}/src" not in again.stdout  # a session of the worktree's top
    assert again.returncode == 2 and "no session to continue" in again.stderr


def test_a_worktree_that_is_in_use_is_entered_with_a_warning(
    project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert "is open in" not in run("--worktree", "w", "-p", "what can you do?").stderr
    record = project / ".makeroom" / "worktrees" / "w" / RECORDS_FOLDER / "other.jsonl"
    lock = acquire_lock(record)
    told = run("--worktree", "w", "-p", "what can you do?").stderr
    release_lock(record, lock)
    assert "another session is open in the worktree w; both change the same files" in told


def test_names_are_found_and_checked(
    project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    for number in (1, 2):
        assert f"worktree work-{number} (no changes)" in run("-p", "run `pwd`", "--worktree").stderr
    inner = project / ".makeroom" / "worktrees" / "work-1" / "src"
    done = run("-p", "run `pwd`", "--worktree", folder=inner)
    assert f"{project}/.makeroom/worktrees/work-3/src" in done.stdout
    for name, why in (("../x", "invalid worktree name"), ("main", "a branch named 'main' already exists")):
        done = run("-p", "hi", "--worktree", name)
        assert done.returncode == 2 and why in done.stderr
    done = run("-p", "hi", "--worktree", folder=project.parent)
    assert done.returncode == 2 and "requires a git repository" in done.stderr


def test_a_worktree_is_offered_merged_and_removed(project: Path) -> None:
    records = project / RECORDS_FOLDER
    records.mkdir(mode=0o700)
    (records / ".gitignore").write_text("*\n")
    lock = acquire_lock(records / "other.jsonl")
    words = "--offline --permission-mode acceptEdits"
    with PtyTerminal(
        project, (90, 40), forked_makeroom(words), HOME=str(project.parent / "home")
    ) as terminal:
        terminal.sees("is open in this project", "Work in a new git worktree").type("\x1b[B")
        terminal.sees("❯ 2").type("\r").sees("(work-1)", "accepts edits").type(
            "replace 'return 1' by 'return 2' in src/a.py\r"
        )
        terminal.sees("has been updated").type("\x04").sees("Worktree work-1: 1 changed file", "2 Show the")
        terminal.type("\x1b[B").sees("❯ 2 Show").type("\r").sees("Merge these changes into main?")
        terminal.type("\x1b[B").sees("❯ 2 Yes").type("\r").sees("removed the worktree")
        assert terminal.ends() == 0
    release_lock(records / "other.jsonl", lock)
    assert "return 2" in (project / "src" / "a.py").read_text()
    assert git(project, "branch", "--format=%(refname:short)").split() == ["main"]
    assert [path.name for path in (project / ".makeroom" / "worktrees").iterdir()] == []
    [record] = records.glob("*.jsonl")
    resume = f"--offline --resume {record.stem}"
    with PtyTerminal(
        project, (90, 40), forked_makeroom(resume), HOME=str(project.parent / "home")
    ) as terminal:
        terminal.sees(f"resumed session {record.stem}").type("\x04")
        assert terminal.ends() == 0


def test_the_question_after_a_session_of_lines_gets_the_first_answer(project: Path) -> None:
    argv = makeroom("--offline --plain --worktree spare")
    with PtyTerminal(project, argv=argv, HOME=str(project.parent / "home")) as terminal:
        terminal.sees(">").type("/exit\n").sees("Remove the worktree", "Number").type("2\n")
        terminal.sees("removed the worktree spare")
        assert terminal.ends() == 0


def test_a_worktree_is_offered_in_a_directory_of_a_project_in_use(project: Path) -> None:
    records = project / RECORDS_FOLDER
    records.mkdir(mode=0o700)
    (records / ".gitignore").write_text("*\n")
    lock = acquire_lock(records / "other.jsonl")
    home = str(project.parent / "home")
    with PtyTerminal(project / "src", (90, 40), forked_makeroom("--offline"), HOME=home) as terminal:
        terminal.sees("is open in this project", "Work in a new git worktree").type("\x1b[B")
        terminal.sees("❯ 2").type("\r").sees("src · work-1")
        terminal.type("\x04").sees("Worktree work-1: no changes").type("\x1b")
        assert terminal.ends() == 0
    release_lock(records / "other.jsonl", lock)


def test_a_worktree_that_cannot_be_merged_is_kept_and_the_way_back_shown(project: Path) -> None:
    words = "--offline --permission-mode acceptEdits --worktree w"
    home = str(project.parent / "home")
    with PtyTerminal(project, (110, 40), forked_makeroom(words), HOME=home) as terminal:
        terminal.sees("accepts edits").type("replace 'return 1' by 'return 2' in src/a.py\r")
        terminal.sees("has been updated")
        (project / "src" / "a.py").write_text("unsaved\n")
        terminal.type("\x04").sees("2 Show the").type("\x1b[B")
        terminal.sees("❯ 2 Show").type("\r").sees("Merge these changes into main?")
        terminal.type("\x1b[B").sees("❯ 2 Yes").type("\r").sees("cannot merge")
        terminal.sees("kept the worktree w (1 commit not in main)", "--worktree w")
        assert terminal.ends() == 0
    assert (project / "src" / "a.py").read_text() == "unsaved\n"


def test_a_name_belongs_to_the_process_that_began_with_it(project: Path) -> None:
    first = project / ".makeroom" / "worktrees" / "work-1"

    async def work(runner: GitRunner) -> None:
        async def after_another(folder: Path, script: str, arguments: Sequence[str]) -> str:
            first.mkdir(exist_ok=True)  # since its name was found unused
            return await runner(folder, script, arguments)

        assert (await opened(after_another, project)).name == "work-2"
        assert [*first.iterdir()] == []
        with pytest.raises(UsageError, match="work-1 already exists"):
            await opened(runner, project, "work-1")

    with_git(project, work)


def test_nothing_is_lost_when_a_worktree_cannot_be_merged_or_removed(project: Path) -> None:
    async def work(runner: GitRunner) -> None:
        tree = await opened(runner, project, "b")
        file = tree.path / "src" / "a.py"
        file.write_text("theirs\n")
        (tree.path / "new.txt").write_text("new\n")
        assert str(await tree.state(runner)) == "2 changed files"
        diff = await tree.diff(runner)
        assert "+theirs" in diff and "+new" in diff and "new.txt" in git(tree.path, "status", "--short")
        with pytest.raises(UsageError, match="it has 2 changed files"):
            await tree.remove(runner)
        (project / "src" / "a.py").write_text("unsaved\n")
        with pytest.raises(UsageError, match="would be overwritten by merge"):
            await tree.merge(runner)
        assert (project / "src" / "a.py").read_text() == "unsaved\n"
        commit_all(project)
        with pytest.raises(UsageError, match="it conflicts with main"):
            await tree.merge(runner)
        assert git(project, "status", "--short") == "" and file.read_text() == "theirs\n"
        _make_records(tree)
        lock = acquire_lock(tree.path / RECORDS_FOLDER / "s.jsonl")
        git(project, "reset", "-q", "--hard", "HEAD^")
        await tree.merge(runner)
        with pytest.raises(UsageError, match="a session is open in it"):
            await tree.remove(runner)
        release_lock(tree.path / RECORDS_FOLDER / "s.jsonl", lock)
        await tree.remove(runner)
        assert (project / "src" / "a.py").read_text() == "theirs\n" and not tree.path.exists()

    with_git(project, work)


def test_copies_that_git_does_not_ignore_are_no_work_of_the_session(project: Path) -> None:
    """git merges over no untracked file, and removes no worktree that has one."""
    (project / ".worktreeinclude").write_text("*.local\n")
    commit_all(project)
    (project / "conf").mkdir()
    for name in ("a *.local", "conf/b.local", "c.local"):
        (project / name).write_text(f"{name}\n")

    async def work(runner: GitRunner) -> None:
        tree = await opened(runner, project, "w")
        assert (tree.path / "conf" / "b.local").read_text() == "conf/b.local\n"
        state = await tree.state(runner)
        assert state.clean and await tree.diff(runner) == ""
        assert await tree.work_since(runner, await tree.head(runner)) == ""
        (tree.path / "c.local").write_text("changed\n")
        (tree.path / "conf" / "new.txt").write_text("new\n")
        assert str(await tree.state(runner)) == "2 changed files"
        diff = await tree.diff(runner)
        assert "+changed" in diff and "+new" in diff and "b.local" not in diff
        (project / "c.local").unlink()
        await tree.merge(runner)
        assert (project / "c.local").read_text() == "changed\n"
        assert git(project, "status", "--porcelain", "-uall") == '?? "a *.local"\n?? conf/b.local\n'
        await tree.remove(runner)
        assert not tree.path.exists() and (project / "conf" / "b.local").exists()
        unchanged = await opened(runner, project, "u")
        await unchanged.discard(runner, project)
        assert not unchanged.path.exists() and git(project, "branch").split() == ["*", "main"]

    with_git(project, work)


def _make_records(tree: Worktree) -> None:
    records = tree.path / RECORDS_FOLDER
    records.mkdir(mode=0o700)
    (records / ".gitignore").write_text("*\n")


def test_programs_of_the_repository_do_not_run(project: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    git(project, "config", "core.fsmonitor", f"touch {ran}; false")

    async def work(runner: GitRunner) -> None:
        await opened(runner, project)
        assert not ran.exists()
        git(project, "config", "filter.x.smudge", f"touch {ran}; cat")
        with pytest.raises(UsageError, match="define filters"):
            await opened(runner, project)
        assert not ran.exists()

    with_git(project, work)


def test_no_program_that_a_remote_names_fetches_missing_objects(project: Path, tmp_path: Path) -> None:
    """git before 2.39.4 does not know GIT_NO_LAZY_FETCH."""
    ran = tmp_path / "ran"
    old = tmp_path / "bin" / "git"
    old.parent.mkdir()
    old.write_text(f'#!/bin/sh\nunset GIT_NO_LAZY_FETCH\nexec {shutil.which("git")} "$@"\n')
    old.chmod(0o755)
    tree = git(project, "rev-parse", "HEAD^{tree}").strip()
    settings = {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": str(project),
        "remote.origin.uploadpack": f"touch {ran}; git-upload-pack",
    }
    for name, value in settings.items():
        git(project, "config", name, value)
    (project / ".git/objects" / tree[:2] / tree[2:]).unlink()

    async def work() -> None:
        environ = {"PATH": f"{old.parent}:{os.environ['PATH']}", "HOME": str(project)}
        async with git_outside_session(project, environ) as runner:
            with pytest.raises(UsageError):
                await opened(runner, project)

    asyncio.run(work())
    assert not ran.exists()
    subprocess.run([old, "ls-tree", "HEAD"], cwd=project, check=False, capture_output=True)
    assert ran.exists(), "the program works"


def test_no_program_checks_the_signatures_of_a_merge(project: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "gpg"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    git(project, "config", "merge.verifySignatures", "true")
    git(project, "config", "gpg.program", str(program))

    async def work(runner: GitRunner) -> None:
        worktree = await opened(runner, project)
        (worktree.path / "new").write_text("x")
        commit_all(worktree.path)
        head, _, rest = git(worktree.path, "cat-file", "commit", "HEAD").partition("\n\n")
        signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
        made = ["git", "hash-object", "-t", "commit", "-w", "--stdin"]
        text = f"{head}\n{signature}\n\n{rest}"
        signed = subprocess.run(made, cwd=project, input=text, check=True, capture_output=True, text=True)
        git(worktree.path, "reset", "-q", "--hard", signed.stdout.strip())
        assert not ran.exists()
        await worktree.merge(runner)
        assert not ran.exists() and (project / "new").exists()

    with_git(project, work)


@pytest.mark.parametrize("added", [False, True])
def test_programs_of_a_repository_in_a_worktree_do_not_run(
    project: Path, tmp_path: Path, added: bool
) -> None:
    """git would run another git in it, with the filters that its own configuration names."""
    ran = tmp_path / "ran"

    async def work(runner: GitRunner) -> None:
        worktree = await opened(runner, project)
        within = worktree.path / "within"
        git(worktree.path, "init", "-q", "within")
        (within / "f").write_text("one")
        commit_all(within)
        if added:
            git(worktree.path, "add", "within")
        git(within, "config", "filter.x.clean", f"touch {ran}; cat")
        (within / ".gitattributes").write_text("f filter=x\n")
        (within / "f").write_text("two")
        assert (await worktree.state(runner)).changed == 1
        for action in (worktree.diff, worktree.merge):
            with pytest.raises(UsageError, match="contains other repositories: within"):
                await action(runner)
        with pytest.raises(UsageError, match="it has 1 changed file"):
            await worktree.remove(runner)
        assert not ran.exists()
        git(worktree.path, "-C", "within", "status")
        assert ran.exists(), "the filter works"

    with_git(project, work)


def test_a_file_to_copy_that_is_exchanged_leads_nowhere(project: Path, tmp_path: Path) -> None:
    """A command of another session exchanges it after git has listed it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "key").write_text("secret")
    (project / ".worktreeinclude").write_text("key\npipe\n")
    (project / ".gitignore").write_text("key\npipe\n/home\n")
    commit_all(project)
    (project / "a").mkdir()
    (project / "a" / "key").write_text("own")
    (project / "pipe").write_text("")

    async def exchanging(folder: Path, script: str, arguments: Sequence[str]) -> str:
        async with git_outside_session(project, {"PATH": os.environ["PATH"], "HOME": str(project)}) as runner:
            output = await runner(folder, script, arguments)
        if "ls-files" in script:
            (project / "a").rename(project / "b")
            (project / "a").symlink_to(tmp_path / "outside")
            (project / "pipe").unlink()
            os.mkfifo(project / "pipe")
        return output

    async def run() -> None:
        worktree, warnings = await Worktrees(project).open(exchanging, "w")
        assert [each.partition(":")[0] for each in warnings] == [
            "a/key was not copied to the worktree",
            "pipe was not copied to the worktree",
        ]
        assert not (worktree.path / "a" / "key").exists()

    asyncio.run(run())


def test_worktrees_lead_nowhere_else(project: Path, tmp_path: Path) -> None:
    async def work(runner: GitRunner) -> None:
        (project / ".makeroom").symlink_to(tmp_path)
        with pytest.raises(UsageError, match="a symbolic link leads elsewhere"):
            await opened(runner, project)
        (project / ".makeroom").unlink()
        (project / "cfg").symlink_to(tmp_path)
        commit_all(project)
        (project / "cfg").unlink()
        (project / "cfg").mkdir()
        (project / "cfg" / ".env").write_text("x")
        _, warnings = await Worktrees(project).open(runner, "")
        assert warnings == ["cfg/.env was not copied to the worktree: a link leads out of it"]
        assert not (tmp_path / ".env").exists()

    with_git(project, work)


def test_two_worktrees_that_change_one_file_lose_no_line(project: Path) -> None:
    """Random edits and merges of two worktrees: each line is in the file, or in a worktree that conflicts."""
    chance = random.Random(7)
    file = Path("src", "a.py")
    (project / file).write_text("".join(f"line {at}\n" for at in range(40)))
    commit_all(project)

    async def work(runner: GitRunner) -> None:
        trees = [await opened(runner, project, name) for name in "ab"]
        written: list[str] = []
        merged = 0
        for step in range(24):
            tree = chance.choice(trees)
            lines = (tree.path / file).read_text().splitlines()
            written.append(f"{tree.name} {step}")
            lines.insert(chance.randrange(len(lines)), written[-1])
            (tree.path / file).write_text("\n".join(lines) + "\n")
            if chance.random() < 0.4:
                try:
                    await tree.merge(runner)
                    merged += 1
                except UsageError as error:
                    assert "conflicts" in str(error)
                    git(tree.path, "merge", "-q", "-X", "theirs", "--no-edit", "main")
            places = [project, *(tree.path for tree in trees)]
            kept = {line for place in places for line in (place / file).read_text().splitlines()}
            kept |= set(git(project, "log", "--all", "-p", "--format=").replace("\n+", "\n").splitlines())
            assert [line for line in written if line not in kept] == []
        assert merged > 3

    with_git(project, work)


def test_files_of_a_worktree_are_judged_like_those_of_the_project() -> None:
    tree = "/p/.makeroom/worktrees/a"
    for path in (tree, f"{tree}/src/a.py", f"{tree}/README.md"):
        assert not is_protected(path, "read") and not is_protected(path, "write")
    for path in (
        "/p/.makeroom/worktrees",
        "/p/.makeroom/worktrees/",
        "/p/.makeroom/a.toml",
        "/p/.Makeroom/b",
    ):
        assert is_protected(path, "read") and is_protected(path, "write")
    for name in (".env", ".makeroom/settings.toml", ".ssh/config"):
        assert is_protected(f"{tree}/{name}", "read")
    assert is_protected(f"{tree}/.git", "write") and is_protected("/h/.ssh/.makeroom/worktrees/a/b", "read")


def test_worktree_lists_the_worktrees_with_their_changes(
    project: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert "no worktrees; start makeroom with --worktree" in run("-p", "/worktree").stdout
    run("-p", "replace 'return 1' by 'return 2' in src/a.py", "--worktree", "parser")
    listed = run("-p", "/worktree").stdout.splitlines()[0].split()
    assert listed == ["parser", "1", "changed", "file"]
    assert "(this session)" in run("-p", "/worktree", "--worktree", "parser").stdout

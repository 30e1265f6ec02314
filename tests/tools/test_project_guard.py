"""Guarded files of a project that a sandboxed command could change are restored, and that is reported."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tools.sandbox.guards.project_guard import ProjectGuard

from .sandbox_session import git

Act = Callable[[Path], object]


def contents(folder: Path) -> dict[str, object]:
    """Everything in a directory, with modes."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = path.readlink()
        else:
            mode = path.stat().st_mode
            found[name] = (mode, path.read_bytes() if path.is_file() else None)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    for name in (".git/hooks", ".vscode", "src"):
        (folder / name).mkdir(parents=True)
    (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git/config").write_text("[core]\n")
    (folder / ".git/hooks/pre-commit").write_text("#!/bin/sh\ntrue\n")
    (folder / ".git/hooks/pre-commit").chmod(0o755)
    (folder / ".vscode/tasks.json").write_text("{}")
    (folder / ".envrc").symlink_to("src/envrc")
    (folder / ".env").write_text("KEY=1")
    return folder


def guard_of(project: Path) -> ProjectGuard:
    return ProjectGuard(project, project.parent)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def bash(line: str) -> Act:
    return lambda folder: subprocess.run(["bash", "-c", line], cwd=folder, check=True)


CHANGES: dict[str, tuple[Act, str]] = {
    "a hook that was there": (bash("echo evil > .git/hooks/pre-commit"), ".git/hooks/pre-commit: restored"),
    "a hook in a folder whose mode changed": (
        bash("chmod 777 .git/hooks; echo evil > .git/hooks/pre-push"), ".git/hooks/pre-push: removed"
    ),
    "a folder in a guarded one": (
        bash("mkdir -p .vscode/a/b; echo evil > .vscode/a/b/c"), "created .vscode/a: removed"
    ),
    "a hook that was not": (bash("echo evil > .git/hooks/post-merge"), ".git/hooks/post-merge: removed"),
    "the same size and time": (
        bash("touch -r .git/config t; echo '[evil]' > .git/config; touch -r t .git/config; rm t"),
        ".git/config: restored",
    ),
    "written and moved over": (bash("echo evil > x; mv x .git/config"), ".git/config: restored"),
    "a mode": (bash("chmod 777 .git/hooks/pre-commit"), ".git/hooks/pre-commit: restored"),
    "a removed file": (bash("rm .vscode/tasks.json"), "removed .vscode/tasks.json: restored"),
    "a removed folder": (bash("rm -r .vscode"), "removed .vscode: restored"),
    "a file for a folder": (bash("rm -r .vscode; echo x > .vscode"), ".vscode: restored"),
    "a folder for a file": (bash("rm .git/config; mkdir -p .git/config/x"), ".git/config: restored"),
    "a link for a file": (bash("ln -sf ../src/x .git/config"), ".git/config: restored"),
    "a link to somewhere else": (bash("ln -sf /etc/passwd .envrc"), ".envrc: restored"),
    "a link for a folder": (
        bash("mv .git/hooks src/h; ln -s ../src/h .git/hooks"), "moved .git/hooks, which leads to"
    ),
    "a pipe": (bash("rm .git/config; mkfifo .git/config"), ".git/config: restored"),
    "a secret": (bash("echo KEY=2 > .env"), ".env: restored"),
    "git moved away and a link in its place": (
        bash("mv .git .other; ln -s .other .git; echo evil > .git/hooks/pre-commit; rm .other/config"),
        "moved .git, which leads to protected files: moved back",
    ),
    "git moved far away and copied back": (
        bash("mv .git src/g; cp -r src/g .git; echo evil > .git/config"), "moved .git, which leads to"
    ),
    "git made anew": (
        bash("cp -r .git new; rm -rf .git; mv new .git; echo evil > .git/config"), ".git/config: restored"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_sandboxed_command_changed_is_put_back_and_reported(name: str, project: Path) -> None:
    change, told = CHANGES[name]

    async def main() -> None:
        guard, before = guard_of(project), contents(project)
        await guard.begin()
        change(project)
        await guard.end()
        after = {name: value for name, value in contents(project).items() if ".replaced-" not in name}
        for extra in ("src/h", "src/h/pre-commit"):
            after.pop(extra, None)
        assert after == before
        lines = guard.take_reports()
        assert any(told in line for line in lines)
        assert not any("check " in line for line in lines)
        assert guard.take_reports() == []

    run(main())


def test_what_was_put_aside_is_kept(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        (project / ".git/hooks/pre-commit").write_text("evil")
        await guard.end()
        (line,) = guard.take_reports()
        kept = Path(line.rpartition(" ")[2].rstrip("]"))
        assert kept.parent == guard.state / "put_aside"
        assert kept.read_text() == "evil"
        assert kept.stat().st_mode & 0o777 == 0o600

    run(main())


def test_new_places_are_reported_and_left(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        (project / ".github/workflows").mkdir(parents=True)
        (project / ".github/workflows/ci.yml").write_text("on: push")
        await guard.end()
        assert guard.take_reports() == [
            "[check .github: a sandboxed command or another process created it, and other programs act on it]"
        ]
        assert (project / ".github/workflows/ci.yml").exists()

    run(main())


def test_a_new_place_is_reported_once_and_can_be_filled(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        (project / ".github").mkdir()
        await guard.check()
        assert len(guard.take_reports()) == 1
        (project / ".github/ci.yml").write_text("on: push")
        await guard.end()
        assert guard.take_reports() == []
        assert (project / ".github/ci.yml").exists()
        await guard.begin()
        (project / ".github/ci.yml").write_text("on: pull_request")
        await guard.end()
        assert (project / ".github/ci.yml").read_text() == "on: push", "it is guarded from now on"

    run(main())


def test_where_the_sandbox_keeps_guarded_files_only_new_ones_are_reported(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        guard.restores = False
        await guard.begin()
        (project / ".env").write_text("KEY=2")  # by the user, meanwhile
        (project / ".git/config").unlink()
        (project / ".idea").mkdir()
        (project / ".idea/x.xml").write_text("")
        await guard.end()
        assert guard.take_reports() == [
            "[check .idea: a sandboxed command or another process created it, and other programs act on it]"
        ]
        assert (project / ".env").read_text() == "KEY=2"
        assert not (project / ".git/config").exists()

    run(main())


def test_work_that_touches_nothing_guarded_is_not_reported(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        bash("echo x > src/new; echo y > .git/HEAD; mkdir .git/objects; touch .vscode/tasks.json")(project)
        bash("cat .git/config > /dev/null; mkdir build; mv src lib")(project)
        await guard.end()
        assert guard.reports == []

    run(main())


def test_a_sandboxed_command_that_runs_on_is_looked_at_before_an_open_one_starts(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        (project / ".git/hooks/pre-commit").write_text("evil")
        await guard.begin()  # a second one starts: what the first did is not taken for granted
        await guard.check()
        assert (project / ".git/hooks/pre-commit").read_text() == "#!/bin/sh\ntrue\n"
        (project / ".git/config").write_text("evil")
        await guard.end()
        assert (project / ".git/config").read_text() == "[core]\n"
        await guard.end()
        (project / ".git/config").write_text("[user]\n")  # the user, with no sandboxed command about
        await guard.check()
        await guard.begin()
        await guard.end()
        assert (project / ".git/config").read_text() == "[user]\n"

    run(main())


def test_nothing_outside_is_written_through_a_link(project: Path) -> None:
    async def main() -> None:
        outside = project.parent / "outside"
        outside.mkdir()
        guard = guard_of(project)
        await guard.begin()
        bash(f"rm -r .git .vscode; ln -s {outside} .git; ln -s {outside} .vscode")(project)
        await guard.end()
        assert list(outside.iterdir()) == []
        assert (project / ".vscode/tasks.json").read_text() == "{}"
        assert any(
            "removed .git, which leads to protected files: it no longer exists" in line
            for line in guard.reports
        )
        assert not os.path.lexists(project / ".git")

    run(main())


def test_samples_of_hooks_are_passed_over_until_they_run(project: Path) -> None:
    """They are most of what there is in a git directory, and git does not run them."""

    async def main() -> None:
        (project / ".git/hooks/update.sample").write_text("#!/bin/sh\n")
        guard = guard_of(project)
        await guard.begin()
        bash("cd .git/hooks; echo evil >>update.sample; cp update.sample update")(project)
        await guard.end()
        (line,) = guard.take_reports()
        assert ".git/hooks/update: removed" in line

    run(main())


def test_a_file_too_large_to_be_kept_is_reported(project: Path) -> None:
    async def main() -> None:
        guard = guard_of(project)
        (project / ".git/hooks/large").write_bytes(b"x" * (2 << 20))
        await guard.begin()
        (project / ".git/hooks/large").write_bytes(b"y" * (2 << 20))
        await guard.end()
        (line,) = guard.reports
        assert (
            line == "[a sandboxed command or another process changed .git/hooks/large: too large to restore]"
        )

    run(main())


def test_of_a_worktree_that_git_adds_only_what_is_another_than_the_projects_is_reported(
    project: Path,
) -> None:
    git(project, "init", "-q")
    (project / "AGENTS.md").write_text("plain")
    git(project, "add", "AGENTS.md")
    git(project, "commit", "-qm", "one")
    git(project, "branch", "-q", "other")

    async def main() -> None:
        for restores in (False, True):
            guard, tree = guard_of(project), project / f"trees/{restores}"
            guard.restores = restores
            await guard.begin()
            git(project, "worktree", "add", "-q", str(tree))
            await guard.check()
            assert guard.take_reports() == []
            (tree / "AGENTS.md").write_text("evil")
            own = project / f".git/worktrees/{restores}"
            (own / "commondir").write_text(str(project.parent))
            await guard.end()
            told = [line.split(": ")[0] for line in guard.take_reports()]
            assert set(told) == {
                f"[check .git/worktrees/{restores}/commondir",
                f"[check trees/{restores}/.git",
                f"[check trees/{restores}/AGENTS.md",
            }
            (own / "commondir").write_text("../..\n")

    run(main())


def test_no_made_up_worktree_leads_to_a_repository_unseen(project: Path) -> None:
    git(project, "init", "-q")
    evil = project / ".git/modules/worktrees/evil"

    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        evil.mkdir(parents=True)
        (evil / "HEAD").write_text("ref: refs/heads/main\n")
        (evil / "commondir").write_text("../..\n")
        (project / ".git/modules/config").write_text("[core]\nfsmonitor = evil\n")
        (project / "src/.git").write_text(f"gitdir: {evil}\n")
        await guard.end()
        told = " ".join(guard.take_reports())
        assert "evil/commondir: " in told
        assert "check src/.git: " in told

    run(main())


def test_what_else_may_be_written_is_watched_as_well(project: Path) -> None:
    """If the second of two commands may write in more places, those count from then on."""
    other = project.parent / "other"
    subprocess.run(["git", "init", "-q", other], check=True)

    async def main() -> None:
        guard, before = guard_of(project), (other / ".git/config").read_text()
        await guard.begin()
        await guard.begin([other, project / "src", project.parent / "gone"])
        (other / ".git/config").write_text("evil")
        (other / ".git/hooks/post-commit").write_text("evil")
        (other / ".claude").mkdir()
        (project / "src/.git").write_text("gitdir: evil")
        await guard.end()
        assert (other / ".git/config").read_text() == before
        assert not (other / ".git/hooks/post-commit").exists()
        planted, changed, made, new = guard.take_reports()
        assert planted.startswith("[check src/.git: ")
        assert f"changed {other}/.git/config: restored" in changed
        assert f"created {other}/.git/hooks/post-commit: removed" in made
        assert new.startswith(f"[check {other}/.claude: ")
        guard.restores = False
        await guard.begin([other])
        (other / ".mcp.json").write_text("")
        (other / ".claude").rmdir()
        await guard.end()
        (line,) = guard.take_reports()
        assert line.startswith(f"[check {other}/.mcp.json: ")

    run(main())


def test_a_nested_repository_that_was_moved_is_moved_back_before_it_counts_as_deleted(project: Path) -> None:
    sub = project / "sub"
    subprocess.run(["git", "init", "-q", sub], check=True)
    git(sub, "commit", "-q", "--allow-empty", "-m", "x")
    before = contents(sub)

    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        sub.rename(project / "other")
        await guard.end()
        (told,) = guard.take_reports()
        assert "moved sub, which leads to protected files: moved back" in told
        assert contents(sub) == before and not (project / "other").exists()

    run(main())


def add_loose_objects(project: Path, count: int) -> list[str]:
    """Add files that are named as objects; return the names."""
    names = [f"{number:040x}" for number in range(count)]
    for name in names:
        path = project / ".git/objects" / name[-2:] / name[:38]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (project / ".git/refs/heads").mkdir(parents=True)
    return names


def test_the_first_command_may_delete_all_objects_of_a_fresh_repository(project: Path) -> None:
    """It has a file for each object, and all of them are backed up before."""
    names = add_loose_objects(project, 8_000)

    async def main() -> None:
        guard = guard_of(project)
        await guard.begin()
        shutil.rmtree(project / ".git/objects")
        await guard.end()
        assert "objects were restored" in "".join(guard.take_reports())
        assert sum(path.is_file() for path in project.glob(".git/objects/*/*")) == len(names)
        await guard.close()

    run(main())


def test_all_objects_of_a_repository_are_backed_up_while_a_command_runs(project: Path) -> None:
    """A command need not wait for those of a huge repository."""
    names = add_loose_objects(project, 1_000)

    def linked(guard: ProjectGuard) -> int:
        return sum(path.is_file() for path in (guard.state / "git_copies").glob("*/objects/*/*"))

    async def main() -> None:
        guard = guard_of(project)
        guard.max_linked = 200
        await guard.begin()
        before = linked(guard)
        while linked(guard) < len(names):
            await guard.check()  # as often as the session checks, between which more are linked
        assert before < len(names)
        shutil.rmtree(project / ".git/objects")
        await guard.end()
        assert "objects were restored" in "".join(guard.take_reports())
        assert sum(path.is_file() for path in project.glob(".git/objects/*/*")) == len(names)
        await guard.close()
        assert linked(guard) == 0

    run(main())


def test_directories_beyond_those_that_can_be_held_are_told_once(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.sandbox.guards.held_ways.MAX_HELD", 2)
    held = [project / name for name in ("one", "two", "three")]
    for folder in held:
        folder.mkdir()

    async def main() -> None:
        guard = guard_of(project)
        guard.restores = False
        for _ in range(2):
            await guard.begin(held=held)
            (project / "one").rename(project / "moved")
            await guard.end()
        assert (project / "one").is_dir()
        (line,) = (line for line in guard.take_reports() if "too many" in line)
        assert line.startswith("[1 more directory on the way to protected files cannot be moved back")
        await guard.close()

    run(main())

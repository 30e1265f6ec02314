"""Files that did not exist before, and that other programs act on, are put aside or reported."""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.guarded import guarded_in_project
from tools.sandbox.guards.hard_links import changed_links
from tools.sandbox.guards.planted_files import report_planted
from tools.sandbox.guards.project_guard import ProjectGuard

from .sandbox_session import SandboxedSession, git, sandboxed_session

CONTROL = ("commondir", "config.worktree", "info/attributes")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    (folder / "deep/er/down/below").mkdir(parents=True)
    git(folder, "init", "-q")
    return folder


def plant(path: Path, text: str = "evil") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("restores", [False, True])
@pytest.mark.parametrize("name", [*CONTROL, "hooks/post-checkout"])
def test_new_files_that_control_git_are_put_aside(project: Path, name: str, restores: bool) -> None:
    """In each kind of sandbox, also in a repository within the project; before a command runs outside."""
    git(project, "init", "-q", "part")
    guard = ProjectGuard(project, project.parent)
    guard.restores = restores
    for top in (project, project / "part"):
        for each in ("hooks", "info"):
            (top / ".git" / each).rename(top / f"{each}-before")

    async def main() -> list[str]:
        await guard.begin()
        for top in (project, project / "part"):
            plant(top / ".git" / name)
        await guard.check()
        for top in (project, project / "part"):
            assert not (top / ".git" / name).exists()
        await guard.check()
        await guard.end()
        return guard.take_reports()

    told = asyncio.run(main())
    shown = name.split("/")[0] if "hooks" in name else name
    assert [line.partition(", which controls git: renamed to ")[0] for line in told] == [
        f"[a sandboxed command or another process created {top}.git/{shown}" for top in ("", "part/")
    ]


@pytest.mark.parametrize("restores", [False, True])
def test_new_files_that_the_configuration_names_are_put_aside(project: Path, restores: bool) -> None:
    """A directory for hooks, and included files, also if another one includes them."""
    git(project, "config", "core.hooksPath", "lnk/hooks")
    git(project, "config", "include.path", "../team.cfg")
    git(project, "config", "includeIf.gitdir:**.path", "../own.cfg")
    (project / "team.cfg").write_text("[include]\n\tpath = more.cfg\n")
    (project / "lnk").symlink_to("deep")
    guard = ProjectGuard(project, project.parent)
    guard.restores = restores

    async def main() -> list[str]:
        await guard.begin()
        plant(project / "deep/hooks/pre-commit")
        for name in ("own.cfg", "more.cfg", "other.cfg"):
            plant(project / name)
        await guard.end()
        return guard.take_reports()

    told = "\n".join(asyncio.run(main()))
    names = ("deep/hooks", "more.cfg", "own.cfg")
    assert all(re.search(f"created {name}(, which controls git: renamed|: removed)", told) for name in names)
    assert not any((project / name).exists() for name in names) and (project / "other.cfg").exists()


@pytest.mark.parametrize("restores", [False, True])
def test_new_settings_of_a_mercurial_repository_are_put_aside(project: Path, restores: bool) -> None:
    """They name hooks and extensions, which the next `hg status` runs. A new clone has some, too."""
    plant(project / "old/.hg/requires")
    guard = ProjectGuard(project, project.parent)
    guard.restores = restores

    async def main() -> list[str]:
        await guard.begin()
        for name in ("old/.hg/hgrc", "new/.hg/requires", "new/.hg/hgrc"):
            plant(project / name)
        await guard.end()
        return guard.take_reports()

    told = "\n".join(asyncio.run(main()))
    assert "created old/.hg/hgrc, which controls hg: renamed to " in told
    assert not (project / "old/.hg/hgrc").exists()
    assert "[check new/.hg/hgrc: " in told and (project / "new/.hg/hgrc").exists()


SPELLINGS = {
    r"my\\hooks": "my\\hooks",
    "my\\\nhooks": "myhooks",
    'my"ho"oks ; one': "myhooks",
    '"my;hooks"#two': "my;hooks",
    r'"my\"hooks"': 'my"hooks',
}


@pytest.mark.parametrize("value", SPELLINGS)
def test_the_names_in_a_configuration_are_read_as_git_reads_them(project: Path, value: str) -> None:
    with (project / ".git/config").open("a") as file:
        file.write(f"[core] hooksPath = {value}\n")
    guard = ProjectGuard(project, project.parent)
    guard.restores = False

    async def main() -> None:
        await guard.begin()
        plant(project / SPELLINGS[value] / "pre-commit")
        await guard.end()

    asyncio.run(main())
    assert not (project / SPELLINGS[value]).exists()


def test_an_empty_name_in_a_configuration_is_no_path(project: Path) -> None:
    """As that of the directory of the configuration, it would make all of `.git` read-only."""
    with (project / ".git/config").open("a") as file:
        file.write('[core] hooksPath =\n[include] path = ""\n[x] path = # y\n')
    assert f"{project}/.git" not in guarded_in_project(str(project))[0]


def test_a_new_configuration_of_the_user_is_put_aside(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(project / "own"))
    guard = ProjectGuard(project, project.parent)
    guard.restores = False

    async def main() -> None:
        await guard.begin()
        plant(project / "own")
        await guard.end()

    asyncio.run(main())
    assert not (project / "own").exists()


@pytest.mark.parametrize("restores", [False, True])
def test_a_changed_configuration_puts_no_file_of_the_user_aside(project: Path, restores: bool) -> None:
    guard = ProjectGuard(project, project.parent)
    guard.restores = restores

    async def main() -> None:
        await guard.begin()
        git(project, "config", "core.hooksPath", "deep")
        git(project, "init", "-q", "new")
        git(project / "new", "config", "core.hooksPath", "../deep")
        await guard.end()

    asyncio.run(main())
    assert (project / "deep/er/down/below").is_dir()


def test_a_new_repository_is_reported_and_left(project: Path) -> None:
    guard = ProjectGuard(project, project.parent)
    guard.restores = False

    async def main() -> list[str]:
        await guard.begin()
        git(project, "init", "-q", "new")
        plant(project / "new/.git/info/attributes")
        await guard.end()
        return [*guard.take_reports(), *await guard.look_at_links()]

    told = asyncio.run(main())
    assert any("new/.git/config" in line for line in told)
    assert (project / "new/.git/info/attributes").exists()


SETTINGS = """[core]
\tbare = false
\tfsmonitor = true
[remote "origin"]
\turl = https://example.org/x # its place
[filter "lfs"]
\tclean = git-lfs clean -- %f
"""
PROGRAMS = {
    "[core]\n\tfsmonitor = touch ran; false\n": "[core]\n",
    '[core] fsmonitor = "touch ran"\n': "[core] \n",
    "[CORE]\n\tFSMonitor=touch \\\n  ran\n\tbare = false\n": "[CORE]\n\tbare = false\n",
    '[filter "x"]\n\tclean = touch ran\n': '[filter "x"]\n',
    "[filter.x]\n\tsmudge = touch ran\n": "[filter.x]\n",
    "[diff]\n\texternal = touch ran\n": "[diff]\n",
    '[diff "x"]\n\ttextconv = touch ran\n': '[diff "x"]\n',
    "[pager]\n\tlog = touch ran\n": "[pager]\n",
    "[include]\n\tpath = ../../evil\n": "[include]\n",
    '[includeIf "gitdir:/"]\n\tpath = ../../evil\n': '[includeIf "gitdir:/"]\n',
    "[core]\n\t%& = 1\n": None,
    "[core]\n# a comment \\\n\tfsmonitor = touch ran\n": None,
    "[core]\n\tbare = false ; \\\n\tfsmonitor = touch ran\n": None,
    '[filter "a]b"]\n\tclean = touch ran\n': None,
    "[filter\n": None,
    "\ufeff[core]\n\tfsmonitor = touch ran\n": None,
    "[core]\n\tfsmonitor = touch ran\n" + "#" * (1 << 20): None,
}


@pytest.mark.parametrize("settings", PROGRAMS)
@pytest.mark.parametrize("place", ["new/.git", "bare"])
def test_a_new_repository_makes_git_status_run_no_program(project: Path, settings: str, place: str) -> None:
    """Even if the index of the project names it, so that `git status` there reads its settings."""
    guard = ProjectGuard(project, project.parent)
    guard.restores = False

    async def main() -> list[str]:
        await guard.begin()
        git(project, "init", "-q", *(["--bare"] if place == "bare" else []), place.removesuffix("/.git"))
        (project / place / "config").write_text(SETTINGS + settings)
        await guard.end()
        return [*guard.take_reports(), *await guard.look_at_links()]

    told = asyncio.run(main())
    left = PROGRAMS[settings]
    (aside,) = (project / place).glob("config.put-aside-*")
    line = f"{place}/config makes git run programs: renamed to {place}/{aside.name}"
    assert line in told and aside.read_text() == SETTINGS + settings
    kept = project / place / "config"
    assert (kept.read_text() if kept.exists() else None) == (None if left is None else SETTINGS + left)


@pytest.mark.parametrize("is_new", [True, False])
def test_settings_of_a_new_repository_at_the_top_run_no_program(tmp_path: Path, is_new: bool) -> None:
    """The directory was none, or a part of the repository above it."""
    project = tmp_path.resolve()
    guard = ProjectGuard(project, project.parent)
    guard.restores = False

    async def main() -> list[str]:
        if not is_new:
            git(project, "init", "-q")
        await guard.begin()
        git(project, "init", "-q")
        with (project / ".git/config").open("a") as file:
            file.write("[core]\n\tfsmonitor = touch ran\n")
        await guard.end()
        return await guard.look_at_links()

    told = asyncio.run(main())
    assert any("renamed to" in line for line in told) is is_new
    assert ("fsmonitor" in (project / ".git/config").read_text()) is not is_new


def test_settings_behind_a_link_or_beside_a_worktree_run_no_program(project: Path) -> None:
    guard = ProjectGuard(project, project.parent)
    guard.restores = False
    running = "[core]\n\tfsmonitor = touch ran\n"

    async def main() -> list[str]:
        await guard.begin()
        git(project, "init", "-q", "new")
        (project / "settings").write_text(running)
        (project / "new/.git/config").unlink()
        (project / "new/.git/config").symlink_to(project / "settings")
        for path in ("tree/HEAD", "tree/commondir", "tree/config.worktree", "common/config"):
            (project / path).parent.mkdir(exist_ok=True)
            (project / path).write_text(running if "config" in path else "../common\n")
        for path in ("common/objects", "common/refs"):
            (project / path).mkdir()
        await guard.end()
        return [*guard.take_reports(), *await guard.look_at_links()]

    told = "\n".join(asyncio.run(main()))
    for name in ("new/.git/config", "tree/config.worktree", "common/config"):
        assert f"{name} makes git run programs: renamed to" in told
        place = project / name
        assert not place.is_symlink() and (not place.exists() or "fsmonitor" not in place.read_text())


@pytest.mark.parametrize("settings", ["", SETTINGS, "[alias]\n\tst = status\n", "; nothing\n[user]\nname\n"])
def test_usual_settings_of_a_new_repository_stay(project: Path, settings: str) -> None:
    guard = ProjectGuard(project, project.parent)
    guard.restores = False

    async def main() -> None:
        await guard.begin()
        git(project, "init", "-q", "new")
        with (project / "new/.git/config").open("a") as file:
            file.write(settings)
        await guard.end()
        await guard.look_at_links()

    asyncio.run(main())
    assert not list((project / "new/.git").glob("config.put-aside-*"))
    assert (project / "new/.git/config").read_text().endswith(settings)


REPORTED = {
    "deep/er/down/below/.git/hooks/post-checkout": "",
    "deep/er/down/below/.git/config": "",
    "deep/er/down/.git": "gitdir: /tmp/evil\n",
    "deep/er/down/below/.husky/pre-commit": "",
    "deep/er/down/below/.vscode/tasks.json": "",
    "deep/er/down/below/sitecustomize.py": "",
    "deep/er/down/below/.devcontainer.json": "",
    "deep/er/down/below/.hg/hgrc": "",
    ".git/rebase-merge/git-rebase-todo": "pick 1234 one\nexec evil\n",
    ".git/worktrees/x/rebase-merge/git-rebase-todo": "exec evil\n",
    ".git/modules/x/rebase-merge/git-rebase-todo": "x evil\n",
    "tools/clean.sh": "",
    "tools/alias.sh": "",
}


def test_files_that_other_programs_run_are_reported_in_one_line(project: Path) -> None:
    git(project, "config", "filter.x.clean", "tools/clean.sh %f")
    git(project, "config", "alias.st", "!tools/alias.sh --short")
    told = set[str]()
    since = time.time()
    assert report_planted(project, since + 1, told) == []
    for name, text in REPORTED.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        plant(project / name, text or "evil")
        (line,) = report_planted(project, since, told)
        assert line.startswith("other programs run files that changed while commands ran: ")
        assert name in line
        if name.endswith("/.git"):
            (project / name).unlink()
    assert report_planted(project, since, told) == []


@pytest.mark.parametrize("place", [".git", "deep/.git", ".git/modules/x", ".git/worktrees/x"])
def test_files_that_git_acts_on_without_running_them_are_reported(project: Path, place: str) -> None:
    """But not those of a repository that is new as well."""
    plant(project / place / "config", "[core]\n")
    plant(project / place / "info/exclude")
    assert "info/exclude" not in "".join(report_planted(project, time.time() - 1, set()))
    made = (project / place / "config").stat().st_ctime
    while time.time() < made + 0.1:
        plant(project / "clock")
    told = set[str]()
    for name in ("info/exclude", "info/sparse-checkout", "info/grafts", "objects/info/alternates"):
        plant(project / place / name)
        assert report_planted(project, made + 0.1, told) == [
            f"git acts on files that changed while commands ran: {place}/{name}"
        ]
    for name in ("refs/replace", "remotes", "branches"):
        plant(project / place / name / "origin")
        (line,) = report_planted(project, made + 0.1, told)
        assert line.endswith(f": {place}/{name}")
    assert report_planted(project, made + 0.1, told) == []


def test_programs_of_an_environment_are_reported_by_their_directory(project: Path) -> None:
    for name in (".venv/bin/python", ".venv/bin/pip", "node_modules/.bin/tsc", "src/ordinary.py"):
        plant(project / name)
    (line,) = report_planted(project, 0, set())
    assert ".venv/bin (2 files)" in line
    assert "node_modules/.bin" in line
    assert "ordinary" not in line


def test_links_pipes_and_many_files_neither_delay_nor_mislead(project: Path, tmp_path: Path) -> None:
    plant(tmp_path / "outside/.husky/x")
    (project / "link").symlink_to(tmp_path / "outside")
    (project / ".git/config").unlink()
    os.mkfifo(project / ".git/config")
    for at in range(3_000):
        (project / f"many-{at}").touch()
    since = time.process_time()
    told = report_planted(project, 0, set())
    assert time.process_time() - since < 2
    assert "link" not in "".join(told)


@pytest.fixture
def sandboxed(tmp_path: Path) -> Iterator[SandboxedSession]:
    session = sandboxed_session(tmp_path)
    yield session
    session.end()


def test_a_sandboxed_command_leaves_no_control_of_git_behind(sandboxed: SandboxedSession) -> None:
    git(sandboxed.folder, "init", "-q")
    sandboxed.require_sandbox()
    told = sandboxed.told(
        "cd .git; mkdir -p info; for n in commondir config.worktree info/attributes; do echo x >$n; done"
    )
    assert sum("renamed to " in line for line in told) == len(CONTROL)
    assert not any((sandboxed.folder / ".git" / name).exists() for name in CONTROL)


def test_directories_that_are_nested_deeper_than_any_project_are_passed_over(project: Path) -> None:
    """To open one takes a step for each directory above it: thousands would take minutes."""
    deep = project / "/".join("d" * 101)
    plant(deep / "shallow/.envrc")
    shallow = project / "/".join("d" * 99)
    plant(shallow / ".envrc")
    (line,) = report_planted(project, time.time() - 10, set())
    assert "/shallow/" not in line and line.count(".envrc") == 1
    (project / "one").write_text("x")
    (shallow / "two").hardlink_to(project / "one")
    assert changed_links(project, 0) == []
    (deep / "three").hardlink_to(project / "one")
    assert changed_links(project, 0) == ["one"], "one name of it was not found"

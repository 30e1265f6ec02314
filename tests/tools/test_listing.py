"""Files are listed as git lists them, and nothing that a project names is run for it."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import glob, grep
from tools.base import ToolCall
from tools.search.git_listing import list_with_git
from tools.search.git_script import GitFailed
from tools.search.listing import Listing, file_states, list_folder

from .bash_session import BashSession, text
from .test_project_files import ODD_PATTERNS, ODD_WORDS, in_git, plant

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}


@pytest.fixture
def session(shell: BashSession) -> BashSession:
    shell.context.environ = {**shell.context.environ, **QUIET}
    return shell


def git(folder: Path, *words: str) -> None:
    me = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run(
        ["git", *me, *words], cwd=folder, env={**os.environ, **QUIET}, check=True, capture_output=True
    )


def repository(folder: Path, *names: str) -> Path:
    git(folder.parent, "init", "-q", str(folder))
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("needle\n")
    return folder


def listing(session: BashSession, folder: Path | None = None) -> Listing:
    return session.runner.run(list_folder(session.context, str(folder or session.folder)))


def listed(session: BashSession, folder: Path | None = None) -> set[str]:
    folder = folder or session.folder
    return {*file_states(str(folder), listing(session, folder).names, links=True)}


def searched(
    session: BashSession, tool: object = grep.TOOL, pattern: str = "needle", **given: object
) -> set[str]:
    arguments = tool.parse({"pattern": pattern, **given})  # type: ignore[attr-defined]
    result = session.runner.run(tool.run(arguments, ToolCall(session.context)))  # type: ignore[attr-defined]
    return set(text(result).splitlines())


def is_ignored(folder: Path) -> bool:
    words = ("git", "check-ignore", "-q", "--no-index", str(folder))
    return subprocess.run(words, cwd=folder, env={**os.environ, **QUIET}, check=False).returncode == 0


def compare(session: BashSession, seeds: range) -> None:
    """Random trees, some files of which are tracked although they are ignored, some deleted since."""
    for seed in seeds:
        chance = random.Random(seed)
        root = session.folder / str(seed)
        plant(root, chance)
        git(session.folder, "init", "-q", str(root))
        if seed % 2:
            (root / ".git/info/exclude").write_text("x.log\n")
        files = sorted(path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts)
        git(root, "add", "-f", "--", *map(str, chance.sample(files, k=len(files) // 3)))
        for path in chance.sample(files, k=len(files) // 5):
            path.unlink()
        inner = [path for path in root.iterdir() if path.is_dir() and path.name != ".git"]
        for place in (root, *(path for path in inner if not is_ignored(path))):
            expected = {name for name in in_git(place) if (place / name).is_file()}
            assert listed(session, place) == expected, (seed, place)


def test_random_trees_are_listed_as_git_lists_them(session: BashSession) -> None:
    compare(session, range(5))


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_many_random_trees_are_listed_as_git_lists_them(session: BashSession) -> None:
    compare(session, range(12, 412))


def test_odd_patterns_mean_what_they_mean_to_git(session: BashSession) -> None:
    root = repository(session.folder / "root")
    for number, pattern in enumerate(ODD_PATTERNS):
        folder = root / str(number)
        folder.mkdir()
        (folder / ".gitignore").write_text(f"{pattern}\n", encoding="utf-8")
        for word in ODD_WORDS:
            (folder / word).touch()
    assert listed(session, root) == in_git(root)


def hostile_settings(root: Path, evil: Path) -> str:
    return (
        f"[core]\n\trepositoryformatversion = 1\n\tfsmonitor = {evil}\n\thooksPath = {evil.parent}\n"
        f"\tworktree = /\n\tsshCommand = {evil}\n\tgitProxy = {evil}\n\taskPass = {evil}\n"
        f"[alias]\n\tls-files = !{evil}\n\tcheck-ignore = !{evil}\n"
        f"[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = ext::{evil} %S\n\tpromisor = true\n\tuploadpack = {evil}\n'
        f"[protocol]\n\tallow = always\n[index]\n\tsparse = true\n[include]\n\tpath = {root}/more\n"
        f'[filter "x"]\n\tclean = {evil}\n\tprocess = {evil}\n[diff]\n\texternal = {evil}\n'
        f"[pager]\n\tls-files = {evil}\n[trace2]\n\teventTarget = {evil.parent}/pwned\n"
    )


def test_nothing_that_a_project_names_is_run(
    session: BashSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    evil = outside / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {outside}/pwned\n")
    evil.chmod(0o755)
    for name in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc", "reference-transaction"):
        shutil.copy(evil, outside / name)
    root = repository(session.folder / "root", "a.py", "sub/b.py", "gone/.gitignore")
    (root / ".gitattributes").write_text("* filter=x diff=x\n")
    git(root, "add", "a.py", "gone/.gitignore")
    git(root, "commit", "-qm", "x")
    (root / "a.py").write_text("needle, and changed\n")
    git(root, "update-index", "--skip-worktree", "gone/.gitignore")
    shutil.rmtree(root / "gone")
    (root / "gone").mkdir()
    (root / "gone/c.py").write_text("needle\n")
    for path in (root / ".git/hooks").iterdir():
        path.unlink()
    for name in ("post-index-change", "fsmonitor-watchman"):
        shutil.copy(evil, root / ".git/hooks" / name)
    (root / "more").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    (root / ".git/config").write_text(hostile_settings(root, evil))
    objects = [path for path in (root / ".git/objects").rglob("*") if path.is_file()]
    for path in objects:  # git would fetch what is missing from the remote
        path.unlink()
    session.context.environ = {**session.context.environ, "GIT_DIR": str(root / ".git"), "GIT_TRACE": "1"}
    names = {"a.py", "sub/b.py", "gone/c.py", ".gitattributes", "more"}
    for _ in range(2):
        found = session.runner.run(list_with_git(session.context, str(root), 10))
        assert {name for name in found.files if (root / name).exists()} == names
        assert listed(session, root / "sub") == {"b.py"}
        assert searched(session, path="root") == {"root/a.py", "root/sub/b.py", "root/gone/c.py"}
        assert searched(session, glob.TOOL, "root/**/*.py") == {
            "root/a.py",
            "root/sub/b.py",
            "root/gone/c.py",
        }
    assert not (outside / "pwned").exists()
    subprocess.run(["git", "ls-files", "-o"], cwd=root, capture_output=True, check=False)
    assert (outside / "pwned").exists()  # by the trap alone


def test_what_the_session_s_git_variables_say_is_not_heeded(session: BashSession) -> None:
    root = repository(session.folder / "root", "a.py")
    other = repository(session.folder / "other", "b.py")
    wrong = {
        "GIT_DIR": str(other / ".git"),
        "GIT_WORK_TREE": str(other),
        "GIT_INDEX_FILE": "x",
        "GIT_PREFIX": "x",
    }
    session.context.environ = {**session.context.environ, **wrong}
    assert listed(session, root) == {"a.py"}


def test_repositories_in_a_directory_are_listed_too(session: BashSession) -> None:
    source = repository(session.folder / "source", "lib.py")
    git(source, "add", ".")
    git(source, "commit", "-qm", "x")
    root = repository(session.folder / "root", "a.py", ".gitignore")
    (root / ".gitignore").write_text("*.log\nignored/\n")
    git(root, "submodule", "add", "-q", str(source), "module")
    repository(root / "nested", "n.py", "inner/x.log")
    repository(root / "nested/deep", "d.py")
    repository(root / "ignored", "i.py")
    names = {"a.py", "module/lib.py", "nested/n.py", "nested/deep/d.py"}
    more = {".gitignore", ".gitmodules", "nested/inner/x.log"}
    assert listed(session, root) == names | more
    assert searched(session, glob.TOOL, "root/**/*.py") == {f"root/{name}" for name in names}
    assert {f"root/{name}" for name in names} <= searched(session, path="root")
    assert listed(session, root / "ignored") == {"i.py"}
    git(source, "worktree", "add", "-q", str(session.folder / "tree"))
    (source / ".git/info/exclude").write_text("*.tmp\n")
    (session.folder / "tree/x.tmp").touch()
    assert listed(session, session.folder / "tree") == {"lib.py"}


def test_links_that_stand_for_tracked_files_lead_nowhere(
    session: BashSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    for name in ("a.py", "inner.py"):
        (outside / name).write_text("needle\n")
    root = repository(
        session.folder / "root", "a.py", "sub/inner.py", "pipe.py", "gone.py", "x.py", "sub2/y.py"
    )
    git(root, "add", ".")
    (root / "a.py").unlink()
    (root / "a.py").symlink_to(outside / "a.py")
    shutil.rmtree(root / "sub")
    (root / "sub").symlink_to(outside)
    (root / "pipe.py").unlink()
    os.mkfifo(root / "pipe.py")
    (root / "gone.py").unlink()
    shutil.rmtree(root / "sub2")
    (root / "sub2").write_text("needle\n")
    assert searched(session, path="root") == {"root/x.py", "root/sub2"}
    assert searched(session, path="root", glob="*.py") == {"root/x.py"}
    assert searched(session, glob.TOOL, "root/**/*.py") == {"root/x.py"}


def test_names_of_all_kinds_are_listed(session: BashSession) -> None:
    root = repository(session.folder / "root")
    names = {"caf\udce9", "new\nline", "tab\tbed", '"quoted"', "160000 x\ty", "d\udcff/x", "-x", " "}
    for number, name in enumerate(sorted(names)):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).touch()
        if number % 2:
            git(root, "add", "--", name)
    assert listed(session, root) == names == in_git(root)
    assert listed(session, root / "d\udcff") == {"x"}


def test_files_for_other_programs_and_directories_without_work_do_not_count(session: BashSession) -> None:
    root = repository(
        session.folder / "root", "a.py", "b.py", "node_modules/c.py", "sub/.venv/d.py", "build/e.py"
    )
    git(root, "add", "node_modules/c.py")
    (root / ".ignore").write_text("*.py\n")  # of `rg` only version 15 accepts the same options
    (root / ".gitignore").write_text("build/\nb.py\n")
    git(root, "add", "-f", "b.py")
    assert {name for name in listed(session, root) if name.endswith(".py")} == {"a.py", "b.py"}
    assert searched(session, path="root") == {"root/a.py", "root/b.py"}
    assert searched(session, path="root/node_modules") == {"root/node_modules/c.py"}
    assert searched(session, path="root/build") == {"root/build/e.py"}
    assert searched(session, glob.TOOL, "root/build/*.py") == {"root/build/e.py"}
    shutil.rmtree(root / ".git")  # patterns count outside of a repository too
    assert {name for name in listed(session, root) if name.endswith(".py")} == {"a.py"}
    assert searched(session, path="root") == {"root/a.py"}


def test_a_directory_that_git_cannot_list_is_walked(session: BashSession) -> None:
    root = repository(session.folder / "root", "a.py", "b.log")
    (root / ".gitignore").write_text("*.log\n")
    (root / ".git/index").write_bytes(b"no index")
    with pytest.raises(GitFailed):
        session.runner.run(list_with_git(session.context, str(root), 10))
    assert listed(session, root) == {"a.py", ".gitignore"}


def test_the_user_s_own_patterns_count_in_repositories(session: BashSession) -> None:
    home = session.folder / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.swp\n")
    session.context.environ = {
        name: value for name, value in session.context.environ.items() if name not in QUIET
    } | {"HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}
    root = repository(session.folder / "root", "a.swp", "a.py")
    assert listed(session, root) == {"a.py"}
    assert searched(session, path="root") == {"root/a.py"}
    shutil.rmtree(root / ".git")
    assert listed(session, root) == {"a.swp", "a.py"}
    assert searched(session, path="root") == {"root/a.py", "root/a.swp"}

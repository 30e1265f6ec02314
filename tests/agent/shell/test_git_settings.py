"""A repository whose settings name programs: lines that may run them need approval, and git is the judge."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.shell.git_settings import GitSettings
from agent.shell.program_names import alias_meanings
from tests.sampling import sampled
from tests.tables import each_row
from tools.processes.env_filter import filter_environment

from .reading_project import ReadingProject

LOOKS = [
    "git status", "git diff", "git diff --stat", "git diff HEAD", "git show", "git log -p", "git log",
    "git log -1",
    "git blame a.py", "git stash list", "git grep x", "git ls-files -m", "git branch", "git rev-parse HEAD",
    "git log --stat", "git diff --cached", "git show HEAD:a.py", "git describe --always", "git log --oneline",
    "git log --cc", "git stash list -c", "git reflog --cc",
    "git reflog", "git shortlog HEAD", "git tag -l", "git cat-file -p HEAD:a.py", "git log -S x",
]  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> ReadingProject:
    made = ReadingProject(tmp_path)
    made.commit()
    sign(made)
    (made.root / "evil").write_text(f"#!/bin/sh\necho ran >>{tmp_path}/ran\ncat\n")
    (made.root / "evil").chmod(0o755)
    (made.root / "a.py").write_text("changed\n")
    return made


def sign(project: ReadingProject) -> None:
    """Let the newest commit have a signature, which no one made."""
    head, blank, message = project.git("cat-file", "commit", "HEAD").partition("\n\n")
    lines = ("gpgsig -----BEGIN PGP SIGNATURE-----", " ", " x", " -----END PGP SIGNATURE-----")
    (project.place / "commit").write_text("\n".join((head, *lines)) + blank + message)
    signed = project.git("hash-object", "-t", "commit", "-w", str(project.place / "commit"))
    project.git("update-ref", "HEAD", signed.strip())


def fired(project: ReadingProject, line: str, folder: str = "") -> bool:
    """Return whether git ran the program when the line was run as a command."""
    ran = project.place / "ran"
    ran.unlink(missing_ok=True)
    (project.root / "a.py").touch()
    subprocess.run(
        ["/bin/bash", "--norc", "-c", line],
        cwd=project.root / folder,
        env=filter_environment(project.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )
    return ran.exists()


def settings(project: ReadingProject, text: str, attributes: str = "* diff=x filter=x\n") -> None:
    with (project.root / ".git/config").open("a") as file:
        file.write(text)
    (project.root / ".gitattributes").write_text(attributes)


HOSTILE = {
    "textconv": '[diff "x"]\n\ttextconv = ./evil\n',
    "on one line": '[diff "x"]TextConv=./evil\n',
    "command": '[diff "x"]\n\tcommand = ./evil\n',
    "clean": '[filter "x"]\n\tclean = ./evil\n',
    "process": '[filter "x"]\n\tprocess = ./evil\n\trequired = true\n',
    "external": "[diff]\n\texternal = ./evil\n",
    "signature": "[log]\n\tshowSignature\n[gpg]\n\tprogram = ./evil\n",
    "pretty": "[format]\n\tpretty = %G?\n[gpg]\n\tprogram = ./evil\n",
    "in quotes": '[format]\n\tpretty = "%""G?"\n[gpg]\n\tprogram = ./evil\n',
    "on two lines": "[format]\n\tpretty = %\\\nG?\n[gpg]\n\tprogram = ./evil\n",
    "fsmonitor": "[core]\n\tfsmonitor = ./evil\n",
    "behind a comment": "[core]\n\tfsmonitor = ./evil # true\n",
}


@pytest.mark.parametrize("name", sampled(HOSTILE, 2))
def test_where_a_setting_names_a_program_no_look_runs_it_unasked(project: ReadingProject, name: str) -> None:
    settings(project, HOSTILE[name])
    unasked = [line for line in LOOKS if project.runs(line)]
    assert [line for line in unasked if fired(project, line)] == []
    asked = [line for line in LOOKS if line not in unasked]
    assert asked and ("fsmonitor" in HOSTILE[name] or any(fired(project, line) for line in asked))


@pytest.mark.parametrize("name", sampled(reversed(HOSTILE), 2))
def test_a_rule_for_a_look_does_not_mean_the_program_that_the_repository_names(
    project: ReadingProject, name: str
) -> None:
    looks = ("status", "diff", "log", "show", "blame", "stash")
    rules = [f"git {look}" for look in looks]
    assert not project.runs("git log --remerge-diff -p", *rules) and project.runs("git diff", *rules)
    settings(project, HOSTILE[name])
    lines = [*LOOKS, "git log --remerge-diff -p", "git show --remerge-diff", "git diff --dirstat-by-file"]
    unasked = [line for line in lines if project.runs(line, *rules)]
    assert [line for line in unasked if fired(project, line)] == []
    assert project.runs("git diff", "=git diff") and project.runs("git commit -m x", "git commit")


def test_a_look_that_merges_again_runs_no_driver_unasked(project: ReadingProject) -> None:
    project.git("checkout", "-q", "-b", "side", "HEAD~0")
    for branch in ("side", "main"):
        project.git("checkout", "-q", "-B", branch, "side" if branch == "side" else "side~1")
        (project.root / "a.py").write_text(f"{branch}\n")
        project.git("commit", "-qam", branch)
    (project.root / "evil").unlink()
    project.git("merge", "-q", "-s", "ours", "side")
    (project.root / "evil").write_text(f"#!/bin/sh\necho ran >>{project.place}/ran\n")
    (project.root / "evil").chmod(0o755)
    settings(project, '[merge "x"]\n\tdriver = ./evil\n', "* merge=x\n")
    looks = ("git show --diff-merges=remerge HEAD", "git log -p --diff-merges=r")
    assert all(fired(project, line) for line in looks)
    assert not any(project.runs(line) for line in looks)
    settings(project, "[log]\n\tdiffMerges = remerge\n", "* merge=x\n")
    assert fired(project, "git log -m -p") and not project.runs("git log -m -p")


def test_a_setting_that_sorts_by_signatures_is_a_trap(project: ReadingProject) -> None:
    settings(project, "[tag]\n\tsort = -signature:key\n")
    assert not project.runs("git tag -l")  # such names are known since git 2.42


def test_a_rule_covers_what_the_user_set_up(project: ReadingProject) -> None:
    (project.place / "home/.gitconfig").write_text(HOSTILE["textconv"])
    assert not project.runs("git diff") and project.runs("git diff", "git diff")


@pytest.mark.parametrize(
    ("hooks", "setting"), [(".git/hooks", ""), (".husky", "[core]\n\thooksPath = .husky\n")]
)
def test_the_hook_that_a_look_can_run_keeps_it_from_running_unasked(
    project: ReadingProject, hooks: str, setting: str
) -> None:
    settings(project, setting)
    hook = project.root / hooks / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    looks, rules = (
        ("git diff", "git diff HEAD", "git describe --always --dirty"),
        ("git diff", "git describe"),
    )
    assert all(project.runs(line, *rules) for line in looks)
    hook.write_text(f"#!/bin/sh\ntouch {project.place}/fired\n")
    hook.chmod(0o755)
    os.utime(project.root / "README.md", (1, 1))
    fired = project.place / "fired"
    for line in looks:
        assert not project.runs(line) and not project.runs(line, *rules), line
    free = ("git status", "git log", "git branch", "git describe --always", "git ls-files", "git grep x")
    for line in free:
        assert project.runs(line), line
        subprocess.run(line.split(), cwd=project.root, env=filter_environment(project.environ), check=False)
        assert not fired.exists(), line
    subprocess.run(["git", "diff"], cwd=project.root, env=filter_environment(project.environ), check=True)
    assert fired.exists(), "the hook is what the question is about"


def test_what_cannot_fire_a_driver_stays_free(project: ReadingProject) -> None:
    settings(project, HOSTILE["textconv"] + HOSTILE["clean"])
    for line in ("git log --oneline", "git branch", "git rev-parse HEAD", "git stash list", "git remote -v"):
        assert project.runs(line), line
    assert not project.runs("git diff") and not project.runs("git log -p") and not project.runs("git status")


def test_hooks_pagers_aliases_and_large_file_filters_need_no_question(project: ReadingProject) -> None:
    text = "[core]\n\thooksPath = .husky\n\tpager = ./evil\n\tfsmonitor = true\n[alias]\n\tlog = !./evil\n"
    large = "".join(f"\t{name} = git-lfs {name} -- %f\n" for name in ("clean", "smudge"))
    settings(
        project, f'{text}[filter "lfs"]\n{large}\tprocess = git-lfs filter-process\n', "*.bin filter=lfs\n"
    )
    hooks = project.root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for place in (hooks, project.root / ".husky"):
        place.mkdir(exist_ok=True)
        for name in ("post-merge", "post-checkout", "pre-commit", "fsmonitor-watchman"):
            (place / name).symlink_to(project.root / "evil")
    for line in LOOKS:
        assert project.runs(line), line
        assert not fired(project, line), line


def test_settings_are_found_where_git_finds_them(project: ReadingProject) -> None:
    (project.root / "more").write_text(HOSTILE["textconv"])
    home = project.place / "home"
    place_of: dict[Path, str] = {
        project.root / ".git/config": '[include]\n\tpath = "../more"\n',
        home / ".gitconfig": f'[includeIf "gitdir:{project.root}/"]\n\tpath={project.root}/more\n',
        home / ".config/git/config": HOSTILE["textconv"],
        home / "system": HOSTILE["textconv"],
        project.root / ".git/config.worktree": HOSTILE["textconv"],
    }
    settings(project, "")
    project.environ |= {"GIT_CONFIG_NOSYSTEM": "0", "GIT_CONFIG_SYSTEM": str(home / "system")}
    for path, text in place_of.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text() if path.exists() else None
        path.write_text((before or "") + text)
        assert not project.runs("git diff"), path
        path.unlink() if before is None else path.write_text(before)
        assert project.runs("git diff"), path
    project.environ |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "diff.x.textconv",
        "GIT_CONFIG_VALUE_0": "./evil",
    }
    assert not project.runs("git diff")


def test_an_alias_may_stand_in_the_environment(tmp_path: Path) -> None:
    environ = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "alias.Z", "GIT_CONFIG_VALUE_0": "push"}
    settings = GitSettings(
        {"HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1", **environ}, str(tmp_path), "names"
    )
    assert alias_meanings(settings.values(str(tmp_path))) == {"z": ["push"]}


@each_row(
    ("setting", "aliases"),
    [
        ("alias.Up", {"up": ["pull"]}),
        ("alias.Up.command", {"up": ["pull"]}),
        ("alias.with.dot.command", {"with.dot": ["pull"]}),
        ("aliases.up", {}),
        ("core.alias.up", {}),
    ],
)
def test_an_alias_is_named_by_its_key_or_its_subsection(setting: str, aliases: dict[str, list[str]]) -> None:
    assert alias_meanings({setting: ["pull"]}) == aliases


def test_a_repository_within_is_judged_by_its_own_settings(project: ReadingProject) -> None:
    project.git("init", "-q", "inner")
    (project.root / "inner/a.py").write_text("x\n")
    project.git("add", ".", folder="inner")
    project.git("commit", "-qm", "x", folder="inner")
    project.git("add", "inner")
    assert project.runs("git status") and project.runs("git diff")
    with (project.root / "inner/.git/config").open("a") as file:
        file.write('[filter "x"]\n\tclean = "./../evil"\n')
    (project.root / "inner/.gitattributes").write_text("* filter=x\n")
    (project.root / "inner/a.py").write_text("y\n")
    assert not project.runs("git status") and not project.runs("git diff")
    assert not project.runs("cd inner && git diff") and not project.runs("git diff", folder="inner")
    project.git("config", "index.version", "4")
    project.git("update-index", "--index-version", "4")
    assert not project.runs("git status")


def test_a_bare_repository_or_one_elsewhere_needs_approval(project: ReadingProject) -> None:
    project.git("init", "-q", "--bare", "bare")
    assert not project.runs("git log", folder="bare") and not project.runs("cd bare && git status")
    (project.root / "sub").mkdir()
    (project.root / "sub/.git").write_text("gitdir: ../bare\n")
    assert project.runs("git log --oneline", folder="sub")
    with (project.root / "bare/config").open("a") as file:
        file.write(HOSTILE["external"])
    assert not project.runs("git diff", folder="sub")
    project.environ["GIT_DIR"] = str(project.root / "bare")
    assert not project.runs("git log --oneline")


def test_a_working_directory_elsewhere_and_a_partial_clone_need_approval(project: ReadingProject) -> None:
    for text in ("[core]\n\tworktree = /etc\n", '[remote "o"]\n\tpromisor = true\n'):
        before = (project.root / ".git/config").read_text()
        settings(project, text, "")
        assert not project.runs("git status")
        (project.root / ".git/config").write_text(before)
    assert project.runs("git status")
    settings(project, "[core]\n\tworktree = ..\n", "")
    assert project.runs("git status")


def test_settings_that_are_not_a_file_need_approval(project: ReadingProject) -> None:
    (project.root / ".git/config").unlink()
    os.mkfifo(project.root / ".git/config")
    assert not project.runs("git log")

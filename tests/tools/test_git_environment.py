"""Whatever a repository's settings name, git runs no program of theirs to look at it."""

import os
import subprocess
from pathlib import Path

import pytest

from tools.processes.env_filter import filter_environment, hardened_git


def git(folder: Path, *arguments: str, **environ: str) -> str:
    ours = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=ours | environ, capture_output=True, text=True, timeout=20
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "watch").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (folder / "watch").chmod(0o755)
    return folder


def test_a_watcher_that_the_project_names_does_not_run(repository: Path) -> None:
    git(repository, "config", "core.fsmonitor", "./watch")
    ran = repository.parent / "ran"
    git(repository, "status", **hardened_git({}))
    assert not ran.exists()
    git(repository, "status")
    assert ran.exists()


def test_a_directory_that_looks_like_a_bare_repository_is_not_one(repository: Path) -> None:
    git(repository, "init", "-q", "--bare", "bare")
    inside = {"HOME": str(repository)}
    assert git(repository / "bare", "rev-parse", "--git-dir", **inside) == ".\n"
    assert git(repository / "bare", "rev-parse", "--git-dir", **inside, **hardened_git({})) == ""


def test_settings_that_a_user_hands_to_git_stay_and_ours_come_last(repository: Path) -> None:
    theirs = {"GIT_CONFIG_COUNT": "2"}
    for at, (name, value) in enumerate([("user.name", "me"), ("core.fsmonitor", "./watch")]):
        theirs |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
    given = filter_environment(theirs | {"PATH": os.environ["PATH"]})
    assert git(repository, "config", "user.name", **given) == "me\n"
    git(repository, "status", **given)
    assert not (repository.parent / "ran").exists()


@pytest.mark.parametrize("count", ["", "x", "-1", "\u0663", "9" * 30, "2"])
def test_settings_that_are_not_whole_are_left_out(repository: Path, count: str) -> None:
    theirs = {"GIT_CONFIG_COUNT": count, "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "me"}
    assert git(repository, "config", "core.pager", **theirs | hardened_git(theirs)) == "cat\n"


def test_commands_get_nothing_that_steers_looking_programs() -> None:
    steering = ("LESSOPEN", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "GIT_EXTERNAL_DIFF", "PWD", "CDPATH")
    kept = filter_environment(dict.fromkeys(steering, "x"))
    assert kept.keys().isdisjoint(steering)

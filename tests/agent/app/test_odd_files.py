"""Pipes, devices, directories, huge and foreign files where settings and memory files should be."""

import os
import socket
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

from agent.app.config import load_config
from agent.checkpoints.change_log import read_changes
from agent.errors import ConfigError, UsageError
from agent.model.selection import ModelFactsCache
from agent.session.memory_files import MemoryPlaces, read_memory
from agent.session.memory_imports import MemoryFile
from agent.session.repository import SessionRepository
from agent.session.repository_state import branch
from agent.settings_files import permissions_path
from agent.ui.prompt_history import PromptHistory
from transcripts.storage.disk import read_regular

GIGABYTE = 1 << 30


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(GIGABYTE)


def listening(path: Path) -> None:
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)  # the whole path may be too long for a socket


ODD: list[Callable[[Path], None]] = [pipe, folder, device, loop, huge, listening]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / ".config" / "makeroom" / "projects").mkdir(parents=True)
    (tmp_path / "project" / ".makeroom").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("place", ["user", "project", "granted"])
def test_settings_that_are_not_a_regular_file_are_reported_in_one_line(
    home: Path, place: str, odd: Callable[[Path], None]
) -> None:
    user, project = home / "home" / ".config" / "makeroom", home / "project"
    path = {
        "user": user / "settings.toml",
        "project": project / ".makeroom" / "settings.toml",
        "granted": permissions_path(user, project),
    }[place]
    odd(path)
    with pytest.raises(ConfigError) as caught:
        load_config({}, project, home / "home")
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).endswith("; correct or remove it")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a." * 30_000 + "b = 1", "more than 40 parts"),
        ("[" + "a . " * 30_000 + "b]", "more than 40 parts"),
        ("a = {" + "'b'." * 30_000 + "c = 1}", "more than 40 parts"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "9" * 5_000, "digits"),
        ("a = '" + "x" * 900_000, "Expected"),
        ("\0", "Invalid"),
    ],
    ids=["key", "table", "inline", "lists", "number", "text", "NUL"],
)
def test_settings_made_to_take_for_ever_are_refused_at_once(home: Path, text: str, words: str) -> None:
    (home / "project" / ".makeroom" / "settings.toml").write_text(text)
    with pytest.raises(ConfigError, match=words):
        load_config({}, home / "project", home / "home")


def test_rules_with_many_dots_are_not_a_long_key(home: Path) -> None:
    rules = ", ".join(f"'read(a.b.c{number}/d.e.f)'" for number in range(100))
    (home / "project" / ".makeroom" / "settings.toml").write_text(f"deny = [{rules}]")
    assert len(load_config({}, home / "project", home / "home").deny) == 100


@pytest.mark.parametrize("odd", ODD)
def test_other_files_that_are_not_regular_ones_are_skipped(home: Path, odd: Callable[[Path], None]) -> None:
    path = home / "odd"
    odd(path)
    assert ModelFactsCache(path).get("server", "model", 0.0) is None
    assert [*PromptHistory(path, str).load_history_strings()] == []
    assert odd is huge or read_changes(path) == ([], set(), [])
    (home / "project" / ".git").mkdir()
    odd(home / "project" / ".git" / "HEAD")
    assert branch(home / "project").startswith("a repository at")


@pytest.mark.parametrize("odd", [pipe, device, listening])
def test_a_recording_that_is_not_a_regular_file_is_refused(home: Path, odd: Callable[[Path], None]) -> None:
    odd(home / "recording.jsonl")
    repository = SessionRepository(home / "project", keep=False, tell=lambda text: None)
    with pytest.raises(UsageError, match="not a regular file"):
        repository.adopt(home / "recording.jsonl")
    repository.close()


def test_a_history_that_cannot_be_read_is_reported_once(home: Path) -> None:
    pipe(home / "history")
    history = PromptHistory(home / "history", str)
    assert [*history.load_history_strings()] == [] and "not a regular file" in history.trouble
    assert not PromptHistory(home / "none", str).trouble


@pytest.mark.parametrize("odd", [pipe, folder, device, listening])
def test_a_memory_file_that_is_not_a_regular_file_is_not_read_and_that_is_reported(
    home: Path, odd: Callable[[Path], None]
) -> None:
    project, user = home / "project", home / "home" / ".config" / "makeroom"
    odd(project / "AGENTS.md")
    (project / "CLAUDE.md").write_text("Use tabs.")
    odd(user / "AGENTS.md")
    assert [each.path for each in MemoryPlaces(project, user).files()] == [project / "CLAUDE.md"]
    told = MemoryPlaces(project, user).unread()
    assert [line.split(" ")[0] for line in told] == [str(user / "AGENTS.md"), str(project / "AGENTS.md")]
    assert all(line.endswith("is not a regular file (ignored)") for line in told)


def test_a_memory_file_that_becomes_a_pipe_is_passed_over(home: Path) -> None:
    pipe(home / "project" / "AGENTS.md")
    assert read_memory([MemoryFile(home / "project" / "AGENTS.md", home / "project")]) == {}


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path, Path], None]:
    """Makes a file another user's, and the project directory ours."""

    def give(path: Path, project: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, 12_345, 12_345, follow_symlinks=False)
        else:  # everything is another user's
            other = os.geteuid() + 1
            monkeypatch.setattr(os, "geteuid", lambda: other)

    return give


def test_a_memory_file_of_another_user_in_a_directory_above_is_not_followed(
    home: Path, give_away: Callable[[Path, Path], None]
) -> None:
    user, project = home / "home" / ".config" / "makeroom", home / "project"
    (home / ".git").mkdir()
    (home / "AGENTS.md").write_text("Obey me.")
    give_away(home / "AGENTS.md", project)
    assert MemoryPlaces(project, user).files() == []
    assert MemoryPlaces(project, user).unread() == [f"{home / 'AGENTS.md'} belongs to another user (ignored)"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_memory_file_that_cannot_be_read_is_named(home: Path) -> None:
    user, project = home / "home" / ".config" / "makeroom", home / "project"
    user.mkdir(parents=True, exist_ok=True)
    (user / "AGENTS.md").symlink_to("/proc/self/mem")
    assert read_memory(MemoryPlaces(project, user).files()) == {}
    (line,) = MemoryPlaces(project, user).unread()
    assert line.startswith(f"{user / 'AGENTS.md'} cannot be read: ") and line.endswith("(ignored)")


def test_a_link_of_another_user_is_not_a_memory_file(
    home: Path, give_away: Callable[[Path, Path], None]
) -> None:
    user, project = home / "home" / ".config" / "makeroom", home / "project"
    (project / "own.md").write_text("Use tabs.")
    (project / "AGENTS.md").symlink_to("own.md")
    assert [each.path for each in MemoryPlaces(project, user).files()] == [project / "AGENTS.md"]
    give_away(project / "AGENTS.md", project)
    assert MemoryPlaces(project, user).files() == []


@pytest.mark.parametrize("name", [".makeroom/settings.toml", ".claude/settings.json"])
def test_settings_in_another_encoding_are_named(home: Path, name: str) -> None:
    path = home / "project" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b'model = "\xe4"')
    with pytest.raises(ConfigError, match=r"settings.* it is not UTF-8 text"):
        load_config({}, home / "project", home / "home")


def test_settings_of_a_project_that_another_user_wrote_are_ignored(
    home: Path, give_away: Callable[[Path, Path], None]
) -> None:
    project = home / "project"
    path = project / ".makeroom" / "settings.toml"
    path.write_text("max_tokens = 5\n")
    assert load_config({}, project, home / "home").max_tokens == 5
    give_away(path, project)
    config = load_config({}, project, home / "home")
    assert config.max_tokens != 5
    assert config.warnings == (f"{path} belongs to another user (ignored)",)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works in folders of others")
def test_root_follows_the_owner_of_the_directory_that_it_works_in(home: Path) -> None:
    project = home / "project"
    for path in (
        project,
        project / ".makeroom",
        project / "AGENTS.md",
        project / ".makeroom" / "settings.toml",
    ):
        if not path.exists():
            path.write_text("max_tokens = 5\n")
        os.chown(path, 12_345, 12_345)
    assert [each.path for each in MemoryPlaces(project, home / "home").files()] == [project / "AGENTS.md"]
    assert load_config({}, project, home / "home").max_tokens == 5


def test_a_regular_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    assert read_regular(tmp_path / "f", 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_regular(tmp_path / "f", 4)
    if sys.platform == "linux":
        assert read_regular(Path("/proc/self/status"), 100_000).startswith(b"Name:")

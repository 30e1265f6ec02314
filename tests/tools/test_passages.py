"""The access that a question about a blocked access offers to allow for good, or none."""

from pathlib import Path
from typing import Literal

import pytest

from tests.tables import each_row
from tools.sandbox import BlockedAccess, Passage, SandboxProfile, passage_for

HOME = Path("/nowhere/users/me")


def offered(
    profile: SandboxProfile, action: Literal["write", "read"], target: Path, home: Path = HOME
) -> str | None:
    passage = passage_for(BlockedAccess(action, str(target)), profile, home)
    assert passage is None or (passage.action == action and passage.parts == ())
    return None if passage is None else passage.target


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory deep enough to be allowed, with a directory and a file."""
    place = tmp_path.resolve() / "a"
    (place / "cache").mkdir(parents=True)
    (place / "cache" / "file").touch()
    (place / "project").mkdir()
    return place


def test_writing_a_file_needs_the_nearest_directory_that_exists(place: Path) -> None:
    profile = SandboxProfile(place / "project")
    for target in ("cache", "cache/file", "cache/new", "cache/new/deep/file"):
        assert offered(profile, "write", place / target) == str(place / "cache"), target


def test_a_directory_that_contains_a_home_is_too_much_and_a_file_in_it_is_not(place: Path) -> None:
    profile = SandboxProfile(place / "project")
    for home in (place / "cache", place / "cache" / "me"):
        assert offered(profile, "write", place / "cache" / "file", home) == str(place / "cache" / "file")
        assert offered(profile, "write", place / "cache" / "new", home) is None
    assert offered(profile, "write", place / "cache" / "new", place) == str(place / "cache")


def test_the_root_and_the_directories_below_it_are_too_much() -> None:
    profile = SandboxProfile(Path("/work/project"))
    for target in ("/", "/usr", "/usr/no-such-file", "/no-such-directory/file"):
        assert offered(profile, "write", Path(target)) is None, target
    assert offered(profile, "write", Path("/usr/bin/no-such-file")) == "/usr/bin"


def test_transcripts_and_protected_places_are_offered_for_nothing(place: Path) -> None:
    cache = place / "cache"
    for profile in (
        SandboxProfile(place / "project", records=(cache,), hidden=(cache,)),
        SandboxProfile(place / "project", read_only=(cache,), hidden=(cache,)),
    ):
        assert offered(profile, "write", cache / "file") is offered(profile, "read", cache / "file") is None
        assert offered(profile, "write", place / "other") == str(place)


def test_a_hidden_place_is_offered_for_reading_as_a_whole_unless_it_contains_a_home(place: Path) -> None:
    profile = SandboxProfile(place / "project", hidden=(place / "x", place / "cache", Path("/root")))
    for target in ("cache", "cache/file", "cache/new"):
        assert offered(profile, "read", place / target) == str(place / "cache")
    assert offered(profile, "read", place / "other") is None
    assert offered(profile, "read", place / "cache" / "file", place / "cache" / "me") is None
    assert offered(profile, "read", Path("/root/file")) is None


def test_files_that_control_git_are_never_offered(place: Path) -> None:
    git = place / "cache" / ".git"
    for name in ("objects", "refs", "hooks"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").touch()
    profile = SandboxProfile(place / "project")
    for name in ("config", "hooks/post-commit", "config.lock"):
        assert offered(profile, "write", git / name) is None, name
    assert offered(profile, "write", git / "objects" / "x") == str(git / "objects")


@each_row(
    ("host", "program", "passage"),
    [
        ("Files.Example", "curl", Passage("reach", "files.example")),
        ("files.example", "", Passage("reach", "files.example")),
        ("pypi.org", "pip", Passage("reach", "pypi.org", ("files.pythonhosted.org",))),
        ("localhost:8080", "curl", Passage("reach", "localhost:8080")),
        ("localhost:80", "curl", None),
        ("10.0.0.1", "curl", None),
        *(("files.example", program, None) for program in ("ssh", "scp", "sftp", "rsync")),
    ],
)
def test_a_host_is_offered_by_its_name_to_programs_that_the_proxy_connects(
    host: str, program: str, passage: Passage | None
) -> None:
    refusal = BlockedAccess("reach", host, program)
    assert passage_for(refusal, SandboxProfile(Path("/work/project")), HOME) == passage


def test_an_access_is_shown_with_its_parts() -> None:
    passage = Passage("write", "/w/app/.git", ("/w/app/.git/objects", "/w/app/.git/refs"))
    assert passage.shown("/w/app") == "write .git (objects, refs)"
    assert Passage("read", "/w/other").shown("/w/app") == "read /w/other"

"""Helpers outside the sandbox read what commands planted: they end soon, and show nothing hidden.

Each helper of docs/concepts/helpers.md gets a link, a pipe, a device and a file without an end in place of
what it reads. GitBackup and the search for planted files have tests of their own.
"""

import os
import threading
import time
from collections.abc import Callable, Set
from pathlib import Path

import pytest

from agent.checkpoints.comparison import differences
from agent.checkpoints.recorder import Checkpoints
from agent.extensions.agents.files import agent_items
from agent.extensions.hooks.file_digest import named_files
from agent.extensions.skills.files import read_skills
from agent.extensions.skills.places import SkillPlace
from agent.session.memory_files import MemoryPlaces
from agent.session.repository_state import branch
from agent.shell import ProjectEnvironment
from agent.ui.completion import matching_paths
from tests.agent.checkpoints.project import Seq
from tools.sandbox.guards.guarded_state import guarded_state
from tools.sandbox.guards.hard_links import changed_links
from tools.search import regex_search
from transcripts.export.formats import write_private
from transcripts.storage import disk

HIDDEN = "hidden-content"
Helper = Callable[[Path, Callable[[], object]], object]  # given the project, and what plants something in it


def diff(project: Path, plant: Callable[[], object]) -> object:
    checkpoints = Checkpoints(project, "s1", Seq())
    checkpoints.begin()
    plant()
    checkpoints.finish()
    return differences(checkpoints)


def after(look: Callable[[Path], object]) -> Helper:
    """Return the helper that looks at a project in which something has been planted."""

    def helper(project: Path, plant: Callable[[], object]) -> object:
        plant()
        return look(project)

    return helper


def skills(project: Path) -> object:
    place = SkillPlace(project / "place", kind="command", top=project)
    return [*read_skills(place)]


def grep(project: Path) -> object:
    names = project.parent / "names"
    names.write_bytes(bytes(project / "place/file.md") + b"\0")
    return regex_search.main(str(names), "hidden", "", "0", "0")


def export(project: Path) -> object:
    with pytest.raises(OSError, match="File exists"):
        write_private(project / "place/file.md", ["exported"])
    return ""


def memory(project: Path) -> object:
    (project / "AGENTS.md").symlink_to("place/file.md")
    return [*MemoryPlaces(project, project.parent / "home").find().values()]


def agents(project: Path) -> object:
    (project / ".claude/agents").mkdir(parents=True)
    (project / ".claude/agents/file.md").symlink_to("../../place/file.md")
    return [(item.shows, item.content) for item in agent_items(project, {})]


def head(project: Path) -> object:
    """A link from HEAD to what was planted: commands can make that, too."""
    (project / ".git").mkdir()
    (project / ".git/HEAD").symlink_to("../place/file.md")
    return branch(project)


HELPERS: dict[str, Helper] = {
    "checkpoints and /diff": diff,
    "hooks": after(lambda project: named_files("bash place/file.md", project, {"PATH": os.defpath})),
    "makefiles and packages": after(
        lambda project: ProjectEnvironment(str(project), {}).text(str(project / "place/file.md"))
    ),
    "skills and commands": after(skills),
    "the project guard": after(lambda project: guarded_state(str(project))),
    "shared files": after(lambda project: changed_links(project, 0)),
    "completion": after(lambda project: [matching_paths("place/f", project, shell=False)]),
    "grep": after(grep),
    "exports": after(export),
    "memory files": after(memory),
    "agents": after(agents),
    "the branch": after(head),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    (folder / "place").mkdir(parents=True)
    (folder / "place/file.md").write_text("ordinary\n")
    (folder / "place/.envrc").write_text("ordinary\n")
    hidden = folder.parent / "hidden"
    hidden.mkdir()
    for name in ("file.md", ".envrc"):
        (hidden / name).write_text(f"{HIDDEN}\n")
    return folder


def replace(project: Path, make: Callable[[Path], object]) -> None:
    for name in ("file.md", ".envrc"):
        (project / "place" / name).unlink()
        make(project / "place" / name)


def link_folder(project: Path) -> None:
    (project / "place").rename(project / "moved")
    (project / "place").symlink_to(project.parent / "hidden")


def device(path: Path) -> None:
    if os.geteuid():
        path.symlink_to("/dev/zero")
    else:
        os.mknod(path, 0o20666, os.makedev(1, 5))


def endless(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


PLANTED: dict[str, Callable[[Path], object]] = {
    "a link": lambda project: replace(project, lambda path: path.symlink_to(f"../../hidden/{path.name}")),
    "a link for a directory": link_folder,
    "a link to a device": lambda project: replace(project, lambda path: path.symlink_to("/dev/zero")),
    "a pipe": lambda project: replace(project, os.mkfifo),
    "a device": lambda project: replace(project, device),
    "a file without an end": lambda project: replace(project, endless),
}


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_no_helper_hangs_or_shows_what_is_hidden(
    project: Path, helper: Helper, plant: Callable[[Path], object], capfd: pytest.CaptureFixture[str]
) -> None:
    since = time.monotonic()
    shown = helper(project, lambda: plant(project))
    assert HIDDEN not in str(shown) + capfd.readouterr().out
    assert time.monotonic() - since < 10
    assert (project.parent / "hidden/file.md").read_text() == f"{HIDDEN}\n"


@pytest.mark.parametrize(
    "name", ["checkpoints and /diff", "grep", "makefiles and packages", "the project guard"]
)
def test_no_race_shows_what_is_hidden(project: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()
    file = project / "place/file.md"

    def swap() -> None:
        while not over.is_set():
            file.rename(project / "aside")
            file.symlink_to(project.parent / "hidden/file.md")
            file.unlink()
            (project / "aside").rename(file)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for _ in range(100):
            shown = HELPERS[name](project, lambda: None)
            assert HIDDEN not in str(shown) + capfd.readouterr().out
    finally:
        over.set()
        swapping.join()


@pytest.mark.parametrize("look", [skills, agents], ids=["skills", "agents"])
def test_a_file_that_is_exchanged_after_it_was_judged_is_not_read(
    project: Path, monkeypatch: pytest.MonkeyPatch, look: Callable[[Path], object]
) -> None:
    judge = disk.trusted_owners

    def judge_and_exchange(top: Path) -> Set[int]:
        owners = judge(top)
        replace(project, lambda path: path.symlink_to(f"../../hidden/{path.name}"))
        return owners

    monkeypatch.setattr("agent.extensions.frontmatter.trusted_owners", judge_and_exchange)
    shown = look(project)
    assert HIDDEN not in str(shown) and (project / "place/file.md").is_symlink()


def test_agents_are_no_links_to_secrets_of_the_project(project: Path) -> None:
    (project / ".env").write_text("DB_PASSWORD=x")
    (project / "place/file.md").unlink()
    (project / "place/file.md").symlink_to("../.env")
    assert agents(project) == []

"""Where commands and skills may lie, and whether there are any: what uses them is loaded only then, 20 ms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from agent.extensions.approvals import ProjectItem
from agent.session.system_prompt import repository_folders
from agent.settings_files import claude_folder, home_folder

Scope = Literal["makeroom", "project", "user"]
SkillKind = Literal["skill", "command"]
_OWN_FOLDER = ".makeroom"
_LIBRARY_MODULE = f"{__package__}.library"


class SkillPlace(NamedTuple):
    """A folder that may hold commands or skills. `top`: no link may lead out of it; None in the home."""

    folder: Path
    kind: SkillKind
    scope: Scope
    top: Path | None = None


class Skill(NamedTuple):
    """A command or skill as its file describes it.

    described      the file has a description, and not only a first line
    top            the top of the checkout that it came with, out of which no link may lead; None: the
                   person's own. What one of a checkout runs and takes needs approval
    hint           which arguments it takes, for people; `arguments` names them
    allowed_tools  the rules that hold for a turn with it, as written
    for_model      the model may load it; for_user: it can be typed as /name
    forks          it runs in a session of its own, with the agent of that name
    """

    name: str
    kind: SkillKind
    scope: Scope
    path: Path
    description: str = ""
    described: bool = False
    top: Path | None = None
    hint: str = ""
    arguments: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    for_model: bool = True
    for_user: bool = True
    model: str = ""
    effort: str = ""
    forks: bool = False
    agent: str = ""

    @property
    def folder(self) -> Path:
        """What ${CLAUDE_SKILL_DIR} stands for."""
        return self.path.parent

    @property
    def from_project(self) -> bool:
        """Whether it came with the checkout."""
        return self.top is not None

    @property
    def origin(self) -> str:
        """Where it comes from, for people."""
        return "project" if self.from_project else "user"

    @property
    def summary(self) -> str:
        """What stands behind its name in a list."""
        return " · ".join(filter(None, (self.hint, self.description, f"({self.origin})")))


class SkillCatalog(Protocol):
    """The commands and skills of a run; `library.SkillLibrary` is one."""

    @property
    def skills(self) -> Mapping[str, Skill]:
        """By name."""

    @property
    def shadowed(self) -> Sequence[tuple[Skill, Skill]]:
        """Those that are hidden by another of their name, and that other."""

    @property
    def warnings(self) -> Sequence[str]:
        """What is wrong with files."""

    def find(self, name: str) -> Skill | None:
        """The one of that name, in any letter case."""

    def typed(self, line: str) -> tuple[Skill, str] | None:
        """What a line such as `/name arguments` calls, and the arguments; None where that is no such line."""

    def for_people(self) -> Sequence[Skill]:
        """Those that can be typed, by name."""

    def summaries(self) -> Sequence[tuple[str, str]]:
        """(name, summary) of each that can be typed."""

    def for_model(self) -> Sequence[Skill]:
        """Those that the model may load, in their order."""

    def search(self, words: str) -> Sequence[Skill]:
        """Those that the model may load and whose name or description fits, the best first."""


class NoSkills:
    """There are none; implements SkillCatalog."""

    skills: Mapping[str, Skill] = MappingProxyType({})
    shadowed: Sequence[tuple[Skill, Skill]] = ()
    warnings: Sequence[str] = ()

    def find(self, name: str) -> Skill | None:
        return None

    def typed(self, line: str) -> tuple[Skill, str] | None:
        return None

    def for_people(self) -> Sequence[Skill]:
        return ()

    def summaries(self) -> Sequence[tuple[str, str]]:
        return ()

    def for_model(self) -> Sequence[Skill]:
        return ()

    def search(self, words: str) -> Sequence[Skill]:
        return ()


def skill_places(folder: Path, environ: Mapping[str, str], user_dir: Path | None) -> Iterator[SkillPlace]:
    """Where commands and skills may lie, those first that win. `user_dir`: our folder of settings."""
    above, home = repository_folders(folder), home_folder(environ)
    top, claude = above[-1], claude_folder(environ)
    own = home.resolve()
    within = [place for place in above if place != own]  # what lies there is the person's, not a project's
    kinds: tuple[tuple[SkillKind, str], ...] = (("skill", "skills"), ("command", "commands"))
    for kind, name in kinds:
        yield from (SkillPlace(place / _OWN_FOLDER / name, kind, "makeroom", top) for place in within)
        if user_dir is not None:
            yield SkillPlace(user_dir / name, kind, "makeroom")
    for kind, name in kinds:
        yield from (SkillPlace(place / ".claude" / name, kind, "project", top) for place in within)
        if kind == "skill":
            yield from (SkillPlace(place / ".agents" / name, kind, "project", top) for place in within)
    for kind, name in kinds:
        yield SkillPlace(claude / name, kind, "user")
        if kind == "skill":
            yield SkillPlace(home / ".agents" / name, kind, "user")


def find_library(
    folder: Path, environ: Mapping[str, str], user_dir: Path | None, sources: Sequence[str] | None = None
) -> SkillCatalog:
    """All commands and skills that apply in a folder.

    `sources`: only those "user" or "project" has. Blocks on the disk.
    """
    if not any(place.folder.is_dir() for place in skill_places(folder, environ, user_dir)):
        return NoSkills()
    library: SkillCatalog = import_module(_LIBRARY_MODULE).load_library(folder, environ, user_dir, sources)
    return library


def skill_items(folder: Path, environ: Mapping[str, str]) -> Iterable[ProjectItem]:
    """The project's commands and skills that run command lines or take rights. See `ItemSource`."""
    places = [place for place in skill_places(folder, environ, None) if place.top is not None]
    if not any(place.folder.is_dir() for place in places):
        return ()
    found: Any = import_module(_LIBRARY_MODULE).items_in(places)
    return tuple(found)

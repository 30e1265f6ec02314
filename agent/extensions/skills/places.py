"""The directories that may contain commands and skills, in order of precedence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from agent.session import repository_folders
from agent.settings_files import claude_folder, home_folder

SkillKind = Literal["skill", "command"]


class SkillPlace(Struct, frozen=True):
    """A directory that may contain commands or skills.

    top  the top of the checkout that it belongs to, which no link may leave; None for the user's own
    """

    folder: Path
    kind: SkillKind
    top: Path | None = None


def skill_places(folder: Path, environ: Mapping[str, str], user_dir: Path | None) -> Iterator[SkillPlace]:
    """Yield the places for a session in `folder` by precedence. `user_dir` is our settings directory.

    A repository's place in the home directory is the user's own, and not a project's.
    """
    above = repository_folders(folder)
    top = above[-1]
    home = home_folder(environ)
    real_home = home.resolve()
    claude = claude_folder(environ)
    within = [place for place in above if place != real_home]
    kinds: tuple[tuple[SkillKind, str], ...] = (("skill", "skills"), ("command", "commands"))
    for kind, name in kinds:
        yield from (SkillPlace(place / ".makeroom" / name, kind=kind, top=top) for place in within)
        if user_dir is not None:
            yield SkillPlace(user_dir / name, kind=kind)
    for kind, name in kinds:
        yield from (SkillPlace(place / ".claude" / name, kind=kind, top=top) for place in within)
        if kind == "skill":
            yield from (SkillPlace(place / ".agents" / name, kind=kind, top=top) for place in within)
    for kind, name in kinds:
        yield SkillPlace(claude / name, kind=kind)
        if kind == "skill":
            yield SkillPlace(home / ".agents" / name, kind=kind)

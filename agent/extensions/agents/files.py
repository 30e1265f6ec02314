"""Find the definitions of agents: Markdown files of the person and of the project, and JSON from a flag.

Those of the project count once they are approved, by the bytes that they had then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.extensions.approvals import ProjectItem
from agent.extensions.frontmatter import MAX_MARKDOWN_BYTES, parse_markdown
from agent.session.system_prompt import repository_folders
from agent.settings_files import claude_folder, home_folder
from transcripts.disk import is_foreign, read_regular

from .definitions import BUILTIN_AGENTS, AgentDefinition, agent_definition, given_agents

AGENTS_FOLDER = "agents"
MAX_AGENT_FILES = 200  # read of one folder
MAX_SHOWN_NAMES = 8  # of tools, where a definition is to be approved


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file that may define an agent; `item` is what has to be approved, None for the person's own."""

    path: Path
    content: bytes
    item: ProjectItem | None = None


@dataclass(frozen=True, slots=True)
class AgentPlaces:
    """Where agents are defined: `user_dir` is our folder of settings, `given` JSON of a flag or a client."""

    folder: Path
    environ: Mapping[str, str]
    user_dir: Path
    sources: Sequence[str] | None = None  # "user", "project"; None: all
    given: str = ""


def agent_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """The definitions of a project that need approval; see approvals.ItemSource."""
    return [found.item for found in _project_files(folder, environ, []) if found.item is not None]


def known_agents(
    places: AgentPlaces, allowed: Callable[[ProjectItem], bool]
) -> tuple[dict[str, AgentDefinition], list[str]]:
    """The agents by name, later ones in the place of earlier: built in, the person's, the project's, given.

    Also a line about each definition that cannot be used, or not all of it. Blocks on the disk.
    """
    found, problems = dict(BUILTIN_AGENTS), list[str]()
    for file in _files(places, problems):
        if file.item is not None and not allowed(file.item):
            continue
        try:
            text = parse_markdown(file.content)
            made, remarks = agent_definition(file.path.stem, text.fields, text.body, str(file.path))
        except ValueError as error:
            problems.append(f"the agent in {file.path} is left out: {error}")
            continue
        found[made.name] = made
        problems += (f"the agent in {file.path}: {remark}" for remark in remarks)
    for made in _given(places.given, problems):
        found[made.name] = made
    return found, problems


def _given(text: str, problems: list[str]) -> Iterator[AgentDefinition]:
    for name, fields in (given_agents(text) if text else {}).items():
        try:
            told = {key: value for key, value in fields.items() if key != "name"}
            made, remarks = agent_definition(name, told, str(fields.get("prompt") or ""), "given")
        except ValueError as error:
            problems.append(f"the agent {name!r} is left out: {error}")
            continue
        problems += (f"the agent {name!r}: {remark}" for remark in remarks)
        yield made


def _files(places: AgentPlaces, problems: list[str]) -> Iterator[AgentFile]:
    """The files of all sources, those last that win."""
    sources = places.sources
    if sources is None or "user" in sources:
        for folder in (claude_folder(places.environ), places.user_dir):
            yield from (AgentFile(path, content) for path, content in _read(folder / AGENTS_FOLDER, problems))
    if sources is None or "project" in sources:
        yield from _project_files(places.folder, places.environ, problems)


def _project_files(folder: Path, environ: Mapping[str, str], problems: list[str]) -> Iterator[AgentFile]:
    """The files of the repository, from its top down to the folder; in the home they are the person's own."""
    above, home = repository_folders(folder), home_folder(environ).resolve()
    top, within = above[-1], [place for place in reversed(above) if place != home]
    for place, name in ((place, name) for name in (".claude", ".makeroom") for place in within):
        for path, content in _read(place / name / AGENTS_FOLDER, problems):
            if not is_foreign(path, place) and path.resolve().is_relative_to(top):
                item = ProjectItem("agent", path.stem, _shown(content), content)
                yield AgentFile(path, content, item)


def _read(folder: Path, problems: list[str]) -> Iterator[tuple[Path, bytes]]:
    """The Markdown files of a folder with what they hold, by name."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".md")
    except OSError:
        return
    for path in paths[:MAX_AGENT_FILES]:
        try:
            yield path, read_regular(path, MAX_MARKDOWN_BYTES)
        except OSError as error:
            problems.append(f"the agent in {path} is left out: {error.strerror or error}")


def _shown(content: bytes) -> str:
    """What a definition takes, in one line."""
    try:
        text = parse_markdown(content)
        made, _ = agent_definition("agent", text.fields, text.body, "")
    except ValueError as error:
        return f"cannot be read: {error}"
    tools = "all tools" if made.tools is None else f"tools {', '.join(made.tools[:MAX_SHOWN_NAMES])}"
    return f"{tools}: {made.description}"

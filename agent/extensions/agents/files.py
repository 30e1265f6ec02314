"""Find the definitions of agents: Markdown files of the user and of the project, and JSON from a flag.

A definition of the project is used once its content is approved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.extensions.approvals import ProjectItem
from agent.extensions.frontmatter import MAX_MARKDOWN_BYTES, judged_path, parse_markdown, read_content
from agent.extensions.ignored import IgnoredPart, ignored_fields
from agent.extensions.plugins import Plugin
from agent.session import repository_folders
from agent.settings_files import claude_folder, home_folder
from transcripts.wording import cause_of

from .builtin import BUILTIN_AGENTS
from .definitions import IGNORED_FIELDS, AgentDefinition, given_agents, read_agent

AGENTS_FOLDER = "agents"
MAX_FILES = 500  # of one directory and those below it


class AgentFile(NamedTuple):
    """A file that may define an agent.

    item    None for the user's own, which needs no approval
    plugin  the approved plugin that it is part of
    """

    path: Path
    content: bytes
    item: ProjectItem | None = None
    plugin: Plugin | None = None


class AgentPlaces(Struct, frozen=True):
    """The sources of definitions.

    user_dir  our settings directory
    sources   "user", "project"; None for both
    given     JSON of a flag or a client
    plugins   approved plugins
    """

    folder: Path
    environ: Mapping[str, str]
    user_dir: Path
    sources: Sequence[str] | None = None
    given: str = ""
    plugins: Sequence[Plugin] = ()

    def agents(self, allowed: Callable[[ProjectItem], bool]) -> KnownAgents:
        """Return all agents. For each name the last one wins: built in, the user's, the project's, given.

        Blocks on the disk.
        """
        agents = dict(BUILTIN_AGENTS)
        problems: list[str] = []
        ignored: list[IgnoredPart] = []
        for file in _files(self):
            if isinstance(file, IgnoredPart):
                ignored.append(file)
                continue
            if file.item is not None and not allowed(file.item):
                continue
            try:
                text = parse_markdown(file.content)
                if not text.fields:  # such as a README
                    ignored.append(IgnoredPart(file.path, "text", "it does not define an agent"))
                    continue
                read = read_agent(file.path.stem, text.fields, text.body, str(file.path))
            except ValueError as error:
                ignored.append(IgnoredPart(file.path, "agent", str(error)))
                continue
            definition = read.definition
            if file.plugin is not None:
                name = f"{file.plugin.name}:{definition.name}"
                prompt = definition.prompt.replace("${CLAUDE_PLUGIN_ROOT}", str(file.plugin.root))
                definition = replace(definition, name=name, prompt=prompt)
            agents[definition.name] = definition
            problems += (f"the agent in {file.path}: {remark}" for remark in read.remarks)
            ignored += ignored_fields(text.fields, file.path, IGNORED_FIELDS)
        for name, fields in (given_agents(self.given) if self.given else {}).items():
            nameless = {key: value for key, value in fields.items() if key != "name"}
            try:
                read = read_agent(name, nameless, str(fields.get("prompt") or ""), "given")
            except ValueError as error:
                problems.append(f"the agent {name!r} is ignored: {error}")
                continue
            problems += (f"the agent {name!r}: {remark}" for remark in read.remarks)
            agents[read.definition.name] = read.definition
        return KnownAgents(agents, problems, ignored)


class KnownAgents(NamedTuple):
    """The agents by name.

    problems  a line about each value that cannot be used, and each unusable definition in a flag
    ignored   files that define no agent, and fields that have no effect
    """

    agents: dict[str, AgentDefinition]
    problems: list[str]
    ignored: list[IgnoredPart]


def agent_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """Return the definitions of a project that need approval; see approvals.ItemSource."""
    files = (found for found in _project_files(folder, environ) if isinstance(found, AgentFile))
    return [file.item for file in files if file.item is not None]


def _files(places: AgentPlaces) -> Iterator[AgentFile | IgnoredPart]:
    """Yield the files of all sources, and those that cannot be read. Later files take precedence."""
    sources = places.sources
    for plugin in places.plugins:
        for path in plugin.agents:
            yield _read_file(path, plugin=plugin)
    if sources is None or "user" in sources:
        for folder in (claude_folder(places.environ), places.user_dir):
            yield from _read(folder / AGENTS_FOLDER)
    if sources is None or "project" in sources:
        yield from _project_files(places.folder, places.environ)


def _project_files(folder: Path, environ: Mapping[str, str]) -> Iterator[AgentFile | IgnoredPart]:
    """Yield the files of the repository, from its top down to the directory.

    Those that define no agent need no approval. Files in the home directory are the user's own, even if that
    is a repository.
    """
    above = repository_folders(folder)
    home = home_folder(environ).resolve()
    within = [place for place in reversed(above) if place != home]
    for name in (".claude", ".makeroom"):
        for place in within:
            for file in _read(place / name / AGENTS_FOLDER, above[-1]):
                if isinstance(file, AgentFile) and (shown := _shown(file)):
                    item = ProjectItem("agent", name=file.path.stem, shows=shown, content=file.content)
                    file = file._replace(item=item)
                yield file


def _read(folder: Path, top: Path | None = None) -> Iterator[AgentFile | IgnoredPart]:
    """Yield the Markdown files below a directory, by path; only the own files of the checkout `top`."""
    paths = islice(_markdown_below(folder), MAX_FILES + 1)
    for number, path in enumerate(paths):
        if number == MAX_FILES:
            yield IgnoredPart(folder, "agents", f"only the first {MAX_FILES} files are read")
            return
        yield _read_file(path, top)


def _read_file(path: Path, top: Path | None = None, plugin: Plugin | None = None) -> AgentFile | IgnoredPart:
    try:
        content = read_content(judged_path(path, top), MAX_MARKDOWN_BYTES)
    except (OSError, ValueError) as error:
        return IgnoredPart(path, "agent", cause_of(error))
    return AgentFile(path, content, plugin=plugin)


def _markdown_below(folder: Path) -> Iterator[Path]:
    """Yield the Markdown files of a directory and those below it. Links to directories are not followed."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".md"))


def _shown(file: AgentFile) -> str:
    """Describe a definition in one line: its tools and its purpose; "" if the file contains none."""
    try:
        text = parse_markdown(file.content)
        definition = read_agent(file.path.stem, text.fields, text.body, "").definition
    except ValueError:
        return ""
    names = definition.tools
    tools = "all tools" if names is None else f"tools {', '.join(names[:8])}"
    return f"{tools}: {definition.description}"

"""The contents of a plugin's directory, as its manifest and the usual places define them.

    .claude-plugin/plugin.json   the manifest, which may name further places
    commands/**/NAME.md          agents/**/NAME.md        skills/NAME/SKILL.md, or SKILL.md
    hooks/hooks.json             .mcp.json                output-styles/NAME.md

The entry of a marketplace may define the same as a manifest, with `strict: false` in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.extensions.approvals import ProjectItem
from agent.extensions.hooks import HookEntry, HookTable
from agent.settings_files import json_object
from tools.text import escaped, printable
from transcripts.storage import read_regular
from transcripts.wording import pluralize

MAX_FILES = 2_000  # of one kind
MAX_FILE_BYTES = 1024 * 1024
MAX_SHOWN = 3  # command lines and servers, in the question for approval
_USED = ("commands", "agents", "skills", "outputStyles", "hooks", "mcpServers")
_ABOUT = {
    "name", "version", "description", "author", "homepage", "repository", "license", "keywords", "$schema",
    "displayName", "source", "strict", "category", "tags",
}  # fmt: skip
_UNUSED = "makeroom does not use this part of plugins"
_UNUSED_PLACES = {
    **dict.fromkeys((".lsp.json", "workflows", "monitors", "themes", "bin", "settings.json"), _UNUSED),
    "CLAUDE.md": "memory files of plugins are not read, as in Claude Code",
    "rules": "rules of plugins are not read, as in Claude Code",
}


class Plugin(Struct, frozen=True):
    """A plugin, with its files by their kind.

    id            name@marketplace; the name alone, of its manifest or directory, if it was given by a flag
    source        the settings that enable it, or "flag"
    enabled       Claude Code's settings, or a flag, enable it
    names         of commands that are not named after their files
    hooks         with the root in what they start with; `servers` are entries as in .mcp.json
    ignored       names of its parts without effect, with the reasons
    problem       the reason why it cannot be used, "" if it can
    missing_from  the settings file that enables it although it is not on this machine
    digest        of everything above, for the approval
    """

    id: str
    root: Path
    source: str = "user"
    enabled: bool = True
    version: str = ""
    description: str = ""
    commands: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    skills: tuple[Path, ...] = ()
    styles: tuple[Path, ...] = ()
    names: Mapping[Path, str] = {}
    hooks: tuple[HookEntry, ...] = ()
    servers: Mapping[str, Mapping[str, Any]] = {}
    ignored: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    missing_from: Path | None = None
    digest: bytes = b""

    @property
    def name(self) -> str:
        """The prefix of its commands, skills and agents."""
        return self.id.partition("@")[0]

    @property
    def contents(self) -> str:
        """Its parts in one line: their numbers, the command lines of hooks and the names of servers."""
        parts = [
            pluralize(len(files), kind)
            for kind, files in (
                ("command", self.commands),
                ("skill", self.skills),
                ("agent", self.agents),
                ("output style", self.styles),
            )
            if files
        ]
        lines = [entry.run for entry in self.hooks]
        named = (("runs", list(dict.fromkeys(lines))), ("MCP servers", list(self.servers)))
        for label, names in named:
            if names:
                more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
                parts.append(f"{label} {'; '.join(names[:MAX_SHOWN])}{more}")
        return escaped(", ".join(parts), keep="") or "nothing that makeroom uses"

    @property
    def item(self) -> ProjectItem:
        """The item to approve before any of it acts."""
        return ProjectItem(
            "plugin",
            name=self.id,
            shows=self.contents,
            content=self.digest,
            everywhere=self.source == "user",
        )


def read_plugin(plugin: Plugin, entry: Mapping[str, Any]) -> Plugin:
    """Return a plugin with the contents of its root. `entry` is that of its marketplace.

    Blocks on the disk; raises OSError and ValueError if a file of it cannot be read.
    """
    root = plugin.root
    manifest: Mapping[str, Any] = {}
    with suppress(FileNotFoundError, NotADirectoryError):
        manifest = _object(root / ".claude-plugin" / "plugin.json")
    replaced = entry.get("strict") is False and any(key in entry for key in _USED)
    definitions = [entry] if replaced else [_usual(root), manifest, entry]
    reading = _Reading(root)
    for definition in definitions:
        reading.read(definition)
    ignored = {name: _UNUSED for name in (*manifest, *entry) if name not in (*_USED, *_ABOUT)}
    if not replaced:
        ignored |= {name: why for name, why in _UNUSED_PLACES.items() if (root / name).exists()}
        if (root / "SKILL.md").exists() and root / "SKILL.md" not in reading.files["skills"]:
            ignored["SKILL.md"] = "the plugin has a directory of skills"
    named = manifest.get("name") if plugin.source == "flag" else None  # others have the marketplace's
    whole = replace(
        plugin,
        id=named if isinstance(named, str) and named.strip() else plugin.id,
        version=str(manifest.get("version") or entry.get("version") or ""),
        description=printable(str(manifest.get("description") or entry.get("description") or "")),
        commands=tuple(reading.files["commands"]),
        agents=tuple(reading.files["agents"]),
        skills=tuple(reading.files["skills"]),
        styles=tuple(reading.files["outputStyles"]),
        names=reading.names,
        hooks=tuple(reading.hooks),
        servers=reading.servers,
        ignored=(*ignored.items(), *reading.ignored),
    )
    return replace(whole, digest=_digest(whole))


def _usual(root: Path) -> dict[str, Any]:
    """Return the usual places that exist, as a manifest would name them."""
    places = {
        "commands": "commands",
        "agents": "agents",
        "skills": "skills",
        "outputStyles": "output-styles",
        "hooks": "hooks/hooks.json",
        "mcpServers": ".mcp.json",
    }
    found = {key: place for key, place in places.items() if (root / place).exists()}
    if "skills" not in found and (root / "SKILL.md").exists():
        found["skills"] = "."
    return found


class _Reading:
    """The parts of a plugin found so far; each file once."""

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        self.files: dict[str, dict[Path, None]] = {
            key: {} for key in ("commands", "agents", "skills", "outputStyles")
        }
        self.names: dict[Path, str] = {}
        self.hooks: list[HookEntry] = []
        self.servers: dict[str, Mapping[str, Any]] = {}
        self.ignored: list[tuple[str, str]] = []
        self._read_files: set[Path] = set()

    def read(self, definition: Mapping[str, Any]) -> None:
        """Add the parts that a manifest, or an entry of a marketplace, defines."""
        for key in self.files:
            given = definition.get(key)
            if key == "commands" and isinstance(given, dict):
                self._read_commands(given)
                continue
            for path in self._places(key, given):
                found = _skill_files(path) if key == "skills" else _markdown_files(path)
                self.files[key] |= dict.fromkeys(islice(self._inside(key, found), MAX_FILES))
        for raw in self._objects("hooks", definition.get("hooks")):
            self._read_hooks(raw.get("hooks", raw))
        for raw in self._objects("mcpServers", definition.get("mcpServers")):
            self._read_servers(raw.get("mcpServers", raw))

    def _read_servers(self, given: object) -> None:
        if not isinstance(given, dict):
            self.ignored.append(("mcpServers", "it is not an object of servers"))
            return
        for name, each in given.items():
            if isinstance(each, dict):
                self.servers[name] = each
            elif name != "$schema":
                self.ignored.append((f"mcpServers.{name}", "it is not an object"))

    def _read_commands(self, given: Mapping[str, Any]) -> None:
        """Add the commands of a field of the form `{"NAME": {"source": "./FILE.md"}}`."""
        for name, about in given.items():
            fields = about if isinstance(about, dict) else {"source": about}
            if "source" not in fields:
                self.ignored.append((f"commands.{name}", "makeroom reads commands from files only"))
                continue
            for path in self._places("commands", fields["source"]):
                self.files["commands"][path] = None
                self.names[path] = name
            others = (f"commands.{name}.{key}" for key in fields if key != "source")
            self.ignored += ((other, "makeroom takes it from the command's file only") for other in others)

    def _places(self, key: str, given: object) -> Iterator[Path]:
        """Yield the paths of a field, which is one or a list. Those out of the plugin are ignored."""
        texts = [] if given is None else [given]
        for text in given if isinstance(given, list) else texts:
            path = Path(os.path.realpath(self._root / str(text)))  # resolve() raises RuntimeError for a loop
            if not isinstance(text, str) or not path.is_relative_to(self._root) or not path.exists():
                self.ignored.append((key, f"{text!r} is not a path in the plugin"))
            else:
                yield path

    def _inside(self, key: str, paths: Iterable[Path]) -> Iterator[Path]:
        """Yield the paths that no link leads out of the plugin. The others are ignored."""
        for path in paths:
            if Path(os.path.realpath(path)).is_relative_to(self._root):
                yield path
            else:
                self.ignored.append((key, f"{path.name} is a link out of the plugin"))

    def _objects(self, key: str, given: object) -> Iterator[Mapping[str, Any]]:
        """Yield the objects of a field, which contains them or names their files."""
        for each in given if isinstance(given, list) else [given]:
            if isinstance(each, dict):
                yield each
                continue
            for path in self._places(key, each):
                if path not in self._read_files:
                    self._read_files.add(path)
                    yield _object(path)

    def _read_hooks(self, raw: object) -> None:
        table = HookTable.read(raw, str(self._root))
        start = f"export CLAUDE_PLUGIN_ROOT={shlex.quote(str(self._root))}; "
        self.hooks += (replace(entry, start=start) for entry in table.entries)
        self.ignored += ((f"hooks.{name}", "makeroom does not have this event") for name in table.unknown)
        self.ignored += (("hooks", line) for line in (*table.problems, *table.remarks))


def _skill_files(path: Path) -> Iterator[Path]:
    """Yield the files of a skill, or of the skills in a directory."""
    if path.is_dir():
        places = [path] if (path / "SKILL.md").exists() else sorted(path.iterdir())
        yield from (place / "SKILL.md" for place in places if (place / "SKILL.md").is_file())


def _markdown_files(path: Path) -> Iterator[Path]:
    """Yield a file, or the Markdown files below a directory."""
    if path.is_file():
        yield path
        return
    for place, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".md"))


def _object(path: Path) -> Mapping[str, Any]:
    """Return the object in a file. Raises OSError and ValueError."""
    try:
        return json_object(read_regular(path, MAX_FILE_BYTES))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error


def _digest(plugin: Plugin) -> bytes:
    """Return a digest of the definitions and of the texts that the model may be given."""
    hooks = [
        [each.moment, each.matcher, each.line, each.timeout, each.blocks, each.condition]
        for each in plugin.hooks
    ]
    names = {str(path): name for path, name in plugin.names.items()}
    about = [str(plugin.root), plugin.enabled, plugin.version, hooks, plugin.servers, names]
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for path in (*plugin.commands, *plugin.skills, *plugin.agents, *plugin.styles):
        digest.update(os.fsencode(path) + b"\0")
        digest.update(hashlib.sha256(read_regular(path, MAX_FILE_BYTES)).digest())
    return digest.hexdigest().encode()

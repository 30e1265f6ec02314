"""Find the plugins that Claude Code has installed, and those that a flag gives. Nothing is downloaded.

~/.claude/plugins/installed_plugins.json   their directories
~/.claude/plugins/known_marketplaces.json  the marketplaces, whose entries may define parts of a plugin
enabledPlugins                             in settings files: {"name@marketplace": true}
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.extensions.approvals import ProjectItem
from agent.settings_files import MAX_SETTINGS_BYTES, claude_folder, json_object_in
from transcripts.storage import expand_home, is_foreign

from .contents import Plugin, read_plugin

MAX_LIST_BYTES = 8 * 1024 * 1024  # of a marketplace, or of the list of plugins


class PluginPlaces(Struct, frozen=True):
    """The sources of plugins.

    sources  the settings files to read; None for all
    given    the directories of --plugin-dir
    """

    folder: Path
    environ: Mapping[str, str]
    sources: Sequence[str] | None = None
    given: Sequence[str] = ()

    def plugins(self) -> list[Plugin]:
        """Return all plugins, enabled or not. Blocks on the disk."""
        settings = _enabled(self)
        installed = _installed(self) if self.sources is None or "user" in self.sources else {}
        found = []
        for id in sorted({*installed, *(id for id, setting in settings.items() if setting.enabled)}):
            setting = settings.get(id, _Setting(enabled=False, source="user"))
            entry = _Marketplace.of(claude_folder(self.environ), id)
            root = installed.get(id) or entry.root
            plugin = Plugin(id, root or Path(), source=setting.source, enabled=setting.enabled)
            if root is None or not root.is_dir():
                plugin = replace(plugin, problem=NOT_INSTALLED, missing_from=setting.path)
            elif root.resolve().is_relative_to(self.folder):
                plugin = replace(plugin, problem="in the project itself; use --plugin-dir to load it")
            found.append(_read(plugin, entry.fields))
        for text in self.given:
            root = Path(os.path.realpath(self.folder / expand_home(text)))
            problem = "" if root.is_dir() else "no such directory"
            plugin = Plugin(root.name, root, source="flag", problem=problem)
            found.append(_read(plugin, {}))
        return found


class _Setting(NamedTuple):
    """The entry of a plugin in enabledPlugins, with the settings file it is from."""

    enabled: bool
    source: str
    path: Path | None = None


def plugin_items(folder: Path, environ: Mapping[str, str]) -> list[ProjectItem]:
    """Return the enabled plugins, which need approval; see approvals.ItemSource."""
    found = PluginPlaces(folder, environ).plugins()
    return [plugin.item for plugin in found if plugin.enabled and not plugin.problem]


NOT_INSTALLED = "not on this machine; install it with Claude Code"


def _read(plugin: Plugin, entry: Mapping[str, Any]) -> Plugin:
    if plugin.problem:
        return plugin
    try:
        return read_plugin(plugin, entry)
    except (OSError, ValueError) as error:
        return replace(plugin, problem=str(error))


def _enabled(places: PluginPlaces) -> dict[str, _Setting]:
    """Return enabledPlugins of all settings files; for each plugin the most specific file counts."""
    files = {
        "user": claude_folder(places.environ) / "settings.json",
        "project": places.folder / ".claude" / "settings.json",
        "local": places.folder / ".claude" / "settings.local.json",
    }
    found: dict[str, _Setting] = {}
    for source, path in files.items():
        if places.sources is not None and source not in places.sources:
            continue
        if source != "user" and is_foreign(path, places.folder):
            continue
        given = json_object_in(path, MAX_SETTINGS_BYTES).get("enabledPlugins")
        for id, value in given.items() if isinstance(given, dict) else ():
            if isinstance(value, bool):
                found[id] = _Setting(value, source, path)
    return found


def _installed(places: PluginPlaces) -> dict[str, Path]:
    """Return the directories of installed plugins by id: of this project, else of the user."""
    path = claude_folder(places.environ) / "plugins" / "installed_plugins.json"
    plugins = json_object_in(path, MAX_LIST_BYTES).get("plugins")
    found: dict[str, Path] = {}
    for id, value in plugins.items() if isinstance(plugins, dict) else ():
        records = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
        near = [each for each in records if each.get("projectPath") == str(places.folder)]
        wide = [each for each in records if not each.get("projectPath")]
        for record in (near or wide)[:1]:
            if isinstance(place := record.get("installPath"), str):
                found[id] = expand_home(place)
    return found


class _Marketplace(NamedTuple):
    """The entry of a plugin in its marketplace, and its directory there; None if it has none."""

    fields: Mapping[str, Any]
    root: Path | None = None

    @classmethod
    def of(cls, claude: Path, id: str) -> _Marketplace:
        name, _, market = id.partition("@")
        folder = claude / "plugins"
        marketplace = json_object_in(folder / "known_marketplaces.json", MAX_LIST_BYTES).get(market)
        place = marketplace.get("installLocation") if isinstance(marketplace, dict) else None
        top = Path(place) if isinstance(place, str) else folder / "marketplaces" / market
        listed = json_object_in(top / ".claude-plugin" / "marketplace.json", MAX_LIST_BYTES)
        entry = next((each for each in _objects(listed.get("plugins")) if each.get("name") == name), {})
        source = entry.get("source")
        with suppress(ValueError):  # of a NUL
            if isinstance(source, str) and (top / source).resolve().is_relative_to(top.resolve()):
                return cls(entry, top / source)
        return cls(entry)


def _objects(given: object) -> Iterator[Mapping[str, Any]]:
    yield from (each for each in given if isinstance(each, dict)) if isinstance(given, list) else ()

"""The setting `sandbox`: whether commands run in a sandbox, and which paths they may use there. Pure.

In a file it is one word, `sandbox = "require"`, or a table. In the table, `mode` is that word, `project` may
make the project read-only for commands, `write` lists paths that they may write, and `read` secrets that they
may read.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct
from msgspec.structs import replace

from tools.sandbox import SandboxSetting

SANDBOX_MODES: tuple[SandboxSetting, ...] = get_args(SandboxSetting)
ProjectAccess = Literal["writable", "read-only"]
_PLACE_ENTRIES = ("write", "read")


class SandboxSettings(Struct, frozen=True):
    """The value of the setting. Paths are absolute or begin with `~/`."""

    mode: SandboxSetting = "auto"
    project: ProjectAccess = "writable"
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The mode, followed by "project read-only" if it is."""
        return self.mode if self.project == "writable" else f"{self.mode}, project read-only"

    def __str__(self) -> str:
        lists = ((name, " ".join(getattr(self, name))) for name in _PLACE_ENTRIES)
        return self.summary + "".join(f", {name} {places}" for name, places in lists if places)

    def with_entries(self, entries: Mapping[str, Any]) -> SandboxSettings:
        """Return the settings with the entries of a user's file: paths are added, other entries replaced."""
        added = dict(entries)
        for name in _PLACE_ENTRIES:
            if name in entries:
                added[name] = tuple(dict.fromkeys((*getattr(self, name), *entries[name])))
        return replace(self, **added)

    def tightened(self, entries: Mapping[str, Any]) -> TightenedSettings:
        """Return the settings with those entries of a project's file that are stricter."""
        strictness = {"off": 0, "auto": 1, "require": 2}
        ignored = [name for name in _PLACE_ENTRIES if entries.get(name)]
        mode = entries.get("mode", self.mode)
        if strictness[mode] < strictness[self.mode]:
            mode = self.mode
            ignored.insert(0, "mode")
        project = entries.get("project", self.project)
        if project == "writable" and self.project != project:
            project = self.project
            ignored.insert(0, "project")
        return TightenedSettings(replace(self, mode=mode, project=project), ignored)


class TightenedSettings(NamedTuple):
    """Settings with the stricter entries of a project's file, and the names of its ignored entries."""

    settings: SandboxSettings
    ignored: list[str]


def sandbox_entries(value: object) -> dict[str, Any]:
    """Return the valid entries of the setting. Raises ValueError with the values that it takes."""
    entries = value if isinstance(value, Mapping) else {"mode": value}
    checked: dict[str, Any] = {}
    for name, entry in entries.items():
        if name in _PLACE_ENTRIES:
            checked[name] = _places(name, entry)
        elif name not in ("mode", "project"):
            near = difflib.get_close_matches(name, ("mode", "project", *_PLACE_ENTRIES), 1)
            hint = f"did you mean {near[0]!r}?" if near else "use mode, project, write or read"
            raise ValueError(f"unknown entry {name!r}; {hint}")
        else:
            choices = SANDBOX_MODES if name == "mode" else get_args(ProjectAccess)
            if entry not in choices:
                label = f"{name} " if isinstance(value, Mapping) else ""
                raise ValueError(f"{label}must be one of {', '.join(choices)}, not {entry!r}")
            checked[name] = entry
    return checked


def _places(name: str, entry: object) -> tuple[str, ...]:
    if not isinstance(entry, list | tuple) or not all(isinstance(place, str) for place in entry):
        raise ValueError(f'{name} must be a list of paths, such as ["~/.cargo"]')
    for place in entry:
        if not place.startswith(("/", "~/")) or "\0" in place or ".." in place.split("/"):
            raise ValueError(f"{name} must contain absolute paths, such as ~/.cargo, not {place!r}")
        if posixpath.normpath(place) in ("/", "//", "~"):
            raise ValueError(f"{name} must not contain {place!r}, which would cover too much")
    return tuple(entry)

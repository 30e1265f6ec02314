"""The setting `sandbox`: whether commands are walled in, and what the wall lets through. Pure.

In a file it is one word, `sandbox = "require"`, or a table: `mode` is that word, `project` may make the
project read-only for commands, `write` and `read` name places that they may write, or secrets that they may
read.
"""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from tools.sandbox.wall import SandboxSetting

SANDBOX_MODES: tuple[SandboxSetting, ...] = get_args(SandboxSetting)
ProjectAccess = Literal["writable", "read-only"]
_STRICTNESS_OF_MODE = {"off": 0, "auto": 1, "require": 2}
_PLACE_ENTRIES = ("write", "read")


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What is set; places are absolute paths, `~` for the home."""

    mode: SandboxSetting = "auto"
    project: ProjectAccess = "writable"
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The mode, and whether the project is read-only."""
        return self.mode if self.project == "writable" else f"{self.mode}, project read-only"

    def __str__(self) -> str:
        lists = ((name, " ".join(getattr(self, name))) for name in _PLACE_ENTRIES)
        return self.summary + "".join(f", {name} {places}" for name, places in lists if places)


def sandbox_entries(value: object) -> dict[str, Any]:
    """The entries of the setting, checked. Raises ValueError that says what it takes."""
    entries = value if isinstance(value, Mapping) else {"mode": value}
    checked: dict[str, Any] = {}
    for name, entry in entries.items():
        if name in _PLACE_ENTRIES:
            checked[name] = _places(name, entry)
        elif name not in ("mode", "project"):
            near = difflib.get_close_matches(name, ("mode", "project", *_PLACE_ENTRIES), 1)
            hint = f"did you mean {near[0]!r}?" if near else "there are mode, project, write, read"
            raise ValueError(f"{name!r} is no entry; {hint}")
        else:
            known = SANDBOX_MODES if name == "mode" else get_args(ProjectAccess)
            if entry not in known:
                label = f"{name} " if isinstance(value, Mapping) else ""
                raise ValueError(f"{label}takes one of {', '.join(known)}, not {entry!r}")
            checked[name] = entry
    return checked


def _places(name: str, entry: object) -> tuple[str, ...]:
    if not isinstance(entry, list | tuple) or not all(isinstance(place, str) for place in entry):
        raise ValueError(f'{name} takes a list of paths, such as ["~/.cargo"]')
    for place in entry:
        if not place.startswith(("/", "~/")) or "\0" in place or ".." in place.split("/"):
            raise ValueError(f"{name} takes absolute paths, such as ~/.cargo, not {place!r}")
        if posixpath.normpath(place) in ("/", "//", "~"):
            raise ValueError(f"{name} takes no place as wide as {place!r}")
    return tuple(entry)


def with_entries(settings: SandboxSettings, entries: Mapping[str, Any]) -> SandboxSettings:
    """The settings with the entries of a file of the person: places add up, the rest replaces."""
    added: dict[str, Any] = {
        name: tuple(dict.fromkeys((*getattr(settings, name), *value))) if name in _PLACE_ENTRIES else value
        for name, value in entries.items()
    }
    return replace(settings, **added)


def tightened(settings: SandboxSettings, entries: Mapping[str, Any]) -> tuple[SandboxSettings, list[str]]:
    """The settings with what a project's file makes stricter, and the entries of it that do not count."""
    refused = [name for name in _PLACE_ENTRIES if entries.get(name)]
    mode, project = entries.get("mode", settings.mode), entries.get("project", settings.project)
    if _STRICTNESS_OF_MODE[mode] < _STRICTNESS_OF_MODE[settings.mode]:
        mode, refused = settings.mode, ["mode", *refused]
    if project == "writable" and settings.project != project:
        project, refused = settings.project, ["project", *refused]
    return replace(settings, mode=mode, project=project), refused

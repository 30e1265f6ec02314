"""The settings given by flags: --settings in our format or Claude Code's, prompts, directories."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from agent.errors import ConfigError, UsageError
from agent.permissions import known_rules, mode_named
from agent.settings_files import read_settings
from transcripts.storage import expand_home, read_regular
from transcripts.wording import cause_of

from .options import Options

MAX_GIVEN_BYTES = 4 * 1024 * 1024
# Entries of Claude Code's settings that only concern its appearance and housekeeping.
_HARMLESS = {
    "$schema", "cleanupPeriodDays", "includeCoAuthoredBy", "spinnerTipsEnabled", "theme",
    "verbose", "alwaysThinkingEnabled", "attribution",
}  # fmt: skip


class GivenSettings(Struct, frozen=True):
    """The values of --settings and --setting-sources, with the names that our settings files use.

    sources   the settings files to read: "user", "project", "local"; None: all
    environ   variables to set before anything else is read
    """

    entries: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    add_dirs: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def reads(self, source: str) -> bool:
        """Return whether the files of a source are read."""
        return self.sources is None or source in self.sources


def given_settings(text: str | None, sources: tuple[str, ...] | None, folder: Path) -> GivenSettings:
    """Read the value of --settings. Raises UsageError and ConfigError that name the remedy."""
    if not text or not text.strip():
        return GivenSettings(sources=sources)
    raw = _object(text.strip(), folder)
    permissions = raw.pop("permissions", None) or {}
    environ = raw.pop("env", None) or {}
    if not isinstance(permissions, dict) or not isinstance(environ, dict):
        raise ConfigError("--settings: permissions and env must be objects")
    entries, remarks = _own_entries(raw)
    for name in ("allow", "deny", "ask"):
        rules, unknown = _rules(_list_in(permissions, name), restricting=name != "allow")
        remarks += unknown
        if rules:
            entries[name] = [*entries.get(name, []), *rules]
    if mode := permissions.get("defaultMode"):
        entries["permission_mode"] = mode_named(str(mode)) or mode
    added = tuple(map(str, _list_in(permissions, "additionalDirectories")))
    variables = {str(name): str(value) for name, value in environ.items()}
    return GivenSettings(entries, sources=sources, environ=variables, add_dirs=added, remarks=tuple(remarks))


def _list_in(permissions: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list of the permissions; empty without one. Raises ConfigError for any other value."""
    found = permissions.get(name)
    if found is not None and not isinstance(found, list):
        raise ConfigError(f"--settings: permissions.{name} must be a list")
    return found or []


def added_folders(texts: Iterable[str], folder: Path) -> tuple[Path, ...]:
    """Return the real paths of additional directories, given relative to the project. Raises UsageError."""
    found = []
    for text in texts:
        path = Path(os.path.realpath(folder / expand_home(text)))  # resolve() raises RuntimeError for a loop
        if not path.is_dir():
            raise UsageError(f"--add-dir {text}: no such directory")
        found.append(path)
    return tuple(dict.fromkeys(path for path in found if path != folder))


def with_prompt_files(options: Options, folder: Path) -> Options:
    """Return the options with the system prompts read from their files. Raises UsageError."""
    replaced = options.system_prompt_file
    added = options.append_system_prompt_file
    if replaced is not None:
        options = structs.replace(options, system_prompt=_text_of(folder / replaced))
    if added is not None:
        texts = (options.append_system_prompt, _text_of(folder / added))
        options = structs.replace(options, append_system_prompt="\n\n".join(filter(None, texts)))
    return options


def _text_of(path: Path) -> str:
    try:
        return read_regular(expand_home(path), MAX_GIVEN_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise UsageError(f"cannot read the system prompt from {path}: {cause_of(error)}") from error


def _object(text: str, folder: Path) -> dict[str, Any]:
    """Return the object in a text, or in the file that the text names. Raises UsageError."""
    if text.startswith("{"):
        where = "--settings"
        data = text.encode("utf-8", "replace")
    else:
        path = folder / expand_home(text)
        where = f"--settings {path}"
        if path.suffix == ".toml":
            return read_settings(path)
        try:
            data = read_regular(path, MAX_GIVEN_BYTES).removeprefix(b"\xef\xbb\xbf")
        except OSError as error:
            raise UsageError(f"{where}: {cause_of(error)}; pass a file or a JSON object") from error
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not a valid JSON object ({error})") from error
    if not isinstance(found, dict):
        raise UsageError(f"{where}: not a JSON object")
    return found


def _own_entries(raw: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the entries under our names, and lines about those without effect. Raises UsageError."""
    entries: dict[str, Any] = {}
    remarks: list[str] = []
    for name, value in raw.items():
        if name == "sandbox":
            entries[name] = _sandbox(value)
        elif name == "outputStyle" and isinstance(value, str) and value:
            entries["output_style"] = value
        elif name == "statusLine":
            entries["status_line"] = value
        elif name == "disableAllHooks" or name in _HARMLESS:
            remarks.append(f"--settings: {name} has no effect here")
        else:
            entries[name] = value
    return entries, remarks


def _sandbox(value: Any) -> Any:
    """Return our sandbox setting for Claude Code's `sandbox` object. Raises UsageError."""
    if not isinstance(value, dict) or "enabled" not in value:
        return value
    if others := sorted(set(value) - {"enabled", "autoAllowBashIfSandboxed", "failIfUnavailable"}):
        raise UsageError(
            f"--settings: sandbox.{others[0]} cannot be enforced here; use the setting [sandbox] instead"
        )
    return {"mode": "require" if value["enabled"] else "auto"}


def _rules(texts: Iterable[Any], restricting: bool) -> tuple[list[str], list[str]]:
    """Return the rules about known tools, and lines about the others. Raises ConfigError."""
    rules: list[str] = []
    remarks: list[str] = []
    for text in texts:
        try:
            found, unknown = known_rules(str(text), restricting)
        except ValueError as error:
            raise ConfigError(f"--settings: {error}") from error
        rules += map(str, found)
        remarks += [f"--settings: {line}" for line in unknown]
    return rules, remarks

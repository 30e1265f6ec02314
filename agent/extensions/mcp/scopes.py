"""The files in which MCP servers are configured, what they come to together, and changes of one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from transcripts.disk import make_private_folders, read_regular, replace_file

from .entries import Scope, ServerEntry, read_entry, servers_in
from .presence import PROJECT_SERVER_FILES, USER_SERVER_FILE

MAX_MCP_FILE_BYTES = 4 * 1024 * 1024
CLAUDE_FILE = ".claude.json"


@dataclass(frozen=True, slots=True)
class McpPlaces:
    """Where servers of a run are configured.

    given   what --mcp-config names: JSON, or files
    strict  nothing else counts (--strict-mcp-config)
    reads   the scopes whose files are read
    """

    folder: Path
    user_dir: Path
    given: tuple[str, ...] = ()
    strict: bool = False
    reads: tuple[str, ...] = ("local", "project", "user")

    def path(self, scope: Scope) -> Path:
        """The file of a scope."""
        return {
            "local": self.folder / PROJECT_SERVER_FILES[0],
            "project": self.folder / PROJECT_SERVER_FILES[1],
            "user": self.user_dir / USER_SERVER_FILE,
        }[scope]


@dataclass(frozen=True, slots=True)
class ConfiguredServers:
    """The servers of all scopes by name, and a line about each file that could not be read."""

    entries: tuple[ServerEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def named(self, name: str) -> ServerEntry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


def configured_entries(places: McpPlaces, environ: Mapping[str, str]) -> ConfiguredServers:
    """Every configured server; of one name the nearest scope counts. Raises UsageError for --mcp-config."""
    found = {name: read_entry(name, raw, "flag", environ) for name, raw in given_servers(places).items()}
    warnings: list[str] = []
    scopes: tuple[Scope, ...] = () if places.strict else ("local", "project", "user")
    for scope in scopes:
        if scope not in places.reads:
            continue
        try:
            raws = servers_in(read_json(places.path(scope)), str(places.path(scope)))
        except (OSError, ValueError) as error:
            warnings.append(f"no MCP servers are taken from {_told(places.path(scope), error)}")
            continue
        found = {name: read_entry(name, raw, scope, environ) for name, raw in raws.items()} | found
    return ConfiguredServers(tuple(found[name] for name in sorted(found)), tuple(warnings))


def servers_of_claude(home: Path, folder: Path) -> dict[Scope, dict[str, Mapping[str, Any]]]:
    """The servers that Claude Code has for the person, and for them in this project. Raises ValueError."""
    path = home / CLAUDE_FILE
    try:
        data = read_json(path)
        projects = data.get("projects")
        own = projects.get(str(folder)) if isinstance(projects, dict) else None
        near = servers_in(own, f"{path}: projects") if isinstance(own, dict) else {}
        return {"user": servers_in(data, str(path)), "local": near}
    except OSError as error:
        raise ValueError(_told(path, error)) from error


def given_servers(places: McpPlaces) -> dict[str, Mapping[str, Any]]:
    """The servers that --mcp-config names. Raises UsageError."""
    found: dict[str, Mapping[str, Any]] = {}
    for text in places.given:
        given = text.strip()
        try:
            if given.startswith("{"):
                found |= servers_in(json.loads(given), "--mcp-config")
                continue
            path = places.folder / Path(given).expanduser()
            raw = json.loads(read_regular(path, MAX_MCP_FILE_BYTES).decode("utf-8-sig"))
            found |= servers_in(raw, f"--mcp-config {given}")
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"--mcp-config {given[:200]}: {_reason(error)}") from error
    return found


def read_json(path: Path) -> dict[str, Any]:
    """The object in a file; an empty one where there is no file. Raises OSError and ValueError."""
    try:
        data = json.loads(read_regular(path, MAX_MCP_FILE_BYTES).decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(data, dict):
        raise ValueError("it holds no JSON object")
    return data


def _told(path: Path, error: Exception) -> str:
    reason = _reason(error)
    return reason if reason.startswith(str(path)) else f"{path}: {reason}"


def _reason(error: Exception) -> str:
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)


def store_entry(path: Path, name: str, raw: Mapping[str, Any] | None) -> bool:
    """Put an entry into a file, or remove it (None); everything else in the file stays as it is.

    Returns whether there was one of that name. Raises UsageError where the file cannot be read, OSError where
    it cannot be written.
    """
    try:
        data = read_json(path)
        servers = dict(servers_in(data, str(path)))
    except (OSError, ValueError) as error:
        raise UsageError(f"{_told(path, error)}; correct it first") from error
    existed = name in servers
    if raw is None and not existed:
        return False
    servers = {key: value for key, value in servers.items() if key != name}
    if raw is not None:
        servers[name] = raw
    _write(path, {**data, "mcpServers": servers})
    return existed


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the file, through a link to it, with the mode that it had; a project's is for its team."""
    real = path.resolve()
    mode = (
        real.stat().st_mode & 0o777
        if real.exists()
        else 0o644
        if path.name == PROJECT_SERVER_FILES[1]
        else 0o600
    )
    make_private_folders(real.parent)
    replace_file(real, json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n")
    real.chmod(mode)

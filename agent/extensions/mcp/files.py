"""The files that configure MCP servers: find them, read them together, and change an entry."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from agent.errors import UsageError
from agent.settings_files import json_object
from transcripts.storage import expand_home, locked, make_private_folders, read_regular, replace_file
from transcripts.wording import cause_of

from .entries import RawEntry, Scope, ServerEntry, is_flat, read_entry, servers_in, with_project

MAX_MCP_FILE_BYTES = 4 * 1024 * 1024
FileScope = Literal["local", "project", "user"]
FILE_SCOPES: tuple[FileScope, ...] = ("local", "project", "user")


class ConfiguredServers(Struct, frozen=True):
    """The servers of all scopes by name, and a line about each file that could not be read."""

    entries: tuple[ServerEntry, ...] = ()
    warnings: tuple[str, ...] = ()

    def named(self, name: str) -> ServerEntry | None:
        return next((entry for entry in self.entries if entry.name == name), None)


class ServerFiles(Struct, frozen=True):
    """The files and flags that configure the servers of a run.

    folder    the project's directory; `user_dir` is our settings directory
    given     the values of --mcp-config: JSON, or files
    strict    all other files are ignored (--strict-mcp-config)
    reads     the scopes whose files are read
    """

    folder: Path
    user_dir: Path
    given: tuple[str, ...] = ()
    strict: bool = False
    reads: Sequence[str] = FILE_SCOPES

    def path(self, scope: FileScope) -> Path:
        """Return the file of a scope."""
        match scope:
            case "local":
                return self.folder / ".makeroom" / "mcp.local.json"
            case "project":
                return self.folder / ".mcp.json"
            case "user":
                return self.user_dir / "mcp.json"

    def may_name_servers(self) -> bool:
        """Return true if a flag or any file configures servers; the files are not read."""
        if self.given:
            return True
        return not self.strict and any(self.path(scope).exists() for scope in FILE_SCOPES)

    def has(self, scope: FileScope, name: str) -> bool:
        """Return true if the file of a scope has an entry of that name."""
        try:
            return name in self.raw_entries(scope)
        except (OSError, ValueError):
            return False

    def raw_entries(self, scope: FileScope) -> dict[str, RawEntry]:
        """Return the entries in the file of a scope. Raises OSError and ValueError."""
        return servers_in(_read_json(self.path(scope)), str(self.path(scope)))

    def given_entries(self) -> dict[str, RawEntry]:
        """Return the entries that --mcp-config names. Raises UsageError."""
        found: dict[str, RawEntry] = {}
        for text in self.given:
            given = text.strip()
            try:
                if given.startswith("{"):
                    found |= servers_in(json.loads(given), "--mcp-config")
                    continue
                path = self.folder / expand_home(given)
                raw = json.loads(read_regular(path, MAX_MCP_FILE_BYTES).decode("utf-8-sig"))
                found |= servers_in(raw, f"--mcp-config {given}")
            except (OSError, ValueError, RecursionError) as error:
                raise UsageError(f"--mcp-config {given[:200]}: {_reason(error)}") from error
        return found

    def servers(self, environ: Mapping[str, str]) -> ConfiguredServers:
        """Return every configured server; for each name, the one of the most specific scope.

        Raises UsageError for --mcp-config.
        """
        given = self.given_entries()
        found = {name: self.entry(name, raw, "flag", environ) for name, raw in given.items()}
        warnings: list[str] = []
        for scope in () if self.strict else FILE_SCOPES:
            if scope not in self.reads:
                continue
            try:
                raws = self.raw_entries(scope)
            except (OSError, ValueError) as error:
                warnings.append(f"cannot read MCP servers: {_described(self.path(scope), error)}")
                continue
            found = {name: self.entry(name, raw, scope, environ) for name, raw in raws.items()} | found
        return ConfiguredServers(tuple(found[name] for name in sorted(found)), tuple(warnings))

    def entry(self, name: str, raw: RawEntry, scope: Scope, environ: Mapping[str, str]) -> ServerEntry:
        """Return the entry of a server, which may refer to the environment and the project's directory."""
        return read_entry(name, raw, scope, with_project(environ, self.folder))

    def entries_of_claude(self, home: Path) -> dict[FileScope, dict[str, RawEntry]]:
        """Return the entries that Claude Code has for the user, and for the user in this project.

        Raises ValueError.
        """
        path = home / ".claude.json"
        try:
            data = _read_json(path)
        except OSError as error:
            raise ValueError(_described(path, error)) from error
        projects = data.get("projects")
        own = projects.get(str(self.folder)) if isinstance(projects, dict) else None
        near = servers_in(own, f"{path}: projects") if isinstance(own, dict) else {}
        return {"user": servers_in(data, str(path)), "local": near}

    def store(self, scope: FileScope, name: str, raw: RawEntry) -> bool:
        """Put an entry into the file of a scope; return whether it replaced one. Raises as `store_entry`."""
        path = self.path(scope)
        with self._locked():
            replaced = store_entry(path, name, raw)
        if scope == "local":
            with suppress(FileExistsError), (path.parent / ".gitignore").open("x") as file:
                file.write("mcp.local.json\n.gitignore\n")  # this file too, since none of it is shared
        return replaced

    def remove(self, scope: FileScope, name: str) -> bool:
        """Remove an entry; return whether there was one. Raises as `store_entry`."""
        with self._locked():
            return store_entry(self.path(scope), name, None)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other sessions from saving entries, of any file: commands could hold a lock in the project."""
        with ExitStack() as held:
            with suppress(OSError):  # as in a home directory that is read-only
                held.enter_context(locked(self.path("user")))
            yield


def store_entry(path: Path, name: str, raw: RawEntry | None) -> bool:
    """Put an entry into a file, or remove it (None). The rest of the file is unchanged.

    Returns whether there was one of that name. Raises UsageError if the file cannot be read, OSError if it
    cannot be written.
    """
    try:
        data = _read_json(path)
        servers = dict(servers_in(data, str(path)))
    except (OSError, ValueError) as error:
        raise UsageError(f"{_described(path, error)}; fix the file first") from error
    existed = name in servers
    if raw is None and not existed:
        return False
    servers.pop(name, None)
    if raw is not None:
        servers[name] = raw
    _write(path, servers if is_flat(data) else {**data, "mcpServers": servers})
    return existed


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one if there is no file. Raises OSError and ValueError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return json_object(read_regular(path, MAX_MCP_FILE_BYTES))
    return {}


def _described(path: Path, error: Exception) -> str:
    reason = _reason(error)
    return reason if reason.startswith(str(path)) else f"{path}: {reason}"


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON ({error})"
    return cause_of(error)


def _write(path: Path, data: Mapping[str, Any]) -> None:
    """Replace the file, following a link, and keep its mode. A new `.mcp.json` is readable by others."""
    real = path.resolve()
    usual = 0o644 if path.name == ".mcp.json" else 0o600
    mode = real.stat().st_mode & 0o777 if real.exists() else usual
    make_private_folders(real.parent)
    replace_file(real, json.dumps(data, indent=2, ensure_ascii=False).encode() + b"\n")
    real.chmod(mode)

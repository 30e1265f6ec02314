"""The entries of configured MCP servers, with variables filled in. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from transcripts.secrets import SecretMasks, mask, secret_values

Scope = Literal["flag", "local", "project", "user"]
ServerKind = Literal["stdio", "http", "sse", "sdk"]
RawEntry = Mapping[str, Any]  # as written in the file
MAX_SERVER_NAME_CHARS = 64
PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"
VARIABLE = r"(?a:\$\{([A-Za-z_]\w*)(?::-([^}]*))?\})"
PLUGIN_PREFIX = "plugin:"


class _MissingVariables(ValueError):
    """An entry refers to variables that are not set."""


class ServerEntry(Struct, frozen=True):
    """One configured server, with its variables filled in.

    raw          the entry as written
    cwd          the directory that it starts in, "" for the project's
    timeout_s    the limit of each call, None for the default
    always_load  its tools are offered to the model directly
    off          it is not started until the user enables it
    problem      the reason why it cannot be started, "" if it can; `remarks` are other lines
    may_be_set   the only reason is that variables are not set, which they may be later
    """

    name: str
    scope: Scope
    kind: ServerKind
    raw: RawEntry
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = {}
    timeout_s: float | None = None
    always_load: bool = False
    off: bool = False
    problem: str = ""
    may_be_set: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def is_of_plugin(self) -> bool:
        """Return whether a plugin defines it, which is approved as a whole."""
        return self.name.startswith(PLUGIN_PREFIX)

    @property
    def masks(self) -> SecretMasks:
        """The secrets that it is given, which are masked in everything that the server returns."""
        given = {**self.env, **self.headers}
        signed = (value.split() for name, value in given.items() if name.lower() == "authorization")
        tokens = {f"AUTH_TOKEN_{number}": words[-1] for number, words in enumerate(signed) if words}
        return SecretMasks(tuple(secret_values({**given, **tokens})))

    @property
    def written_args(self) -> list[str]:
        """The arguments of its command as written; [] if they are not a list."""
        found = self.raw.get("args")
        return [*map(str, found)] if isinstance(found, list) else []

    @property
    def shows(self) -> str:
        """Its command or URL as written, without secrets: variables appear by name."""
        if self.kind == "stdio":
            return mask(" ".join((str(self.raw.get("command", "")), *self.written_args)))
        if self.kind == "sdk":
            return "in the client"
        without_login = re.sub(r"//[^/@\s]*@", "//…@", str(self.raw.get("url", "")))
        return mask(re.sub(r"([?&][^=&#]*)=(?!\$\{)[^&#]+", r"\1=…", without_login))


def canonical_bytes(raw: RawEntry) -> bytes:
    """Return the same bytes for an entry regardless of the layout of its file."""
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def servers_in(data: object, place: str) -> dict[str, RawEntry]:
    """Return the servers of a file's content, which may be the value of `mcpServers` alone.

    Raises ValueError with a line that names the place.
    """
    found = data.get("mcpServers", {}) if isinstance(data, dict) else None
    if isinstance(data, dict) and is_flat(data):
        found = data
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError(f'{place}: it must have the form {{"mcpServers": {{"name": {{...}}}}}}')
    return found


def is_flat(data: Mapping[str, Any]) -> bool:
    """Return whether the servers of a file are its own entries, as in the files of plugins."""
    return (
        "mcpServers" not in data
        and bool(data)
        and all(isinstance(each, dict) and ("command" in each or "url" in each) for each in data.values())
    )


def read_entry(name: str, raw: RawEntry, scope: Scope, environ: Mapping[str, str]) -> ServerEntry:
    """Return the entry of a server, with the error in `problem` if there is one."""
    try:
        return _read(name, raw, scope, environ)
    except ValueError as error:
        kind = _kind(str(raw.get("type", ""))) or ("http" if "url" in raw else "stdio")
        may_be_set = isinstance(error, _MissingVariables)
        return ServerEntry(name, scope=scope, kind=kind, raw=raw, problem=str(error), may_be_set=may_be_set)


def with_project(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables that entries may refer to: the environment and the project's directory."""
    return {**environ, PROJECT_VARIABLE: str(folder)}


def plugin_entries(
    plugin: str, root: Path, raws: Mapping[str, RawEntry], environ: Mapping[str, str], folder: Path
) -> list[ServerEntry]:
    """Return the entries of an approved plugin's servers, under its name and theirs.

    The entries and the servers are given the directories of the plugin and of the project, `folder`.
    """
    places = with_project({"CLAUDE_PLUGIN_ROOT": str(root)}, folder)
    found = (
        read_entry(f"{PLUGIN_PREFIX}{plugin}:{name}", raw, "user", {**environ, **places})
        for name, raw in raws.items()
    )
    return [replace(entry, env={**places, **entry.env}) for entry in found]


def _kind(written: str) -> ServerKind | None:
    """Return the kind with that name; http has three names."""
    if written in ("streamable-http", "streamableHttp"):
        return "http"
    return next((kind for kind in get_args(ServerKind) if kind == written), None)


def _read(name: str, raw: RawEntry, scope: Scope, environ: Mapping[str, str]) -> ServerEntry:
    if not name or len(name) > MAX_SERVER_NAME_CHARS or not name.isprintable():
        raise ValueError(f"the name of a server must have 1 to {MAX_SERVER_NAME_CHARS} printable characters")
    written = raw.get("type", "http" if "url" in raw and "command" not in raw else "stdio")
    kind = _kind(str(written))
    if kind is None:
        raise ValueError(f"unknown type {written!r}; use stdio, http or sse")
    needed = {"stdio": "command", "http": "url", "sse": "url"}.get(kind)
    if needed is not None and not (isinstance(raw.get(needed), str) and raw[needed].strip()):
        raise ValueError(f"it has no {needed}")
    filling = _Filling(environ)
    entry = ServerEntry(
        name=name,
        scope=scope,
        kind=kind,
        raw=raw,
        command=filling.fill(str(raw.get("command", ""))),
        args=tuple(map(filling.fill, _args(raw))),
        env={key: filling.fill(value) for key, value in _pairs(raw, "env").items()},
        cwd=filling.fill(_directory(raw)),
        url=filling.fill(str(raw.get("url", ""))),
        headers={key: filling.fill(value) for key, value in _pairs(raw, "headers").items()},
        timeout_s=_timeout(raw.get("timeout")),
        always_load=raw.get("alwaysLoad") is True,
        off=raw.get("disabled") is True or raw.get("enabled") is False,
        remarks=tuple(_remarks(raw, kind)),
    )
    if filling.missing:
        names = sorted(filling.missing)
        number, verb = ("variable", "is") if len(names) == 1 else ("variables", "are")
        raise _MissingVariables(f"it needs the {number} {', '.join(names)}, which {verb} not set")
    if kind in ("http", "sse") and not re.match(r"https?://[^/\s]", entry.url):
        raise ValueError(f"its url {entry.url[:80]!r} is not an http:// or https:// URL")
    return entry


def _remarks(raw: RawEntry, kind: ServerKind) -> Iterator[str]:
    """Yield a line about a deprecated transport, and about each field that has no effect here."""
    if kind == "sse":
        yield "the transport sse is deprecated; use http if the server supports it"
    if "headersHelper" in raw:
        yield "headersHelper is ignored; use headers with ${VARIABLE}, or log in with /mcp login"
    for name in ("alwaysAllow", "autoApprove"):
        if raw.get(name):
            yield f"{name} is ignored; each tool needs your approval, or an allow rule"


class _Filling:
    """Fills in `${VAR}` and `${VAR:-default}`; `missing` contains the variables without a value."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.missing: set[str] = set()

    def fill(self, text: str) -> str:
        return re.sub(VARIABLE, self._value, text)

    def _value(self, match: re.Match[str]) -> str:
        name, default = match.groups()
        if self._environ.get(name) or (default is None and name in self._environ):
            return self._environ[name]
        if default is None:
            self.missing.add(name)
        return default or ""


def variables_in(raw: RawEntry) -> list[str]:
    """Return the names of the variables that an entry refers to, anywhere."""
    text = json.dumps(raw, ensure_ascii=False)
    return sorted({match[1] for match in re.finditer(VARIABLE, text)})


def _directory(raw: RawEntry) -> str:
    found = raw.get("cwd") or ""
    if not isinstance(found, str):
        raise ValueError("its cwd must be a directory")
    return found


def _args(raw: RawEntry) -> list[str]:
    found = raw.get("args") or []
    if not isinstance(found, list) or not all(isinstance(each, str | int | float) for each in found):
        raise ValueError("its args must be a list of strings")
    return list(map(str, found))


def _pairs(raw: RawEntry, key: str) -> dict[str, str]:
    found = raw.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(v, str | int | float) for v in found.values()):
        raise ValueError(f"its {key} must be an object of strings")
    return {str(name): str(value) for name, value in found.items()}


def _timeout(given: object) -> float | None:
    """Return a `timeout` in seconds. Values below 1,000 ms are ignored as errors, as elsewhere."""
    if not isinstance(given, int | float) or given < 1_000:
        return None
    return given / 1000

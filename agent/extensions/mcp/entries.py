"""What is configured about an MCP server: entries of JSON files as values, with variables put in. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from agent.permissions import FOREIGN_PREFIX
from transcripts.masking import SecretMasks, mask
from transcripts.secret_forms import secret_values

Scope = Literal["flag", "local", "project", "user"]
ServerKind = Literal["stdio", "http", "sse", "sdk"]
MAX_SERVER_TOOL_NAME_CHARS = 128  # that the API takes
MIN_CALL_TIMEOUT_MS = 1_000  # a smaller `timeout` is taken for a mistake, as elsewhere
MAX_SERVER_NAME_CHARS = 64
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}", re.ASCII)
_LOGIN_IN_URL = re.compile(r"//[^/@\s]*@")
_VALUE_IN_URL = re.compile(r"([?&][^=&#]*)=(?!\$\{)[^&#]+")
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_-]")
_SERVER_KINDS: Mapping[str, ServerKind] = {
    **{kind: kind for kind in get_args(ServerKind)},
    "streamable-http": "http",
    "streamableHttp": "http",
}


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One configured server, with its variables put in.

    `timeout_s` limits each call, None: as usual. `always_load`: its tools are offered to the model directly.
    `problem` is a line that says why it cannot be started, "" where it can; `remarks` are further lines.
    `raw` is the entry as it is written.
    """

    name: str
    scope: Scope
    kind: ServerKind
    raw: Mapping[str, Any]
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    always_load: bool = False
    problem: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def masks(self) -> SecretMasks:
        """The secrets among what it is given, which nothing that it says may repeat."""
        given = {**self.env, **self.headers}
        signed = (value.split() for name, value in given.items() if name.lower() == "authorization")
        tokens = {f"AUTH_TOKEN_{number}": words[-1] for number, words in enumerate(signed) if words}
        return SecretMasks(tuple(secret_values({**given, **tokens})))

    @property
    def shows(self) -> str:
        """What it starts or reaches, as it is written, without secrets: variables stand there by name."""
        if self.kind == "stdio":
            return mask(" ".join((str(self.raw.get("command", "")), *map(str, self.raw.get("args") or ()))))
        url = _LOGIN_IN_URL.sub("//…@", str(self.raw.get("url", "")))
        return "within the client" if self.kind == "sdk" else mask(_VALUE_IN_URL.sub(r"\1=…", url))


def canonical_bytes(raw: Mapping[str, Any]) -> bytes:
    """An entry as the same bytes however its file is laid out."""
    return json.dumps(raw, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def servers_in(data: Any, place: str) -> dict[str, Mapping[str, Any]]:
    """The servers of a file's content. Raises ValueError with a line that names the place."""
    found = data.get("mcpServers", {}) if isinstance(data, dict) else None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError(f'{place}: it has the form {{"mcpServers": {{"name": {{...}}}}}}')
    return found


def read_entry(name: str, raw: Mapping[str, Any], scope: Scope, environ: Mapping[str, str]) -> ServerEntry:
    """The entry of a server; what is wrong with it stands in `problem`."""
    try:
        return _read(name, raw, scope, environ)
    except ValueError as error:
        kind = _SERVER_KINDS.get(str(raw.get("type", "")), "http" if "url" in raw else "stdio")
        return ServerEntry(name, scope, kind, raw, problem=str(error))


def _read(name: str, raw: Mapping[str, Any], scope: Scope, environ: Mapping[str, str]) -> ServerEntry:
    if not name or len(name) > MAX_SERVER_NAME_CHARS or not name.isprintable():
        raise ValueError(f"a server's name has 1 to {MAX_SERVER_NAME_CHARS} printable characters")
    written = raw.get("type", "http" if "url" in raw and "command" not in raw else "stdio")
    kind = _SERVER_KINDS.get(str(written))
    if kind is None:
        raise ValueError(f"its type {written!r} is none of stdio, http, sse")
    missing: set[str] = set()

    def filled(text: str) -> str:
        return _expand(text, environ, missing)

    needed = {"stdio": "command", "http": "url", "sse": "url"}.get(kind)
    if needed is not None and not (isinstance(raw.get(needed), str) and raw[needed].strip()):
        raise ValueError(f"it has no {needed}")
    entry = ServerEntry(
        name,
        scope,
        kind,
        raw,
        command=filled(str(raw.get("command", ""))),
        args=tuple(map(filled, _texts(raw, "args"))),
        env={key: filled(value) for key, value in _pairs(raw, "env").items()},
        url=filled(str(raw.get("url", ""))),
        headers={key: filled(value) for key, value in _pairs(raw, "headers").items()},
        timeout_s=_timeout(raw.get("timeout")),
        always_load=raw.get("alwaysLoad") is True,
        remarks=("the transport sse is deprecated: use http if the server has it",) if kind == "sse" else (),
    )
    if missing:
        raise ValueError(f"it needs the variable {', '.join(sorted(missing))}, which is not set")
    if kind in ("http", "sse") and not re.match(r"https?://[^/\s]", entry.url):
        raise ValueError(f"its url {entry.url[:80]!r} is no http address")
    return entry


def _expand(text: str, environ: Mapping[str, str], missing: set[str]) -> str:
    """The text with `${VAR}` and `${VAR:-default}` put in; names without a value go into `missing`."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if environ.get(name) or (default is None and name in environ):
            return environ[name]
        if default is None:
            missing.add(name)
        return default or ""

    return _VARIABLE.sub(value, text)


def variables_in(raw: Mapping[str, Any]) -> list[str]:
    """The names of the variables that an entry has put in, anywhere."""
    text = json.dumps(raw, ensure_ascii=False)
    return sorted({match[1] for match in _VARIABLE.finditer(text)})


def _texts(raw: Mapping[str, Any], key: str) -> list[str]:
    found = raw.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, str | int | float) for each in found):
        raise ValueError(f"its {key} are no list of texts")
    return list(map(str, found))


def _pairs(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    found = raw.get(key) or {}
    if not isinstance(found, dict) or not all(isinstance(v, str | int | float) for v in found.values()):
        raise ValueError(f"its {key} are no object of texts")
    return {str(name): str(value) for name, value in found.items()}


def _timeout(given: Any) -> float | None:
    usable = isinstance(given, int | float) and not isinstance(given, bool) and given >= MIN_CALL_TIMEOUT_MS
    return given / 1000 if usable else None


def server_words(names: Iterable[str]) -> dict[str, str]:
    """Name of a server -> the word that stands for it in the names of its tools, each a different one.

    A word holds no `__`: a rule about one server must not name the tools of another.
    """
    words: dict[str, str] = {}
    for name in sorted(set(names), key=lambda each: (_word(each) != each, each)):
        word = _word(name) or "server"
        words[name] = word if word not in words.values() else f"{word}_{_digest(name)}"
    return words


def _word(name: str) -> str:
    return re.sub(r"__+", "_", _UNNAMEABLE.sub("_", name)).strip("_")


def tool_names(word: str, names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Name of each tool of a server -> `mcp__server__tool`; those that are too long are left out.

    Names that come to the same, or to one of `taken`, get a hash.
    """
    found: dict[str, str] = {}
    used = set(taken)
    for name in sorted(set(names), key=lambda each: (bool(_UNNAMEABLE.search(each)), each)):
        full = f"{FOREIGN_PREFIX}{word}__{_UNNAMEABLE.sub('_', name)}"
        full = full if full not in used else f"{full}_{_digest(name)}"
        if name and len(full) <= MAX_SERVER_TOOL_NAME_CHARS:
            found[name] = full
            used.add(full)
    return found


def meant_call(name: str, given: Any) -> tuple[str, Any]:
    """Name and input of a call as they are told: one through the tool `mcp` is one of the server's tool."""
    if name != "mcp" or not isinstance(given, dict) or given.get("action") != "call":
        return name, given
    server, tool = str(given.get("server", "")), str(given.get("tool", ""))
    arguments = given.get("arguments")
    if not tool.startswith(FOREIGN_PREFIX):
        tool = f"{FOREIGN_PREFIX}{_word(server)}__{_UNNAMEABLE.sub('_', tool)}"
    return tool, arguments if isinstance(arguments, dict) else {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:6]

"""Settings: the user's file, then the project's, then the environment; flags come last and elsewhere.

A project's file comes with the checkout, so it can only tune and tighten: it names no server, key, hook,
model, allow rule or bypass. One bad entry is a warning and voids nothing else; a file that is no TOML at
all is an error, with its line.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent.errors import ConfigError
from agent.permissions.permission_store import permissions_path
from agent.permissions.rules import MODES, Rule, parse_rules
from compact.settings import settings_from
from transcripts.masking import SHORTEST

OFFICIAL = "https://api.anthropic.com"
NO = ("0", "false", "no", "off")  # what switches a variable of the environment off
HOOKS = ("pre_compact", "post_compact", "pre_tool")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
TIGHTER = ("manual", "dontAsk")
_SIGNS = re.compile(r"auth|key|token|secret|cookie|pass|sign", re.IGNORECASE)  # names of headers


@dataclass(frozen=True, slots=True)
class Config:
    """Everything settable, with its default. `compact` holds the entries of the [compact] table."""

    model: str | None = None
    effort: str | None = None
    max_tokens: int = 32_000
    context_window: int | None = None
    cache: str = "5m"
    base_url: str | None = None
    key: str | None = None
    token: str | None = None
    timeout: float | None = None  # seconds without a byte of an answer; None chooses by the server
    permission_mode: str = "manual"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    pass_env: tuple[str, ...] = ()
    hooks: Mapping[str, str] = field(default_factory=dict)
    compact: Mapping[str, Any] = field(default_factory=dict)
    custom_headers: Mapping[str, str] = field(default_factory=dict)
    user_dir: Path = Path()
    cache_dir: Path = Path()
    state_dir: Path = Path()
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)  # where each name was set: a file, a variable

    @property
    def official(self) -> bool:
        """Whether requests go to the service itself, which takes every field that we send."""
        return self.base_url is None or self.base_url.rstrip("/") == OFFICIAL

    @property
    def secrets(self) -> tuple[str, ...]:
        """The exact values that must not stand in any record: keys, and what signs requests besides."""
        headers = [value for name, value in self.custom_headers.items() if _SIGNS.search(name)]
        found = [self.key, self.token, *headers, *(value.partition(" ")[2] for value in headers)]
        if self.base_url:
            found.append(unquote(urlsplit(self.base_url).password or ""))
            found.append(urlsplit(self.base_url).password)
        return tuple(dict.fromkeys(value for value in found if value and len(value) >= SHORTEST))


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("takes a text")
    return value.strip()


def _url(value: Any) -> str:
    parts = urlsplit(_text(value))
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
        raise ValueError("takes a URL such as http://localhost:11434")
    return parts.geturl()


def _secret(value: Any) -> str:
    if not (text := _text(value)).isascii() or not text.isprintable():
        raise ValueError("holds characters that no key has: copy it again")
    return text


def _whole(value: Any) -> int:
    number = _number(value)
    if not 1 <= number < math.inf or number != int(number):
        raise ValueError(f"takes a whole number of at least 1, not {value!r}")
    return int(number)


def _seconds(value: Any) -> float:
    if not 1 <= (seconds := _number(value)) < 1e6:
        raise ValueError(f"takes seconds, at least 1, not {value!r}")
    return seconds


def _milliseconds(value: Any) -> float:
    if not 1e3 <= (number := _number(value)) < 1e9:
        raise ValueError("takes milliseconds, at least 1000")
    return number / 1000


def _number(value: Any) -> float:
    """The number that a value is or holds; not a number (NaN, which fits no limits) where it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(str(value).replace("_", ""))
    except ValueError:
        return math.nan


def _one_of(*choices: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"takes one of {', '.join(choices)}")
        return str(value)

    return check


def _rules(value: Any) -> tuple[Rule, ...]:
    if not isinstance(value, list):
        raise ValueError(f'takes a list of rules, such as ["bash(git status)"], not {value!r}')
    return tuple(rule for text in value for rule in parse_rules(str(text)))


def _deny(value: Any) -> tuple[Rule, ...]:
    """No mere warning for an error here: what was meant to be forbidden would be allowed."""
    try:
        return _rules(value)
    except ValueError as error:
        hint = f"; write deny = [{_quoted(value)}]" if isinstance(value, str) else ""
        raise ConfigError(f"deny: {error}{hint}") from error


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("takes a list of texts")
    return tuple(_text(item) for item in value)


def _compact(value: Any) -> dict[str, Any]:
    """No mere warning for an error here: a session would lose what it was meant to keep."""
    try:
        settings_from(dict(value))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return dict(value)


def _hooks(value: Any) -> Mapping[str, str]:
    """No mere warning for an error here: a hook that was to forbid things would not run."""
    if not isinstance(value, dict):
        raise ConfigError(f'hooks: takes a table, such as [hooks] and pre_tool = "check.sh", not {value!r}')
    for name, command in value.items():
        if name not in HOOKS:
            near = difflib.get_close_matches(name, HOOKS, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(f"hooks: {name!r} is no hook; {hint}There are {', '.join(HOOKS)}")
        if not isinstance(command, str) or not command.strip():
            raise ConfigError(f'hooks: {name} takes a command, such as "check.sh", not {command!r}')
    return {name: command.strip() for name, command in value.items()}


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "model": _text,
    "effort": _one_of(*EFFORTS),
    "max_tokens": _whole,
    "context_window": _whole,
    "cache": _one_of("5m", "1h"),
    "base_url": _url,
    "timeout": _seconds,
    "permission_mode": _one_of(*MODES),
    "allow": _rules,
    "deny": _deny,
    "pass_env": _texts,
    "hooks": _hooks,
    "compact": _compact,
}
_PROJECT = {
    **{name: _FIELDS[name] for name in ("effort", "max_tokens", "context_window", "deny", "compact")},
    "permission_mode": _one_of(*TIGHTER),
}
_MERGED = {"allow", "deny", "pass_env"}


def load(environ: Mapping[str, str], folder: Path, home: Path) -> Config:
    """The settings in force in a project folder. Raises ConfigError, naming the file and the fix."""
    user_dir = Path(_set(environ, "XDG_CONFIG_HOME") or home / ".config") / "makeroom"
    config = Config(
        user_dir=user_dir,
        cache_dir=Path(_set(environ, "XDG_CACHE_HOME") or home / ".cache") / "makeroom",
        state_dir=Path(_set(environ, "XDG_STATE_HOME") or home / ".local" / "state") / "makeroom",
    )
    config = _with_file(config, user_dir / "settings.toml", _FIELDS)
    config = _with_file(config, folder / ".makeroom" / "settings.toml", _PROJECT)
    config = _with_file(config, permissions_path(user_dir, folder), {"allow": _rules})
    return _with_environment(config, environ)


def _with_file(config: Config, path: Path, known: Mapping[str, Callable[[Any], Any]]) -> Config:
    try:
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        entries = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return config
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}; correct it or move it away") from error
    for name, value in entries.items():
        config = _with_entry(config, path, name, value, known)
    return config


def _with_entry(
    config: Config, path: Path, name: str, value: Any, known: Mapping[str, Callable[[Any], Any]]
) -> Config:
    where = f"{path}: {name}"
    if name not in known:
        return _warned(config, f"{where} {_unknown(name, known, path)}")
    try:
        read = known[name](value)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except (ValueError, TypeError) as error:
        return _warned(config, f"{where} {error}; ignored")
    if name in _MERGED:
        before = f"{config.origins[name]}, " if name in config.origins else ""
        if name != "pass_env":
            read = tuple(replace(rule, origin=str(path)) for rule in read)
        return _from(config, f"{before}{path}", name, (*getattr(config, name), *read))
    if name == "compact":
        return _compact_from(config, str(path), **read)
    return _from(config, str(path), name, read)


def _from(config: Config, origin: str, name: str, value: Any) -> Config:
    return replace(config, origins={**config.origins, name: origin}, **{name: value})


def _compact_from(config: Config, origin: str, **entries: Any) -> Config:
    origins = {f"compact.{name}": origin for name in entries}
    return replace(config, compact={**config.compact, **entries}, origins={**config.origins, **origins})


def _unknown(name: str, known: Mapping[str, Any], path: Path) -> str:
    if name in _FIELDS:
        return "is only read from your own settings, not from a project's; ignored"
    near = difflib.get_close_matches(name, known, 1)
    if near and near[0] in ("deny", "hooks"):
        # No mere warning: it was to forbid something.
        raise ConfigError(f"{path}: {name!r} is no setting; did you mean {near[0]!r}?")
    return f"is unknown{f'; did you mean {near[0]}?' if near else ''}; ignored"


def _warned(config: Config, text: str) -> Config:
    return replace(config, warnings=(*config.warnings, text))


def _set(environ: Mapping[str, str], name: str) -> str | None:
    """A variable's value; an empty one counts as unset."""
    value = environ.get(name, "").strip()
    return value or None


_VARIABLES: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("ANTHROPIC_MODEL", "model", _text),
    ("MAKEROOM_MODEL", "model", _text),
    ("MAKEROOM_EFFORT", "effort", _one_of(*EFFORTS)),
    ("MAKEROOM_MAX_TOKENS", "max_tokens", _whole),
    ("MAKEROOM_CONTEXT_WINDOW", "context_window", _whole),
    ("MAKEROOM_PERMISSION_MODE", "permission_mode", _one_of(*MODES)),
    ("ANTHROPIC_API_KEY", "key", _secret),
    ("ANTHROPIC_AUTH_TOKEN", "token", _secret),
    ("ANTHROPIC_BASE_URL", "base_url", _url),
    ("API_TIMEOUT_MS", "timeout", _milliseconds),
)


def _with_environment(config: Config, environ: Mapping[str, str]) -> Config:
    for variable, name, read in _VARIABLES:
        if (value := _set(environ, variable)) is None:
            continue
        try:
            config = _from(config, variable, name, read(value))
        except ValueError as error:
            shown = variable if read is _secret else f"{variable}={value!r}"
            raise ConfigError(f"{shown}: it {error}") from error
    if config.base_url:
        config = replace(config, base_url=config.base_url.rstrip("/").removesuffix("/v1"))
    if headers := _set(environ, "ANTHROPIC_CUSTOM_HEADERS"):
        pairs = (line.partition(":") for line in headers.splitlines())
        read_headers = {n.strip(): v.strip() for n, _, v in pairs if n.strip()}
        config = _from(config, "ANTHROPIC_CUSTOM_HEADERS", "custom_headers", read_headers)
    if (_set(environ, "MAKEROOM_AUTO_COMPACT") or "").lower() in NO:
        config = _compact_from(config, "MAKEROOM_AUTO_COMPACT", enabled=False)
    elif (_set(environ, "DISABLE_COMPACT") or "").lower() not in ("", *NO):
        config = _compact_from(config, "DISABLE_COMPACT", enabled=False)
    if policy := _set(environ, "MAKEROOM_POLICY"):
        config = _compact_from(config, "MAKEROOM_POLICY", policy=policy)
    return config


def has_credentials(config: Config, environ: Mapping[str, str], home: Path) -> bool:
    """Whether the SDK will find something to sign requests with; a local server needs nothing."""
    if config.key or config.token or not config.official:
        return True
    if _set(environ, "ANTHROPIC_PROFILE") or _set(environ, "ANTHROPIC_FEDERATION_RULE_ID"):
        return True
    place = Path(_set(environ, "ANTHROPIC_CONFIG_DIR") or home / ".config" / "anthropic")
    return (place / "active_config").exists()

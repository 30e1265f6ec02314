"""Load the settings: the user's file, then the project's, then the environment. Flags are applied elsewhere.

A project's file cannot set a server, key, hook, model, allow rule or bypass. A bad entry is a warning and
does not affect the others. A file that is not valid TOML is an error that names the line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from agent.errors import ConfigError
from agent.permissions import Mode, Rule, SandboxSettings
from agent.settings_files import permissions_path, read_settings, typed_value
from compact import POLICY_NAMES, CompactSettings, Prices
from transcripts.secrets import secret_values
from transcripts.storage import is_foreign

from .claude_restrictions import claude_rules
from .flag_settings import GivenSettings
from .options import EditingMode, ThemeName

if TYPE_CHECKING:
    from agent.extensions.hooks import HookEntry

GIVEN_NONE = GivenSettings()
SWITCHED_OFF = ("0", "false", "no", "off")  # values that switch an environment variable off


class Config(Struct, frozen=True):
    """The settings, each with its default. `compact` contains the entries of the [compact] table."""

    provider: str = "anthropic"
    model: str | None = None
    effort: str | None = None
    max_tokens: int = 32_000
    context_window: int | None = None
    cache: Literal["5m", "1h"] = "5m"
    base_url: str | None = None
    key: str | None = None
    token: str | None = None
    openai_base_url: str | None = None
    openai_key: str | None = None
    openai_model: str | None = None
    timeout: float | None = None  # seconds without a byte of a response; None: chosen by the server's address
    permission_mode: Mode = "manual"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    notify: bool = True  # notify of the end of a long turn and of questions while the terminal has no focus
    theme: ThemeName = "auto"
    editing: EditingMode = "emacs"  # the keys of the input
    pass_env: tuple[str, ...] = ()
    hooks: tuple[HookEntry, ...] = ()
    status_line: str = ""  # the command that prints it
    output_style: str = ""
    tool_search: Literal["auto", "on", "off"] = "auto"  # for tools of MCP servers, see tool_search.py
    web_fetch: Literal["makeroom", "service"] = "makeroom"  # who fetches pages
    compact: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Prices] = field(default_factory=dict)  # the user's own, by model id
    custom_headers: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)  # short names of models -> ids set by the user
    summary_model: str = ""  # writes summaries; "": the session's model
    max_retries: int | None = None  # after the first attempt of a request; None: the default
    thinks: bool = True  # use thinking if the model supports it
    caches: bool = True  # use the provider's prompt cache if there is one
    user_dir: Path = Path()
    cache_dir: Path = Path()
    state_dir: Path = Path()
    warnings: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)  # where each name was set: a file, a variable

    @property
    def settings_path(self) -> Path:
        """The user's own settings file."""
        return self.user_dir / "settings.toml"

    @property
    def approvals_path(self) -> Path:
        """The file of the user's decisions about what projects contain."""
        return self.state_dir / "approvals.json"

    @property
    def official(self) -> bool:
        """Return whether requests go to the service itself, which takes every field that we send."""
        return self.base_url is None or self.base_url.rstrip("/") == "https://api.anthropic.com"

    @property
    def names_openai(self) -> bool:
        """Return whether the provider is one whose settings are OPENAI_MODEL and the like."""
        return self.provider in ("openai", "openai-responses")

    @property
    def secrets(self) -> tuple[str, ...]:
        """The exact values that must not be in any transcript: keys and other values that sign requests."""
        headers = "\n".join(f"{name}: {value}" for name, value in self.custom_headers.items())
        own = {"API_KEY": self.key, "AUTH_TOKEN": self.token, "BASE_URL": self.base_url, "HEADERS": headers}
        own |= {"OPENAI_API_KEY": self.openai_key, "OPENAI_BASE_URL": self.openai_base_url}
        return secret_values({name: value for name, value in own.items() if value})


class _Source(Enum):
    """A source of settings: the user, the checkout, or the user's grants for a project."""

    OWN = auto()
    PROJECT = auto()
    GRANTED = auto()


# The settings of a source; the user's own may be any. A project's file comes with the checkout, so it can
# only tune and tighten.
SETTABLE: Mapping[_Source, tuple[str, ...]] = {
    _Source.PROJECT: (
        "effort", "max_tokens", "context_window", "permission_mode", "deny", "ask", "sandbox", "compact",
    ),
    _Source.GRANTED: ("allow", "sandbox"),
}  # fmt: skip
PROJECT_MODES = ("manual", "plan", "dontAsk")
# A mistake in these settings is an error: ignoring it would leave open what it was meant to guard.
GUARDING_SETTINGS = ("deny", "ask", "hooks", "sandbox", "compact")
UNREAD_FILES = ("settings.local.toml", "settings.json", "settings.local.json")  # names that other agents use
MERGED_SETTINGS = ("allow", "deny", "ask", "hooks", "pass_env")  # the values of several files are joined


def load_config(
    environ: Mapping[str, str], folder: Path, home: Path, given: GivenSettings = GIVEN_NONE
) -> Config:
    """Return the settings in force in a project directory. Raises ConfigError with file and remedy."""
    user_dir = Path(_value(environ, "XDG_CONFIG_HOME") or home / ".config") / "makeroom"
    config = Config(
        user_dir=user_dir,
        cache_dir=Path(_value(environ, "XDG_CACHE_HOME") or home / ".cache") / "makeroom",
        state_dir=Path(_value(environ, "XDG_STATE_HOME") or home / ".local" / "state") / "makeroom",
    )
    if given.reads("user"):
        config = _with_file(config, config.settings_path, _Source.OWN)
    if given.reads("project"):
        config = _with_projects_file(config, folder)
    if given.reads("local"):
        config = _with_file(config, permissions_path(user_dir, folder), _Source.GRANTED)
    config = _with_claude_rules(config, {"HOME": str(home), **environ}, folder, given)
    config = _with_environment(config, environ)
    config = _with_entries(config, "--settings", given.entries, _Source.OWN)
    return replace(config, warnings=(*config.warnings, *given.remarks))


def _with_claude_rules(
    config: Config, environ: Mapping[str, str], folder: Path, given: GivenSettings
) -> Config:
    """Return the config with the restrictions of Claude Code's settings files. Raises ConfigError."""
    found = claude_rules(environ, folder, given.reads)
    if found.faults:
        raise ConfigError(found.faults[0])
    for name, rules in (("deny", found.deny), ("ask", found.ask)):
        for origin, of_file in groupby(rules, key=lambda rule: rule.origin):
            config = _with_value(config, origin, name, tuple(of_file))
    return replace(config, warnings=(*config.warnings, *found.warnings))


def _with_projects_file(config: Config, folder: Path) -> Config:
    own = folder / ".makeroom" / "settings.toml"
    warnings = [f"{own} belongs to another user (ignored)"] if is_foreign(own, folder) else []
    config = config if warnings else _with_file(config, own, _Source.PROJECT)
    with suppress(OSError):  # the directory cannot be read
        if unread := [name for name in UNREAD_FILES if (own.parent / name).exists()]:
            names = ", ".join(unread)
            warnings.append(f"{own.parent}: ignoring {names}; put project settings into {own.name}")
    return replace(config, warnings=(*config.warnings, *warnings))


def _with_file(config: Config, path: Path, source: _Source) -> Config:
    return _with_entries(config, path, read_settings(path), source)


def _with_entries(config: Config, path: Path | str, entries: Mapping[str, Any], source: _Source) -> Config:
    """Return the config with those entries of a settings file, or of a flag, that its source may set."""
    if source is not _Source.PROJECT:
        entries, unusable = _with_usable_rules(entries)
        ignored = (f"{path}: {problem} (this rule is ignored)" for problem in unusable)
        config = replace(config, warnings=(*config.warnings, *ignored))
    values, problems = _checked(entries)
    for name, entry in entries.items():
        if name in problems:
            problem = _problem_to_warn_of(path, name, problems[name], entry)
        elif source is _Source.PROJECT and name == "hooks":
            continue  # hooks of a project need approval: agent/extensions/hooks
        elif source is _Source.GRANTED and name == "sandbox":
            continue  # the permission store reads these directories when a session begins
        elif source in SETTABLE and name not in SETTABLE[source]:
            problem = f"{name} can only be set in your own settings, not by a project"
        elif source is _Source.PROJECT and name == "permission_mode" and values[name] not in PROJECT_MODES:
            problem = f"{name} must be one of {', '.join(PROJECT_MODES)} in a project's settings"
        elif source is _Source.PROJECT and name == "sandbox":
            config, problem = _with_stricter_sandbox(config, path, values[name])
            if not problem:
                continue
        else:
            config = _with_value(config, str(path), name, values[name])
            continue
        config = replace(config, warnings=(*config.warnings, f"{path}: {problem} (ignored)"))
    return config


def _with_usable_rules(entries: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the entries without the allow rules that cannot be read, and the problem with each of them."""
    texts = entries.get("allow")
    if not isinstance(texts, list):
        return entries, []
    found = [(text, _checked({"allow": [text]})[1]) for text in texts]
    usable = [text for text, problems in found if not problems]
    return {**entries, "allow": usable}, [problems["allow"] for _, problems in found if problems]


def _with_stricter_sandbox(
    config: Config, path: Path | str, entries: Mapping[str, Any]
) -> tuple[Config, str]:
    """Return the config with the sandbox tightened by a file's entries, and the problem with them or ""."""
    made, refused = config.sandbox.tightened(entries)
    if made != config.sandbox:
        origins = {**config.origins, "sandbox": str(path)}
        config = replace(config, sandbox=made, origins=origins)
    return config, f"a project can only tighten the sandbox: {', '.join(refused)}" if refused else ""


def _checked(entries: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    if not entries:
        return {}, {}
    from .settings_schema import check  # saves a start without settings 10 ms

    return check(entries)


def with_setting(config: Config, name: str, text: str) -> Config:
    """Return the config with one entry as the user types it: "trigger" of [compact] is "compact.trigger".

    Raises ConfigError that names the values that the setting takes.
    """
    table, _, key = name.rpartition(".")
    value = {key: typed_value(text)} if table else typed_value(text)
    values, problems = _checked({table or key: value})
    if problems:
        raise ConfigError(problems[table or key])
    return _with_value(config, "/config", table or key, values[table or key])


def setting_names() -> tuple[str, ...]:
    """Return the names of all settings of a file, in the order of their reference."""
    from .settings_schema import SETTINGS  # 10 ms that only /config needs

    return tuple(SETTINGS)


def form_of(name: str) -> str:
    """Return the form of a setting's values, in words."""
    from .settings_schema import form_of as form_of_entry  # 10 ms that only /config needs

    table, _, key = name.rpartition(".")
    return CompactSettings.form_of(key) if table else form_of_entry(name)


def _problem_to_warn_of(path: Path | str, name: str, problem: str, value: Any) -> str:
    """Return the problem, for a warning. Raises ConfigError where a warning is not enough."""
    if (meant := difflib.get_close_matches(name, ("deny", "hooks"), 1)) and name not in GUARDING_SETTINGS:
        raise ConfigError(f"{path}: unknown setting `{name}`; did you mean `{meant[0]}`?")
    if name in GUARDING_SETTINGS:
        quoted = json.dumps(value, ensure_ascii=False, default=str)
        hint = f". Write deny = [{quoted}]" if name == "deny" and isinstance(value, str) else ""
        raise ConfigError(f"{path}: {problem}{hint}")
    return problem


def _with_value(config: Config, origin: str, name: str, value: Any) -> Config:
    if name == "compact":
        value, renamed = CompactSettings.known(value)
        return replace(
            config,
            compact={**config.compact, **value},
            origins={**config.origins, **{f"compact.{key}": origin for key in value}},
            warnings=(*config.warnings, *(f"{origin}: {warning}" for warning in renamed)),
        )
    if name == "sandbox":
        value = config.sandbox.with_entries(value)
    if name == "hooks":
        remarks = (f"{origin}: hooks: {remark}" for remark in (*value.remarks, *value.unknown.values()))
        config = replace(config, warnings=(*config.warnings, *remarks))
        value = value.entries
    if name in MERGED_SETTINGS:
        if name != "pass_env":
            value = tuple(replace(each, origin=origin) for each in value)
        value = (*getattr(config, name), *value)
        origin = f"{config.origins[name]}, {origin}" if name in config.origins else origin
    return replace(config, origins={**config.origins, name: origin}, **{name: value})


def _value(environ: Mapping[str, str], name: str) -> str | None:
    """Return a variable's value, or None if it is unset or blank."""
    return environ.get(name, "").strip() or None


def _is_on(environ: Mapping[str, str], name: str) -> bool:
    """Return whether a variable is set to anything but a word that switches it off."""
    return (_value(environ, name) or "").lower() not in ("", *SWITCHED_OFF)


# variable -> the setting that it sets; a later one takes precedence
SETTING_VARIABLES = {
    "ANTHROPIC_API_KEY": "key",
    "ANTHROPIC_AUTH_TOKEN": "token",
    "OPENAI_API_KEY": "openai_key",
    "OPENAI_BASE_URL": "openai_base_url",
    "OPENAI_MODEL": "openai_model",
    "ANTHROPIC_MODEL": "model",
    "CLAUDE_CODE_EFFORT_LEVEL": "effort",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "max_tokens",
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "context_window",
    "MAKEROOM_MODEL": "model",
    "MAKEROOM_PROVIDER": "provider",
    "MAKEROOM_EFFORT": "effort",
    "MAKEROOM_MAX_TOKENS": "max_tokens",
    "MAKEROOM_CONTEXT_WINDOW": "context_window",
    "MAKEROOM_PERMISSION_MODE": "permission_mode",
    "MAKEROOM_SANDBOX": "sandbox",
    "ANTHROPIC_BASE_URL": "base_url",
    "API_TIMEOUT_MS": "timeout",  # milliseconds
}


ALIAS_VARIABLES = {name: f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL" for name in ("opus", "sonnet", "haiku")}
MAX_RETRIES_TAKEN = 100
# Numbers that are read only where they are used, and so are checked here: there, a wrong one would be
# ignored or fail late.
WHOLE_VARIABLES = ("MAX_THINKING_TOKENS", "BASH_MAX_OUTPUT_LENGTH")
MILLISECOND_VARIABLES = ("BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS", "MCP_TIMEOUT", "MCP_TOOL_TIMEOUT")
NO_BETAS = "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS"


def _with_habits(config: Config, environ: Mapping[str, str]) -> Config:
    """Return the config with variables of Claude Code that users may have set and that no setting covers."""
    aliases = {alias: id for alias, name in ALIAS_VARIABLES.items() if (id := _value(environ, name))}
    config = replace(config, aliases={**config.aliases, **aliases})
    config = replace(config, summary_model=_value(environ, "ANTHROPIC_SMALL_FAST_MODEL") or "")
    if (retries := _value(environ, "CLAUDE_CODE_MAX_RETRIES")) is not None:
        if not (retries.isascii() and retries.isdigit() and int(retries[:9]) <= MAX_RETRIES_TAKEN):
            raise ConfigError(
                f"CLAUDE_CODE_MAX_RETRIES={retries!r}: must be a whole number from 0 to {MAX_RETRIES_TAKEN}"
            )
        config = replace(config, max_retries=int(retries))
    if _value(environ, "MAX_THINKING_TOKENS") == "0":
        config = replace(config, thinks=False)
    if _is_on(environ, "DISABLE_PROMPT_CACHING"):
        config = replace(config, caches=False)
    betas = _value(environ, "ANTHROPIC_BETAS")
    if betas and not _is_on(environ, NO_BETAS):
        config = replace(config, custom_headers={"anthropic-beta": betas, **config.custom_headers})
    if _value(environ, "CLAUDE_CODE_OAUTH_TOKEN"):
        warning = "CLAUDE_CODE_OAUTH_TOKEN is ignored: it works only in Claude Code. Set ANTHROPIC_API_KEY."
        config = replace(config, warnings=(*config.warnings, warning))
    return config


def _check_numbers(environ: Mapping[str, str]) -> None:
    """Check the variables that must be numbers. Raises ConfigError."""
    for name in WHOLE_VARIABLES:
        if (text := _value(environ, name)) and not (text.isascii() and text.isdigit()):
            raise ConfigError(f"{name}={text!r}: must be a whole number")
    for name in MILLISECOND_VARIABLES:
        with suppress(ValueError):
            if (text := _value(environ, name)) is None or 0 < float(text) < float("inf"):
                continue
        raise ConfigError(f"{name}={text!r}: must be a number of milliseconds greater than 0")


def _switches_compaction_off(environ: Mapping[str, str]) -> str | None:
    """Return the variable that switches automatic compaction off, ours or a common one of other agents.

    None if no variable does. Raises ConfigError for a value that is neither true nor false.
    """
    for name in ("MAKEROOM_AUTO_COMPACT", "CLAUDE_AUTO_COMPACT"):
        if text := (_value(environ, name) or "").lower():
            if text not in (*SWITCHED_OFF, "1", "true", "yes", "on"):
                raise ConfigError(f"{name}={text!r}: must be true or false")
            return name if text in SWITCHED_OFF else None
    disabling = ("DISABLE_COMPACT", "DISABLE_AUTO_COMPACT")
    return next((name for name in disabling if _is_on(environ, name)), None)


def _with_environment(config: Config, environ: Mapping[str, str]) -> Config:
    for variable, name in SETTING_VARIABLES.items():
        if (text := _value(environ, variable)) is not None:
            config = _with_value(config, variable, name, _variable(variable, name, text))
    if config.base_url:
        config = replace(config, base_url=config.base_url.rstrip("/").removesuffix("/v1"))
    if headers := _value(environ, "ANTHROPIC_CUSTOM_HEADERS"):
        pairs = (line.partition(":") for line in headers.splitlines())
        read = {name.strip(): value.strip() for name, _, value in pairs if name.strip()}
        config = _with_value(config, "ANTHROPIC_CUSTOM_HEADERS", "custom_headers", read)
    if (switch := _switches_compaction_off(environ)) is not None:
        config = _with_value(config, switch, "compact", {"enabled": False})
        if switch == "DISABLE_COMPACT":  # with which other agents fail at the end of the window
            warning = (
                "DISABLE_COMPACT is set: the context is compacted only by /compact,"
                " or when the server rejects it as too large"
            )
            config = replace(config, warnings=(*config.warnings, warning))
    if policy := _value(environ, "MAKEROOM_POLICY"):
        if policy not in POLICY_NAMES:
            takes = CompactSettings.form_of("policy")
            raise ConfigError(f"MAKEROOM_POLICY={policy!r}: must be {takes}")
        config = _with_value(config, "MAKEROOM_POLICY", "compact", {"policy": policy})
    _check_numbers(environ)
    return _with_habits(config, environ)


def _variable(variable: str, name: str, text: str) -> Any:
    """Return the value that a variable gives to a setting. Raises ConfigError."""
    if name in ("key", "token", "openai_key"):
        if not text.isascii() or not text.isprintable():
            raise ConfigError(f"{variable} contains characters that no key has; copy the key again")
        return text
    if name == "timeout":
        with suppress(ValueError):
            if 1e3 <= (milliseconds := float(text.replace("_", ""))) < 1e9:  # up to eleven days
                return milliseconds / 1000
        raise ConfigError(f"{variable}={text!r}: must be a number of milliseconds, at least 1000")
    name = name.removeprefix("openai_")  # checked like the other setting
    values, problems = _checked({name: text})
    if problems:
        problem = problems[name].removeprefix(f"{name} ").partition(", not ")[0]
        raise ConfigError(f"{variable}={text!r}: {problem}")
    return values[name]


def has_credentials(config: Config, environ: Mapping[str, str], home: Path) -> bool:
    """Return whether requests can be signed. Local servers and other providers check that themselves."""
    if config.key or config.token or not config.official or config.provider != "anthropic":
        return True
    if any(name.startswith("CLAUDE_CODE_USE_") and _is_on(environ, name) for name in environ):
        return True  # a cloud, which reports missing credentials itself
    if _value(environ, "ANTHROPIC_PROFILE") or _value(environ, "ANTHROPIC_FEDERATION_RULE_ID"):
        return True
    place = Path(_value(environ, "ANTHROPIC_CONFIG_DIR") or home / ".config" / "anthropic")
    return (place / "active_config").exists()

"""What the program was started with: command line, settings, folder, environment, clock; and its rules."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ConfigError
from agent.permissions.permission_store import (
    PermissionStore,
    permissions_path,
    stored_places,
    stored_rules,
)
from agent.permissions.rule_syntax import Rule, parse_rules
from agent.permissions.rules import Mode, PermissionRules
from agent.permissions.sandbox_settings import SandboxSettings, with_entries
from agent.ports import Clock, SystemClock
from compact.settings import CompactSettings, settings_from
from tools.env_filter import filter_environment
from transcripts.masking import SecretMasks
from transcripts.secret_forms import secret_values

from .config import Config
from .options import Options


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What the program was started with; flags win over settings. `folder` is the project's real path."""

    options: Options
    config: Config
    folder: Path
    environ: Mapping[str, str]
    clock: Clock = dataclasses.field(default_factory=SystemClock)

    @property
    def masks(self) -> SecretMasks:
        """Our own credentials and every other secret of the environment, which no record may hold."""
        return SecretMasks((*self.config.secrets, *secret_values(self.environ)))

    @property
    def spare_places(self) -> tuple[Path, ...]:
        """Where a copy of the records may be kept while commands run, the preferred place first."""
        temporary = Path(tempfile.gettempdir()) / f"makeroom-records-{os.geteuid()}"
        return self.config.state_dir / "records", temporary

    @property
    def model_name(self) -> str:
        """The id or alias that was asked for, "" for the provider's default."""
        config = self.config
        if self.options.offline or self.options.model:
            return "" if self.options.offline else self.options.model or ""
        if config.provider != "openai":
            return config.model or ""
        foreign = config.origins.get("model") == "ANTHROPIC_MODEL"
        return config.openai_model or ("" if foreign else config.model) or ""

    @property
    def mode(self) -> Mode:
        return self.options.permission_mode or self.config.permission_mode

    @property
    def sandbox(self) -> SandboxSettings:
        """The settings of the wall around commands."""
        set_, flag = self.config.sandbox, self.options.sandbox
        return set_ if flag is None else dataclasses.replace(set_, mode=flag)

    def compact_settings(self) -> CompactSettings:
        """The pipeline's settings: the [compact] tables, then the flags. Raises ConfigError."""
        values = dict(self.config.compact)
        if self.options.policy is not None:
            values["policy"] = self.options.policy
        try:
            return settings_from(values)
        except ValueError as error:
            raise ConfigError(str(error)) from error


def permission_store(setup: RunSetup) -> PermissionStore:
    """The permission mode and rules to begin with; what was allowed for good is read as it is now."""
    from agent.permissions.surroundings import ProjectSurroundings  # brings pydantic: 80 ms before the prompt

    options, config = setup.options, setup.config
    path = permissions_path(config.user_dir, setup.folder)
    configured = [rule for rule in config.allow if rule.origin != str(path)]
    allow = (*configured, *stored_rules(path), *_from_flag("--allowedTools", options.allowed_tools))
    deny = (*config.deny, *_from_flag("--disallowedTools", options.disallowed_tools))
    environ = filter_environment(setup.environ, config.pass_env)
    reading = ProjectSurroundings(str(setup.folder), environ)
    folder, home = str(setup.folder), str(home_of(setup.environ))
    rules = PermissionRules(setup.mode, allow, deny, folder, home, reading=reading)
    return PermissionStore(rules, path, sandbox=with_entries(setup.sandbox, stored_places(path)))


def home_of(environ: Mapping[str, str]) -> Path:
    """The person's home, a real path."""
    return Path(environ.get("HOME") or Path.home()).resolve()


def _from_flag(flag: str, texts: Sequence[str]) -> list[Rule]:
    return [dataclasses.replace(rule, origin=flag) for text in texts for rule in parse_rules(text)]

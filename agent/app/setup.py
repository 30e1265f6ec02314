"""What the program was started with: the command line, the settings, the folder, the environment."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agent.cli.arguments import Options
from agent.errors import ConfigError
from agent.model.catalog import DEFAULT, resolve
from agent.permissions.rules import Mode
from agent.ports import Clock, SystemClock
from compact.settings import CompactSettings, settings_from
from transcripts.masking import SecretMasks

from .config import Config

OFFLINE_MODEL = "makeroom-offline"


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What the program was started with. `folder` is the project's real path."""

    options: Options
    config: Config
    folder: Path
    environ: Mapping[str, str]
    clock: Clock = dataclasses.field(default_factory=SystemClock)

    @property
    def masks(self) -> SecretMasks:
        """Our own credentials, which no record may hold."""
        return SecretMasks(self.config.secrets)

    @property
    def model(self) -> str:
        if self.options.offline:
            return OFFLINE_MODEL
        return resolve(self.options.model or self.config.model or DEFAULT)

    @property
    def mode(self) -> Mode:
        return cast("Mode", self.options.permission_mode or self.config.permission_mode)

    def settings(self) -> CompactSettings:
        """The pipeline's settings: the [compact] tables, then the flags. Raises ConfigError."""
        values = dict(self.config.compact)
        if self.options.policy is not None:
            values["policy"] = self.options.policy
        try:
            return settings_from(values)
        except ValueError as error:
            raise ConfigError(str(error)) from error

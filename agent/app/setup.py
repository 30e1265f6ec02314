"""The setup of a run: command line, settings, directory, environment, clock."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from agent.errors import ConfigError
from agent.keys import KEY_NAMES
from agent.permissions import Mode, SandboxSettings
from agent.ports import Clock, Hooks, SystemClock, ToolSource
from agent.settings_files import claude_folder
from compact import CompactSettings
from tools.files import path_outside
from transcripts import SessionFiles
from transcripts.secrets import SecretMasks, secret_values

from .config import Config, load_config
from .flag_settings import added_folders, given_settings, with_prompt_files
from .options import Options

if TYPE_CHECKING:
    from agent.session import MemoryPlaces

CYCLED_MODES: tuple[Mode, ...] = ("manual", "acceptEdits", "plan")


class RunSetup(Struct, frozen=True):
    """The setup of a run; flags take precedence over settings. `folder` is the project's real path.

    added           real paths of additional directories
    sources         tools that an embedding program offers
    hooks           hooks of an embedding program; they run before those of the settings
    variables       approved ones of settings files, for commands, hooks and servers
    why_no_project  the reason why the directory is not a project, which keeps it read-only; "" otherwise
    has_other_spellings  the file system ignores letter case, so a mount covers only one name of a file
    session_files   opens transcripts; the choice of the session to resume has read its start
    key_names       names of the keys by action; the screen replaces them with the user's own key bindings,
                    and without a screen they are ""
    """

    options: Options
    config: Config
    folder: Path
    environ: Mapping[str, str]
    clock: Clock = field(default_factory=SystemClock)
    added: tuple[Path, ...] = ()
    sources: tuple[ToolSource, ...] = ()
    hooks: Hooks | None = None
    variables: Mapping[str, str] = {}
    why_no_project: str = ""
    has_other_spellings: bool = False
    session_files: SessionFiles = field(default_factory=SessionFiles)
    key_names: dict[str, str] = field(default_factory=lambda: {**KEY_NAMES})

    @property
    def program_environ(self) -> Mapping[str, str]:
        """Return the environment of commands, hooks and servers, before it is filtered for them."""
        return {**self.environ, **self.variables}

    @property
    def helper_environ(self) -> Mapping[str, str]:
        """Return the environment of makeroom's own helpers outside the sandbox, such as clipboard programs.

        Commands may write in directories of the project, such as `.venv/bin`.
        """
        return {**self.environ, "PATH": path_outside(self.environ.get("PATH", ""), str(self.folder))}

    @property
    def memory(self) -> MemoryPlaces:
        """The places of memory files, without those above the repository, which need approval."""
        from agent.session import MemoryPlaces  # 10 ms, which the first screen does not need

        return MemoryPlaces(self.folder, self.config.user_dir, claude_folder(self.environ))

    @property
    def masks(self) -> SecretMasks:
        """Our own credentials and all other secrets in the environment, which no transcript may contain."""
        return SecretMasks((*self.config.secrets, *secret_values(self.program_environ)))

    @property
    def spare_places(self) -> tuple[Path, ...]:
        """Return the places for a copy of the transcripts while commands run, the preferred place first."""
        temporary = Path(tempfile.gettempdir()) / f"makeroom-records-{os.geteuid()}"
        return self.config.state_dir / "records", temporary

    @property
    def names_model(self) -> bool:
        """Return whether a flag or a variable sets the model for this run; settings are for all runs."""
        config = self.config
        is_openai = config.names_openai
        variables = ("MAKEROOM_MODEL",) if is_openai else ("MAKEROOM_MODEL", "ANTHROPIC_MODEL")
        by_variable = config.origins.get("model") in variables or (is_openai and bool(config.openai_model))
        return self.options.model is not None or by_variable

    @property
    def given_window(self) -> int | None:
        """The context window in tokens as set by a flag or the settings."""
        return self.options.context_window or self.config.context_window

    @property
    def names_effort(self) -> bool:
        """Return whether a flag or a variable sets the effort for this run."""
        by_variable = self.config.origins.get("effort") in ("MAKEROOM_EFFORT", "CLAUDE_CODE_EFFORT_LEVEL")
        return self.options.effort is not None or self.options.thinking is False or by_variable

    @property
    def model_name(self) -> str:
        """The model id or alias that is set, "" for the provider's default."""
        config = self.config
        if self.options.offline or self.options.model:
            return "" if self.options.offline else self.options.model or ""
        if not config.names_openai:
            return config.model or ""
        foreign = config.origins.get("model") == "ANTHROPIC_MODEL"
        return config.openai_model or ("" if foreign else config.model) or ""

    @property
    def mode(self) -> Mode:
        return self.options.permission_mode or self.config.permission_mode

    @property
    def sandbox(self) -> SandboxSettings:
        """The settings of the sandbox for commands."""
        settings = self.config.sandbox
        written = tuple(map(str, self.added))
        if self.options.worktree:  # commits in it are written to the git directory of the project
            from tools.guarded import worktree_places  # saves other runs 5 ms

            written += tuple(worktree_places(str(self.folder)))
        if written:
            settings = settings.with_entries({"write": written})
        flag = self.options.sandbox
        return settings if flag is None else structs.replace(settings, mode=flag)

    def compact_settings(self) -> CompactSettings:
        """Return the pipeline's settings: the [compact] tables, then the flags. Raises ConfigError."""
        values = dict(self.config.compact)
        if self.options.policy is not None:
            values["policy"] = self.options.policy
        try:
            return CompactSettings.from_table(values)
        except ValueError as error:
            raise ConfigError(str(error)) from error


SAFE_MODE = (
    "--safe-mode: memory files, hooks, skills, agents, output styles and MCP servers are disabled, except the"
    " servers of --mcp-config; settings and permission rules still apply"
)


def read_setup(options: Options, folder: Path, environ: Mapping[str, str]) -> RunSetup:
    """Read the settings of a run in a directory, and the files that its options name.

    Raises UsageError and ConfigError.
    """
    given = given_settings(options.settings, options.setting_sources, folder)
    environ = {**environ, **given.environ}
    config = load_config(environ, folder, Path.home(), given)
    if options.safe_mode:  # settings and rules still apply: they may restrict the model
        config = structs.replace(config, hooks=(), status_line="", output_style="")
        remarks = (*options.remarks, SAFE_MODE)
        options = structs.replace(options, setting_sources=(), strict_mcp_config=True, remarks=remarks)
    config = structs.replace(config, warnings=(*options.remarks, *config.warnings))
    options = with_prompt_files(options, folder)
    added = added_folders((*options.add_dirs, *given.add_dirs), folder)
    return RunSetup(options, config=config, folder=folder, environ=environ, added=added)


def offered_modes(setup: RunSetup) -> tuple[Mode, ...]:
    """Return the permission modes to switch to, with bypassPermissions if the run allows it."""
    bypasses = setup.mode == "bypassPermissions" or setup.options.may_bypass
    return (*CYCLED_MODES, "bypassPermissions") if bypasses else CYCLED_MODES


def next_mode(mode: Mode, setup: RunSetup) -> Mode:
    """Return the permission mode after this one."""
    modes = offered_modes(setup)
    return modes[(modes.index(mode) + 1) % len(modes)] if mode in modes else modes[0]

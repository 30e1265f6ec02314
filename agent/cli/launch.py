"""Launch the program: options become a setup, a face is chosen, and every way out has its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agent import app, commands, stream_protocol, ui
from agent.app import (
    Options,
    RunSetup,
    added_folders,
    given_settings,
    has_credentials,
    load_config,
    with_prompt_files,
)
from agent.errors import AgentError, AuthenticationError, UsageError
from tools.text import escaped
from transcripts import StoreError, recover_transcripts
from transcripts.secrets import SecretMasks, secret_values

from .command_words import write_refusal

if TYPE_CHECKING:
    from agent.events import Emit
    from agent.ports import Approver, Chooser, Driver

SAFE_MODE = (
    "--safe-mode: no memory files, hooks, skills, agents, output styles, and no MCP servers but those of"
    " --mcp-config; settings and permission rules hold"
)
NO_MODEL = """\
makeroom needs a model to talk to. One of these will do:

  your key for the Anthropic API
    export ANTHROPIC_API_KEY=sk-ant-...
  any Anthropic-compatible server, such as Ollama or llama.cpp, and its model
    export ANTHROPIC_BASE_URL=http://localhost:11434
    makeroom --model NAME
  OpenAI, or with OPENAI_BASE_URL any server of chat completions
    export MAKEROOM_PROVIDER=openai OPENAI_API_KEY=...
  the built-in rule-based demo in a sample project: no key, no network
    makeroom --offline --sample

makeroom -p /doctor looks for what else is missing.
"""


def run(options: Options) -> int:
    """Run the program to its end. Raises nothing; errors are one line on standard error.

    A program that waits for a result gets one also where the run could not begin.
    """
    return with_errors_told(partial(_begin, options), partial(_refuse, options))


def with_errors_told(action: Callable[[], int], tell: Callable[[str], None] = lambda error: None) -> int:
    """The exit code of an action; an error of it is one line on standard error, and `tell` gets it."""
    try:
        return action()
    except (AgentError, StoreError) as error:
        masks = SecretMasks(secret_values(os.environ))  # an error may quote a variable or an address
        told = masks.all(str(error))
        sys.stderr.write(f"makeroom: {escaped(told)}\n")
        tell(told)
        return error.code if isinstance(error, AgentError) else UsageError.code
    except ImportError as error:  # of what is loaded when it is first used
        sys.stderr.write(
            f"makeroom: {escaped(str(error))}: it was replaced just now, or is not installed whole\n"
        )
        return 1
    except KeyboardInterrupt:
        return 130


def _begin(options: Options) -> int:
    setup = run_setup(options)
    if options.resume is not None or options.continue_:
        from .session_choice import with_session  # 60 ms that a new session saves

        try:
            chosen = with_session(setup)
        except (AgentError, StoreError) as error:
            if options.output_format == "text":
                raise
            raise AgentError(str(error)) from error  # exit 1, as clients know it
        if chosen is None:
            return 0
        setup = chosen
    return _run(setup)


def _refuse(options: Options, error: str) -> None:
    """The result of the run, where a program waits for it."""
    if options.output_format != "text" or options.input_format != "text":
        write_refusal(error, options.resume or "")


def run_setup(options: Options) -> RunSetup:
    """Return the setup that the options ask for, in the directory that they name.

    Raises UsageError and ConfigError.
    """
    if options.sample:
        from .sample_project import with_sample  # 5 ms that others save

        options = with_sample(options)
    try:
        folder = Path(options.folder or "").resolve()
        os.chdir(folder)
    except OSError as error:
        where = options.folder or "the current folder"
        raise UsageError(f"cannot work in {where}: {error.strerror}; name another with -C") from error
    for name in [name for name, value in os.environ.items() if not value.strip()]:
        if name.startswith("ANTHROPIC_"):  # the SDK reads them too, and takes an empty one for a value
            del os.environ[name]
    given = given_settings(options.settings, options.setting_sources, folder)
    environ = {**os.environ, **given.environ}
    config = load_config(environ, folder, Path.home(), given)
    if options.safe_mode:  # settings and rules hold: they may be what keeps the model from something
        config = replace(config, hooks=(), status_line="", output_style="")
        remarks = (*options.remarks, SAFE_MODE)
        options = options._replace(setting_sources=(), strict_mcp_config=True, remarks=remarks)
    config = replace(config, warnings=(*options.remarks, *config.warnings))
    options = with_prompt_files(options, folder)
    added = added_folders((*options.add_dirs, *given.add_dirs), folder)
    setup = RunSetup(options, config=config, folder=folder, environ=environ, added=added)
    if told := recover_transcripts(folder, setup.spare_places).lines():
        config = replace(setup.config, warnings=(*setup.config.warnings, *told))
        setup = replace(setup, config=config)
    if options.debug_file:
        begin_debug_log(options.debug_file, setup.masks)
    else:
        logging.getLogger().addHandler(logging.NullHandler())
    return setup


def _run(setup: RunSetup) -> int:
    headless = setup.options.headless
    asks_model = not setup.options.offline and not (headless and setup.options.prompt.strip() == "/doctor")
    if asks_model and not has_credentials(setup.config, setup.environ, Path.home()):
        interactive = sys.stdin.isatty() and sys.stdout.isatty() and not headless
        warnings = "".join(f"makeroom: {escaped(each)}\n" for each in setup.config.warnings)
        (sys.stdout if interactive else sys.stderr).write(f"{warnings}{NO_MODEL}")
        _refuse(setup.options._replace(resume=None), "makeroom needs a model to talk to")
        return AuthenticationError.code
    # The doors load a face when it is chosen: 110 ms with prompt_toolkit, 60 ms the others.
    if setup.options.input_format == "stream-json":
        return stream_protocol.run_stream(setup, commands.make_controller)
    if headless:
        return ui.run_headless(setup, partial(commands.make_controller, setup))
    return asyncio.run(ui.run_repl(partial(_make_driver, setup), setup))


async def _make_driver(
    setup: RunSetup, emit: Emit, approver: Approver, chooser: Chooser | None = None
) -> Driver:
    """Return the controller for a screen; its modules are loaded by a thread, so that keys are taken."""
    await asyncio.to_thread(getattr, app, "Controller")
    return commands.make_controller(setup, emit, approver, chooser)


class MaskedFormatter(logging.Formatter):
    """Lines with their time, traceback and all, without the values in `masks` and known forms of secrets."""

    def __init__(self, masks: SecretMasks) -> None:
        super().__init__("%(asctime)s %(name)s %(message)s")
        self._masks = masks

    def format(self, record: logging.LogRecord) -> str:
        return self._masks.all(super().format(record))


def begin_debug_log(path: str, masks: SecretMasks) -> None:
    """Log to the file from now on. Raises UsageError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"cannot write the debug log {path}: {error.strerror}; name another file") from error
    handler = logging.StreamHandler(os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(MaskedFormatter(masks))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])

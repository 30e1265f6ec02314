"""Launch the program: turn options into a setup, choose a face, and return the exit code."""

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
from agent.app import Options, RunSetup, check_folder, has_credentials, read_setup
from agent.errors import (
    AgentError,
    AuthenticationError,
    ConfigError,
    UsageError,
    exit_code_of,
    limit_reached,
)
from agent.import_guard import import_nothing_from
from agent.version import program_name
from tools.files import path_outside
from tools.text import escaped
from transcripts import RECORDS_FOLDER, StoreError, recover_transcripts
from transcripts.secrets import SecretMasks, secret_values
from transcripts.wording import cause_of

from .command_words import write_refusal

if TYPE_CHECKING:
    from agent.events import Emit
    from agent.ports import Approver, Chooser, Driver


def run(options: Options) -> int:
    """Run the program and return its exit code. Errors are one line on standard error, never raised.

    A program that waits for a result gets one even if the run could not start.
    """
    return with_errors_reported(partial(_begin, options), partial(_refuse, options))


def with_errors_reported(
    action: Callable[[], int], report: Callable[[str], None] = lambda error: None
) -> int:
    """Return the exit code of an action; writes its error to standard error, and passes it to `report`."""
    try:
        return action()
    except (AgentError, StoreError) as error:
        masks = SecretMasks(secret_values(os.environ))  # an error may quote a variable or a URL
        message = masks.all(str(error))
        sys.stderr.write(f"error: {escaped(message)}\n")
        report(message)
        return exit_code_of(error)
    except ImportError as error:  # of a module that is loaded on first use
        sys.stderr.write(
            f"error: cannot start: {escaped(str(error))} (makeroom was replaced or is incomplete)\n"
        )
        return 1
    except KeyboardInterrupt:
        return 130
    except (MemoryError, OSError, RuntimeError) as error:
        message = limit_reached(error)
        if not message:
            raise
        sys.stderr.write(f"error: {message}\n")
        report(message)
        return 1


def _begin(options: Options) -> int:
    setup = check_folder(run_setup(options, offers_worktree=True))
    if options.resume is not None or options.continue_:
        from .session_choice import with_session  # saves a new session 60 ms

        try:
            chosen = with_session(setup)
        except (AgentError, StoreError) as error:
            if options.output_format == "text":
                raise
            raise AgentError(str(error)) from error  # exit code 1, which clients expect
        if chosen is None:
            return 0
        setup = chosen
    code = _run(setup)
    if setup.options.worktree:
        from .worktree_session import leave_worktree  # saves other runs 20 ms

        leave_worktree(setup, code)
    return code


def _refuse(options: Options, error: str) -> None:
    """Write the result of a run that could not start, if a program waits for one."""
    if options.output_format != "text" or options.input_format != "text":
        write_refusal(error, options.resume or "")


def run_setup(options: Options, *, offers_worktree: bool = False) -> RunSetup:
    """Return the setup for the options, and change to their directory.

    `offers_worktree`: a session is about to begin; if another one is open, the user chooses where.
    Raises UsageError, ConfigError and ChoiceCancelled.
    """
    if options.sample:
        from .sample_project import with_sample  # saves other runs 5 ms

        options = with_sample(options)
    try:
        folder = Path(options.folder or "").resolve()
        os.chdir(folder)
        import_nothing_from(str(folder))
        options, folder = _in_worktree(options, folder, offers_worktree)
    except OSError as error:
        where = options.folder or "the current directory"
        remedy = "" if options.folder else "; choose another with -C"
        raise UsageError(f"cannot change to {where}: {cause_of(error)}{remedy}") from error
    for name in [name for name, value in os.environ.items() if not value.strip()]:
        if name.startswith("ANTHROPIC_"):  # the SDK reads them too, even if they are empty
            del os.environ[name]
    setup = read_setup(options, folder, os.environ)
    # The user's editor and browser are looked for here, and run outside the sandbox.
    os.environ["PATH"] = path_outside(setup.environ.get("PATH", os.defpath), str(folder))
    require_access(setup.config.state_dir)
    if lines := recover_transcripts(folder, setup.spare_places).lines():
        config = replace(setup.config, warnings=(*setup.config.warnings, *lines))
        setup = replace(setup, config=config)
    if options.debug_file:
        begin_debug_log(options.debug_file, setup.masks)
    else:
        logging.getLogger().addHandler(logging.NullHandler())
    return setup


def require_access(state_dir: Path) -> None:
    """Raise ConfigError if the state directory is in one of another user, such as root's after `sudo`.

    Where there is none and it cannot be created, makeroom works without it.
    """
    try:
        os.lstat(state_dir / "journals")
    except PermissionError as error:
        raise ConfigError(
            f"cannot use {state_dir}: {cause_of(error)}; change the owner of the directory, or set"
            " XDG_STATE_HOME to another one"
        ) from error
    except OSError:
        pass  # it does not exist yet


def _in_worktree(options: Options, folder: Path, is_offered: bool) -> tuple[Options, Path]:
    """Return the options and the directory to work in: a worktree if a flag or an answer asks for one.

    Raises UsageError, ChoiceCancelled and OSError.
    """
    is_new = options.resume is None and not options.continue_ and not options.headless
    locked = _locked_places(folder) if is_new and is_offered else []
    if options.worktree is None and not locked:
        return options, folder
    from .worktree_session import enter_worktree, offer_worktree  # saves other runs 20 ms

    if options.worktree is None:
        options = offer_worktree(options, folder, locked)
    if options.worktree is not None:
        options, folder = enter_worktree(options, folder)
        os.chdir(folder)
        import_nothing_from(str(folder))
    return options, folder


def _locked_places(folder: Path) -> list[Path]:
    """Return the directories from `folder` to the top of its checkout that have locks of sessions."""
    places = []
    for place in (folder, *folder.parents):
        if any(place.glob(f"{RECORDS_FOLDER}/*.lock")):
            places.append(place)
        if os.access(place / ".git", os.F_OK):
            break
    return places


NO_MODEL = """\
No model is configured. Use one of these:

  an API key for Anthropic
    export ANTHROPIC_API_KEY=sk-ant-...
  any Anthropic-compatible server, such as Ollama or llama.cpp
    export ANTHROPIC_BASE_URL=http://localhost:11434
    {program} --model NAME
  OpenAI, or any server for chat completions with OPENAI_BASE_URL
    export MAKEROOM_PROVIDER=openai OPENAI_API_KEY=...
  the built-in rule-based demo in a sample project, without a key or network
    {program} --offline --sample

Run {program} -p /doctor to check the rest of your installation.
"""


def _run(setup: RunSetup) -> int:
    headless = setup.options.headless
    asks_model = not setup.options.offline and not (headless and setup.options.prompt.strip() == "/doctor")
    if asks_model and not has_credentials(setup.config, setup.environ, Path.home()):
        interactive = ui.at_terminal() and not headless
        warnings = "".join(f"warning: {escaped(each)}\n" for each in setup.config.warnings)
        (sys.stdout if interactive else sys.stderr).write(warnings + NO_MODEL.format(program=program_name()))
        _refuse(replace(setup.options, resume=None), "no model is configured")
        return AuthenticationError.code
    # A face is loaded when it is chosen: 110 ms with prompt_toolkit, 60 ms for the others.
    if setup.options.input_format == "stream-json":
        return stream_protocol.run_stream(setup, commands.make_controller)
    if headless:
        return ui.run_headless(setup, partial(commands.make_controller, setup))
    return asyncio.run(ui.run_repl(partial(_make_driver, setup), setup))


async def _make_driver(
    setup: RunSetup, emit: Emit, approver: Approver, chooser: Chooser | None = None
) -> Driver:
    """Return the controller for a screen; a thread loads its modules, while keys are read."""
    await asyncio.to_thread(getattr, app, "Controller")
    return commands.make_controller(setup, emit, approver, chooser)


class MaskedFormatter(logging.Formatter):
    """Format log lines with time and traceback; masks the values in `masks` and known forms of secrets."""

    def __init__(self, masks: SecretMasks) -> None:
        super().__init__("%(asctime)s %(name)s %(message)s")
        self._masks = masks

    def format(self, record: logging.LogRecord) -> str:
        return self._masks.all(super().format(record))


def begin_debug_log(path: str, masks: SecretMasks) -> None:
    """Start a debug log in the file. Raises UsageError."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(
            f"cannot write the debug log {path}: {cause_of(error)}; choose another file"
        ) from error
    handler = logging.StreamHandler(os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(MaskedFormatter(masks))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])

"""Running: options become a setup, the right face takes over, and every way out has its exit code."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from agent.app import debug_log
from agent.app.config import has_credentials, load_config
from agent.app.options import Options
from agent.app.setup import RunSetup
from agent.errors import AgentError, UsageError
from transcripts.record_errors import StoreError

from .session_choice import with_session

FIRST_SCREEN = """\
makeroom needs a model to talk to. One of these will do:

  export ANTHROPIC_API_KEY=sk-ant-...     your key for the Anthropic API
  export ANTHROPIC_BASE_URL=http://localhost:11434
                                          any Anthropic-compatible server, such as Ollama or llama.cpp
                                          (then choose its model with --model)
  makeroom --offline                      the built-in rule-based demo: no key, no network
"""


def run(options: Options) -> int:
    """Run the program to its end. Raises nothing; errors are one line on standard error."""
    try:
        setup = with_session(_setup(options))
        if setup is None:
            return 0
        if not options.offline and not has_credentials(setup.config, os.environ, Path.home()):
            return _explain(options)
        if options.headless:
            from agent.ui.headless import run_headless

            return run_headless(setup)
        return _interactive(setup)
    except (AgentError, StoreError) as error:
        print(f"makeroom: {error}", file=sys.stderr)
        return error.code if isinstance(error, AgentError) else UsageError.code
    except KeyboardInterrupt:
        return 130


def _setup(options: Options) -> RunSetup:
    folder = _folder(options)
    setup = RunSetup(options, load_config(os.environ, folder, Path.home()), folder, dict(os.environ))
    if options.debug_file:
        debug_log.begin(options.debug_file, setup.masks, os.environ)
    else:
        logging.getLogger().addHandler(logging.NullHandler())
    return setup


def _folder(options: Options) -> Path:
    try:
        folder = Path(options.folder).resolve() if options.folder else Path.cwd()
        os.chdir(folder)
    except OSError as error:
        where = options.folder or "the current folder"
        raise UsageError(f"cannot work in {where}: {error.strerror}; name another with -C") from error
    return folder.resolve()


def _explain(options: Options) -> int:
    interactive = sys.stdin.isatty() and sys.stdout.isatty() and not options.headless
    print(FIRST_SCREEN, end="", file=sys.stdout if interactive else sys.stderr)
    return 5


def _interactive(setup: RunSetup) -> int:
    from .interactive import run_interactive

    return run_interactive(setup)

"""`makeroom acp`: serve an editor over the Agent Client Protocol (ACP) on standard input and output.

    makeroom acp [OPTIONS]       the options of makeroom apply to every session, such as --model

Editors start this command themselves; see docs/guides/editors.md. It requires the extra acp:
pip install 'makeroom[acp]'.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from msgspec.structs import replace

from agent import commands
from agent.app import Options, RunSetup, check_folder, has_credentials
from agent.errors import AuthenticationError, UsageError
from agent.version import program_name

from .arguments import parse
from .command_words import asks_for_help
from .launch import run_setup, with_errors_reported
from .printing import print_text

if TYPE_CHECKING:
    from agent.acp import SessionWish

MISSING_LIBRARY = "makeroom acp needs the extra acp: pip install 'makeroom[acp]'"


def run_acp(words: Sequence[str]) -> int:
    """Run `acp` with these words. Returns the exit code."""
    if asks_for_help(words):
        return print_text(__doc__ or "")
    options = parse(words)
    return with_errors_reported(partial(_serve, options))


def _serve(options: Options) -> int:
    for flag, given in (
        ("a prompt", options.prompt),
        ("-p", options.headless),
        ("--continue or --resume", options.continue_ or options.resume is not None),
        ("--worktree", options.worktree is not None),
        ("--sample", options.sample),
    ):
        if given:
            raise UsageError(f"acp cannot be used with {flag}: the editor sends prompts and chooses sessions")
    if find_spec("acp") is None:
        raise UsageError(MISSING_LIBRARY)
    if not all(map(_is_two_way, (sys.stdin, sys.stdout))):
        raise UsageError("acp requires pipes as standard input and output; an editor starts it that way")
    if sys.stdin.isatty():
        sys.stderr.write("waiting for messages of an editor on standard input (Ctrl-C to stop)\n")
    from agent.acp import run_agent_server  # 1400 ms, and the library may be missing

    return run_agent_server(partial(_setup, options), commands.make_controller, not options.no_session)


def _is_two_way(stream: TextIO | None) -> bool:
    """Return whether a stream can be waited for: a pipe, a socket or a terminal, not a file or /dev/null."""
    if stream is None:
        return False
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


def _setup(options: Options, wish: SessionWish) -> RunSetup:
    """Return the setup of a session that the editor wants. Raises AgentError."""
    servers = (wish.servers,) if wish.servers else ()
    setup = check_folder(
        run_setup(
            replace(
                options,
                headless=True,
                asks_client=True,
                input_format="acp",
                folder=wish.folder,
                add_dirs=(*options.add_dirs, *wish.added),
                mcp_config=(*options.mcp_config, *servers),
                resume=wish.resume,
            )
        )
    )
    if not options.offline and not has_credentials(setup.config, setup.environ, Path.home()):
        raise AuthenticationError(
            f"no model is configured: set ANTHROPIC_API_KEY or another provider (see {program_name()} --help)"
        )
    return setup

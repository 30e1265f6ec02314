"""The entry point: guard the imports, and dispatch on the first word. Imports nothing slow."""

from .import_guard import guard_imports, leave_root

guard_imports()

import errno  # noqa: E402  nothing may be imported before the guard
import gc  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from importlib import import_module  # noqa: E402

from .version import __version__  # noqa: E402

# Functions (words) -> exit code. The module of a subcommand is imported when it is used.
SUBCOMMANDS = {
    "acp": "agent.cli:run_acp",
    "completion": "agent.cli:run_completion",
    "import": "agent.cli:run_import",
    "mcp": "agent.cli:run_mcp",
    "permissions": "agent.cli:run_permissions",
    "recall": "agent.cli:run_recall",
    "replay": "agent.replay.command:main",
    "sessions": "agent.cli:run_sessions",
    "verify": "agent.cli:run_verify",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-v"], ["version"]):
        sys.stdout.write(f"makeroom {__version__}\n")
        return 0
    from . import cli  # saves --version 4 ms

    words = ["--help"] if words == ["help"] else words
    asked = cli.subcommand_of(words, SUBCOMMANDS)
    if asked is None:
        options = cli.parse(words)  # before anything else is loaded, so that --help is quick
        return cli.run(options)
    if asked.folder:
        try:
            os.chdir(asked.folder)
        except OSError as error:
            sys.stderr.write(f"error: cannot change to {asked.folder}: {error.strerror}\n")
            return 2
    package, _, function = SUBCOMMANDS[asked.name].partition(":")
    subcommand: Callable[[Sequence[str]], int] = getattr(import_module(package), function)
    gc.enable()  # `replay`, `verify` and `mcp` may run for long
    return subcommand(asked.words)


def command() -> None:
    """Run the program as a command, and end the process at once when it returns.

    Nothing loaded at start-up becomes garbage, and collection would take 5 % of the start-up time, so the
    garbage collector is off until a session is ready or a subcommand runs. An orderly exit of the interpreter
    would take 0.1 to 0.2 s although nothing is left to do.
    """
    gc.disable()
    sys.excepthook = lambda *failure: import_module("agent.cli").print_traceback(*failure)
    leave_root()
    _open_closed_streams()
    os.umask(os.umask(0o077) & 0o077)  # with a umask of 777, we could not read our own files
    try:
        code = main()
    except (OSError, SystemExit) as error:
        _exit_if_unwritable(error)
        raise
    _exit_if_unwritable()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # closed by the reader: the interpreter reports it
        sys.exit(code)
    os._exit(code)


def _open_closed_streams() -> None:
    """Open the null device in place of each standard stream that is closed (`2>&-`).

    The next file that is opened would get its descriptor, and with it what child processes write to the
    stream: in a transcript, that would be damage. Writing to standard output fails all the same.
    """
    streams = (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY))
    for descriptor, (name, mode, flags) in enumerate(streams):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # the lowest free descriptor, so this one
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115


def _exit_if_unwritable(ended: BaseException | None = None) -> None:
    """End the process with an error if standard output can no longer be written, as on a full disk.

    A buffered stream keeps what it could not write, so another attempt fails as well. An unbuffered one has
    already failed: `ended` is that error, or an exit that it caused. A pipe whose reader has closed it is not
    an error.
    """
    found = ended.__cause__ if isinstance(ended, SystemExit) else ended
    try:
        if isinstance(found, OSError) and found.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise found
        if sys.stdout is not None:
            sys.stdout.flush()
    except (BrokenPipeError, ValueError):
        return
    except OSError as error:
        if sys.stderr is not None:
            sys.stderr.write(f"error: cannot write to standard output: {error.strerror}\n")
            sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    command()

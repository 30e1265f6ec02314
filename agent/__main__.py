"""The entry point: guard the imports, look at the first word, hand over. Imports nothing that is slow."""

from .import_guard import guard_imports

guard_imports()

import gc  # noqa: E402  nothing may be imported before the guard holds
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from importlib import import_module  # noqa: E402

from .version import __version__  # noqa: E402

# Each is a function (words) -> exit code, whose module is imported only when its word comes first.
SUBCOMMANDS = {
    "mcp": "agent.cli:run_mcp",
    "permissions": "agent.cli:run_permissions",
    "recall": "agent.cli:run_recall",
    "replay": "agent.replay.command:main",
    "sessions": "agent.cli:run_sessions",
    "verify": "agent.cli:run_verify",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; returns the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words in (["--version"], ["-v"], ["version"]):
        sys.stdout.write(f"makeroom {__version__}\n")
        return 0
    from . import cli  # 4 ms that --version saves

    words = ["--help"] if words == ["help"] else words
    asked = cli.subcommand_of(words, SUBCOMMANDS)
    if asked is None:
        options = cli.parse(words)  # first: --help loads no more than this takes
        return cli.run(options)
    if asked.folder:
        try:
            os.chdir(asked.folder)
        except OSError as error:
            sys.stderr.write(f"makeroom: cannot work in {asked.folder}: {error.strerror}\n")
            return 2
    package, _, function = SUBCOMMANDS[asked.name].partition(":")
    subcommand: Callable[[Sequence[str]], int] = getattr(import_module(package), function)
    gc.enable()  # `replay` and `verify` may run for long, `mcp` until its client leaves
    return subcommand(asked.words)


def command() -> None:
    """Run the program as a command: when it is over the process ends at once.

    What is loaded at the start does not become garbage: collecting meanwhile would take 5 % of the start. A
    session that is ready enables the collector again, as a subcommand does. Taking apart an interpreter that
    has loaded everything takes 0.1 to 0.2 s, and nothing is left to do.
    """
    gc.disable()
    code = main()
    try:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except (OSError, ValueError):  # closed by whoever read it: the interpreter says so in its way
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    command()

"""Print the output of subcommands, with secrets of the environment masked, and their usage errors."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from tools.text import escaped
from transcripts.secrets import SecretMasks, secret_values


def environment_masks() -> SecretMasks:
    """Return masks for the secrets in the environment, which are never shown."""
    return SecretMasks(secret_values(os.environ))


def print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an error that nothing handled, as the interpreter does, but with secrets masked."""
    import traceback

    text = "".join(traceback.format_exception(kind, error, trace))
    sys.stderr.write(environment_masks().all(text).encode("utf-8", "replace").decode())


def print_text(text: str, *, raw: bool = False) -> int:
    """Print the text as `print_pieces` does."""
    return print_pieces((text,), raw=raw)


def print_pieces(pieces: Iterable[str], *, raw: bool = False) -> int:
    """Print the pieces of a text, ending in a newline, and return 0; escapes control characters unless `raw`.

    Raises SystemExit if the reader has closed the pipe, which is no error, and for another failure to write,
    which the entry point reports.
    """
    try:
        shown = ""
        for piece in filter(None, pieces):
            shown = piece if raw else escaped(piece)
            sys.stdout.write(shown.encode("utf-8", "replace").decode())
        sys.stdout.write("" if shown.endswith("\n") else "\n")
        sys.stdout.flush()
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from error
    except OSError as error:
        raise SystemExit(1) from error
    return 0


def announce(doing: str, path: Path, speed: float) -> None:
    """Print a line on standard error if work on a file takes over a second at so many bytes a second."""
    size = path.stat().st_size if path.exists() else 0
    if size > speed:
        sys.stderr.write(f"{doing} {size / 1e6:,.1f} MB ...\n")
        sys.stderr.flush()


def complain(error: str) -> int:
    """Print an error on standard error, and return the exit code of usage errors."""
    sys.stderr.write(f"error: {escaped(error)}\n")
    return 2


def show_usage(words: str) -> int:
    """Print how makeroom is used with these words on standard error; return the exit code of usage errors."""
    sys.stderr.write(f"usage: makeroom {words}\n")
    return 2

"""Run a function in a fork of this process, as a program of its own: its imports are there already."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn


def start_forked(
    program: Callable[[], int], folder: Path, environ: dict[str, str], **streams: Any
) -> subprocess.Popen[str]:
    """Start a program, which returns its exit code; `streams` are as for Popen.

    It is a process of its own, that is signalled, killed and waited for. How an interpreter begins and ends
    with a program, and what /proc tells of its environment, is tested without a fork.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks with threads
        return subprocess.Popen(
            [sys.executable],  # which is never reached
            cwd=folder,
            text=True,
            preexec_fn=partial(run_forked, program, environ),
            **streams,
        )


def run_forked(program: Callable[[], int], environ: dict[str, str]) -> NoReturn:
    """In a forked child: run the program, as if Python had started again, and exit."""
    code = 1
    try:
        os.closerange(3, 65_536)  # the servers of the tests, and the pipe on which Popen waits for exec
        gc.freeze()  # or a collection would copy all that the tests have loaded
        os.environ.clear()
        os.environ.update(environ)
        tempfile.tempdir = None  # looked up again, in these variables
        warnings.simplefilter("ignore")
        sys.stdin = open(0)  # noqa: SIM115
        sys.stdout = open(1, "w")  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1)  # noqa: SIM115
        code = program()
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:  # noqa: BLE001  shown, as Python would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

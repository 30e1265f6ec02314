"""The supervisor's main program: contain commands, serve the agent, leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress

from . import CANNOT_ENCLOSE
from .containment import contain
from .spawner import Spawner, serve_spawner
from .stage import SandboxStage


def main(fd: str, folder: str, how: str) -> None:
    """Serve the socket `fd` until it closes, then remove `folder`. `how` is as in `contain`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    os.set_inheritable(int(fd), False)
    try:
        enclosed = contain(how)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(CANNOT_ENCLOSE)
    end = socket.socket(fileno=int(fd))
    spawner = Spawner(end, enclosed)
    stage = SandboxStage(how)
    spawner.start_sandbox = stage.add_sandbox
    try:
        plain = "subreaper" if sys.platform == "linux" else "group"
        serve_spawner(spawner, {"hello": "namespace" if enclosed else plain})
    finally:
        stage.close()
        _remove(folder)
    os._exit(0)  # without the interpreter's shutdown, since nothing is left to do


def _remove(folder: str) -> None:
    """Remove a directory within its file system. The agent removes the rest.

    Nothing in it is open at this point.
    """
    with suppress(OSError):
        device = os.lstat(folder).st_dev
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                elif entry.stat(follow_symlinks=False).st_dev == device:
                    _remove(entry.path)
        os.rmdir(folder)

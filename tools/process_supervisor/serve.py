"""The supervisor's main program: contain what is started, serve the agent, leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from . import CANNOT_ENCLOSE
from .sandbox import contain
from .spawner import Spawner, serve_spawner
from .wall_levels import raise_wall
from .walled_mounts import hide_record


def main(fd: str, folder: str, how: str) -> None:
    """Serve the socket `fd` until it closes; remove `folder` then. `how` is as in `contain`."""
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
    hidden: set[str] = set()
    spawner.raise_wall = lambda profile, wall_fd: _raise_wall(profile, wall_fd, how, hidden)
    try:
        plain = "subreaper" if sys.platform == "linux" else "group"
        serve_spawner(spawner, {"hello": "namespace" if enclosed else plain})
    finally:
        _remove(folder)


def _raise_wall(profile: dict[str, Any], fd: int, how: str, hidden: set[str]) -> int:
    """Fork a spawner of walled commands, which serves the socket `fd`; its pid, 0 where there is no wall.

    Our records are hidden from open commands as well; those of `hidden` are already.
    """
    for path in profile["records"] if how == "enclose" else ():
        if path not in hidden:
            hide_record(path)
            hidden.add(path)
    with socket.socket(fileno=fd) as end:
        return raise_wall(end, profile, how)


def _remove(folder: str) -> None:
    """Remove a folder; what stays is removed by the agent. Nothing in it can be open any more."""
    with suppress(OSError):
        for place, folders, files in os.walk(folder, topdown=False):
            for name in files:
                os.unlink(os.path.join(place, name))
            for name in folders:
                os.rmdir(os.path.join(place, name))
        os.rmdir(folder)

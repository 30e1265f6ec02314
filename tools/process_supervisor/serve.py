"""The supervisor's main program: contain what is started, serve the agent, leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from . import CANNOT_ENCLOSE
from .memory_limit import make_memory_group, remove_memory_group
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
    walls = _Walls(how)
    spawner.raise_wall = walls.add
    try:
        plain = "subreaper" if sys.platform == "linux" else "group"
        serve_spawner(spawner, {"hello": "namespace" if enclosed else plain})
    finally:
        remove_memory_group(walls.group)
        _remove(folder)


class _Walls:
    """What the walls of a session have in common: hidden records, and the bound to their memory."""

    def __init__(self, how: str) -> None:
        self.how = how
        self.hidden: set[str] = set()
        self.group: str | None = None
        self.raised = False

    def add(self, profile: dict[str, Any], fd: int) -> int:
        """Fork a spawner of walled commands, which serves the socket `fd`; its pid, 0 where there is no wall.

        Our records are hidden from open commands as well.
        """
        for path in profile["records"] if self.how == "enclose" else ():
            if path not in self.hidden:
                hide_record(path)
                self.hidden.add(path)
        if not self.raised and sys.platform == "linux":
            self.raised, self.group = True, make_memory_group()
        with socket.socket(fileno=fd) as end:
            return raise_wall(end, {**profile, "group": self.group}, self.how)


def _remove(folder: str) -> None:
    """Remove a folder; what stays is removed by the agent. Nothing in it can be open any more."""
    with suppress(OSError):
        for place, folders, files in os.walk(folder, topdown=False):
            for name in files:
                os.unlink(os.path.join(place, name))
            for name in folders:
                os.rmdir(os.path.join(place, name))
        os.rmdir(folder)

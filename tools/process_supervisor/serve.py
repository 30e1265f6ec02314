"""Serve the agent: start commands, tell how they end, end them; collect every child that dies."""

# ruff: noqa: PTH108, PTH106, PTH118, PTH208

from __future__ import annotations

import array
import errno
import json
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from . import CANNOT_ENCLOSE
from .process_table import (
    MARK,
    below,
    crowded,
    group_lives,
    has_children,
    has_proc,
    hit,
    mark_of,
    processes,
    words_of,
)
from .sandbox import brace, settle

GRACE = 0.5  # seconds between TERM and KILL
TICK = 0.01  # seconds between looks at a tree that is to end
STUBBORN = 0.3  # seconds of KILL after which everything in the namespace goes (a fork bomb outruns a walk)

_NOBODY_ELSE = frozenset((signal.SIGKILL, signal.SIGSTOP))
_SIGNALS = tuple(signal.valid_signals() - _NOBODY_ELSE)


class RunningCommand:
    """One command: its shell's pid, its raw wait status once it ended, and when its end was asked for."""

    __slots__ = ("ending", "number", "pid", "status", "termed")

    def __init__(self, number: int, pid: int) -> None:
        self.number, self.pid = number, pid
        self.status: int | None = None
        self.ending: float | None = None
        self.termed = False


class Supervisor:
    """The commands of one session and the loop that serves the agent's socket."""

    def __init__(self, link: socket.socket, enclosed: bool) -> None:
        self.link, self.enclosed = link, enclosed
        self.commands: dict[int, RunningCommand] = {}
        self.owners: dict[int, int] = {}  # orphan -> number of the command that left it
        self.fds: list[int] = []
        self.buffer = bytearray()
        self.null = os.open(os.devnull, os.O_RDWR)

    def serve(self, bell: int) -> None:
        """Answer until the agent is gone. `bell` becomes readable at every signal."""
        poller = select.poll()
        poller.register(bell, select.POLLIN)
        poller.register(self.link, select.POLLIN)
        while True:
            busy = any(command.ending is not None for command in self.commands.values())
            for fd, _ in poller.poll(TICK * 1000 if busy else None):
                if fd == bell:
                    os.read(bell, 4096)
                elif not self.receive():
                    return
            self.reap()
            self.press()

    def receive(self) -> bool:
        """Take what came over the socket; False at its end."""
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        data, extra, _, _ = self.link.recvmsg(1 << 16, socket.CMSG_SPACE(16 * 4), flags)
        for level, kind, payload in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                got = array.array("i")
                got.frombytes(payload[: len(payload) - len(payload) % got.itemsize])
                self.fds.extend(got)
        for fd in self.fds if not flags else ():
            os.set_inheritable(fd, False)
        self.buffer += data
        while len(self.buffer) >= 4 and len(self.buffer) >= 4 + (
            size := int.from_bytes(self.buffer[:4], "big")
        ):
            request = json.loads(self.buffer[4 : 4 + size])
            del self.buffer[: 4 + size]
            self.obey(request)
        return bool(data)

    def obey(self, request: dict[str, Any]) -> None:
        number = request["n"]
        command = self.commands.get(number)
        if request["op"] == "run":
            self.run(number, request)
        elif command is None:
            self.tell({"n": number, "left": [], "over": True})
        elif request["op"] == "left":
            found = sorted(self.tree(command))
            self.tell({"n": number, "left": [[pid, words_of(pid)] for pid in found if pid != command.pid]})
        elif command.ending is None:
            command.ending = time.monotonic()

    def run(self, number: int, request: dict[str, Any]) -> None:
        out = self.fds.pop(0)
        try:
            os.chdir(request["cwd"])
            moves = [(os.POSIX_SPAWN_DUP2, self.null, 0)]
            moves += [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)]
            env = {**request["env"], MARK: str(number)}
            fresh: dict[str, Any] = {"setsid": True, "setsigmask": (), "setsigdef": _SIGNALS}
            pid = os.posix_spawn(request["path"], request["argv"], env, file_actions=moves, **fresh)
        except OSError as error:
            self.tell({"n": number, "errno": error.errno or errno.EIO})
        else:
            self.commands[number] = RunningCommand(number, pid)
            self.tell({"n": number, "pid": pid})
        finally:
            os.close(out)
            os.chdir("/")

    def reap(self) -> None:
        """Collect every child that ended, adopted ones too."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                pid = 0
            if not pid:
                break
            self.owners.pop(pid, None)
            for command in self.commands.values():
                if command.pid == pid and command.status is None:
                    command.status = status
                    self.tell({"n": command.number, "status": status, "strays": len(self.tree(command))})
        for command in [command for command in self.commands.values() if command.status is not None]:
            if not self.tree(command):
                del self.commands[command.number]
                self.tell({"n": command.number, "over": True})

    def press(self) -> None:
        """Take every command that is to end one step further: TERM, KILL, and KILL to all that is there."""
        now = time.monotonic()
        ending = [command for command in self.commands.values() if command.ending is not None]
        for command in ending:
            waited = now - (command.ending or now)
            if self.enclosed and (waited > GRACE + STUBBORN or crowded()):
                os.kill(-1, signal.SIGKILL)
            elif waited > GRACE:
                self.strike(command, signal.SIGKILL)
            elif not command.termed:
                command.termed = True
                self.strike(command, signal.SIGTERM)
                self.strike(command, signal.SIGCONT)  # a stopped process acts on TERM only when it goes on
        if ending:
            self.reap()

    def strike(self, command: RunningCommand, sign: int) -> None:
        hit(self.tree(command), [command.pid], sign)

    def tree(self, command: RunningCommand) -> set[int]:
        """Every living process that the command started, however it hid: detached, re-parented, renamed."""
        if command.status is not None and not has_children():
            return set()
        known = processes()
        if not known:  # the process group is all there is to see
            return {command.pid} if group_lives(command.pid) else set()
        mine = [pid for pid, (parent, _) in known.items() if parent == os.getpid()]
        mine = [pid for pid in mine if self.owner(pid, known[pid][1]) == command.number]
        return set(mine).union(*(below(pid, known) for pid in mine))

    def owner(self, pid: int, session: int) -> int | None:
        """Which command a child of ours belongs to: as its shell, by mark, by session, or as the newest."""
        if pid not in self.owners:
            by_session = {command.pid: number for number, command in self.commands.items()}
            number = by_session.get(pid) or mark_of(pid) or by_session.get(session)
            if number not in self.commands:
                number = max(self.commands, default=0)
            if not number:
                return None
            self.owners[pid] = number
        return self.owners[pid]

    def tell(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        self.link.sendall(len(data).to_bytes(4, "big") + data)


def end_all(enclosed: bool, groups: list[int]) -> None:
    """TERM to everything below us, half a second, KILL to what is left. `groups` matter without /proc."""
    start = time.monotonic()
    strike_all(enclosed, groups, signal.SIGTERM)
    strike_all(enclosed, groups, signal.SIGCONT)
    while time.monotonic() < start + GRACE + 2.0 and collect(groups):
        if time.monotonic() > start + GRACE:
            strike_all(enclosed, groups, signal.SIGKILL)
        time.sleep(TICK)


def strike_all(enclosed: bool, groups: list[int], sign: int) -> None:
    if enclosed:
        with suppress(ProcessLookupError):
            os.kill(-1, sign)
    else:
        hit(below(os.getpid(), processes()), groups, sign)


def collect(groups: list[int]) -> bool:
    """Reap in silence; whether there is anybody left."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return not has_proc() and any(group_lives(group) for group in groups)


def main(fd: str, folder: str, how: str) -> None:
    """Serve the socket `fd` until it closes; remove `folder` then. `how` is "enclose" or "plain"."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(sign, signal.SIG_IGN)
    os.set_inheritable(int(fd), False)
    try:
        enclosed = settle(how)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        os._exit(CANNOT_ENCLOSE)
    bell, rope = os.pipe()
    os.set_blocking(rope, False)
    signal.set_wakeup_fd(rope, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    brace()
    supervisor = Supervisor(socket.socket(fileno=int(fd)), enclosed)
    try:
        plain = "subreaper" if sys.platform == "linux" else "group"
        supervisor.tell({"hello": "namespace" if enclosed else plain})
        supervisor.serve(bell)
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        end_all(enclosed, [command.pid for command in supervisor.commands.values()])
        sweep(folder)


def sweep(folder: str) -> None:
    """Remove the private folder, which holds files only."""
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)

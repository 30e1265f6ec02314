"""Start commands, report how they end, end them, and reap all children.

A spawner serves one socket. The supervisor is the spawner of commands outside the sandbox. Sandboxed commands
have a spawner in the sandbox.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from . import process_table
from .containment import limit_processes

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from typing import Any

    from .profile_message import ProfileMessage

TERM_GRACE_S = 0.5  # between TERM and KILL
POLL_S = 0.01  # between checks of ending processes
KILL_GRACE_S = 0.3  # after KILL, then the whole namespace is killed, as a fork bomb is faster than a walk
CROWD_PROCESSES = 1000  # more are killed together: a walk takes seconds, while they continue to fork
END_LIMIT_S = 2.0  # after KILL, then the supervisor exits anyway
_RESET_SIGNALS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


class RunningCommand:
    """One running command; `pid` is that of its shell."""

    def __init__(self, number: int, pid: int) -> None:
        self.number = number
        self.pid = pid
        self.status: int | None = None  # the shell's raw wait status, once it ended
        self.ending: float | None = None  # when its end was requested, in monotonic seconds
        self.termed = False  # TERM was sent


class Spawner:
    """The commands of one socket, and the loop that serves it. `enclosed`: it is PID 1 of a namespace."""

    def __init__(self, agent: socket.socket, enclosed: bool) -> None:
        self.agent = agent
        self.enclosed = enclosed
        self.environ: Mapping[str, str] = {}  # overrides that of every command; "" removes a variable
        self.prefix: tuple[str, ...] = ()  # a program with options that starts every command
        self.start_sandbox: Callable[[ProfileMessage, int], int] | None = None  # given a socket too
        self.commands: dict[int, RunningCommand] = {}
        self.owners: dict[int, int] = {}  # child -> number of the command that it belongs to
        self.fds: list[int] = []  # received, each for a command that has not been started yet
        self.buffer = b""
        self.null = os.open(os.devnull, os.O_RDWR)

    def serve(self, wakeup: int) -> None:
        """Serve until the agent has exited. The descriptor `wakeup` becomes readable at every signal."""
        poller = select.poll()
        poller.register(wakeup, select.POLLIN)
        poller.register(self.agent, select.POLLIN)
        while True:
            ending = any(command.ending is not None for command in self.commands.values())
            for fd, _ in poller.poll(POLL_S * 1000 if ending else None):
                if fd == wakeup:
                    os.read(wakeup, 4096)
                elif not self.receive():
                    return
            self.reap()
            self.advance_endings()

    def receive(self) -> bool:
        """Handle data from the socket; return False at its end."""
        data, fds, _, _ = socket.recv_fds(self.agent, 1 << 16, 16, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        for fd in fds:
            os.set_inheritable(fd, False)
        self.fds += fds
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            self.obey(json.loads(line))
        return bool(data)

    def send(self, message: Mapping[str, Any]) -> None:
        self.agent.sendall(json.dumps(message).encode() + b"\n")

    def obey(self, request: dict[str, Any]) -> None:
        if request["op"] == "sandbox" and self.start_sandbox is not None:
            self.owners[self.start_sandbox(request["profile"], self.fds.pop(0))] = 0  # not part of a command
            return
        number = request["n"]
        command = self.commands.get(number)
        if request["op"] == "run":
            self.run(number, request)
        elif request["op"] == "connect":
            send_connection(self.agent, number, (request["host"], request["port"]))
        elif request["op"] == "who":
            self.send({"n": number, "who": self.connected_command(request["port"])})
        elif command is None:
            self.send({"n": number, "left": [], "ports": [], "over": True})
        elif request["op"] == "ports":
            self.send({"n": number, "ports": process_table.listening_ports(self.tree(command))})
        elif request["op"] == "left":
            found = sorted(self.tree(command) - {command.pid})
            self.send({"n": number, "left": [[pid, process_table.command_line_of(pid)] for pid in found]})
        elif command.ending is None:
            command.ending = time.monotonic()

    def run(self, number: int, request: dict[str, Any]) -> None:
        out, *talk = (self.fds.pop(0) for _ in range(1 + bool(request.get("talks"))))
        try:
            os.chdir(request["cwd"])
            ends = (*(talk * 2 or (self.null, out)), out)
            moves = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate(ends)]
            env = {**request["env"], **self.environ, process_table.CALL_VARIABLE: str(number)}
            env = {name: value for name, value in env.items() if value or name not in self.environ}
            fresh: dict[str, Any] = {"setsid": True, "setsigmask": (), "setsigdef": _RESET_SIGNALS}
            path = request["path"]
            argv = request["argv"]
            if self.prefix:
                argv = [*self.prefix, path, *argv[1:]]
                path = self.prefix[0]
            pid = os.posix_spawn(path, argv, env, file_actions=moves, **fresh)
        except OSError as error:
            self.send({"n": number, "errno": error.errno or errno.EIO})
        except ValueError:  # an argument contains a NUL or a lone surrogate
            self.send({"n": number, "errno": errno.EINVAL})
        else:
            self.commands[number] = RunningCommand(number, pid)
            self.send({"n": number, "pid": pid})
        finally:
            for fd in (out, *talk):
                os.close(fd)
            os.chdir("/")

    def reap(self) -> None:
        """Reap every child that ended, including adopted ones.

        A command in a sandbox of Landlock may stop the spawner there, which would wait forever.
        """
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
                if os.WIFSTOPPED(ended[1]):
                    if self.owners.get(ended[0]) == 0:
                        os.kill(ended[0], signal.SIGCONT)
                    continue
                self.owners.pop(ended[0], None)
                for command in self.commands.values():
                    if command.pid == ended[0] and command.status is None:
                        command.status = ended[1]
                        strays = len(self.tree(command))
                        self.send({"n": command.number, "status": command.status, "strays": strays})
        for command in [command for command in self.commands.values() if command.status is not None]:
            if not self.tree(command):
                del self.commands[command.number]
                self.send({"n": command.number, "over": True})

    def advance_endings(self) -> None:
        """Advance the end of each ending command one step: TERM, KILL, KILL to the whole namespace."""
        now = time.monotonic()
        ending = [command for command in self.commands.values() if command.ending is not None]
        for command in ending:
            waited = now - (command.ending or now)
            crowded = self.enclosed and len(os.listdir("/proc")) > CROWD_PROCESSES
            if crowded or (self.enclosed and waited > TERM_GRACE_S + KILL_GRACE_S):
                os.kill(-1, signal.SIGKILL)
            elif waited > TERM_GRACE_S:
                self.signal_tree(command, signal.SIGKILL)
            elif not command.termed:
                command.termed = True
                self.signal_tree(command, signal.SIGTERM)
                # A stopped process only handles TERM after it continues.
                self.signal_tree(command, signal.SIGCONT)
        if ending:
            self.reap()

    def signal_tree(self, command: RunningCommand, number: int) -> None:
        process_table.send_signal(self.tree(command), [command.pid], number)

    def tree(self, command: RunningCommand) -> set[int]:
        """Return every living process of the command, including detached, re-parented and renamed ones."""
        if command.status is not None and self._has_no_commands():
            return set()
        running = process_table.processes()
        if not running:  # only the process group is known
            return {command.pid} if process_table.group_lives(command.pid) else set()
        children = [pid for pid, (parent, _) in running.items() if parent == os.getpid()]
        mine = [pid for pid in children if self.owner(pid, running[pid][1]) == command.number]
        return set(mine).union(*(process_table.descendants(pid, running) for pid in mine))

    def connected_command(self, port: int) -> list[int | str]:
        """Return [number, program, argument...] of the command that has connected from a port, else []."""
        for number, command in self.commands.items():
            if pid := process_table.connected_process(port, self.tree(command)):
                return [number, *process_table.program_of(pid)]
        return []

    def _has_no_commands(self) -> bool:
        """Return whether no child is known to belong to a command."""
        found = process_table.children()
        return found is not None and all(self.owners.get(pid) == 0 for pid in found)

    def owner(self, pid: int, session: int) -> int | None:
        """Return the command that a child belongs to: by shell, environment or session, else the newest."""
        if pid not in self.owners:
            by_shell = {command.pid: number for number, command in self.commands.items()}
            number = by_shell.get(pid) or process_table.command_number_of(pid) or by_shell.get(session)
            if number not in self.commands:
                number = max(self.commands, default=0)
            if not number:
                return None
            self.owners[pid] = number
        return self.owners[pid]


def send_connection(agent: socket.socket, number: int, address: tuple[str, int]) -> None:
    """Send a connecting or connected socket for an address in the network of the commands."""
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    message = b'{"n": %d, "connected": %d}\n'
    try:
        end = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        agent.sendall(message % (number, error.errno or errno.EIO))
        return
    with end:
        end.setblocking(False)
        code = end.connect_ex(address)
        if code in (0, errno.EINPROGRESS):
            socket.send_fds(agent, [message % (number, 0)], [end.fileno()])
        else:
            agent.sendall(message % (number, code))


def end_all(enclosed: bool, groups: list[int], wakeup: int) -> None:
    """Send TERM to all descendants, and KILL after half a second. `groups` are used without /proc.

    The descriptor `wakeup` becomes readable at every signal.
    """
    start = time.monotonic()
    _signal_all(enclosed, groups, signal.SIGTERM)
    _signal_all(enclosed, groups, signal.SIGCONT)
    while time.monotonic() < start + TERM_GRACE_S + END_LIMIT_S and _collect(groups):
        if time.monotonic() > start + TERM_GRACE_S:
            _signal_all(enclosed, groups, signal.SIGKILL)
        if select.select([wakeup], [], [], POLL_S)[0]:  # a child may have ended
            os.read(wakeup, 4096)


def _signal_all(enclosed: bool, groups: list[int], number: int) -> None:
    if enclosed:
        with suppress(ProcessLookupError):
            os.kill(-1, number)
    else:
        below = process_table.descendants(os.getpid(), process_table.processes())
        process_table.send_signal(below, groups, number)


def _collect(groups: list[int]) -> bool:
    """Reap ended children; return whether any process is left."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return not process_table.has_proc() and any(process_table.group_lives(group) for group in groups)


def serve_spawner(spawner: Spawner, hello: Mapping[str, Any]) -> None:
    """Send hello and serve until the agent has exited, then end everything that was started."""
    wakeup, signalled = os.pipe()
    os.set_blocking(signalled, False)
    signal.set_wakeup_fd(signalled, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    limit_processes()
    try:
        spawner.send(hello)
        spawner.serve(wakeup)
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        end_all(spawner.enclosed, [command.pid for command in spawner.commands.values()], wakeup)

"""Start, track and end commands and their descendants: the agent's side of the process supervisor.

The supervisor and its protocol are described in supervisor/__init__.py. The time limits of commands, the
handling of their output and the reports for the model are in tools/processes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from msgspec import to_builtins
from msgspec.structs import asdict

from tools.sandbox.old_layers import use_layers

from .command_socket import CommandHandle, CommandSocket, ConnectedCommand, SupervisorLost
from .profile import SandboxLevel, SandboxProfile
from .supervisor import CANNOT_ENCLOSE, boot

if TYPE_CHECKING:
    from .supervisor.profile_message import ProfileMessage

_START_LIMIT_S = 10.0  # for a supervisor's first message; it takes 0.05
_CLOSE_LIMIT_S = 5.0  # for a supervisor to end everything; it takes 0.6 if TERM is ignored
_SCRATCH = "walled"
_STAGE = "stage"  # in the private directory: the mount point for files of sandboxed commands


class Supervisor:
    """The supervisor of a session, made by `start_supervisor`. Belongs to one event loop.

    `how` is the containment of commands: "namespace", "subreaper" or "group". `sandbox` is the kind of
    sandbox once `sandbox_ready` was awaited, and `why_no_sandbox` the reason if there is none.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], end: socket.socket, log: IO[bytes], private: Path
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.open = CommandSocket(end)
        self.sandboxed: CommandSocket | None = None
        self._profile: SandboxProfile | None = None
        self._around: dict[Path, int] = {}
        self._retired: list[CommandSocket] = []
        self._groups: list[int] = []  # process groups to kill if the supervisor has to be killed
        self._process = process
        self._log = log
        self._private = private

    @property
    def alive(self) -> bool:
        return self.open.socket.open

    @property
    def how(self) -> str:
        """The containment of commands outside the sandbox; "" if the supervisor ended before reporting it."""
        return str(self.open.hello.result().get("hello", ""))

    @property
    def sandbox(self) -> SandboxLevel:
        """The kind of the sandbox; "none" until it is known."""
        level: SandboxLevel = self._sandbox_hello().get("hello", "none")
        return level

    @property
    def why_no_sandbox(self) -> str:
        """Return the reason why there is no sandbox or only a weaker one, "" for the strongest."""
        hello = self._sandbox_hello()
        return str(hello.get("why", "")) if "hello" in hello else "the sandbox's process ended"

    def _sandbox_hello(self) -> dict[str, Any]:
        if self.sandboxed is None:
            return {"hello": "none", "why": "no sandbox was requested"}
        return dict(self.sandboxed.hello.result()) if self.sandboxed.hello.done() else {}

    async def sandbox_ready(self) -> None:
        """Wait until the kind of sandbox is known. Raises SupervisorLost.

        A lost sandbox is started again, since a weaker sandbox does not prevent commands from killing its
        process. So is one of Landlock when files beside hidden ones were replaced: it allows them one by one.
        """
        if self.sandboxed is not None and self._profile is not None:
            is_outdated = self.sandbox == "landlock" and self._around != _around_hidden(self._profile)
            if self.sandbox != "none" and (is_outdated or not self.sandboxed.socket.open):
                self.start_sandbox(self._profile)
            await asyncio.wait({self.sandboxed.hello}, timeout=_START_LIMIT_S)

    async def use_profile(self, profile: SandboxProfile) -> None:
        """Run new sandboxed commands in another sandbox. Running ones keep theirs."""
        self.start_sandbox(profile)
        await self.sandbox_ready()

    def start_sandbox(self, profile: SandboxProfile) -> None:
        """Start a sandbox as `use_profile` does, without waiting for it. Raises SupervisorLost."""
        if not self.alive:
            raise SupervisorLost("the process that runs commands has ended")
        if self.sandboxed is not None:
            self.sandboxed.retire()
            self._retired = [each for each in (*self._retired, self.sandboxed) if each.socket.open]
        if self._profile is None and profile.cache_layers is not None:
            use_layers(profile.cache_layers)
        ours, theirs = socket.socketpair()
        self._profile = profile
        self._around = _around_hidden(profile)
        self.sandboxed = CommandSocket(ours)
        for name in (_SCRATCH, _STAGE):
            (self._private / name).mkdir(exist_ok=True)
        message = {"op": "sandbox", "profile": _profile_message(profile, self._private)}
        self.open.socket.send(message, theirs.detach())

    async def connect(self, port: int) -> socket.socket:
        """Return a connection to a port that sandboxed commands listen on. Raises OSError.

        Each sandbox of bwrap has a network of its own, and a job may run in an earlier sandbox.
        """
        for spawner in (self.sandboxed, *reversed(self._retired)):
            for host in ("127.0.0.1", "::1"):  # a server on "localhost" may use either
                with suppress(OSError):
                    if spawner is not None:
                        return await spawner.connect(host, port)
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))

    async def connected_command(self, port: int) -> ConnectedCommand | None:
        """Return the sandboxed command that has connected from a port of its network; None if unknown."""
        for spawner in (self.sandboxed, *reversed(self._retired)):
            found = await spawner.connected_command(port) if spawner is not None else None
            if found is not None:
                return found
        return None

    def run(self, take: Callable[[bytes], object], sandboxed: bool = False, **start: Any) -> CommandHandle:
        """Start a command as `CommandSocket.run` does. Raises SupervisorLost if its sandbox is missing."""
        if not sandboxed:
            return self.open.run(take, **start)
        if self.sandboxed is None or self.sandbox == "none":
            raise SupervisorLost(f"no sandbox is available for the command: {self.why_no_sandbox}")
        return self.sandboxed.run(take, **start)

    @property
    def private(self) -> Path:
        """The session's private directory, which sandboxed commands can read but not write."""
        return self._private

    @property
    def scratch(self) -> Path:
        """The directory that sandboxed commands may also write, so its contents are not trusted."""
        return self._private / _SCRATCH

    @property
    def refused(self) -> bool:
        """Return whether it ended because the system does not allow namespaces."""
        return self._process.poll() == CANNOT_ENCLOSE

    async def close(self) -> None:
        """End everything and wait until it has ended. May be called at any time, and again.

        If no command was run, a running supervisor is killed without waiting, which saves 30 ms. One that has
        closed its socket is ending by itself, and its exit status says why.
        """
        spawners = (self.open, self.sandboxed, *self._retired)
        if self.alive and not any(each is not None and each.has_run for each in spawners):
            self.abandon()
            return
        self._close_sockets()
        limit = self.loop.time() + _CLOSE_LIMIT_S
        while self._process.poll() is None and self.loop.time() < limit:
            await asyncio.sleep(0.002)
        self.abandon()

    def abandon(self) -> None:
        """Close immediately without a grace period, for callers that cannot await."""
        self._close_sockets()
        if self._process.poll() is None:
            self._process.kill()  # the kernel ends all processes of its namespace
            self._process.wait()
            for group in self._groups:
                with suppress(OSError):
                    os.killpg(group, signal.SIGKILL)
        self._log.close()
        if not self.refused:
            shutil.rmtree(self._private, ignore_errors=True)  # if it was killed before it could

    def _close_sockets(self) -> None:
        for each in (self.open, self.sandboxed, *self._retired):
            if each is not None and each.socket.open:
                self._groups += each.close()

    def why(self) -> str:
        """Return the last output of the supervisor, or how it ended."""
        with suppress(OSError, ValueError):
            self._log.seek(0)
            lines = self._log.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
            if lines:
                return lines[-1]
        return f"exit status {self._process.poll()}"


def _around_hidden(profile: SandboxProfile) -> dict[Path, int]:
    """Return when entries of the directories that contain hidden paths last changed, outside the project.

    Directories for everyone's temporary files are left out, since they change all the time.
    """
    found = {}
    for place in {above for path in profile.hidden for above in path.parents}:
        with suppress(OSError):
            state = place.stat()
            if not (state.st_mode & stat.S_ISVTX or place.is_relative_to(profile.folder)):
                found[place] = state.st_mtime_ns
    return found


def _profile_message(profile: SandboxProfile, private: Path) -> ProfileMessage:
    """Return the profile as JSON, with the session's private directories."""
    folders = {"private": private, "scratch": private / _SCRATCH, "stage": private / _STAGE}
    message: ProfileMessage = to_builtins({**asdict(profile), **folders}, enc_hook=str)
    return message


async def start_supervisor(private: Path, *, enclose: bool = True) -> Supervisor:
    """Start a supervisor. It removes the directory `private` when it ends. Raises SupervisorLost.

    With `enclose` a PID namespace is tried first (which takes 0.03 s more if it is denied).
    """
    for how in ("enclose", "refused") if enclose and sys.platform == "linux" else ("plain",):
        supervisor = _spawn(private, how)
        try:
            await asyncio.wait({supervisor.open.hello}, timeout=_START_LIMIT_S)
        except asyncio.CancelledError:
            supervisor.abandon()
            raise
        if supervisor.open.hello.done() and supervisor.how:
            return supervisor
        why = supervisor.why()
        await supervisor.close()
        if not supervisor.refused:
            break
    raise SupervisorLost(f"cannot run commands: {why}")


def _spawn(private: Path, how: str) -> Supervisor:
    """Start the process without secrets in its environment and without a terminal. Raises SupervisorLost."""
    ours, theirs = socket.socketpair()
    log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the supervisor
    utf8 = int(sys.getfilesystemencoding() == "utf-8")  # so that paths are encoded in the same way
    argv = [sys.executable, "-P", "-s", "-S", "-X", f"utf8={utf8}", "-c", boot("serve", "main")]
    argv += [str(Path(__file__).parent), str(theirs.fileno()), str(private), how]
    needed = ("LC_ALL", "LC_CTYPE", "LANG", "LD_LIBRARY_PATH", "PYTHONHOME")  # needed by the interpreter
    environ = {name: os.environ[name] for name in needed if name in os.environ}
    try:
        process = subprocess.Popen(
            argv,
            env={"PATH": os.defpath, **environ},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
    except OSError as error:
        ours.close()
        log.close()
        raise SupervisorLost(f"cannot run commands: {error}") from error
    finally:
        theirs.close()
    return Supervisor(process, end=ours, log=log, private=private)

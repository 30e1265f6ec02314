"""The process that starts commands for the agent, knows everything they leave behind, and ends it.

Run as a script, one for each session, with nothing of ours imported: `python -I -S warden.py <socket fd>
<private folder> <enclose|plain>`. Where the system allows it is the first process (PID 1) of a PID
namespace with a /proc and pseudo-terminals of its own: commands neither see the agent nor can signal it,
and the kernel ends them all when the warden ends. Elsewhere it is a subreaper, which inherits every orphan.
It ends when the agent's end of the socket closes, however that came about.

Messages are JSON after four bytes of length, big-endian. To the warden: `{"op": "run", "n", "path",
"argv", "env", "cwd"}` with the descriptor for stdout and stderr, `{"op": "end", "n"}`, `{"op": "left",
"n"}`. From it: `{"hello": how}`, `{"n", "pid"}` or `{"n", "errno"}`, `{"n", "status", "strays"}` when the
shell ended, `{"n", "left": [[pid, words]]}`, `{"n", "over": true}` when nothing of a command is left.
"""

# pathlib would take a third of the time to start
# ruff: noqa: PTH108, PTH110, PTH118, PTH106, PTH123, PTH208

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

GRACE = 0.5  # seconds between TERM and KILL
TICK = 0.01  # seconds between looks at a tree that is to end
STUBBORN = 1.0  # seconds of KILL after which everything in the namespace goes (a fork bomb outruns a walk)
PROCESSES = 8192  # at most, for all commands together, where the kernel can count them apart
MARK = "MAKEROOM_CALL"  # in the environment of a command's processes: whose they are
CANNOT_ENCLOSE = 77  # exit status: ask again with "plain"

_NEWNS, _NEWUSER, _NEWPID = 0x00020000, 0x10000000, 0x20000000  # linux/sched.h
_PDEATHSIG, _SET_NAME, _SUBREAPER = 1, 15, 36  # linux/prctl.h
_REC_SLAVE, _NOSUID_NODEV_NOEXEC = 0x4000 | 0x80000, 2 | 4 | 8  # linux/mount.h
_NOBODY_ELSE = frozenset((signal.SIGKILL, signal.SIGSTOP))
_SIGNALS = tuple(signal.valid_signals() - _NOBODY_ELSE)


class Command:
    """One command: its shell's pid, its raw wait status once it ended, and when its end was asked for."""

    __slots__ = ("ending", "number", "pid", "status", "termed")

    def __init__(self, number: int, pid: int) -> None:
        self.number, self.pid = number, pid
        self.status: int | None = None
        self.ending: float | None = None
        self.termed = False


class Warden:
    """The commands of one session and the loop that serves the agent's socket."""

    def __init__(self, link: socket.socket, enclosed: bool) -> None:
        self.link, self.enclosed = link, enclosed
        self.commands: dict[int, Command] = {}
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
            self.commands[number] = Command(number, pid)
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
        for command in [command for command in self.commands.values() if command.ending is not None]:
            waited = now - (command.ending or now)
            if not command.termed:
                command.termed = True
                self.strike(command, signal.SIGTERM)
                self.strike(command, signal.SIGCONT)  # a stopped process acts on TERM only when it goes on
            elif waited > GRACE + STUBBORN and self.enclosed:
                os.kill(-1, signal.SIGKILL)
            elif waited > GRACE:
                self.strike(command, signal.SIGKILL)
        if any(command.ending is not None for command in self.commands.values()):
            self.reap()

    def strike(self, command: Command, sign: int) -> None:
        targets = self.tree(command)
        for pid in targets:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, sign)
        if not has_proc():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(command.pid, sign)

    def tree(self, command: Command) -> set[int]:
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
    while time.monotonic() < start + GRACE + 2 * STUBBORN and collect(groups):
        if time.monotonic() > start + GRACE:
            strike_all(enclosed, groups, signal.SIGKILL)
        time.sleep(TICK)


def strike_all(enclosed: bool, groups: list[int], sign: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if enclosed:
            os.kill(-1, sign)
    for pid in () if enclosed else below(os.getpid(), processes()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, sign)
    for group in () if has_proc() else groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, sign)


def collect(groups: list[int]) -> bool:
    """Reap in silence; whether there is anybody left."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return not has_proc() and any(group_lives(group) for group in groups)


def processes() -> dict[int, tuple[int, int]]:
    """pid -> (parent, session) of every process that lives; empty where there is no /proc."""
    found: dict[int, tuple[int, int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()  # a name may hold spaces and brackets
                if fields[0] not in (b"Z", b"X"):
                    found[int(name)] = (int(fields[1]), int(fields[3]))
    return found


def below(root: int, known: dict[int, tuple[int, int]]) -> set[int]:
    """Every descendant of `root`, of the processes that are known."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in known.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    queue = children.get(root, [])
    while queue:
        pid = queue.pop()
        found.add(pid)
        queue.extend(children.get(pid, ()))
    return found


def has_proc() -> bool:
    return os.path.exists("/proc/self/stat")


def has_children() -> bool:
    """Whether we have any; True where the kernel does not say."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return bool(file.read().strip())
    except OSError:
        return True


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def mark_of(pid: int) -> int | None:
    """The number of the command in the process's environment, where that can be read and was not wiped."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/environ", "rb") as file:
        for line in file.read().split(b"\0"):
            name, _, value = line.partition(b"=")
            if name == MARK.encode():
                return int(value)
    return None


def words_of(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(400).replace(b"\0", b" ").strip().decode("utf-8", "replace")
    return ""


def enclose() -> None:
    """Move the children that are yet to come into namespaces of their own. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEWPID | _NEWNS)
    except PermissionError:
        _call("unshare", _NEWPID | _NEWNS | _NEWUSER)
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def furnish() -> None:
    """Give the new namespaces their own /proc, and terminals that are not the person's. Raises OSError."""
    _call("prctl", _PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call("mount", None, b"/", None, _REC_SLAVE, None)
    _call("mount", b"proc", b"/proc", b"proc", _NOSUID_NODEV_NOEXEC, None)
    with suppress(OSError):  # a container may have none
        options = b"newinstance,ptmxmode=0666,mode=0620"
        _call("mount", b"devpts", b"/dev/pts", b"devpts", _NOSUID_NODEV_NOEXEC & ~4, options)
    kernel = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2] if part.isdigit())
    if kernel >= (6, 14):  # before, the number counts for the whole machine
        with suppress(OSError), open("/proc/sys/kernel/pid_max", "w") as file:
            file.write(str(PROCESSES))


def _call(name: str, *values: Any) -> None:
    """A function of the C library that answers 0, or -1 and errno."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    plain = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in values]
    if getattr(library, name)(*plain) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")


def limit_processes() -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    wanted = PROCESSES if soft == resource.RLIM_INFINITY else min(soft, PROCESSES)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (wanted, hard))


def settle(how: str) -> bool:
    """Take our place: PID 1 of a namespace (True) or subreaper. Only the process that shall serve returns."""
    if how == "enclose":
        enclose()
        child = os.fork()
        if child:
            os.closerange(3, 64)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
        furnish()
        return True
    if sys.platform == "linux":
        _call("prctl", _SUBREAPER, 1, 0, 0, 0)
        _call("prctl", _SET_NAME, b"makeroom-warden", 0, 0, 0)
    return False


def main(fd: int, folder: str, how: str) -> int:
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(sign, signal.SIG_IGN)
    os.set_inheritable(fd, False)
    try:
        enclosed = settle(how)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return CANNOT_ENCLOSE
    bell, rope = os.pipe()
    os.set_blocking(rope, False)
    signal.set_wakeup_fd(rope, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    limit_processes()
    warden = Warden(socket.socket(fileno=fd), enclosed)
    try:
        warden.tell(
            {"hello": "namespace" if enclosed else "subreaper" if sys.platform == "linux" else "group"}
        )
        warden.serve(bell)
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        end_all(enclosed, [command.pid for command in warden.commands.values()])
        sweep(folder)
    return 0


def sweep(folder: str) -> None:
    """Remove the private folder, which holds files only."""
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


if __name__ == "__main__":
    status = main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
    sys.stderr.flush()
    os._exit(status)

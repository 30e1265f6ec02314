"""List and signal processes, through /proc if there is one."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

CALL_VARIABLE = "MAKEROOM_CALL"  # in the environment of a command's processes: the command's number

_LISTENING = "0A"  # TCP_LISTEN, as /proc/net/tcp writes it


def processes() -> dict[int, tuple[int, int]]:
    """Return pid -> (parent, session) of every living process; empty without /proc."""
    found: dict[int, tuple[int, int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc") if has_proc() else ()):
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # a name may contain spaces and parentheses
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = (int(fields[1]), int(fields[3]))
    return found


def descendants(root: int, table: dict[int, tuple[int, int]]) -> set[int]:
    """Return every process below `root` in a table of processes."""
    found: set[int] = set()
    layer = {root}
    while layer := {pid for pid, (parent, _) in table.items() if parent in layer} - found:
        found |= layer
    return found


def has_proc() -> bool:
    return os.path.exists("/proc/self/stat")


def children() -> set[int] | None:
    """Return the children of this process; None if the kernel does not list them."""
    me = os.getpid()
    with suppress(OSError), open(f"/proc/{me}/task/{me}/children", "rb") as file:
        return {int(pid) for pid in file.read().split()}
    return None


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def command_number_of(pid: int) -> int | None:
    """Return the command's number in the environment of a process; None if it is unreadable or cleared."""
    with suppress(OSError, ValueError), open(f"/proc/{pid}/environ", "rb") as file:
        value = (b"\0" + file.read()).partition(f"\0{CALL_VARIABLE}=".encode())[2]
        return int(value.partition(b"\0")[0])
    return None


def listening_ports(pids: set[int]) -> list[int]:
    """Return the TCP ports on which processes of this network listen; none without /proc."""
    ports = _sockets(listening=True)
    return sorted(
        {ports[link] for pid in (pids if ports else ()) for link in _open_files(pid) if link in ports}
    )


def connected_process(port: int, pids: set[int]) -> int:
    """Return the process that has connected from a TCP port of this network; 0 if none of them has."""
    ends = {link for link, local in _sockets(listening=False).items() if local == port}
    return next((pid for pid in sorted(pids if ends else ()) if not ends.isdisjoint(_open_files(pid))), 0)


def _sockets(listening: bool) -> dict[str, int]:
    """Return link -> local port of the TCP sockets of this network that listen, or that are connected."""
    found: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/net/{name}") as file:
            for fields in map(str.split, file):
                if fields[3] != "st" and (fields[3] == _LISTENING) is listening:
                    found[f"socket:[{fields[9]}]"] = int(fields[1].rpartition(":")[2], 16)
    return found


def _open_files(pid: int) -> Iterator[str]:
    """Yield what the descriptors of a process link to."""
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                yield os.readlink(entry.path)


def program_of(pid: int) -> list[str]:
    """Return the program's file and the arguments of a process, the first few; [] if it has ended."""
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        words = file.read(1000).decode("utf-8", "replace").split("\0")[1:4]
        return [os.readlink(f"/proc/{pid}/exe"), *words]
    return []


def command_line_of(pid: int) -> str:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read(400).replace(b"\0", b" ").strip().decode("utf-8", "replace")
    return ""


def send_signal(pids: set[int], groups: list[int], signal: int) -> None:
    """Signal the processes; without /proc, which lists them, the process groups."""
    send, targets = (os.kill, pids) if has_proc() else (os.killpg, set(groups))
    for target in targets:
        with suppress(ProcessLookupError, PermissionError):
            send(target, signal)

"""See and signal processes, through /proc where there is one. Not their meaning: that is serve.py's."""

# pathlib would take a third of the time to start
# ruff: noqa: PTH110, PTH123, PTH208

from __future__ import annotations

import errno
import os
from contextlib import suppress

CROWD = 1000  # processes; a walk over more takes seconds while they go on forking
MARK = "MAKEROOM_CALL"  # in the environment of a command's processes: whose they are


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


def crowded() -> bool:
    return len(os.listdir("/proc")) > CROWD


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
    except OSError as error:
        return error.errno == errno.EPERM
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


def hit(pids: set[int], groups: list[int], sign: int) -> None:
    """Signal the processes; without /proc, where they cannot be known, the groups."""
    send, targets = (os.kill, pids) if has_proc() else (os.killpg, set(groups))
    for target in targets:
        with suppress(ProcessLookupError, PermissionError):
            send(target, sign)

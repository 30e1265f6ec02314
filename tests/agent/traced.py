"""Effects of a program on the files below a directory, from its system calls as written by strace."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.transcripts.simulated_disk import Node, SimulatedDisk


def _working() -> str | None:
    """strace, where it is there and may watch a process."""
    found = shutil.which("strace")
    if found is None or subprocess.run([found, "-o", os.devnull, "true"], capture_output=True).returncode:
        return None
    return found


STRACE = _working()
_CALLS = (
    "openat,write,pwrite64,ftruncate,fsync,fdatasync,rename,renameat,mkdir,mkdirat,unlink,unlinkat,linkat,"
    "sendto,execve"
)
_LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?: resumed>|\()(.*)")
_FD = re.compile(r"\d+<([^>]*)>")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAME = re.compile(r'(?:<([^>]*)>, )?("(?:[^"\\]|\\.)*")')
_OPENED = re.compile(r"O_DIRECTORY.*\) += (\d+)<([^>]*)>")
_BELOW = re.compile(r"/proc/self/fd/(\d+)")
_END = re.compile(r"(.*)\) += (-?\d+)")
_ROOT = Node(folder=True)


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its name and arguments as strace shows them. The one that `ends` has a `result`."""

    name: str
    arguments: str
    ends: bool
    result: int = 0

    @property
    def path(self) -> str:
        """The file behind the first descriptor."""
        found = _FD.match(self.arguments)
        return found[1] if found else ""

    @property
    def data(self) -> bytes:
        """The first text among the arguments."""
        found = _TEXT.search(self.arguments)
        return _bytes(found[0]) if found else b""

    @property
    def names(self) -> list[str]:
        """The texts as paths, each below the directory that is named before it."""
        return [f"{Path(above) / _bytes(name).decode()}" for above, name in _NAME.findall(self.arguments)]


def _bytes(text: str) -> bytes:
    found: bytes = ast.literal_eval(f"b{text}")
    return found


def command(log: Path, *argv: str) -> list[str]:
    """The command line that runs `argv` and writes every call that matters down, with all of its data."""
    options = ["-f", "--seccomp-bpf", "-yy", "-x", "-qq", "-s", "100000000", "-e", f"trace={_CALLS}"]
    return [str(STRACE), *options, "-o", str(log), *argv]


def steps(log: Path) -> Iterator[Step]:
    """The beginning and the end of every call, in the order in which they happened.

    Paths below an open directory are given by its name.
    """
    begun: dict[str, str] = {}
    folders: dict[str, str] = {}
    with log.open(encoding="ascii", errors="replace") as file:
        for line in file:
            if (found := _LINE.match(line)) is None:
                continue
            thread, name, rest = found.groups()
            rest = _BELOW.sub(lambda below: folders.get(below[1], below[0]), rest)
            if "resumed>" not in line[: line.find(name) + len(name) + 10]:
                yield Step(name, rest, ends=False)
            if rest.rstrip().endswith("<unfinished ...>"):
                begun[thread] = rest.rstrip().removesuffix("<unfinished ...>")
                continue
            text = begun.pop(thread, "") + rest
            if (opened := _OPENED.search(text)) is not None:
                folders[opened[1]] = opened[2]
            if (whole := _END.match(text)) is not None:
                yield Step(name, whole[1], ends=True, result=int(whole[2]))


def apply(step: Step, platter: SimulatedDisk) -> None:
    """Apply the effects of a successful call to the files below the platter's root."""
    if step.result < 0:
        return
    match step.name:
        case "openat":
            _opened(step, platter)
        case "write" | "pwrite64" if step.path in platter.live:
            _written(step, platter.live[step.path])
        case "ftruncate" if step.path in platter.live:
            node = platter.live[step.path]
            node.live = node.live[: int(step.arguments.rpartition(", ")[2])]
        case "fsync" | "fdatasync":
            if step.path == str(platter.root) or step.path in platter.live:
                platter.sync(step.path, platter.live.get(step.path, _ROOT))
        case "rename" | "renameat" if step.names[0] in platter.live:
            platter.rename(*step.names)
        case "linkat" if step.names[0] in platter.live:
            platter.live[step.names[1]] = platter.live[step.names[0]]
        case "mkdir" | "mkdirat":
            _add(step.names[0], platter, folder=True)
        case "unlink" | "unlinkat":
            platter.remove(step.names[0])


def _written(step: Step, node: Node) -> None:
    """A write goes behind what is there, unless it says where it goes."""
    data = step.data[: step.result]
    at = int(step.arguments.rpartition(", ")[2]) if step.name == "pwrite64" else len(node.live)
    node.live = node.live[:at] + data + node.live[at + len(data) :]


def _opened(step: Step, platter: SimulatedDisk) -> None:
    path = step.names[0]
    if "O_CREAT" in step.arguments:
        _add(path, platter, folder=False)
    if "O_TRUNC" in step.arguments and path in platter.live:
        platter.live[path].live = b""


def _add(path: str, platter: SimulatedDisk, *, folder: bool) -> None:
    above = str(Path(path).parent)
    if above == str(platter.root) or above in platter.live:
        platter.create(path, folder=folder)

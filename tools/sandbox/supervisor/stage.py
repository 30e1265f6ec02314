"""The state shared by the sandboxes of a session: temporary files, cache layers, a network, a stage.

The supervisor makes it before the first sandbox and keeps it. So files in /tmp and services on ports remain
for the next command, even in a wider sandbox. The stage is a file system in memory with the files that
sandboxes mount over other places. It is mounted in the supervisor's namespace, where no path leads to it.
"""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

from .cache_layers import mount_overlay, reserve_layer
from .levels import SharedState, start_sandbox
from .memory_group import make_memory_group, remove_memory_group
from .mounts import DEVICES, MAX_TEMPORARY_BYTES, TEMPORARY
from .system_calls import BIND, NO_DEVICES, NO_EXEC, NO_SETUID, call, make_read_only, mount

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from .profile_message import ProfileMessage

_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}
_DETACH = 2  # of umount2, linux/fs.h


class SandboxStage(SharedState):
    """The stage of a supervisor, whose containment is `how` (see `contain`)."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.hidden: set[str] = set()  # transcripts hidden from commands outside the sandbox
        self.folder = ""  # the mount point of the stage, if it is mounted
        self.layer: str | None = None  # of the project, for its caches
        self.ready = False

    def add_sandbox(self, profile: ProfileMessage, fd: int) -> int:
        """Fork a spawner of sandboxed commands that serves the socket `fd`; return its pid, 0 for no sandbox.

        Our transcripts are hidden from commands outside the sandbox as well.
        """
        if not self.ready and sys.platform == "linux":
            self.ready = True
            self.group = make_memory_group()
        if self.how == "enclose":
            for path in {*profile["records"]} - self.hidden:
                with suppress(OSError):
                    _hide_record(path)
                    self.hidden.add(path)
            with suppress(OSError):  # in that case there is no sandbox of namespaces either
                self._prepare(profile)
        with socket.socket(fileno=fd) as end:
            holder = start_sandbox(end, profile, self)
        if holder and not self.namespaces:
            self._keep_namespaces(holder)
        return holder

    def close(self) -> None:
        """Release everything, once nothing runs."""
        for _ in range(2 if self.folder else 0):  # the stage, and the mount above it
            with suppress(OSError):
                call("umount2", os.fsencode(self.folder), _DETACH)
        remove_memory_group(self.group)

    def _prepare(self, profile: ProfileMessage) -> None:
        """Prepare a stage, with views of the existing temporary directories and caches. Raises OSError."""
        if not self.folder:
            self.descriptor = _make_stage(profile["stage"])
            self.folder = profile["stage"]
            self.layer = reserve_layer(profile["cache_layers"])
        os.fchdir(self.descriptor)
        try:
            for place in [place for place in TEMPORARY if place not in self.views]:
                self._view_temporary(place)
            for place in profile["caches"] if self.layer is not None else ():
                if place not in self.views and os.path.isdir(place):
                    with suppress(OSError):
                        self._view(place, os.path.join(self.layer or "", place.strip("/").replace("/", "-")))
        finally:
            os.chdir("/")

    def _view_temporary(self, place: str) -> None:
        """Show a directory for temporary files, with writes going to memory.

        Sockets in it cannot be connected to through an overlay. Without overlays an empty directory is shown.
        """
        if os.path.islink(place) or not os.path.isdir(place):
            return
        upper = "upper" + place.replace("/", "-")
        os.makedirs(f"{upper}/content")
        os.chmod(f"{upper}/content", 0o1777)
        try:
            self._view(place, upper)
        except OSError:
            self.views[place] = f"{upper}/content"

    def _view(self, place: str, upper: str) -> None:
        view = f"view-{len(self.views)}"
        os.makedirs(view, exist_ok=True)
        mount_overlay(place, upper, view)
        self.views[place] = view

    def _keep_namespaces(self, holder: int) -> None:
        """Keep the network and IPC of a sandbox for the next ones, if it has its own."""
        with suppress(OSError):
            paths = [f"/proc/{holder}/ns/{kind}" for kind in ("net", "ipc")]
            if all(os.readlink(path) != os.readlink(f"/proc/self/ns/{path[-3:]}") for path in paths):
                self.namespaces = [os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in paths]


def _hide_record(path: str) -> None:
    """Hide the contents of a directory of transcripts. git ignores the directory. Raises OSError."""
    mount("tmpfs", path, "tmpfs", NO_SETUID | NO_DEVICES | NO_EXEC, "mode=0555,size=64k")
    _ignore_all(path)
    make_read_only(path, recursive=False)


def _ignore_all(folder: str) -> None:
    """Make git leave a directory alone: without this, `git clean -d` fails to remove it."""
    ignoring = os.open(f"{folder}/.gitignore", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444)
    os.write(ignoring, b"*\n")
    os.close(ignoring)


def _make_stage(folder: str) -> int:
    """Mount the stage on a directory with what every sandbox needs; return its descriptor. Raises OSError."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = min(memory // 4, MAX_TEMPORARY_BYTES)
    mount("tmpfs", folder, "tmpfs", NO_SETUID | NO_DEVICES, f"mode=0700,size={size}")
    for name, mode in {"secret": 0, "empty": 0o555, "record": 0o755}.items():
        os.mkdir(f"{folder}/{name}")
        os.chmod(f"{folder}/{name}", mode)
    _ignore_all(f"{folder}/record")
    os.chmod(f"{folder}/record", 0o555)
    for name in ("pts", "shm", "mqueue"):
        os.makedirs(f"{folder}/devices/{name}")
    for name, target in _DEVICE_LINKS.items():
        os.symlink(target, f"{folder}/devices/{name}")
    for name, mode in {"secret-file": 0, **{f"devices/{name}": 0o666 for name in DEVICES}}.items():
        os.close(os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, mode))
    stage = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    mount(f"{folder}/empty", folder, None, BIND)  # hides it from commands outside the sandbox
    make_read_only(folder, recursive=False)
    return stage

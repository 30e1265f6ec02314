"""Build the file tree that sandboxed commands see: read-only, except for what the profile names.

Paths stay the same for commands: the project is at its usual path, and so are compilers, libraries
and the home directory. Only what can be done at each path changes. So the tree is not assembled from parts,
as a container's is; it begins as a copy of the user's mounts, in a mount namespace of the spawner's own, and
is changed in place. Nothing is undone later: a command that is started in it has no capabilities and is
denied the system calls that could mount anything.

The difficulty is that mounts hide each other. A mount covers what was at its path before, and everything
below it; whoever mounts second wins. Each rule below follows from that.

1. *Take before you cover.* Whatever is shown at the end is first taken as a detached mount (`clone_mount`):
   a descriptor of a tree that stays whole whatever is mounted over its path. After that, parents may be
   covered or made read-only without losing it.
2. *Make everything read-only at once*, recursively, rather than listing what may not be written: a list
   would miss the disk that was mounted yesterday. The detached mounts are not part of the tree at that
   moment and stay writable.
3. *Hidden directories around shown ones get a shell.* If `~/.config` is hidden and the project is inside it,
   an empty directory cannot be mounted there: the project would have no path. A shell is a directory that
   contains the way to the project and nothing else.
4. *Attach outer places before inner ones.* Sorted by path, `/home/ann` comes before `/home/ann/app`, so that
   the later mount lies above.
5. *Protect inside what is writable, last.* Hooks, settings of editors and secrets are in the project, which
   was just attached as writable; each gets a mount of its own above it, read-only or unreadable.
6. *Pin the way to what is protected.* A read-only `.git/hooks` is worth nothing if `.git` can be renamed and
   created again with other hooks in it. A mount point cannot be renamed or removed (EBUSY), so each directory
   on the way becomes a mount, which otherwise changes nothing.
7. *Protect links as links.* A bind mount follows a symbolic link and would protect its target. The link is
   cloned itself and attached over itself; its target is named in the profile separately.

What is put over other places (empty directories, an unreadable file, devices) comes from the stage: a file
system in memory that has no path in this tree and is the current directory meanwhile (see stage.py). If it
had a path, a command could reach the shells and masks through it.

For example, a profile has the project `/home/ann/.config/app`, with `.git/hooks` and `.vscode` among
`read_only`, and `.env` and `/home/ann/.config` among `hidden`:

    take      the project (writable), the scratch directory (writable), our private directory (read-only)
    shell     around-1f...: contains app/, the way to the project
    /         read-only, recursively
    /tmp      the session's own, from an overlay on the stage
    /dev      a new one
    /home/ann/.config              the shell: `ls` shows app and nothing else
    /home/ann/.config/app          the project, writable
    /home/ann/.config/app/.git     itself, still writable, but it can no longer be renamed
    .../app/.git/hooks             itself, read-only
    .../app/.vscode                itself, read-only
    .../app/.env                   the unreadable file of the stage
    /proc                          a new one; the kernel's settings read-only, its secrets unreadable

`git commit` works there: it writes objects and references in `.git`. `mv .git old` fails with EBUSY, writing
`.git/hooks/pre-commit` with EROFS, `cat .env` with EACCES, and `ls ~/.config/gh` with ENOENT.

What a mount cannot do is keep a file from being created: there is nothing to mount upon. A `.envrc` that did
not exist when the tree was built can be created by a command; the guards (tools/sandbox/guards) report it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from .cache_layers import private_caches
from .system_calls import (
    BIND,
    NO_DEVICES,
    NO_EXEC,
    NO_SETUID,
    PRIVATE,
    RECURSIVE,
    attach_mount,
    clone_mount,
    make_read_only,
    mount,
)

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from .profile_message import ProfileMessage

DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # in /dev, which every command may use
# In /proc, where uid 0 may write without any capability.
KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi")
KERNEL_SECRETS = ("kcore", "keys", "timer_list", "sched_debug", "kmsg")
TEMPORARY = ("/tmp", "/var/tmp")
MAX_TEMPORARY_BYTES = 4 << 30  # of temporary files in memory; at most a quarter of it
MAX_SHARED_BYTES = 1 << 30  # of shared memory


def build_tree(profile: ProfileMessage, shared: Mapping[str, str]) -> dict[str, str]:
    """Turn the tree of this mount namespace into the profile's; return the environment for it.

    The current directory is the stage, and `shared` are its views of other places. Raises OSError if the
    system refuses an operation.
    """
    mount(None, "/", None, PRIVATE | RECURSIVE)  # so that later mounts do not appear here, writable
    views = {place: clone_mount(view) for place, view in shared.items()}
    places = _take_places(profile)
    devices = {name: clone_mount(f"/dev/{name}") for name in DEVICES if os.path.exists(f"/dev/{name}")}
    hidden = _existing(profile["hidden"])
    shells = _make_shells([path for path in hidden if any(inside(place, path) for place in places)], places)
    make_read_only("/")  # including all that is taken from the stage
    for place in [place for place in views if place in TEMPORARY]:
        attach_mount(views.pop(place), place)
    for path, shell in shells.items():
        mount(shell, path, None, BIND)
    _mount_devices(devices)  # before the places, of which one may be in /dev/shm
    _attach(places | views)
    _mount_masks(profile, [path for path in hidden if path not in shells])
    _mount_proc()
    os.chdir("/")
    return {**usual_variables(profile), **private_caches(profile["caches"], [*shared])}


def usual_variables(profile: ProfileMessage) -> dict[str, str]:
    """Return the variables for commands in the tree, with which git does not search beyond the project."""
    found = {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"} if profile["shown"] else {}
    return {"TMPDIR": "/tmp", **found}


def _take_places(profile: ProfileMessage) -> dict[str, int]:
    """Take the project, other writable paths, git directories to show and our private directory."""
    folder = profile["folder"]
    private = profile["private"]
    paths = {folder, profile["scratch"], *profile["writable"]}
    if "/" in paths and profile["project_writable"]:
        raise OSError(0, "the root directory cannot be writable")
    paths.discard("/")  # is made read-only as it is
    places = {path: clone_mount(path) for path in paths if os.path.isdir(path) or os.path.isfile(path)}
    places[private] = clone_mount(private, recursive=False)  # without the stage, which is mounted in it
    make_read_only(places[private])
    for path in shown_places(profile):
        places[path] = clone_mount(path)
        make_read_only(places[path])
    if not profile["project_writable"] and folder in places:
        make_read_only(places[folder])
    return places


def shown_places(profile: ProfileMessage) -> list[str]:
    """Return the git directories to show unchanged, except those in writable places."""
    writable = [profile["folder"], *profile["writable"]]
    shown = [path for path in profile["shown"] if os.path.isdir(path)]
    return [path for path in shown if not any(inside(path, place) for place in writable)]


def _make_shells(paths: list[str], places: Iterable[str]) -> dict[str, str]:
    """Make a directory for each hidden path that contains only the ways to places in it."""
    shells = {}
    for path in paths:
        shells[path] = shell = f"around-{os.urandom(8).hex()}"
        os.mkdir(shell)
        for place in places:
            if inside(place, path):
                _make_way(shell + place[len(path) :], place)
    return shells


def _make_way(path: str, like: str) -> None:
    """Make an empty directory or file of the same kind, as a mount point."""
    if os.path.isfile(like):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        _make_file(path)
    else:
        os.makedirs(path, exist_ok=True)


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))


def _attach(mounts: dict[str, int]) -> None:
    """Mount the places and cache layers, outer ones first, since later mounts are above."""
    for place, fd in sorted(mounts.items()):
        if not os.path.lexists(place):
            _make_way(place, place)
        attach_mount(fd, place)


def _mount_masks(profile: ProfileMessage, hidden: list[str]) -> None:
    """Protect files that control programs, hide secrets, and hide our transcripts."""
    read_only = _existing(profile["read_only"])
    places = [profile["folder"], *profile["writable"]]
    for path in sorted(
        {*ways_to(read_only, places, profile["program"]), *filter(os.path.isdir, profile["pinned"])}
    ):
        mount(path, path, None, BIND | RECURSIVE)
    for path in kept_places(profile):
        with _where_it_is():
            _protect(path)
    for path in filter(os.path.islink, read_only):
        with suppress(OSError):  # else the guards report a replacement
            attach_mount(clone_mount(path, follow=False), path)
    for path in hidden:
        with _where_it_is():
            mount("secret" if os.path.isdir(path) else "secret-file", path, None, BIND)
    for path in _existing(profile["records"]):
        mount("record", path, None, BIND)


def ways_to(paths: list[str], places: list[str], program: Iterable[str] = ()) -> list[str]:
    """Return the git directories in the places and the directories from them to the paths, outer ones first.

    Each becomes a mount, since it could otherwise be moved away with the protected paths, and created again.
    The same applies to all directories on the way to the program's own files.
    """
    ways = {git for place in places if os.path.isdir(git := os.path.join(place, ".git"))}
    for path in paths:
        while ".git" in (path := os.path.dirname(path)).split("/"):
            if any(inside(path, place) for place in places):
                ways.add(path)
    for path in program:
        while any(inside(path := os.path.dirname(path), place) for place in places) and path not in places:
            ways.add(path)
    return sorted(ways)


def kept_places(profile: ProfileMessage) -> list[str]:
    """Return the read-only places within writable ones, except links, whose targets are listed too."""
    places = [profile["folder"], *profile["writable"]]
    found = (path for path in _existing(profile["read_only"]) if not os.path.islink(path))
    return [path for path in found if any(inside(path, place) for place in places)]


def _protect(path: str) -> None:
    mount(path, path, None, BIND | RECURSIVE)
    make_read_only(path)


def _mount_devices(devices: dict[str, int]) -> None:
    mount("devices", "/dev", None, BIND)
    for name, fd in devices.items():
        attach_mount(fd, f"/dev/{name}")
    mount("devpts", "/dev/pts", "devpts", NO_SETUID | NO_EXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("tmpfs", "/dev/shm", "tmpfs", NO_SETUID | NO_DEVICES, f"mode=1777,size={MAX_SHARED_BYTES}")


def _mount_proc() -> None:
    mount("proc", "/proc", "proc", NO_SETUID | NO_DEVICES | NO_EXEC)
    for name in KERNEL_SETTINGS:
        if os.path.exists(f"/proc/{name}"):
            _protect(f"/proc/{name}")
    for name in KERNEL_SECRETS:
        if os.path.exists(f"/proc/{name}"):
            mount("secret-file", f"/proc/{name}", None, BIND)


@contextmanager
def _where_it_is() -> Iterator[None]:
    """Skip a path that no longer exists or is not accessible to us."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.ELOOP):
            raise


def _existing(paths: list[str]) -> list[str]:
    return sorted(path for path in paths if os.path.lexists(path))


def inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")

"""Recognize directories that are not projects: homes, the root, other users' and network directories."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from agent.errors import UsageError
from agent.settings_files import home_folder
from transcripts.patterns import lazy_pattern
from transcripts.storage import trusted_owners

from .setup import RunSetup

OTHER_SPELLINGS = (
    "this file system ignores letter case: commands in the sandbox can reach protected files under other"
    " spellings, such as .ENV for .env. So each command needs your approval, except those known to only read."
    " Move the project to another file system to prevent that"
)
_FOLDERS_OF_HOMES = ("/home", "/homes", "/Users", "/users")
# Of file systems whose files other machines change too. Those of virtual machines and WSL are not among them.
_NETWORK_TYPES = lazy_pattern(r"nfs\d?|cifs|smb\d?|smbfs|afs|ceph|glusterfs|lustre|beegfs|davfs|afpfs|webdav")
_FOREIGN_TYPES = lazy_pattern(r"fuse(blk)?(\..*)?|9p|virtiofs|drvfs|vboxsf")
_NETWORK_PROGRAMS = lazy_pattern(r"fuse\.(?:sshfs|rclone|davfs2?|s3fs|gcsfuse|curlftpfs|glusterfs|ceph.*)")


def check_folder(setup: RunSetup) -> RunSetup:
    """Return the setup with the reason why its directory is not a project, if there is one.

    Raises UsageError if sessions cannot be stored there either.
    """
    why = why_no_project(setup.folder, setup.environ)
    if why and not setup.options.no_session and not os.access(setup.folder, os.W_OK):
        raise UsageError(
            f"cannot store sessions in {setup.folder}, which is {why}; start in a project or use -C"
        )
    return replace(setup, why_no_project=why, has_other_spellings=has_other_spellings(setup.folder))


def why_no_project(folder: Path, environ: Mapping[str, str], login_home: Path | None = None) -> str:
    """Return the reason why a directory (a real path) is not a project, in words; "" if it may be one.

    `login_home` is the home directory that the system names for the user. The one in HOME may be in a
    project, as in some builds.
    """
    if folder == Path("/"):
        return "the root directory"
    login = login_home or _login_home()
    if folder in (home_folder(environ).resolve(), login):
        return "your home directory"
    if str(folder) in _FOLDERS_OF_HOMES or login.is_relative_to(folder):
        return "a directory of home directories"
    with suppress(OSError):  # the owner cannot be determined
        if folder.stat().st_uid not in trusted_owners(folder):
            return "a directory of another user"
    with suppress(OSError):  # not Linux
        if is_on_network(folder, Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")):
            return "a directory on a network file system"
    return ""


def has_other_spellings(folder: Path) -> bool:
    """Return whether the sandbox cannot cover all names of a protected file in a directory."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        return ignores_case(folder, mounts, partial(os.listdir, folder))
    except OSError:  # not Linux
        return False


def ignores_case(folder: Path, mounts: str, listing: Callable[[], Collection[str]]) -> bool:
    """Return whether another program than the kernel finds the files of a directory in any letter case.

    A mount of the sandbox covers one spelling of a path, and all of them only if the kernel ignores case.
    `listing` returns the names in the directory and is called only on such file systems, since it may have
    many. `mounts` is the content of /proc/self/mountinfo.
    """
    if not _FOREIGN_TYPES.fullmatch(_file_system(folder, mounts)):
        return False
    names = set(listing())
    other = next((name.swapcase() for name in names if name.swapcase() not in names), None)
    return other is not None and os.path.lexists(folder / other)


def is_on_network(folder: Path, mounts: str) -> bool:
    """Return whether a directory is on a network file system, given the content of /proc/self/mountinfo."""
    kind = _file_system(folder, mounts)
    return bool(_NETWORK_TYPES.fullmatch(kind) or _NETWORK_PROGRAMS.fullmatch(kind))


def _file_system(folder: Path, mounts: str) -> str:
    """Return the type of the file system that a directory is on; "" if it is unknown."""
    kind = ""
    deepest = -1
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields.split(" ")[4])
        if len(point) >= deepest and folder.is_relative_to(point):  # of equal points the last one is above
            deepest = len(point)
            kind = rest.split(" ")[0]
    return kind


def _login_home() -> Path:
    try:
        return Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    except KeyError:  # the user has no entry, as in some containers
        return Path.home().resolve()

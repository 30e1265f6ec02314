"""The sandbox on macOS: generate the profile text for sandbox-exec from a sandbox's profile. Pure.

The rules of a profile are read in order, and the last match decides. This follows the documentation of
sandbox-exec, and has not been tested on a Mac yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    from .profile_message import ProfileMessage

SANDBOX_EXEC = "/usr/bin/sandbox-exec"
_BASE = """\
(version 1)
(deny default)
(allow process-fork process-exec*)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read)
(deny sysctl-read (sysctl-name-prefix "kern.procargs"))
(allow ipc-posix-sem)
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read*)
(deny file-read* (regex #"^/dev/(tty|pty|ptmx|disk|rdisk|mem|kmem)"))
(allow file-read* file-write* file-ioctl (literal "/dev/tty"))
(allow file-write-data file-ioctl (literal "/dev/null") (literal "/dev/zero"))
(allow file-write-data file-ioctl (literal "/dev/dtracehelper"))"""


def seatbelt_profile(profile: ProfileMessage, proxy_port: int | None = None) -> str:
    """Return the text for sandbox-exec. All paths of the profile are real, as the system compares real ones.

    `proxy_port` and the ports that the user allowed are the only ones of this machine that can be connected
    to. Raises ValueError for a path with
    characters that a profile cannot contain.
    """
    writable = [*profile["writable"], profile["scratch"]]
    if profile["project_writable"]:
        writable.append(profile["folder"])
    hidden = [*profile["hidden"], *profile["records"]]
    lines = [_BASE, _rule("allow", "file-write*", writable), _rule("allow", "network*", writable)]
    ports = [] if proxy_port is None else [proxy_port]
    for port in (*ports, *(int(os.path.basename(path)) for path in profile["ports"])):
        lines.append(f'(allow network-outbound (remote ip "localhost:{port:d}"))')
    lines.append(_rule("deny", "file-read* file-write*", hidden))
    lines.append(_rule("deny", "file-write*", profile["read_only"]))
    ways = sorted({way for path in (*profile["read_only"], *hidden) for way in _ways_to(path, writable)})
    lines += [f"(deny file-write-unlink (literal {quoted(way)}))" for way in ways]
    return "\n".join(filter(None, lines)) + "\n"


def _rule(verdict: str, operations: str, paths: Iterable[str]) -> str:
    """Return a rule for the paths and everything below; none without paths, as it would apply everywhere."""
    places = [f"(subpath {quoted(path)})" for path in paths]
    return f"({verdict} {operations} {' '.join(places)})" if places else ""


def _ways_to(path: str, writable: list[str]) -> Iterator[str]:
    """Return the directories from writable ones to a path, since moving them would evade its rules."""
    while path not in ("/", ""):
        path = os.path.dirname(path)
        if any(path == place or path.startswith(f"{place}/") for place in writable):
            yield path


def quoted(path: str) -> str:
    """Return a path as a string of the profile's language. Raises ValueError."""
    if not path.isprintable() or not path.startswith("/"):
        raise ValueError(f"a sandbox-exec profile cannot contain the path {path!r}")
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

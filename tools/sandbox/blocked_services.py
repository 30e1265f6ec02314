"""Detect services of this machine that a sandboxed command could not reach: ports and sockets.

The sandbox has a loopback interface of its own, so "connection refused" is what a command reports for a
server that runs outside. It counts as blocked only if something listens on that port outside. A socket of a
service is hidden, so it seems to be missing; it counts as blocked only if it exists.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from transcripts.patterns import lazy_pattern

_REFUSED = r"connection refused|\bECONNREFUSED\b|errno 111|os error 111"
_NOT_CONNECTED = lazy_pattern(
    rf"{_REFUSED}|couldn't connect to server|could not connect|can't connect"
    r"|cannot connect|failed to connect|connect call failed"
    r"|is the (?:server|docker daemon) running"
    r"|\bno response$|network is unreachable|\bENETUNREACH\b",  # the last two with Landlock
    re.IGNORECASE,
)
_REFUSED_PORT = lazy_pattern(_REFUSED, re.IGNORECASE)
_LOCAL_PORT = lazy_pattern(
    r"(?:\blocalhost|\b127\.[\d.]+|\[?::1\]?|\b0\.0\.0\.0)\"?'?\)?"
    r"(?:[:#]|,? \(?(?:\([^)]*\), )?(?:TCP )?port )"
    r"\s?(\d{1,5})\b",
    re.IGNORECASE,
)
# As programs and their tracebacks write it: ("localhost", 80), host='localhost', port=80, {port: 80}.
_LOCAL_ADDRESS = lazy_pattern(
    r"(?:\blocalhost|\b127\.[\d.]+|::1|\b0\.0\.0\.0)[\"'`]?\)?, ?"
    r"(?:[\"']?\w{0,9}port[\"']?\s?(?:=>|[=:])\s?)?(\d{1,5})\b",
    re.IGNORECASE,
)
_PORT_OPTION = lazy_pattern(r"(?:-p|--port|-P)[ =]?(\d{1,5})\b")
_DEFAULT_PORTS = {"psql": 5432, "pg_dump": 5432, "mysql": 3306, "redis-cli": 6379, "mongosh": 27017}
_SOCKET = lazy_pattern(r"(?:unix://|\s|['\"=(]|^)(/[\w./+@-]*[\w])")
_LISTENING = "0A"  # a state in /proc/net/tcp
_ANY_OR_LOOPBACK = lazy_pattern(r"0+|0100007F|0{24}01000000|0000000000000000FFFF00000100007F")


def blocked_port(line: str, messages: Sequence[str]) -> int | None:
    """Return the port of this machine that a failed command could not connect to, if a server listens there.

    A command that printed no word (`curl -s`, `curl -w '%{http_code}'`) may have failed for that reason too.
    """
    refusals = [message for message in messages if _NOT_CONNECTED.search(message)]
    is_silent = not any(re.search(r"[^\W\d]", message) for message in messages)
    listening: frozenset[int] | None = None
    for port in _ports(line, refusals, messages) if refusals or is_silent else ():
        if listening is None:
            listening = _listening_ports()
        if port in listening:
            return port
    return None


def possible_ports(messages: Sequence[str]) -> list[int]:
    """Return the ports on which servers listen outside, if a command was refused one that it does not name.

    `ConnectionRefusedError: [Errno 111] Connection refused` is all that many programs print. Ports that the
    system gives to clients are left out.
    """
    if not any(_REFUSED_PORT.search(message) for message in messages):
        return []
    return sorted(port for port in _listening_ports() if port < 32_768)


def _ports(line: str, refusals: Sequence[str], messages: Sequence[str]) -> Iterator[int]:
    for text in (*refusals, line):
        yield from map(int, _LOCAL_PORT.findall(text))
    for text in (*refusals, line, *(messages if refusals else ())):
        yield from map(int, _LOCAL_ADDRESS.findall(text))
    if re.search(r"\blocalhost\b|\b127\.0\.0\.1\b", line):
        yield from map(int, _PORT_OPTION.findall(line))
        yield from (port for name, port in _DEFAULT_PORTS.items() if re.search(rf"\b{name}\b", line))


def blocked_socket(line: str, messages: Sequence[str], hidden: Sequence[Path], cwd: Path) -> str | None:
    """Return the hidden socket of a service that a command could not connect to."""
    return next((str(path) for path in _hidden_paths(line, messages, hidden, cwd) if _is_socket(path)), None)


def missing_socket(messages: Sequence[str], hidden: Sequence[Path], cwd: Path) -> str | None:
    """Return the path in a hidden directory that a command could not connect to, although nothing is there.

    Outside, the command would have said so. In the sandbox, permission is denied.
    """
    paths = _hidden_paths("", messages, hidden, cwd)
    return next((str(path) for path in paths if not os.path.lexists(path)), None)


def _hidden_paths(line: str, messages: Sequence[str], hidden: Sequence[Path], cwd: Path) -> Iterator[Path]:
    """Yield the hidden paths in the messages about connections, and in the line if there are any."""
    refusals = [message for message in messages if _NOT_CONNECTED.search(message) or "socket" in message]
    for text in (*refusals, line) if refusals else ():
        for name in _SOCKET.findall(text):
            path = Path(os.path.realpath(cwd / name))
            if any(path.is_relative_to(place) for place in hidden):
                yield path


def _is_socket(path: Path) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(path.stat().st_mode) and os.access(path, os.W_OK)
    return False


def _listening_ports() -> frozenset[int]:
    """Return the ports where servers accept connections to localhost; none where Linux does not list them."""
    found = set[int]()
    for name in ("tcp", "tcp6"):
        rows = list[str]()
        with suppress(OSError):
            rows = Path("/proc/self/net", name).read_text().splitlines()[1:]
        for row in rows:
            fields = row.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == _LISTENING and _ANY_OR_LOOPBACK.fullmatch(address):
                found.add(int(port, 16))
    return frozenset(found)

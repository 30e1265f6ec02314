"""The parts of `signal`, `socket`, `json` and `contextlib` that the supervisor uses, from their C modules.

A supervisor starts with every session, and the imports of these four (`enum`, `re`, `functools`) and of
`typing` take longer than the rest of its start. On a Python without these C modules, the usual ones are used.
`TYPE_CHECKING` replaces that of `typing`; type checkers know it by its name.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
    import socket as sockets
    from collections.abc import Callable
    from types import TracebackType
    from typing import Any, Self
else:
    try:
        import _signal as signal
        import _socket as sockets
    except ImportError:
        import signal
        import socket as sockets

__all__ = [
    "TYPE_CHECKING",
    "Socket",
    "dumps",
    "loads",
    "recv_fds",
    "send_fds",
    "signal",
    "sockets",
    "suppress",
]

_FD_BYTES = 4  # of a descriptor in a message, an int of C


class suppress:
    """Skip the rest of a block when it raises one of the exceptions."""

    def __init__(self, *exceptions: type[BaseException]) -> None:
        self._exceptions = exceptions

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return kind is not None and issubclass(kind, self._exceptions)


class Socket(sockets.socket):
    """A socket, with those methods of `socket.socket` that its C class lacks."""

    def accept(self) -> tuple[Socket, Any]:
        fd, address = self._accept()  # type: ignore[attr-defined]
        return Socket(fileno=fd), address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def send_fds(end: Socket, data: bytes, fds: list[int]) -> None:
    """Send data with descriptors. Raises OSError."""
    packed = b"".join(fd.to_bytes(_FD_BYTES, sys.byteorder) for fd in fds)
    end.sendmsg([data], [(sockets.SOL_SOCKET, sockets.SCM_RIGHTS, packed)])


def recv_fds(end: Socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Receive data and at most `most` descriptors, which children do not inherit. Raises OSError."""
    flags = getattr(sockets, "MSG_CMSG_CLOEXEC", 0)  # Darwin has no such flag
    data, messages, _, _ = end.recvmsg(size, sockets.CMSG_LEN(most * _FD_BYTES), flags)
    fds: list[int] = []
    for level, kind, packed in messages:
        if (level, kind) == (sockets.SOL_SOCKET, sockets.SCM_RIGHTS):
            starts = range(0, len(packed) - _FD_BYTES + 1, _FD_BYTES)
            fds += [int.from_bytes(packed[at : at + _FD_BYTES], sys.byteorder) for at in starts]
    return data, fds


class _Syntax:
    """The options of a JSON scanner, those of `json.loads`."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


def _refuse(value: object) -> None:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _by_c_module() -> tuple[Callable[[Any], str], Callable[[str], Any]]:
    """Return `json.dumps` and `json.loads`. Raises ImportError, AttributeError or TypeError."""
    import _json

    scan = _json.make_scanner(_Syntax)  # type: ignore[arg-type]
    text = _json.encode_basestring_ascii
    encode = _json.make_encoder(None, _refuse, text, None, ": ", ", ", False, False, True)
    return lambda value: "".join(encode(value, 0)), lambda text: scan(text, 0)[0]


try:
    dumps, loads = _by_c_module()
except (ImportError, AttributeError, TypeError):  # in another version of Python
    from json import dumps, loads

"""What the supervisor needs of `contextlib`, `json`, `signal` and `socket`, without what these import.

Each of them adds a little Python to a module in C, and imports `enum`, `re`, `functools` or `collections` for
it. The supervisor uses the modules in C, and starts in 15 ms of CPU time instead of 27. The first command of
a session waits for that.
"""

from __future__ import annotations

__all__ = ("Socket", "dumps", "loads", "receive_fds", "send_fds", "signal", "socket", "suppress")

TYPE_CHECKING = False  # see __init__.py
if TYPE_CHECKING:
    import signal
    import socket
    from collections.abc import Sequence
    from contextlib import suppress
    from json import dumps, loads
    from socket import recv_fds as receive_fds
    from socket import send_fds
    from socket import socket as Socket
    from typing import Any
else:
    import _signal as signal
    import _socket as socket
    import struct

    try:
        from _json import encode_basestring_ascii, make_scanner
    except ImportError:  # Python without its modules in C
        from json import dumps, loads
    else:

        class _Numbers:
            """Options of the scanner: JSON as Python reads it by default."""

            strict = True
            object_hook = object_pairs_hook = parse_constant = None
            parse_float = float
            parse_int = int

        _scan = make_scanner(_Numbers)

        def loads(data: str | bytes) -> Any:
            """Return the value of JSON without spaces around it. Raises StopIteration if it is none."""
            return _scan(data if isinstance(data, str) else data.decode(), 0)[0]

        def dumps(value: Any) -> str:
            """Return JSON of texts, whole numbers, None, and dicts, lists and tuples of them."""
            if isinstance(value, str):
                return encode_basestring_ascii(value)
            if value is None or isinstance(value, bool):
                return {None: "null", True: "true", False: "false"}[value]
            if isinstance(value, int):
                return str(value)
            if isinstance(value, dict):
                return "{" + ", ".join(f"{dumps(name)}: {dumps(each)}" for name, each in value.items()) + "}"
            return "[" + ", ".join(map(dumps, value)) + "]"

    class suppress:
        """Ignore these exceptions."""

        def __init__(self, *exceptions: type[BaseException]) -> None:
            self._exceptions = exceptions

        def __enter__(self) -> None:
            pass

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
            return kind is not None and issubclass(kind, self._exceptions)

    class Socket(socket.socket):
        """A socket that closes at the end of a `with` statement, and accepts such sockets."""

        __slots__ = ()

        def __enter__(self) -> Socket:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def accept(self) -> tuple[Socket, Any]:
            fd, address = self._accept()
            return Socket(self.family, self.type, self.proto, fileno=fd), address

    def send_fds(sock: Socket, buffers: Sequence[bytes], fds: Sequence[int]) -> int:
        """Send data, and descriptors with it."""
        packed = struct.pack(f"{len(fds)}i", *fds)
        return sock.sendmsg(buffers, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)])

    def receive_fds(sock: Socket, size: int, most: int, flags: int) -> tuple[bytes, list[int], int, Any]:
        """Receive data, and at most `most` descriptors with it."""
        width = struct.calcsize("i")
        data, notes, got, address = sock.recvmsg(size, socket.CMSG_LEN(most * width), flags)
        fds = list[int]()
        for level, kind, content in notes:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds += struct.unpack(f"{len(content) // width}i", content[: len(content) // width * width])
        return data, fds, got, address

"""Read the server name that a TLS client requests, from the first message of its connection. Pure.

See RFC 8446, 4.1.2 and 5.1; RFC 6066, 3. Messages that deviate from them are rejected, since regular clients
never send any.
"""

from __future__ import annotations

HANDSHAKE_RECORD = 22  # the first byte of a TLS connection
RECORD_HEADER_BYTES = 5
MAX_RECORD_BYTES = 16_384 + 256
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_ENCRYPTED_HELLO = 0xFE0D  # extensions
_HOST_NAME = 0


class NotAClientHello(ValueError):
    """The bytes do not begin a TLS connection to a named host; the text gives the reason."""


class _Bytes:
    """Reads bytes from the front."""

    def __init__(self, data: bytes) -> None:
        self.rest = data

    def take(self, count: int) -> bytes:
        if len(self.rest) < count:
            raise NotAClientHello("it is truncated")
        taken = self.rest[:count]
        self.rest = self.rest[count:]
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> bytes:
        """Read bytes preceded by their length, a number of `size` bytes."""
        return self.take(self.number(size))


def record_length(header: bytes) -> int:
    """Return the number of bytes after a record's header of 5 bytes. Raises NotAClientHello."""
    length = int.from_bytes(header[3:])
    if header[0] != HANDSHAKE_RECORD or header[1] != 3 or not 0 < length <= MAX_RECORD_BYTES:
        raise NotAClientHello("not a TLS record")
    return length


def hello_length(handshake: bytes) -> int:
    """Return the length of the message that begins so, with its header; 4 while it is not known yet."""
    if handshake[:1] not in (b"", bytes([_CLIENT_HELLO])):
        raise NotAClientHello("no ClientHello")
    length = 4 + int.from_bytes(handshake[1:4]) if len(handshake) >= 4 else 4
    if length > 65_536:  # with post-quantum keys it has about 2,000
        raise NotAClientHello("too large")
    return length


def server_name(hello: bytes) -> str:
    """Return the only host name in a complete ClientHello, as written. Raises NotAClientHello.

    An encrypted inner hello is rejected, since it may request a host other than the readable one.
    """
    body = _Bytes(hello)
    body.take(4 + 2 + 32)  # type and length, version, random
    for size in (1, 2, 1):  # session id, cipher suites, compression methods
        body.vector(size)
    extensions = _Bytes(body.vector(2))
    names = []
    while extensions.rest:
        kind = extensions.number(2)
        content = extensions.vector(2)
        if kind == _ENCRYPTED_HELLO:
            raise NotAClientHello("an encrypted ClientHello hides the host; disable ECH")
        if kind == _SERVER_NAME:
            entries = _Bytes(_Bytes(content).vector(2))
            while entries.rest:
                names.append((entries.number(1), entries.vector(2)))
    if len(names) != 1 or names[0][0] != _HOST_NAME or not names[0][1].isascii():
        raise NotAClientHello("it does not name exactly one host")
    return names[0][1].decode("ascii")

"""The strict stand-in of the Messages API: HTTP/1.1 on 127.0.0.1, one daemon thread per connection.

It rejects whatever the real API rejects, in the same words, and records it.
"""

import time
from collections.abc import Callable
from threading import Condition, Event, Lock, Thread
from types import TracebackType
from typing import Any

from msgspec import Struct

from .connection import Connection, Listener
from .endpoint import Endpoint, Limits
from .faults import Fault, Faults
from .reply import Body, Responder

__all__ = ["Fault", "Server", "ServerOptions"]

MAX_REFUSED = 100  # messages kept


class ServerOptions(Struct, frozen=True):
    """None leaves the model's own limit. `delay`: seconds before each delta; `now`: clock of the cache.

    `betas` are accepted besides those that makeroom uses: other agents ask for them.
    """

    window: int | None = None
    max_output: int | None = None
    binds_thinking: bool | None = None
    delay: float = 0.0
    keep_requests: bool = True
    now: Callable[[], float] = time.monotonic
    port: int = 0
    betas: frozenset[str] = frozenset()


class Server:
    """A context manager that owns the listening socket and its threads; `responder` answers.

    `requests` and `headers` are those of every POST /v1/messages, oldest first, accepted or not (empty with
    keep_requests=False). `refused` are the messages of the newest requests that were rejected for what they
    are, not by an injected fault: after `assert not server.refused`, no invalid request was ever sent.
    """

    def __init__(self, responder: Responder, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self.responder = responder
        self.delay = self.options.delay
        self.other_betas = self.options.betas
        self.faults = Faults()
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.closing = Event()
        limits = Limits(self.options.window, self.options.max_output, self.options.binds_thinking)
        self.endpoint = Endpoint(limits, self.options.now)
        self._count = 0
        self._arrived = Condition(Lock())
        self._listener = Listener(self.options.port, Connection, self)
        self._thread = Thread(target=self._listener.serve, name="strict api", daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._listener.server_address[1]}"

    def start(self) -> None:
        """Begin to answer; the socket listens since construction."""
        self._thread.start()

    def close(self) -> None:
        """Release stalls, close every connection, and end the accepting thread."""
        self.closing.set()
        self.faults.release()
        self._listener.stop()
        if self._thread.is_alive():
            self._thread.join(5)

    def __enter__(self) -> "Server":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def record(self, body: Any, headers: dict[str, str]) -> None:
        """Record that a request for a message has arrived."""
        with self._arrived:
            self._count += 1
            if self.options.keep_requests:
                self.requests.append(body)
                self.headers.append(headers)
            self._arrived.notify_all()

    def refuse(self, message: str) -> None:
        """Record that a request was rejected for what it is."""
        self.refused.append(message)
        del self.refused[:-MAX_REFUSED]

    def arrived(self, count: int, timeout: float = 10.0) -> bool:
        """Wait until `count` requests for messages have arrived in all; False after `timeout` seconds."""
        with self._arrived:
            return self._arrived.wait_for(lambda: self._count >= count, timeout)

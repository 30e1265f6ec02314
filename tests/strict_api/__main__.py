"""The strict server as a process of its own: `python -m tests.strict_api` prints its URL and serves.

The demo answers, unless `--script` names another function. It ends on SIGTERM or when its input closes.
"""

import argparse
import contextlib
import importlib
import signal
import sys

from .demo_bridge import demo_reply
from .faults import parse_fault
from .reply import Responder
from .server import Server, ServerOptions


def load_responder(name: str | None) -> Responder:
    """The function named `module:attribute`, or the demo. The attribute is called once if it is a class."""
    if name is None:
        return demo_reply
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    responder: Responder = found() if isinstance(found, type) else found
    return responder


def main() -> int:
    """Serve until asked to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.strict_api", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--window", type=int, help="tokens, for every model")
    parser.add_argument("--max-output", type=int, help="tokens, for every model")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each delta")
    parser.add_argument("--keep", action="store_true", help="keep the bodies of requests")
    parser.add_argument("--script", metavar="MODULE:NAME", help="a function that answers instead of the demo")
    parser.add_argument(
        "--beta", action="append", default=[], metavar="NAME", help="accept this beta as well"
    )
    parser.add_argument("--fault", action="append", default=[], metavar="KIND[:N[:ARG]]")
    given = parser.parse_args()
    options = ServerOptions(
        window=given.window,
        max_output=given.max_output,
        delay=given.delay,
        keep_requests=given.keep,
        port=given.port,
        betas=frozenset(given.beta),
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Server(load_responder(given.script), options) as server, contextlib.suppress(KeyboardInterrupt):
        server.faults.add(*map(parse_fault, given.fault))
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        while sys.stdin.buffer.read(1 << 16):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())

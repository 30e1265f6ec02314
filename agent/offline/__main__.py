"""The offline model as a process of its own: prints its URL, and ends on SIGTERM or when its input closes."""

import argparse
import contextlib
import importlib
import signal
import sys

from .brain import Brain
from .faults import parsed
from .reply import Answers
from .server import Server, ServerOptions


def brain(name: str | None) -> Answers:
    """The brain named `module:attribute`, or the rules. The attribute is called once if it is a class."""
    if name is None:
        return Brain()
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute or "brain")
    made: Answers = found() if isinstance(found, type) else found
    return made


def main() -> int:
    """Serve until told to end."""
    parser = argparse.ArgumentParser(prog="python -m agent.offline", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--window", type=int, help="tokens, for every model")
    parser.add_argument("--max-output", type=int, help="tokens, for every model")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each delta")
    parser.add_argument("--keep", action="store_true", help="keep the bodies of requests")
    parser.add_argument("--script", metavar="MODULE:NAME", help="a brain other than the rules")
    parser.add_argument("--fault", action="append", default=[], metavar="KIND[:N[:ARG]]")
    given = parser.parse_args()
    options = ServerOptions(
        window=given.window,
        max_output=given.max_output,
        delay=given.delay,
        keep_requests=given.keep,
        port=given.port,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Server(brain(given.script), options) as server, contextlib.suppress(KeyboardInterrupt):
        server.faults.add(*map(parsed, given.fault))
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        while sys.stdin.buffer.read(1 << 16):
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main())

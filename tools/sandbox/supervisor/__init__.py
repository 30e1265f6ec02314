"""The process that starts commands for the agent, tracks all of their processes, and ends them.

One runs for each session. `boot` starts it, and it imports none of our modules except this package. If the
system allows it, it is the first process (PID 1) of a PID namespace, with its own /proc and pseudo-terminals:
commands can neither see nor signal the agent, and the kernel ends them all when the supervisor ends.
Otherwise it is a subreaper, which inherits every orphan. It ends when the agent's end of the socket closes
for any reason.

A message is a line of JSON. To the supervisor: `{"op": "run", "n", "path", "argv", "env", "cwd"}` with the
descriptor for stdout and stderr (with `"talks": true` one for stderr and one for stdin and stdout), `{"op":
"end", "n"}`, `{"op": "left", "n"}`. From it: `{"hello": how}`,
`{"n", "pid"}` or `{"n", "errno"}`, `{"n", "status", "strays"}` when the shell ended, `{"n", "left": [[pid,
command line]]}`, `{"n", "over": true}` when no process of a command is left. `{"op": "ports", "n"}` is
answered by `{"n", "ports"}`, the TCP ports that a command listens on; `{"op": "connect", "n", "host",
"port"}` by `{"n", "connected": 0}` and a socket that connects to it, or by an errno; `{"op": "who", "n",
"port"}` by `{"n", "who": [number, program, argument...]}`, the command that has connected from that port.

`{"op": "sandbox", "profile"}` with a socket makes it fork a spawner for sandboxed commands, which serves that
socket with the same protocol in the sandbox; its hello is `{"hello": level, "why"}`.

The first command of a session waits for its start, which takes about 27 ms of CPU time. So none of these
modules imports `typing` when it runs, which would take another 5 ms.
"""

from __future__ import annotations

import os

CANNOT_ENCLOSE = 77  # exit status: namespaces are not available, so start it again with "refused"


def boot(module: str, function: str) -> str:
    """Return the source of a program that calls a function of this package with its arguments.

    The first argument is the directory that contains the package.
    """
    begin = "import sys; sys.path.append(sys.argv[1])"
    return f"{begin}; from supervisor.{module} import {function} as main; main(*sys.argv[2:])"


def installed_bwrap() -> str | None:
    """Return the path of bwrap, None if it is not installed."""
    # Only root can install programs there.
    return next((path for path in ("/usr/bin/bwrap", "/bin/bwrap") if os.access(path, os.X_OK)), None)

"""The process that starts commands for the agent, knows everything that they leave behind, and ends it.

One runs for each session, started by `boot`, with nothing of ours imported but this package. Where the system
allows it, it is the first process (PID 1) of a PID namespace, with a /proc and pseudo-terminals of its own:
commands neither see the agent nor can signal it, and the kernel ends them all when the supervisor ends.
Elsewhere it is a subreaper, which inherits every orphan. It ends when the agent's end of the socket closes,
however that happened.

A message is a line of JSON. To the supervisor: `{"op": "run", "n", "path", "argv", "env", "cwd"}` with the
descriptor for stdout and stderr (with `"talks": true` one for stderr and one for stdin and stdout), `{"op":
"end", "n"}`, `{"op": "left", "n"}`. From it: `{"hello": how}`,
`{"n", "pid"}` or `{"n", "errno"}`, `{"n", "status", "strays"}` when the shell ended, `{"n", "left": [[pid,
command line]]}`, `{"n", "over": true}` when no process of a command is left. `{"op": "ports", "n"}` is
answered by `{"n", "ports"}`, the TCP ports that a command listens on; `{"op": "connect", "n", "host",
"port"}` by `{"n", "connected": 0}` and a socket that connects there, or by the number of an error.

`{"op": "wall", "profile"}` with a socket has it fork a spawner for sandboxed commands, which serves that
socket by the same protocol in the sandbox; its hello is `{"hello": level, "why"}`.
"""

from __future__ import annotations

CANNOT_ENCLOSE = 77  # exit status: the system gives no namespaces, start it again with "refused"


def boot(module: str, function: str) -> str:
    """The program that calls a function of this package, given the folder that the package is in and more."""
    begin = "import sys; sys.path.append(sys.argv[1])"
    return f"{begin}; from supervisor.{module} import {function} as main; main(*sys.argv[2:])"

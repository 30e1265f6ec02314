"""The process that starts commands for the agent, knows everything they leave behind, and ends it.

One runs for each session, by `boot`, with nothing of ours imported but this folder. Where the system allows
it is the first process (PID 1) of a PID namespace with a /proc and pseudo-terminals of its own: commands
neither see the agent nor can signal it, and the kernel ends them all when the supervisor ends. Elsewhere it
is a subreaper, which inherits every orphan. It ends when the agent's end of the socket closes, however that
came about.

Messages are JSON after four bytes of length, big-endian. To the supervisor: `{"op": "run", "n", "path",
"argv", "env", "cwd"}` with the descriptor for stdout and stderr, `{"op": "end", "n"}`, `{"op": "left",
"n"}`. From it: `{"hello": how}`, `{"n", "pid"}` or `{"n", "errno"}`, `{"n", "status", "strays"}` when the
shell ended, `{"n", "left": [[pid, words]]}`, `{"n", "over": true}` when nothing of a command is left.
"""

from __future__ import annotations

CANNOT_ENCLOSE = 77  # exit status: ask again with "plain"
BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from process_supervisor.serve import main; main(*sys.argv[2:])"
)

"""A session on a system that refuses namespaces; for test_sandbox_fallbacks.py.

`python restricted_process.py FOLDER KIND LINE...` runs the lines as sandboxed commands, and prints as JSON:
the `wall` (level, why), and for each line its output and exit code. KIND is "docker": a container with
Docker's usual capabilities and filter; "podman": namespaces may be made, but nothing may be mounted in them,
as in a container whose /proc is partly masked; or "apparmor": only bwrap may make namespaces.
"""

import asyncio
import errno
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tools.base import ToolContext
from tools.processes.jobs import exit_status
from tools.processes.runner import DRAIN_LIMIT_S, command_runner
from tools.sandbox.supervisor.bpf import (
    ALLOW,
    any_bit,
    argument,
    error,
    install_filter,
    one_of,
    program,
    when,
)
from tools.sandbox.supervisor.system_calls import call, drop_capabilities

# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, NET_RAW, SYS_CHROOT,
# MKNOD, AUDIT_WRITE, SETFCAP
DOCKER_CAPABILITIES = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31))
NEW_NAMESPACES, NEW_PIDS_AND_MOUNTS, NEW_USER = 0x7E020000, 0x20020000, 0x10000000
GUARD_S = 30.0
# AUDIT_ARCH; unshare, clone, clone3; mount, umount2, pivot_root, setns, bpf, keyctl, add_key, open_by_handle
NUMBERS = {
    "x86_64": (0xC000003E, (272, 56, 435), (165, 166, 155, 308, 321, 250, 248, 304)),
    "aarch64": (0xC00000B7, (97, 220, 435), (40, 39, 41, 268, 280, 219, 217, 265)),
}


def restrict(kind: str) -> None:
    """Become a process of such a system."""
    architecture, (unshare, clone, clone3), others = NUMBERS[os.uname().machine]
    refused = error(errno.EPERM)
    if kind == "apparmor":
        ours = (NEW_PIDS_AND_MOUNTS, NEW_PIDS_AND_MOUNTS | NEW_USER)
        steps = when(unshare, [*argument(0), *one_of(ours, refused, ALLOW)])
    elif kind == "podman":
        mount, *_ = others
        steps = when(mount, [refused])
    else:
        call("prctl", 38, 1, 0, 0, 0)
        drop_capabilities(DOCKER_CAPABILITIES)
        steps = [step for number in (unshare, *others) for step in when(number, [refused])]
        steps += when(clone, [*argument(0), *any_bit(NEW_NAMESPACES, refused, ALLOW)])
        steps += when(clone3, [error(errno.ENOSYS)])
    install_filter(program(architecture, steps))


async def main(folder: Path, lines: list[str]) -> None:
    context = ToolContext(
        folder, folder, folder / ".task_outputs", folder / "journals", environ=dict(os.environ)
    )
    runner = command_runner(context)
    told = []
    sandbox = await runner.sandbox()
    for line in lines:
        output: list[bytes] = []
        command, _ = await runner.start(line, folder, output.append, sandboxed=True)
        await asyncio.wait({command.exited}, timeout=GUARD_S)
        await asyncio.wait({command.closed}, timeout=DRAIN_LIMIT_S)
        told.append((b"".join(output).decode(), exit_status(command.exited.result()).code))
    await runner.close()
    print(json.dumps({"wall": sandbox, "told": told}))


if __name__ == "__main__":
    restrict(sys.argv[2])
    asyncio.run(main(Path(sys.argv[1]), sys.argv[3:]))

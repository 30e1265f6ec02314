"""A process that runs command lines with the bash tool, to be killed, stopped and limited from outside.

`bash_process.py <folder> <mode> <timeout ms> <command>...` prints a line of JSON with "ready", then one for
each result. The mode is namespace, subreaper or sandboxed. OUTPUT_BYTES in the environment limits the output
of a command.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.narrowing import block_text
from tools.base import ToolCall, ToolContext
from tools.bash import BashArguments, run_bash
from tools.processes import CommandLimits
from tools.processes.runner import command_runner
from tools.processes.spool import MAX_OUTPUT_BYTES


def peak() -> int:
    """Peak resident memory in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def main(folder: Path, mode: str, timeout: int, commands: list[str]) -> None:
    environ = {**os.environ, "MAKEROOM_NAMESPACE": "off" if mode == "subreaper" else "on"}
    context = ToolContext(folder, folder, folder / ".task_outputs", folder / "journals", environ=environ)
    how = (await command_runner(context).supervisor()).how
    sandboxed = mode == "walled"
    if sandboxed and (await command_runner(context).sandbox())[0] == "namespaces":
        how = mode
    await run_bash(BashArguments(command="true"), ToolCall(context, sandboxed=sandboxed))
    limits = CommandLimits(output_bytes=int(os.environ.get("OUTPUT_BYTES", MAX_OUTPUT_BYTES)))
    before = peak()
    print(json.dumps({"ready": how}), flush=True)
    for number, command in enumerate(commands):
        call = ToolCall(context, f"{number}.0", sandboxed=sandboxed)
        result = await run_bash(BashArguments(command=command, timeout=timeout), call, limits)
        line = {"text": block_text(result.content[0]), "about": dict(result.about), "grown": peak() - before}
        print(json.dumps(line), flush=True)
    await command_runner(context).close()


def run(argv: list[str]) -> int:
    """Run the commands of a command line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    asyncio.run(main(Path(argv[0]).resolve(), argv[1], int(argv[2]), argv[3:]))
    return 0


if __name__ == "__main__":
    run(sys.argv[1:])

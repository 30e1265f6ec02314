"""An agent in small, to be killed, stopped and robbed: runs the command lines of its arguments in order.

`driver.py <folder> <mode> <timeout ms> <command>...` prints one JSON line for each outcome, "ready" first.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tools.base import ToolCall, ToolContext
from tools.bash import BASH
from tools.jobs import close, jobs_of


def peak() -> int:
    """Peak resident memory in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


async def main(folder: Path, mode: str, timeout: int, commands: list[str]) -> None:
    environ = {**os.environ, "MAKEROOM_NAMESPACE": "on" if mode == "namespace" else "off"}
    context = ToolContext(folder, folder, folder / ".task_outputs", folder / "journals", environ=environ)
    how = (await jobs_of(context).supervisor()).how.result()
    await BASH.run(BASH.arguments(command="true"), ToolCall(context))
    before = peak()
    print(json.dumps({"ready": how}), flush=True)
    for number, command in enumerate(commands):
        outcome = await BASH.run(
            BASH.arguments(command=command, timeout=timeout), ToolCall(context, f"{number}.0")
        )
        line = {"text": outcome.content[0].text, "about": dict(outcome.about), "grown": peak() - before}
        print(json.dumps(line), flush=True)
    await close(context)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).resolve(), sys.argv[2], int(sys.argv[3]), sys.argv[4:]))

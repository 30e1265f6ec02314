"""A session of the file tools in a directory, for their tests; and child processes of any user."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.forked import start_forked
from tools import edit, read, write
from tools.base import Access, Tool, ToolCall, ToolContext, ToolError, ToolResult
from tools.files import FileError

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS: dict[str, Tool] = {module.TOOL.name: module.TOOL for module in (read, write, edit)}
NOBODY = 65534
OTHER_ARGUMENTS: dict[str, dict[str, str]] = {
    "read": {},
    "write": {"content": "x"},
    "edit": {"old_string": "a", "new_string": "b"},
}


def text(result: ToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in result.content)


@dataclass
class FileSession:
    """What the file tools of a session in `folder` do. Paths are relative to it."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        outputs, journals = self.folder / ".task_outputs", self.folder / "journals"
        home = {"HOME": str(self.folder / "home")}
        self.context = ToolContext(self.folder, self.folder, outputs, journals, environ=home)

    def path(self, name: str) -> Path:
        return self.folder / name

    def put(self, name: str, content: bytes) -> Path:
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def seen(self, name: str, content: bytes) -> Path:
        """A file that the model has read."""
        path = self.put(name, content)
        self.do("read", file_path=name)
        return path

    async def act(self, name: str, **given: Any) -> ToolResult:
        """Judge and run one call, as the executor does."""
        tool = TOOLS[name]
        arguments = tool.parse(given)
        tool.access(arguments, self.context)
        return await tool.run(arguments, ToolCall(self.context))

    def result(self, name: str, **given: Any) -> ToolResult:
        return asyncio.run(self.act(name, **given))

    def do(self, name: str, **given: Any) -> str:
        """The text of the call's result."""
        return text(self.result(name, **given))

    def edit(self, name: str, old: str, new: str, **more: Any) -> str:
        return self.do("edit", file_path=name, old_string=old, new_string=new, **more)

    def refused(self, name: str, **given: Any) -> str:
        """The error that the call ends with."""
        try:
            result = self.result(name, **given)
        except (FileError, ToolError) as error:
            return str(error)
        raise AssertionError(f"it was done: {text(result)}")

    def judge(self, name: str, file_path: str) -> Access:
        """Return the accesses of a call with this path; nothing is run."""
        arguments = TOOLS[name].parse({"file_path": file_path, **OTHER_ARGUMENTS[name]})
        (access,) = TOOLS[name].access(arguments, self.context)
        return access

    def litter(self) -> list[str]:
        """Files of the program's own that should have been removed."""
        return [
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.name.startswith(".makeroom-") or path.suffix == ".undo"
        ]


def child(code: str, folder: Path, user: int | None = None, environ: dict[str, str] | None = None) -> str:
    """Run code with a FileSession `files` in a process of its own, as another user if wanted; its output.

    Without an environment it is a fork of this one, which saves the imports.
    """
    head = "import os, sys\nfrom pathlib import Path\nfrom tests.tools.file_session import *\n"
    if user is not None:  # not by exec: the interpreter may be in a directory that is closed to others
        head += f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n"
    head += f"files = FileSession(Path({str(folder)!r}))\n"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if environ is None:
        process = start_forked(partial(_executed, head + code), ROOT, dict(os.environ), **pipes)
    else:
        argv = [sys.executable, "-B", "-c", head + code]
        process = subprocess.Popen(argv, cwd=ROOT, env=environ, text=True, **pipes)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out


def _executed(code: str) -> int:
    exec(code, {"__name__": "__main__"})
    return 0

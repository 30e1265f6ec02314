"""A project with files and the file tools at hand, for their tests; and children that are not root."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.arguments import parse
from tools.base import Access, ToolCall, ToolContext, ToolError, ToolResult
from tools.edit import EDIT
from tools.read import READ
from tools.write import WRITE

ROOT = Path(__file__).resolve().parent.parent.parent
TOOLS: dict[str, Any] = {tool.name: tool for tool in (READ, WRITE, EDIT)}
NOBODY = 65534


def text(outcome: ToolResult) -> str:
    return "\n".join(getattr(block, "text", "") for block in outcome.content)


@dataclass
class Desk:
    """A session's place in `folder`. Paths are relative to it."""

    folder: Path
    touched: list[Access] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        home = str(self.folder / "home")
        self.context = ToolContext(
            self.folder,
            self.folder,
            self.folder / ".task_outputs",
            self.folder / "journals",
            environ={"HOME": home},
        )

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
        tool = TOOLS[name]
        arguments = parse(tool, given)
        self.touched = list(tool.touches(arguments, self.context))
        return await tool.run(arguments, ToolCall(self.context))  # type: ignore[no-any-return]

    def do(self, name: str, **given: Any) -> str:
        return text(asyncio.run(self.act(name, **given)))

    def outcome(self, name: str, **given: Any) -> ToolResult:
        return asyncio.run(self.act(name, **given))

    def edit(self, name: str, old: str, new: str, **more: Any) -> str:
        return self.do("edit", file_path=name, old_string=old, new_string=new, **more)

    def refused(self, name: str, **given: Any) -> str:
        """The error that the call ends with."""
        try:
            outcome = self.outcome(name, **given)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"it was done: {text(outcome)}")

    def judge(self, name: str, file_path: str) -> Access:
        """What a call with this path would touch; nothing is run."""
        given = {"file_path": file_path}
        if name == "edit":
            given |= {"old_string": "a", "new_string": "b"}
        if name == "write":
            given |= {"content": "x"}
        tool = TOOLS[name]
        (touch,) = tool.touches(parse(tool, given), self.context)
        assert isinstance(touch, Access)
        return touch

    def litter(self) -> list[str]:
        """Files of ours that nobody should find."""
        return [
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.name.startswith(".makeroom-") or path.suffix == ".undo"
        ]


def child(code: str, folder: Path, user: int | None = None, **more: Any) -> str:
    """Run code with a Desk named `desk` in a process of its own, as another user if wanted; its output."""
    head = "import os, sys\nfrom pathlib import Path\nfrom tests.tools.desk import *\n"
    if user is not None:  # not by exec: the interpreter may be in a folder that is closed to others
        head += f"os.setgroups([]); os.setgid({user}); os.setuid({user})\n"
    head += "desk = Desk(Path(sys.argv[1]))\n"
    done = subprocess.run(
        [sys.executable, "-B", "-c", head + code, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        **more,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

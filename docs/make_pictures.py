"""Make the pictures of the README from the real program: `python docs/make_pictures.py`.

Runs `python -m agent --offline --sample` in a pseudo-terminal, types what a newcomer would, and draws what
the terminal shows as SVG; a recording for asciinema holds all of it. Needs the dev extra (pexpect, pyte).
"""

from __future__ import annotations

import codecs
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pexpect
import pyte
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.agent.ui.scenes.picture import DimScreen  # noqa: E402  found by the line above

COLUMNS, ROWS = 92, 34
TIMEOUT_S = 25.0
MAX_IDLE_S = 1.5  # between two frames of the recording
TOUR = (
    "what does this project do?",
    "fix the failing test",
    "Read every txt file in the logs directory one by one",
)


class Terminal:
    """The program in a pseudo-terminal, and the screen that it has drawn."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.frames: list[tuple[float, str]] = []  # when what was drawn, in seconds from the start
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._began = time.monotonic()
        self.screen = DimScreen(COLUMNS, ROWS, history=2_000)
        self._stream = pyte.ByteStream(self.screen)
        environ = {
            **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(folder.parent),
            "XDG_STATE_HOME": str(folder.parent),
            "LANG": "C.UTF-8",
        }
        command = ["-m", "agent", *arguments]
        self._child = pexpect.spawn(
            sys.executable, command, cwd=str(folder), env=environ, dimensions=(ROWS, COLUMNS)
        )

    def send(self, text: str) -> None:
        self._child.send(text)

    def until(self, done: Callable[[str], bool]) -> None:
        """Read what the program draws until `done` holds of the screen's text."""
        end = time.monotonic() + TIMEOUT_S
        while not done("\n".join(self.screen.display)):
            if time.monotonic() > end:
                raise SystemExit("waited in vain; the screen shows:\n" + "\n".join(self.screen.display))
            self._read()

    def settle(self, seconds: float = 1.5) -> None:
        """Read for another moment, so that the last frame is complete."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()

    def _read(self) -> bool:
        try:
            drawn = self._child.read_nonblocking(1 << 16, timeout=0.5)
            self.frames.append((time.monotonic() - self._began, self._decode(drawn)))
            self._stream.feed(drawn)
        except pexpect.TIMEOUT:
            return False
        except pexpect.EOF:
            return False
        return True

    def lines(self) -> list[Text]:
        """The rows of the screen with their colours, empty ones at the end left out."""
        rows = [self._row(self.screen.buffer[number]) for number in range(ROWS)]
        while rows and not rows[-1].plain.strip():
            rows.pop()
        return rows

    def _row(self, cells: dict[int, pyte.screens.Char]) -> Text:
        shown = [cells[column] for column in range(COLUMNS)]
        while shown and shown[-1].data == " " and shown[-1].bg == "default":
            shown.pop()
        row = Text()
        for style, run in groupby(shown, _style_of):
            row.append("".join(cell.data for cell in run), style)
        return row


def _style_of(cell: pyte.screens.Char) -> str:
    """The style of a cell as rich names it."""
    words = {"bold": "bold", "italics": "italic", "underscore": "underline", "reverse": "reverse"}
    words["blink"] = "dim"  # as DimScreen keeps it
    style = [_colour_name(cell.fg)] if cell.fg != "default" else []
    style += ["on", _colour_name(cell.bg)] if cell.bg != "default" else []
    return " ".join((*style, *(word for name, word in words.items() if getattr(cell, name))))


def _colour_name(name: str) -> str:
    """A colour of pyte's as rich names it."""
    if len(name) == 6 and all(char in "0123456789abcdef" for char in name):
        return f"#{name}"
    name = name.replace("bfight", "bright").replace("brown", "yellow")
    return f"bright_{name.removeprefix('bright')}" if name.startswith("bright") else name


def draw(lines: list[Text], path: Path, title: str) -> None:
    """Write the lines as an SVG picture of a terminal window."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    for line in lines:
        console.print(line, soft_wrap=True)
    path.write_text(console.export_svg(title=title), "utf-8")


def write_cast(frames: list[tuple[float, str]], path: Path) -> None:
    """Write what was drawn as a recording in asciinema's format 2, without long pauses."""
    lines: list[object] = [{"version": 2, "width": COLUMNS, "height": ROWS, "title": "makeroom"}]
    now, before = 0.0, 0.0
    for at, text in frames:
        now, before = now + min(at - before, MAX_IDLE_S), at
        lines.append([round(now, 3), "o", text])
    path.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), "utf-8")


def tour(parent: Path) -> None:
    """Record the first minutes of a new user: a question, an edit with its diff, a compaction."""
    terminal = Terminal(parent, "--offline", "--sample")
    terminal.until(lambda screen: "❯" in screen and "/help lists" in screen)
    about, mend, read = TOUR
    terminal.send(f"{about}\r")
    terminal.until(lambda screen: "It starts with" in screen)
    terminal.settle()
    terminal.send(f"{mend}\r")
    terminal.until(lambda screen: "Allow edit" in screen)
    terminal.settle()
    draw(terminal.lines(), ROOT / "docs" / "question.svg", "makeroom")
    terminal.send("y")
    terminal.until(lambda screen: "Both tests pass" in screen)
    terminal.settle()
    terminal.send(f"{read}\r")
    terminal.until(lambda screen: "8 could be read" in " ".join(screen.split()))
    terminal.settle()
    draw(terminal.lines(), ROOT / "docs" / "screen.svg", "makeroom")
    write_cast(terminal.frames, ROOT / "docs" / "tour.cast")
    terminal.send("\x03\x03")


def main() -> None:
    parent = Path(tempfile.mkdtemp())
    try:
        (parent / "work").mkdir()
        tour(parent / "work")
    finally:
        shutil.rmtree(parent, ignore_errors=True)


if __name__ == "__main__":
    main()

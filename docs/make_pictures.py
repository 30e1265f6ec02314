"""Make the pictures of the README from the real program: `python docs/make_pictures.py`.

Runs `python -m agent --offline` in a pseudo-terminal on a small project, types a few prompts, and draws what
the terminal shows as SVG. Needs the dev extra (pexpect, pyte).
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 92, 34
TIMEOUT_S = 25.0
LANGUAGES = ("english", "french", "german", "italian", "polish", "spanish", "swedish", "turkish")
HELLO = """\
GREETING = "hello"


def greet(name):
    return f"{GREETING}, {name}"


print(greet("you"))
"""


class Terminal:
    """The program in a pseudo-terminal, and the screen that it has drawn."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=2_000)
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
        """Read on for a moment, so that the last frame is whole."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._read()

    def _read(self) -> bool:
        try:
            self._stream.feed(self._child.read_nonblocking(1 << 16, timeout=0.5))
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
        row = Text()
        for column in range(COLUMNS):
            cell = cells[column]
            colour = cell.fg if cell.fg != "default" else None
            if colour and len(colour) == 6 and all(c in "0123456789abcdef" for c in colour):
                colour = f"#{colour}"
            names = {"brown": "yellow", "brightblack": "bright_black"}
            style = [names.get(colour, colour)] if colour else []
            style += [name for name in ("bold", "italics", "underscore", "reverse") if getattr(cell, name)]
            words = {"italics": "italic", "underscore": "underline"}
            row.append(cell.data, " ".join(words.get(each, each) for each in style if each))
        row.rstrip()
        return row


def draw(lines: list[Text], path: Path, title: str) -> None:
    """Write the lines as an SVG picture of a terminal window."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="truecolor")
    for line in lines:
        console.print(line, soft_wrap=True)
    path.write_text(console.export_svg(title=title), "utf-8")


def project(parent: Path) -> Path:
    """A small project for the demo to work in."""
    folder = parent / "greeter"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# greeter\n\nSays hello, politely, in any language it knows.\n")
    (folder / "hello.py").write_text(HELLO)
    for language in LANGUAGES:
        lines = [
            f'GREETING_{number} = "{language} greeting number {number}, dear {{name}}"'
            for number in range(160)
        ]
        (folder / "src" / f"{language}.py").write_text("\n".join(lines) + "\n")
    return folder


def picture_of_a_session(folder: Path) -> None:
    """More is read than the window holds: room is made on the way."""
    terminal = Terminal(folder, "--offline", "--context-window", "32000", "--allowedTools", "bash")
    terminal.until(lambda screen: "❯" in screen and "/help lists" in screen)
    terminal.send("read every Python file in the src directory one by one\r")
    terminal.until(lambda screen: "one by one." in screen and "8 could be read" in " ".join(screen.split()))
    terminal.settle()
    draw(terminal.lines(), ROOT / "docs" / "screen.svg", "makeroom")
    terminal.send("\x03\x03")


def picture_of_a_question(folder: Path) -> None:
    """An edit is asked about, with its diff."""
    terminal = Terminal(folder, "--offline")
    terminal.until(lambda screen: "❯" in screen and "/help lists" in screen)
    terminal.send("read README.md, then replace 'hello' by 'good morning' in hello.py\r")
    terminal.until(lambda screen: "Allow" in screen)
    terminal.settle()
    draw(terminal.lines(), ROOT / "docs" / "question.svg", "makeroom")
    terminal.send("\x1b\x03\x03")


def main() -> None:
    parent = Path(tempfile.mkdtemp())
    try:
        folder = project(parent)
        picture_of_a_question(folder)
        picture_of_a_session(folder)
    finally:
        shutil.rmtree(parent, ignore_errors=True)


if __name__ == "__main__":
    main()

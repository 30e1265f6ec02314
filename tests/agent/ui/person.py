"""A person at a terminal: types into a real pty and reads the screen as pyte understands it."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

SCRIPTED = Path(__file__).with_name("scripted.py")
ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 30.0  # a guard against hangs, not a measure


class Person:
    """Runs the scripted REPL in `folder`, or with `MAKEROOM` (a command line) makeroom itself.

    `raw` is every byte that came.
    """

    def __init__(self, folder: Path, size: tuple[int, int] = (80, 24), **more: str) -> None:
        self.folder = folder
        self.raw = bytearray()
        self.screen = pyte.HistoryScreen(*size, history=20_000, ratio=0.1)
        self._stream = pyte.ByteStream(self.screen)
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            environ = {"TERM": "xterm-256color", "HOME": str(folder), "PATH": os.environ["PATH"], **more}
            words = environ.pop("WORDS", "").split()
            if "MAKEROOM" in environ:
                program = ["-m", "agent", *shlex.split(environ.pop("MAKEROOM"))]
                os.chdir(folder)
                os.execve(sys.executable, [sys.executable, *program], {**environ, "PYTHONPATH": str(ROOT)})
            if environ.pop("SHELL_FIRST", ""):
                environ["PS1"] = "$ "
                os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environ)
            os.execve(sys.executable, [sys.executable, str(SCRIPTED), str(folder), *words], environ)
        self._resize_pty(*size)
        self.before = termios.tcgetattr(self.terminal)
        self.status: int | None = None

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self.terminal)

    def type(self, text: str | bytes) -> Person:
        """Press keys; all bytes go out before this returns."""
        rest = memoryview(text.encode() if isinstance(text, str) else text)
        while rest:
            ready = select.select([self.terminal], [self.terminal], [], PATIENCE)
            assert ready[1] or ready[0], "the terminal takes no keys"
            if ready[0]:
                self._read()
            if ready[1]:
                rest = rest[os.write(self.terminal, rest[:1024]) :]
        return self

    def sees(self, *texts: str) -> Person:
        """Wait until all the texts are on the screen."""
        return self.until(lambda: all(text in self.text for text in texts), f"{texts} on the screen")

    def misses(self, text: str) -> Person:
        """Wait until the text is not on the screen."""
        return self.until(lambda: text not in self.text, f"no {text!r} on the screen")

    def until(self, true: Callable[[], bool], what: str = "") -> Person:
        """Read until it is true; the deadline is a guard."""
        end = time.monotonic() + PATIENCE
        while not true():
            left = end - time.monotonic()
            if left <= 0 or not self._wait(left):
                raise AssertionError(f"waited for {what}; the screen is:\n{self.text}\nlog: {self.log}")
        return self

    def again(self, keys: str, true: Callable[[], bool]) -> Person:
        """Press the keys, and again when nothing came of it for a moment, until it is true."""
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, f"{keys!r} does nothing; the screen is:\n{self.text}\n{self.log}"
            self.type(keys)
            quiet = time.monotonic() + 0.4
            while not true() and time.monotonic() < quiet:
                self._wait(0.05)
        return self

    def logged(self, text: str) -> Person:
        """Wait until the driver's log holds the text. The screen is read meanwhile."""
        end = time.monotonic() + PATIENCE
        while text not in self.log:
            assert time.monotonic() < end, f"waited for {text!r} in the log: {self.log}\n{self.text}"
            if select.select([self.terminal], [], [], 0.02)[0]:
                self._read()
        return self

    def ready(self) -> Person:
        """The prompt is there and the agent too."""
        return self.sees("❯", "claude-sonnet")

    def open(self, gate: str = "gate") -> Person:
        """Let the script go on."""
        (self.folder / f"gate.{gate}").touch()
        return self

    def resize(self, columns: int, rows: int) -> Person:
        self.screen.resize(rows, columns)
        self._resize_pty(columns, rows)
        return self

    def ends(self) -> int:
        """Wait until the program is gone; returns its exit code."""
        self.until(lambda: self.status is not None, "the end")
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    def signal(self, number: int) -> Person:
        os.kill(self.child, number)
        return self

    @property
    def text(self) -> str:
        """The screen, lines without their blank ends."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def everything(self) -> str:
        """What has scrolled away, and the screen."""
        rows = [
            "".join(row[x].data for x in range(len(row) and max(row) + 1)) for row in self.screen.history.top
        ]
        return "\n".join([*(row.rstrip() for row in rows), self.text])

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def modes(self) -> list[object]:
        """The terminal's settings now, as stty shows them."""
        return termios.tcgetattr(self.terminal)

    def _wait(self, seconds: float) -> bool:
        if select.select([self.terminal], [], [], min(seconds, 0.25))[0]:
            return self._read()
        if self.status is None:
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                self.status = status
        return True

    def _wait_quiet(self, seconds: float) -> bool:
        """Whether anything came within so many seconds."""
        return bool(select.select([self.terminal], [], [], seconds)[0]) and self._read()

    def _read(self) -> bool:
        try:
            data = os.read(self.terminal, 65536)
        except OSError:
            data = b""
        if not data:
            if self.status is None:
                _, self.status = os.waitpid(self.child, 0)
                return True
            return False
        self.raw += data
        self._stream.feed(data)
        return True

    def _resize_pty(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

"""A terminal for tests: types into a program on a real pty, and reads its screen as pyte understands it."""

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
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyte

from agent.__main__ import main
from agent.app import composition  # noqa: F401  forks need not import what a session takes
from agent.ui import markdown, picker  # noqa: F401  markdown: nor rich
from tests.agent.ui import scripted_driver
from tests.forked import run_forked

ROOT = Path(__file__).resolve().parents[3]
BEGIN_UPDATE, END_UPDATE = b"\x1b[?2026h", b"\x1b[?2026l"
DEADLINE_S = float(os.environ.get("PTY_DEADLINE_S", "30"))  # a guard against hangs, not a measure
REPEAT_KEYS_S = 0.4  # without an effect, after which keys are pressed again
MAX_BUSY_S = 5.0  # in which a busy program may still handle keys; one that draws all the time is never idle


def scripted(folder: Path, *words: str) -> list[str]:
    """The command line of the scripted REPL."""
    return [sys.executable, scripted_driver.__file__, str(folder), *words]


def makeroom(words: str) -> list[str]:
    """The command line of makeroom itself."""
    return [sys.executable, "-m", "agent", *shlex.split(words)]


def forked_makeroom(words: str) -> Callable[[], int]:
    """makeroom itself, in a fork of this process, where a menu takes a key as soon as it is on the screen."""

    def program() -> int:
        picker.ANSWER_DELAY_S = 0.0
        return main(shlex.split(words))

    return program


class PtyTerminal:
    """Runs a command line, or a function in a fork of this process, in `folder`; else the scripted REPL.

    A fork saves the imports, half a second each time; how the interpreter ends with the program, and lines
    read without a screen, are tested with a process of its own. `raw` is every byte that came.
    """

    def __init__(
        self,
        folder: Path,
        size: tuple[int, int] = (80, 24),
        argv: Sequence[str] | Callable[[], int] | None = None,
        **environ: str,
    ) -> None:
        self.folder = folder
        self.raw = bytearray()
        self.screen = pyte.HistoryScreen(*size, history=20_000, ratio=0.1)
        self._stream = pyte.ByteStream(self.screen)
        self._unshown = bytearray()  # of a synchronised update that has not come to its end
        self._text: str | None = None  # of the screen as it is, once it was asked for
        variables = {
            "TERM": "xterm-256color",
            "HOME": str(folder / "home"),
            "PATH": os.environ["PATH"],
            "TMPDIR": os.environ["HOME"],  # of the run, which removes what a killed program leaves there
            "PYTHONPATH": str(ROOT),
            **environ,
        }
        begins, ready = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks with threads
            self.child, self.fd = pty.fork()
        if self.child == 0:
            os.read(begins, 1)  # until the terminal has its size
            os.chdir(folder)
            if argv is None:
                argv = partial(scripted_driver.main, ["scripted_driver.py", str(folder)])
            if callable(argv):
                run_forked(argv, variables)
            os.execve(argv[0], list(argv), variables)
        self._resize_pty(*size)
        self.initial_modes = self.modes
        self.status: int | None = None
        os.write(ready, b"\n")
        os.close(ready)
        os.close(begins)

    def __enter__(self) -> PtyTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self.fd)

    def type(self, text: str | bytes) -> PtyTerminal:
        """Press keys; all bytes go out before this returns."""
        rest = memoryview(text.encode() if isinstance(text, str) else text)
        while rest:
            ready = select.select([self.fd], [self.fd], [], DEADLINE_S)
            assert ready[1] or ready[0], "the terminal takes no keys"
            if ready[0]:
                self._read()
            if ready[1]:
                rest = rest[os.write(self.fd, rest[:1024]) :]
        return self

    def sees(self, *texts: str) -> PtyTerminal:
        """Wait until all the texts are on the screen."""
        return self.until(lambda: all(text in self.text for text in texts), f"{texts} on the screen")

    def misses(self, text: str) -> PtyTerminal:
        """Wait until the text is not on the screen."""
        return self.until(lambda: text not in self.text, f"no {text!r} on the screen")

    def until(self, true: Callable[[], bool], what: str = "") -> PtyTerminal:
        """Read until it is true; the deadline is a guard."""
        end = time.monotonic() + DEADLINE_S
        while not true():
            left = end - time.monotonic()
            if left <= 0 or not self._wait(left):
                raise AssertionError(f"waited for {what}; the screen is:\n{self.text}\nlog: {self.log}")
        return self

    def again(self, keys: str, true: Callable[[], bool]) -> PtyTerminal:
        """Press the keys, and again when nothing came of it for a moment, until it is true.

        The moment is longer while the program is busy: it may have yet to handle the keys.
        """
        end = time.monotonic() + DEADLINE_S
        while not true():
            assert time.monotonic() < end, f"{keys!r} does nothing; the screen is:\n{self.text}\n{self.log}"
            self.type(keys)
            typed = time.monotonic()
            idle_since = typed
            while not true() and time.monotonic() < idle_since + REPEAT_KEYS_S:
                self._wait(0.05)
                if is_busy(self.child) and time.monotonic() < typed + MAX_BUSY_S:
                    idle_since = time.monotonic()
        return self

    def logged(self, text: str) -> PtyTerminal:
        """Wait until the driver's log holds the text. The screen is read meanwhile."""
        end = time.monotonic() + DEADLINE_S
        while text not in self.log:
            assert time.monotonic() < end, f"waited for {text!r} in the log: {self.log}\n{self.text}"
            if select.select([self.fd], [], [], 0.02)[0]:
                self._read()
        return self

    def ready(self) -> PtyTerminal:
        """Wait for the prompt and the agent."""
        return self.sees("❯", "claude-sonnet")

    def open_gate(self, name: str = "gate") -> PtyTerminal:
        """Let the script continue."""
        (self.folder / f"gate.{name}").touch()
        return self

    def resize(self, columns: int, rows: int) -> PtyTerminal:
        self.screen.resize(rows, columns)
        self._text = None
        self._resize_pty(columns, rows)
        return self

    def ends(self) -> int:
        """Wait until the program has ended; returns its exit code."""
        self.until(lambda: self.status is not None, "the end")
        assert self.status is not None
        return os.waitstatus_to_exitcode(self.status)

    def signal(self, number: int) -> PtyTerminal:
        os.kill(self.child, number)
        return self

    def writes_within(self, seconds: float) -> bool:
        """Return whether the program writes anything within so many seconds."""
        return bool(select.select([self.fd], [], [], seconds)[0]) and self._read()

    def drain(self, seconds: float) -> PtyTerminal:
        """Read what comes within so many seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._wait(left)
        return self

    @property
    def text(self) -> str:
        """The screen, lines without their blank ends."""
        if self._text is None:
            rows = map(self.screen.buffer.__getitem__, range(self.screen.lines))
            self._text = "\n".join(_row_text(row).rstrip() for row in rows).rstrip()
        return self._text

    @property
    def everything(self) -> str:
        """The lines that have scrolled away, and the screen."""
        return "\n".join([*(_row_text(row).rstrip() for row in self.screen.history.top), self.text])

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def modes(self) -> list[object]:
        """The terminal's settings now, as stty shows them."""
        return termios.tcgetattr(self.fd)

    def _wait(self, seconds: float) -> bool:
        if select.select([self.fd], [], [], min(seconds, 0.25))[0]:
            return self._read()
        if self.status is None:
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                self.status = status
        return True

    def _read(self) -> bool:
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        if not data:
            if self.status is None:
                _, self.status = os.waitpid(self.child, 0)
                return True
            return False
        self.raw += data
        self._unshown += data
        if self._unshown.count(BEGIN_UPDATE) == self._unshown.count(END_UPDATE):
            self._stream.feed(bytes(self._unshown))
            self._text = None
            self._unshown.clear()
        return True

    def _resize_pty(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def is_busy(pid: int) -> bool:
    """Return whether a thread of the process runs, or waits for a core or the disk; False without /proc."""
    states = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):  # the thread has ended
            states.append(path.read_bytes().rpartition(b")")[2].split()[0])
    return b"R" in states or b"D" in states


def _row_text(row: Mapping[int, pyte.screens.Char]) -> str:
    """The text of a row of the screen; the second cell of a wide character is empty."""
    return "".join(row[x].data for x in range(len(row) and max(row) + 1))

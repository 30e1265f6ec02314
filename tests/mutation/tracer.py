"""Note the lines of some modules that a process, its forks, and the programs that it starts run.

The notes are a file with a byte for each line. A process maps it into its memory, which its forks share
whatever they close, mount or give up. A program that starts anew runs this file when it imports one of the
modules, to whose copies `with_tracing` adds a line. So this file imports little, and nothing of ours.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from mmap import mmap
from pathlib import Path
from types import FrameType
from typing import Any

Lines = dict[str, int]  # a set of lines, as an integer with a bit for each, by the path of the file
MAX_LINES = 4_096  # of a file
_MAIN = 'if __name__ == "__main__":\n'


class Tracer:
    """Notes the lines of some files that any thread runs."""

    def __init__(self, files: Iterable[str], notes: Path) -> None:
        self._files = list(files)
        with notes.open("r+b") as file:
            self._seen = mmap(file.fileno(), 0)
        self._local = {file: self._noting(number * MAX_LINES) for number, file in enumerate(self._files)}

    @classmethod
    def with_notes(cls, files: Iterable[str], notes: Path) -> Tracer:
        """Return a tracer with new notes, in which programs may join."""
        named = list(files)
        notes.with_suffix(".json").write_text(json.dumps(named), "utf-8")
        with notes.open("wb") as file:
            file.truncate(max(1, len(named)) * MAX_LINES)
        return cls(named, notes)

    @classmethod
    def join(cls, notes: Path) -> None:
        """Trace this program, which a test has started, from here on."""
        tracer = cls(json.loads(notes.with_suffix(".json").read_text("utf-8")), notes)
        tracer.start()
        frame = sys._getframe().f_back
        while frame is not None:
            frame.f_trace = tracer._called(frame, "call", None)
            frame = frame.f_back

    def start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def stop(self) -> Lines:
        """Stop tracing. Returns the lines that ran since the start, and removes them from the notes."""
        sys.settrace(None)
        threading.settrace(None)
        run: Lines = {}
        for number, file in enumerate(self._files):
            first = number * MAX_LINES
            seen = self._seen[first : first + MAX_LINES]
            if seen.strip(b"\0"):
                run[file] = sum(1 << line for line, byte in enumerate(seen) if byte)
                self._seen[first : first + MAX_LINES] = bytes(MAX_LINES)
        return run

    def _called(self, frame: FrameType, event: str, value: Any) -> Callable[..., Any] | None:
        return self._local.get(frame.f_code.co_filename)

    def _noting(self, first: int) -> Callable[..., Any]:
        seen = self._seen

        def note(frame: FrameType, event: str, value: Any) -> Callable[..., Any]:
            if event == "line":
                seen[first + frame.f_lineno] = 1
            return note

        return note


def with_tracing(source: str, notes: Path) -> str:
    """Return a module's text that traces the programs which import it, with the same numbers of lines.

    A process that is traced already stays as it is, and so does one that cannot write the notes.
    """
    join = f"exec(open({__file__!r}).read(), {{'__name__': 'tracer', 'NOTES': {str(notes)!r}}})"
    joining = f"(__import__('sys').gettrace() or __import__('os').access({str(notes)!r}, 2) and {join})"
    if _MAIN in source:
        return source.replace(_MAIN, f'if [{joining}] and __name__ == "__main__":\n')
    return f"{source}\n{joining}\n"


if "NOTES" in globals():
    with suppress(OSError):  # in a sandbox
        Tracer.join(Path(globals()["NOTES"]))

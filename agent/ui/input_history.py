"""What outlives a session at the prompt: the history of what was typed, and the draft of a crash.

Both are private files in the state folder, safe with several sessions at once, and without what `mask`
hides. Where that folder cannot be written, nothing is kept and `trouble` says why, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

from transcripts.disk import add_line, make_private

MOST_ENTRIES = 2000
MOST_BYTES = 4 * 1024 * 1024  # read from the end of the history
DELAY = 0.5  # seconds between a change of the draft and its file
LONGEST = 256 * 1024  # characters of one entry; a larger paste is not worth a place in the history


class PromptHistory(History):
    """The history file: one JSON object a line, `{"t": seconds, "text": ...}`, appended in one write."""

    def __init__(self, path: Path, mask: Callable[[str], str] = str) -> None:
        super().__init__()
        self._path = path
        self._mask = mask
        self.trouble = ""

    def load_history_strings(self) -> Iterable[str]:
        """Newest first, without immediate repetitions. Lines that cannot be read are passed over."""
        try:
            lines = _last_lines(self._path)
        except OSError:
            lines = []
        texts = [text for line in lines if (text := _text_of(line))]
        found = [text for at, text in enumerate(texts) if at == 0 or text != texts[at - 1]]
        return found[::-1][:MOST_ENTRIES]

    def store_string(self, string: str) -> None:
        if len(string) > LONGEST:
            return
        line = json.dumps({"t": round(time.time()), "text": self._mask(string)}, ensure_ascii=False)
        try:
            make_private(self._path.parent)
            descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                add_line(descriptor, line.encode("utf-8", "replace"))
            finally:
                os.close(descriptor)
        except OSError as error:
            self.trouble = self.trouble or f"the history is not kept: {error}"


class UnsentInput:
    """The text at the prompt of this process, kept in a file while it is not empty."""

    def __init__(self, folder: Path, place: Path, mask: Callable[[str], str] = str) -> None:
        self._folder = folder / "drafts"
        self._mask = mask
        self._mark = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
        self._path = self._folder / f"{self._mark}-{os.getpid()}.txt"
        self._kept = ""
        self.trouble = ""

    def keep(self, text: str) -> None:
        """Make the file hold the text; an empty one removes it."""
        if text == self._kept:
            return
        try:
            if text:
                make_private(self._folder)
                fresh = self._path.with_suffix(".tmp")
                fresh.write_bytes(self._mask(text).encode("utf-8", "replace"))
                fresh.chmod(0o600)
                fresh.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
            self._kept = text
        except OSError as error:
            self.trouble = self.trouble or f"drafts are not kept: {error}"

    def orphan(self) -> str:
        """The newest draft that a dead process left for this place, taken out of its file; "" for none."""
        try:
            left = [path for path in self._folder.glob(f"{self._mark}-*.txt") if not _alive(path)]
            left.sort(key=lambda path: path.stat().st_mtime)
            if not left:
                return ""
            text = left[-1].read_text(encoding="utf-8", errors="replace")
            left[-1].unlink()
            return text
        except OSError as error:
            self.trouble = self.trouble or f"earlier drafts cannot be read: {error}"
            return ""


class InputAutosave:
    """Keeps the draft up to date, at most DELAY seconds behind what `text` gives."""

    def __init__(self, draft: UnsentInput, text: Callable[[], str]) -> None:
        self._draft = draft
        self._text = text
        self._timer: asyncio.TimerHandle | None = None

    def touch(self) -> None:
        """The text changed."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self.write)

    def write(self) -> None:
        """Bring the file up to date now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._draft.keep(self._text())


def _last_lines(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - MOST_BYTES, 0))
        lines = file.read(MOST_BYTES).split(b"\n")
    return lines[1:] if size > MOST_BYTES else lines


def _text_of(line: bytes) -> str:
    try:
        entry = json.loads(line)
        return str(entry["text"])
    except (ValueError, KeyError, TypeError):
        return ""


def _alive(path: Path) -> bool:
    number = path.stem.rpartition("-")[2]
    if not number.isdigit() or int(number) == os.getpid():
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

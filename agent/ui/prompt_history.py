"""The prompt history, and the draft that survives a crash.

Both are private files in the state directory, safe for concurrent sessions, with secrets masked by `mask`. If
the directory cannot be written, nothing is kept, and `trouble` is the warning to show once.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

from transcripts.storage import append_line, make_private_folders, opened_regular, replace_file
from transcripts.wording import pluralize

from .paste_chips import Pastes

MAX_HISTORY_BYTES = 4 * 1024 * 1024  # read from the end of the file, which is shortened at twice the size
MAX_ENTRY_CHARS = 256 * 1024  # a longer prompt is not kept
WARNED_MARK = b'{"note": "what is damaged above was told"}'  # a line of the history; older ones have it too


class PromptHistory(History):
    """The history file: one JSON object a line, `{"t": seconds, "text": ...}`, appended in one write.

    An entry with large pastes also has their spans, `"pastes": [[begin, end], ...]`.
    """

    def __init__(self, path: Path, mask: Callable[[str], str] = str) -> None:
        super().__init__()
        self.pastes: dict[str, Pastes] = {}  # by text
        self._path = path
        self._mask = mask
        self.trouble = ""

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first, without immediate repetitions. Warn once about damaged lines."""
        lines: list[bytes] = []
        try:
            lines = _last_lines(self._path)
            if lines and self._path.stat().st_size > 2 * MAX_HISTORY_BYTES:
                # A prompt that another session sends in this moment is lost.
                replace_file(self._path.resolve(), b"\n".join(lines))
        except (FileNotFoundError, NotADirectoryError):
            pass  # there is no history yet; writing it will show whether there can be one
        except OSError as error:
            self.trouble = self.trouble or f"cannot read the prompt history: {error}"
        read = [_entry_text(line) for line in lines if line.strip()]
        first = max((at for at, line in enumerate(lines) if line == WARNED_MARK), default=-1) + 1
        damaged = [line for line in lines[first:] if line.strip() and _entry_text(line) is None]
        if damaged and not self.trouble:
            count = pluralize(len(damaged), "damaged line")
            self.trouble = f"skipped {count} of the prompt history ({self._path})"
            with suppress(OSError):  # then the next session warns again
                append_line(self._path, WARNED_MARK, follow_links=True)
        self.pastes |= {text: pastes for line in lines for text, pastes in _pastes_of(line)}
        texts = [text for text in read if text]
        found = [text for at, text in enumerate(texts) if at == 0 or text != texts[at - 1]]
        return found[::-1][:2000]

    def store_string(self, string: str) -> None:
        if len(string) > MAX_ENTRY_CHARS:
            return
        entry: dict[str, object] = {"t": round(time.time()), "text": self._mask(string)}
        if entry["text"] == string and string in self.pastes:
            entry["pastes"] = self.pastes[string]
        line = json.dumps(entry, ensure_ascii=False)
        try:
            make_private_folders(self._path.parent)
            append_line(self._path, line.encode("utf-8", "replace"), follow_links=True)
        except OSError as error:
            self.trouble = self.trouble or f"cannot write the prompt history: {error}"


def _last_lines(path: Path) -> list[bytes]:
    with opened_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - MAX_HISTORY_BYTES, 0))
        lines = file.read(MAX_HISTORY_BYTES).split(b"\n")
    return lines[1:] if size > MAX_HISTORY_BYTES else lines


def _entry_text(line: bytes) -> str | None:
    """Return the text of an entry; None for a line that is not an entry."""
    try:
        return str(json.loads(line)["text"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _pastes_of(line: bytes) -> Iterator[tuple[str, Pastes]]:
    """Yield the text of an entry and the spans of its pastes; nothing without valid spans."""
    if b'"pastes": [' not in line:
        return
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        entry = json.loads(line)
        yield str(entry["text"]), tuple((int(begin), int(end)) for begin, end in entry["pastes"])

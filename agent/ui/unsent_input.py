"""Keep the text that the user has typed but not sent, so that it survives a crash."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

from transcripts.storage import (
    is_of_running_process,
    make_private_folders,
    opened_regular,
    project_key,
    replace_file,
)

AUTOSAVE_DELAY_S = 0.5  # between a change of the draft and its file


class UnsentInput:
    """The unsent text of this process in the project `folder`, kept in a file unless it is empty."""

    def __init__(self, state_dir: Path, folder: Path, mask: Callable[[str], str] = str) -> None:
        self._drafts_dir = state_dir / "drafts"
        self._mask = mask
        self._project = project_key(folder)
        self._path = self._drafts_dir / f"{self._project}-{os.getpid()}.txt"
        self._text = ""  # for the file
        self._saved = ""  # in the file
        self._writing = threading.Lock()
        self._timer: asyncio.TimerHandle | None = None
        self.trouble = ""

    def save_soon(self, current_text: Callable[[], str]) -> None:
        """Save the text that is unsent in at most AUTOSAVE_DELAY_S from now.

        It is written in a thread: keys must not wait for a slow disk.
        """
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(AUTOSAVE_DELAY_S, lambda: self._save_in_thread(current_text()))

    def _save_in_thread(self, text: str) -> None:
        self._timer = None
        if text != self._text:
            self._text = text
            threading.Thread(target=self._write, name="draft", daemon=True).start()

    def save(self, text: str) -> None:
        """Write the text to the file; an empty text removes the file."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._text = text
        self._write()

    def _write(self) -> None:
        """Bring the file up to date with the newest text, which a later call may have changed."""
        with self._writing:
            text = self._text
            if text == self._saved:
                return
            try:
                if text:
                    make_private_folders(self._drafts_dir)
                    replace_file(self._path, self._mask(text).encode("utf-8", "replace"), durable=False)
                else:
                    self._path.unlink(missing_ok=True)
                self._saved = text
            except OSError as error:
                self.trouble = self.trouble or f"cannot save drafts: {error}"

    def take_orphan(self) -> str:
        """Remove and return the newest draft that a dead process left for this project; "" for none."""
        try:
            drafts = self._drafts_dir.glob(f"{self._project}-*.txt")
            left = [path for path in drafts if not is_of_running_process(path.name)]
            if not left:
                return ""
            newest = max(left, key=lambda path: path.stat().st_mtime)
            with opened_regular(newest) as file:
                # The draft of a session that was killed may be large.
                text = file.read(4 * 1024 * 1024).decode("utf-8", "replace")
            newest.unlink()
            return text
        except OSError as error:
            self.trouble = self.trouble or f"cannot read earlier drafts: {error}"
            return ""

"""The input: its buffer, what goes in and out of it, the prompt history, and the draft that outlives a crash.

History and drafts are private files in the state folder, safe with several sessions at once, and without
what `mask` hides. Where that folder cannot be written nothing is kept, and `trouble` says why, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History
from wcwidth import iter_graphemes, iter_graphemes_reverse

from agent.formatting import is_command
from tools.text import pluralize
from transcripts.storage import append_line, make_private_folders, opened_regular

from .completion import alias_of, rank
from .paste_chips import PasteChips, Pastes

EXIT_WORDS = frozenset({"exit", "quit", ":q"})
MAX_HISTORY_ENTRIES = 2000
MAX_HISTORY_BYTES = 4 * 1024 * 1024  # read from the end of the file
MAX_DRAFT_BYTES = 4 * 1024 * 1024  # taken over from a session that died
MAX_ENTRY_CHARS = 256 * 1024  # a larger paste is not worth a place in the history
PASTES_MARK = b'"pastes": ['
TOLD_MARK = b'{"note": "what is damaged above was told"}'  # a line of the history
AUTOSAVE_DELAY_S = 0.5  # between a change of the draft and its file


def move_by_grapheme(buffer: Buffer, by: Literal[-1, 1]) -> None:
    """Move the cursor over what people see as one character, within the line."""
    before, after = _graphemes_beside(buffer.document)
    buffer.cursor_position += (
        buffer.document.get_cursor_left_position(before)
        if by < 0
        else buffer.document.get_cursor_right_position(after)
    )


def delete_grapheme(buffer: Buffer, at: Literal[-1, 1]) -> None:
    """Delete what people see as one character before the cursor, or behind it, or what is selected."""
    before, after = _graphemes_beside(buffer.document)
    if buffer.selection_state is not None:
        buffer.cut_selection()
    elif at < 0:
        buffer.delete_before_cursor(before)
    else:
        buffer.delete(after)


def _graphemes_beside(document: Document) -> tuple[int, int]:
    """Return the lengths in characters of the graphemes before and after the cursor."""
    before = next(iter_graphemes_reverse(document.text_before_cursor), "")
    return len(before), len(next(iter_graphemes(document.text_after_cursor), ""))


class DraftBuffer(Buffer):
    """A buffer that knows whether its text is typed, or put there; an entry of the history as `recalled`."""

    recalled: Callable[[str], str] = str
    is_placing = False

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Meanwhile the text is changed by what nobody typed."""
        self.is_placing = True
        try:
            yield
        finally:
            self.is_placing = False

    @property
    def working_index(self) -> int:
        """The index of the history entry being edited; the last one is the draft."""
        return super().working_index

    @working_index.setter
    def working_index(self, place: int) -> None:
        if place != super().working_index:
            with self.placing():
                vars(Buffer)["working_index"].__set__(self, place)
                self.text = self.recalled(self.text)


class InputEditor:
    """The text being written. `buffer` is prompt_toolkit's; chips in it stand for large pastes."""

    def __init__(self, history: PromptHistory, completer: Completer, on_change: Callable[[], None]) -> None:
        self.paste_chips = PasteChips()
        self.stashed = ""  # a draft put away, with its chips
        self._history = history
        self._on_change = on_change
        self.buffer = DraftBuffer(
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=True,
            tempfile_suffix=".md",
            on_text_changed=lambda _: self._text_changed(),
        )
        self.buffer.recalled = lambda text: self.paste_chips.chipped(text, history.pastes.get(text, ()))

    @property
    def text(self) -> str:
        """The text of the input, chips expanded."""
        return self.paste_chips.expand(self.buffer.text)

    def paste(self, text: str) -> None:
        self.buffer.insert_text(self.paste_chips.paste(text))

    def take(self) -> str:
        """Empty the input into the history; returns its text with its chips."""
        raw = self.buffer.text
        self.remember(raw)
        self.buffer.reset()
        return raw

    def remember(self, raw: str) -> None:
        """Put a text (with chips) into the history, unless it is the newest there."""
        text = self.paste_chips.expand(raw)
        strings = self._history.get_strings()
        if text.strip() and (not strings or strings[-1] != text):
            if pastes := self.paste_chips.pastes(raw):
                self._history.pastes[text] = pastes
            self._history.append_string(text)

    def put_back(self, *texts: str) -> None:
        """Give texts (with chips) back to the input, before what is being written now."""
        self._replace("\n".join(text for text in (*texts, self.buffer.text) if text))

    def restore(self, text: str) -> None:
        """Give a text as it was sent back to the input; a big one as a chip."""
        self.put_back(self.paste_chips.paste(text))

    def expand_chips(self) -> None:
        """Show the pastes themselves, for an external editor."""
        if self.text != self.buffer.text:
            self._replace(self.text)

    def stash(self) -> bool:
        """Put the draft away, in exchange for the one put away before. False when there is neither."""
        away = self.stashed
        self.stashed = self.buffer.text
        self._replace(away)
        return bool(away or self.stashed)

    def clear(self) -> None:
        """Empty the input; Up and Ctrl-Y bring back what was written."""
        get_app().clipboard.set_text(self.buffer.text)
        self.take()

    def forget_chips(self, sent: str) -> None:
        """Forget the pastes of chips that stand neither in what is sent nor in what may come back."""
        self.paste_chips.forget_all_but(sent + self.stashed + get_app().clipboard.get_data().text)

    def complete(self, names: Sequence[str]) -> None:
        """Tab: take the marked completion, else the first; without a menu complete a path.

        `names` are those of the slash commands.
        """
        state = self.buffer.complete_state
        if state is None or not state.completions:
            self._complete_path()
            return
        self.buffer.apply_completion(state.current_completion or state.completions[0])
        if self.buffer.text.removeprefix("/") in names:
            self.buffer.insert_text(" ")
        elif self.buffer.text.endswith("/"):
            self._complete_path()

    def close_menu(self) -> bool:
        """Take the completions off the screen. False when there were none."""
        if self.buffer.complete_state is None:
            return False
        self.buffer.cancel_completion()
        return True

    def accept_menu(self, commands: Sequence[tuple[str, str]]) -> bool:
        """Enter: take a marked file, complete a command that was begun. True: nothing is sent yet.

        Of the `commands`, (name, summary), one that was begun is sent at once where no other begins so.
        """
        state = self.buffer.complete_state
        marked = state.current_completion if state else None
        text = self.buffer.text
        self.buffer.complete_state = None
        if marked is not None and not marked.text.startswith("/"):
            return True
        summaries = {name.removeprefix("/"): summary for name, summary in commands}
        if is_command(text) and " " not in text and text[1:] not in summaries:
            fitting = [name for name in rank(text[1:], summaries) if name.startswith(text[1:])]
            if fitting:
                self._replace(f"/{fitting[0]}")
            return len({alias_of(summaries[name]) or name for name in fitting}) > 1
        return False

    def newline_after_backslash(self) -> bool:
        """A backslash before the cursor and Enter is a new line."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        self.buffer.delete_before_cursor(1)
        self.buffer.insert_text("\n")
        return True

    def _replace(self, text: str) -> None:
        with self.buffer.placing():
            self.buffer.document = Document(text)

    def _complete_path(self) -> None:
        event = CompleteEvent(completion_requested=True)
        self.buffer.start_completion(insert_common_part=True, complete_event=event)

    def _text_changed(self) -> None:
        text = self.buffer.text
        typed = not self.buffer.is_placing
        if typed and text.startswith("/") and self.buffer.complete_state is None and " " not in text:
            self.buffer.start_completion(complete_event=CompleteEvent(text_inserted=True))
        self._on_change()


class PromptHistory(History):
    """The history file: one JSON object a line, `{"t": seconds, "text": ...}`, appended in one write.

    Beside a text that holds big pastes is where they are, `"pastes": [[begin, end], ...]`.
    """

    def __init__(self, path: Path, mask: Callable[[str], str] = str) -> None:
        super().__init__()
        self.pastes: dict[str, Pastes] = {}  # by text
        self._path = path
        self._mask = mask
        self.trouble = ""

    def load_history_strings(self) -> Iterable[str]:
        """Newest first, without immediate repetitions. Of lines that cannot be read it tells once."""
        lines: list[bytes] = []
        try:
            lines = _last_lines(self._path)
        except (FileNotFoundError, NotADirectoryError):
            pass  # there is none yet, and whether there can be one is seen when it is written
        except OSError as error:
            self.trouble = self.trouble or f"the history cannot be read: {error}"
        read = [_entry_text(line) for line in lines if line.strip()]
        told = max((at for at, line in enumerate(lines) if line == TOLD_MARK), default=-1) + 1
        damaged = [line for line in lines[told:] if line.strip() and _entry_text(line) is None]
        if damaged and not self.trouble:
            what = pluralize(len(damaged), "line")
            self.trouble = f"damaged and passed over: {what} of the history ({self._path})"
            with suppress(OSError):  # then it is told again
                append_line(self._path, TOLD_MARK, follow_links=True)
        self.pastes |= {text: pastes for line in lines for text, pastes in _pastes_of(line)}
        texts = [text for text in read if text]
        found = [text for at, text in enumerate(texts) if at == 0 or text != texts[at - 1]]
        return found[::-1][:MAX_HISTORY_ENTRIES]

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
            self.trouble = self.trouble or f"the history is not kept: {error}"


class UnsentInput:
    """The unsent text of this process in the project `folder`, kept in a file while it is not empty."""

    def __init__(self, state_dir: Path, folder: Path, mask: Callable[[str], str] = str) -> None:
        self._drafts_dir = state_dir / "drafts"
        self._mask = mask
        self._project = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        self._path = self._drafts_dir / f"{self._project}-{os.getpid()}.txt"
        self._saved = ""
        self._timer: asyncio.TimerHandle | None = None
        self.trouble = ""

    def save_soon(self, current_text: Callable[[], str]) -> None:
        """Save what is unsent then, at most AUTOSAVE_DELAY_S from now."""
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(AUTOSAVE_DELAY_S, lambda: self.save(current_text()))

    def save(self, text: str) -> None:
        """Make the file hold the text; an empty one removes it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if text == self._saved:
            return
        try:
            if text:
                make_private_folders(self._drafts_dir)
                fresh = self._path.with_suffix(".tmp")
                fresh.write_bytes(self._mask(text).encode("utf-8", "replace"))
                fresh.chmod(0o600)
                fresh.replace(self._path)
            else:
                self._path.unlink(missing_ok=True)
            self._saved = text
        except OSError as error:
            self.trouble = self.trouble or f"drafts are not kept: {error}"

    def take_orphan(self) -> str:
        """The newest draft that a dead process left for this project, and remove its file; "" for none."""
        try:
            left = [path for path in self._drafts_dir.glob(f"{self._project}-*.txt") if not _alive(path)]
            if not left:
                return ""
            newest = max(left, key=lambda path: path.stat().st_mtime)
            with opened_regular(newest) as file:
                text = file.read(MAX_DRAFT_BYTES).decode("utf-8", "replace")
            newest.unlink()
            return text
        except OSError as error:
            self.trouble = self.trouble or f"earlier drafts cannot be read: {error}"
            return ""


def _last_lines(path: Path) -> list[bytes]:
    with opened_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - MAX_HISTORY_BYTES, 0))
        lines = file.read(MAX_HISTORY_BYTES).split(b"\n")
    return lines[1:] if size > MAX_HISTORY_BYTES else lines


def _entry_text(line: bytes) -> str | None:
    """The text of an entry; None of a line that is none."""
    try:
        return str(json.loads(line)["text"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _pastes_of(line: bytes) -> Iterator[tuple[str, Pastes]]:
    """The text of an entry and where its pastes are; nothing of one without, or with what is no place."""
    if PASTES_MARK not in line:
        return
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        entry = json.loads(line)
        yield str(entry["text"]), tuple((int(begin), int(end)) for begin, end in entry["pastes"])


def _alive(draft: Path) -> bool:
    """Return whether the process whose draft this is still runs; its pid is the end of the file's name."""
    pid = draft.stem.rpartition("-")[2]
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError):
        pass
    return True

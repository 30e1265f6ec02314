"""The input: its buffer with history, completion and chips, and the text that goes in and out of it."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.document import Document
from prompt_toolkit.history import History

from .completion import is_command, rank
from .paste_chips import PasteChips

LEAVING = frozenset({"exit", "quit", ":q"})


class InputEditor:
    """What the person is writing. `buffer` is prompt_toolkit's; chips in it stand for big pastes."""

    def __init__(self, history: History, completer: Completer, changed: Callable[[], None]) -> None:
        self.chips = PasteChips()
        self.stashed = ""  # a draft put away, with its chips
        self._changed = changed
        self.buffer = Buffer(
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=True,
            tempfile_suffix=".md",
            on_text_changed=lambda _: self._text_changed(),
        )

    @property
    def text(self) -> str:
        """What stands in the input, chips expanded."""
        return self.chips.expand(self.buffer.text)

    def paste(self, text: str) -> None:
        self.buffer.insert_text(self.chips.paste(text))

    def take(self) -> str:
        """Empty the input into the history; returns its text with its chips."""
        raw = self.buffer.text
        self.remember(self.chips.expand(raw))
        self.buffer.reset()
        return raw

    def remember(self, text: str) -> None:
        """Put the text into the history, unless it is the newest there."""
        strings = self.buffer.history.get_strings()
        if text.strip() and (not strings or strings[-1] != text):
            self.buffer.history.append_string(text)

    def put_back(self, *texts: str) -> None:
        """Give texts (with chips) back to the input, before what is being written now."""
        whole = "\n".join(text for text in (*texts, self.buffer.text) if text)
        self.buffer.document = Document(whole, len(whole))

    def expand(self) -> None:
        """Show the pastes themselves, for an editor that cannot know chips."""
        whole = self.text
        if whole != self.buffer.text:
            self.buffer.document = Document(whole, len(whole))

    def complete(self, names: list[str]) -> bool:
        """Tab: take the marked completion, else the first. False when there is none."""
        state = self.buffer.complete_state
        if state is None or not state.completions:
            return False
        self.buffer.apply_completion(state.current_completion or state.completions[0])
        if self.buffer.text.removeprefix("/") in names:
            self.buffer.insert_text(" ")
        elif self.buffer.text.endswith("/"):
            self.complete_path()
        return True

    def complete_path(self) -> None:
        """Tab without a menu: paths that begin with the word before the cursor, what they share at once."""
        self.buffer.start_completion(
            insert_common_part=True, complete_event=CompleteEvent(completion_requested=True)
        )

    def stash(self) -> bool:
        """Put the draft away, in exchange for the one put away before. False when there is neither."""
        away, self.stashed = self.stashed, self.buffer.text
        self.buffer.document = Document(away, len(away))
        return bool(away or self.stashed)

    def close_menu(self) -> bool:
        """Take the completions off the screen. False when there were none."""
        if self.buffer.complete_state is None:
            return False
        self.buffer.cancel_completion()
        return True

    def accept_menu(self, names: list[str]) -> bool:
        """Enter: take a marked file (True: nothing is sent yet), complete a command that was begun."""
        state = self.buffer.complete_state
        marked = state.current_completion if state else None
        text = self.buffer.text
        if state is not None:
            self.buffer.complete_state = None
        if marked is not None and not marked.text.startswith("/"):
            return True
        if is_command(text) and " " not in text and text[1:] not in names:
            fitting = [name for name in rank(text[1:], names) if name.startswith(text[1:])]
            if fitting:
                self.buffer.document = Document(f"/{fitting[0]}", len(fitting[0]) + 1)
        return False

    def newline_after_backslash(self) -> bool:
        """A backslash before the cursor and Enter is a new line."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        self.buffer.delete_before_cursor(1)
        self.buffer.insert_text("\n")
        return True

    def _text_changed(self) -> None:
        text = self.buffer.text
        if text.startswith("/") and self.buffer.complete_state is None and " " not in text:
            self.buffer.start_completion(complete_event=CompleteEvent(text_inserted=True))
        self._changed()

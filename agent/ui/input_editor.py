"""The input: its buffer, and the texts that are put into it and taken from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.document import Document
from wcwidth import iter_graphemes, iter_graphemes_reverse

from agent.ports import CommandSummary
from agent.typed_text import is_command

from .completion import rank
from .paste_chips import PasteChips
from .prompt_history import PromptHistory

EXIT_WORDS = frozenset({"exit", "quit", ":q"})


def move_by_grapheme(buffer: Buffer, by: Literal[-1, 1]) -> None:
    """Move the cursor by one visible character within the line."""
    before, after = _graphemes_beside(buffer.document)
    buffer.cursor_position += (
        buffer.document.get_cursor_left_position(before)
        if by < 0
        else buffer.document.get_cursor_right_position(after)
    )


def delete_grapheme(buffer: Buffer, at: Literal[-1, 1]) -> None:
    """Delete the selection, or one visible character before (-1) or after (1) the cursor."""
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


_WORKING_INDEX: Any = vars(Buffer)["working_index"]  # a property


class DraftBuffer(Buffer):
    """A buffer that distinguishes typed text from inserted text, and shows history entries as `recalled`."""

    recalled: Callable[[str], str] = str
    is_placing = False

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Mark changes of the text in this block as not typed."""
        self.is_placing = True
        try:
            yield
        finally:
            self.is_placing = False

    def _go_to_entry(self, place: int) -> None:
        if place != self.working_index:
            with self.placing():
                _WORKING_INDEX.__set__(self, place)
                self.text = self.recalled(self.text)

    # Index of the history entry in the buffer; the last one is the draft.
    working_index = _WORKING_INDEX.setter(_go_to_entry)


class InputEditor:
    """The text being written. `buffer` is prompt_toolkit's; chips in it represent large pastes."""

    def __init__(self, history: PromptHistory, completer: Completer, on_change: Callable[[], None]) -> None:
        self.paste_chips = PasteChips()
        self.stashed = ""  # the stashed draft, with its chips
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
        """The text of the input with its chips expanded."""
        return self.paste_chips.expand(self.buffer.text)

    def paste(self, text: str) -> None:
        self.buffer.insert_text(self.paste_chips.paste(text))

    def take(self) -> str:
        """Move the input into the history; return its text with its chips."""
        raw = self.buffer.text
        self.remember(raw)
        self.buffer.reset()
        return raw

    def remember(self, raw: str) -> None:
        """Add a text (with chips) to the history, unless it is the newest entry."""
        text = self.paste_chips.expand(raw)
        strings = self._history.get_strings()
        if text.strip() and (not strings or strings[-1] != text):
            if pastes := self.paste_chips.pastes(raw):
                self._history.pastes[text] = pastes
            self._history.append_string(text)

    def put_back(self, *texts: str) -> None:
        """Put texts (with chips) back into the input, before the current text."""
        self._replace("\n".join(text for text in (*texts, self.buffer.text) if text))

    def restore(self, text: str) -> None:
        """Put a sent text back into the input; a large one and its pastes become chips."""
        self.put_back(self.paste_chips.unmarked(text))

    def expand_chips(self) -> None:
        """Replace chips by their pastes, for an external editor."""
        if self.text != self.buffer.text:
            self._replace(self.text)

    def stash(self) -> bool:
        """Exchange the draft and the stashed one. Return False if both are empty."""
        away = self.stashed
        self.stashed = self.buffer.text
        self._replace(away)
        return bool(away or self.stashed)

    def clear(self) -> None:
        """Empty the input; Up and Ctrl-Y restore its text."""
        get_app().clipboard.set_text(self.buffer.text)
        self.take()

    def forget_chips(self, sent: str) -> None:
        """Forget the pastes of chips that are in neither the sent text nor the stash nor the clipboard."""
        self.paste_chips.forget_all_but(sent + self.stashed + get_app().clipboard.get_data().text)

    def complete(self, names: Sequence[str]) -> None:
        """Take the selected completion, or the first one; without a menu, complete a path.

        `names` are the names of the slash commands.
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
        """Close the list of completions. Return False if there is none."""
        if self.buffer.complete_state is None:
            return False
        self.buffer.cancel_completion()
        return True

    def accept_menu(self, commands: Sequence[CommandSummary]) -> bool:
        """Take the selected file, or complete a partial command. Return True if nothing is to be sent yet.

        A partial name that fits only one of the `commands` is sent immediately.
        """
        state = self.buffer.complete_state
        marked = state.current_completion if state else None
        text = self.buffer.text
        self.buffer.complete_state = None
        if marked is not None and not marked.text.startswith("/"):
            return True
        names = {each.name.removeprefix("/"): each.alias_of or each.name for each in commands}
        if is_command(text) and " " not in text and text[1:] not in names:
            fitting = [name for name in rank(text[1:], names) if name.startswith(text[1:])]
            if fitting:
                self._replace(f"/{fitting[0]}")
            return len({names[name] for name in fitting}) > 1
        return False

    def newline_after_backslash(self) -> bool:
        """Replace a backslash before the cursor by a newline. Return False if there is none."""
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

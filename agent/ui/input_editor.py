"""The input: its buffer, and the texts that go into it and come out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.document import Document
from wcwidth import iter_graphemes, iter_graphemes_reverse

from agent.formatting import is_command
from agent.ports import CommandSummary

from .completion import rank
from .paste_chips import PasteChips
from .prompt_history import PromptHistory

EXIT_WORDS = frozenset({"exit", "quit", ":q"})


def move_by_grapheme(buffer: Buffer, by: Literal[-1, 1]) -> None:
    """Move the cursor over what users see as one character, within the line."""
    before, after = _graphemes_beside(buffer.document)
    buffer.cursor_position += (
        buffer.document.get_cursor_left_position(before)
        if by < 0
        else buffer.document.get_cursor_right_position(after)
    )


def delete_grapheme(buffer: Buffer, at: Literal[-1, 1]) -> None:
    """Delete what users see as one character before the cursor, or behind it, or what is selected."""
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
    """A buffer that tells typed text from text put there, and shows entries of the history as `recalled`."""

    recalled: Callable[[str], str] = str
    is_placing = False

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Mark changes of the text meanwhile as not typed."""
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

    # The index of the history entry in the buffer; the last one is the draft.
    working_index = _WORKING_INDEX.setter(_go_to_entry)


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
        """The text of the input with its chips expanded."""
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
        """Give a text as it was sent back to the input; a big one, and what was pasted, as a chip."""
        self.put_back(self.paste_chips.unmarked(text))

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
        """Take the marked completion, else the first; without a menu complete a path.

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

    def accept_menu(self, commands: Sequence[CommandSummary]) -> bool:
        """Take a marked file, complete a command that was begun. True: nothing is sent yet.

        Of the `commands` one that was begun is sent at once where no other begins so.
        """
        state = self.buffer.complete_state
        marked = state.current_completion if state else None
        text = self.buffer.text
        self.buffer.complete_state = None
        if marked is not None and not marked.text.startswith("/"):
            return True
        meant = {each.name.removeprefix("/"): each.alias_of or each.name for each in commands}
        if is_command(text) and " " not in text and text[1:] not in meant:
            fitting = [name for name in rank(text[1:], meant) if name.startswith(text[1:])]
            if fitting:
                self._replace(f"/{fitting[0]}")
            return len({meant[name] for name in fitting}) > 1
        return False

    def newline_after_backslash(self) -> bool:
        """Turn a backslash before the cursor into a new line. False without one."""
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

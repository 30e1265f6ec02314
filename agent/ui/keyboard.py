"""Read the keyboard: keys that terminals send in several ways, and pastes of any size.

prompt_toolkit's own parser searches the whole paste at every read, and waits for ever for an end mark that
got lost. This one wraps it: a paste is collected in pieces, and given up when nothing came for a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

PATIENCE = 1.0  # seconds without a byte after which a paste counts as over
END = "\x1b[201~"
# Shift+Enter, Ctrl+Enter and Alt+Enter as CSI-u and modifyOtherKeys send them, and a stray end of a paste.
_MORE_KEYS: dict[str, Keys] = {
    "\x1b[13;2u": Keys.ControlJ,
    "\x1b[13;3u": Keys.ControlJ,
    "\x1b[13;5u": Keys.ControlJ,
    "\x1b[27;2;13~": Keys.ControlJ,
    "\x1b[27;3;13~": Keys.ControlJ,
    "\x1b[27;5;13~": Keys.ControlJ,
    "\x1b[27u": Keys.Escape,
    END: Keys.Ignore,
}


class PasteParser:
    """Stands in for Vt100Parser. `deliver` is given what a paste without an end held."""

    def __init__(self, inner: Vt100Parser, deliver: Callable[[KeyPress], None]) -> None:
        self._inner = inner
        self._deliver = deliver
        self._pieces: list[str] = []
        self._pasting = False
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, data: str) -> None:
        if not self._pasting:
            self._inner.feed(data)
            self._take_over()
        elif data:
            self._collect(data)

    def flush(self) -> None:
        """Called when no byte came for a moment: a pending escape is a key. A paste waits longer."""
        if not self._pasting:
            self._inner.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PATIENCE, self._give_up)

    def reset(self, request: bool = False) -> None:
        self._inner.reset(request)

    def _take_over(self) -> None:
        if self._inner._in_bracketed_paste:
            self._pieces = [self._inner._paste_buffer]
            self._inner._in_bracketed_paste = False
            self._pasting = True

    def _collect(self, data: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held = self._pieces.pop() if self._pieces else ""  # the mark may be cut by the end of a read
        seam = held[-len(END) :] + data
        at = seam.find(END)
        if at < 0:
            self._pieces += [held[: -len(END)], seam]
            return
        self._pieces += [held[: -len(END)], seam[:at]]
        self._inner.feed_key_callback(self._paste())
        self.feed(seam[at + len(END) :])

    def _give_up(self) -> None:
        self._timer = None
        if self._pasting:
            self._deliver(self._paste())

    def _paste(self) -> KeyPress:
        text, self._pieces, self._pasting = "".join(self._pieces), [], False
        return KeyPress(Keys.BracketedPaste, text)


def keyboard(stdin: TextIO, deliver: Callable[[KeyPress], None]) -> Vt100Input:
    """The terminal's input, taught the keys above. `deliver` feeds a key when no read is going on."""
    ANSI_SEQUENCES.update(_MORE_KEYS)
    source = Vt100Input(stdin)
    source.vt100_parser = PasteParser(source.vt100_parser, deliver)  # type: ignore[assignment]
    return source

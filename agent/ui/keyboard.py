"""Read the keyboard: keys in several encodings, large pastes, and responses of the terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TextIO

from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from transcripts.patterns import lazy_pattern

from .key_codes import BEGUN_SEQUENCE, ESCAPE_KEY, SEQUENCE, as_sent

ESCAPE_TIMEOUT_S = 0.05  # without a byte, after which a single ESC is the key
# Responses of terminals (OSC, DCS and APC), which are not keys.
_ANSWER_START = lazy_pattern(r"\x1b(?:[]P_]|\Z)")
_ANSWER_HEAD = r"\x1b(?:\]\d+;|P[>!01][|$+]|_G)[^\x00-\x1f\x7f]{0,200}"
_ANSWER = lazy_pattern(rf"{_ANSWER_HEAD}(?:\x07|\x1b\\)", re.ASCII)
_BEGUN_ANSWER = lazy_pattern(rf"\x1b(?:\]\d*|P[>!01]?|_)?|{_ANSWER_HEAD}\x1b?", re.ASCII)
_HEX = "([0-9a-fA-F]+)"
_GROUND = lazy_pattern(f"\x1b]11;rgba?:{_HEX}/{_HEX}/{_HEX}(?:/{_HEX})?(?:\x07|\x1b\\\\)")
PASTE_END = "\x1b[201~"
# Focus reports of the terminal are delivered as keys that no keyboard has.
FOCUS_IN = Keys.ControlF23
FOCUS_OUT = Keys.ControlF24
# Keys that prompt_toolkit does not know, and a stray end mark of a paste.
_MORE_KEYS: dict[str, Keys] = {
    ESCAPE_KEY: Keys.Escape,
    PASTE_END: Keys.Ignore,
    "\x1b[I": FOCUS_IN,
    "\x1b[O": FOCUS_OUT,
}


class PasteParser:
    """A parser of keys, sequences and pastes, around prompt_toolkit's Vt100Parser.

    Vt100Parser searches the whole paste at every read, and waits forever for an end mark that was lost. This
    parser collects a paste in pieces, and after a second without a byte it passes the pieces to `deliver`.
    Vt100Parser also types the sequences that it does not know; here `as_sent` translates or drops them.
    """

    def __init__(self, inner: Vt100Parser, deliver: Callable[[KeyPress], None]) -> None:
        self._inner = inner
        self._deliver = deliver
        self._pieces: list[str] = []
        self._pasting = False
        self.held = ""  # a possible start of a sequence
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pasting(self) -> bool:
        """Return whether a paste is being received."""
        return self._pasting

    def feed(self, data: str) -> str:
        """Parse input; return the rest after the end of a paste, which is still to be parsed."""
        if self._pasting:
            return self._collect(data) if data else ""
        before, mark, rest = (self.held + data).partition("\x1b[200~")
        begun = None if mark else BEGUN_SEQUENCE.search(before)
        self.held = begun[0] if begun else ""
        self._inner.feed(SEQUENCE.sub(self._known, before.removesuffix(self.held)))
        if mark:
            self._pieces = [""]
            self._pasting = True
            return self._collect(rest)
        return ""

    def flush(self) -> None:
        """Take a pending ESC as a key, when no byte came for some time. A paste waits longer."""
        if not self._pasting:
            held = self.held
            self.held = ""
            self._inner.feed(held)
            self._inner.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._give_up)  # without a byte

    def _known(self, found: re.Match[str]) -> str:
        """Return the keys of a sequence, "" for an unknown one."""
        sent = as_sent(found)
        sequence = SEQUENCE.fullmatch(sent)
        return sent if sequence is None or sent in ANSI_SEQUENCES else ""

    def _collect(self, data: str) -> str:
        """Add input to the paste; return the rest after its end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held = self._pieces.pop()
        seam = held[-len(PASTE_END) :] + data  # a read may end within the mark
        inside, mark, rest = seam.partition(PASTE_END)
        self._pieces += [held[: -len(PASTE_END)], inside]
        if mark:
            self._inner.feed_key_callback(self._take_paste())
        return rest

    def _give_up(self) -> None:
        self._timer = None
        if self._pasting:
            self._deliver(self._take_paste())

    def _take_paste(self) -> KeyPress:
        text = "".join(self._pieces)
        self._pieces = []
        self._pasting = False
        return KeyPress(Keys.BracketedPaste, text)


def _with_enter(typed: str) -> str:
    """Turn a final line feed into Enter, in text typed before the terminal was in raw mode.

    Several lines may have been pasted, so they are not sent.
    """
    return f"{typed[:-1]}\r" if typed.endswith("\n") and typed.count("\n") == 1 else typed


class GroundParser:
    """A filter that removes responses of the terminal from the keys, and notes its background (OSC 11).

    Other responses answer a program that has ended. The BEL at their end would open an editor. `set_timeout`
    is called with the seconds without a byte after which `flush` is to be called.
    """

    def __init__(
        self, inner: PasteParser, note_ground: Callable[[bool], None], set_timeout: Callable[[float], None]
    ) -> None:
        self._inner = inner
        self._note_ground = note_ground
        self._set_timeout = set_timeout
        self._held = ""  # a possible start of a response
        self._begun = False

    def feed(self, data: str) -> None:
        if not self._begun:
            self._begun = True
            data = _with_enter(data)
        text = self._held + data
        self._held = ""
        while text:
            text = self._feed_first(text)
        begun = len(self._held or self._inner.held) > 1
        self._set_timeout(0.5 if begun else ESCAPE_TIMEOUT_S)  # a slow line may cut one

    def _feed_first(self, text: str) -> str:
        """Parse a response, or the input before the next one; return the rest."""
        begun = None if self._inner.pasting else _ANSWER_START.search(text)
        if begun is None:
            return self._inner.feed(text)
        if begun.start() == 0:
            if found := _ANSWER.match(text):
                self._note_answer(found[0])
                return text[found.end() :]
            if _BEGUN_ANSWER.fullmatch(text):
                self._held = text
                return ""
        end = begun.start() or begun.end()
        return self._inner.feed(text[:end]) + text[end:]

    def _note_answer(self, answer: str) -> None:
        if found := _GROUND.match(answer):
            red, green, blue = (int(part[:2].ljust(2, part[0]), 16) for part in found.groups()[:3])
            self._note_ground(299 * red + 587 * green + 114 * blue > 128_000)

    def flush(self) -> None:
        held = self._held
        self._held = ""
        if held:
            self._inner.feed(held)
        self._inner.flush()


def keyboard_input(
    stdin: TextIO,
    deliver: Callable[[KeyPress], None],
    note_ground: Callable[[bool], None],
    set_timeout: Callable[[float], None],
) -> Vt100Input:
    """Return the terminal's input with the parsers above. `deliver` takes a key between reads.

    `note_ground` is called with True for a light background, when the terminal reports it, `set_timeout` with
    the seconds without a byte after which keys are to be flushed.
    """
    ANSI_SEQUENCES.update(_MORE_KEYS)
    source = Vt100Input(stdin)
    parser = PasteParser(source.vt100_parser, deliver)
    ground = GroundParser(parser, note_ground=note_ground, set_timeout=set_timeout)
    source.vt100_parser = ground  # type: ignore[assignment]
    return source

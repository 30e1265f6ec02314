"""Read the keyboard: keys that terminals send in several ways, and pastes of any size.

A big paste becomes a chip: one character stands in the input for the whole text and is drawn as a label.
Being one character, it is moved over and deleted as a whole; it expands to the same text again.
"""

from __future__ import annotations

import asyncio
import re
import sys
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from typing import TextIO

from prompt_toolkit.formatted_text import StyleAndTextTuples, fragment_list_len
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from transcripts.patterns import lazy_pattern

from .terminal_text import escape_strict

ESCAPE_TIMEOUT_S = 0.05  # without a byte, after which an escape that came alone is the key
BEGUN_TIMEOUT_S = 0.5  # after which a sequence that has begun is what was typed; a slow line may cut it
PASTE_TIMEOUT_S = 1.0  # without a byte: the paste counts as over
# What terminals answer (OSC, DCS and APC), which is no key.
_ANSWER_START = lazy_pattern(r"\x1b(?:[]P_]|\Z)")
_ANSWER_HEAD = r"\x1b(?:\]\d+;|P[>!01][|$+]|_G)[^\x00-\x1f\x7f]{0,200}"
_ANSWER = lazy_pattern(rf"{_ANSWER_HEAD}(?:\x07|\x1b\\)", re.ASCII)
_BEGUN_ANSWER = lazy_pattern(rf"\x1b(?:\]\d*|P[>!01]?|_)?|{_ANSWER_HEAD}\x1b?", re.ASCII)
_HEX = "([0-9a-fA-F]+)"
_GROUND = lazy_pattern(f"\x1b]11;rgba?:{_HEX}/{_HEX}/{_HEX}(?:/{_HEX})?(?:\x07|\x1b\\\\)")
PASTE_START = "\x1b[200~"
PASTE_END = "\x1b[201~"
ESCAPE_KEY = "\x1b[27u"  # unlike ESC alone, it makes no other key of what follows
# What the terminal says of its focus comes as keys that no keyboard has.
FOCUS_IN = Keys.ControlF23
FOCUS_OUT = Keys.ControlF24
# Keys that prompt_toolkit does not know, and a stray end of a paste.
_MORE_KEYS: dict[str, Keys] = {
    ESCAPE_KEY: Keys.Escape,
    PASTE_END: Keys.Ignore,
    "\x1b[I": FOCUS_IN,
    "\x1b[O": FOCUS_OUT,
}
# A control sequence (CSI; with the odd ones of the Linux console and old mice) or a key of the keypad in
# application mode (SS3), and the start of one.
_SEQUENCE = lazy_pattern(r"\x1b(?:\[(?:\[.|M...|[0-?]*[ -/]*[@-~])|O[j-yMX])", re.DOTALL)
_BEGUN_SEQUENCE = lazy_pattern(r"\x1b(?:O|\[(?:\[|M.{0,2}|[0-?]*[ -/]*))?\Z", re.DOTALL)
_APPLICATION_KEYPAD = dict(zip("jklmnopqrstuvwxyMX", "*+,-./0123456789\r=", strict=True))
# Keys by their codes: CSI-u `code:shifted:base;modifiers:event u`, and xterm's modifyOtherKeys.
_CODED_KEY = lazy_pattern(r"\x1b\[(\d+)(?::(\d*))?(?::(\d+))?(?:;(\d*)(?::(\d))?(?:;[\d:]*)?)?u", re.ASCII)
_OTHER_KEY = lazy_pattern(r"\x1b\[27;(\d+);(\d+)~", re.ASCII)
# An arrow or another named key as kitty's protocol sends it: with an event, or with locks as modifiers.
_NAMED_KEY = lazy_pattern(r"\x1b\[(\d+);(\d+)(?::(\d))?([A-HPQS~])", re.ASCII)
_SHIFT, _ALT, _CTRL, _SUPER, _HYPER, _META = (1 << bit for bit in range(6))
_NO_LOCKS = 0x3F  # takes the bits of the locks out of modifiers
_RELEASED = "3"  # an event
_CONTROLS = {chr(code + 0x60): chr(code) for code in range(1, 27)}
_CONTROLS |= {" ": "\0", "@": "\0", "[": ESCAPE_KEY, "\\": "\x1c", "]": "\x1d", "^": "\x1e", "_": "\x1f"}
_CONTROLS |= {"/": "\x1f", "-": "\x1f"}
_MOVES = ("[D", "[C", "[A", "[B", "[5~", "[6~", "[H", "[F", "[2~", "[3~")
_KEYPAD = {  # code -> what is sent
    **dict(enumerate("0123456789./*-+\r=,", 57399)),
    **{code: f"\x1b{move}" for code, move in enumerate(_MOVES, 57417)},
}
MAX_INLINE_LINES = 8  # a paste with more lines becomes a chip
MAX_INLINE_CHARS = 1000  # as does one with more characters
# Chips are characters of the private use plane, which has no characters of its own.
Pastes = tuple[tuple[int, int], ...]  # (begin, end) of each in a text
_FIRST_CHIP = 0x10F000
_LAST_CHIP = 0x10FFFD


def _sent_by_key(code: int, shifted: int, base: int, held: int) -> str:
    """Return the characters a terminal sends for a key if no program enabled key codes; "" if it sends none.

    `code` and `shifted` are the key's characters without and with Shift, `base` its character on a US
    keyboard; 0 means unknown.
    """
    if held & (_SUPER | _HYPER):
        return ""
    alt = "\x1b" if held & (_ALT | _META) else ""
    special = {
        **_KEYPAD,
        0x09: "\x1b[Z" if held & _SHIFT else "\t",
        0x0D: "\n" if held else "\r",
        0x1B: ESCAPE_KEY,
        0x7F: f"{alt}\x7f",
    }
    if code in special:
        return special[code]
    if held & _CTRL:
        char = _CONTROLS.get(chr(base or code).lower(), "")
        return char if char == ESCAPE_KEY else alt * bool(char) + char
    char = chr(shifted or code)
    char = char.upper() if held & _SHIFT and len(char.upper()) == 1 else char
    return alt + char if char.isprintable() else ""


def _as_sent(found: re.Match[str]) -> str:
    """A sequence as a keyboard sends it that no program has told otherwise; "" for a key without a meaning.

    A program that was killed leaves a terminal that sends codes for keys, or tells when they are released.
    """
    if found[0].startswith("\x1bO"):
        return _APPLICATION_KEYPAD[found[0][-1]]
    if named := _NAMED_KEY.fullmatch(found[0]):
        first, modifiers, event, final = named.groups()
        held = _held_keys(modifiers)
        if final in "ABFH" or first in ("2", "3", "5", "6"):  # with Alt each would be Esc, and then the key
            held &= _SHIFT | _CTRL
        plain = f"\x1b[{first};{held + 1}{final}" if held else f"\x1b[{first if final == '~' else ''}{final}"
        return "" if event == _RELEASED else plain
    if coded := _CODED_KEY.fullmatch(found[0]):
        *codes, modifiers, event = coded.groups()
    elif other := _OTHER_KEY.fullmatch(found[0]):
        codes = [other[2], "", ""]
        modifiers = other[1]
        event = ""
    else:
        return found[0]
    code, shifted, base = (_number(given) for given in codes)
    return "" if event == _RELEASED else _sent_by_key(code, shifted, base, _held_keys(modifiers))


def _number(digits: str | None) -> int:
    """The number, 0 for none; no more than the code of a character."""
    return min(int((digits or "0")[:9]), sys.maxunicode)


def _held_keys(modifiers: str | None) -> int:
    """The bits of the keys that are held, by a parameter that is one more; those of locks are left out."""
    return max(_number(modifiers) - 1, 0) & _NO_LOCKS


class PasteParser:
    """A replacement for prompt_toolkit's Vt100Parser, which it wraps.

    That one searches the whole paste at every read, and waits without end for an end mark that was lost. Here
    a paste is collected in pieces, and given up when nothing came for a second: `deliver` gets what it held.
    It also types the sequences that it does not know; here they come as `_as_sent` tells, or not at all.
    """

    def __init__(self, inner: Vt100Parser, deliver: Callable[[KeyPress], None]) -> None:
        self._inner = inner
        self._deliver = deliver
        self._pieces: list[str] = []
        self._pasting = False
        self.held = ""  # the start of what may be a sequence
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pasting(self) -> bool:
        """Return whether a paste is under way."""
        return self._pasting

    def feed(self, data: str) -> str:
        """Take what was read; returns what follows the end of a paste, which is still to be read."""
        if self._pasting:
            return self._collect(data) if data else ""
        before, mark, rest = (self.held + data).partition(PASTE_START)
        begun = None if mark else _BEGUN_SEQUENCE.search(before)
        self.held = begun[0] if begun else ""
        self._inner.feed(_SEQUENCE.sub(self._known, before.removesuffix(self.held)))
        if mark:
            self._pieces = [""]
            self._pasting = True
            return self._collect(rest)
        return ""

    def flush(self) -> None:
        """Read a pending escape as a key, when no byte came for some time. A paste waits longer."""
        if not self._pasting:
            held = self.held
            self.held = ""
            self._inner.feed(held)
            self._inner.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PASTE_TIMEOUT_S, self._give_up)

    def _known(self, found: re.Match[str]) -> str:
        """Return the keys of a sequence: none for one that is unknown."""
        sent = _as_sent(found)
        whole = _SEQUENCE.fullmatch(sent)
        return sent if whole is None or self._inner._get_match(sent) else ""

    def _collect(self, data: str) -> str:
        """Add to the paste; returns what follows its end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held = self._pieces.pop()
        seam = held[-len(PASTE_END) :] + data  # the mark may be cut by the end of a read
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
    """Turn the trailing line feed into Enter in text typed before the terminal was in raw mode.

    Several lines may have been pasted, so they are not sent.
    """
    return f"{typed[:-1]}\r" if typed.endswith("\n") and typed.count("\n") == 1 else typed


class GroundParser:
    """Takes what the terminal answers out of what is typed; what it says of its background (OSC 11) is noted.

    The rest was asked by a program that is no more. The BEL at its end would be the key of an editor.
    `set_timeout` is told after how many seconds without a byte `flush` is to be called.
    """

    def __init__(
        self, inner: PasteParser, note_ground: Callable[[bool], None], set_timeout: Callable[[float], None]
    ) -> None:
        self._inner = inner
        self._note_ground = note_ground
        self._set_timeout = set_timeout
        self._held = ""  # the start of what may be an answer
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
        self._set_timeout(BEGUN_TIMEOUT_S if begun else ESCAPE_TIMEOUT_S)

    def _feed_first(self, text: str) -> str:
        """Take an answer, or what is read before the next one; returns what is still to be read."""
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
    """The terminal's input, taught the keys above. `deliver` feeds a key when no read is going on.

    `note_ground` is told whether the background is light, when the terminal says it; `set_timeout` after how
    many seconds without a byte keys are to be flushed.
    """
    ANSI_SEQUENCES.update(_MORE_KEYS)
    source = Vt100Input(stdin)
    parser = PasteParser(source.vt100_parser, deliver)
    source.vt100_parser = GroundParser(parser, note_ground, set_timeout)  # type: ignore[assignment]
    return source


class PasteChips:
    """The pastes that the chips in the input, in its undo stack and in the queue stand for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, str] = {}  # chip -> what is told of its image

    def paste(self, text: str) -> str:
        """Return the text to insert for a paste: itself when it is small, else a chip.

        Lines that begin as a command does are a chip, by which they are told from those that were typed.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n")
        is_chip = "\n" in text.strip() and text.lstrip().startswith(("!", "/"))
        if len(text) <= MAX_INLINE_CHARS and lines < MAX_INLINE_LINES and not is_chip:
            return "".join(char for char in text if char not in self._texts)
        return self._new_chip(text)

    def image(self, path: str, about: str) -> str:
        """A chip that stands for the mention of an image."""
        chip = self._new_chip(f'@"{path}"')
        self._images[chip] = about
        return chip

    def _new_chip(self, text: str) -> str:
        chip = chr(min(max(map(ord, self._texts), default=_FIRST_CHIP - 1) + 1, _LAST_CHIP))
        self._texts[chip] = text
        self._images.pop(chip, None)
        return chip

    def label(self, chip: str) -> str:
        """`[paste 1: 52 lines]`, `[image 2: shot.png, 120x80]`, or "" for what is no chip."""
        text = self._texts.get(chip)
        if text is None:
            return ""
        if chip in self._images:
            return f"[image {ord(chip) - _FIRST_CHIP + 1}: {self._images[chip]}]"
        lines = len(text.removesuffix("\n").split("\n"))
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[paste {ord(chip) - _FIRST_CHIP + 1}: {size}]"

    def pastes(self, text: str) -> Pastes:
        """Return the spans of the expanded text that chips stand for; images have none."""
        ends = [0, *accumulate(len(self.expand(char)) for char in text)] if self.expand(text) != text else []
        return tuple(
            (begin, end)
            for char, begin, end in zip(text, ends, ends[1:], strict=False)
            if char in self._texts and char not in self._images
        )

    def chipped(self, text: str, pastes: Pastes) -> str:
        """A text with chips for its pastes: the reverse of `expand`."""
        chips = {pasted: chip for chip, pasted in self._texts.items() if chip not in self._images}
        shown = ""
        at = 0
        for begin, end in pastes:
            if at <= begin < end <= len(text):
                pasted = text[begin:end]
                shown += text[at:begin] + (chips.get(pasted) or self._new_chip(pasted))
                at = end
        return shown + text[at:]

    def expand(self, text: str) -> str:
        """The text with every chip replaced by what was pasted."""
        return self._replaced(text, self._texts.__getitem__)

    def labelled(self, text: str) -> str:
        """The text with every chip replaced by its label, for the echo."""
        return self._replaced(text, self.label)

    def typed(self, text: str) -> str:
        """The text without what was pasted into it; images that it mentions stay."""
        return self._replaced(text, lambda chip: self._texts[chip] if chip in self._images else " ")

    def forget_all_but(self, text: str) -> None:
        """Keep only the chips that this text holds."""
        self._texts = {chip: pasted for chip, pasted in self._texts.items() if chip in text}

    def _replaced(self, text: str, replacement: Callable[[str], str]) -> str:
        if not self._texts or self._texts.keys().isdisjoint(text):
            return text
        return "".join(replacement(char) if char in self._texts else char for char in text)


class ChipLabels(Processor):
    """Draws chips as labels, and characters that would not be seen by their names."""

    def __init__(self, paste_chips: PasteChips) -> None:
        self._paste_chips = paste_chips

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        given = transformation_input
        text = given.document.lines[given.lineno]
        shown = [self._shown(char) for char in text]
        if all(len(piece) == 1 and not style for style, piece in shown):
            return Transformation(given.fragments)
        starts = [0, *accumulate(len(piece) for _, piece in shown)]
        fragments: StyleAndTextTuples = list(shown)
        if fragment_list_len(given.fragments) > len(text):  # room for the cursor behind the line
            fragments.append(("", " "))
        return Transformation(
            fragments,
            source_to_display=lambda at: starts[min(at, len(text))] + max(at - len(text), 0),
            display_to_source=lambda at: max(bisect_right(starts, at) - 1, 0),
        )

    def _shown(self, char: str) -> tuple[str, str]:
        """(style, text) of a character of the input."""
        label = self._paste_chips.label(char)
        if label:
            return "class:chip", label
        if char == "\t":
            return "", "    "
        spelled = escape_strict(char) if char not in "\u200d\ufe0f\u200c" else char
        return "" if spelled == char else "class:hint", spelled

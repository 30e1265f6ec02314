"""Text for a terminal: made safe, measured in cells, cut, wrapped and painted.

Light to import (neither prompt_toolkit nor rich): the command line and headless runs use it too. They seldom
measure anything but ASCII, so wcwidth is imported where it is needed.
"""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, field

from agent.keys import KEY_NAMES
from transcripts import INVISIBLE, JOINERS, is_harmless
from transcripts.patterns import lazy_pattern

from .palettes import ANSI, ROLES, Palette

# Control characters except \t and \n; U+2028/9; surrogates and noncharacters.
_CONTROL_CHARS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"
# Visible format characters (category Cf of Unicode 16, like INVISIBLE; tests compare them).
_VISIBLE_FORMAT_CHARS = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
_COLUMN_START = lazy_pattern(r" *(?:[^ ]+(?: [^ ]+){0,3}  +(?=[^ ]))?")  # the text before a second column
WRAP_INDENT = "    "  # of wrapped rows below a line of columns
_UNSAFE_CHARS = lazy_pattern(f"[{_CONTROL_CHARS}{_VISIBLE_FORMAT_CHARS}{INVISIBLE}]")
_UNSAFE_PROSE = lazy_pattern(f"(?![{JOINERS}]){_UNSAFE_CHARS.pattern}")
_SGR_CODES = lazy_pattern(r"(\x1b\[[0-9;]*m)")
PAINT_CODES = lazy_pattern(rf"({_SGR_CODES.pattern[1:-1]}|\x1b\]8;[^\x07\x1b]*\x1b\\)")  # and those of links
LINK_END = "\x1b]8;;\x1b\\"
# Other codes for terminals: links and titles, cursor movements, short sequences.
_OTHER_CODES = lazy_pattern(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]?|\x1b[ -/]*[0-~]")

TAB_CELLS = 8  # from one tab stop to the next, as in terminals
CODE_TAB_CELLS = 4  # the same in code and in the input
MAX_TITLE_CHARS = 2_000  # of the title of a call where lines are not cut; some titles are megabytes


def at_terminal() -> bool:
    """Return whether standard input and output are a terminal, so that questions can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def at_screen(plain: bool) -> bool:
    """Return whether this is a terminal that can draw a screen, and `--plain` was not given."""
    return at_terminal() and not plain and os.environ.get("TERM") != "dumb"


def wants_colour(choice: str, environ: Mapping[str, str]) -> bool:
    """Return whether to use colours: by --color, or unless NO_COLOR is not empty (no-color.org)."""
    return choice == "always" or (choice == "auto" and not environ.get("NO_COLOR"))


def write_fully(descriptor: int, data: bytes) -> None:
    """Write all bytes, however slow the reader is. Raises OSError."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another process made the shared descriptor non-blocking
            select.select([], [descriptor], [])


def escape_strict(text: str) -> str:
    """Replace control, format and invisible characters by names (`␛`, `<U+202E>`), except newlines and tabs.

    For text that users judge: commands, diffs, paths, the output of tools. Invisible characters in places
    where they are harmless are kept.
    """
    return _UNSAFE_CHARS.sub(_name_of, text)


def escape_prose(text: str) -> str:
    """Escape like `escape_strict`, but keep joiners, direction marks and selectors of emoji anywhere."""
    return _UNSAFE_PROSE.sub(_name_of, text)


def one_line(text: str) -> str:
    """Escape like `escape_strict`, on one line: newlines are shown as `⏎`, tabs as a space."""
    return escape_strict(text.strip().replace("\r\n", "\n")).replace("\n", " ⏎ ").replace("\t", " ")


def prose_line(text: str) -> str:
    """Escape text of the user or the model on one line; the joiners of scripts and emoji are kept."""
    return escape_prose(text.strip().replace("\r\n", "\n")).replace("\n", " ⏎ ").replace("\t", " ")


def typed_line(text: str) -> str:
    """Escape text that is being typed like `prose_line`, but keep spaces at its ends."""
    return prose_line(f"|{text}|")[1:-1]


def title_line(text: str) -> str:
    """Escape a title on one line, cut to MAX_TITLE_CHARS."""
    return clip(one_line(text[: 2 * MAX_TITLE_CHARS]), MAX_TITLE_CHARS)


def escape_output(text: str, tab_cells: int = TAB_CELLS) -> str:
    """Escape the output of a command, or code: CRLF becomes LF, tabs become spaces."""
    return expand_tabs(escape_strict(text.replace("\r\n", "\n")), tab_cells)


def expand_tabs(text: str, tab_cells: int = TAB_CELLS) -> str:
    """Replace each tab of an escaped text by spaces up to the next tab stop, counted in cells."""
    if text.isascii():
        return text.expandtabs(tab_cells)
    *columns, last = text.split("\t")  # each begins at a tab stop
    over = (cell_width(column.rpartition("\n")[2]) % tab_cells for column in columns)
    return "".join(f"{column}{' ' * (tab_cells - next(over))}" for column in columns) + last


def _name_of(match: re.Match[str]) -> str:
    if is_harmless(match):
        return match[0]
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"<U+{code:04X}>"


def cell_width(text: str) -> int:
    """Return the width of escaped text in cells, an upper bound.

    Joined emoji count as the sum of their parts, because some terminals (and prompt_toolkit's renderer) do
    not join them; `wcwidth.wcswidth` would count two cells.
    """
    return len(text) if text.isascii() else sum(map(_char_width, text))


def painted_width(line: str) -> int:
    """Return the width in cells of a line with SGR codes."""
    if "\x1b" not in line:
        return cell_width(line)
    from wcwidth import strip_sequences  # saves runs without a screen 15 ms

    return cell_width(strip_sequences(line))


def clip(text: str, room: int) -> str:
    """Return the text if it fits into `room` cells, otherwise its start and `…`."""
    if cell_width(text) <= room:
        return text
    return f"{longest_start(text, room - 1)}…" if room > 0 else ""


def clip_painted(line: str, room: int) -> str:
    """Return a line with SGR codes if it fits into `room` cells, otherwise its start and `…`."""
    if painted_width(line) <= room:
        return line
    kept = ""
    left = room - 1
    for piece in PAINT_CODES.split(line):
        if piece.startswith("\x1b"):
            kept += piece
        elif cell_width(piece) > left:
            end = "\x1b[m" + (LINK_END if "\x1b]8;" in kept else "")
            return f"{kept}{longest_start(piece, left)}…{end}" if room > 0 else ""
        else:
            kept = kept + piece
            left = left - cell_width(piece)
    return kept


def foreign_line(text: str, theme: Theme) -> str:
    """Return a line of foreign text with its SGR codes but without other codes for terminals."""
    shown = ""
    for piece in _SGR_CODES.split(text.replace("\t", " ")):
        if not _SGR_CODES.fullmatch(piece):
            shown += escape_strict(_OTHER_CODES.sub("", piece))
        elif theme.colour:
            shown += piece
    return f"{shown}\x1b[m" if theme.colour and _SGR_CODES.search(text) else shown


def wrap(text: str, room: int) -> list[str]:
    """Return lines of at most `room` cells, broken at spaces if possible. Tabs take CODE_TAB_CELLS."""
    lines = expand_tabs(text, CODE_TAB_CELLS).split("\n")
    return [row for line in lines for row in _wrap_line(line, max(room, 2))]


def wrap_painted(line: str, room: int) -> list[str]:
    """Return the rows of a line with SGR codes, of at most `room` cells, each with its codes.

    Rows after the first are indented like the line.
    """
    if painted_width(line) <= room:
        return [line]
    from wcwidth import strip_sequences  # saves runs without a screen 15 ms

    plain = strip_sequences(line)
    blank = plain[: len(plain) - len(plain.lstrip(" "))]
    blank = blank if len(blank) * 2 <= room else ""
    # Spans of the text after the indent, and the codes in force in each.
    pieces = []
    codes = ""
    at = -len(blank)
    for piece in PAINT_CODES.split(line):
        if piece.startswith("\x1b"):
            codes = "" if piece in ("\x1b[0m", "\x1b[m", LINK_END) else codes + piece
        elif piece:
            pieces.append((at, at + len(piece), codes))
            at += len(piece)
    text = plain[len(blank) :]
    rows = []
    for begin, end in wrapped_spans(text, room - len(blank)):
        cuts = (
            (held, text[max(begin, first, 0) : min(end, last)]) for first, last, held in pieces if last > 0
        )
        rows.append(blank + "".join(_closed(held, cut) for held, cut in cuts if cut))
    return rows


def _closed(held: str, text: str) -> str:
    """Return the text with its codes, closed at the end."""
    if not held:
        return text
    return f"{held}{text}\x1b[m" + (LINK_END if "]8;" in held else "")


def linked(text: str, address: str) -> str:
    """Return the text as a link that terminals open (OSC 8); the address has no control characters."""
    return f"\x1b]8;;{address}\x1b\\{text}{LINK_END}"


def wrapped_spans(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of each row of a text, which is one line without tabs; see `wrap`."""
    at = 0
    for row in wrap(text, room):
        begin = text.index(row, at)
        at = begin + len(row)
        yield begin, at


def longest_end(text: str, room: int) -> str:
    """Return the longest end of the text that fits into `room` cells, cut between graphemes."""
    if text.isascii():
        return text[-room:] if room > 0 else ""
    from wcwidth import iter_graphemes_reverse  # saves runs without a screen 15 ms

    return text[len(text) - fitting_chars(iter_graphemes_reverse(text), room) :]


def hang(lines: Sequence[str], *, first: str, others: str) -> list[str]:
    """Return the lines with a margin: `first` before the first line, `others` before the rest."""
    return [(others if at else first) + line for at, line in enumerate(lines)]


def hang_columns(line: str, columns: int) -> list[str]:
    """Return the rows of a line, indented like its second column, or like its start."""
    if cell_width(line) <= columns:
        return [line]
    start = _COLUMN_START.match(line[:columns])
    begin = start.end() if start else 0
    if cell_width(line[:begin]) * 2 > columns:
        begin = len(line) - len(line.lstrip(" "))
    indent = cell_width(line[:begin])
    if start and start.end() > begin and indent == 0:  # the first of the columns is wide
        gap = line.rfind("  ", 0, columns + 1)
        if start.end() <= gap + 2 and cell_width(line[:gap]) <= columns and columns > 2 * len(WRAP_INDENT):
            rest = wrap(line[gap:].lstrip(), columns - len(WRAP_INDENT))
            return [line[:gap].rstrip(), *hang(rest, first=WRAP_INDENT, others=WRAP_INDENT)]
    if not 0 < indent * 2 <= columns:
        return wrap(line, columns)
    return hang(wrap(line[begin:], columns - indent), first=line[:begin], others=" " * indent)


def wrap_short(line: str, room: int, most: int) -> list[str]:
    """Return the first rows of a wrapped line, at most `most`, the last one cut if there are more."""
    rows = wrap(line, room)
    return [*rows[: most - 1], *([clip(" ".join(rows[most - 1 :]), room)] if len(rows) >= most else [])]


def _wrap_line(line: str, room: int) -> Iterator[str]:
    at = 0
    size = max(1_000, 4 * room)  # measured for one row of a wrapped line, however narrow it is
    while True:
        rest = line[at : at + size]  # more than fits in a row, even with characters without a width
        head = longest_start(rest, room)
        if len(head) == len(rest):
            yield head
            at += len(head)
            if at >= len(line):
                return
            continue
        head = head or rest[: fitting_chars(rest, room)] or rest[:1]
        cut = head.rfind(" ")
        if rest[len(head)] == " ":
            cut = len(head)
        if cut <= 0 or not head[:cut].strip():
            yield head
            at += len(head)
        else:
            yield head[:cut]
            at += cut + 1


def longest_start(text: str, room: int) -> str:
    """Return the longest start of the text that fits into `room` cells, cut between graphemes."""
    if text.isascii():
        return text[: max(room, 0)]
    from wcwidth import iter_graphemes  # saves runs without a screen 15 ms

    return text[: fitting_chars(iter_graphemes(text), room)]


def fitting_chars(pieces: Iterable[str], room: int) -> int:
    """Return the number of characters in the leading pieces that fit into `room` cells."""
    chars = 0
    for piece in pieces:
        room -= cell_width(piece)
        if room < 0:
            break
        chars += len(piece)
    return chars


@lru_cache(maxsize=4096)
def _char_width(char: str) -> int:
    from wcwidth import wcwidth  # saves runs without a screen 15 ms

    # The emoji selector may make the character before it one cell wider.
    return 1 if char == "\ufe0f" else max(wcwidth(char), 0)


class Theme(Struct, frozen=True):
    """The palette, and whether to use colours and attributes such as bold and dim."""

    colour: bool = True
    weight: bool = True
    palette: Palette = ANSI
    links: bool = False  # whether the terminal opens links (OSC 8)

    def paint(self, role: str, text: str) -> str:
        """Paint one line of text in a role of ROLES; its SGR codes are closed at the end."""
        attributes, colours = (self.palette.roles or {}).get(role) or ROLES[role]
        wanted = (attributes if self.weight else "", colours if self.colour else "")
        codes = ";".join(code for code in wanted if code)
        return f"\x1b[{codes}m{text}\x1b[m" if codes and text else text


class RenderContext(Struct, frozen=True):
    """The context of drawing: columns, colours, and whether outputs are shown in full."""

    columns: int
    theme: Theme
    full: bool = False
    has_keys: bool = True  # whether drawings may mention keys
    keys: Mapping[str, str] = field(default_factory=lambda: KEY_NAMES)  # action -> name of its key
    folder: str = ""  # directory of the paths in titles, which become links; "" for none

    def paint(self, role: str, text: str) -> str:
        return self.theme.paint(role, text)

    def clipped(self, role: str, text: str) -> str:
        """Return the text cut to the columns and painted."""
        return self.paint(role, clip(text, self.columns))

    def hint(self, long: str, short: str) -> str:
        """Return the long text dimmed if it fits, otherwise the short one."""
        return self.clipped("dim", long if cell_width(long) <= self.columns else short)

    def wrapped(self, role: str, text: str) -> list[str]:
        """Return the text wrapped to the columns, each line painted."""
        return [self.paint(role, line) for line in wrap(text, self.columns)]

"""Paint what a terminal shows as a picture, dark or light: cells with their colours, a cursor, a frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyte
from PIL import Image, ImageDraw, ImageFont

FONT_FOLDER = Path("/usr/share/fonts/truetype/dejavu")
FONT_SIZE, CELL_WIDTH, CELL_HEIGHT, MARGIN = 15, 9, 19, 12
# The sixteen colours on a dark and on a light ground, as common terminals have them.
GROUNDS = {
    "dark": ("1e1e1e", "d4d4d4", "000000 cd3131 0dbc79 e5e510 2472c8 bc3fbc 11a8cd e5e5e5"
             " 666666 f14c4c 23d18b f5f543 3b8eea d670d6 29b8db ffffff"),
    "light": ("ffffff", "333333", "000000 cd3131 00a04a 949800 0451a5 bc05bc 0598bc 555555"
              " 777777 cd3131 14b866 9a8b00 0451a5 bc05bc 0598bc a5a5a5"),
}  # fmt: skip
_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")


class DimScreen(pyte.HistoryScreen):
    """A screen that knows faint text, which pyte does not: it is kept as blinking text."""

    def select_graphic_rendition(self, *attrs: int, **rest: Any) -> None:
        numbers, found = iter(attrs), []
        for number in numbers:
            found.append({2: 5}.get(number, number))
            if number in (38, 48):  # a colour follows, whose numbers mean something else
                kind = next(numbers, 5)
                found += [kind, *(next(numbers, 0) for _ in range(3 if kind == 2 else 1))]
            elif number == 22:
                found.append(25)
        super().select_graphic_rendition(*found, **rest)


def paint(screen: pyte.Screen, ground: str) -> Image.Image:
    """The screen as a picture."""
    back, fore, table = GROUNDS[ground]
    colours = table.split()
    size = (screen.columns * CELL_WIDTH + 2 * MARGIN, screen.lines * CELL_HEIGHT + 2 * MARGIN)
    image = Image.new("RGB", size, f"#{back}")
    draw = ImageDraw.Draw(image)
    for y in range(screen.lines):
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            text, behind = _colour(cell.fg, fore, colours, cell.bold), _colour(cell.bg, back, colours, False)
            if cell.reverse:
                text, behind = behind, text
            if cell.blink:
                text = _mixed(text, behind)
            left, top = MARGIN + x * CELL_WIDTH, MARGIN + y * CELL_HEIGHT
            if behind != back:
                draw.rectangle((left, top, left + CELL_WIDTH - 1, top + CELL_HEIGHT - 1), f"#{behind}")
            if cell.data.strip():
                draw.text((left, top + 1), cell.data, f"#{text}", _font(cell.bold, cell.italics))
            if cell.underscore:
                line = top + CELL_HEIGHT - 2
                draw.line((left, line, left + CELL_WIDTH - 1, line), f"#{text}")
            if cell.strikethrough:
                line = top + CELL_HEIGHT // 2
                draw.line((left, line, left + CELL_WIDTH - 1, line), f"#{text}")
    left, top = MARGIN + screen.cursor.x * CELL_WIDTH, MARGIN + screen.cursor.y * CELL_HEIGHT
    draw.rectangle((left, top, left + CELL_WIDTH - 1, top + CELL_HEIGHT - 1), outline=f"#{fore}")
    return image


def sheet(pictures: list[tuple[str, Image.Image]], across: int) -> Image.Image:
    """Pictures with their names, several in a row."""
    rows = [pictures[at : at + across] for at in range(0, len(pictures), across)]
    width = max(sum(picture.width + 10 for _, picture in row) for row in rows)
    heights = [max(picture.height for _, picture in row) + 30 for row in rows]
    image = Image.new("RGB", (width, sum(heights)), "#808080")
    draw, top = ImageDraw.Draw(image), 0
    for row, height in zip(rows, heights, strict=True):
        left = 5
        for name, picture in row:
            draw.text((left, top + 5), name, "#ffffff", _font(True, False))
            image.paste(picture, (left, top + 25))
            left += picture.width + 10
        top += height
    return image


_FONTS: dict[tuple[bool, bool], ImageFont.FreeTypeFont] = {}


def _font(bold: bool, italic: bool) -> ImageFont.FreeTypeFont:
    name = {(True, True): "-BoldOblique", (True, False): "-Bold", (False, True): "-Oblique"}.get(
        (bold, italic), ""
    )
    if (bold, italic) not in _FONTS:
        _FONTS[bold, italic] = ImageFont.truetype(str(FONT_FOLDER / f"DejaVuSansMono{name}.ttf"), FONT_SIZE)
    return _FONTS[bold, italic]


def _colour(name: str, default: str, colours: list[str], bold: bool) -> str:
    if name == "default":
        return default
    if len(name) == 6 and all(char in "0123456789abcdef" for char in name):
        return name
    plain = name.removeprefix("bright").removeprefix("bfight")
    at = _NAMES.index({"yellow": "brown"}.get(plain, plain))
    return colours[at + (8 if name != plain else 0)]


def _mixed(text: str, behind: str) -> str:
    pairs = [(int(text[at : at + 2], 16), int(behind[at : at + 2], 16)) for at in (0, 2, 4)]
    return "".join(f"{(6 * one + 4 * other) // 10:02x}" for one, other in pairs)

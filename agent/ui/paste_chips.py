"""Chips for large pastes and images in the input.

A chip is one character in the input that represents a whole text and is drawn as a label. Because it is one
character, the cursor moves over it and deletes it as a whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from prompt_toolkit.formatted_text import StyleAndTextTuples, fragment_list_len
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from transcripts import DataTag, paste_label, quoted, split_pastes

from .terminal_text import escape_strict

# Chips are characters of a private use plane.
Pastes = tuple[tuple[int, int], ...]  # (begin, end) of each in a text
_FIRST_CHIP = 0x10F000
_LAST_CHIP = 0x10FFFD


class PasteChips:
    """The texts of the chips in the input, its undo stack and the queue."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._images: dict[str, str] = {}  # chip -> name and size of its image

    def paste(self, text: str) -> str:
        """Return the text to insert for a paste: the paste itself if it is small, otherwise a chip.

        Several lines that begin like a command become a chip, so that they are not taken for typed ones.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n")
        is_chip = "\n" in text.strip() and text.lstrip().startswith(("!", "/"))
        # A longer paste becomes a chip.
        if len(text) <= 1000 and lines < 8 and not is_chip:
            return "".join(char for char in text if char not in self._texts)
        return self._new_chip(text)

    def image(self, path: str, about: str) -> str:
        """Return a chip for the mention of an image."""
        chip = self._new_chip(f'@"{path}"')
        self._images[chip] = about
        return chip

    def _new_chip(self, text: str) -> str:
        chip = chr(min(max(map(ord, self._texts), default=_FIRST_CHIP - 1) + 1, _LAST_CHIP))
        self._texts[chip] = text
        self._images.pop(chip, None)
        return chip

    def label(self, chip: str) -> str:
        """Return `[paste 1: 52 lines]`, `[image 2: shot.png, 120x80]`, or "" for another character."""
        text = self._texts.get(chip)
        if text is None:
            return ""
        if chip in self._images:
            return f"[image {ord(chip) - _FIRST_CHIP + 1}: {self._images[chip]}]"
        return paste_label(ord(chip) - _FIRST_CHIP + 1, text)

    def pastes(self, text: str) -> Pastes:
        """Return the spans of pastes in the expanded text; images have none."""
        ends = [0, *accumulate(len(self.expand(char)) for char in text)] if self.expand(text) != text else []
        return tuple(
            (begin, end)
            for char, begin, end in zip(text, ends, ends[1:], strict=False)
            if char in self._texts and char not in self._images
        )

    def chipped(self, text: str, pastes: Pastes) -> str:
        """Return a text with chips for its pastes: the reverse of `expand`."""
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
        """Return the text with each chip replaced by its paste."""
        return self._replaced(text, self._texts.__getitem__)

    def marked(self, text: str) -> str:
        """Return the text for the model, with its pastes between tags, which mark them as data."""

        def in_tags(chip: str) -> str:
            number = ord(chip) - _FIRST_CHIP + 1
            pasted = self._texts[chip]
            return pasted if chip in self._images else quoted(pasted, DataTag.PASTED, f" id={number}")

        return self._replaced(text, in_tags)

    def unmarked(self, text: str) -> str:
        """A text as it was sent with chips for what was pasted; one that is large is a chip as a whole."""
        typed = split_pastes(text)
        typed[1::2] = map(self._new_chip, typed[1::2])
        return "".join(typed) if len(typed) > 1 else self.paste(text)

    def labelled(self, text: str) -> str:
        """Return the text with each chip replaced by its label, for the echo."""
        return self._replaced(text, self.label)

    def typed(self, text: str) -> str:
        """Return the text without its pastes; mentions of images are kept."""
        return self._replaced(text, lambda chip: self._texts[chip] if chip in self._images else " ")

    def forget_all_but(self, text: str) -> None:
        """Keep only the chips in this text."""
        self._texts = {chip: pasted for chip, pasted in self._texts.items() if chip in text}

    def _replaced(self, text: str, replacement: Callable[[str], str]) -> str:
        if not self._texts or self._texts.keys().isdisjoint(text):
            return text
        return "".join(replacement(char) if char in self._texts else char for char in text)


class ChipLabels(Processor):
    """A processor that draws chips as labels, and invisible characters as their names."""

    def __init__(self, paste_chips: PasteChips) -> None:
        self._paste_chips = paste_chips

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        given = transformation_input
        text = given.document.lines[given.lineno]
        shown = [self._shown(char) for char in text]
        if all(len(piece) == 1 and not style for style, piece in shown):
            return Transformation(given.fragments)
        starts = self._starts(text)
        fragments: StyleAndTextTuples = list(shown)
        if fragment_list_len(given.fragments) > len(text):  # the cursor after the line
            fragments.append(("", " "))
        return Transformation(
            fragments,
            source_to_display=lambda at: starts[min(at, len(text))] + max(at - len(text), 0),
            display_to_source=lambda at: self.place_in_text(text, at),
        )

    def place_in_text(self, line: str, at: int) -> int:
        """Return the index in a line of the input for an index in its drawing."""
        return max(bisect_right(self._starts(line), at) - 1, 0)

    def _starts(self, line: str) -> list[int]:
        """Return the index in the drawing of a line for each of its characters, and for its end."""
        return [0, *accumulate(len(self._shown(char)[1]) for char in line)]

    def _shown(self, char: str) -> tuple[str, str]:
        """Return (style, text) of a character of the input."""
        label = self._paste_chips.label(char)
        if label:
            return "class:chip", label
        if char == "\t":
            return "", "    "
        spelled = escape_strict(char) if char not in "\u200d\ufe0f\u200c" else char
        return "" if spelled == char else "class:hint", spelled

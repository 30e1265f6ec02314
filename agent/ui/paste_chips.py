"""Big pastes as chips: one character stands in the input for the whole text, and is drawn as a label.

Being one character, a chip is moved over and deleted as a whole; it expands to the same text again.
"""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from .escape import strict

MOST_LINES = 8  # a paste with more lines than this becomes a chip
MOST_CHARS = 1000  # as does one with more characters
_FIRST = 0x10F000  # of the private use plane, which has no characters of its own
_LAST = 0x10FFFD


class PasteChips:
    """The pastes that chips in the input, in the undo stack and in the queue stand for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def paste(self, text: str) -> str:
        """What to insert for a paste: itself when it is small, else a chip."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        if len(text) <= MOST_CHARS and text.count("\n") < MOST_LINES:
            return "".join(char for char in text if char not in self._texts)
        chip = chr(min(max(map(ord, self._texts), default=_FIRST - 1) + 1, _LAST))
        self._texts[chip] = text
        return chip

    def label(self, chip: str) -> str:
        """`[paste 1: 52 lines]`, or "" for what is no chip."""
        text = self._texts.get(chip)
        if text is None:
            return ""
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[paste {ord(chip) - _FIRST + 1}: {size}]"

    def expand(self, text: str) -> str:
        """The text with every chip replaced by what was pasted."""
        return self._each(text, self._texts.__getitem__)

    def labelled(self, text: str) -> str:
        """The text with every chip replaced by its label, for the echo."""
        return self._each(text, self.label)

    def forget(self, text: str) -> None:
        """Keep only the chips that this text holds."""
        self._texts = {chip: whole for chip, whole in self._texts.items() if chip in text}

    def _each(self, text: str, shown: Callable[[str], str]) -> str:
        if not self._texts or not any(char in self._texts for char in text):
            return text
        return "".join(shown(char) if char in self._texts else char for char in text)


class ChipLabels(Processor):
    """Draws chips as labels, and characters that would not be seen by their names."""

    def __init__(self, chips: PasteChips) -> None:
        self._chips = chips

    def apply_transformation(self, given: TransformationInput) -> Transformation:
        text = given.document.lines[given.lineno]
        shown = [self._show(char) for char in text]
        if all(len(piece) == 1 for piece, _ in shown) and all(not style for _, style in shown):
            return Transformation(given.fragments)
        starts = [0]
        for piece, _ in shown:
            starts.append(starts[-1] + len(piece))
        rest = [("", " ")] if len(given.fragments) and _length(given) > len(text) else []
        return Transformation(
            [(style, piece) for piece, style in shown] + rest,  # type: ignore[arg-type]
            source_to_display=lambda at: starts[min(at, len(text))] + max(at - len(text), 0),
            display_to_source=lambda at: _place(starts, at),
        )

    def _show(self, char: str) -> tuple[str, str]:
        label = self._chips.label(char)
        if label:
            return label, "class:chip"
        if char == "\t":
            return "    ", ""
        spelled = strict(char) if char not in "\u200d\ufe0f\u200c" else char
        return spelled, "" if spelled == char else "class:hint"


def _length(given: TransformationInput) -> int:
    return sum(len(fragment[1]) for fragment in given.fragments)


def _place(starts: list[int], at: int) -> int:
    """The character whose drawing covers the column `at`."""
    for index in range(len(starts) - 1, -1, -1):
        if starts[index] <= at:
            return index
    return 0

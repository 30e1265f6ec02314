"""Describe the blocks of the view to the user: by a label, an id and the tokens that they take."""

from __future__ import annotations

from msgspec import Struct

from transcripts import Folded, Part, PartKind, TextBlock, ToolUseBlock
from transcripts.patterns import lazy_pattern
from transcripts.wording import pluralize

from .clearing import call_label, recall_id, shown_text
from .estimate import text_slope

NAMED_BLOCKS = 3  # of the largest blocks that a report and a message name
# Labels of texts that replace messages, by their beginning; those of "folded" are of earlier versions.
_FOLD_LABELS = (
    ("[summarized: this replaces", "summary of earlier messages"),
    ("[folded: this is makeroom's record", "summary of earlier messages"),
    ("[summarized: files", "files shown again"),
    ("[folded: files", "files shown again"),
    ("[summarized: messages", "local summary of earlier messages"),
    ("[folded: a digest", "local summary of earlier messages"),
    ("[summarized: the request", "the request being worked on"),
    ("[folded: the request", "the request being worked on"),
    ("[snipped", "note on snipped messages"),
)
_FOLD_STARTS = ("[summarized: ", "[folded: ")
_MAX_HEADING_CHARS = 400  # of a summary, in which its heading names what it replaces
_STANDS_FOR = lazy_pattern(r"\((r\d+-r\d+)\)|as read in (r\d+)|(?:digest of|messages) (r\d+-r\d+)")


class ShownBlock(Struct, frozen=True):
    """A part of the view with the model's tokens of it."""

    part: Part
    tokens: int

    @property
    def label(self) -> str:
        """A short label: the call for a result, the kind for a text."""
        part = self.part
        if part.kind is PartKind.PLACEHOLDER and isinstance(part.block, TextBlock):
            labels = (name for start, name in _FOLD_LABELS if part.block.text.startswith(start))
            return next(labels, "placeholder")
        if part.use is not None:
            return call_label(part.use)
        if isinstance(part.block, ToolUseBlock):
            return f"call of {call_label(part.block)}"
        return part.kind.name.lower()

    @property
    def id(self) -> str:
        """The id by which it is listed: for a summary the range that it replaces, for files the first."""
        text = _text_of_edit(self.part)
        found = _STANDS_FOR.search(text[:_MAX_HEADING_CHARS]) if text.startswith(_FOLD_STARTS) else None
        return next(filter(None, found.groups())) if found is not None else self.recall_id

    @property
    def recall_id(self) -> str:
        """The id that recalls the original."""
        return recall_id(self.part)

    @property
    def line(self) -> str:
        """One line with the label, the tokens and the id."""
        return f"{self.label}, {pluralize(self.tokens, 'token')} ({self.id})"

    @classmethod
    def largest_sentence(cls, folded: Folded) -> str:
        """Name the largest blocks in one sentence, for the end of a message."""
        named = "; ".join(block.line for block in ShownBlock.largest(folded)[:NAMED_BLOCKS])
        return f"Largest blocks: {named}" if named else "The conversation is empty"

    @classmethod
    def largest(cls, folded: Folded) -> list[ShownBlock]:
        """Return the blocks of the view with their tokens by the model's count, largest first.

        A fold has one count for all of its blocks, which the view divides evenly; here it is divided by size.
        """
        slope = text_slope(folded)
        found: list[ShownBlock] = []
        for message in folded.view:
            texts = [_text_of_edit(part) for part in message.parts]
            folds = [text.startswith(_FOLD_STARTS) for text in texts]
            if not any(folds):
                found.extend(cls(part, round(slope * part.tokens)) for part in message.parts)
                continue
            tokens = sum(part.tokens for part, fold in zip(message.parts, folds, strict=True) if fold)
            size = sum(len(text) for text, fold in zip(texts, folds, strict=True) if fold)
            found.extend(
                cls(part, round(slope * (tokens * len(text) / size if fold else part.tokens)))
                for part, text, fold in zip(message.parts, texts, folds, strict=True)
            )
        return sorted(found, key=lambda block: -block.tokens)


def _text_of_edit(part: Part) -> str:
    return shown_text(part.block) if part.kind is PartKind.PLACEHOLDER else ""

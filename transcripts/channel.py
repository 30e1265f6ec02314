"""The channel: set makeroom's own words to the model apart from data. Pure.

A `ChannelBlock` holds such words, and each model adapter decides how they are sent. A model that takes
messages of role "system" gets them there. Elsewhere they are enclosed in tags whose suffix is random for each
session and named in the system prompt:

    <makeroom-7f3a21>
    # Plan mode
    Plan mode is on: ...
    </makeroom-7f3a21>

No file, page or command that was written before the session can contain that tag, and if a text contains its
name anyway, the name is escaped on the way to the model (`makeroom\\-7f3a21`). Data that makeroom itself puts
into a prompt is enclosed in tags of its kind, which it cannot close: `<attached>`, `<pasted id=1>`.

A session from before these suffixes has none. Its words are enclosed in the tags of that time, so that the
same bytes are sent again.
"""

from __future__ import annotations

import os
import re

from msgspec import Struct

from .data_tags import INJECTED_OPENING_TAG, SKILL_OPENING_TAG, injected
from .messages import Block, ChannelBlock, TextBlock


class Channel(Struct, frozen=True):
    """The channel of one session, known by the random suffix of its tags; "" in a session without one."""

    suffix: str

    @classmethod
    def new(cls) -> Channel:
        """Return the channel of a new session."""
        return cls(os.urandom(3).hex())

    @property
    def tag(self) -> str:
        """The name of the tags around makeroom's own words."""
        return f"makeroom-{self.suffix}"

    def escape(self, text: str) -> str:
        """Escape the name of the session's tags in any text that is not such a tag, however it is written."""
        if not self.suffix or self.suffix not in text.lower():
            return text
        return re.sub(rf"(makeroom)(?=[\W_]{{0,8}}{self.suffix})", r"\1\\", text, flags=re.IGNORECASE)

    def words(self, block: Block) -> str | None:
        """Return makeroom's own words in a block; None for anything that data or the user could have written.

        Only in a session without a suffix are they texts between the tags of that time. Words in place are
        about the result that contains them, and say nothing about the session.
        """
        if isinstance(block, ChannelBlock):
            return None if block.in_place else block.text
        if self.suffix or not isinstance(block, TextBlock) or block.attachment is not None:
            return None
        is_own = block.text.startswith((INJECTED_OPENING_TAG, SKILL_OPENING_TAG))
        return block.injected_text if is_own else None

    def text_for_model(self, block: TextBlock) -> str:
        """Return the text of a block of a user message, escaped, and between tags if it is makeroom's own."""
        text = self.escape(block.text)
        if not isinstance(block, ChannelBlock):
            return text
        return f"<{self.tag}>\n{text}\n</{self.tag}>" if self.suffix else injected(text)

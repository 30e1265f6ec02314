"""Late news for the model: what happens beside its work waits here for the next request."""

from __future__ import annotations

from itertools import count

_UNKEYED = "#"


class Inbox:
    """Texts that no request has carried yet, in the order in which they came. For the event loop's thread.

    A turn that runs takes them with its next result, one that begins with its prompt: whoever posts need not
    know which. What is taken counts as told.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self._count = count()
        self._heir: Inbox | None = None

    def post(self, text: str, key: str = "") -> None:
        """Have the model told exactly this, in place of what waits under the same key ("" is none)."""
        if self._heir is not None:
            self._heir.post(text, key)
            return
        self.withdraw(key)
        self.waiting[key or f"{_UNKEYED}{next(self._count)}"] = text

    def withdraw(self, key: str) -> None:
        """Do not tell what waits under this key: the model knows it by now."""
        self.waiting.pop(key, None)
        if self._heir is not None:
            self._heir.withdraw(key)

    def take(self) -> list[str]:
        """All that waits; it is told now."""
        texts = list(self.waiting.values())
        self.waiting.clear()
        return texts

    def hand_over(self, heir: Inbox) -> None:
        """Nobody takes from this one any more: what waits, and what is posted from now on, goes to `heir`."""
        self._heir = heir
        for key, text in self.waiting.items():
            heir.post(text, "" if key.startswith(_UNKEYED) else key)
        self.waiting.clear()

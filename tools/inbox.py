"""Late news for the model: what happens beside its work waits here for the next request."""

from __future__ import annotations

from itertools import count

_UNKEYED = "#"


class Inbox:
    """Texts that no request has carried yet, in the order in which they came. For the event loop's thread.

    A turn that runs takes them with its next result, one that begins with its prompt: whoever posts need not
    know which. What is taken counts as told, until a rewind takes out the fact that carried it.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self._since: dict[str, int] = {}  # by key, of what waits or was told
        self._told: dict[str, tuple[int, str]] = {}  # by key: the seq of the fact that carried it, the text
        self._count = count()
        self._heir: Inbox | None = None

    def post(self, text: str, key: str = "", since: int = 0) -> None:
        """Have the model told exactly this, in place of what waits under the same key ("" is none).

        `since` is the seq of the fact that what it tells of began with; 0: no rewind takes that out.
        """
        if self._heir is not None:  # of another session, with seqs of its own
            self._heir.post(text, key)
            return
        self.withdraw(key)
        key = key or f"{_UNKEYED}{next(self._count)}"
        self.waiting[key], self._since[key] = text, since

    def withdraw(self, key: str) -> None:
        """Do not tell what waits under this key: the model knows it by now."""
        self.waiting.pop(key, None)
        if self._heir is not None:
            self._heir.withdraw(key)

    def take(self, seq: int = 0) -> list[str]:
        """All that waits; it is told now, in the next prompt or result, whose seq is `seq` or later."""
        texts = list(self.waiting.values())
        self._told |= {key: (seq, text) for key, text in self.waiting.items()}
        self.waiting.clear()
        return texts

    def rewound(self, last: int) -> None:
        """Have told again what no prompt and no result up to the fact `last`, the newest of them, has told.

        Not what began after that, nor what is older than what waits under the same key.
        """
        lost = [key for key, (seq, _) in self._told.items() if seq > last]
        again = {key: self._told.pop(key)[1] for key in lost if key not in self.waiting}
        self.waiting = {key: text for key, text in again.items() if self._since[key] <= last} | self.waiting

    def hand_over(self, heir: Inbox) -> None:
        """Nobody takes from this one any more: what waits, and what is posted from now on, goes to `heir`."""
        self._heir = heir
        for key, text in self.waiting.items():
            heir.post(text, "" if key.startswith(_UNKEYED) else key)
        self.waiting.clear()

"""Late news for the model: what happens beside its work waits here for the next request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

OF_THIS_RUN = -1  # instead of a seq: what a later run of the program tells anew, or has no use for
_UNKEYED = "#"


class Inbox:
    """Texts that no request has carried yet, in the order in which they came. For the event loop's thread.

    A turn that runs takes them with its next result, one that begins with its prompt: whoever posts need not
    know which. What is taken counts as told, until a rewind takes out the fact that carried it. So that a
    later run of the program can tell it again, `notes` go into the session's record, and back by `restore`.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, str] = {}
        self._since: dict[str, int] = {}  # by key, of what waits or was told
        self._told: dict[str, tuple[int, str]] = {}  # by key: the seq of the fact that carried it, the text
        self.changed: dict[str, None] = {}  # keys of what is to be noted
        self._heir: Inbox | None = None

    def post(self, text: str, key: str = "", since: int = OF_THIS_RUN) -> None:
        """Queue exactly this text for the model, in place of the one under the same key ("" is none).

        `since` is the seq of the fact that what it tells of began with; below 1: no rewind takes that out.
        """
        if self._heir is not None:  # of another session, with seqs of its own
            self._heir.post(text, key)
            return
        self.withdraw(key)
        if not key:
            key = next(key for n in count() if (key := f"{_UNKEYED}{n}") not in self._since)
        self.waiting[key] = text
        self._since[key] = since
        self._note([key] if key.startswith(_UNKEYED) else ())

    def withdraw(self, key: str) -> None:
        """Remove the note under this key: the model knows it by now."""
        self.waiting.pop(key, None)

    def take(self, seq: int = 0) -> list[str]:
        """All that waits; it is told now, in the next prompt or result, whose seq is `seq` or later."""
        texts = list(self.waiting.values())
        for key in (*self.waiting,):
            self.count_as_told(key, seq)
        return texts

    def count_as_told(self, key: str, seq: int) -> None:
        """Mark the note waiting under this key, if any, as given in other words by a fact from `seq` on."""
        if (text := self.waiting.pop(key, None)) is not None:
            self._told[key] = seq, text
            self._note([key])

    @property
    def reader(self) -> Inbox:
        """The one from which what is posted here is taken."""
        return self if self._heir is None else self._heir.reader

    def rewound(self, last: int) -> None:
        """Queue again what no prompt and no result up to the fact `last`, the newest of them, has shown.

        Not what began after that, nor what is older than what waits under the same key.
        """
        lost = [key for key, (seq, _) in self._told.items() if seq > last]
        again = {key: self._told.pop(key)[1] for key in lost if key not in self.waiting}
        self.waiting = {key: text for key, text in again.items() if self._since[key] <= last} | self.waiting
        self._note(key for key in self.waiting if key.startswith(_UNKEYED))

    def _note(self, keys: Iterable[str]) -> None:
        """Record a note that a later run of the program can use."""
        self.changed |= dict.fromkeys(key for key in keys if self._since[key] != OF_THIS_RUN)

    def notes(self) -> list[dict[str, Any]]:
        """Return the changes since the last time: {"key", "since", "text", "told"} of each, given by that
        fact.

        0: it waits. Of what waits, that which has no key: other news a later run finds out by itself.
        """
        notes = []
        for key in self.changed:
            seq, text = (0, self.waiting[key]) if key in self.waiting else self._told.get(key, (0, ""))
            if text:
                notes.append({"key": key, "since": self._since[key], "text": text, "told": seq})
        self.changed.clear()
        return notes

    def restore(self, notes: Iterable[Mapping[str, Any]]) -> None:
        """Take the notes of earlier runs, in order: what they told can be told again, what waited waits."""
        for note in notes:
            key = str(note["key"])
            text = str(note["text"])
            if not key.startswith(_UNKEYED):
                key = f"earlier {key}"  # ids of commands begin anew with each run
            self._since[key] = int(note["since"])
            self.waiting.pop(key, None)
            if seq := int(note["told"]):
                self._told[key] = seq, text
            else:
                self.waiting[key] = text

    def hand_over(self, heir: Inbox) -> None:
        """Pass the waiting notes, and all that are posted from now on, to `heir`."""
        self._heir = heir
        for key, text in self.waiting.items():
            heir.post(text, "" if key.startswith(_UNKEYED) else key)
        self.waiting.clear()

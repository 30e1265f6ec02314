"""Late news for the model: what happens beside its work waits here for the next request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from transcripts import ChannelBlock, TextBlock

OF_THIS_RUN = -1  # instead of a seq: news that a later run reports again, or has no use for
_UNKEYED = "#"


class Inbox:
    """News that no request has carried yet, in the order in which it came. For the event loop's thread.

    A turn that runs takes it with its next result, one that begins with its prompt: whoever posts need not
    know which. What is taken counts as told, until a rewind takes out the fact that carried it. So that a
    later run of the program can tell it again, `notes` go into the session's record, and back by `restore`.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, TextBlock] = {}
        self._since: dict[str, int] = {}  # by key, of news that wait or were sent
        self._told: dict[str, tuple[int, TextBlock]] = {}  # by key: the seq of the fact that carried it, it
        self.changed: dict[str, None] = {}  # keys of what is to be noted
        self._heir: Inbox | None = None

    def post(self, news: str | TextBlock, key: str = "", since: int = OF_THIS_RUN) -> None:
        """Queue news for the model, in place of that under the same key ("" is none).

        A string is makeroom's own words; a block goes as it is: data, or the user's words. `since` is the seq
        of the fact that what it tells of began with; below 1: no rewind takes that out.
        """
        if self._heir is not None:  # of another session, with seqs of its own
            self._heir.post(news, key)
            return
        self.withdraw(key)
        if not key:
            key = next(key for n in count() if (key := f"{_UNKEYED}{n}") not in self._since)
        self.waiting[key] = ChannelBlock(news) if isinstance(news, str) else news
        self._since[key] = since
        self._note([key] if key.startswith(_UNKEYED) else ())

    def withdraw(self, key: str) -> None:
        """Remove the note under this key: the model knows it by now."""
        self.waiting.pop(key, None)

    def take(self, seq: int = 0) -> list[TextBlock]:
        """Take all waiting news for the next prompt or result, whose seq is `seq` or later."""
        news = list(self.waiting.values())
        for key in (*self.waiting,):
            self.count_as_told(key, seq)
        return news

    def count_as_told(self, key: str, seq: int) -> None:
        """Mark the note waiting under this key, if any, as given in other words by a fact from `seq` on."""
        if (news := self.waiting.pop(key, None)) is not None:
            self._told[key] = seq, news
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
        self.waiting = {key: news for key, news in again.items() if self._since[key] <= last} | self.waiting
        self._note(key for key in self.waiting if key.startswith(_UNKEYED))

    def _note(self, keys: Iterable[str]) -> None:
        """Record a note that a later run of the program can use."""
        self.changed |= dict.fromkeys(key for key in keys if self._since[key] != OF_THIS_RUN)

    def notes(self) -> list[dict[str, Any]]:
        """Return the changes since the last time: {"key", "since", "text", "own", "told"} of each, given by
        that fact.

        0: it waits. Of what waits, that which has no key: other news a later run finds out by itself.
        """
        notes = []
        for key in self.changed:
            seq, news = (0, self.waiting[key]) if key in self.waiting else self._told.get(key, (0, None))
            if news is not None:
                own = isinstance(news, ChannelBlock)
                notes.append(
                    {"key": key, "since": self._since[key], "text": news.text, "own": own, "told": seq}
                )
        self.changed.clear()
        return notes

    def restore(self, notes: Iterable[Mapping[str, Any]]) -> None:
        """Take the notes of earlier runs, in order: sent news can be sent again, waiting news still wait."""
        for note in notes:
            key = str(note["key"])
            news = _news_of(note)
            if not key.startswith(_UNKEYED):
                key = f"earlier {key}"  # ids of commands restart with each run
            self._since[key] = int(note["since"])
            self.waiting.pop(key, None)
            if seq := int(note["told"]):
                self._told[key] = seq, news
            else:
                self.waiting[key] = news

    def hand_over(self, heir: Inbox) -> None:
        """Pass the waiting notes, and all that are posted from now on, to `heir`."""
        self._heir = heir
        for key, news in self.waiting.items():
            heir.post(news, "" if key.startswith(_UNKEYED) else key)
        self.waiting.clear()


def _news_of(note: Mapping[str, Any]) -> TextBlock:
    """Return the news that a note holds; in notes from before "own" others began with a tag or a command."""
    text = str(note["text"])
    return ChannelBlock(text) if note.get("own", not text.startswith(("<", "/"))) else TextBlock(text)

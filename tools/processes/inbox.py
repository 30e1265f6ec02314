"""News for the model about events outside of its calls. They wait here for the next request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

from transcripts import ChannelBlock, TextBlock

OF_THIS_RUN = -1  # instead of a seq: news that a later run finds out again or does not need
_UNKEYED = "#"


class _ToldNews(NamedTuple):
    """News that was sent, and the seq of the fact that contained it."""

    seq: int
    news: TextBlock


class Inbox:
    """News that no request has contained yet, in the order of arrival. Belongs to the event loop's thread.

    A running turn takes the news with its next result, and a new turn with its prompt. News that was taken
    counts as sent until a rewind removes the fact that contained it. `notes` returns the changes for the
    session's transcript, and `restore` reads them in a later run of makeroom.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, TextBlock] = {}
        self._since: dict[str, int] = {}  # by key, of waiting and of sent news
        self._told: dict[str, _ToldNews] = {}  # by key
        self.changed: dict[str, None] = {}  # keys of the news that `notes` has to return
        self._heir: Inbox | None = None

    def post(self, news: str | TextBlock, key: str = "", since: int = OF_THIS_RUN) -> None:
        """Queue news for the model. News with the same key is replaced; "" stands for no key.

        A string is makeroom's own words. A block is sent unchanged: data, or the user's words. `since` is the
        seq of the fact with which the reported event began; below 1, a rewind never removes the news.
        """
        if self._heir is not None:  # belongs to another session, which numbers its facts separately
            self._heir.post(news, key)
            return
        self.withdraw(key)
        if not key:
            key = next(key for n in count() if (key := f"{_UNKEYED}{n}") not in self._since)
        self.waiting[key] = ChannelBlock(news) if isinstance(news, str) else news
        self._since[key] = since
        self._note([key] if key.startswith(_UNKEYED) else ())

    def withdraw(self, key: str) -> None:
        """Remove the news with this key, because the model knows it already."""
        self.waiting.pop(key, None)

    def take(self, seq: int = 0) -> list[TextBlock]:
        """Take all waiting news for the next prompt or result, whose seq is `seq` or later."""
        news = list(self.waiting.values())
        for key in (*self.waiting,):
            self.count_as_told(key, seq)
        return news

    def count_as_told(self, key: str, seq: int) -> None:
        """Count waiting news with this key as sent: a fact from `seq` on reports it in other words."""
        if (news := self.waiting.pop(key, None)) is not None:
            self._told[key] = _ToldNews(seq, news)
            self._note([key])

    @property
    def reader(self) -> Inbox:
        """The inbox from which the news posted here is taken."""
        return self if self._heir is None else self._heir.reader

    def rewound(self, last: int) -> None:
        """Queue the news again that was sent after the fact `last`, the newest one that a rewind left.

        News about events that began later is dropped, and so is news whose key has newer waiting news.
        """
        lost = [key for key, told in self._told.items() if told.seq > last]
        again = {key: self._told.pop(key).news for key in lost if key not in self.waiting}
        self.waiting = {key: news for key, news in again.items() if self._since[key] <= last} | self.waiting
        self._note(key for key in self.waiting if key.startswith(_UNKEYED))

    def _note(self, keys: Iterable[str]) -> None:
        """Mark news as changed, so that a later run of makeroom learns of it."""
        self.changed |= dict.fromkeys(key for key in keys if self._since[key] != OF_THIS_RUN)

    def notes(self) -> list[dict[str, Any]]:
        """Return the changes since the last call, each as {"key", "since", "text", "own", "told"}.

        "told" is the seq of the fact that contained the news, or 0 if it waits. Waiting news with a key is
        left out, because a later run finds it out again.
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
        """Read the notes of earlier runs, in order. Waiting news waits again, and sent news can be resent."""
        for note in notes:
            key = str(note["key"])
            news = _news_of(note)
            if not key.startswith(_UNKEYED):
                key = f"earlier {key}"  # ids of commands restart with each run
            self._since[key] = int(note["since"])
            self.waiting.pop(key, None)
            if seq := int(note["told"]):
                self._told[key] = _ToldNews(seq, news)
            else:
                self.waiting[key] = news

    def hand_over(self, heir: Inbox) -> None:
        """Pass the waiting news, and all that is posted from now on, to `heir`."""
        self._heir = heir
        for key, news in self.waiting.items():
            heir.post(news, "" if key.startswith(_UNKEYED) else key)
        self.waiting.clear()


def _news_of(note: Mapping[str, Any]) -> TextBlock:
    """Return the news of a note. Before "own", data began with a tag, and words of the user with a slash."""
    text = str(note["text"])
    return ChannelBlock(text) if note.get("own", not text.startswith(("<", "/"))) else TextBlock(text)

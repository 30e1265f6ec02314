"""The errors that keep a session transcript from being opened. Each text names the cause and the remedy.

A disk that fails while a session runs is none of these: the store keeps the records in memory (store.py).
"""

from __future__ import annotations


class StoreError(Exception):
    """The record cannot be opened as asked; the base of the others."""


class Unreadable(StoreError):
    """The file or folder is not plainly ours: a link, another owner, no regular file."""


class SessionInUse(StoreError):
    """Another process has the session open. `pid` is None where it could not be read."""

    def __init__(self, sid: str, pid: int | None) -> None:
        holder = f"pid {pid}" if pid else "another process"
        super().__init__(
            f"session {sid} is in use by {holder}: `makeroom sessions show {sid}` shows it, "
            f"`makeroom --resume {sid} --fork-session` goes on in a copy"
        )
        self.sid = sid
        self.pid = pid


class TranscriptTooNew(StoreError):
    """A version with a newer format wrote the record: it can be read, not continued."""

    def __init__(self, sid: str, version: int) -> None:
        super().__init__(
            f"session {sid} was written by a newer version (format {version}): "
            "it can be looked at and exported, not continued; update makeroom"
        )


class NoSuchSession(StoreError):
    """The session does not exist: it matches no id, beginning of an id, or name."""


class AmbiguousSession(StoreError):
    """Several sessions have that beginning of an id, or that name."""

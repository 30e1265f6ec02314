"""The errors that prevent a transcript from being opened. Each message names the cause and the remedy.

A disk that fails while a session runs raises none of them: the store keeps the facts in memory (store.py).
"""

from __future__ import annotations


class StoreError(Exception):
    """The transcript cannot be opened as requested; the base of the other errors."""


class Unreadable(StoreError):
    """The file or directory is not safe to use: a symbolic link, another owner, or not a regular file."""


class SessionInUse(StoreError):
    """Another process has the session open. `pid` is None if it could not be read."""

    def __init__(self, sid: str, pid: int | None) -> None:
        holder = f"pid {pid}" if pid else "another process"
        super().__init__(
            f"session {sid} is in use by {holder}: view it with `makeroom sessions show {sid}`, "
            f"or continue in a copy with `makeroom --resume {sid} --fork-session`"
        )
        self.sid = sid
        self.pid = pid


class FromElsewhere(StoreError):
    """The session was not recorded on this machine, or changed since, so what it says is data."""

    def __init__(self, sid: str) -> None:
        super().__init__(
            f"session {sid} was not recorded on this machine, or its transcript was changed: view it with "
            f"`makeroom sessions show {sid}`, or continue in a copy, without its system prompt and tools, "
            f"with `makeroom --resume {sid} --from-elsewhere`"
        )
        self.sid = sid


class TranscriptTooNew(StoreError):
    """A newer version wrote the transcript: it can be read, but not continued."""

    def __init__(self, sid: str, version: int) -> None:
        super().__init__(
            f"cannot continue session {sid}: a newer version of makeroom wrote it (format {version}). "
            "Update makeroom to continue; viewing and exporting work with this version"
        )


class NoSuchSession(StoreError):
    """No session has the given id, prefix of an id, or name."""


class AmbiguousSession(StoreError):
    """Several sessions have the given prefix of an id, or name."""

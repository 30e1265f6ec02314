"""Everything that can keep a record from being opened, each with one clear line for the person.

    StoreError          the text names what is wrong and what to do about it
    ├── Refused         a folder or file that is not plainly ours: a link, another owner, no regular file
    ├── SessionInUse           another process writes this session: `pid`, where it is known
    ├── Newer           written by a newer version: may be looked at, not continued
    ├── NoSuchSession   nothing goes by that id or name
    └── AmbiguousSession       several do: `candidates`

A disk that fails while a session runs is no error: the store keeps the records and says so (see store.py).
"""

from __future__ import annotations


class StoreError(Exception):
    """The record cannot be opened as asked."""


class RecordUnreadable(StoreError):
    """What stands there is not plainly ours."""


class SessionInUse(StoreError):
    """Another process has the session open. `pid` is None where it could not be read."""

    def __init__(self, sid: str, pid: int | None) -> None:
        who = f"pid {pid}" if pid else "another process"
        super().__init__(
            f"session {sid} is in use by {who}: `makeroom sessions show {sid}` shows it, "
            f"`makeroom --resume {sid} --fork-session` goes on in a copy"
        )
        self.sid = sid
        self.pid = pid


class RecordTooNew(StoreError):
    """A newer major version wrote it."""

    def __init__(self, sid: str, version: int) -> None:
        super().__init__(
            f"session {sid} was written by a newer version (format {version}): "
            "it can be looked at and exported, not continued; update makeroom"
        )
        self.version = version


class NoSuchSession(StoreError):
    """No session has that id, prefix or name."""


class AmbiguousSession(StoreError):
    """More than one session fits. `candidates` are their ids."""

    def __init__(self, wanted: str, candidates: tuple[str, ...]) -> None:
        super().__init__(f"{wanted!r} fits {len(candidates)} sessions: {', '.join(candidates[:8])}")
        self.candidates = candidates

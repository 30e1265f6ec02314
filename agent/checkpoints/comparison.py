"""Compare the project's files with their state before a session first changed them.

This only reads, and does not wait for a running command, whose changes are known when it has ended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tools.files import FileError, load_file, one_line_path
from tools.text import decode_text, mark_stray_bytes, unify_newlines
from tools.unified_diff import unified_diff

from .change_log import FileChange
from .recorder import Checkpoints
from .snapshot import THEIRS, UNSEEN, PathState

_NO_FILE = "pipe, socket or device"
_Piece = tuple[bytes, bytes]


class FileDifference(Struct, frozen=True):
    """One changed path. `text` is a unified diff, or "" if `why` gives the reason why there is none.

    how  new, changed or deleted; theirs for changes that others made between or after the session's changes
         of this path, which the session's own diff does not contain
    why  the reason, or a change of kind such as `file -> directory`
    """

    path: str
    how: str
    added: int = 0
    removed: int = 0
    text: str = ""
    why: str = ""


# Why a change may be the work of others, by the state after it.
_WHOSE: Mapping[PathState | None, str] = {
    THEIRS: "another session recorded this change as well",
    UNSEEN: "changed while a command ran in the background, or was interrupted",
}


def differences(checkpoints: Checkpoints) -> list[FileDifference]:
    """Return the session's changes that still differ, by path. Reads files, so call it in a thread."""
    by_path: dict[str, list[FileChange]] = {}
    for change in list(checkpoints.log.changes):
        by_path.setdefault(change.path, []).append(change)
    return [each for _, changes in sorted(by_path.items()) for each in _of_path(checkpoints, changes)]


def _of_path(checkpoints: Checkpoints, changes: Sequence[FileChange]) -> list[FileDifference]:
    """Return the session's change of a path, and separately the known changes by others."""
    path = changes[0].path
    before = changes[0].before
    kind, now = _read_now(checkpoints, path)
    kinds = (before.kind, kind)
    if "dir" in kinds and not {*kinds} & {"file", "link", "other"}:
        return []  # a directory shows in its files
    old = _read_before(checkpoints, before)
    if before.kind == kind and old is not None and old == now:
        return []
    end = changes[-1].after
    ended = kind if end is None or end.kind == "unseen" else end.kind
    ends = {change.after for change in changes}
    if len(ends) == 1 and (why := _WHOSE.get(changes[0].after)):
        return [FileDifference(path, "theirs", why=why)]
    how = "deleted" if ended == "none" else "changed"
    if before.kind == "none":
        how = "new"
    swapped = _swapped(*kinds)
    if old is None or now is None:
        unknown = _NO_FILE if "other" in kinds else "too large to compare, or not kept"
        return [FileDifference(path, how, why=swapped or unknown)]
    if any(decode_text(content) is None for content in (old, now)):
        why = swapped or f"binary, {len(old):,} -> {len(now):,} bytes"
        return [FileDifference(path, how, why=why)]
    if old == now:
        return [FileDifference(path, how, why=swapped or "an empty file")]
    own, theirs = _pieces(checkpoints, changes, old, now)
    if not theirs:
        shown = _difference(path, how, own)
        return [replace(shown, why=swapped) if swapped else shown]
    found = (_difference(path, how, own), _difference(path, "theirs", theirs))
    return [each for each in found if each.text] if own else []


def _swapped(before: str, now: str) -> str:
    """Return a description of a changed kind, such as `file -> directory`; "" if it has not changed."""
    names = {"file": "file", "link": "link", "dir": "directory", "other": _NO_FILE}
    return f"{names[before]} -> {names[now]}" if before != now and {before, now} <= names.keys() else ""


def _pieces(
    checkpoints: Checkpoints, changes: Sequence[FileChange], old: bytes, now: bytes
) -> tuple[list[_Piece], list[_Piece]]:
    """Return (before, after) of each run of changes by the session, and of changes by others in between.

    If contents were not kept they cannot be separated, and changes in between count as the session's.
    """
    own = list[_Piece]()
    theirs = list[_Piece]()
    start = old
    for change, following in zip(changes, [*changes[1:], None], strict=True):
        left = None if change.after is None else _read_before(checkpoints, change.after)
        found = now if following is None else _read_before(checkpoints, following.before)
        if left is not None and found is not None and left != found:
            own.append((start, left))
            theirs.append((left, found))
            start = found
    own.append((start, now))
    return [piece for piece in own if piece[0] != piece[1]], theirs


def _difference(path: str, how: str, pieces: Sequence[_Piece]) -> FileDifference:
    name = one_line_path(path)
    read = [_texts(before, after) for before, after in pieces]
    made = [unified_diff(unify_newlines(before), unify_newlines(after), name) for before, after in read]
    texts = [mark_stray_bytes(each.text) for each in made if each.text]
    text = "".join(texts[:1] + [each.split("\n", 2)[2] for each in texts[1:]])  # with one header
    added, removed = (sum(getattr(each, name) for each in made) for name in ("added", "removed"))
    why = "encoding only" if all(before == after for before, after in read) else "line endings only"
    return FileDifference(path, how=how, added=added, removed=removed, text=text, why="" if text else why)


def _texts(before: bytes, after: bytes) -> tuple[str, str]:
    """Return the texts of two states of a file, each in the encoding in which `read` shows it."""
    decoded = decode_text(before)
    text, hint = (decoded[0], decoded[1].hint) if decoded is not None else ("", "")
    now = decode_text(after, hint)
    return text, now[0] if now is not None else ""


def _read_before(checkpoints: Checkpoints, state: PathState) -> bytes | None:
    """Return the contents recorded for a state, or the target of a link; None if they were not kept."""
    if state.kind in ("none", "link", "dir"):
        return os.fsencode(state.value)
    return checkpoints.scanner.store.get(state.value) if state.value else None


MAX_COMPARED_FILE_BYTES = 4 << 20


def _read_now(checkpoints: Checkpoints, path: str) -> tuple[str, bytes | None]:
    """Return (kind, contents) of a path now, the target of a link; None for contents that are too large."""
    state = checkpoints.scanner.paths.state(path, max_bytes=-1)  # stores nothing
    if state.kind != "file":
        return state.kind, None if state.kind == "other" else os.fsencode(state.value)
    try:
        # A command may have put a link in the place of a directory on the way.
        return "file", load_file(str(checkpoints.root / path), MAX_COMPARED_FILE_BYTES).data
    except (OSError, FileError):
        return "file", None

"""Explain file system errors to the model: what they mean, and what to do next."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.files import one_line_path
from tools.path_suggestions import suggestions
from transcripts.wording import cause_of

from .base import ToolError

_GLOB_CHARS = frozenset("*?")
_ADVICE = {
    errno.EACCES: ("permission denied", "Ask the user to change its permissions, or use another file"),
    errno.EPERM: ("the system does not permit it", "Ask the user; the file may be marked immutable"),
    errno.ENOSPC: ("the disk is full", "Nothing was changed. Free some space, then try again"),
    errno.EDQUOT: ("the disk quota is used up", "Nothing was changed. Free some space, then try again"),
    errno.EFBIG: ("the file would be larger than allowed here", "Nothing was changed. Write less"),
    errno.EROFS: ("the file system is read-only", "Nothing was changed. Use a writable location"),
    errno.EMFILE: (
        "too many files are open in this program",
        "Try again; stop background jobs if it persists",
    ),
    errno.ENFILE: ("too many files are open in the system", "Try again in a moment"),
    errno.EIO: ("the disk reported an input/output error", "Warn the user that the disk may be failing"),
    errno.ENAMETOOLONG: ("the name is too long", "Use a name of at most 255 bytes"),
    errno.ELOOP: ("a link appeared in the path", "Another process is changing it; check it, then retry"),
    errno.EXDEV: ("the path changed since it was checked", "Check it, then retry"),
    errno.ENOTDIR: ("a part of the path is a file, not a directory", "Check the path"),
    errno.ENXIO: ("it is not a regular file", "Use a regular file"),
    errno.EAGAIN: (
        "it has no data to read at the moment",
        "It is not a regular file; use one",
    ),
    errno.ESTALE: ("its network file handle is stale", "Check it, then retry"),
}


@contextmanager
def os_errors_explained(path: str, root: Path) -> Iterator[None]:
    """Turn an OSError into a ToolError with its meaning and a remedy, such as a similar name below `root`."""
    try:
        yield
    except OSError as error:
        name = one_line_path(path)
        if error.errno == errno.ENOENT:
            near = " or ".join(one_line_path(each, root) for each in suggestions(path, root))
            hint = f"Did you mean {near}?" if near else "Check the path; glob finds files by name."
            tools = "" if near else "glob"
            if path.startswith(("/tmp/", "/var/tmp/")) and not path.startswith(f"{root}/"):
                hint = "If a sandboxed command wrote it to its private /tmp, use bash to read it."
                tools = "bash"
            if _GLOB_CHARS.intersection(name):
                hint = "If it is a name pattern, glob finds the matching files."
                tools = "glob"
            raise ToolError(f"File does not exist: {name}", remedy=hint, tools=tools) from error
        other = (cause_of(error), "Check it, then retry")
        what, advice = _ADVICE.get(error.errno or 0, other)
        raise ToolError(f"{name}: {what}.\n{advice}.") from error

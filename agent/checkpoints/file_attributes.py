"""The extended attributes of files and directories: access control lists, and what programs note about them.

They are kept as a JSON object, name -> value in base64, and restored with the contents. The log may be part
of a checkout, so only attributes that grant nothing to programs are set: a file's capabilities are not.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from base64 import b64decode, b64encode
from contextlib import suppress

MAX_ATTRIBUTE_BYTES = 64 * 1024  # of all attributes of a file
_ACCESS_LISTS = ("system.posix_acl_access", "system.posix_acl_default")
_CAPABILITIES = "security.capability"


def read_attributes(of: int | str) -> str:
    """Return the extended attributes of an open file or at a path that are kept, "" without any."""
    if sys.platform != "linux":
        return ""
    found: dict[str, str] = {}
    with suppress(OSError):  # on file systems without them
        for name in os.listxattr(of, follow_symlinks=isinstance(of, int)):
            if name.startswith("user.") or name in (*_ACCESS_LISTS, _CAPABILITIES):
                value = os.getxattr(of, name, follow_symlinks=isinstance(of, int))
                found[name] = b64encode(value).decode("ascii")
    text = json.dumps(dict(sorted(found.items()))) if found else ""
    return text if len(text) <= MAX_ATTRIBUTE_BYTES else ""


def set_attributes(fd: int, attrs: str) -> str:
    """Set extended attributes that `read_attributes` returned; return what could not be set, in words."""
    if not attrs or sys.platform != "linux":
        return ""
    left = []
    try:
        for name, value in json.loads(attrs).items():
            if name.startswith("user.") or name in _ACCESS_LISTS:
                with suppress(OSError):
                    os.setxattr(fd, name, b64decode(value))
                    continue
            left.append("capabilities" if name == _CAPABILITIES else "extended attributes")
    except (ValueError, TypeError, AttributeError):  # not written by makeroom
        left.append("extended attributes")
    return " and ".join(dict.fromkeys(left))


class IncompleteRestoreError(OSError):
    """A file was restored without some of its properties."""

    def __init__(self, left: str) -> None:
        super().__init__(errno.ENOTSUP, f"restored, but without its {left}")

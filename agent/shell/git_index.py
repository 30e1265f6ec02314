"""Read the index of a git repository: tracked files that may contain secrets, and submodules."""

from __future__ import annotations

# Paths are joined in the way git does.
# ruff: noqa: PTH110, PTH116, PTH119, PTH208
import os
import re
import struct
from collections.abc import Iterator
from typing import NamedTuple

from tools.guarded import is_protected, repositories_in_index, sounds_secret
from transcripts.patterns import lazy_bytes_pattern

from .git_files import file_bytes, git_dir_of, repository_above

_MAX_INDEX_BYTES = 64_000_000
_SECRET_IN_INDEX = lazy_bytes_pattern(
    rb"(?:\.env(?:[._-][^\0/]*)?|\.dev\.vars[^\0/]*|\.tfstate[^\0/]*|\.tfvars(?:\.json)?|\.(?:pem|key|p8|p12|pfx|ppk"
    rb"|kdbx|agekey|pgpass|envrc|netrc|npmrc|pypirc|my\.cnf|htpasswd|git-credentials)|kubeconfig(?:\.ya?ml)?"
    rb"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|database\.yml|wp-config\.php|local\.settings\.json"
    rb"|(?:secrets?|credentials?|creds|passwords?|tokens?)[^\0/]*"
    rb"\.(?:ya?ml|json|toml|ini|cfg|conf|properties|xml|txt))\0",
    re.IGNORECASE,
)


class TrackedSecret(NamedTuple):
    """A file of a repository that may contain secrets; `unchanged` since the index was written."""

    path: str
    unchanged: bool


def tracked_secrets(folder: str) -> Iterator[TrackedSecret]:
    """Yield the files that may contain secrets in a directory's repository, by their names in the index."""
    top = repository_above(folder)
    data = file_bytes(f"{git_dir_of(top)}/index", _MAX_INDEX_BYTES) if top is not None else b""
    for found in _SECRET_IN_INDEX.finditer(data):
        end = found.end() - 1
        start = data.rfind(b"\0", 0, end) + 1
        start += data[start] == end - start - 1  # the name is preceded by its length
        name = os.fsdecode(data[start:end])
        path = f"{top}/{name}"
        is_harmless = os.path.exists(path) and not is_protected(path, "read")
        if is_harmless or not sounds_secret(os.path.basename(name)):
            continue
        entry = data[max(start - 62, 0) : start]  # the fields before the name, with SHA-1
        yield TrackedSecret(path, _stamp_of(path) == entry[8:16] + entry[36:40])


def _stamp_of(path: str) -> bytes:
    """Return the modification time and the size of a file in the format of the index."""
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return b""
    seconds, rest = divmod(found.st_mtime_ns, 1_000_000_000)
    return struct.pack(">III", seconds & 0xFFFFFFFF, rest, found.st_size & 0xFFFFFFFF)


def submodules(git_dir: str) -> Iterator[str]:
    """Yield directories, relative to the working one, that the index names or may name as repositories."""
    try:
        names = [name for name in os.listdir(git_dir) if name == "index" or name.startswith("sharedindex.")]
    except OSError:
        names = []
    for name in names:
        data = file_bytes(f"{git_dir}/{name}", _MAX_INDEX_BYTES)
        found = (path for size in (20, 32) for path in repositories_in_index(data, size))
        yield from (os.fsdecode(path) for path in found if 0 < len(path) < 4096 and b"\0" not in path)

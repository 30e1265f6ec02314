"""The state of an open merge, rebase, bisect or the like, which git keeps in small files beside the index.

`git rebase --abort`, `git bisect reset` and `git reset --hard` remove these files. Their contents are stored
together with HEAD and the conflicts of the index, as JSON:

    {"files": {"BISECT_LOG": "git bisect start...", "refs/bisect/bad": "8d1c..."}, "commit": "77aa...",
     "branch": "", "tree": "5e2b...", "conflicts": ""}
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, convert

from tools.files import LISTED_FOLDER, closing, is_inside, make_folders, replace_in, safe_open
from tools.search import Checkout, GitFailed
from tools.text import word_set
from transcripts.patterns import lazy_pattern

OPERATION_FILES = word_set(
    "MERGE_HEAD MERGE_MSG MERGE_MODE MERGE_RR MERGE_AUTOSTASH AUTO_MERGE SQUASH_MSG CHERRY_PICK_HEAD"
    " REVERT_HEAD REBASE_HEAD BISECT_START BISECT_LOG BISECT_TERMS BISECT_NAMES BISECT_HEAD BISECT_RUN"
    " BISECT_EXPECTED_REV BISECT_ANCESTORS_OK BISECT_FIRST_PARENT NOTES_MERGE_REF NOTES_MERGE_PARTIAL"
)
OPERATION_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer", "NOTES_MERGE_WORKTREE")
_BISECT_REFS = "refs/bisect"
_MAX_FILES = 2_000  # of a `git am` with so many patches
_MAX_BYTES = 16 << 20
_NAME = lazy_pattern(r"(?!\.)[\w.@+=-]+(?<!\.lock)(?:/(?!\.)[\w.@+=-]+(?<!\.lock)){0,8}")
_EXECUTED = lazy_pattern(r"(?m)^[ \t]*(?:exec|x)[ \t]")
# By the first of these names that exists.
_KINDS = {
    "BISECT_START": "bisect",
    "rebase-apply/applying": "am",
    "rebase-apply": "rebase",
    "rebase-merge": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "MERGE_HEAD": "merge",
    "NOTES_MERGE_PARTIAL": "merge of notes",
}


class Operation(Struct):
    """An open operation of a working tree.

    files      the contents of its files by their paths in the git directory, one character a byte
    commit     the commit that is checked out, and its `branch`, "" if HEAD is detached
    tree       the tree of the index, without the paths with conflicts; "" without an index
    conflicts  the lines of `git ls-files -u`
    """

    files: Mapping[str, str]
    commit: str
    branch: str
    tree: str
    conflicts: str

    @classmethod
    def decode(cls, data: bytes | None) -> Operation | None:
        """Return a stored operation; None if makeroom did not write it."""
        with suppress(ValueError, RecursionError):
            found = convert(json.loads(data or b""), cls)
            if all(map(_is_operation_file, found.files)):
                return found
        return None

    def encode(self) -> bytes:
        """Return the contents to store, b"" if nothing is open."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return json.dumps(fields, sort_keys=True).encode() if self.files else b""

    @property
    def kind(self) -> str:
        """The name of the operation for users; "" if only the message of the next commit is prepared."""
        names = {*self.files, *(name.partition("/")[0] for name in self.files)}
        return next((kind for name, kind in _KINDS.items() if name in names), "")

    @property
    def moves_head(self) -> bool:
        """True if it checks out commits itself, so that its HEAD is not where the user's work continues."""
        return not self.branch and self.kind in ("bisect", "rebase", "am")

    @property
    def executes(self) -> bool:
        """True if git runs commands of its files when the operation is continued."""
        todo = (text for name, text in self.files.items() if name.startswith("rebase-merge/git-rebase-todo"))
        return any(map(_EXECUTED.search, todo))


def _is_operation_file(name: str) -> bool:
    is_below = name.startswith(tuple(f"{folder}/" for folder in (*OPERATION_FOLDERS, _BISECT_REFS)))
    return _NAME.fullmatch(name) is not None and (is_below or name in OPERATION_FILES)


def git_places(root: Path) -> tuple[str, ...]:
    """Return the directories in which git directories of a project may be, as real paths.

    The project, and the git directory of the checkout that it belongs to, which may be outside of it.
    """
    checkout = Checkout.around(root)
    folders = () if checkout is None else (checkout.git_folder, checkout.shared_folder)
    return tuple(dict.fromkeys(map(os.path.realpath, (root, *folders))))


def opened_git(folder: Path, places: Sequence[str]) -> int:
    """Return a descriptor of a git directory. Raises OSError if it is outside of all `places`.

    A command may make `.git` of a nested repository a link to, or a file that names, another repository,
    also while the files of the former one are being restored.
    """
    path = os.path.realpath(folder)
    if not any(is_inside(path, place) for place in places):
        raise PermissionError(errno.EACCES, "its git directory is outside the project", path)
    return safe_open(path, LISTED_FOLDER)


def operation_files(top: Path, places: Sequence[str]) -> dict[str, str]:
    """Return the files of the open operations of a working tree, without following links.

    Blocks. Raises GitFailed if they are too large.
    """
    found: dict[str, str] = {}
    left = _MAX_BYTES
    with suppress(OSError), closing(opened_git(Checkout(top).git_folder, places)) as git:
        for name in _names(git):
            with suppress(OSError), closing(safe_open(name, os.O_RDONLY | os.O_NONBLOCK, base=git)) as file:
                if stat.S_ISREG(os.fstat(file).st_mode):
                    data = os.read(file, left + 1)
                    left -= len(data)
                    found[name] = data.decode("latin-1")
            if left < 0 or len(found) > _MAX_FILES:
                raise GitFailed("the files of its open merge or rebase are too large")
    return found


def write_operation(top: Path, files: Mapping[str, str], places: Sequence[str]) -> None:
    """Make the files of a working tree's open operations those. Blocks; raises OSError."""
    with closing(opened_git(Checkout(top).git_folder, places)) as git:
        for name in [*_names(git)]:
            if name not in files:
                _in_folder(git, name, None)
        for folder in OPERATION_FOLDERS:  # an empty one counts as an open operation
            with suppress(OSError):
                os.rmdir(folder, dir_fd=git)
        for name, text in files.items():
            _in_folder(git, name, text.encode("latin-1"))


def _names(git: int) -> Iterator[str]:
    """Yield the names of the files of operations in an open git directory."""
    for name in OPERATION_FILES:
        with suppress(OSError):
            if stat.S_ISREG(os.stat(name, dir_fd=git, follow_symlinks=False).st_mode):
                yield name
    waiting = [*OPERATION_FOLDERS, _BISECT_REFS]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), closing(safe_open(folder, LISTED_FOLDER, base=git)) as here:
            with os.scandir(here) as entries:
                below = [(f"{folder}/{each.name}", each.is_dir(follow_symlinks=False)) for each in entries]
            waiting += [path for path, is_folder in below if is_folder and path.count("/") < 8]
            yield from (path for path, is_folder in below if not is_folder and _is_operation_file(path))


def _in_folder(git: int, path: str, data: bytes | None) -> None:
    """Write a file below an open git directory, or remove it (None). Raises OSError if a part is a link."""
    *folders, name = path.split("/")
    with closing(make_folders(git, folders)) as here:
        if data is None:
            os.unlink(name, dir_fd=here)
            return
        replace_in(here, name, data, temporary=f"{name}.{os.urandom(4).hex()}.lock")

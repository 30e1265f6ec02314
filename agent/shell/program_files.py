"""Resolve the programs that a command line names: follow links, find copies and replaced files."""

from __future__ import annotations

# Links are followed one by one.
# ruff: noqa: PTH113, PTH114, PTH115, PTH118, PTH119, PTH120, PTH121, PTH202
import errno
import filecmp
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tools.files import FileError, closing, is_inside, read_at_most, safe_open

from .git_settings import GitSettings
from .option_syntax import NotProved
from .reading_programs import Reading
from .steering_digests import steering_digests

_MAX_NAMES = 10_000  # of one directory


class ProjectPrograms:
    """The programs of commands in the project `folder` (a real path), with the environment `environ`.

    Implements program_names.ProgramFiles.
    """

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = environ

    def program(self, name: str, folder: str) -> str | None:
        """Return the file that the shell would run."""
        for entry in self.environ.get("PATH", "").split(":"):
            path = name if name.startswith("/") else os.path.join(folder, entry, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return None

    def other_names(self, word: str, folder: str, wanted: frozenset[str]) -> frozenset[str]:
        """See program_names.ProgramFiles."""
        path = os.path.join(folder, word) if "/" in word else self.program(word, folder)
        if path is None or not os.path.isfile(path) or self._is_installed(path):
            return frozenset()
        originals = {name: self.program(name, folder) for name in wanted if "/" not in name}
        copied = {name for name, original in originals.items() if original and _is_copy(path, original)}
        return frozenset({*_linked_names(path), *copied} - {os.path.basename(word)})

    def own_programs(self, words: Sequence[str], folder: str) -> str:
        """See program_names.ProgramFiles."""
        found = set[str]()
        for word in words:
            paths = [os.path.join(folder, word), self.program(word, folder) or ""]
            found |= {path for path in paths if os.path.isfile(path) and self._is_own(path)}
        digest = hashlib.sha256()
        for path in sorted(found):
            real = _real_path(path)
            digest.update(os.fsencode(f"{path}\0{real}\0"))
            if is_inside(real, self.folder):
                digest.update(_file_digest(real))
        return digest.hexdigest() if found else ""

    def _is_own(self, path: str) -> bool:
        """Return whether a file, or the file that it links to, is in the project."""
        return any(is_inside(_real_path(place), self.folder) for place in (path, os.path.dirname(path)))

    def steering_digests(
        self, names: Sequence[str], operands: Sequence[str], folder: str
    ) -> Mapping[str, str]:
        """See program_names.ProgramFiles."""
        return steering_digests(names, operands, folder=folder, project=self.folder)

    def is_outside(self, word: str, folder: str) -> bool:
        """See program_names.ProgramFiles."""
        path = os.path.join(folder, word)
        return word.startswith("~") or not is_inside(_real_path(path), self.folder)

    def may_write(self, path: str) -> bool:
        """See program_names.ProgramFiles."""
        return os.access(path, os.W_OK)

    def variable(self, name: str) -> str:
        """See program_names.ProgramFiles."""
        return self.environ.get(name, "")

    def text(self, path: str) -> str:
        """See program_names.ProgramFiles."""
        path = _real_path(path)
        if not is_inside(path, self.folder):
            return ""
        try:
            with closing(safe_open(path, os.O_RDONLY | os.O_NONBLOCK)) as fd:
                return read_at_most(fd, 1_000_000).decode("utf-8", "replace")
        except (OSError, FileError, ValueError):
            return ""

    def file_names(self, folder: str) -> Sequence[str]:
        """See program_names.ProgramFiles."""
        folder = _real_path(folder)
        if not is_inside(folder, self.folder):
            return ()
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, _MAX_NAMES + 1)]
        except OSError:
            return ()
        return sorted(names) if len(names) <= _MAX_NAMES else ()

    def git_values(self, folder: str) -> Mapping[str, Sequence[str]]:
        """See program_names.ProgramFiles."""
        return GitSettings(self.environ, self.folder, "names").values(folder)

    def made_git_values(self, folder: str) -> Mapping[str, Sequence[str]]:
        """See program_names.ProgramFiles."""
        return GitSettings(self.environ, self.folder, "names").made_values(folder)

    def check_program(self, reading: Reading, folder: str) -> None:
        """Raise NotProved if the program of a command is not an installed one."""
        name = reading.program
        if f"BASH_FUNC_{name}%%" in self.environ:
            raise NotProved(f"{name} is a shell function in the environment")
        if reading.builtin:
            return
        found = self.program(name, folder)
        if found is None:
            raise NotProved(f"{name} was not found on PATH")
        real = _real_path(found)
        place = _real_path(os.path.dirname(found))
        if "/" in (real, place):
            raise NotProved(f"{name} is being replaced")
        if is_inside(real, self.folder) or is_inside(place, self.folder):
            raise NotProved(f"{name} is a program of the project")
        if reading.version and not _is_program_itself(name, real):
            raise NotProved(f"{name} may be a wrapper that runs another program")

    def _is_installed(self, path: str) -> bool:
        """Return whether a program is in a directory on PATH that is not in the project."""
        place = _real_path(os.path.dirname(path))
        folders = map(_real_path, filter(None, self.environ.get("PATH", "").split(":")))
        return not is_inside(place, self.folder) and place in folders


def _linked_names(path: str) -> Iterator[str]:
    """Yield the names of the files that a path links to, link by link."""
    for _ in range(40):  # links in a chain
        if not os.path.islink(path):
            break
        try:
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except OSError:  # it was replaced in the meantime
            break
        yield os.path.basename(path)


def _real_path(path: str) -> str:
    """Return the real path; "/", which is in no project, if a link on the way is replaced meanwhile."""
    try:
        real = os.path.realpath(path)
    except OSError:  # the link was removed between two steps of realpath
        return "/"
    # From Python 3.13 on, realpath leaves a link that it cannot read in the path, also one of a loop.
    parts = real.split("/")
    return "/" if any(os.path.islink("/".join(parts[:end])) for end in range(2, len(parts) + 1)) else real


def _is_copy(path: str, original: str) -> bool:
    """Return whether a file has the same content as a program, or is a hard link to it."""
    try:
        if os.path.samefile(path, original):
            return True
        if os.path.getsize(path) != os.path.getsize(original):
            return False
        return filecmp.cmp(path, original, shallow=False)
    except OSError:
        return False


def _open_regular(path: str) -> int:
    """Open a file for reading. Raises OSError for pipes and devices, which may never end."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise OSError(errno.EINVAL, "it is not a regular file", path)
    return opened


def _file_digest(path: str) -> bytes:
    """Return a digest of a file's content, or of its state if reading it would take too long."""
    try:
        with open(_open_regular(path), "rb") as file:
            state = os.fstat(file.fileno())
            if state.st_size > 256 << 20:  # it would take longer than 0.3 s
                return repr((state.st_dev, state.st_ino, state.st_size, state.st_ctime_ns)).encode()
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return repr(error).encode()


def _is_program_itself(name: str, real: str) -> bool:
    """Return whether a real path is the program of this name, and not a script or shim that selects one."""
    try:
        with open(_open_regular(real), "rb") as file:
            start = file.read(2)
    except OSError:
        return False
    plain = re.escape(name.rstrip("0123456789."))  # Debian's gcc is x86_64-linux-gnu-gcc-12
    return start != b"#!" and re.match(rf"(?:\w+-)*{plain}", os.path.basename(real)) is not None

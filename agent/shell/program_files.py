"""The files that words of a command line name as programs: where links lead, what was copied or replaced."""

from __future__ import annotations

# Links are followed one by one.
# ruff: noqa: PTH110, PTH113, PTH114, PTH115, PTH118, PTH119, PTH120, PTH121, PTH123, PTH202
import filecmp
import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path

from tools.files.resolve_path import is_inside
from tools.files.safe_open import closing

from .git_settings import GitSettings
from .option_syntax import NotProved
from .reading_programs import Reading

_EDITIONS = re.compile(r"\s*(?:[A-Za-z0-9][\w.+-]*\s*)*", re.ASCII)
_MAX_EDITIONS_BYTES = 4_096
_MAX_LIST_BYTES = 1_000_000  # of a file that names more than an edition
_GO_THAT_FETCHES = (1, 21)  # and later ones fetch the edition that go.mod asks for
_SCRIPT_START = re.compile(
    r"#![ \t]*(?:/usr/bin/env[ \t]+(node|ruby|python3?)"
    r"|(/[\w./+-]*/(?:python|node|ruby|perl)[\d.]*)(?:[ \t]+-\w)?)[ \t]*\n",
    re.ASCII,
)
_STEERED_BY = {  # variables that have scripts of a language run something else first
    "PYTHONPATH": "python",
    "NODE_OPTIONS": "node",
    "RUBYOPT": "ruby",
    "RUBYLIB": "ruby",
    "PERL5OPT": "perl",
    "PERL5LIB": "perl",
}
# npm writes its log where settings of the project say so, even for its version.
_NPM_STEERING = re.compile(r"log|cache|prefix|config|node.?options", re.IGNORECASE)
_MAX_LINKS_FOLLOWED = 40  # that lead from one to the next


class ProjectPrograms:
    """Programs of commands that run in the project `folder`, a real path, with the environment `environ`.

    Implements program_names.ProgramFiles.
    """

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = environ

    def program(self, name: str, folder: str) -> str | None:
        """The file that the shell would run."""
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
            real = os.path.realpath(path)
            digest.update(os.fsencode(f"{path}\0{real}\0"))
            if is_inside(real, self.folder):
                digest.update(_file_digest(real))
        return digest.hexdigest() if found else ""

    def _is_own(self, path: str) -> bool:
        """Whether a file lies in the project, or what it leads to."""
        return any(is_inside(os.path.realpath(place), self.folder) for place in (path, os.path.dirname(path)))

    def git_aliases(self, folder: str) -> Mapping[str, Sequence[str]]:
        """See program_names.ProgramFiles."""
        return GitSettings(self.environ, self.folder, "names").aliases(folder)

    def check_program(self, reading: Reading, folder: str) -> None:
        """Raises NotProved where the program of a command is none of the system's."""
        name = reading.program
        if f"BASH_FUNC_{name}%%" in self.environ:
            raise NotProved(f"{name} is a function of the environment")
        if reading.builtin:
            return
        found = self.program(name, folder)
        if found is None:
            raise NotProved(f"{name} was not found on PATH")
        real = os.path.realpath(found)
        if is_inside(real, self.folder) or is_inside(os.path.realpath(os.path.dirname(found)), self.folder):
            raise NotProved(f"{name} is a program of the project")
        if reading.version:
            self._check_version(name, found, real, folder)

    def _check_version(self, name: str, found: str, real: str, folder: str) -> None:
        """Whether the program that would tell its version is the one found, whatever the project says."""
        above = (folder, *map(str, Path(folder).parents))
        beside = os.path.join(os.path.dirname(found), "rustup")
        if os.path.basename(real) == "rustup" or (os.path.exists(beside) and os.path.samefile(beside, real)):
            chosen = [f"{place}/rust-toolchain{end}" for place in above for end in ("", ".toml")]
            if any(map(os.path.lexists, chosen)):
                raise NotProved(f"{name} may choose what it runs")
        elif name == "go" and any(map(_asks_for_newer, above, repeat(real))):
            raise NotProved(f"{name} may choose what it runs")
        elif started_by := _script_language(name, real):
            language = started_by.rpartition("/")[2].rstrip("0123456789.")
            steering = [variable for variable in self.environ if _STEERED_BY.get(variable) == language]
            files = [f"{place}/.npmrc" for place in above if language == "node"]
            settings = [_first_text(path, _MAX_LIST_BYTES) for path in files]
            if steering or any(map(_NPM_STEERING.search, settings)):
                raise NotProved(f"{name} may run something else before it tells its version")
            self.check_program(Reading(started_by, version=not started_by.startswith("/")), folder)
        elif not _is_program_itself(name, real):
            self._check_shim(name, real, folder)

    def _check_shim(self, name: str, real: str, folder: str) -> None:
        """pyenv runs the edition that a file of the project names: a name, and no path of something else."""
        above = (folder, *map(str, Path(folder).parents))
        chosen = [_first_text(f"{place}/.python-version") for place in above]
        is_shim = name.startswith(("python", "pip")) and "/shims/" in real and "pyenv" in real
        if not is_shim or not all(map(_EDITIONS.fullmatch, chosen)):
            raise NotProved(f"{name} may choose what it runs")
        self.check_program(Reading("bash"), folder)

    def _is_installed(self, path: str) -> bool:
        """Whether a program lies where the shell looks for programs, and not in the project."""
        place = os.path.realpath(os.path.dirname(path))
        known = map(os.path.realpath, filter(None, self.environ.get("PATH", "").split(":")))
        return not is_inside(place, self.folder) and place in known


def _linked_names(path: str) -> Iterator[str]:
    """The names of what a path leads to, link by link."""
    for _ in range(_MAX_LINKS_FOLLOWED):
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
        yield os.path.basename(path)


def _is_copy(path: str, original: str) -> bool:
    """Whether a file has the contents of a program, or is the same one by a hard link."""
    try:
        if os.path.samefile(path, original):
            return True
        if os.path.getsize(path) != os.path.getsize(original):
            return False
        return filecmp.cmp(path, original, shallow=False)
    except OSError:
        return False


def _file_digest(path: str) -> bytes:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return repr(error).encode()


def _is_program_itself(name: str, real: str) -> bool:
    """Whether a real path is the program of this name, and no script or other program that chooses one."""
    try:
        with open(real, "rb") as file:
            start = file.read(2)
    except OSError:
        return False
    plain = re.escape(name.rstrip("0123456789."))  # Debian's gcc is x86_64-linux-gnu-gcc-12
    return start != b"#!" and re.match(rf"(?:\w+-)*{plain}", os.path.basename(real)) is not None


def _script_language(name: str, real: str) -> str:
    """What runs the script of this name that tells its own version: `node`, or a path; else ""."""
    started = _SCRIPT_START.match(_first_text(real))
    itself = os.path.basename(real).startswith(name.rstrip("0123456789.")) and "corepack" not in real
    return (started[1] or started[2]) if started and itself else ""


def _asks_for_newer(folder: str, go: str) -> bool:
    """Whether files of a folder let go, as it is installed, run a newer edition of itself."""
    asked = [_first_text(f"{folder}/{name}", _MAX_LIST_BYTES) for name in ("go.mod", "go.work")]
    editions = [found for text in asked for found in re.findall(r"(?m)^\s*(?:go|toolchain)\s+(\S+)", text)]
    own = _edition(_first_text(f"{os.path.dirname(os.path.dirname(go))}/VERSION").partition("\n")[0])
    newer = any(not own or not _edition(each) or _edition(each) > own for each in editions)
    return newer and (not own or own >= _GO_THAT_FETCHES)


def _edition(text: str) -> tuple[int, ...]:
    """`go1.22.3` as numbers; none for any other text."""
    plain = re.fullmatch(r"(?a:(?:go)?(\d+(?:\.\d+)*))\s*", text)
    return tuple(map(int, plain[1].split("."))) if plain else ()


def _first_text(path: str, limit: int = _MAX_EDITIONS_BYTES) -> str:
    """The beginning of a file, "" where there is none."""
    try:
        with closing(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as file:
            return os.read(file, limit).decode("latin-1")
    except OSError:
        return ""

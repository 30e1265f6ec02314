"""The paths of a machine that must not be lost by mistake, and the commands that reach them. Pure.

The directory of each command in a line is tracked: a `cd` is in effect until its subshell ends.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .line_reading import Invocation
from .parsed_text import ANY, CLASS, HOME, MARKS, ONE, SPLIT, STAR, UNSET, is_open

_SYSTEM_FOLDERS = word_set(
    "bin boot dev etc home lib lib32 lib64 libx32 media mnt opt proc root run sbin srv sys usr var"
    " Users System Library Applications Volumes private cores nix snap"
)
_INNER_FOLDERS = word_set(  # in those, and equally vital
    "usr/bin usr/sbin usr/lib usr/lib32 usr/lib64 usr/libexec usr/local usr/share usr/include usr/src"
    " usr/local/bin usr/local/lib usr/local/share var/lib var/log var/spool var/db var/run"
    " etc/ssh etc/ssl etc/pam.d etc/systemd etc/init.d lib/modules lib/systemd usr/lib/systemd boot/efi"
    " boot/grub private/etc private/var System/Library Library/Preferences nix/store var/lib/dpkg var/lib/rpm"
)
_PARTS_OF_HOME = word_set(
    ".ssh .gnupg .config .aws .kube .local .mozilla .thunderbird Documents Desktop Downloads Pictures Music"
    " Videos Library"
)
_PARTS_OF_GIT = word_set("objects refs logs HEAD index config")
_OWN_PROCESS = lazy_pattern(r"^/+proc/+(?:self|thread-self)/+(cwd|root)(?=/|$)")  # links to other places
_EVERYTHING = lazy_pattern(rf"[.{STAR}{ONE}]*{STAR}[.{STAR}{ONE}]*")  # a pattern that matches every name
_EMPTY_IF_UNSET = lazy_pattern(f"{UNSET}[{ANY}{SPLIT}]")
_SYSTEM_FILE = lazy_pattern(
    r"/(?:private/)?etc/(?:(?:pam\.d|sudoers\.d|security|ld\.so\.conf\.d|init\.d|rc\d?\.d)/)?[^/]+"
    r"|/boot/(?:grub2?/|efi/|EFI/)?[^/]+|(?:/usr)?/s?bin/[^/]+|(?:/usr)?/lib(?:32|64|x32)?/(?:\w+-linux-\w+/)?[^/]+"
    r"|/System/[^/]+|/proc/sys/kernel/core_pattern"
)
_FATAL_FILE = lazy_pattern(
    r"/(?:private/)?etc/(?:passwd|shadow|group|gshadow|sudoers|sudoers\.d/.+|fstab|crypttab|ld\.so\.preload"
    r"|ld\.so\.conf|pam\.d/.+|securetty|inittab|master\.passwd)-?|/boot/[^/]+|/proc/sys/kernel/core_pattern"
)
_DISK = lazy_pattern(
    r"/dev/(?:[shv]d[a-z]|xvd[a-z]|nvme\d|mmcblk\d|loop\d|md\d|dm-\d|nbd\d|zd\d|sr\d|sg\d|zram\d|ram\d|pmem\d"
    r"|mtd|ubi|dasd|r?disk\d|k?mem\Z|port\Z|nvram|mapper/|disk/|block/|bsg/|by-|vg|md/)"
)
_DISK_OF_ANY_NAME = lazy_pattern(f"/dev/[shv]?d?[{ANY}{SPLIT}{STAR}{ONE}{CLASS}]")


class Places(Struct, frozen=True):
    """The directories for judging a line (project, home, current directory), as real paths."""

    folder: str
    home: str
    cwd: str


def paths_of(word: str, places: Places, here: str | None) -> list[str]:
    """Return the absolute paths that a word may mean, with globs as marks; none if it is unknown.

    `here` is the directory that it is relative to, None if unknown. In a word that begins with an unset
    variable, that variable is empty.
    """
    word = word.replace(HOME, places.home or "/home/user")
    if _EMPTY_IF_UNSET.search(word):
        word = _EMPTY_IF_UNSET.sub("", word)
        if not word.startswith("/") and word != "":
            return []
    if ANY in word or SPLIT in word:
        return []
    word = _OWN_PROCESS.sub(lambda link: "/" if link[1] == "root" else here or ANY, word)
    if ANY in word:
        return []
    if not word.startswith("/"):
        if here is None or not word:
            return []
        word = f"{here}/{word}"
    return [posixpath.normpath(re.sub("/+", "/", word))]


def vital_place(path: str, places: Places) -> str:
    """Return a name for a vital path, such as "the project"; "" if it is not vital.

    A path to everything in a directory counts as a path to that directory.
    """
    folder = path
    name = posixpath.basename(path)
    while _EVERYTHING.fullmatch(name):
        folder = posixpath.dirname(folder)
        name = posixpath.basename(folder)
    if folder == "/" or (posixpath.dirname(folder) == "/" and MARKS.search(name)):
        return "the root directory"
    if folder.startswith(("/home/", "/Users/")) and folder.count("/") == 2:
        return "a home directory"
    if folder in (places.home, "/root") or _is_part_of_home(folder, places.home):
        return "a home directory"
    is_drive = re.fullmatch(r"/(?:mnt|cygdrive)/[a-zA-Z]", folder)  # a Windows drive
    if is_drive or folder[1:] in _INNER_FOLDERS or folder[1:] in _SYSTEM_FOLDERS:
        return "a system directory"
    return _near_place(folder, places)


def _near_place(folder: str, places: Places) -> str:
    """Return a name as `vital_place` does, for places that depend on the project."""
    if folder == places.folder:
        return "the project"
    if folder == places.cwd:
        return "the current directory"
    if any(f"{place}/".startswith(f"{folder}/") for place in (places.folder, places.cwd) if place):
        return "a directory above the project"
    for place in (places.folder, places.cwd):
        inner = folder.casefold().removeprefix(f"{place}/.git".casefold())
        if inner != folder.casefold() and (inner == "" or inner[1:] in _PARTS_OF_GIT):
            return "the repository's .git"
        if posixpath.dirname(folder) == place and name_fits(posixpath.basename(folder), ".git"):
            return "the repository's .git"
    return ""


def name_fits(pattern: str, name: str) -> bool:
    """Return whether a name with glob marks may be that name. A mark does not stand for a leading dot."""
    if pattern == name:
        return True
    marks = {STAR: ".*", ONE: ".", CLASS: "."}
    if name.startswith(".") and pattern[:1] in marks:
        return False
    return re.fullmatch("".join(marks.get(char, re.escape(char)) for char in pattern), name) is not None


def _is_part_of_home(folder: str, home: str) -> bool:
    return home != "" and folder.startswith(f"{home}/") and folder[len(home) + 1 :] in _PARTS_OF_HOME


def is_device(path: str) -> bool:
    """Return whether a path is a device file of a disk or of memory."""
    return _DISK.match(path) is not None or _DISK_OF_ANY_NAME.match(path) is not None


def is_system_file(path: str, *, appended: bool = False) -> bool:
    """Return whether a path is a system file needed for booting or for access control.

    Few of them are harmed by appending.
    """
    return (_FATAL_FILE if appended else _SYSTEM_FILE).fullmatch(path) is not None


class Scene(Struct, frozen=True):
    """A command and its directory `here`, a real path, None if it is unknown.

    line  all commands of the line
    """

    command: Invocation
    here: str | None
    places: Places
    line: tuple[Invocation, ...]

    @property
    def program(self) -> str:
        return self.command.program

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.command.words[1:]

    def paths(self, word: str) -> list[str]:
        """Return the absolute paths that a word may mean."""
        return paths_of(word, self.places, self.here)

    def vital(self, word: str) -> str:
        """Return a name for the vital path that a word means; "" if there is none."""
        return next(filter(None, (vital_place(path, self.places) for path in self.paths(word))), "")

    def options(self) -> list[str]:
        """Return the arguments that are options."""
        words = list(self.arguments)
        end = words.index("--") if "--" in words else len(words)
        return [word for word in words[:end] if word.startswith("-") and len(word) > 1]

    def operands(self, with_values: frozenset[str] = frozenset()) -> list[str]:
        """Return the arguments that are neither options nor values of the options `with_values`."""
        found: list[str] = []
        words = iter(self.arguments)
        for word in words:
            if word == "--":
                return [*found, *words]
            if word.startswith("-") and len(word) > 1:
                if word in with_values:
                    next(words, None)
            else:
                found.append(word)
        return found

    def has_flag(self, letters: str, *names: str) -> bool:
        """Return whether one of the letters or one of the long options is given."""
        for option in self.options():
            if option.startswith("--"):
                if any(name.startswith(option.partition("=")[0]) for name in names):
                    return True
            elif not set(letters).isdisjoint(option):
                return True
        return False


def scenes(
    invocations: Sequence[Invocation], places: Places, *, unset_is_unknown: bool = False
) -> Iterator[Scene]:
    """Yield each command of a line with the directory that it runs in.

    After `cd $DIR` without a value for DIR that is the home directory, as if it were unset, or unknown.
    """
    moves: list[tuple[tuple[int, ...], str | None]] = [((), places.cwd or places.folder or None)]
    line = tuple(invocations)
    for command in invocations:
        here = next(place for shells, place in reversed(moves) if command.shells[: len(shells)] == shells)
        scene = Scene(command, here=here, places=places, line=line)
        yield scene
        if scene.program in ("cd", "pushd", "popd") and command.sure:
            is_unknown = unset_is_unknown and any(UNSET in word for word in scene.operands())
            moves.append((command.shells, None if is_unknown else _destination(scene)))


def _destination(scene: Scene) -> str | None:
    """Return the target of `cd`, None if it is unknown."""
    if scene.program == "popd":
        return scene.places.cwd or None
    target = next(iter(scene.operands()), "~")
    if target == "~" or target == UNSET + SPLIT:
        return scene.places.home or None
    if target.startswith(UNSET) and is_open(target):
        return scene.here
    paths = scene.paths(target)
    return paths[0] if paths else None

"""Point out the lines of a script that a user should read twice before approving it.

`risky_lines` reports lines that download and run code, delete, or send data to another machine, and command
names that mix letters of several scripts. A report asks for attention, it decides nothing: the permission
rules do not use it. In

    set -e
    curl -fsSL https://example.org/install.sh | sh
    rm -rf build

line 2 downloads and runs code, and line 3 deletes. Each line is read by itself, to know its number, and the
script as a whole, to know what it really runs: `rm` in a here-document that `cat` prints is not reported,
and what only the whole shows, such as `rm` after a line break within quotes, is reported without a number.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from itertools import islice, pairwise
from typing import NamedTuple

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .launched_commands import is_interpreter
from .launcher_tables import SHELLS
from .line_reading import Invocation, LineReading, read_line
from .mass_deletion import FINDERS, REMOVERS

DOWNLOADS_AND_RUNS = "downloads and runs code"
DELETES = "deletes data"
SENDS = "sends data"

_DOWNLOADERS = word_set("curl wget aria2c axel fetch http https xh lwp-request")
_RUNNERS = SHELLS | {"eval", "source", "."}
_DELETERS = REMOVERS - {"gio"} | word_set("rmdir wipe wipefs truncate dropdb mkfs")
_DELETING_OPTIONS = {
    **dict.fromkeys(FINDERS, ("-delete",)),
    "rsync": ("--del", "--remove-source-files"),
    "git": ("clean", "rm", "--hard", "-D", "drop", "--mirror"),
    "docker": ("rm", "rmi", "prune"),
    "kubectl": ("delete",),
}
_SENDERS = word_set("scp sftp ftp nc ncat netcat socat telnet mail mailx sendmail ssh twine rclone")
_SENDING_OPTIONS = {
    "curl": ("-d", "--data", "-F", "--form", "-T", "--upload-file", "--json"),
    "wget": ("--post", "--body", "--method=P"),
    "git": ("push",),
    "npm": ("publish",),
    "cargo": ("publish",),
    "docker": ("push",),
}
_REMOTE_PLACE = lazy_pattern(r"[\w.@-]+:(?!//).*")  # of rsync: host:path
_LOOKALIKES = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "FULLWIDTH", "MATHEMATICAL", "PHONETIC")
_LATIN_LOOKING = frozenset("асеорхуіјѕһԁԛԝ")  # Cyrillic; a name may consist of them
_PHONETIC = lazy_pattern("[\u0131\u0250-\u02af\u1d00-\u1dbf]")  # Latin letters by name


class RiskyLine(NamedTuple):
    """The effect of a line, in words that follow "it", and its number from 1; 0 if the line is not known."""

    number: int
    effect: str


def risky_lines(script: str) -> tuple[RiskyLine, ...]:
    """Return the lines of a script that should be read twice, in their order."""
    whole_script = read_line(script)
    certain = {*_effects(whole_script), *_runs_of_downloads(whole_script)}
    lines = script.split("\n")
    found = []
    for number, line in enumerate(islice(lines, 2_000), 1):
        reading = read_line(line)
        effects = dict.fromkeys((*_effects(reading), *_runs_of_downloads(reading)))
        found += [RiskyLine(number, effect) for effect in effects if effect in certain or whole_script.opaque]
    numbered = {each.effect for each in found}
    return (*found, *(RiskyLine(0, effect) for effect in sorted(certain - numbered)))


def _effects(reading: LineReading) -> Iterator[str]:
    """Yield the effects of single commands."""
    for command in reading.invocations:
        arguments = command.words[1:]
        program = command.program
        if program in _DELETERS or _has_option(arguments, _DELETING_OPTIONS.get(program, ())):
            yield DELETES
        if program in _SENDERS or _has_option(arguments, _SENDING_OPTIONS.get(program, ())):
            yield SENDS
        if program == "rsync" and any(map(_REMOTE_PLACE.fullmatch, arguments)):
            yield SENDS
        name = command.words[0] if command.words else ""
        if mixed := _mixed_scripts(name):
            yield f"runs {name}, a name that mixes {mixed} letters"
        letters = set(filter(str.isalpha, name))
        if letters and letters <= _LATIN_LOOKING:
            yield f"runs {name}, a name of Cyrillic letters that look Latin"


def _has_option(arguments: Iterable[str], options: tuple[str, ...]) -> bool:
    """Return whether an argument is one of the options, or a long option begins with it."""
    return any(
        word == option or (option.startswith("--") and word.startswith(option))
        for word in arguments
        for option in options
    )


def _runs_of_downloads(reading: LineReading) -> Iterator[str]:
    """Yield DOWNLOADS_AND_RUNS where the output of a downloader, or a file it wrote, is run."""
    commands = reading.invocations
    downloads = [command for command in commands if command.program in _DOWNLOADERS]
    if not downloads:
        return
    files = {name for command in downloads for name in _written_by(command)}
    for command in commands:
        runs_code = command.program in _RUNNERS or is_interpreter(command.program)
        named = {word.removeprefix("./") for word in command.words}
        is_fed = command.source is not None and command.source.program in _DOWNLOADERS
        is_unknown = reading.opaque and command.program in _RUNNERS
        is_file = bool(command.words) and command.words[0].removeprefix("./") in files
        if is_file or (runs_code and (is_fed or is_unknown or named & files)):
            yield DOWNLOADS_AND_RUNS


def _written_by(command: Invocation) -> Iterator[str]:
    """Yield the names of the files that a downloader writes, if they can be determined."""
    words = command.words
    for option, value in pairwise(words):
        if option in ("-o", "-O", "--output", "--output-document"):
            yield value.rpartition("/")[2] if "://" in value else value.removeprefix("./")
    for word in words[1:]:
        if "://" in word:
            yield word.rpartition("/")[2]
    yield from (each.target.removeprefix("./") for each in command.redirects if each.writes)


def _mixed_scripts(name: str) -> str:
    """Return the scripts that a name mixes, such as "Latin and Cyrillic"; "" if it mixes no lookalikes."""
    if name.isascii():
        return ""
    scripts = {_script(char) for char in name if char.isalpha()}
    alike = sorted(scripts.intersection(_LOOKALIKES))
    return f"Latin and {' and '.join(map(str.capitalize, alike))}" if "LATIN" in scripts and alike else ""


def _script(char: str) -> str:
    """Return the first word of the name of a letter, such as "CYRILLIC"."""
    return "PHONETIC" if _PHONETIC.match(char) else unicodedata.name(char, "").partition(" ")[0]

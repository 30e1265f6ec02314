"""Find the files of the project that tell the programs in a line what to do, such as a Makefile.

A rule that runs `make install` outside the sandbox was given for the Makefile that the user knew. A sandboxed
command can rewrite it, and then the same line would run anything outside. So the rule remembers the digests
of these files: those that the program reads by itself, the scripts that the line names (whichever program
gets them), and the scripts of the project that either of them names.

The code that a program is made of is not covered: what `cargo run` compiles, and the modules that `pytest`
imports. A user who always allows that accepts the code as it changes. A question after each edit would make
the rule useless, and a smaller set of files would be a guess. Data is not covered either, such as what
`scp` sends.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct, field

from tools.text import word_set

from .line_reading import Invocation, read_line
from .made_repositories import made_digests
from .parsed_text import is_unknown
from .program_names import Standpoint, own_programs_of
from .steering_names import READ_BY
from .vital_places import scenes

_INTERPRETERS = word_set(
    "sh bash dash zsh ruby perl php deno tsx ts-node Rscript lua julia psql expect ansible-playbook"
)


class KnownPrograms(Struct, frozen=True):
    """The programs and files behind a line when the user allowed it outside the sandbox.

    programs  the digest of the project's own programs in the line, "" if it names none
    files     the digests of the files that tell its programs what to do, by their paths in the project
    """

    programs: str = ""
    files: Mapping[str, str] = field(default_factory=dict)

    def changed_file(self, now: KnownPrograms) -> str:
        """Return the first file that was changed, added or removed since; "" if there is none.

        Removed ones come last, since a changed file may no longer name them.
        """
        names = [*sorted(now.files), *sorted(self.files)]
        return next((name for name in names if self.files.get(name) != now.files.get(name)), "")


def known_programs(line: str, seen: Standpoint) -> KnownPrograms:
    """Return the present state of the project's programs in a line, and of the files that steer them."""
    files: dict[str, str] = {}
    for scene in scenes(read_line(line).invocations, seen.places):
        command = scene.command
        here = scene.here or seen.places.cwd
        names = [*READ_BY.get(command.program, "").split(), *_named_files(command)]
        found = dict(seen.files.steering_digests(names, list(_operands(command)), here))
        if here == seen.places.cwd:  # in which the programs are looked for, too
            found.pop(posixpath.relpath(posixpath.join(here, *command.words[:1]), seen.places.folder), None)
        files |= found
    files |= made_digests(line, seen)
    return KnownPrograms(own_programs_of(line, seen.places.cwd, seen.files), files)


def _named_files(command: Invocation) -> Sequence[str]:
    """Return the words of a command that may name a script or a file of instructions."""
    given = [
        each.target for each in command.redirects if each.operator == "<" and not is_unknown(each.target)
    ]
    first = next(iter(command.words), "")  # a redirection may stand alone
    if "/" in first and not is_unknown(first):
        return [first, *given]
    if command.program not in READ_BY and command.program not in _INTERPRETERS:
        return given
    words = list(_operands(command))
    modules = [word.replace(".", "/") for option, word in pairwise(words) if option == "-m"]
    given += (f"{module}{end}" for module in modules for end in (".py", "/__main__.py"))
    return [*given, *(word.rpartition("=")[2] for word in words)]


def _operands(command: Invocation) -> Iterator[str]:
    return (word for word in command.words[1:] if not is_unknown(word) and "\0" not in word)

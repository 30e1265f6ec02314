"""Find what git acts on in the repositories below a project that commands may have made.

The sandbox keeps the settings and hooks of the project's own repository read-only. A command can make another
repository, with any settings and hooks. They cannot do more than the command itself, until the user lets a
line with git run outside the sandbox: there, `git -C lib push` runs `core.sshCommand` and `hooks/pre-push` of
`lib`. So the question names them, and a rule for the line remembers them. Pure: files are accessed through a
port.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .line_reading import read_line
from .option_syntax import NotProved
from .parsed_text import is_unknown
from .program_names import GitCall, Standpoint
from .vital_places import Scene, scenes

_USING_GIT = word_set("git gh glab hub")
# Settings that name programs, further settings of other places, or where files are written.
_ACTED_ON = lazy_pattern(
    r"alias\..*|browser\..*\.cmd|core\.(?:alternaterefscommand|askpass|editor|fsmonitor|gitproxy|hookspath|pager"
    r"|sshcommand|worktree)|credential\.(?:.*\.)?helper|diff\.(?:external|.*\.(?:command|textconv))"
    r"|(?:diff|gui|merge)tool\..*\.(?:cmd|path)|filter\..*\.(?:clean|process|smudge)"
    r"|gpg\.(?:.*\.)?(?:defaultkeycommand|program)|interactive\.difffilter|merge\..*\.driver|pager\..*"
    r"|protocol\..*allow|remote\..*\.(?:receivepack|uploadpack|vcs)|sendemail\..*|sequence\.editor"
    r"|trailer\..*\.(?:cmd|command)|url\..*insteadof|hooks/.*"
)
_UNREADABLE = "settings that cannot be read"


def acted_on(line: str, seen: Standpoint) -> str:
    """Return what a line would act on in repositories below the project, in a few words; "" for nothing."""
    found: dict[str, list[str]] = {}
    for folder, values in _made_values(line, seen):
        names = [name for name in values if _is_acted_on(name, values[name])]
        if names:
            found[posixpath.relpath(folder, seen.places.folder)] = names
    return "; ".join(f"{place}/.git: {_shortened(names)}" for place, names in found.items())


def made_digests(line: str, seen: Standpoint) -> dict[str, str]:
    """Return a digest of what a line would act on in each such repository, by the path of its settings."""
    found: dict[str, str] = {}
    for folder, values in _made_values(line, seen):
        hooks = [path for name, paths in values.items() if name.startswith("hooks/") for path in paths]
        contents = seen.files.steering_digests(hooks, [], folder)
        text = repr((sorted(values.items()), sorted(contents.items())))
        place = posixpath.relpath(folder, seen.places.folder)
        found[f"{place}/.git/config"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return found


def _made_values(line: str, seen: Standpoint) -> Iterator[tuple[str, Mapping[str, Sequence[str]]]]:
    """Yield each directory of a repository that a line's commands work in, with what it contains."""
    folders = (
        each for scene in scenes(read_line(line).invocations, seen.places) for each in _folders(scene, seen)
    )
    for folder in dict.fromkeys(folders):
        try:
            values = seen.files.made_git_values(folder)
        except NotProved:
            values = {_UNREADABLE: []}
        if values:
            yield folder, values


def _folders(scene: Scene, seen: Standpoint) -> Iterator[str]:
    """Yield the directories in which a command may use git, and the git directories that it names."""
    if scene.program not in _USING_GIT:
        return
    here = scene.here or seen.places.cwd or seen.places.folder
    call = GitCall.of(scene.command.words if scene.program == "git" else ())
    folder = call.folder(here, seen.places.home)
    if folder is not None:
        yield posixpath.normpath(folder)
    named = [value for option, value in pairwise(call.options) if option == "--git-dir"]
    named += [option.partition("=")[2] for option in call.options if option.startswith("--git-dir=")]
    for value in named:
        if not is_unknown(value):
            place = posixpath.normpath(posixpath.join(folder or here, value))
            yield posixpath.dirname(place) if posixpath.basename(place) == ".git" else place


def _is_acted_on(name: str, values: Sequence[str]) -> bool:
    """Return whether git may act on a setting; `submodule.NAME.update` is a command only by its value."""
    if name.startswith("submodule."):
        return any(value.startswith("!") for value in values)
    return name == _UNREADABLE or _ACTED_ON.fullmatch(name) is not None


def _shortened(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}"

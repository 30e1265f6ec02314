"""Find the command lines behind `make TARGET`, `npm run NAME` and `sh FILE`, as far as files show them.

With this Makefile, `make wipe` runs the lines `echo wiping` and `rm -rf .venv build`:

    OUT := build
    wipe: tell
            @rm -rf .venv $(OUT)
    tell:
            @echo wiping

What cannot be determined without running make is left out: functions, pattern rules and undefined variables.
`just` and `rake` are read likewise (task_files.py), and a shell script of the project is one line as a whole.
Scripts in other languages are not read. The files are read through a port.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, field
from msgspec.structs import replace

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .launched_commands import MAKEFILE_OPTIONS, MAKEFILES
from .launcher_arguments import option_values
from .launcher_tables import FILE_RUNNERS
from .line_reading import read_line
from .parsed_text import is_unknown
from .program_names import ProgramFiles
from .task_files import TASK_RUNNERS
from .vital_places import Places, Scene, scenes

_MAKERS = word_set("make gmake")
_MAKE_VALUES = word_set("-C --directory -f --file --makefile -I --include-dir -o -W")
_RUNNERS = word_set("npm pnpm yarn bun")
_TASK_RUNNERS = word_set(
    "run-s run-p npm-run-all npm-run-all2 turbo nx lerna node"
)  # each operand is a script
_BARE_SCRIPTS = word_set("test start stop restart")  # npm runs these without `run`
_SHELLS = word_set("sh bash dash zsh ksh ash")
_SHELL_VALUES = word_set("-o +o -O +O --rcfile --init-file")
_SHEBANG = lazy_pattern(r"#!\s*\S*?(?:/env\s+(?:-S\s+)?)?(?:\S*/)?(?:sh|bash|dash|zsh|ksh|ash)(?:\s.*)?")
_MAX_DEPTH = 3  # scripts that run scripts
# A command may write these files, and variables in variables grow without limit.
_MAX_FILE_CHARS = 200_000
_MAX_TEXT_CHARS = 10_000
_MAX_VALUE_CHARS = 2_000
_ASSIGNMENT = lazy_pattern(r"(?:(?:export|override)\s+)?([\w.-]+)\s*([:?+!]{0,3})=\s*(.*)")
_VARIABLE = lazy_pattern(r"\$(?:\(([\w.@-]+)\)|\{([\w.@-]+)\}|([@A-Za-z]))")
_INCLUDE = lazy_pattern(r"^ {0,8}[-s]?include[ \t]+(.+)$", re.MULTILINE)
_PATTERN = lazy_pattern(r"[*?\[]")
_CALL = lazy_pattern(r"\$\((?!shell\b)[^()]*\)|\$\{[^{}]*\}|\$[<^?*+|%]")


class _Makefile(Struct):
    """The rules and variables of a makefile; targets are in their order."""

    variables: dict[str, str]
    needs: dict[str, list[str]] = field(default_factory=dict)
    recipes: dict[str, list[str]] = field(default_factory=dict)


def lines_behind(line: str, places: Places, files: ProgramFiles) -> Iterator[tuple[str, Places]]:
    """Yield the command lines of the project's scripts that a line runs, each with its directories."""
    waiting = [(line, places, 0)]
    count = 0
    while waiting and count < 200:
        text, here, depth = waiting.pop()
        if depth > 0:
            count += 1
            yield text, here
        if depth < _MAX_DEPTH:
            found: dict[tuple[str, str], None] = {}  # `sh ./x` runs `./x` too
            for scene in scenes(read_line(text).invocations, here):
                found |= dict.fromkeys(_script_lines(scene, files))
            waiting += ((each, replace(places, cwd=folder), depth + 1) for each, folder in found)


def _script_lines(scene: Scene, files: ProgramFiles) -> Iterator[tuple[str, str]]:
    """Yield (line, directory) for what a command runs."""
    here = scene.here or scene.places.folder
    if scene.program in _MAKERS:
        yield from _make_lines(scene, here, files)
    elif scene.program in _RUNNERS:
        yield from _package_lines(scene, here, files)
    elif scene.program in _TASK_RUNNERS:
        yield from _task_lines(scene, here, files)
    elif scene.program in TASK_RUNNERS:
        yield from _recipe_lines(scene, here, files)
    elif path := _script_of_shell(scene):
        text = files.text(posixpath.join(here, path))[:50_000]
        is_named = scene.program in _SHELLS or scene.program in (".", "source")
        first = text.partition("\n")[0]
        is_shell = is_named or _SHEBANG.fullmatch(first) or not first.startswith("#!")
        if text and is_shell and "\0" not in text:
            yield text, here


def _script_of_shell(scene: Scene) -> str:
    """Return the file that a shell reads, or that a command names as its program; "" if there is none."""
    words = scene.command.words
    if scene.program in (".", "source"):
        return "".join(scene.operands()[:1])
    if scene.program in _SHELLS:
        is_inline = any(re.match(r"-\w*[cs]", word) for word in scene.options())
        named = scene.operands(_SHELL_VALUES)[:1]
        return "" if is_inline or not named or is_unknown(named[0]) else named[0]
    word = "".join(words[:1])
    return word if "/" in word and not is_unknown(word) and not _is_run_by_interpreter(scene) else ""


def _is_run_by_interpreter(scene: Scene) -> bool:
    """Return whether the command is a file that another one reads as code: `node scripts/build.js`."""
    words = scene.command.words
    return any(
        each.program.rstrip("0123456789.") in FILE_RUNNERS and each.words[-len(words) :] == words
        for each in scene.line
        if each.level < scene.command.level
    )


def _recipe_lines(scene: Scene, here: str, files: ProgramFiles) -> Iterator[tuple[str, str]]:
    """Yield the lines of the tasks that just or rake runs."""
    runner = TASK_RUNNERS[scene.program]
    named = list(option_values(list(scene.command.words), runner.names_file))
    text, folder = _nearest(named[:1] or runner.files, here, scene, files)
    operands = scene.operands(runner.names_file | runner.others)
    yield from ((line, folder) for line in runner.lines(text, operands))


def _nearest(names: Sequence[str], here: str, scene: Scene, files: ProgramFiles) -> tuple[str, str]:
    """Return the text of the first of these files, and its directory, in a directory or above it."""
    while True:
        for name in names:
            if text := files.text(posixpath.join(here, name)):
                return text, here
        if here in (scene.places.folder, "/"):
            return "", here
        here = posixpath.dirname(here)


def _make_lines(scene: Scene, here: str, files: ProgramFiles) -> Iterator[tuple[str, str]]:
    """Yield the recipes of the targets that a command makes, each line with the makefile's directory."""
    words = list(scene.command.words)
    for folder in option_values(words, frozenset(("-C", "--directory"))):
        here = posixpath.normpath(posixpath.join(here, folder))
    named = list(option_values(words, MAKEFILE_OPTIONS))
    candidates = named[:1] or MAKEFILES
    text = next(filter(None, (files.text(posixpath.join(here, name)) for name in candidates)), "")
    text = _with_included(text, here, files)
    operands = [word for word in scene.operands(_MAKE_VALUES) if not word.isdigit()]  # `-j 4`
    given = dict(word.split("=", 1) for word in operands if "=" in word)
    made = _parsed(text, given)
    targets = [word for word in operands if "=" not in word]
    first = [name for name in made.recipes if not name.startswith(".")][:1]
    for name in _reached(made, targets or first):
        for line in made.recipes[name]:
            yield _expanded(line, {**made.variables, "@": name}), here


def _with_included(text: str, here: str, files: ProgramFiles) -> str:
    """Return the text of a makefile and of those that it includes, whose names may contain its variables."""
    seen: set[str] = set()
    content = text[:_MAX_FILE_CHARS]
    waiting = [content]
    while waiting and len(content) < _MAX_FILE_CHARS:
        including = waiting.pop(0)
        found = _INCLUDE.findall(including)
        variables = _parsed(content, {}).variables if found else {}
        words = [word for row in found for word in _expanded(row.partition("#")[0], variables).split()]
        for name in [name for word in words for name in _matching(word, here, files)]:
            if name not in seen and len(seen) < 40:
                seen.add(name)
                more = files.text(posixpath.join(here, name))[:_MAX_FILE_CHARS]
                waiting.append(more)
                content = f"{content}\n{more}"
    return content[:_MAX_FILE_CHARS]


def _matching(word: str, here: str, files: ProgramFiles) -> Sequence[str]:
    """Return the files that a word of an include names, whose last part may be a pattern."""
    folder, pattern = posixpath.split(word)
    if not _PATTERN.search(pattern):
        return [word]
    names = files.file_names(posixpath.join(here, folder))
    return [posixpath.join(folder, name) for name in names if fnmatchcase(name, pattern)]


def _parsed(text: str, given: dict[str, str]) -> _Makefile:
    """Parse a makefile; the variables `given` on the command line override its own."""
    made = _Makefile({"RM": "rm -f", "MAKE": "make", **given})
    current: Sequence[str] = ()
    for line in text[:_MAX_FILE_CHARS].replace("\\\n\t", " ").replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for name in current:
                made.recipes[name].append(line.strip().lstrip("@-+ "))
        elif assigned := _ASSIGNMENT.fullmatch(line.strip()):
            name, operator, value = assigned.groups()
            known = made.variables.get(name)
            if operator == "+" and known:
                made.variables[name] = f"{known} {value}"
            elif name not in given and (operator != "?" or known is None):
                made.variables[name] = value
        elif ":" in line and line[0] not in "#: ":
            names, _, rest = line.partition(":")
            needs, _, recipe = rest.removeprefix(":").partition("#")[0].partition(";")
            current = _expanded(names, made.variables).split()
            for name in current:
                made.needs.setdefault(name, []).extend(_expanded(needs, made.variables).split())
                made.recipes.setdefault(name, []).extend([recipe.strip()] if recipe else [])
    return made


def _reached(made: _Makefile, targets: Sequence[str]) -> list[str]:
    """Return the targets that making `targets` may make, with those that they need."""
    found: dict[str, None] = {}
    waiting = list(targets)
    while waiting:
        name = waiting.pop()
        if name in made.recipes and name not in found:
            found[name] = None
            waiting += made.needs[name]
    return list(found)


def _expanded(text: str, variables: dict[str, str]) -> str:
    """Return a text of a makefile with its variables; undefined ones and functions are empty."""

    def value(found: re.Match[str]) -> str:
        return variables.get(found[1] or found[2] or found[3], "")[:_MAX_VALUE_CHARS]

    pieces = text[:_MAX_TEXT_CHARS].split("$$")
    for _ in range(5):  # variables in variables
        pieces = [_VARIABLE.sub(value, piece)[:_MAX_TEXT_CHARS] for piece in pieces]
    return "$".join(_CALL.sub("", piece) for piece in pieces)


def _package_lines(scene: Scene, here: str, files: ProgramFiles) -> Iterator[tuple[str, str]]:
    """Yield the script of a package that a command runs, and those that run before and after it."""
    words = scene.operands(word_set("--prefix -C --dir --cwd -w --workspace"))
    for folder in option_values(list(scene.command.words), word_set("--prefix -C --dir --cwd")):
        here = posixpath.normpath(posixpath.join(here, folder))
    if words[:1] in (["run"], ["run-script"]):
        words = words[1:]
    elif scene.program == "npm" and not _BARE_SCRIPTS.intersection(words[:1]):
        return
    yield from _named_scripts(words[:1], here, scene, files)


def _task_lines(scene: Scene, here: str, files: ProgramFiles) -> Iterator[tuple[str, str]]:
    """Yield the scripts of a package that `run-s lint test` and `node --run test` run."""
    words = list(scene.command.words)
    named = list(option_values(words, frozenset(("-t", "--target", "--targets", "--run"))))
    if scene.program != "node":
        named += (word for word in scene.operands() if word not in ("run", "run-many"))
    for name in (each for text in named for each in text.split(",")):
        yield from _named_scripts([name], here, scene, files)


def _named_scripts(
    words: Sequence[str], here: str, scene: Scene, files: ProgramFiles
) -> Iterator[tuple[str, str]]:
    """Yield the script of a package with a name, and those that run before and after it."""
    while words and not (text := files.text(posixpath.join(here, "package.json"))):
        if here in (scene.places.folder, "/"):
            return
        here = posixpath.dirname(here)
    try:
        scripts = json.loads(text)["scripts"] if words else {}
        found = [scripts.get(f"{kind}{words[0]}") for kind in ("pre", "", "post")] if scripts else []
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return  # npm cannot read it either
    yield from ((line[:_MAX_TEXT_CHARS], here) for line in found if isinstance(line, str))

"""Read the recipes of justfiles and Rakefiles: the command lines of a task and of those that it needs.

    out := "build"                       task wipe: [:tell] do
    wipe: tell                             rm_rf "build"
        rm -rf {{out}} node_modules        sh "git clean -fdx"
                                         end

`just wipe` and `rake wipe` run the same lines. Functions, parameters and other Ruby are left out. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from tools.text import word_set
from transcripts.patterns import lazy_pattern

_MAX_FILE_CHARS = 200_000
_MAX_VALUE_CHARS = 2_000
_MAX_LINE_CHARS = 2_000
_JUST_VARIABLE = lazy_pattern(r"(?:export\s+)?([\w-]+)\s*:=\s*(.*)")
_JUST_RECIPE = lazy_pattern(r"@?([A-Za-z_][\w-]*)((?:\s+[^:=]*(?:=[^:]*)?)?)\s*:(?!=)\s*([^#]*)")
_JUST_VALUE = lazy_pattern(r"\{\{\s*([\w-]+)\s*\}\}")
_RAKE_TASK = lazy_pattern(
    r"(\s*)(?:task|file|multitask)\s*\(?\s*:?['\"]?([\w:.-]+?)['\"]?\s*(?:=>|:(?!\w)|,|\)|do|\{|$)(.*)"
)
_RAKE_STRING = r"(?:\"((?:[^\"\\]|\\.){1,2000})\"|'((?:[^'\\]|\\.){1,2000})')"
_RAKE_COMMAND = lazy_pattern(
    rf"(?:\b(?:sh|system|exec)\s*\(?\s*(?:{_RAKE_STRING})|[`]([^`\n]{{1,2000}})[`]|%x[{{(\[]([^)}}\]\n]{{1,2000}}))"
)
_RAKE_REMOVAL = lazy_pattern(
    rf"\b(?:rm_rf|rm_r|rmtree|remove_dir|remove_entry_secure|rm_f|rm)\s*\(?\s*((?:{_RAKE_STRING}[\s,]*){{1,50}})"
)
_RAKE_NEEDS = lazy_pattern(r":(\w[\w:]*)|['\"]([\w:.-]+)['\"]")


class Recipe(Struct):
    """The command lines of a task, and the tasks that it needs."""

    lines: list[str] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)


def _lines(text: str) -> list[str]:
    return [line for line in text[:_MAX_FILE_CHARS].splitlines() if len(line) < _MAX_LINE_CHARS]


def just_lines(text: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the lines that `just WORDS` runs, with a justfile of this text."""
    variables: dict[str, str] = {}
    recipes: dict[str, Recipe] = {}
    aliases: dict[str, Recipe] = {}
    current: Recipe | None = None
    for line in _lines(text.replace("\\\n", " ")):
        if line[:1] in (" ", "\t"):
            if (
                current is not None
                and (command := line.strip().lstrip("@-"))
                and not command.startswith("#!")
            ):
                current.lines.append(command)
        elif assigned := _JUST_VARIABLE.fullmatch(line):
            variables[assigned[1]] = assigned[2].strip().strip("'\"")[:_MAX_VALUE_CHARS]
        elif (found := _JUST_RECIPE.fullmatch(line)) and not line.startswith(("alias ", "set ")):
            current = recipes[found[1]] = Recipe(needs=re.findall(r"[\w-]+", found[3]))
        elif line.startswith("alias ") and (":=" in line):
            alias, _, target = line[6:].partition(":=")
            aliases[alias.strip()] = Recipe(needs=[target.strip()])
    given = dict(word.split("=", 1) for word in words if "=" in word)
    first = list(recipes)[:1]
    recipes |= aliases
    named = [word for word in words if word in recipes] or first

    def value(found: re.Match[str]) -> str:
        return {**variables, **given}.get(found[1], "")

    for line in _reached(recipes, named):
        yield _JUST_VALUE.sub(value, line)


def rake_lines(text: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the lines that `rake WORDS` runs, with a Rakefile of this text. Each removal is one of `rm`."""
    recipes: dict[str, Recipe] = {}
    current: Recipe | None = None
    margin = ""
    for line in _lines(text):
        if found := _RAKE_TASK.fullmatch(line):
            margin = found[1]
            needs = [name or other for name, other in _RAKE_NEEDS.findall(found[3])]
            current = recipes.setdefault(found[2], Recipe())
            current.needs += needs
        elif line.startswith((f"{margin}end", f"{margin}}}")):
            current = None
            continue
        if current is not None:
            current.lines += _commands_of_ruby(line)
    named = [re.split(r"[^\w:.-]", word)[0] for word in words if "=" not in word] or [
        "default"
    ]  # NAME[ARGUMENT]
    yield from _reached(recipes, named)


def _commands_of_ruby(line: str) -> Iterator[str]:
    if line.lstrip().startswith("#"):
        return
    for groups in _RAKE_COMMAND.findall(line):
        yield next(filter(None, groups))
    for found in _RAKE_REMOVAL.finditer(line):
        names = [double or single for double, single in re.findall(_RAKE_STRING, found[1])]
        yield shlex.join(["rm", "-rf", *names])


def _reached(recipes: Mapping[str, Recipe], named: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the named tasks and of those that they need, each once."""
    waiting = list(named)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in recipes and name not in seen:
            seen.add(name)
            yield from recipes[name].lines
            waiting += recipes[name].needs


class TaskRunner(NamedTuple):
    """A program that runs tasks: the usual names of their file, and its options that take a value.

    names_file  those that name another file
    lines       yields the lines that words of it run, given the text of the file
    """

    files: Sequence[str]
    names_file: frozenset[str]
    others: frozenset[str]
    lines: Callable[[str, Sequence[str]], Iterator[str]]


TASK_RUNNERS: Mapping[str, TaskRunner] = {
    "just": TaskRunner(
        ("justfile", "Justfile", ".justfile", "JUSTFILE"),
        names_file=word_set("-f --justfile"),
        others=word_set("-d --working-directory --set --shell --dotenv-path"),
        lines=just_lines,
    ),
    "rake": TaskRunner(
        ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
        names_file=word_set("-f --rakefile"),
        others=word_set("-C --directory -I --libdir -r --require -R --rakelibdir"),
        lines=rake_lines,
    ),
}

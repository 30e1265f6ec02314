"""Every simple command that a line runs, by whatever means: what is forbidden is looked for among these.

Where it cannot be told what runs, the reading says so; it never leaves a command out in silence.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from functools import lru_cache

from .grammar import read_shell_text
from .launched_commands import MAKEFILES, MAKES, is_interpreter, launched_by, names_program, recipes
from .launches import Launch, Script, is_unknown, program_name, value_commands
from .parsed_text import (
    ANY,
    CLASS,
    HOME,
    MARKS,
    MAX_STEPS,
    ONE,
    STAR,
    UNSET,
    Assignment,
    Gathered,
    Part,
    RawCommand,
    RawWord,
    UnreadableError,
)
from .simple_commands import find_possible_commands
from .word_expansion import Values, choices, expand_word, expanded_text, known_values

MAX_LEVELS = 12  # of scripts and launchers within each other
MAX_COMMANDS = 250  # of one line, those within scripts included
MAX_FALLBACK_CHARS = 10_000
_SETTING_BUILTINS = frozenset(
    ("read", "mapfile", "readarray", "printf", "getopts", "unset", "let", "declare")
)
_FILE_COPIERS = frozenset(("cp", "mv", "ln", "install"))
_POSITIONAL = [Assignment(name, None) for name in ("@", "*", *"0123456789")]
_TYPING_BUILTINS = frozenset(("declare", "typeset", "local"))
_SCRIPT_VARIABLES = frozenset(("BASH_ENV", "ENV", "PROMPT_COMMAND"))
_EMPTY_INPUT = ("/dev/null", "/dev/zero", "/dev/full")


@dataclass(frozen=True, slots=True)
class Invocation:
    """A simple command that a line runs. Marks (see word_expansion.py) stand for what is not known.

    redirects  (operator, target)
    streams    what stands before each of these operators, for people: "2"
    stdin      the text of its input; None where it has none, ANY where that is not known
    source     the command whose output it reads
    joint      the operator behind it
    within     the functions in whose bodies it stands
    shells     numbers of the subshells and scripts in which it is run, the outermost first
    sure       False for what is run only under circumstances that cannot be seen
    level      0 in the line itself; one more for each launcher or script around it
    """

    words: tuple[str, ...]
    redirects: tuple[tuple[str, str], ...] = ()
    stdin: str | None = None
    source: Invocation | None = None
    joint: str = ""
    within: tuple[str, ...] = ()
    shells: tuple[int, ...] = ()
    sure: bool = True
    level: int = 0
    streams: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """The name of the program without its folder, in lower case; "" where it is not known."""
        return program_name(self.words[0]) if self.words else ""

    @property
    def holds_more_than_words(self) -> bool:
        """Whether it holds by itself what no line may that is split into simple commands."""
        marked = (set(MARKS.findall(word)) - {STAR, ONE, CLASS} for word in self.words)
        files = (target for operator, target in self.redirects if not operator.endswith("&"))
        is_given = self.stdin is not None and self.source is None
        return is_given or any(marked) or any(target != "/dev/null" for target in files)

    def shown(self, max_chars: int) -> str:
        """Return the command as people write it; `…` stands for what is not known."""
        words = [_shown_word(word) for word in self.words]
        for (operator, target), stream in zip(self.redirects, self.streams, strict=False):
            words.append(f"{stream}{operator}{'' if operator.endswith('&') else ' '}{_shown_word(target)}")
        is_given = self.stdin is not None and self.source is None and not self.level
        if is_given and not any("<" in operator for operator, _ in self.redirects):
            words.append("<< …")  # a here-document, or a text
        text = " ".join(words)
        return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _shown_word(word: str) -> str:
    if MARKS.search(word):
        known = word.replace(UNSET, "").replace(HOME, "~").replace(STAR, "*")
        known = known.replace(ONE, "?").replace(CLASS, "[…]")
        return re.sub(f"{MARKS.pattern}+", "…", known)
    return word if word in ("[", "[[") else shlex.quote(word)


@dataclass(frozen=True, slots=True)
class LineReading:
    """What a line runs.

    code      texts in other languages that it runs
    opaque    it may run more, which cannot be told from the line
    assigned  the variables that it sets
    """

    invocations: tuple[Invocation, ...]
    code: tuple[str, ...] = ()
    opaque: bool = False
    assigned: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Progress:
    """What was found so far, and what may still be spent.

    written  what the line writes to which file
    feeds    some command has an input, and so may those within it
    """

    found: list[Invocation] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    scripts: set[tuple[object, ...]] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    steps: int = MAX_STEPS
    feeds: bool = False
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class _Scope:
    """Where a script stands: the variables it knows, and what its commands have in common."""

    values: Values
    level: int = 0
    source: Invocation | None = None
    shells: tuple[int, ...] = ()
    sure: bool = True


@lru_cache(maxsize=32)
def read_line(line: str) -> LineReading:
    """Everything that a line runs, as far as that can be told."""
    progress = _Progress()
    if MARKS.search(line):
        progress.opaque = True
        line = MARKS.sub(" ", line)
    _read_script(progress, Script(line), _Scope({}))
    found, code = tuple(progress.found), tuple(progress.code)
    return LineReading(found, code, progress.opaque, frozenset(progress.assigned))


def _read_script(progress: _Progress, script: Script, scope: _Scope) -> None:
    """Add what a shell text runs."""
    key = (script, scope.sure, tuple((name, *known) for name, known in scope.values.items()))
    if key in progress.scripts:
        return
    progress.scripts.add(key)
    gathered = Gathered(steps=progress.steps)
    try:
        read_shell_text(script.text, gathered)
    except UnreadableError:
        progress.opaque = True
        _add_fallback(progress, script.text, scope.level)
    progress.steps = gathered.steps
    progress.opaque = progress.opaque or gathered.unsure
    _add_gathered(progress, gathered, replace(scope, values={**scope.values, **_positional(script)}))


def _positional(script: Script) -> Values:
    """The values of `$0`, `$1` and so on; none where the script is not given any."""
    if not script.arguments:
        return {}
    numbered = {str(number): [text] for number, text in enumerate(script.arguments[:10])}
    return numbered | {"@": [" ".join(script.arguments[1:])], "*": [" ".join(script.arguments[1:])]}


def _add_fallback(progress: _Progress, text: str, level: int) -> None:
    """What looks like commands in a text that cannot be read."""
    if len(text) > MAX_FALLBACK_CHARS:
        return
    for words in find_possible_commands(text)[:MAX_COMMANDS]:
        progress.found.append(Invocation(tuple(words), sure=False, level=level))


def _add_gathered(progress: _Progress, gathered: Gathered, scope: _Scope) -> None:
    set_by_builtins = [each for command in gathered.commands for each in _set_by_builtin(command)]
    if gathered.functions:
        calls = (command for command in gathered.commands if _calls_function(command, gathered))
        set_by_builtins += [*_POSITIONAL, *(each for command in calls for each in _passed(command))]
    progress.assigned.update(each.name for each in gathered.assigned)
    values = known_values([*gathered.assigned, *set_by_builtins], scope.values)
    _add_programs(progress, values, scope)
    own = (known for name, known in values.items() if name not in scope.values)
    _add_texts(progress, [text for known in own for text in known], scope.level)
    scope = replace(scope, values=values)
    progress.feeds = progress.feeds or any(map(_is_fed, gathered.commands))
    expanded: dict[int, Invocation] = {}
    for command in gathered.commands:
        words = [*command.words, *(target for _, target, _ in command.redirects)]
        for choice in choices(words, values):
            invocation = _expanded(command, choice, scope, expanded)
            expanded.setdefault(id(command), invocation)
            _add(progress, invocation, scope)
        if _calls_function(command, gathered):
            _add_texts(progress, list(invocation.words[1:]), scope.level)


def _calls_function(command: RawCommand, gathered: Gathered) -> bool:
    return bool(command.words) and command.words[0].source in gathered.functions


def _passed(command: RawCommand) -> list[Assignment]:
    """What a call of a function may set `$1` and so on to."""
    arguments = command.words[1:]
    blank = Part("variable", "IFS", False)
    parts = [part for word in arguments for part in (*word.parts, blank)]
    numbered = [Assignment(str(number), word) for number, word in enumerate(arguments[:9], 1)]
    return [*numbered, *(Assignment(name, RawWord(tuple(parts), ""), listed=True) for name in "@*")]


def _add_programs(progress: _Progress, values: Values, scope: _Scope) -> None:
    """The programs that variables such as PAGER name, and the scripts that BASH_ENV names."""
    for name, known in values.items():
        if name in scope.values or not names_program(name):
            continue
        for text in known:
            if name in _SCRIPT_VARIABLES and (is_unknown(text) or _plain_path(text) in progress.written):
                progress.opaque = True
            if name.endswith("FLAGS"):
                progress.code.append(text)
            elif text.strip() and not is_unknown(text):
                level = scope.level + 1
                commands = (
                    Invocation(tuple(words), sure=False, level=level) for words in value_commands(text)
                )
                progress.found += commands


def _is_fed(command: RawCommand) -> bool:
    """Whether a command has an input, or gives another one its own."""
    words = (*command.words, *(target for _, target, _ in command.redirects))
    gives = command.joint in ("|", "|&") or any(">(" in word.source for word in words)
    return gives or any("<" in operator for operator, _, _ in command.redirects)


def _set_by_builtin(command: RawCommand) -> list[Assignment]:
    """The variables that `read x` and its like set to what is not known."""
    sources = [word.source for word in command.words]
    if sources[:1] in (["set"], ["shift"]):
        return _POSITIONAL
    if _TYPING_BUILTINS.intersection(sources[:2]) and any(
        re.fullmatch(r"-\w*[ni]\w*", word) for word in sources
    ):
        return [Assignment(source.partition("=")[0], None) for source in sources[1:]]
    if not _SETTING_BUILTINS.intersection(sources[:2]):
        return []
    return [Assignment(source, None) for source in sources[1:] if source.isidentifier()]


def _expanded(command: RawCommand, choice: int, scope: _Scope, expanded: dict[int, Invocation]) -> Invocation:
    values = scope.values
    words = tuple(text for word in command.words for text in expand_word(word, values, choice))
    source = scope.source if command.source is None else expanded.get(id(command.source))
    redirects: list[tuple[str, str]] = []
    streams: list[str] = []
    stdin = _output_of(source) if command.source is not None else None
    for (operator, target, document), stream in zip(command.redirects, command.streams, strict=True):
        if document is not None:
            stdin = expanded_text(document.body, values, choice) if document.body else ""
        elif operator == "<<<":
            stdin = expanded_text(target, values, choice)
        else:
            redirects.append((operator, " ".join(expand_word(target, values, choice))))
            streams.append(stream)
            if operator in ("<", "<>", "<&"):
                stdin = None if redirects[-1][1] in _EMPTY_INPUT else ANY
    return Invocation(
        words,
        tuple(redirects),
        stdin,
        source,
        command.joint,
        command.within,
        (*scope.shells, *command.shells),
        scope.sure,
        scope.level,
        tuple(streams),
    )


def _output_of(source: Invocation | None) -> str:
    """What a command writes into a pipe or a file, where that stands in the line."""
    if source is None or not source.words:
        return ANY
    name, *arguments = source.words
    if name == "tee" or (name == "cat" and not arguments):
        return ANY if source.stdin is None else source.stdin
    if name in ("true", ":", "false") or arguments == ["/dev/null"]:
        return ""
    plain = [word for word in arguments if not re.fullmatch("-[neE]+|--", word)]
    if name not in ("echo", "printf"):
        return ANY
    if name == "printf" and "%" in "".join(plain[:1]):
        form, *rest = plain
        if form.replace("%s", "").replace("%%", "").count("%") or form.count("%s") < len(rest):
            return ANY
        for word in rest:
            form = form.replace("%s", word, 1)
        plain = [form]
    text = " ".join(plain).replace("\\n", "\n").replace("\\t", "\t")
    return f"{text}\n{ANY}" if "\\" in text else text  # which some shells' echo interprets


def _add(progress: _Progress, invocation: Invocation, scope: _Scope) -> None:
    """Add a command, and what it runs."""
    if len(progress.found) >= MAX_COMMANDS or invocation.level > MAX_LEVELS:
        progress.opaque = True
        return
    progress.found.append(invocation)
    _note_written(progress, invocation)
    if not invocation.words:
        return
    stdin = ANY if invocation.stdin is None and progress.feeds else invocation.stdin
    made = launched_by(list(invocation.words), stdin)
    progress.opaque = progress.opaque or made.unsure
    progress.code += made.code
    level = invocation.level + 1
    _add_texts(progress, made.texts, level)
    for words in made.commands:
        _add(progress, replace(invocation, words=tuple(words), redirects=(), level=level), scope)
    for words in made.possible:
        progress.found.append(replace(invocation, words=tuple(words), redirects=(), sure=False, level=level))
    same_shell = invocation.words[0] in ("eval", ".", "source")
    shells = invocation.shells if same_shell else (*invocation.shells, -len(progress.found))
    inner = replace(scope, level=level, source=invocation.source, shells=shells, sure=invocation.sure)
    for script in made.scripts:
        _read_script(progress, script, inner)
    _run_files(progress, invocation, made, inner)


def _note_written(progress: _Progress, invocation: Invocation) -> None:
    """Remember what is written to which file, as it may be run later in the line."""
    targets = [target for operator, target in invocation.redirects if ">" in operator]
    text = _output_of(invocation)
    name = program_name(invocation.words[0]) if invocation.words else ""
    if name == "tee":
        targets += (word for word in invocation.words[1:] if not word.startswith("-"))
        text = invocation.stdin or ANY
    elif name in _FILE_COPIERS and len(invocation.words) > 2:
        targets.append(invocation.words[-1])
        text = progress.written.get(_plain_path(invocation.words[-2]), ANY)
    for target in targets:
        if not is_unknown(target) and not target.startswith("/dev/"):
            progress.written[_plain_path(target)] = text


def _plain_path(path: str) -> str:
    return path.removeprefix("./")


def _run_files(progress: _Progress, invocation: Invocation, made: Launch, scope: _Scope) -> None:
    """Add what the line itself writes to the files that a command runs."""
    files = list(made.files)
    if "/" in invocation.words[0]:
        files.append(Script(invocation.words[0], invocation.words))
    for path, arguments in files:
        text = progress.written.get(_plain_path(path))
        if text is not None:
            progress.opaque = progress.opaque or is_unknown(text)
            _read_script(progress, Script(text, arguments), scope)
    name = program_name(invocation.words[0])
    if is_interpreter(name):
        names = (*invocation.words[1:], *(MAKEFILES if name in MAKES else ()))
        known = [text for word in names if (text := progress.written.get(_plain_path(word))) is not None]
        progress.code += known
        for recipe in (recipe for text in known if name in MAKES for recipe in recipes(text)):
            _read_script(progress, Script(recipe), scope)


def _add_texts(progress: _Progress, texts: list[str], level: int) -> None:
    """Add the commands of substitutions within texts, which are run only where the text is evaluated."""
    for text in texts:
        if "$(" not in text and "`" not in text and "${" not in text:
            continue
        gathered = Gathered(steps=progress.steps)
        try:
            read_shell_text(text, gathered, substitutions_only=True)
        except UnreadableError:
            progress.opaque = True
        progress.steps = gathered.steps
        _add_gathered(progress, gathered, _Scope({}, level, sure=False))

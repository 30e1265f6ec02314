"""Read every simple command that a line may run, directly or indirectly.

A command line is a program, and it depends on the expanded words which commands are run. Searching the text
for `curl` finds it in `grep curl notes` and misses `c""url x`. So a line is read here as bash reads it, and
then followed into scripts, launchers, pipes and files that the line itself writes. The result is a
`LineReading`: a flat list of invocations, which is marked *opaque* if it may be incomplete. Both uses of it
err on the safe side: deny rules and the search for irreversible commands look for a command among the
invocations, so a superfluous one may cause a superfluous question, but none is dropped silently. This reading
is never used to allow a line: a line that runs without approval has to be a list of plain words
(`simple_commands.py`), each command of which is proved read-only (`read_only.py`) or covered by a rule.

The steps, shown with an example:

    D=$HOME; sudo -u "$1" sh -c "cd $D && rm -rf *" | tee log

1. **Grammar** (`grammar.py`, `word_reader.py`). One pass from left to right, within a budget of steps,
   gathers raw commands: their words made of parts (text, variable, code of a substitution, unknown), their
   redirections, the command that each reads from through a pipe, the functions and subshells around it. Here:
   `sudo …`, `tee log`, and the assignment of `D`. Text whose meaning is undecidable (quotes in arithmetic)
   raises `UnreadableError`. Then everything that looks like a command is taken as one that may run, and the
   line is opaque.

2. **Values** (`word_expansion.py`). A variable may have any value that the line assigns to it, in any
   order: branches and loops need not be followed, and a function call assigns values to `$1`. If there are
   several values, each is tried. Unknown text is represented by a *mark*, a character that no line may
   contain: ANY is some text within a word, SPLIT any number of words, STAR, ONE and CLASS are the globs `*`,
   `?` and `[…]`, HOME is the home directory, UNSET precedes text that is likely to be empty. Here `D` is HOME
   and `"$1"` is ANY. `rm -rf $x/` would be `rm -rf <UNSET><SPLIT>/`, which is judged as `rm -rf /`.

3. **Launchers** (`launcher_tables.py`, `launcher_arguments.py`, `launched_commands.py`). `sudo` runs another
   command: its options and their values are skipped, guided by a table. After an unknown option the command
   may begin at two positions, and both are taken. `sh -c` runs a script, which is read as in step 1. `xargs`,
   `find -exec`, `env -S`, `ssh`, `eval`, `trap` and some thirty others have functions of their own. The code
   of `python -c` is not parsed but kept as *code*, which is searched for the words of a rule.

4. **Inputs and files.** The output of `echo` or of a here-document is known text, so `echo 'rm x' | sh` is
   followed. The output of any other program is ANY, so `curl x | sh` is opaque. Text that the line writes to
   a file is remembered, and read if the line runs that file.

The example results in these invocations, preceded by their level, the number of launchers and scripts around
them:

    0  sudo -u <ANY> sh -c 'cd <HOME> && rm -rf *'
    1  sh -c 'cd <HOME> && rm -rf *'
    2  cd <HOME>
    2  rm -rf <STAR>
    0  tee log

So a rule that denies `rm` returns YES, one that denies `curl` returns NO, and `destructive.py`, which follows
`cd` through the shells, reports that a home directory is removed. With the script `"cd $D && $2"`, the
command would be unknown: the rule about `curl` would return MAYBE, and the user would be asked.

Not covered are programs that are built or downloaded, the contents of scripts in the project, aliases of the
user's own shell (commands run without them), and the actions of a program once it runs. Those are left to
the sandbox.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from transcripts.wording import shorten

from .grammar import read_shell_text
from .launched_commands import (
    MAKEFILES,
    MAKES,
    STARTUP_FILES,
    is_interpreter,
    launched_by,
    names_program,
    recipes,
)
from .launcher_arguments import Launch, Script, value_commands, value_scripts
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
    is_unknown,
    program_name,
)
from .simple_commands import find_possible_commands
from .word_expansion import Values, choices, expand_word, expanded_text, known_values

MAX_COMMANDS = 250  # of one line, including its scripts
_POSITIONAL = [Assignment(name, None) for name in ("@", "*", *"0123456789")]


class Redirect(NamedTuple):
    """A redirection of a command: its operator, its target, and the stream before it, such as "2"."""

    operator: str
    target: str
    stream: str = ""

    @property
    def writes(self) -> bool:
        """True if it opens or may open a file for writing."""
        return ">" in self.operator and not self.duplicates

    @property
    def duplicates(self) -> bool:
        """True if the target is another stream, as in `2>&1`, and not a file."""
        return self.operator.endswith("&") and (self.target.isdigit() or self.target == "-")


class Invocation(Struct, frozen=True):
    """A simple command that a line runs. Marks (see parsed_text.py) stand for unknown text.

    stdin   the text of its input: None for none, ANY if it is unknown
    source  the command whose output it reads
    joint   the operator that follows
    within  the functions whose bodies contain it
    shells  numbers of the subshells and scripts in which it runs, outermost first
    sure    False if it depends on unknown conditions whether it runs
    level   0 in the line itself, one more for each launcher or script around it
    """

    words: tuple[str, ...]
    redirects: tuple[Redirect, ...] = ()
    stdin: str | None = None
    source: Invocation | None = None
    joint: str = ""
    within: tuple[str, ...] = ()
    shells: tuple[int, ...] = ()
    sure: bool = True
    level: int = 0

    @property
    def program(self) -> str:
        """The name of the program without its directory, in lower case; "" if it is unknown."""
        return program_name(self.words[0]) if self.words else ""

    @property
    def holds_more_than_words(self) -> bool:
        """True if it contains syntax that prevents splitting a line into simple commands."""
        is_marked = any(set(MARKS.findall(word)) - {STAR, ONE, CLASS} for word in self.words)
        files = (each.target for each in self.redirects if not each.operator.endswith("&"))
        is_given = self.stdin is not None and self.source is None
        return is_given or is_marked or any(target != "/dev/null" for target in files)

    def shown(self, max_chars: int) -> str:
        """Return the command as shell text, with `…` for unknown text, in at most that many characters."""
        words = [_shown_word(word) for word in self.words]
        for operator, target, stream in self.redirects:
            blank = "" if operator.endswith("&") else " "
            words.append(f"{stream}{operator}{blank}{_shown_word(target)}")
        is_given = self.stdin is not None and self.source is None and not self.level
        if is_given and not any("<" in each.operator for each in self.redirects):
            words.append("<< …")  # a here-document or here-string
        text = " ".join(words)
        return shorten(text, max_chars)


def _shown_word(word: str) -> str:
    if MARKS.search(word):
        known = word.replace(UNSET, "").replace(HOME, "~").replace(STAR, "*")
        known = known.replace(ONE, "?").replace(CLASS, "[…]")
        return re.sub(f"{MARKS.pattern}+", "…", known)
    return word if word in ("[", "[[") else shlex.quote(word)


class LineReading(Struct, frozen=True):
    """The commands and code that a line runs.

    code      texts in other languages that it runs
    opaque    it may run other commands, which cannot be determined from the line
    assigned  the variables that it sets
    """

    invocations: tuple[Invocation, ...]
    code: tuple[str, ...] = ()
    opaque: bool = False
    assigned: frozenset[str] = frozenset()


class _Scope(Struct, frozen=True):
    """The scope of a script: its variables, and the properties that its commands share."""

    values: Values
    level: int = 0
    source: Invocation | None = None
    shells: tuple[int, ...] = ()
    sure: bool = True


@lru_cache(maxsize=32)
def read_line(line: str) -> LineReading:
    """Read all commands that a line runs, as far as they can be determined."""
    reader = _LineReader()
    if MARKS.search(line):
        reader.opaque = True
        line = MARKS.sub(" ", line)
    reader.read_script(Script(line), _Scope({}))
    return LineReading(
        invocations=tuple(reader.found),
        code=tuple(reader.code),
        opaque=reader.opaque,
        assigned=frozenset(reader.assigned),
    )


class _LineReader(Struct):
    """The commands found in a line so far, and the number of steps left for it.

    written  the texts that the line writes, by file
    feeds    some command has an input, so commands within it may have it too
    """

    found: list[Invocation] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    scripts: set[tuple[object, ...]] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    steps: int = MAX_STEPS
    feeds: bool = False
    opaque: bool = False

    def read_script(self, script: Script, scope: _Scope) -> None:
        """Add the commands of a shell text."""
        key = (script, scope.sure, tuple((name, *known) for name, known in scope.values.items()))
        if key in self.scripts:
            return
        self.scripts.add(key)
        gathered = Gathered(steps=self.steps)
        try:
            read_shell_text(script.text, gathered)
        except UnreadableError:
            self.opaque = True
            self._add_fallback(script.text, scope.level)
        self.steps = gathered.steps
        self.opaque = self.opaque or gathered.unsure
        self._add_gathered(gathered, replace(scope, values={**scope.values, **_positional(script)}))

    def _add_fallback(self, text: str, level: int) -> None:
        """Add everything that looks like a command in a text that cannot be read."""
        if len(text) > 10_000:
            return
        for words in find_possible_commands(text)[:MAX_COMMANDS]:
            self.found.append(Invocation(tuple(words), sure=False, level=level))

    def _add_gathered(self, gathered: Gathered, scope: _Scope) -> None:
        self.assigned.update(each.name for each in gathered.assigned)
        values = known_values([*gathered.assigned, *_set_otherwise(gathered)], scope.values)
        self._add_programs(values, scope)
        own = (known for name, known in values.items() if name not in scope.values)
        self._add_texts([text for known in own for text in known], scope.level)
        scope = replace(scope, values=values)
        self.feeds = self.feeds or any(map(_is_fed, gathered.commands))
        expanded: dict[int, Invocation] = {}
        for command in gathered.commands:
            words = [*command.words, *(each.target for each in command.redirects)]
            for choice in choices(words, values):
                invocation = _expanded(command, choice, scope, expanded)
                expanded.setdefault(id(command), invocation)
                self._add(invocation, scope)
            if _calls_function(command, gathered):
                self._add_texts(list(invocation.words[1:]), scope.level)

    def _add_programs(self, values: Values, scope: _Scope) -> None:
        """Add the programs that variables such as PAGER name, and the scripts that BASH_ENV names."""
        for name, known in values.items():
            if name in scope.values or not names_program(name):
                continue
            for text in known:
                is_script = name in ("BASH_ENV", "ENV", "PROMPT_COMMAND")
                if is_script and (is_unknown(text) or _plain_path(text) in self.written):
                    self.opaque = True
                if name in STARTUP_FILES:
                    self.found.append(Invocation((".", text), sure=False, level=scope.level + 1))
                if name.endswith("FLAGS"):
                    self.code.append(text)
                elif text.strip() and not is_unknown(text):
                    for words in value_commands(text):
                        self.found.append(Invocation(tuple(words), sure=False, level=scope.level + 1))
                    self._read_values(value_scripts(text), replace(scope, level=scope.level + 1))

    def _add(self, invocation: Invocation, scope: _Scope) -> None:
        """Add a command and everything that it runs."""
        if len(self.found) >= MAX_COMMANDS or invocation.level > 12:
            self.opaque = True
            return
        self.found.append(invocation)
        self._note_written(invocation)
        if not invocation.words:
            return
        stdin = ANY if invocation.stdin is None and self.feeds else invocation.stdin
        launch = launched_by(list(invocation.words), stdin)
        self.opaque = self.opaque or launch.unsure
        self.code += launch.code
        level = invocation.level + 1
        self._add_texts(launch.texts, level)
        inner = replace(invocation, redirects=(), level=level)
        for words in launch.commands:
            self._add(replace(inner, words=tuple(words)), scope)
        for words in launch.possible:
            self.found.append(replace(inner, words=tuple(words), sure=False))
        is_same_shell = invocation.words[0] in ("eval", ".", "source")
        scope = replace(
            scope,
            level=level,
            source=invocation.source,
            shells=invocation.shells if is_same_shell else (*invocation.shells, -len(self.found)),
            sure=invocation.sure,
        )
        for script in launch.scripts:
            self.read_script(script, scope)
        self._read_values(launch.values, scope)
        self._run_files(invocation, launch, scope)

    def _read_values(self, texts: Iterable[str], scope: _Scope) -> None:
        """Add the commands of texts that are shell scripts or not: most values with spaces are plain text.

        So what cannot be determined in them makes no line opaque.
        """
        opaque = self.opaque
        for text in texts:
            self.read_script(Script(text), replace(scope, values={}, sure=False))
        self.opaque = opaque or len(self.found) >= MAX_COMMANDS

    def _note_written(self, invocation: Invocation) -> None:
        """Remember the text that is written to a file, since the line may run the file later."""
        targets = [each.target for each in invocation.redirects if ">" in each.operator]
        text = _output_of(invocation)
        if invocation.program == "tee":
            targets += (word for word in invocation.words[1:] if not word.startswith("-"))
            text = invocation.stdin or ANY
        elif invocation.program in ("cp", "mv", "ln", "install") and len(invocation.words) > 2:
            targets.append(invocation.words[-1])
            text = self.written.get(_plain_path(invocation.words[-2]), ANY)
        for target in targets:
            if not is_unknown(target) and not target.startswith("/dev/"):
                self.written[_plain_path(target)] = text

    def _run_files(self, invocation: Invocation, launch: Launch, scope: _Scope) -> None:
        """Add the commands that the line itself has written to the files which a command runs."""
        files = list(launch.files)
        if "/" in invocation.words[0]:
            files.append(Script(invocation.words[0], invocation.words))
        for path, arguments in files:
            text = self.written.get(_plain_path(path))
            if text is not None:
                self.opaque = self.opaque or is_unknown(text)
                self.read_script(Script(text, arguments), scope)
        name = invocation.program
        if not is_interpreter(name):
            return
        names = (*invocation.words[1:], *(MAKEFILES if name in MAKES else ()))
        written = (self.written.get(_plain_path(word)) for word in names)
        texts = [text for text in written if text is not None]
        self.code += texts
        for text in texts if name in MAKES else ():
            for recipe in recipes(text):
                self.read_script(Script(recipe), scope)

    def _add_texts(self, texts: list[str], level: int) -> None:
        """Add the commands of substitutions within texts, which only run if the text is evaluated."""
        for text in texts:
            if "$(" not in text and "`" not in text and "${" not in text:
                continue
            gathered = Gathered(steps=self.steps)
            try:
                read_shell_text(text, gathered, substitutions_only=True)
            except UnreadableError:
                self.opaque = True
            self.steps = gathered.steps
            self._add_gathered(gathered, _Scope({}, level=level, sure=False))


def _positional(script: Script) -> Values:
    """Return the values of `$0`, `$1` and so on, none if the script has no arguments."""
    if not script.arguments:
        return {}
    numbered = {str(number): [text] for number, text in enumerate(script.arguments[:10])}
    return numbered | {"@": [" ".join(script.arguments[1:])], "*": [" ".join(script.arguments[1:])]}


def _calls_function(command: RawCommand, gathered: Gathered) -> bool:
    return bool(command.words) and command.words[0].source in gathered.functions


def _set_otherwise(gathered: Gathered) -> list[Assignment]:
    """Return the variables that are set by builtins and function calls."""
    found = [each for command in gathered.commands for each in _set_by_builtin(command)]
    if gathered.functions:
        found += _POSITIONAL
        for command in gathered.commands:
            if _calls_function(command, gathered):
                found += _passed(command)
    return found


def _passed(command: RawCommand) -> list[Assignment]:
    """Return the values that a function call may assign to `$1` and so on."""
    arguments = command.words[1:]
    blank = Part("variable", "IFS", quoted=False)
    parts = [part for word in arguments for part in (*word.parts, blank)]
    numbered = [Assignment(str(number), word) for number, word in enumerate(arguments[:9], 1)]
    return [*numbered, *(Assignment(name, RawWord(tuple(parts), ""), listed=True) for name in "@*")]


def _is_fed(command: RawCommand) -> bool:
    """Return whether a command has an input or passes one to another command."""
    words = (*command.words, *(each.target for each in command.redirects))
    gives = command.joint in ("|", "|&") or any(">(" in word.source for word in words)
    return gives or any("<" in each.operator for each in command.redirects)


def _set_by_builtin(command: RawCommand) -> list[Assignment]:
    """Return the variables that `read x` and similar builtins set to unknown values."""
    sources = [word.source for word in command.words]
    if sources[:1] in (["set"], ["shift"]):
        return _POSITIONAL
    types = not {"declare", "typeset", "local"}.isdisjoint(sources[:2])
    if types and any(re.fullmatch(r"-\w*[ni]\w*", word) for word in sources):
        return [Assignment(source.partition("=")[0], None) for source in sources[1:]]
    setting = ("read", "mapfile", "readarray", "printf", "getopts", "unset", "let", "declare")
    if set(sources[:2]).isdisjoint(setting):
        return []
    return [Assignment(source, None) for source in sources[1:] if source.isidentifier()]


def _expanded(command: RawCommand, choice: int, scope: _Scope, expanded: dict[int, Invocation]) -> Invocation:
    """Expand a command with one choice of values; `expanded` contains the commands before it."""
    values = scope.values
    source = scope.source if command.source is None else expanded.get(id(command.source))
    stdin = _output_of(source) if command.source is not None else None
    redirects: list[Redirect] = []
    for operator, target, document, stream in command.redirects:
        if document is not None:
            stdin = expanded_text(document.body, values, choice) if document.body else ""
        elif operator == "<<<":
            stdin = expanded_text(target, values, choice)
        else:
            path = " ".join(expand_word(target, values, choice))
            redirects.append(Redirect(operator, target=path, stream=stream))
            if operator in ("<", "<>", "<&"):
                is_empty = path in ("/dev/null", "/dev/zero", "/dev/full")
                stdin = None if is_empty else ANY
    return Invocation(
        words=tuple(text for word in command.words for text in expand_word(word, values, choice)),
        redirects=tuple(redirects),
        stdin=stdin,
        source=source,
        joint=command.joint,
        within=command.within,
        shells=(*scope.shells, *command.shells),
        sure=scope.sure,
        level=scope.level,
    )


def _output_of(source: Invocation | None) -> str:
    """Return the text that a command writes into a pipe or a file, if the line contains it."""
    if source is None or not source.words:
        return ANY
    name, *arguments = source.words
    if name == "tee" or (name == "cat" and not arguments):
        return ANY if source.stdin is None else source.stdin
    if name in ("true", ":", "false") or arguments == ["/dev/null"]:
        return ""
    if name not in ("echo", "printf"):
        return ANY
    plain = [word for word in arguments if not re.fullmatch("-[neE]+|--", word)]
    text = _formatted(plain) if name == "printf" and "%" in "".join(plain[:1]) else " ".join(plain)
    if text is None:
        return ANY
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    return f"{text}\n{ANY}" if "\\" in text else text  # the echo of some shells interprets it


def _formatted(words: list[str]) -> str | None:
    """Return the output of `printf` with words for `%s`; None if there is any other directive."""
    form, *rest = words
    if form.replace("%s", "").replace("%%", "").count("%") or form.count("%s") < len(rest):
        return None
    for word in rest:
        form = form.replace("%s", word, 1)
    return form


def _plain_path(path: str) -> str:
    return path.removeprefix("./")

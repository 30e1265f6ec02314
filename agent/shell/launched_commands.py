"""Find what a simple command runs besides its own program: commands, scripts, code of other languages."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .launcher_arguments import (
    ENV_ASSIGNMENT,
    INPUT_FILE,
    Launch,
    Script,
    add_commands,
    command_starts,
    option_values,
    quoted,
    run_fish,
    run_input,
    run_launcher,
    run_shell,
    scripts_in_clusters,
    value_commands,
    value_scripts,
)
from .launcher_tables import (
    COMMAND_OPTIONS,
    ENVIRONMENT_SETTERS,
    EVALUATORS,
    FILE_RUNNERS,
    INTERPRETERS,
    LAUNCHING_WORDS,
    QUIET,
    SCRIPT_EACH,
    SCRIPT_JOINERS,
    SCRIPT_OPTIONS,
    SHELLS,
    Launcher,
    launcher_of,
)
from .parsed_text import ANY, SPLIT, STAR, is_open, is_unknown, program_name
from .simple_commands import Words

EXEC_OPTIONS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")  # of find and fd
MAKES = ("make", "gmake")
MAKEFILE_OPTIONS = word_set("-f --file --makefile")
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # the defaults of make
_VALUE = lazy_pattern(r"([-\w.:@]+)=(.+)", re.DOTALL)
# Variables that name programs for other programs to run.
_PROGRAM_VARIABLE = lazy_pattern(
    r"(?:\w*_)?(?:\w*PAGER|EDITOR|VISUAL|BROWSER|SHELL|COMMAND|CMD|ASKPASS|SSH|RSH|WRAPPER|RUNNER|LAUNCHER"
    r"|TERMINAL|LESSOPEN|LESSCLOSE|PYTHON|NODE|CC|CXX|CPP|LD|AR|AS|MAKE|RUSTC|GOFLAGS|MAKEFLAGS|PS4|ENV)|GIT_\w+|npm_config_(?:script_)?shell"
)
_SPLIT_STRING = lazy_pattern(r"-[iv0]*S(.*)|--s[a-z-]*(?:=(.*))?", re.DOTALL)
_ENV_ESCAPE = lazy_pattern(r"[\\$]")
_THIS_SHELL = lazy_pattern(r"/proc/(?:self|\d+)/exe")
# Programs that run no command, and whose arguments often contain spaces or follow `--`.
_TAKES_TEXT = word_set("cp mv ln rm mkdir rmdir touch chmod chown du wc sort head tail diff pytest curl wget")
STARTUP_FILES = ("BASH_ENV", "ENV")  # variables that name a file which a shell reads when it starts
# Settings of git that name programs.
_GIT_PROGRAM = lazy_pattern(
    r"alias\..+|.*(?:command|pager|editor|cmd|path|helper|program|fsmonitor|textconv|clean|smudge|process|driver)",
    re.IGNORECASE,
)
_PROGRAM = lazy_pattern(r"\w[\w+-]*")  # without the scripts of a project
_CODE = lazy_pattern(r"[\s(;|!'\"`]|^EXEC:|^SYSTEM:")
_SED_EXECUTES = lazy_pattern(r"(?:^|[;{}\n\d$/,!])\s*e(?:\s|$)|[/|,#][gIpwm\d]*e[gIpwm\d]*\s*(?:$|[;}\n])")
_AWK_EXECUTES = lazy_pattern(r"system|getline|\|")


def names_program(variable: str) -> bool:
    """Return whether the value of a variable names a program that others run, as with PAGER."""
    return _PROGRAM_VARIABLE.fullmatch(variable) is not None


def is_interpreter(name: str) -> bool:
    """Return whether a program runs code in another language. Its name may end with a version."""
    return not INTERPRETERS.isdisjoint((name, name.rstrip("0123456789.")))


def launched_by(words: Words, stdin: str | None) -> Launch:
    """Return what a command runs. `stdin` is its input: None for none, ANY if it is unknown."""
    made = Launch()
    name = program_name(words[0])
    if handler := _SPECIAL.get(name):
        handler(made, words, stdin)
    elif name in SHELLS or _THIS_SHELL.fullmatch(words[0]):
        run_shell(made, words, stdin)
    elif launcher := launcher_of(name):
        run_launcher(made, words, stdin, launcher)
    for subcommand, operands in LAUNCHING_WORDS.get(name, ()):
        _run_subcommand(made, words, subcommand, operands)
    scripted = SCRIPT_OPTIONS.get(name, frozenset())
    made.scripts += map(Script, option_values(words, scripted))
    if "-c" in scripted:
        made.scripts += map(Script, scripts_in_clusters(words))
    for value in option_values(words, COMMAND_OPTIONS.get(name, frozenset())):
        made.add_value(value)
    _add_code(made, name, words, stdin)
    if name not in QUIET:
        _add_values(made, name, words)
        if made == Launch() and _PROGRAM.fullmatch(words[0]) and not _is_known(name):
            _add_guesses(made, words)
    return made


def _is_known(name: str) -> bool:
    """Return whether the commands that a program runs are found by a table or as code."""
    in_tables = (SHELLS, _SPECIAL, COMMAND_OPTIONS, _TAKES_TEXT)
    return is_interpreter(name) or any(name in table for table in in_tables)


def _add_guesses(made: Launch, words: Words) -> None:
    """Add what a program in no table may run: the words after `--`, and words that could be a script."""
    if "--" in words:
        made.possible.append(words[words.index("--") + 1 :])
    made.possible += (word.lstrip("!").split() for word in words[1:] if " " in word.strip())
    made.values += (text for word in words[1:] for text in value_scripts(word))
    made.possible = [command for command in made.possible if command]


def _add_values(made: Launch, name: str, words: Words) -> None:
    """Add the commands that arguments of the form `name=value` may name."""
    for word in words[1:]:
        found = _VALUE.fullmatch(word)
        if found is None or (name in ENVIRONMENT_SETTERS and not names_program(found[1])):
            continue
        if found[1] in STARTUP_FILES:
            made.possible.append([".", found[2]])
        made.possible += (command for command in value_commands(found[2]) if not is_unknown(command[0]))
        made.values += value_scripts(found[2])


def _run_subcommand(made: Launch, words: Words, subcommand: tuple[str, ...], operands: int) -> None:
    """Add the command of `uv run` and similar programs. Options may precede and follow these words."""
    for at in range(1, min(len(words), 10)):
        if tuple(words[at : at + len(subcommand)]) == subcommand:
            if "--" in words[at:]:
                add_commands(made, words, {words.index("--", at) + 1})
            first = at + len(subcommand)
            add_commands(made, words, command_starts(words, first, Launcher(operands=operands)))
            return


def _add_code(made: Launch, name: str, words: Words, stdin: str | None) -> None:
    if name in EVALUATORS:
        made.texts += [word for word in (*words[1:], stdin or "") if "$(" in word or "`" in word]
    if not is_interpreter(name):
        return
    language = name.rstrip("0123456789.")
    if language in FILE_RUNNERS:
        _run_program_file(made, words)
    if language in MAKES:
        files = [*option_values(words, MAKEFILE_OPTIONS)]
        from_input = any(map(INPUT_FILE.fullmatch, files))
        made.unsure = made.unsure or from_input or any(map(is_open, files))
        made.scripts += map(Script, recipes(stdin)) if from_input and stdin is not None else ()
    if language in ("sed", "gsed", "awk", "gawk", "mawk", "nawk"):
        executes = _SED_EXECUTES if language.endswith("sed") else _AWK_EXECUTES
        made.code += (word for word in words[1:] if executes.search(word))
        return
    made.code += (word for word in words[1:] if _CODE.search(word))
    made.code += [stdin] if stdin is not None and not is_open(stdin) else []


def recipes(makefile: str) -> list[str]:
    """Return the command lines in a makefile, with variables left unexpanded."""
    lines = makefile.replace("\\\n", " ").splitlines()
    rules = [line.partition(";")[2] for line in lines if ";" in line]
    texts = rules + [line[1:] for line in lines if ";" not in line and line.startswith("\t")]
    return [text.lstrip("@-+ \t").replace("$$", "$") for text in texts if text.strip()]


def _run_program_file(made: Launch, words: Words) -> None:
    """Add the file or module that an interpreter runs: `python -m module`, `node file`."""
    for at, word in enumerate(words[1:], 1):
        if not word.startswith("-"):
            made.commands.append(words[at:])
            return
        letters = word[1:] if not word.startswith("--") else ""
        if "c" in letters or "e" in letters:
            return
        if word == "-m" and at + 1 < len(words):
            made.commands.append(words[at + 1 :])
            return


def _run_env(made: Launch, words: Words, stdin: str | None) -> None:
    launcher = launcher_of("env") or Launcher()
    for at, word in enumerate(words[1:], 1):
        if not word.startswith("-") and not ENV_ASSIGNMENT.match(word):
            break
        if split := _SPLIT_STRING.fullmatch(word):
            inline = split[1] or split[2]
            text = re.sub(r"[\r\v\f]", " ", inline or "".join(words[at + 1 : at + 2]))
            rest = words[at + 1 if inline else at + 2 :]
            made.unsure = made.unsure or _ENV_ESCAPE.search(text) is not None
            made.scripts.append(Script(" ".join(("env", text, *map(quoted, rest)))))
            return
    run_launcher(made, words, stdin, launcher)


def _run_command_builtin(made: Launch, words: Words, stdin: str | None) -> None:
    options = list(takewhile(lambda word: word.startswith("-"), words[1:]))
    if not any(letter in option for option in options for letter in "vV"):
        run_launcher(made, words, stdin, launcher_of("command") or Launcher())


def _run_xargs(made: Launch, words: Words, stdin: str | None) -> None:
    """Add the command with the words of the input, which replace `{}` or are appended."""
    launcher = launcher_of("xargs") or Launcher()
    for start in sorted(command_starts(words, 1, launcher)):
        options = words[1:start]
        command = words[start:]
        if not command:
            continue
        from_file = any(option.startswith(("-a", "--arg-file")) for option in options)
        text = None if from_file else stdin
        if text is not None and (re.search(r"['\"\\\0]", text) or is_unknown(text)):
            text = None
        replaced = _replaced_text(options)
        if replaced is None:
            made.commands.append([*command, *([SPLIT] if text is None else text.split())])
            continue
        for line in [ANY] if text is None else text.splitlines()[:8]:
            made.commands.append([word.replace(replaced, line.strip()) for word in command])


def _replaced_text(options: Words) -> str | None:
    """Return the text that xargs replaces with a line of its input; None if it appends the words."""
    for at, word in enumerate(options):
        if word.startswith("-I"):
            return word[2:] or "".join(options[at + 1 : at + 2]) or "{}"
        if word.startswith("-i"):
            return word[2:] or "{}"
        if word.startswith("--replace"):
            return word.partition("=")[2] or "{}"
    return None


def _run_find(made: Launch, words: Words, stdin: str | None) -> None:
    """Add the commands of `-exec` and similar options, each up to `;` or `+`."""
    at = 1
    while at < len(words):
        if words[at] in EXEC_OPTIONS:
            ends = [place for place in range(at + 1, len(words)) if words[place] in (";", "+")]
            end = ends[0] if ends else len(words)
            command = [word.replace("{}", ANY) for word in words[at + 1 : end]]
            made.commands += [command] if command else []
            at = end
        elif is_unknown(words[at]) and not words[at].startswith("-") and STAR not in words[at]:
            follower = "".join(words[at + 1 : at + 2])
            if follower and not follower.startswith(("-", "(", "!", ".", "/")):
                made.unsure = True
        at += 1


def _run_joined(made: Launch, words: Words, stdin: str | None) -> None:
    name = program_name(words[0])
    starts = {2 if words[1:2] == ["--"] else 1}
    if name != "eval":
        starts = command_starts(words, 1, launcher_of(name) or Launcher(), assigns=False)
    if name not in ("eval", "watch") and (starts == {len(words)} or ":::" in words):
        run_input(made, stdin)  # of parallel: each line is a command
        made.possible += ([word, *rest] for word, *rest in map(str.split, words) if rest)
    for start in sorted(starts - {len(words)}):
        text = " ".join(words[start:])
        if name not in ("eval", "watch"):
            text = re.sub(r"\{[\d#%./]*\}", ANY, text) + " " + SPLIT
        made.scripts.append(Script(text))


def _run_each(made: Launch, words: Words, stdin: str | None) -> None:
    made.scripts += (Script(word) for word in words[1:] if not word.startswith("-"))


def _run_remote(made: Launch, words: Words, stdin: str | None) -> None:
    """Add the command of `ssh host command`: the words after the host, joined, are one script."""
    launcher = Launcher(frozenset(f"-{letter}" for letter in "BbcDEeFIiJLlmOopQRSWw"), operands=1)
    for start in sorted(command_starts(words, 1, launcher, assigns=False)):
        if start < len(words):
            made.scripts.append(Script(" ".join(words[start:])))
        else:
            run_input(made, stdin)


def _load_builtin(made: Launch, words: Words, stdin: str | None) -> None:
    """Read `enable -f LIBRARY NAME`: the library's code runs, and NAME may then do anything."""
    loads = ((word.startswith("-") and "f" in word) or is_open(word) for word in words[1:])
    made.unsure = made.unsure or any(loads)


def _run_source(made: Launch, words: Words, stdin: str | None) -> None:
    rest = [word for word in words[1:] if word != "--"]
    if rest and is_open(rest[0]):
        made.unsure = True
    elif rest and INPUT_FILE.fullmatch(rest[0]):
        run_input(made, stdin)
    elif rest:
        made.files.append(Script(rest[0], tuple(rest)))
        made.commands.append(rest)


def _run_trap(made: Launch, words: Words, stdin: str | None) -> None:
    operands = [word for word in words[1:] if not (word.startswith("-") and len(word) > 1)]
    made.scripts += [Script(operands[0])] if len(operands) > 1 else []


def _run_callback(made: Launch, words: Words, stdin: str | None) -> None:
    """Add the command of `mapfile -C callback`, `compgen -C command`, `complete -C command`."""
    made.scripts += map(Script, option_values(words, frozenset({"-C"})))


def _run_by_key(made: Launch, words: Words, stdin: str | None) -> None:
    """Read `bind -x '"key": command'`, `bind '"key": "typed text"'`, `bind -f file`."""
    operands = [word for word in words[1:] if not (word.startswith("-") and len(word) > 1)]
    bound = (word.rpartition('":')[2] if '":' in word else word.partition(":")[2] for word in operands)
    made.scripts += (Script(text.strip().strip("'\"")) for text in bound if text.strip())
    made.unsure = made.unsure or any(option_values(words, frozenset({"-f"})))


def _run_input_later(made: Launch, words: Words, stdin: str | None) -> None:
    run_input(made, stdin)
    if launcher := launcher_of(program_name(words[0])):
        run_launcher(made, words, None, launcher)


def _run_behind_option(made: Launch, words: Words, stdin: str | None) -> None:
    """Add the command of `nix develop -c command` and `just --command command`."""
    for at, word in enumerate(words):
        if word in ("-c", "--command") and at + 1 < len(words):
            made.commands.append(words[at + 1 :])


def _run_login_shell(made: Launch, words: Words, stdin: str | None) -> None:
    """Add what `capsh -- arguments of bash` runs."""
    if "--" in words:
        run_shell(made, ["bash", *words[words.index("--") + 1 :]], stdin)


def _run_cmd(made: Launch, words: Words, stdin: str | None) -> None:
    """Add the command of `cmd.exe /c command`."""
    starts = {at + 1 for at, word in enumerate(words) if word.casefold() in ("/c", "/k")}
    add_commands(made, words, starts or {len(words)})


def _name_program(made: Launch, words: Words, stdin: str | None) -> None:
    """Read `hash -p path name`, which makes the name run the file."""
    made.possible += ([value] for value in option_values(words, frozenset({"-p"})) if value)


def _define_alias(made: Launch, words: Words, stdin: str | None) -> None:
    made.possible += (found[1].split() for word in words[1:] if (found := _VALUE.fullmatch(word)))


def _run_git(made: Launch, words: Words, stdin: str | None) -> None:
    """Read `git submodule foreach script`, `git -c alias.x=command`, `git config alias.x command`."""
    if "config" in words[1:] and (
        settings := [at for at, word in enumerate(words) if _GIT_PROGRAM.fullmatch(word)]
    ):
        value = "".join(words[settings[0] + 1 : settings[0] + 2])
        made.add_value(value)
        made.possible.append(["git", *value.split()])
    for word in words:
        if "ext::" in word:  # a remote that is a command; in it, `% ` is a space
            made.add_value(word.partition("ext::")[2].replace("% ", " "))
    for value in option_values(words, frozenset({"-c"})):
        name, _, text = value.partition("=")
        if name.startswith("alias.") and not text.startswith("!"):
            made.possible.append(["git", *text.split()])
    if "foreach" in words:
        rest = [word for word in words[words.index("foreach") + 1 :] if not word.startswith("-")]
        made.scripts.append(Script(" ".join(rest)))


_SPECIAL: dict[str, Callable[[Launch, Words, str | None], None]] = {
    "env": _run_env,
    "command": _run_command_builtin,
    "xargs": _run_xargs,
    "find": _run_find,
    "gfind": _run_find,
    "fd": _run_find,
    "fdfind": _run_find,
    "ssh": _run_remote,
    "mosh": _run_remote,
    "rsh": _run_remote,
    "source": _run_source,
    ".": _run_source,
    "trap": _run_trap,
    "enable": _load_builtin,
    "mapfile": _run_callback,
    "readarray": _run_callback,
    "compgen": _run_callback,
    "complete": _run_callback,
    "bind": _run_by_key,
    "at": _run_input_later,
    "batch": _run_input_later,
    "su": _run_input_later,
    "runuser": _run_input_later,
    "script": _run_input_later,
    "newgrp": _run_input_later,
    "nix": _run_behind_option,
    "just": _run_behind_option,
    "capsh": _run_login_shell,
    "cmd": _run_cmd,
    "hash": _name_program,
    "alias": _define_alias,
    "git": _run_git,
    "fish": run_fish,
    **dict.fromkeys(SCRIPT_JOINERS, _run_joined),
    **dict.fromkeys(SCRIPT_EACH, _run_each),
}

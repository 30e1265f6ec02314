"""The read-only commands of programs whose arguments form a language: find, sed, grep, jq, ps. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tools.text import word_set

from .option_syntax import NotProved, Options, SplitArguments, split_arguments
from .reading_programs import Reading, globs_of
from .sed_and_awk import SED_OPTIONS, awk_only_reads, only_prints, writes_only_output
from .simple_commands import Glob

_GREP = Options(
    "EFGPivywxchlLnqsobHZaIrRTUz",
    "eABCm",
    words="extended-regexp fixed-strings perl-regexp regexp= ignore-case invert-match word-regexp"
    " count files-without-match files-with-matches only-matching quiet no-messages"
    " with-filename no-filename line-number text null-data recursive color=? colour=?"
    " max-count= after-context= before-context= context= include= exclude= exclude-dir=",
    numbers=True,
)
_RG = Options(
    "acFiIlnNoPpqsSuUvwxH0.",
    "eABCgtTmMjrEd",
    words="ignore-case fixed-strings word-regexp invert-match count count-matches files"
    " files-with-matches files-without-match line-number heading no-heading with-filename"
    " no-filename only-matching hidden no-ignore multiline pretty quiet text json no-messages"
    " passthru regexp= after-context= before-context= context= glob= iglob= type= type-not="
    " max-count= max-columns= max-depth= sort= color=",
)
_JQ = Options(
    "acCeMnrRsSj",
    words="compact-output exit-status null-input raw-output slurp sort-keys tab indent=",
)
_UNIQ = Options(
    "cdDiuz",
    "fsw",
    words="count ignore-case unique",
)
_DATE = Options("uR", valued="d", attached="I", words="date= rfc-3339=")
_FIND_TESTS = word_set(
    "-print -print0 -ls -prune -depth -d -mount -xdev -daystart -true -false -empty -executable -readable"
    " -writable -not -and -or -a -o ! ( ) , -nouser -nogroup -quit -noleaf -ignore_readdir_race"
    " -noignore_readdir_race -warn -nowarn"
)
_FIND_VALUED = word_set(
    "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime"
    " -atime -ctime -mmin -amin -cmin -maxdepth -mindepth -user -group -uid -gid -perm -links -inum"
    " -lname -ilname -printf -fstype -used -newermt -newerat -newerct"
)
_XXD_NUMBER = r"(?a:[-+]{0,2}(?:0x[\da-fA-F]+|\d+))"
_FIND_PATHS = word_set("-newer -anewer -cnewer -samefile")
_PS_COLUMN = (
    r"(?:pid|ppid|pgid|sid|user|uid|ruser|euser|group|gid|tty|tt|stat|state|s|start|stime|lstart|etimes?|time"
    r"|cputime|pcpu|%cpu|pmem|%mem|rss|rsz|vsz|nice|ni|pri|cmd|comm|command|args|ucmd|fname|nlwp|psr|wchan)"
)
_PS_SORT = rf"[+-]?{_PS_COLUMN}(?:,[+-]?{_PS_COLUMN})*"
# Arguments that `ps` cannot parse in one syntax it parses in another, in which an `e` shows environments.
_PS_WORD = (
    rf"[auxwfjlh]+|-[AadefFHlLjwTcM]+|-auxw*|--(?:forest|no-headers?|headers?)"
    rf"|--(?:pid|ppid|cols|width|columns)=[\d,]+|--sort=(?:{_PS_SORT})"
)
_PS_VALUES = {"-p": r"[\d,]+", "--sort": _PS_SORT}
_PS_FORMAT = rf"{_PS_COLUMN}(?::\d+)?=?(?:,{_PS_COLUMN}(?::\d+)?=?)*"
_PS_FORMAT_OPTION = r"[auxwfjl]*o|-[AadefFHlLjwT]*o"
_TESTS_OF_FILES = word_set("-b -c -d -e -f -g -h -k -L -N -O -G -p -r -s -S -u -w -x")
# Variables that contain no secrets: search paths and directories, the user's identity, display settings.
_SHOWN_VARIABLES = word_set(
    "PATH HOME USER LOGNAME SHELL PWD OLDPWD LANG LANGUAGE LC_ALL LC_CTYPE TERM COLORTERM TZ HOSTNAME EDITOR"
    " VISUAL PAGER TMPDIR VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV GOPATH GOROOT GOBIN JAVA_HOME CARGO_HOME"
    " RUSTUP_HOME NVM_DIR NODE_ENV PYENV_ROOT PYTHONPATH MANPATH XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME"
    " XDG_STATE_HOME DISPLAY COLUMNS LINES SHLVL UID EUID PPID BASH BASH_VERSION RANDOM SECONDS LINENO OSTYPE"
    " HOSTTYPE MACHTYPE CI"
)


def _grep(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _GREP)
    files = _behind_pattern(split, "e", "regexp")
    recursive = split.has("r", "R", "recursive")
    included = split.values("include")
    excluded = split.values("exclude")
    return Reading(
        program="grep",
        paths=files,
        trees=(files or (".",)) if recursive else (),
        follows=split.has("R"),
        names=() if excluded else tuple(included),
        left_out=() if included else tuple(excluded),
    )


def _rg(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _RG)
    if split.has("files"):
        return Reading(program="rg", paths=tuple(split.operands))
    files = _behind_pattern(split, "e", "regexp")
    unrestricted = len(split.values("u"))
    # Globs given as options match hidden files too.
    wanted = tuple(word for word in split.values("g", "glob") if not word.startswith("!"))
    shown = unrestricted > 1 or split.has(".", "hidden", "iglob")
    visible = not wanted and not shown
    names = () if shown else wanted
    return Reading(program="rg", paths=files, trees=files or (".",), visible=visible, names=names)


def _behind_pattern(split: SplitArguments, *naming: str) -> tuple[str, ...]:
    """Return the operands that are files: all after the pattern, unless an option gives that."""
    operands = split.operands if split.has(*naming) else _behind_first(split.operands)
    return tuple(word for word in operands if word != "-")


def _behind_first(operands: Sequence[str]) -> Sequence[str]:
    if operands and isinstance(operands[0], Glob):
        raise NotProved(f"{operands[0]} may be more than one word")
    return operands[1:]


def _sed(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, SED_OPTIONS)
    scripts = split.values("e", "expression") or split.operands[:1]
    if globs_of(scripts) or not (writes_only_output("sed", arguments) or all(map(only_prints, scripts))):
        raise NotProved("sed is only known to be read-only with the commands p, =, q, d and s")
    return Reading(program="sed", paths=_behind_pattern(split, "e", "expression"))


def _jq(arguments: Sequence[str]) -> Reading:
    if "--" in arguments:
        raise NotProved("versions of jq treat -- differently")
    left: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word not in ("--arg", "--argjson"):
            left.append(word)
            continue
        value = [waiting.pop() for _ in range(min(2, len(waiting)))]  # `--arg NAME VALUE` are three words
        if globs_of([word, *value]):
            raise NotProved(f"a value of jq {word} may be more than one word")
    split = split_arguments(left, _JQ)
    files = _behind_first(split.operands)
    reaching_out = r"\b(?:import|include|env|ENV|modulemeta|get_search_list)\b"
    if split.operands and re.search(reaching_out, split.operands[0]):
        raise NotProved("this jq program is not known to be read-only")
    return Reading(program="jq", paths=tuple(files))


def _awk(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, Options("", "Fv"))
    files = _behind_first(split.operands)
    if not split.operands or not awk_only_reads(split.operands[0]):
        raise NotProved("this awk program is not known to be read-only")
    if not all(re.fullmatch(r"(?a:[a-z]\w*=.*)", value) for value in split.values("v")):
        raise NotProved("awk -v may set what awk reads")
    if any("=" in word for word in files):
        raise NotProved("an operand of awk may set a variable")
    return Reading(program="awk", paths=tuple(word for word in files if word != "-"))


def _xxd(arguments: Sequence[str]) -> Reading:
    """Read the arguments of xxd, where `-r` or a second operand would write a file."""
    files: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if files or not word.startswith("-"):  # after a file nothing is an option
            files.append(word)
        elif re.fullmatch(r"-[cglso]", word) and waiting and re.fullmatch(_XXD_NUMBER, waiting[-1]):
            waiting.pop()
        elif not re.fullmatch(r"(?a:-(?:[abCeEiu]|ps?|[cgls]\d+))", word):
            raise NotProved(f"xxd {word} is not known to be read-only")
    if len(files) > 1 or globs_of(files):
        raise NotProved("xxd writes its second file")
    return Reading(program="xxd", paths=tuple(files))


def _printenv(arguments: Sequence[str]) -> Reading:
    if not arguments or not all(word in _SHOWN_VARIABLES for word in arguments):
        raise NotProved("printenv may show secrets, except with certain names")
    return Reading(program="printenv")


def _uniq(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _UNIQ)
    if split.operands and (split.operands != list(arguments[-1:]) or globs_of(split.operands)):
        raise NotProved("uniq writes its second file")
    return Reading(program="uniq", paths=tuple(word for word in split.operands if word != "-"))


def _date(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _DATE)
    if not all(word.startswith("+") and not isinstance(word, Glob) for word in split.operands):
        raise NotProved("date with an operand sets the clock")
    return Reading(program="date")


def _find(arguments: Sequence[str]) -> Reading:
    waiting = list(reversed(arguments))
    paths: list[str] = []
    while waiting and waiting[-1] in ("-H", "-P"):
        waiting.pop()
    while waiting and not waiting[-1].startswith(("-", "(", "!", ",")):
        paths.append(waiting.pop())
    while waiting:
        word = waiting.pop()
        if isinstance(word, Glob) or (word in _FIND_VALUED | _FIND_PATHS and not waiting):
            raise NotProved(f"find {word} is not known to be read-only")
        if word in _FIND_VALUED | _FIND_PATHS:
            value = waiting.pop()
            if isinstance(value, Glob):
                raise NotProved(f"{value} may expand to options of find; put it in quotes")
            paths += [value] if word in _FIND_PATHS else []
        elif word not in _FIND_TESTS:
            raise NotProved(f"find {word} is not known to be read-only")
    return Reading(program="find", paths=tuple(paths))


def _ps(arguments: Sequence[str]) -> Reading:
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        value = waiting[-1] if waiting else ""
        if (word in _PS_VALUES and re.fullmatch(_PS_VALUES[word], value)) or (
            re.fullmatch(_PS_FORMAT_OPTION, word) and re.fullmatch(_PS_FORMAT, value)
        ):
            waiting.pop()
        elif isinstance(word, Glob) or not re.fullmatch(_PS_WORD, word):
            raise NotProved(f"ps {word} may show the environments of processes")
    return Reading(program="ps")


def _sleep(arguments: Sequence[str]) -> Reading:
    if not all(re.fullmatch(r"(?a:\d+(?:\.\d+)?[smhd]?)", word) for word in arguments):
        raise NotProved("sleep is only known to take numbers")
    return Reading(program="sleep")


def _echo(arguments: Sequence[str]) -> Reading:
    return Reading(program="echo", paths=_looked_at(arguments))


def _printf(arguments: Sequence[str]) -> Reading:
    first = arguments[0] if arguments else ""
    directive = r"(?a:%(?:%|[-+ #0]*\d*(?:\.\d+)?[sdiuxXocbqfeEgG]))"
    if first.startswith("-") or isinstance(first, Glob) or "%" in re.sub(directive, "", first):
        raise NotProved("this printf may set variables")
    return Reading(program="printf", paths=_looked_at(arguments))


def _test(arguments: Sequence[str]) -> Reading:
    """Read the files that `test` checks. All other words are only compared."""
    places: list[str] = []
    for at, word in enumerate(arguments):
        runs_subscript = word in ("-v", "-R")
        if runs_subscript or (isinstance(word, Glob) and word.startswith((*"*?[-",))):
            raise NotProved(f"test {word} is not known to be read-only")
        before = arguments[max(at - 1, 0) : at]
        behind = arguments[at + 1 : at + 2]
        if word in _TESTS_OF_FILES:
            places += behind
        elif word in ("-nt", "-ot", "-ef"):
            places += [*before, *behind]
    return Reading(program="test", places=(*places, *globs_of(arguments)))


def _bracket(arguments: Sequence[str]) -> Reading:
    if not arguments or arguments[-1] != "]":
        raise NotProved("[ without ] is not known to be read-only")
    return _test(arguments[:-1])


def _looked_at(words: Sequence[str]) -> tuple[str, ...]:
    """Return the globs among words that are only printed, since the shell looks for matching files."""
    found = globs_of(words)
    if any(word.startswith("-") for word in found):
        raise NotProved(f"{found[0]} may match a file named like an option")
    return found


def _pwd(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, Options("LP"))
    return Reading(program="pwd", paths=globs_of(split.operands))


def _type(arguments: Sequence[str]) -> Reading:
    return Reading(program="type", paths=globs_of(split_arguments(arguments, Options("afptP")).operands))


def _command(arguments: Sequence[str]) -> Reading:
    if not arguments or arguments[0] not in ("-v", "-V"):
        raise NotProved("command runs its arguments")
    return Reading(program="command", paths=globs_of(split_arguments(arguments[1:], Options("vV")).operands))


def _set(arguments: Sequence[str]) -> Reading:
    """Accept options that end the shell or show the commands it runs. Others change what later words mean."""
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        named = word.endswith("o")
        if not re.fullmatch(r"[-+][eux]*o?", word) or word in "-+":
            raise NotProved(f"set {word} changes what later words mean")
        if named and (not waiting or waiting.pop() not in ("pipefail", "errexit", "nounset", "xtrace")):
            raise NotProved(f"set {word} changes what later words mean")
    if not arguments:
        raise NotProved("set shows every variable")
    return Reading(program="set")


def _nothing(arguments: Sequence[str]) -> Reading:
    return Reading(program="true", paths=_looked_at(arguments))


# Programs and shell builtins.
LANGUAGES: Mapping[str, Callable[[Sequence[str]], Reading]] = {
    "grep": _grep,
    "rg": _rg,
    "sed": _sed,
    "awk": _awk,
    "xxd": _xxd,
    "printenv": _printenv,
    "jq": _jq,
    "uniq": _uniq,
    "date": _date,
    "find": _find,
    "ps": _ps,
    "sleep": _sleep,
}
BUILTINS: Mapping[str, Callable[[Sequence[str]], Reading]] = {
    "echo": _echo,
    "printf": _printf,
    "pwd": _pwd,
    "type": _type,
    "command": _command,
    "set": _set,
    "test": _test,
    "[": _bracket,
    "true": _nothing,
    "false": _nothing,
    ":": _nothing,
}

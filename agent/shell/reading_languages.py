"""What programs read whose arguments are a language of their own: find, sed, grep, jq, ps. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tools.files.text_encoding import word_set

from .option_syntax import NotProved, Options, SplitArguments, split_arguments
from .reading_programs import Reading, globs_of, reading_of_xxd
from .risky_options import SED_OPTIONS, awk_only_reads, only_prints, writes_only_output
from .simple_commands import Glob

_GREP = Options(
    "EFGPivywxchlLnqsobHZaIrRTUz",
    "eABCm",
    words="extended-regexp fixed-strings basic-regexp perl-regexp regexp= ignore-case no-ignore-case"
    " invert-match word-regexp line-regexp count files-without-match files-with-matches only-matching"
    " quiet silent no-messages byte-offset with-filename no-filename line-number initial-tab null text"
    " line-buffered null-data recursive dereference-recursive binary color=? colour=? max-count="
    " after-context= before-context= context= include= exclude= exclude-dir= label= binary-files=",
    numbers=True,
)
_RG = Options(
    "acFiIlnNoPpqsSuUvwxH0.",
    "eABCgtTmMjrEd",
    words="ignore-case case-sensitive smart-case fixed-strings word-regexp line-regexp invert-match count"
    " count-matches files files-with-matches files-without-match line-number no-line-number column"
    " no-column heading no-heading with-filename no-filename only-matching hidden no-hidden no-ignore"
    " no-ignore-vcs multiline multiline-dotall pcre2 pretty quiet stats text trim null vimgrep json"
    " no-messages passthru type-list unrestricted one-file-system no-config crlf regexp= after-context="
    " before-context= context= glob= iglob= type= type-not= max-count= max-columns= max-depth= maxdepth="
    " max-filesize= replace= sort= sortr= color= colors= encoding= threads= path-separator= byte-offset",
)
_JQ = Options(
    "acCeMnrRsSj",
    words="ascii-output compact-output color-output monochrome-output exit-status null-input raw-output"
    " raw-input slurp sort-keys join-output tab indent= stream seq unbuffered",
)
_JQ_REACHING_OUT = r"\b(?:import|include|env|ENV|modulemeta|get_search_list)\b"
_UNIQ = Options(
    "cdDiuz",
    "fsw",
    words="count repeated all-repeated=? skip-fields= group=? ignore-case skip-chars= unique check-chars="
    " zero-terminated",
)
_DATE = Options("uR", "d", "I", words="utc universal rfc-email iso-8601=? date= rfc-3339=")
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
_FIND_PATHS = word_set("-newer -anewer -cnewer -samefile")
_PS_COLUMN = (
    r"(?:pid|ppid|pgid|sid|user|uid|ruser|euser|group|gid|tty|tt|stat|state|s|start|stime|lstart|etimes?|time"
    r"|cputime|pcpu|%cpu|pmem|%mem|rss|rsz|vsz|nice|ni|pri|cmd|comm|command|args|ucmd|fname|nlwp|psr|wchan)"
)
_PS_SORT = rf"[+-]?{_PS_COLUMN}(?:,[+-]?{_PS_COLUMN})*"
# What `ps` cannot read one way it reads another way, in which an `e` shows the environments of processes.
_PS_WORD = (
    rf"[auxwfjlh]+|-[AadefFHlLjwTcM]+|-auxw*|--(?:forest|no-headers?|headers?)"
    rf"|--(?:pid|ppid|cols|width|columns)=[\d,]+|--sort=(?:{_PS_SORT})"
)
_PS_VALUES = {"-p": r"[\d,]+", "--sort": _PS_SORT}
_PS_FORMAT = rf"{_PS_COLUMN}(?::\d+)?=?(?:,{_PS_COLUMN}(?::\d+)?=?)*"
_PS_FORMAT_OPTION = r"[auxwfjl]*o|-[AadefFHlLjwT]*o"
_AWK = Options("", "Fv")
_AWK_VARIABLE = r"(?a:[a-z]\w*=.*)"
_TESTS_OF_FILES = word_set("-b -c -d -e -f -g -h -k -L -N -O -G -p -r -s -S -u -w -x")
_COMPARISONS_OF_FILES = word_set("-nt -ot -ef")
_TESTS_OF_VARIABLES = word_set("-v -R")  # which run what stands in a subscript
# Variables whose values are no secrets: where programs and folders are, who one is, how text is shown.
_SHOWN_VARIABLES = word_set(
    "PATH HOME USER LOGNAME SHELL PWD OLDPWD LANG LANGUAGE LC_ALL LC_CTYPE TERM COLORTERM TZ HOSTNAME EDITOR"
    " VISUAL PAGER TMPDIR VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV GOPATH GOROOT GOBIN JAVA_HOME CARGO_HOME"
    " RUSTUP_HOME NVM_DIR NODE_ENV PYENV_ROOT PYTHONPATH MANPATH XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME"
    " XDG_STATE_HOME DISPLAY COLUMNS LINES SHLVL UID EUID PPID BASH BASH_VERSION RANDOM SECONDS LINENO OSTYPE"
    " HOSTTYPE MACHTYPE CI"
)
_PRINTF_DIRECTIVE = r"(?a:%(?:%|[-+ #0]*\d*(?:\.\d+)?[sdiuxXocbqfeEgG]))"
_DURATION = r"(?a:\d+(?:\.\d+)?[smhd]?)"
_SHELL_OPTIONS = r"[-+][eux]*o?"
_SHELL_OPTION_NAMES = ("pipefail", "errexit", "nounset", "xtrace")


def _grep(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _GREP)
    files = _behind_pattern(split, "e", "regexp")
    recursive = split.has("r", "R", "recursive", "dereference-recursive")
    included, excluded = split.values("include"), split.values("exclude")
    return Reading(
        "grep",
        paths=files,
        trees=(files or (".",)) if recursive else (),
        follows=split.has("R", "dereference-recursive"),
        names=() if excluded else tuple(included),
        left_out=() if included else tuple(excluded),
    )


def _rg(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _RG)
    if split.has("files", "type-list"):
        return Reading("rg", paths=tuple(split.operands))
    files = _behind_pattern(split, "e", "regexp")
    unrestricted = len(split.values("u", "unrestricted"))
    # A glob of what is searched counts for hidden files too.
    wanted = tuple(word for word in split.values("g", "glob") if not word.startswith("!"))
    shown = unrestricted > 1 or split.has(".", "hidden", "iglob", "glob-case-insensitive")
    visible = not wanted and not shown
    names = () if shown else wanted
    return Reading("rg", paths=files, trees=files or (".",), visible=visible, names=names)


def _behind_pattern(split: SplitArguments, *naming: str) -> tuple[str, ...]:
    """The operands that are files: those behind the pattern, where no option gives one."""
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
        raise NotProved("sed with other commands than p, =, q, d and s is not known to only read")
    return Reading("sed", paths=_behind_pattern(split, "e", "expression"))


def _jq(arguments: Sequence[str]) -> Reading:
    if "--" in arguments:
        raise NotProved("editions of jq differ about --")
    given, left = 0, list(arguments)
    while given < len(left):  # `--arg NAME VALUE` are three words
        if left[given] in ("--arg", "--argjson"):
            if globs_of(left[given : given + 3]):
                raise NotProved(f"a value of jq {left[given]} may be more than one word")
            del left[given : given + 3]
        else:
            given += 1
    split = split_arguments(left, _JQ)
    files = _behind_first(split.operands)
    if split.operands and re.search(_JQ_REACHING_OUT, split.operands[0]):
        raise NotProved("this jq program is not known to only read its input")
    return Reading("jq", paths=tuple(files))


def _awk(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _AWK)
    files = _behind_first(split.operands)
    if not split.operands or not awk_only_reads(split.operands[0]):
        raise NotProved("this awk program is not known to only read its input")
    if not all(re.fullmatch(_AWK_VARIABLE, value) for value in split.values("v")):
        raise NotProved("awk -v may set what awk reads")
    if any("=" in word for word in files):
        raise NotProved("an operand of awk may set a variable")
    return Reading("awk", paths=tuple(word for word in files if word != "-"))


def _printenv(arguments: Sequence[str]) -> Reading:
    if not arguments or not all(word in _SHOWN_VARIABLES for word in arguments):
        raise NotProved("printenv is known to show no secrets with some names only")
    return Reading("printenv")


def _uniq(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _UNIQ)
    if split.operands and (split.operands != list(arguments[-1:]) or globs_of(split.operands)):
        raise NotProved("uniq writes its second file")
    return Reading("uniq", paths=tuple(word for word in split.operands if word != "-"))


def _date(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, _DATE)
    if not all(word.startswith("+") and not isinstance(word, Glob) for word in split.operands):
        raise NotProved("date with an operand sets the clock")
    return Reading("date")


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
            raise NotProved(f"find with {word} is not known to only read")
        if word in _FIND_VALUED | _FIND_PATHS:
            value = waiting.pop()
            if isinstance(value, Glob):
                raise NotProved(f"{value} may be replaced with options of find: put it in quotes")
            paths += [value] if word in _FIND_PATHS else []
        elif word not in _FIND_TESTS:
            raise NotProved(f"find {word} is not known to only read")
    return Reading("find", paths=tuple(paths))


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
            raise NotProved(f"ps {word} is not known to show no environments")
    return Reading("ps")


def _sleep(arguments: Sequence[str]) -> Reading:
    if not all(re.fullmatch(_DURATION, word) for word in arguments):
        raise NotProved("sleep takes numbers of seconds")
    return Reading("sleep")


def _echo(arguments: Sequence[str]) -> Reading:
    return Reading("echo", paths=_looked_at(arguments))


def _printf(arguments: Sequence[str]) -> Reading:
    first = arguments[0] if arguments else ""
    if first.startswith("-") or isinstance(first, Glob) or "%" in re.sub(_PRINTF_DIRECTIVE, "", first):
        raise NotProved("this printf may set variables")
    return Reading("printf", paths=_looked_at(arguments))


def _test(arguments: Sequence[str]) -> Reading:
    """What is asked about files; whatever else the words are, they are only compared."""
    places: list[str] = []
    for at, word in enumerate(arguments):
        if word in _TESTS_OF_VARIABLES or (isinstance(word, Glob) and word.startswith((*"*?[-",))):
            raise NotProved(f"test {word} is not known to only read")
        before, behind = arguments[max(at - 1, 0) : at], arguments[at + 1 : at + 2]
        if word in _TESTS_OF_FILES:
            places += behind
        elif word in _COMPARISONS_OF_FILES:
            places += [*before, *behind]
    return Reading("test", places=(*places, *globs_of(arguments)))


def _bracket(arguments: Sequence[str]) -> Reading:
    if not arguments or arguments[-1] != "]":
        raise NotProved("[ without ] is not known to only read")
    return _test(arguments[:-1])


def _looked_at(words: Sequence[str]) -> tuple[str, ...]:
    """The globs among words that are only printed: what they match is looked at."""
    found = globs_of(words)
    if any(word.startswith("-") for word in found):
        raise NotProved(f"a file may be named like an option and match {found[0]}")
    return found


def _pwd(arguments: Sequence[str]) -> Reading:
    split = split_arguments(arguments, Options("LP"))
    return Reading("pwd", paths=globs_of(split.operands))


def _type(arguments: Sequence[str]) -> Reading:
    return Reading("type", paths=globs_of(split_arguments(arguments, Options("afptP")).operands))


def _command(arguments: Sequence[str]) -> Reading:
    if not arguments or arguments[0] not in ("-v", "-V"):
        raise NotProved("command runs what it is given")
    return Reading("command", paths=globs_of(split_arguments(arguments[1:], Options("vV")).operands))


def _set(arguments: Sequence[str]) -> Reading:
    """Options that end the shell or show what it runs. Others change what later words mean."""
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        named = word.endswith("o")
        if not re.fullmatch(_SHELL_OPTIONS, word) or word in "-+":
            raise NotProved(f"set {word} changes what later words mean")
        if named and (not waiting or waiting.pop() not in _SHELL_OPTION_NAMES):
            raise NotProved(f"set {word} changes what later words mean")
    if not arguments:
        raise NotProved("set shows every variable")
    return Reading("set")


def _nothing(arguments: Sequence[str]) -> Reading:
    return Reading("true", paths=_looked_at(arguments))


# Programs, and builtins of the shell.
LANGUAGES: Mapping[str, Callable[[Sequence[str]], Reading]] = {
    "grep": _grep,
    "rg": _rg,
    "sed": _sed,
    "awk": _awk,
    "xxd": reading_of_xxd,
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

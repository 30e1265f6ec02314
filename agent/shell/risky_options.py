"""Find what an allow rule does not cover unless it says so: options that run or write something.

A rule names a program, and perhaps a few words behind it. More operands and options are covered, but not
those that make the program run another one or write where they say; nor what a wrapper runs, nor program
text on the command line or from a pipe. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tools.files.text_encoding import word_set

from .option_risks import RISKS, Risks
from .option_syntax import NotProved, Options, split_arguments
from .simple_commands import Glob, Words

_OTHER_NAMES = {
    "gmake": "make",
    "py.test": "pytest",
    "nodejs": "node",
    "gawk": "awk",
    "mawk": "awk",
    "ggrep": "grep",
}
# For these two dashes alone do not end the options: `find -- . -delete` removes,
# `cmake --build . -- --eval=x` runs.
_WITHOUT_END = word_set("find gcc g++ cc clang cmake clang-tidy")
# They run the text of their first operand; without one, what comes from a pipe.
_TEXT_RUNNERS = word_set("python node perl ruby php lua bash sh zsh dash ksh fish tclsh")
# Programs that run another: the letters of their options with a value, the operands before its name.
_WRAPPERS: Mapping[str, tuple[str, int]] = {
    "timeout": ("ks", 1),
    "nice": ("n", 0),
    "nohup": ("", 0),
    "stdbuf": ("ioe", 0),
    "setsid": ("", 0),
    "ionice": ("cn", 0),
    "sudo": ("ug", 0),
    "doas": ("u", 0),
    "env": ("u", 0),
    "time": ("", 0),
    "xargs": ("IinLPsd", 0),
    "npx": ("", 0),
    "bunx": ("", 0),
    "uvx": ("", 0),
    "command": ("", 0),
    "exec": ("", 0),
}
_WRAPPING_SUBCOMMANDS = {
    ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipx", "run"), ("bundle", "exec"),
    ("npm", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("yarn", "dlx"), ("python", "-m"),
}  # fmt: skip
# Programs and builtins that run what they are given in forms that are not read here.
_RUNNING = word_set(
    "su fish csh tcsh busybox eval builtin source . trap parallel entr watch chrt taskset unbuffer script"
    " flock strace ltrace gdb lldb chroot unshare nsenter systemd-run runuser at batch crontab corepack"
)
_GIT = Risks(
    long="help output output-directory open-files-in-pager ext-diff textconv upload-pack receive-pack"
    " upload-archive exec config config-env exec-path git-dir work-tree template extcmd separate-git-dir"
    " show-signature remerge-diff",
    operands=r"\w+::",
)
_GIT_LETTERS = {
    "grep": "O",
    "rebase": "x",
    "clone": "cu",
    "archive": "o",
    "format-patch": "o",
    "difftool": "x",
}
_GIT_SUBWORDS = {"submodule": ("foreach",), "bisect": ("run", "visualize", "view")}
# Subcommands for which a rule for all of git stands. The rest run programs that settings or arguments name,
# or are names that a person or a repository gave to other lines.
_GIT_COMMANDS = word_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout"
    " cherry cherry-pick clean clone commit count-objects describe diff diff-files diff-index diff-tree"
    " fetch for-each-ref format-patch fsck gc grep init log ls-files ls-remote ls-tree merge merge-base"
    " mv name-rev notes pull push range-diff read-tree rebase reflog remote reset restore rev-list"
    " rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stash status submodule"
    " switch symbolic-ref tag update-index update-ref version whatchanged worktree write-tree"
)
SED_OPTIONS = Options(
    "nErsuz", "e", words="quiet silent regexp-extended expression= separate unbuffered null-data"
)
_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\[^\n])*/I?)"
_PLACE = rf"(?:{_SED_ADDRESS}(?:,[ ]*(?:{_SED_ADDRESS}|[+~]\d+))?)?[ ]*!?[ ]*"
_PRINT = r"(?:[p=]|q\d*)"
_PRINTING_STEP = rf"{_PLACE}(?:{_PRINT}|\{{[ ]*{_PRINT}(?:[ ]*;[ ]*{_PRINT})*[ ]*;?[ ]*\}})"
_PRINTING = rf"(?a:[ ]*{_PRINTING_STEP}(?:[ ]*[;\n][ ]*{_PRINTING_STEP})*[ ]*;?[ ]*)"
_REPLACE = r"s([/|,#@:])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI\d]*"
_EDITING_STEP = rf"(?a:[ ]*{_PLACE}(?:[p=dDnNgGhHx]|q\d*|{_REPLACE})[ ]*)"


def risky_word(words: Words, wanted: Sequence[str]) -> str:
    """Return the first word of a command that a rule with the words `wanted` does not cover, "" for none.

    The rule matches the command's first words; it names those that it spells out.
    """
    named = [not set(text) & set("*?[") for text in wanted]
    named += [False] * (len(words) - len(named))
    return _risky(words, named)


def _risky(words: Words, named: Sequence[bool]) -> str:
    inner = _inner_command(words)
    if inner is not None:
        at = inner or len(words)
        if not all(named[: at + 1]) or (inner == 0 and not all(named)):
            return words[min(at, len(words) - 1)]
        if inner == 0:
            return ""
        program = _program(words[inner:])
        if words[0].endswith("xargs") and program in (*RISKS, "git", "sed", "awk"):
            return words[inner]  # its options may come from what is read
        return _risky(words[inner:], named[inner:])
    return _risky_argument(_program(words), words, named)


def _program(words: Sequence[str]) -> str:
    """The name by which the tables know a program, whatever its path and edition."""
    name = words[0].rpartition("/")[2]
    name = re.sub(r"(?<=^python)[\d.]+$", "", name)
    return _OTHER_NAMES.get(name, name)


def _inner_command(words: Words) -> int | None:
    """Return the place of the command that a wrapper runs; 0 where that is not known; None for no wrapper."""
    program = _program(words)
    if len(words) > 1 and (program, words[1]) in _WRAPPING_SUBCOMMANDS:
        return 2 if len(words) > 2 and not words[2].startswith("-") else 0
    if program in _RUNNING:
        return 0
    if program not in _WRAPPERS:
        return None
    valued, operands = _WRAPPERS[program]
    at = 1
    while at < len(words) and (words[at].startswith("-") or "=" in words[at] or operands):
        word = words[at]
        operands -= not word.startswith("-")
        if word.startswith("--") and len(word) > 2:
            return 0
        at += 2 if word.startswith("-") and word[1:] and word[-1] in valued else 1
    return at if at < len(words) else 0


def _risky_argument(program: str, words: Words, named: Sequence[bool]) -> str:
    if program == "git":
        return _risky_git(words, named)
    if program in ("sed", "awk"):
        left = [word for word, known in zip(words[1:], named[1:], strict=True) if not known]
        return "" if not left or writes_only_output(program, left) else left[-1]
    if program in _TEXT_RUNNERS:
        files = [word for word in words[1:] if not word.startswith("-")]
        if not files or files[0].startswith(("/dev/", "/proc/")):
            return words[-1]
    if program == "uniq" and sum(word == "-" or not word.startswith("-") for word in words[1:]) > 1:
        return words[-1]
    if program == "tar" and len(words) > 1 and {"I", "F"} & set(words[1]) and not named[1]:
        return words[1]
    return _first_risk(RISKS.get(program), words, named)


def _first_risk(risks: Risks | None, words: Words, named: Sequence[bool]) -> str:
    if risks is None:
        return ""
    ends = _program(words) not in _WITHOUT_END
    for at, word in enumerate(words[1:], 1):
        if word == "--" and ends:
            rest = zip(words[at:], named[at:], strict=True)
            return next((w for w, known in rest if not known and _is_risky_operand(risks, w)), "")
        if not named[at] and (_is_risky_option(risks, word) or _is_risky_operand(risks, word)):
            return word
    return ""


def _is_risky_operand(risks: Risks, word: str) -> bool:
    return bool(risks.operands) and not word.startswith("-") and re.match(risks.operands, word) is not None


def _is_risky_option(risks: Risks, word: str) -> bool:
    name = word.partition("=")[0]
    if isinstance(word, Glob) and word.startswith(("*", "?", "[", "-")):
        return True  # a file may be named like an option
    if word in risks.harmless.split():
        return False
    if name in risks.words.split() or (name.startswith("--") and name[1:] in risks.words.split()):
        return True
    if risks.forms and re.match(risks.forms, word):
        return True
    if name.startswith("--"):
        begun = _squashed(name)
        return begun != "" and any(_squashed(option).startswith(begun) for option in risks.long.split())
    return word.startswith("-") and not set(word[1:]).isdisjoint(risks.letters)


def _squashed(name: str) -> str:
    """The name of an option as programs of JavaScript take it too: in any letter case, without dashes."""
    return name.replace("-", "").casefold()


def _risky_git(words: Words, named: Sequence[bool]) -> str:
    """Options before the subcommand steer git; a subcommand that is not named has to be a known one."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        if not named[at] and words[at] not in ("--no-pager", "-P", "--version"):
            return words[at]
        at += 1 if words[at] not in ("-C", "-c") else 2
    if at >= len(words):
        return ""
    command = words[at]
    if not named[at] and command not in _GIT_COMMANDS:
        return command
    running = _GIT_SUBWORDS.get(command, ())
    for word, known in zip(words[at + 1 :], named[at + 1 :], strict=True):
        if word in running and not known:
            return word
    risks = Risks(_GIT_LETTERS.get(command, ""), _GIT.long, operands=_GIT.operands)
    return _first_risk(risks, words[at:], named[at:])


def only_prints(script: str) -> bool:
    """Return whether a sed script, run with -n, has the commands p, = and q alone."""
    return re.fullmatch(_PRINTING, script) is not None


def awk_only_reads(text: str) -> bool:
    """Return whether an awk program only reads its input, and writes to its output alone."""
    # What else reads outside of the input, and output that goes elsewhere: `>` behind `print` may mean that.
    reaching_out = r"system|getline|@|\||ENVIRON|PROCINFO|ARG[VC]|SYMTAB|FUNCTAB|(?s:print.*>)"
    return re.search(reaching_out, text.replace("||", " ")) is None


def writes_only_output(program: str, arguments: Sequence[str]) -> bool:
    """Return whether a `sed` or `awk` with these arguments writes to its output alone, and runs nothing."""
    try:
        split = split_arguments(arguments, SED_OPTIONS if program == "sed" else Options("", "Fv"))
    except NotProved:
        return False
    texts = split.values("e", "expression") or split.operands[:1]
    if not texts or any(isinstance(word, Glob) and not word.startswith("./") for word in arguments):
        return False
    if program == "awk":
        return not any(re.search(r"system|getline|[|>@]", text) for text in texts)
    steps = (step for text in texts for step in re.split(r"[;\n]", text) if step.strip())
    return all(re.fullmatch(_EDITING_STEP, step) for step in steps)

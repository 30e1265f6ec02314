"""Find options that an allow rule does not cover unless it names them: those that run or write something.

A rule names a program, and perhaps a few words after it. Additional operands and options are covered, except
those that make the program run another one or write to a given file. Nor are the command that a wrapper runs
and program text on the command line or from a pipe. Every program that "always" offers by its first words
(permissions/allow_rules.py) has a row here if it has such options. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from tools.text import word_set

from .sed_and_awk import writes_only_output
from .simple_commands import Glob, Words


class Risks(Struct, frozen=True):
    """The options and operands of one program that rules do not cover.

    letters   options of one letter, in any bundle
    long      options with two dashes, including their abbreviations
    words     options with one dash and a name, subcommands
    operands  a pattern for the beginning of operands
    forms     a pattern for the beginning of options
    harmless  exact options that are exceptions to the above
    """

    letters: str = ""
    long: str = ""
    words: str = ""
    operands: str = ""
    forms: str = ""
    harmless: str = ""


_JEST = Risks(
    "cu",
    "config globalSetup globalTeardown setupFiles setupFilesAfterEnv runner testRunner reporters"
    " transform resolver rootDir roots projects preset testEnvironment testSequencer coverageDirectory"
    " outputFile prettierPath filter env haste moduleLoader snapshotSerializers watchPlugins"
    " testResultsProcessor coverageProvider",
    harmless="--coverage --ci --co",
)
_NODE_PACKAGES = Risks(
    "C",
    long="script-shell node-options prefix dir cwd userconfig globalconfig shell-emulator use-yarnrc config"
    " modules-folder scripts-prepend-node-path",
    words="exec x dlx explore create init",
)
_C_COMPILER = Risks(
    "oB",
    long="specs",
    words="-wrapper -specs -fplugin -save-temps -dumpdir",
    operands="@",
    harmless="-O0 -O1 -O2 -O3",
)
_SHELL = Risks("csi", "init-file rcfile")
RISKS: Mapping[str, Risks] = {
    "find": Risks(
        words="-exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from",
    ),
    "fd": Risks("xX", "exec exec-batch"),
    "fdfind": Risks("xX", "exec exec-batch"),
    "rg": Risks("z", "pre hostname-bin search-zip", harmless="--pretty"),
    "sort": Risks("oT", "output compress-program files0-from temporary-directory"),
    "shuf": Risks("o", "output"),
    "tree": Risks("oR", "output"),
    "file": Risks("Cmzp", "compile uncompress magic-file preserve-date"),
    "diff": Risks("l", "paginate"),
    "date": Risks("sfr", "set file reference", operands="[^+]"),
    "tar": Risks(
        "IF",
        "checkpoint-action use-compress-program to-command info-script new-volume-script rsh-command"
        " rmt-command index-file",
    ),
    "zip": Risks("T", "unzip-command"),
    "rsync": Risks("e", "rsh rsync-path"),
    "ssh": Risks("oFESI", ""),
    "scp": Risks("oFS", ""),
    "curl": Risks(
        "oOKcDJ",
        "output output-dir remote-name remote-name-all remote-header-name config dump-header cookie-jar"
        " trace trace-ascii stderr libcurl etag-save hsts alt-svc create-dirs",
    ),
    "wget": Risks(
        "eOoaP",
        "execute use-askpass output-document output-file append-output directory-prefix config warc-file"
        " save-cookies hsts-file rejected-log",
    ),
    "make": Risks("fCIE", "file makefile eval directory include-dir", operands=r"[^=]*="),
    "cmake": Risks("PECDGfI", "eval file makefile include-dir", operands=r"[^=]*="),
    "gradle": Risks(
        "IbpcDPg",
        "init-script build-file project-dir settings-file include-build gradle-user-home project-cache-dir"
        " system-prop project-prop",
    ),
    "mvn": Risks(
        "fsD",
        long="file settings define global-settings toolchains global-toolchains log-file",
        words="-l -t",
        operands=r".*:",
    ),
    "pytest": Risks(
        "pco",
        "config-file override-ini rootdir confcutdir basetemp junitxml junit-xml log-file pastebin pdbcls"
        " debug cov-config cov-report report-log html json-report-file",
        operands="@",
        harmless="--co --cov --pdb",
    ),
    "mypy": Risks(
        "",
        "config-file python-executable install-types custom-typeshed-dir shadow-file cache-dir junit-xml"
        " html-report txt-report xml-report cobertura-xml-report linecount-report any-exprs-report",
        operands="@",
    ),
    "ruff": Risks("o", "config output-file cache-dir", operands="@"),
    "black": Risks("c", "config code"),
    "isort": Risks("", "settings-path settings-file sp"),
    "flake8": Risks("", "config append-config output-file tee"),
    "pylint": Risks(
        "f",
        "rcfile load-plugins init-hook output output-format import-graph ext-import-graph int-import-graph",
        harmless="--output-format=text --output-format=json --output-format=json2 --output-format=colorized"
        " --output-format=parseable",
    ),
    "prettier": Risks("", "plugin plugin-search-dir config", harmless="--no-config"),
    "eslint": Risks(
        "cfo",
        "config rulesdir plugin resolve-plugins-relative-to parser format output-file init cache-location",
    ),
    "tsc": Risks(
        "",
        "outFile outDir declarationDir generateTrace tsBuildInfoFile generateCpuProfile",
        operands="@",
        forms=r"(?i:-(?:outFile|outDir|declarationDir|generateTrace|generateCpuProfile|tsBuildInfoFile)$)",
    ),
    "jest": _JEST,
    "vitest": Risks(
        "cr",
        "config root globals reporter outputFile environment pool globalSetup execArgv",
        forms=r"--(?:typecheck|coverage|browser|poolOptions|outputFile)\.",
    ),
    "npm": _NODE_PACKAGES,
    "pnpm": _NODE_PACKAGES,
    "yarn": _NODE_PACKAGES,
    "bun": Risks(
        "Crcep",
        long=f"{_NODE_PACKAGES.long} preload require import coverage-dir reporter-outfile eval print",
        words=_NODE_PACKAGES.words,
    ),
    "cargo": Risks(
        "ZC", "config manifest-path target-dir config-file tool-config-file artifact-dir", operands=r"\+"
    ),
    "rustc": Risks("oC", "out-dir emit", operands="@"),
    "go": Risks(
        words="-exec -toolexec -overlay -modfile -C -o -vettool -ldflags -gcflags -asmflags -gccgoflags"
        " -compiler -pkgdir -outputdir -coverprofile -cpuprofile -memprofile -blockprofile -mutexprofile"
        " -trace",
        forms=r"--?test\.(?:\w*profile|outputdir|trace|fuzzcachedir|gocoverdir)",
    ),
    "gcc": _C_COMPILER,
    "g++": _C_COMPILER,
    "cc": _C_COMPILER,
    "clang": _C_COMPILER,
    "python": Risks("cm"),
    "node": Risks("epr", "eval print require import loader experimental-loader inspect-brk"),
    "perl": Risks("eEMmiI"),
    "ruby": Risks("erI"),
    "php": Risks("rRBEdz"),
    "gofmt": Risks(forms=r"--?(?:\w*profile|trace)\b"),
    "rustfmt": Risks("", "config-path print-config"),
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh"), _SHELL),
}

_OTHER_NAMES = {
    "gmake": "make",
    "py.test": "pytest",
    "nodejs": "node",
    "gawk": "awk",
    "mawk": "awk",
    "ggrep": "grep",
}
# Programs for which `--` does not end the options: `find -- . -delete` removes files,
# `cmake --build . -- --eval=x` runs code.
_WITHOUT_END = word_set("find gcc g++ cc clang cmake clang-tidy")
# Programs that run the file named by their first operand; without one, text from a pipe.
_TEXT_RUNNERS = word_set("python node perl ruby php lua bash sh zsh dash ksh fish tclsh")


class _Wrapper(NamedTuple):
    """A program that runs another: its options with a value, and the number of operands before that."""

    valued: str = ""
    operands: int = 0


_WRAPPERS: Mapping[str, _Wrapper] = {
    "timeout": _Wrapper("ks", operands=1),
    "nice": _Wrapper("n"),
    "stdbuf": _Wrapper("ioe"),
    "ionice": _Wrapper("cn"),
    "sudo": _Wrapper("ug"),
    "doas": _Wrapper("u"),
    "env": _Wrapper("u"),
    "xargs": _Wrapper("IinLPsd"),
    **dict.fromkeys(word_set("nohup setsid time npx bunx uvx command exec"), _Wrapper()),
}
_WRAPPING_SUBCOMMANDS = {
    ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipx", "run"), ("bundle", "exec"),
    ("npm", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "exec"), ("yarn", "dlx"), ("python", "-m"),
}  # fmt: skip
# Programs and builtins that run commands given in forms that are not parsed here.
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
# Subcommands that a rule for all of git covers. Others run programs that settings or arguments name, or
# are aliases defined by the user or the repository.
_GIT_COMMANDS = word_set(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore checkout"
    " cherry cherry-pick clean clone commit count-objects describe diff diff-files diff-index diff-tree"
    " fetch for-each-ref format-patch fsck gc grep init log ls-files ls-remote ls-tree merge merge-base"
    " mv name-rev notes pull push range-diff read-tree rebase reflog remote reset restore rev-list"
    " rev-parse revert rm shortlog show show-branch show-ref sparse-checkout stash status submodule"
    " switch symbolic-ref tag update-index update-ref version whatchanged worktree write-tree"
)


def risky_word(words: Words, wanted: Sequence[str]) -> str:
    """Return the first word of a command that a rule with the words `wanted` does not cover, "" for none.

    The rule matches the first words of the command. Options that it spells out are covered.
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
            return words[inner]  # options may come from its input
        return _risky(words[inner:], named[inner:])
    return _risky_argument(_program(words), words, named)


def _program(words: Sequence[str]) -> str:
    """Return the name of a program in the tables, without its directory and version."""
    name = words[0].rpartition("/")[2]
    name = re.sub(r"(?<=^python)[\d.]+$", "", name)
    return _OTHER_NAMES.get(name, name)


def _inner_command(words: Words) -> int | None:
    """Return the position of the command that a wrapper runs, 0 if unknown, None if it is not a wrapper."""
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
        if operands and not word.startswith("-"):
            operands -= 1
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
        return True  # it may match a file named like an option
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
    """Return the name of an option in lower case without dashes, which JavaScript programs also accept."""
    return name.replace("-", "").casefold()


def _risky_git(words: Words, named: Sequence[bool]) -> str:
    """Find a risky word of git: an option before the subcommand, or an unknown subcommand not named."""
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

"""The read-only commands of git: subcommands and options that change nothing. Pure.

Drivers, filters and signature checks that the repository's settings could make git run are judged separately,
by `Reading.git`. Git's environment is assumed to be as tools/processes/env_filter.py sets it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from typing import Literal

from msgspec.structs import replace

from tools.text import word_set

from .option_syntax import NotProved, Options, SplitArguments, split_arguments
from .reading_programs import Reading, globs_of
from .simple_commands import Glob

_DIFF = Options(
    "puszabwWRrtcm",
    valued="SGI",
    attached="UMCBlX",
    words="patch no-patch unified= stat=? numstat shortstat summary name-only name-status color=?"
    " no-color word-diff=? no-renames abbrev=? find-renames=? find-copies=? diff-filter= text"
    " check ignore-space-change ignore-all-space ignore-blank-lines function-context"
    " exit-code quiet no-ext-diff no-textconv relative=? cached staged submodule=?",
)
_HISTORY = Options(
    "gciEFPnq",
    "nL",
    words="max-count= since= after= until= before= author= committer= grep= extended-regexp"
    " fixed-strings perl-regexp merges no-merges first-parent all branches=? tags=? remotes=?"
    " glob= exclude= cherry-pick left-right ancestry-path date-order author-date-order"
    " topo-order reverse oneline pretty=? format= abbrev-commit abbrev=? date= graph"
    " decorate=? no-decorate follow walk-reflogs cc color=? no-color",
    numbers=True,
)
_LOG = Options(
    "gciEFPq",
    "nL" + _DIFF.valued,
    attached=_DIFF.attached,
    words=f"{_DIFF.words} {_HISTORY.words}",
    numbers=True,
)
_LOG_FLAGS = Options(_DIFF.flags)
_PLAIN: Mapping[str, Options] = {
    "rev-parse": Options(
        "q",
        words="abbrev-ref=? show-toplevel git-dir short=? verify quiet all is-inside-work-tree"
        " show-prefix branches=? tags=? remotes=?",
    ),
    "ls-tree": Options("drtlz", words="name-only name-status abbrev=? format="),
    "describe": Options(words="all tags contains abbrev= exclude= always first-parent"),
    "worktree list": Options("v", words="porcelain verbose"),
    "remote": Options("v", words="verbose"),
    "remote get-url": Options(words="all"),
    "show-ref": Options("dq", words="heads tags verify abbrev=? quiet branches"),
    "for-each-ref": Options(words="count= sort= format= points-at= merged=? no-merged=? contains=?"),
    "merge-base": Options("a", words="all is-ancestor"),
    "count-objects": Options("vH", words="verbose human-readable"),
    "check-ignore": Options("qvn", words="quiet verbose no-index"),
    "cat-file": Options("tsep"),
    "symbolic-ref": Options("q", words="quiet short"),
    "version": Options(),
    "rev-list": _HISTORY | Options(words="count"),
    "shortlog": _HISTORY | Options("se", words="numbered summary email"),
    "reflog": _HISTORY,
    "reflog show": _HISTORY,
    "stash list": _HISTORY,
}
_CONTENTS: Mapping[str, Options] = {
    "diff": _DIFF | Options(numbers=True),
    "log": _LOG | _LOG_FLAGS,
    "show": _LOG | _LOG_FLAGS,
    "stash show": _DIFF,
    "diff-tree": _DIFF | Options(words="pretty=? format="),
    "diff-index": _DIFF,
    "status": Options(
        "sbvz",
        attached="uM",
        words="short branch show-stash porcelain=? verbose untracked-files=? ignored=? no-renames"
        " find-renames=?",
    ),
    "blame": Options(
        "bcltfnsewp",
        valued="L",
        attached="MC",
        words="porcelain date= abbrev= since= reverse first-parent",
    ),
    "grep": Options(
        "iIvwhHEGFPnolLzcpWaqr",
        "ABCem",
        words="ignore-case cached text invert-match word-regexp extended-regexp fixed-strings"
        " perl-regexp line-number files-with-matches name-only files-without-match only-matching"
        " count color=? no-color heading after-context= before-context= context= function-context"
        " quiet max-depth= max-count= recursive no-textconv",
        numbers=True,
    ),
    "ls-files": Options(
        "cdmosukztv",
        "x",
        words="cached deleted modified others ignored stage exclude= exclude-standard abbrev=?",
    ),
}
_LISTING = Options(
    words="list sort= format= points-at= contains=? merged=? no-merged=? color=? no-color ignore-case"
)
_LISTS: Mapping[str, Options] = {
    "branch": _LISTING | Options("arvi", words="all remotes verbose show-current abbrev=?"),
    "tag": _LISTING | Options("li", attached="n"),
}
_PATCHES = word_set("p u U patch unified c cc W function-context word-diff")
_SUMMARIES = word_set("s stat shortstat numstat summary name-only name-status quiet no-patch X")
_GREPS_FOR_NAMES = word_set("l L c files-with-matches files-without-match name-only count q quiet")
_SETTING = r"(?!.*(?:token|password|passphrase|secret|header|key|url|helper))\w[\w-]*\.[\w.-]+"


def reading_of_git(arguments: Sequence[str]) -> Reading:
    """Return what a git command reads. Raises NotProved if it may do anything else."""
    words = list(arguments)
    below = ""
    while words[:1] in (["--no-pager"], ["-P"], ["-C"]):
        if words.pop(0) == "-C":
            if below or not words or isinstance(words[0], Glob) or not words[0]:
                raise NotProved("git is only known to be read-only with a single -C")
            below = words.pop(0)
    return replace(_reading(words), below=below)


def _reading(words: list[str]) -> Reading:
    if words in (["--version"], ["version"]):
        return Reading(program="git")
    name = " ".join(words[:1])
    if name in ("worktree", "remote", "reflog", "stash") and len(words) > 1 and not words[1].startswith("-"):
        name = f"{name} {words[1]}"
    rest = words[name.count(" ") + 1 :]
    if name in _LISTS:
        return _listing(name, rest)
    if name == "config":
        return _setting(rest)
    options = _PLAIN.get(name) or _CONTENTS.get(name)
    if options is None:
        raise NotProved(f"git {name} is not known to be read-only" if name else "git without a subcommand")
    split = split_arguments(rest, options)
    _check_formats(split)
    operands = _operands(name, split)
    kind: Literal["names", "contents", "index"] = "contents" if _shows_contents(name, split) else "names"
    reads: Literal["names", "contents", "index"] = "index" if name == "diff" else kind
    return Reading(program="git", git=reads, prints=_prints_contents(name, split), revisions=operands)


def _operands(name: str, split: SplitArguments) -> tuple[str, ...]:
    operands = split.operands
    if name == "symbolic-ref" and len(operands) != 1:
        raise NotProved("git symbolic-ref may set a reference")
    if name in ("remote", "reflog", "stash list", "worktree list", "version") and operands:
        raise NotProved(f"git {name} {operands[0]} is not known to be read-only")
    if name == "grep" and not split.has("e"):
        if globs_of(operands[:1]):
            raise NotProved(f"{operands[0]} may be more than one word")
        return tuple(operands[1:])
    return (*operands, *(value.rpartition(":")[2] for value in split.values("L")))  # 1,5:file


def _shows_contents(name: str, split: SplitArguments) -> bool:
    """Return whether contents of files are read, which history commands only do with some options."""
    if name in ("reflog", "reflog show", "stash list", "rev-list", "shortlog"):
        return split.has("c", "cc")  # diffs of merges
    if name == "log":
        of_diff = (*_DIFF.flags, *_DIFF.valued, *_DIFF.attached, *_DIFF.long)
        return split.has("L", "c", "cc", *of_diff)
    return name in _CONTENTS


def _prints_contents(name: str, split: SplitArguments) -> Literal["", "any", "changed"]:
    """Return which contents of files are printed (not only names or numbers of changes), "" for none."""
    if name == "grep":
        return "" if split.has(*_GREPS_FOR_NAMES) else "any"
    of_one_file = bool(split.operands) and all(":" in word for word in split.operands)
    if not split.has(*_PATCHES) and (name not in ("diff", "show") or of_one_file or split.has(*_SUMMARIES)):
        return ""
    return "changed" if name == "diff" and not split.has("cached", "staged") else "any"


def _check_formats(split: SplitArguments) -> None:
    for value in split.values("format", "pretty", "sort"):
        if "%G" in value or "signature" in value:
            raise NotProved("showing signatures runs a program")
    if {"diff", "log"} & set(split.values("submodule")):
        raise NotProved("showing submodules runs git in them")


def _listing(name: str, arguments: Sequence[str]) -> Reading:
    """List branches or tags. An operand without an option for listing would create one."""
    split = split_arguments(arguments, _LISTS[name])
    _check_formats(split)
    lists = split.has("list", "contains", "merged", "no-merged", "points-at")
    lists = lists or (name == "tag" and split.has("l"))
    if split.operands and not lists:
        raise NotProved(f"git {name} {split.operands[0]} may create one")
    return Reading(program="git", git="names", paths=globs_of(split.operands))


def _setting(arguments: Sequence[str]) -> Reading:
    """Read one setting by its name, unless that is the name of a secret.

    A second word would set it, even if it looks like an option: options precede the name.
    """
    options = ("--global", "--local", "--system", "--get", "--get-all")
    words = [*dropwhile(options.__contains__, arguments)]
    if len(words) != 1 or not re.fullmatch(_SETTING, words[0], re.IGNORECASE):
        raise NotProved("git config is only known to be read-only with a single plain name")
    return Reading(program="git", git="names")

"""What git reads: subcommands and options that change nothing. Pure.

Whether drivers, filters and signatures that the repository's settings name could run is judged apart, by
`Reading.git`. Git's environment (tools/processes/env_filter.py) is taken for granted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import dropwhile
from typing import Literal

from tools.files.text_encoding import word_set

from .option_syntax import NotProved, Options, SplitArguments, split_arguments
from .reading_programs import Reading, globs_of
from .simple_commands import Glob

_DIFF = Options(
    "puszabwWRrtcm",
    "SGI",
    "UMCBlX",
    words="patch no-patch unified= raw patch-with-raw minimal patience histogram diff-algorithm="
    " anchored= stat=? numstat shortstat dirstat=? cumulative compact-summary summary patch-with-stat"
    " name-only name-status color=? no-color color-moved=? no-color-moved color-words=? word-diff=?"
    " word-diff-regex= no-renames rename-empty no-rename-empty full-index binary abbrev=? no-abbrev"
    " find-renames=? find-copies=? find-copies-harder break-rewrites=? diff-filter= pickaxe-all"
    " pickaxe-regex text check ignore-space-at-eol ignore-cr-at-eol ignore-space-change ignore-all-space"
    " ignore-blank-lines ignore-matching-lines= inter-hunk-context= function-context exit-code quiet"
    " no-ext-diff no-textconv ignore-submodules=? src-prefix= dst-prefix= no-prefix line-prefix="
    " relative=? no-relative cached staged merge-base stat-width= stat-count= stat-name-width="
    " indent-heuristic no-indent-heuristic ws-error-highlight= submodule=?",
)
_HISTORY = Options(
    "gciEFPnq",
    "nL",
    words="max-count= skip= since= after= until= before= author= committer= grep= all-match invert-grep"
    " regexp-ignore-case extended-regexp fixed-strings perl-regexp basic-regexp merges no-merges"
    " min-parents= max-parents= first-parent all branches=? tags=? remotes=? glob= exclude= reflog"
    " cherry-pick left-right left-only right-only cherry-mark cherry boundary simplify-by-decoration"
    " full-history dense sparse simplify-merges ancestry-path date-order author-date-order topo-order"
    " reverse oneline pretty=? format= abbrev-commit no-abbrev-commit abbrev=? no-abbrev encoding="
    " notes=? no-notes relative-date date= parents children graph no-graph decorate=? no-decorate"
    " decorate-refs= decorate-refs-exclude= source follow full-diff log-size walk-reflogs no-walk=?"
    " show-pulls cc diff-merges= mailmap no-mailmap use-mailmap no-use-mailmap color=? no-color"
    " clear-decorations remove-empty",
    numbers=True,
)
_LOG = Options("gciEFPq", "nL" + _DIFF.valued, _DIFF.attached, f"{_DIFF.words} {_HISTORY.words}", True)
_LOG_FLAGS = Options(_DIFF.flags)
_PLAIN: Mapping[str, Options] = {
    "rev-parse": Options(
        "q",
        words="abbrev-ref=? show-toplevel git-dir absolute-git-dir git-common-dir short=? verify quiet"
        " all is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository show-prefix"
        " show-cdup symbolic symbolic-full-name branches=? tags=? remotes=?"
        " show-superproject-working-tree",
    ),
    "ls-tree": Options(
        "drtlz", words="name-only name-status object-only long full-name full-tree abbrev=? format="
    ),
    "describe": Options(
        words="all tags contains abbrev= candidates= exact-match debug long match= exclude= always"
        " first-parent"
    ),
    "worktree list": Options("v", words="porcelain verbose"),
    "remote": Options("v", words="verbose"),
    "remote get-url": Options(words="push all"),
    "show-ref": Options("dq", words="heads tags head verify hash=? abbrev=? dereference quiet branches"),
    "for-each-ref": Options(
        words="count= sort= format= points-at= merged=? no-merged=? contains=? no-contains=? ignore-case"
    ),
    "merge-base": Options("a", words="all octopus independent is-ancestor fork-point"),
    "name-rev": Options(words="name-only tags refs= all always exclude="),
    "count-objects": Options("vH", words="verbose human-readable"),
    "check-ignore": Options("qvn", words="quiet verbose non-matching no-index"),
    "check-attr": Options("a", words="all cached"),
    "cat-file": Options("tsep"),
    "symbolic-ref": Options("q", words="quiet short"),
    "version": Options(words="build-options"),
    "rev-list": _HISTORY | Options(words="count objects"),
    "shortlog": _HISTORY | Options("se", words="numbered summary email"),
    "reflog": _HISTORY,
    "reflog show": _HISTORY,
    "stash list": _HISTORY,
}
_CONTENTS: Mapping[str, Options] = {
    "diff": _DIFF | Options(numbers=True),
    "log": _LOG | _LOG_FLAGS,
    "show": _LOG | _LOG_FLAGS,
    "whatchanged": _LOG | _LOG_FLAGS,
    "stash show": _DIFF,
    "diff-tree": _DIFF | Options(words="root no-commit-id cc pretty=? format="),
    "diff-index": _DIFF,
    "diff-files": _DIFF,
    "status": Options(
        "sbvz",
        attached="uM",
        words="short branch show-stash porcelain=? long verbose untracked-files=? ignore-submodules=?"
        " ignored=? column=? no-column ahead-behind no-ahead-behind renames no-renames find-renames=?"
        " null",
    ),
    "blame": Options(
        "bcltfnsewp",
        "L",
        "MC",
        words="root show-stats porcelain line-porcelain date= show-name show-number show-email abbrev="
        " color-lines color-by-age since= reverse first-parent ignore-rev= minimal",
    ),
    "grep": Options(
        "iIvwhHEGFPnolLzcpWaqr",
        "ABCem",
        words="ignore-case cached text invert-match word-regexp full-name extended-regexp basic-regexp"
        " fixed-strings perl-regexp line-number column files-with-matches name-only files-without-match"
        " only-matching null count color=? no-color break heading show-function after-context="
        " before-context= context= function-context and or not all-match quiet max-depth= max-count="
        " recursive no-recursive no-textconv threads=",
        numbers=True,
    ),
    "ls-files": Options(
        "cdmosukztv",
        "x",
        words="cached deleted modified others ignored stage unmerged killed exclude= exclude-standard"
        " error-unmatch full-name directory no-empty-directory eol deduplicate abbrev=?",
    ),
}
_LISTING = Options(
    words="list sort= format= points-at= contains=? no-contains=? merged=? no-merged=? color=? no-color"
    " ignore-case column=? no-column"
)
_LISTS: Mapping[str, Options] = {
    "branch": _LISTING | Options("arvi", words="all remotes verbose show-current abbrev=? no-abbrev"),
    "tag": _LISTING | Options("li", attached="n"),
}
_SHOWING_HISTORY = ("log", "reflog", "reflog show", "stash list", "rev-list", "shortlog")
_TWO_WORDS = word_set("worktree remote reflog stash")
_FORMATS = ("format", "pretty", "sort")
_SHOWING = word_set("diff show")
_PATCHES = word_set(
    "p u U patch unified patch-with-stat patch-with-raw c cc W function-context word-diff color-words"
    " binary ext-diff remerge-diff"
)
_SUMMARIES = word_set(
    "s stat shortstat numstat dirstat summary compact-summary name-only name-status raw quiet no-patch X"
)
_GREPS_FOR_NAMES = word_set("l L c files-with-matches files-without-match name-only count q quiet")
_PATCHES_OF_MERGES = ("c", "cc", "diff-merges")  # options of history that show contents by themselves
_READING_OF_SETTINGS = frozenset(("--global", "--local", "--system", "--get", "--get-all"))
_SETTING = r"(?!.*(?:token|password|passphrase|secret|header|key|url|helper))\w[\w-]*\.[\w.-]+"


def reading_of_git(arguments: Sequence[str]) -> Reading:
    """What a git command reads. Raises NotProved where it may do anything else."""
    words, below = list(arguments), ""
    while words[:1] in (["--no-pager"], ["-P"], ["-C"]):
        if words.pop(0) == "-C":
            if below or not words or isinstance(words[0], Glob) or not words[0]:
                raise NotProved("git -C is known to only read with one folder")
            below = words.pop(0)
    return replace(_reading(words), below=below)


def _reading(words: list[str]) -> Reading:
    if words in (["--version"], ["version"]):
        return Reading("git")
    name, rest = " ".join(words[:1]), words[1:]
    if name in _TWO_WORDS and rest and not rest[0].startswith("-"):
        name, rest = f"{name} {rest[0]}", rest[1:]
    if name in _LISTS:
        return _listing(name, rest)
    if name == "config":
        return _setting(rest)
    options = _PLAIN.get(name) or _CONTENTS.get(name)
    if options is None:
        raise NotProved(f"git {name} is not known to only read" if name else "git without a subcommand")
    split = split_arguments(rest, options)
    _check_formats(split)
    operands = _operands(name, split)
    kind: Literal["names", "contents", "index"] = "contents" if _shows_contents(name, split) else "names"
    reads: Literal["names", "contents", "index"] = "index" if name == "diff" else kind
    return Reading("git", git=reads, prints=_prints_contents(name, split), revisions=operands)


def _operands(name: str, split: SplitArguments) -> tuple[str, ...]:
    operands = split.operands
    if name == "symbolic-ref" and len(operands) != 1:
        raise NotProved("git symbolic-ref may set a reference")
    if name in ("remote", "reflog", "stash list", "worktree list", "version") and operands:
        raise NotProved(f"git {name} {operands[0]} is not known to only read")
    if name == "grep" and not split.has("e"):
        if globs_of(operands[:1]):
            raise NotProved(f"{operands[0]} may be more than one word")
        return tuple(operands[1:])
    return (*operands, *(value.rpartition(":")[2] for value in split.values("L")))  # 1,5:file


def _shows_contents(name: str, split: SplitArguments) -> bool:
    """Whether files or their versions are looked into: history does so with some options only."""
    if any(map(split.has, _PATCHES_OF_MERGES)) and name in _SHOWING_HISTORY:
        return True
    if name == "log":
        return split.has("L") or any(
            map(split.has, (*_DIFF.flags, *_DIFF.valued, *_DIFF.attached, *_DIFF.long))
        )
    return name in _CONTENTS


def _prints_contents(name: str, split: SplitArguments) -> Literal["", "any", "changed"]:
    """Whether what files hold is printed, and not only which they are, or how much changed."""
    if name == "grep":
        return "" if split.has(*_GREPS_FOR_NAMES) else "any"
    of_one_file = bool(split.operands) and all(":" in word for word in split.operands)
    if not split.has(*_PATCHES) and (name not in _SHOWING or of_one_file or split.has(*_SUMMARIES)):
        return ""
    return "changed" if name == "diff" and not split.has("cached", "staged") else "any"


def _check_formats(split: SplitArguments) -> None:
    for value in split.values(*_FORMATS):
        if "%G" in value or "signature" in value:
            raise NotProved("to show signatures a program is run")
    if any(value.startswith("r") for value in split.values("diff-merges")):
        raise NotProved("to merge again git runs drivers")
    if {"diff", "log"} & set(split.values("submodule")):
        raise NotProved("to show submodules git runs in them")


def _listing(name: str, arguments: Sequence[str]) -> Reading:
    """Branches and tags: an operand without an option that lists makes one."""
    split = split_arguments(arguments, _LISTS[name])
    _check_formats(split)
    if split.operands and not split.has(
        "list", "contains", "no-contains", "merged", "no-merged", "points-at"
    ):
        lists = name == "tag" and split.has("l")
        if not lists:
            raise NotProved(f"git {name} {split.operands[0]} may make one")
    return Reading("git", git="names", paths=globs_of(split.operands))


def _setting(arguments: Sequence[str]) -> Reading:
    """One setting by its name, if that is not the name of a secret.

    With another word it would be set, also to what looks like an option: options stand before the name.
    """
    words = [*dropwhile(_READING_OF_SETTINGS.__contains__, arguments)]
    if len(words) != 1 or not re.fullmatch(_SETTING, words[0], re.IGNORECASE):
        raise NotProved("git config is known to only read with one plain name")
    return Reading("git", git="names")

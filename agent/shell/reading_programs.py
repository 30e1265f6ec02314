"""The commands that are known to only read, as far as their words tell. Pure.

Most programs are a row of a table: the options that they may have. What is not there writes, executes, takes
lists of files, is not known well enough, or was never seen: `tests/bench/test_shell_tables.py` shows which
rows and options ever decide. The options are GNU's; where BSD has the same letters they only read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from tools.text import word_set

from .option_syntax import NotProved, Options, split_arguments
from .simple_commands import Glob


class Reading(Struct, frozen=True, kw_only=True):
    """The files, programs and settings that a simple command reads.

    program    that is run, a `builtin` of the shell or found on PATH
    paths      that it names
    places     paths of which it asks only what there is, not what it holds
    trees      directories of which it reads the files; with `follows` also those that links there lead to
    visible    whether it passes hidden files there over
    names      globs of the names that it reads there; () for all
    left_out   globs of the names that it does not
    git        what of a repository: names and history, or contents, for which drivers may run, or the index
               too, which may be written, and then a hook runs
    prints     whether git prints what files hold that no operand names: any, or those changed since `git add`
    revisions  operands of git, which are paths where such a path exists
    below      a directory from which all of this is meant
    version    it only tells its version, if it is no script that chooses which program is run
    """

    program: str
    builtin: bool = False
    paths: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    follows: bool = False
    visible: bool = False
    names: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    git: Literal["", "names", "contents", "index"] = ""
    prints: Literal["", "any", "changed"] = ""
    revisions: tuple[str, ...] = ()
    below: str = ""
    version: bool = False


# The operands are files.
_OF_FILES: Mapping[str, Options] = {
    "ls": Options(
        "aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1",
        words="all author color=? recursive human-readable reverse format= sort= time-style=",
    ),
    "cat": Options("AbeEnstTuv"),
    "head": Options("qvz", "cn", words="bytes= lines= quiet verbose", numbers=True),
    "tail": Options("qvz", "cn", words="bytes= lines= quiet verbose", numbers=True),
    "wc": Options("clmLw", words="bytes lines total="),
    "cut": Options(
        "nsz",
        "bcdf",
        words="bytes= delimiter= fields= complement",
    ),
    "stat": Options("Ltf", "c", words="format= printf="),
    "du": Options(
        "abchHklmsxS0",
        "Bdt",
        words="all apparent-size bytes total human-readable summarize block-size= max-depth= exclude=",
    ),
    "df": Options(
        "ahHiklPT",
        "Btx",
        words="all human-readable total type=",
    ),
    "sort": Options(
        "bdfghiMnRrVcCmsuz",
        "kt",
        words="ignore-case numeric-sort reverse check=? stable unique key= sort=",
    ),
    "diff": Options(
        "abBcdeEiHnNpqrstTuwy",
        "CFIUWx",
        words="brief unified=? context=? recursive text ignore-all-space ignore-space-change"
        " ignore-blank-lines ignore-case suppress-common-lines color=? exclude= speed-large-files",
    ),
    "cmp": Options("bls", "in", words="verbose bytes= quiet"),
    "comm": Options("123z", words="total"),
    "file": Options(
        "bihkLNnr0",
        "F",
        words="brief mime mime-type",
    ),
    "nl": Options("p", "bdfhilnsvw"),
    "tac": Options("br", "s"),
    "rev": Options(),
    "fold": Options("bs", "w", words="bytes"),
    "paste": Options("sz", "d"),
    "join": Options("iz", "a12ejotv", words="ignore-case"),
    "column": Options("tx", "cso"),
    "od": Options("abcdfhilosvx", valued="AjNtS", attached="w"),
    "hexdump": Options("bcCdovx", "ns"),
    "strings": Options("af", "nt"),
    "base64": Options("d", "w"),
    "md5": Options("qr"),
    "realpath": Options(
        "eEmLPqsz",
        words="quiet",
    ),
    "readlink": Options("femnqsvz"),
    "tree": Options(
        "adfFghinpqrstuvxACDJNQSUX",
        words="dirsfirst noreport prune du inodes ignore-case matchdirs",
    ),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha256sum", "sha512sum"),
        Options("btz", words="text"),
    ),
}
# The operands are no files.
_OF_WORDS: Mapping[str, Options] = {
    "which": Options("as", words="all"),
    "tr": Options("cCdst"),
    "basename": Options("az", "s"),
    "dirname": Options("z"),
    "id": Options("agGnruz", words="context"),
    "seq": Options("w", "fs", words="format=", numbers=True),
    "pgrep": Options("aflxcnoi", words="count ignore-case"),
}
# There are no operands.
_OF_NOTHING: Mapping[str, Options] = {
    "uname": Options("asnrvmpio", words="all"),
    "whoami": Options(),
    "hostname": Options("AdfiIs", words="short ip-address"),
    "nproc": Options(words="all ignore="),
    "uptime": Options("ps", words="pretty since"),
    "free": Options("bkmghtwl", words="bytes total"),
}
# Programs that tell their version before they read anything of the project, and the words by which they are
# asked beside `--version`. Not those that may be scripts, or choose the edition that a file of the project
# names (npm, pip, cargo, go, yarn, gradle, pytest).
_VERSIONED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        word_set("bash gcc g++ clang clang++ make cmake git rg jq curl wget tar gdb sed grep psql uv"),
        (),
    ),
    **dict.fromkeys(word_set("node ruby perl php lua docker"), ("-v",)),
    "python": ("-V",),
    **dict.fromkeys(word_set("java javac sqlite3"), ("-version",)),
    "openssl": ("version",),
    "kubectl": ("version --client",),
}


def tabled_programs() -> Mapping[str, Options]:
    """Return the options of each program that stands in a table."""
    return {**_OF_FILES, **_OF_WORDS, **_OF_NOTHING}


def reading_of_tabled(program: str, arguments: Sequence[str]) -> Reading | None:
    """Return what a command reads whose program stands in a table; None for any other. Raises NotProved."""
    options = _OF_FILES.get(program) or _OF_WORDS.get(program) or _OF_NOTHING.get(program)
    if options is None:
        return None
    if list(arguments) in (["--help"], ["--version"]):
        return Reading(program=program)
    split = split_arguments(_numbered(program, arguments), options)
    if program in _OF_NOTHING and split.operands:
        raise NotProved(f"{program} {split.operands[0]} is not known to only read")
    if program not in _OF_FILES:
        return Reading(program=program, paths=globs_of(split.operands))
    files = tuple(word for word in split.operands if word != "-" and (program, word) != ("df", "/"))
    if program == "diff":  # files of two directories are compared without -r too
        return Reading(program=program, paths=files, trees=files, follows=True)
    return Reading(program=program, paths=files)


def _numbered(program: str, arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments without those of `tree` whose value is always the next word, and these values."""
    if program != "tree":
        return arguments
    left: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word not in ("-L", "-P", "-I"):
            left.append(word)
        elif not waiting or isinstance(waiting[-1], Glob) or waiting.pop().startswith("-"):
            raise NotProved(f"tree {word} has an odd value")
    return left


def globs_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return words that are not read as files but may be replaced with names of files."""
    return tuple(word for word in words if isinstance(word, Glob))


def reading_of_version(program: str, arguments: Sequence[str]) -> Reading | None:
    """Return what a command reads that asks for a version; None for any other."""
    name = re.sub(r"^python[23](?:\.\d+)?$", "python", program)
    is_asked = " ".join(arguments) in ("--version", *_VERSIONED.get(name, ()))
    return Reading(program=program, version=True) if is_asked and name in _VERSIONED else None

"""The commands that are known to be read-only, judged by their words. Pure.

Most programs have a row in a table, with their allowed options. Options that are not listed write, execute,
take lists of files, are not known well enough, or never occurred: `tests/bench/test_shell_tables.py` shows
which rows and options are ever decisive. The options are those of GNU. The same letters are read-only in BSD
too.
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

    program    the program that runs, a `builtin` of the shell or found on PATH
    paths      the paths that it names
    places     paths of which it reads only names and metadata, not contents
    trees      directories whose files it reads; with `follows` also the targets of links there
    visible    it skips hidden files there
    names      globs of the names that it reads there; () for all
    left_out   globs of the names that it skips
    git        what it reads of a repository: names and history; contents, for which drivers may run; or also
               the index, which may be written, so a hook may run
    prints     the files whose contents git prints without an operand naming them: any, or those that have
               changed since `git add`
    revisions  operands of git, which are paths if such a path exists
    below      the directory that paths are relative to
    version    it only prints its version, unless it is a script that selects the program to run
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


# Programs whose operands are files; of a directory, they read at most the names and metadata of its files.
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
# Programs that read each file of the directories among their operands, or of the current one.
_OF_TREES: Mapping[str, Options] = {
    "diff": Options(
        "abBcdeEiHnNpqrstTuwy",
        "CFIUWx",
        words="brief unified=? context=? recursive text ignore-all-space ignore-space-change"
        " ignore-blank-lines ignore-case suppress-common-lines color=? exclude= speed-large-files",
    ),
}
# Programs whose operands are not files.
_OF_WORDS: Mapping[str, Options] = {
    "which": Options("as", words="all"),
    "tr": Options("cCdst"),
    "basename": Options("az", "s"),
    "dirname": Options("z"),
    "id": Options("agGnruz", words="context"),
    "seq": Options("w", "fs", words="format=", numbers=True),
    "pgrep": Options("aflxcnoi", words="count ignore-case"),
}
# Programs without operands.
_OF_NOTHING: Mapping[str, Options] = {
    "uname": Options("asnrvmpio", words="all"),
    "whoami": Options(),
    "hostname": Options("AdfiIs", words="short ip-address"),
    "nproc": Options(words="all ignore="),
    "uptime": Options("ps", words="pretty since"),
    "free": Options("bkmghtwl", words="bytes total"),
}
# Programs that print their version without reading any file of the project, and the words for it besides
# `--version`. Without those that may be scripts, or that select a version named by a file of the project
# (npm, pip, cargo, go, yarn, gradle, pytest).
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


# The allowed options of each program in the tables.
TABLED: Mapping[str, Options] = {**_OF_FILES, **_OF_TREES, **_OF_WORDS, **_OF_NOTHING}


def reading_of_tabled(program: str, arguments: Sequence[str]) -> Reading | None:
    """Return the reading of a command whose program is in a table, None for any other. Raises NotProved."""
    options = TABLED.get(program)
    if options is None:
        return None
    if list(arguments) in (["--help"], ["--version"]):
        return Reading(program=program)
    split = split_arguments(_numbered(program, arguments), options)
    if program in _OF_NOTHING and split.operands:
        raise NotProved(f"{program} {split.operands[0]} is not known to be read-only")
    if program in _OF_WORDS or program in _OF_NOTHING:
        return Reading(program=program, paths=globs_of(split.operands))
    files = tuple(word for word in split.operands if word != "-" and (program, word) != ("df", "/"))
    if program in _OF_TREES:  # diff: compares files of two directories even without -r
        return Reading(program=program, paths=files, trees=files or (".",), follows=True)
    return Reading(program=program, paths=files)


def _numbered(program: str, arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments of `tree` without options that take the next word, and the values of those."""
    if program != "tree":
        return arguments
    left: list[str] = []
    waiting = list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word not in ("-L", "-P", "-I"):
            left.append(word)
        elif not waiting or isinstance(waiting[-1], Glob) or waiting.pop().startswith("-"):
            raise NotProved(f"tree {word} has an unknown value")
    return left


def globs_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the globs among words that are not read as files, but may expand to names of files."""
    return tuple(word for word in words if isinstance(word, Glob))


def reading_of_version(program: str, arguments: Sequence[str]) -> Reading | None:
    """Return the reading of a command that prints a version, None for any other."""
    name = re.sub(r"^python[23](?:\.\d+)?$", "python", program)
    is_asked = " ".join(arguments) in ("--version", *_VERSIONED.get(name, ()))
    return Reading(program=program, version=True) if is_asked and name in _VERSIONED else None

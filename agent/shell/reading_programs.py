"""What programs read that are known to only read, as far as their words tell. Pure.

Most are a row of a table: the options that they may have. What is not there writes, executes, takes lists of
files, or is not known well enough. The options are GNU's; where BSD has the same letters they only read too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.files.text_encoding import word_set

from .option_syntax import NotProved, Options, split_arguments
from .simple_commands import Glob


@dataclass(frozen=True, slots=True)
class Reading:
    """What a simple command reads.

    program    that is run, a `builtin` of the shell or found on PATH
    paths      that it names
    places     paths of which it asks only what there is, not what it holds
    trees      folders of which it reads the files; with `follows` also those that links there lead to
    visible    whether it passes hidden files there over
    names      globs of the names that it reads there; () for all
    left_out   globs of the names that it does not
    git        what of a repository: names and history, or contents, for which drivers may run, or the index
               too, which may be written, and then a hook runs
    prints     whether git prints what files hold that no operand names: any, or those changed since `git add`
    revisions  operands of git, which are paths where such a path exists
    below      a folder from which all of this is meant
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
        words="all almost-all author escape directory classify=? color=? file-type full-time inode"
        " recursive group-directories-first human-readable hyperlink=? kibibytes literal no-group"
        " numeric-uid-gid quote-name reverse show-control-chars hide-control-chars si size zero"
        " block-size= format= hide= ignore= ignore-backups indicator-style= quoting-style= sort= tabsize="
        " time= time-style= width=",
    ),
    "cat": Options(
        "AbeEnstTuv",
        words="show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
    ),
    "head": Options("qvz", "cn", words="bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "tail": Options("qvz", "cn", words="bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "wc": Options("clmLw", words="bytes chars lines max-line-length words total="),
    "cut": Options(
        "nsz",
        "bcdf",
        words="bytes= characters= delimiter= fields= complement only-delimited output-delimiter="
        " zero-terminated",
    ),
    "stat": Options("Ltf", "c", words="dereference file-system terse format= printf="),
    "du": Options(
        "abchHklmsxS0",
        "Bdt",
        words="all apparent-size bytes total human-readable inodes summarize one-file-system null si"
        " separate-dirs block-size= max-depth= threshold= exclude= time=? time-style=",
    ),
    "df": Options(
        "ahHiklPT",
        "Btx",
        words="all block-size= human-readable si inodes local portability output=? total type= print-type"
        " exclude-type=",
    ),
    "sort": Options(
        "bdfghiMnRrVcCmsuz",
        "kt",
        words="ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort"
        " ignore-nonprinting month-sort numeric-sort random-sort reverse version-sort check=? merge"
        " stable unique key= zero-terminated field-separator= sort= debug parallel=",
    ),
    "diff": Options(
        "abBcdeEiHnNpqrstTuwy",
        "CFIUWx",
        words="brief report-identical-files side-by-side unified=? context=? recursive text"
        " ignore-all-space ignore-space-change ignore-blank-lines ignore-case ignore-tab-expansion"
        " ignore-trailing-space minimal new-file no-dereference normal ed rcs show-c-function"
        " strip-trailing-cr suppress-common-lines expand-tabs initial-tab left-column color=? exclude="
        " label= show-function-line= ignore-matching-lines= width= tabsize= speed-large-files"
        " unidirectional-new-file",
    ),
    "cmp": Options("bls", "in", words="print-bytes ignore-initial= verbose bytes= quiet silent"),
    "comm": Options("123z", words="check-order nocheck-order output-delimiter= total zero-terminated"),
    "file": Options(
        "bihkLNnr0",
        "F",
        words="brief mime mime-type mime-encoding keep-going dereference no-dereference raw extension"
        " separator=",
    ),
    "nl": Options("p", "bdfhilnsvw"),
    "tac": Options("br", "s"),
    "rev": Options(),
    "fold": Options("bs", "w", words="bytes spaces width="),
    "expand": Options("i", "t"),
    "unexpand": Options("a", "t"),
    "paste": Options("sz", "d", words="delimiters= serial zero-terminated"),
    "join": Options("iz", "a12ejotv", words="check-order nocheck-order header ignore-case"),
    "column": Options("tx", "cso", words="table separator= output-separator="),
    "od": Options("abcdfhilosvx", "AjNtS", "w"),
    "hexdump": Options("bcCdovx", "ns"),
    "strings": Options("af", "nt"),
    "base64": Options("d", "w", words="decode wrap="),
    "cksum": Options(),
    "md5": Options("qr"),
    "realpath": Options(
        "eEmLPqsz",
        words="canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero",
    ),
    "readlink": Options(
        "femnqsvz", words="canonicalize canonicalize-existing canonicalize-missing no-newline"
    ),
    "tree": Options(
        "adfFghinpqrstuvxACDJNQSUX",
        words="dirsfirst filesfirst noreport prune du si inodes device ignore-case matchdirs metafirst"
        " gitignore",
    ),
    **dict.fromkeys(
        ("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"),
        Options("btz", words="binary text tag zero"),
    ),
}
# The operands are no files.
_OF_WORDS: Mapping[str, Options] = {
    "which": Options("as", words="all"),
    "tr": Options("cCdst", words="complement delete squeeze-repeats truncate-set1"),
    "basename": Options("az", "s", words="multiple suffix= zero"),
    "dirname": Options("z", words="zero"),
    "id": Options("agGnruz", words="context group groups name real user zero"),
    "groups": Options(),
    "seq": Options("w", "fs", words="format= separator= equal-width", numbers=True),
    "pgrep": Options("aflxcnoi", words="list-full list-name full exact count newest oldest ignore-case"),
}
# There are no operands.
_OF_NOTHING: Mapping[str, Options] = {
    "uname": Options("asnrvmpio", words="all kernel-name nodename kernel-release kernel-version machine"),
    "whoami": Options(),
    "hostname": Options("AdfiIs", words="fqdn long short all-fqdns ip-address all-ip-addresses"),
    "arch": Options(),
    "nproc": Options(words="all ignore="),
    "uptime": Options("ps", words="pretty since"),
    "free": Options("bkmghtwl", words="bytes kilo mega giga human total wide lohi si"),
    "lscpu": Options(),
    "ss": Options("tulnpaxoime46H", words="tcp udp listening numeric processes all unix no-header"),
    "netstat": Options("tulnpaer46", words="tcp udp listening numeric programs all"),
}
_XXD_WORD = r"(?a:-(?:[abCeEiu]|ps?|[cgls]\d+))"
_XXD_VALUES = {f"-{letter}": r"(?a:[-+]{0,2}(?:0x[\da-fA-F]+|\d+))" for letter in "cglso"}
_TABLED: Mapping[str, Options] = {**_OF_FILES, **_OF_WORDS, **_OF_NOTHING}
# Programs that tell their version before they read anything of the project, and what they are asked by beside
# `--version`. Those that first choose which edition to run, as a file of the project says, or run what one
# names (yarn, gradle, mvn, bundle, dotnet, pytest, flake8), are not among them.
_VERSIONED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(word_set("bash gcc g++ clang clang++ make cmake git rg jq curl wget tar swift ghc"), ()),
    **dict.fromkeys(word_set("ruff mypy black gh stack helm ninja rustfmt tsc prettier gdb sed grep"), ()),
    **dict.fromkeys(word_set("node npm npx ruby gem php perl lua docker docker-compose bun"), ("-v",)),
    **dict.fromkeys(word_set("python pip cargo rustc rustup uv deno psql fd"), ("-V",)),
    **dict.fromkeys(word_set("java javac"), ("-version",)),
    "go": ("version",),
    "sqlite3": ("-version",),
    "openssl": ("version",),
    "kubectl": ("version --client",),
}


def reading_of_tabled(program: str, arguments: Sequence[str]) -> Reading | None:
    """What a command reads whose program stands in the table; None for any other. Raises NotProved."""
    options = _TABLED.get(program)
    if options is None:
        return None
    if list(arguments) in (["--help"], ["--version"]):
        return Reading(program)
    split = split_arguments(_numbered(program, arguments), options)
    if program in _OF_NOTHING and split.operands:
        raise NotProved(f"{program} {split.operands[0]} is not known to only read")
    if program not in _OF_FILES:
        return Reading(program, paths=globs_of(split.operands))
    files = tuple(word for word in split.operands if word != "-" and (program, word) != ("df", "/"))
    if program == "diff":  # files of two folders are compared without -r too
        return Reading(program, paths=files, trees=files, follows=not split.has("no-dereference"))
    return Reading(program, paths=files)


def _numbered(program: str, arguments: Sequence[str]) -> Sequence[str]:
    """The arguments; those of `tree` whose value is always the next word are left out with it."""
    if program != "tree":
        return arguments
    left, waiting = [], list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if word not in ("-L", "-P", "-I"):
            left.append(word)
        elif not waiting or isinstance(waiting[-1], Glob) or waiting.pop().startswith("-"):
            raise NotProved(f"tree {word} has an odd value")
    return left


def globs_of(words: Sequence[str]) -> tuple[str, ...]:
    """Words that are not read as files but may be replaced with names of files."""
    return tuple(word for word in words if isinstance(word, Glob))


def reading_of_xxd(arguments: Sequence[str]) -> Reading:
    """`-r` writes, and so does a second operand."""
    files, waiting = list[str](), list(reversed(arguments))
    while waiting:
        word = waiting.pop()
        if files or not word.startswith("-"):  # behind a file nothing is an option
            files.append(word)
        elif re.fullmatch(_XXD_VALUES.get(word, ""), waiting[-1] if waiting else "-") and word in _XXD_VALUES:
            waiting.pop()
        elif not re.fullmatch(_XXD_WORD, word):
            raise NotProved(f"xxd {word} is not known to only read")
    if len(files) > 1 or globs_of(files):
        raise NotProved("xxd writes its second file")
    return Reading("xxd", paths=tuple(files))


def reading_of_version(program: str, arguments: Sequence[str]) -> Reading | None:
    """What a command reads that asks for a version; None for any other."""
    name = re.sub(r"^(python|pip)[23](?:\.\d+)?$", r"\1", program)
    asked = " ".join(arguments) in ("--version", *_VERSIONED.get(name, ()))
    return Reading(program, version=True) if asked and name in _VERSIONED else None

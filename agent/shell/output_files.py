"""Find the files that programs write because an option, or the directory that they work in, says so.

cc -o build/a.out m.c           the value of an option
unzip -o x.zip -d vendor        everything that an archive contains, below a directory
cd vendor && tar xf ../x.tar    the same
awk '{print > "a.txt"}' b.txt   a file that the program's own code names
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.text import word_set

from .launcher_arguments import option_values
from .vital_places import Scene

_COMPILERS = dict.fromkeys(
    word_set("cc gcc g++ c++ clang clang++ ld rustc go sort pandoc dot protoc gpg openssl"),
    word_set("-o --output -out"),
)
_OPTIONS = {
    **_COMPILERS,
    "curl": word_set("-o --output --output-dir -D --dump-header"),
    "wget": word_set("-O --output-document -P --directory-prefix -o --output-file"),
    "javac": word_set("-d"),
    "tsc": word_set("--outDir --outFile"),
    "esbuild": word_set("--outdir --outfile"),
    "find": word_set("-fprint -fprint0 -fprintf -fls"),
    "unzip": word_set("-d"),
    "tar": word_set("-C --directory"),
    "bsdtar": word_set("-C --directory"),
    "patch": word_set("-d --directory -o --output"),
}
_ARCHIVERS = word_set("unzip tar bsdtar 7z 7za cpio patch")
_AWKS = word_set("awk gawk mawk nawk")


def output_words(scene: Scene) -> Iterator[str]:
    """Yield the words that name files which a command writes, or directories below which it writes."""
    program = scene.program
    options = _OPTIONS.get(program, frozenset())
    if program in ("tar", "bsdtar") and not _extracts(scene):
        return
    named = list(option_values(list(scene.command.words), options))
    yield from named
    if program in _ARCHIVERS and not named:
        yield "."
    if program in _AWKS:
        for code in scene.arguments:
            yield from re.findall(r">\s*\"([^\"\n]{1,400})\"", code[:20_000])
    if program.startswith("python") and scene.arguments[1:2] in (("zipfile",), ("tarfile",)):
        yield from scene.arguments[-1:]


def _extracts(scene: Scene) -> bool:
    """Return whether a command of tar writes files: `tar xf`, `tar -xf` or `tar --extract`."""
    bundled = any("x" in word for word in scene.arguments[:1] if not word.startswith("-"))
    return bundled or scene.has_flag("x", "--extract", "--get")

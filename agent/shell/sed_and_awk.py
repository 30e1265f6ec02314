"""Judge sed scripts and awk programs: whether they only print, or write and run something. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .option_syntax import NotProved, Options, split_arguments
from .simple_commands import Glob

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


def only_prints(script: str) -> bool:
    """Return whether a sed script, run with -n, has no commands but p, = and q."""
    return re.fullmatch(_PRINTING, script) is not None


def awk_only_reads(text: str) -> bool:
    """Return whether an awk program only reads its input and writes to its output."""
    # Anything that reads other files or redirects output, as `>` after `print` may.
    reaching_out = r"system|getline|@|\||ENVIRON|PROCINFO|ARG[VC]|SYMTAB|FUNCTAB|(?s:print.*>)"
    return re.search(reaching_out, text.replace("||", " ")) is None


def writes_only_output(program: str, arguments: Sequence[str]) -> bool:
    """Return whether a `sed` or `awk` with these arguments only writes to its output, and runs nothing."""
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

"""Expand the words of a command: braces, tildes, variables that the line sets, removal of quotes.

Unknown text is represented by marks (parsed_text.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tools.text import word_set
from transcripts.patterns import lazy_pattern

from .parsed_text import ANY, BLANK, CLASS, HOME, MARKS, ONE, SPLIT, STAR, UNSET, Assignment, Part, RawWord

UNCHOSEN = -1
MAX_VALUES = 4  # tried for one variable
_OPEN, _COMMA, _CLOSE, _BRACKET, _WAVE = map(chr, range(0xFDD8, 0xFDDD))  # unquoted `{`, `,`, `}`, `[`, `~`
_GLOBS = str.maketrans({"*": STAR, "?": ONE, "[": _BRACKET})
_UNQUOTED = str.maketrans(
    {"{": _OPEN, ",": _COMMA, "}": _CLOSE, "*": STAR, "?": ONE, "[": _BRACKET, "~": _WAVE}
)
_BRACES_AS_TEXT = str.maketrans({_OPEN: "{", _COMMA: ",", _CLOSE: "}"})
_ONE_TEXT = str.maketrans(
    {
        _OPEN: "{",
        _COMMA: ",",
        _CLOSE: "}",
        STAR: "*",
        ONE: "?",
        _BRACKET: "[",
        BLANK: " ",
        SPLIT: ANY,
        _WAVE: "~",
    }
)
_BLANK_RUN = lazy_pattern("[ \t\n]+")
_BRACKET_GLOB = lazy_pattern(rf"{_BRACKET}([!^]?)\]?(?:[\[{_BRACKET}]:\w+:\]|[^\]/])*\]")
_TILDE = lazy_pattern(rf"{_WAVE}([\w+-]*)(?=/|{BLANK}|\Z)")
_BRACE = lazy_pattern(f"[{_OPEN}{_COMMA}{_CLOSE}]")
# Environment variables that are set (to a directory or to one word) unless the line sets them.
_SET_VARIABLES = word_set(
    "TMPDIR TMP TEMP OLDPWD USER LOGNAME SHELL HOSTNAME UID EUID PPID RANDOM SECONDS LINENO BASH"
    " VIRTUAL_ENV CONDA_PREFIX GITHUB_WORKSPACE RUNNER_TEMP CI_PROJECT_DIR WORKSPACE GOPATH CARGO_HOME"
    " XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR _"
)
_PRINTS_FOLDER = lazy_pattern(r"\s*(?:builtin\s+)?(?:command\s+)?pwd(?:\s+-[LP])?\s*")
_PRINTS_REPOSITORY = lazy_pattern(r"\s*git\s+rev-parse\s+--(?:absolute-)?git-dir\s*")
_PRINTS_WORD = lazy_pattern(
    r"\s*(?:echo|printf)\s+(?:'([\w./+=:@-]+)'|([\w./+=:@][\w./+=:@-]*|~))\s*", re.ASCII
)
_PRINTS_PROJECT = lazy_pattern(r"\s*git\s+rev-parse\s+--show-toplevel\s*(?:2>\s*/dev/null\s*)?")
_LISTS_ALL = lazy_pattern(
    r"\s*(?:ls(?:\s+-\w+)*|dir|find(?:\s+\./?)?(?:\s+-type\s+[fd]|\s+-m(?:ax|in)depth\s+\d|\s+-print0?)*|echo\s+\*)\s*"
)
_LISTS_PLACE = lazy_pattern(  # all files in a directory elsewhere
    r"\s*(?:ls(?:\s+-\w+)*|dir|find|echo|printf\s+\S+)\s+(/[\w./-]*|~[\w./-]*|\.\.[\w./-]*)\*?"
    r"(?:\s+-type\s+[fd]|\s+-m(?:ax|in)depth\s+\d|\s+-print0?)*\s*(?:2>\s*/dev/null\s*)?"
)
Values = Mapping[str, Sequence[str]]  # variable -> the values that a line may set it to


def known_values(assigned: Sequence[Assignment], inherited: Values) -> dict[str, list[str]]:
    """Return the values of the variables, as text with marks. ANY stands for any other value."""
    values = {name: list(known) for name, known in inherited.items()}
    for name, word, listed in (*assigned, *assigned):  # twice, since a loop sets them in any order
        if word is None:
            found = [ANY]
        else:
            found = [
                text for choice in choices([word], values) for text in _values(word, values, choice, listed)
            ]
            found = [" ".join(found) or ANY] if name.endswith("]") or name in ("@", "*") else found
        known = values.setdefault(name, [])
        known += (text for text in found if text not in known)
        if len(known) > MAX_VALUES:
            known[MAX_VALUES:] = [ANY]
    return values


def _values(word: RawWord, values: Values, choice: int, listed: bool) -> list[str]:
    return expand_word(word, values, choice) if listed else [expanded_text(word, values, choice)]


def choices(words: Iterable[RawWord], values: Values) -> Sequence[int]:
    """Return the choices of values to try: the number of the value that each variable takes, or UNCHOSEN."""
    names = {part.text for word in words for part in word.parts if part.kind == "variable"}
    counts = sorted(len(values.get(name, ())) for name in names)
    if len(counts) > 1 and counts[-2] > 1:
        return (*range(counts[-1]), UNCHOSEN)
    return range(max(1, counts[-1])) if counts else (0,)


def expand_word(word: RawWord, values: Values, choice: int = 0) -> list[str]:
    """Return the words that a word becomes; `choice` is the number of the value that each variable takes."""
    text = _joined(word.parts, values, choice)
    has_quotes = any(part.quoted and part.kind == "text" for part in word.parts)
    found: list[str] = []
    for alternative in _alternatives(text) if _OPEN in text else [text]:
        text = _with_home(alternative.translate(_BRACES_AS_TEXT), values)
        pieces = _with_globs(text).split(BLANK)
        if has_quotes and not any(pieces):
            found.append("")
        found += filter(None, pieces)
    return found


def expanded_text(word: RawWord, values: Values, choice: int = 0) -> str:
    """Return a word as one text without splitting, as in an assignment or a here-document."""
    return _with_home(_joined(word.parts, values, choice), values).translate(_ONE_TEXT)


def _joined(parts: Sequence[Part], values: Values, choice: int) -> str:
    """Return the text of a word before brace expansion, with marks for unquoted special characters."""
    pieces: list[str] = []
    for part in parts:
        if part.kind == "text":
            pieces.append(part.text if part.quoted else part.text.translate(_UNQUOTED))
        elif part.kind == "variable":
            pieces.append(_value(part, values, choice))
        else:
            pieces.append(_substituted(part))
    return "".join(pieces)


def _with_home(text: str, values: Values) -> str:
    """Return a word with a leading tilde replaced with the home directory of the current or another user."""
    found = _TILDE.match(text)
    text = text.replace(_WAVE, "~")
    if found is None:
        return text
    name = found[1]
    if not name and "HOME" in values:
        folder = values["HOME"][0]
    else:
        folder = {"": HOME, "+": ".", "-": ANY, "root": "/root"}.get(name, f"/home/{name}")
    return folder + text[found.end() :]


def _value(part: Part, values: Values, choice: int) -> str:
    """Return the value of a variable, as text with marks."""
    known = values.get(part.text)
    if part.text == "IFS" and known is None and not part.quoted:
        return BLANK
    if known is None:
        if part.text in ("HOME", "PWD"):
            return HOME if part.text == "HOME" else "."
        if part.text == "@" or (part.text.endswith("]") and "@" in part.text):
            return SPLIT
        if part.text in _SET_VARIABLES:
            return ANY
        return f"{UNSET if part.text.isidentifier() else ''}{ANY if part.quoted else SPLIT}"
    value = ANY if choice == UNCHOSEN and len(known) > 1 else known[choice % len(known)]
    is_list = part.text == "@" or part.text.endswith("[@]")
    if part.quoted and not is_list:
        return value
    if ANY in value or "IFS" in values:
        return f"{UNSET if value.startswith(UNSET) else ''}{SPLIT}"
    value = _BLANK_RUN.sub(BLANK, value)
    return value if part.quoted else value.translate(_GLOBS)


def _substituted(part: Part) -> str:
    """Return the output of a substitution, as text with marks."""
    if part.kind == "code":
        if _PRINTS_FOLDER.fullmatch(part.text) or _PRINTS_PROJECT.fullmatch(part.text):
            return "."
        if _PRINTS_REPOSITORY.fullmatch(part.text):
            return ".git"
        if word := _PRINTS_WORD.fullmatch(part.text):
            return HOME if word[2] == "~" else word[1] or word[2]
        if not part.quoted and _LISTS_ALL.fullmatch(part.text):
            return STAR
        if not part.quoted and (listed := _LISTS_PLACE.fullmatch(part.text)):
            folder = listed[1].replace("~/", HOME + "/") if listed[1] != "~" else HOME
            return f"{folder}/{STAR}{BLANK}{SPLIT}"
    return ANY if part.quoted else SPLIT


def _with_globs(text: str) -> str:
    if _BRACKET not in text:
        return text
    end = text.rfind("]") + 1
    marked = _BRACKET_GLOB.sub(lambda match: ONE if match[1] else CLASS, text[:end])
    return (marked + text[end:]).replace(_BRACKET, "[")


def _alternatives(text: str) -> list[str]:
    """Return the words of a brace expansion: `a{b,c}` gives `ab` and `ac`. Too many become unknown words."""
    if text.count(_OPEN) > 40:
        return [SPLIT]
    found = [""]
    at = 0
    while (start := text.find(_OPEN, at)) >= 0:
        end = _closing_brace(text, start)
        options = _options(text[start + 1 : end]) if end > 0 else ["{"]
        found = [before + text[at:start] + option for before in found for option in options]
        if len(found) > 64:
            return [SPLIT]
        at = max(start, end) + 1
    return [before + text[at:] for before in found]


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for match in _BRACE.finditer(text, start):
        depth += {_OPEN: 1, _CLOSE: -1}.get(match[0], 0)
        if depth == 0:
            return match.start()
    return -1


def _options(inner: str) -> list[str]:
    """Return the alternatives of a pair of braces; the braces themselves if there is only one."""
    pieces = [""]
    depth = 0
    for char in inner:
        depth += {_OPEN: 1, _CLOSE: -1}.get(char, 0)
        if char == _COMMA and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += char
    if len(pieces) > 1:
        return [option for piece in pieces for option in _alternatives(piece)]
    if ".." in inner and not MARKS.search(inner):
        return [SPLIT]
    return [f"{{{option}}}" for option in _alternatives(inner)]

"""Find the functions, methods, classes and types that a source text defines, line by line.

One set of patterns serves all common languages. It looks for the keyword of a definition (`def`, `func`,
`class`, `interface`, ...), for a name that gets a function (`const parse = (text) =>`), and for a parameter
list before an opening brace, as C, Java and TypeScript write methods:

    func (s *Store) Append(fact Fact) error {     Append
    export async function loadAll() {             loadAll
      private render(width: number): string {     render

A name that no known file defines, such as one of a standard library, is never found.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator

from transcripts.patterns import lazy_pattern

MAX_SEARCHED_CHARS = 60_000  # of one text
MAX_LINE_CHARS = 300  # a longer line is generated or data
LINE_NUMBER = lazy_pattern(r"^ *\d+(?:→|\t)", re.MULTILINE)  # before each line that a read shows
_KEYWORD = lazy_pattern(
    r"^\s*+(?:(?:export|default|declare|pub(?:\([a-z]+\))?|public|private|protected|internal|static|final|abstract"
    r"|async|sealed|open|data|inline|unsafe|partial|const|override|virtual)\s++){0,5}+"
    r"(?:def|class|func(?:\s*+\([^()]*\))?|fn|function\b(?:\s*+\*)?|interface|type|struct|enum|trait|protocol)"
    r"\s++(?P<name>[A-Za-z_$][\w$]{2,}+)\s*+(?:[(<:{=\[]|extends\b|implements\b|struct\b|interface\b|func\b|$)"
)
_ASSIGNED = lazy_pattern(
    r"^\s*+(?:export\s++)?(?:default\s++)?(?:const|let|var)\s++(?P<name>[A-Za-z_$][\w$]{2,})\s*+(?::[^=]{0,80})?"
    r"=\s*+(?:async\b|function\b|\([^()]*\)\s*+(?::[^=]{0,60})?=>|[\w$]++\s*+=>)"
)
_BRACED = lazy_pattern(
    r"^[\s}]*+(?:[\w<>\[\],:*&?.]++\s++){0,5}?[*&]?(?P<name>[A-Za-z_$][\w$]{2,})\s*+\([^;]*\)[^;(){}=]*+\{\s*+$"
)
# Keywords of statements that look like a definition with braces: `if (ready) {`, `describe("it", () => {`.
_STATEMENTS = frozenset(
    {
        *("assert", "await", "case", "catch", "constructor", "defer", "describe", "else", "elseif", "elif"),
        *("except", "for", "foreach", "function", "func", "guard", "if", "lock", "new", "return", "select"),
        *("super", "switch", "synchronized", "test", "throw", "try", "unless", "until", "using", "when"),
        *("while", "with", "yield"),
    }
)


def definitions(text: str) -> Iterator[tuple[int, str]]:
    """Yield (offset of its line, name) for each definition in a text without line numbers, in order."""
    at = 0
    for line in text[:MAX_SEARCHED_CHARS].split("\n"):
        if len(line) <= MAX_LINE_CHARS and (name := _defined_in(line)):
            yield at, name
        at += len(line) + 1


def _defined_in(line: str) -> str:
    """Return the name that a line defines, "" if none."""
    found = _KEYWORD.match(line) or _ASSIGNED.match(line)
    if found is not None:
        name = found["name"]
        return "" if name.startswith("__") and name.endswith("__") else name
    found = _BRACED.match(line)
    if found is None or not _STATEMENTS.isdisjoint(re.findall(r"\w+", line[: found.end("name")])):
        return ""
    return found["name"]


def enclosing_definition(text: str, piece: str) -> str:
    """Return the name of the definition that a piece of a text is in, "" if there is none.

    As in the hunk headers of git, that is the nearest definition at or above the first line of the piece.
    """
    start = text.find(piece) if piece else -1
    if start < 0:
        return ""
    found = list(definitions(text[: text.find("\n", start) if "\n" in text[start:] else len(text)]))
    before = bisect_right(found, start, key=lambda each: each[0])
    return found[before - 1][1] if before else ""

"""Strings and pages keep to plain words: no terms and phrasings of the old vocabulary, no long sentences.

A net for the obvious. What it cannot see is whether a line is understood at first reading.
Run `python -m tests.test_words` to list the findings, by file.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("agent", "tools", "compact", "transcripts")
MIN_WORDS = 3  # of a string that is read as a sentence or a part of one
MAX_SENTENCE_WORDS = 40  # of a string of the program; the README has its own, lower limit
TERMS = {  # pattern -> what to write instead
    r"\bwall(s|ed)?\b(?! (clock|time))": "sandbox, sandboxed, blocked",
    r"\b(a|the|this|one|each|every) persons?('s)?\b|\bperson's\b|\bpeople\b": "user, or you",
    r"\b(some|any)body\b|\bnobody\b": "user, another process, no one",
    r"\bledgers?\b": "local summary",
    r"\b(make|makes|making|made|keep|keeps|more) room\b|\broom (is|was) made\b|\bthere is room\b": "free context",  # noqa: E501
    r"\b(go|goes|going|gone|went) on\b(?! (a|the)\b)": "continue, resume",
    r"\banew\b|\bonce more\b": "again, or re- in front of the verb",
    r"\btold\b|\btells?\b(?! (me|makeroom|you|the (model|user)|it)\b)": "show, print, report, notify",
    r"\b(brings|brought)\b": "contain, define, return",
    r"\bsurroundings\b": "environment",
    r"\b(looks? only|only looks?|sure to (look|only))\b": "read-only",
    r"\b(stands?|stood) (in|there|alone|above|below|beside)\b|\b(you|we) stand in\b": "is in",
    r"\bby way of\b": "through, with",
    r"\bbut for\b": "except",
    r"(?<!there )\b(is|are|was|were) no (?!longer\b|more\b|such\b)[a-z]+\b": "is not a",
    r"\b(is|are) asked about\b|\basked about\b": "needs your approval",
    r"\b(let|lets) (in|out|through)\b": "allow, run outside the sandbox",
    r"\bin (the )?place of\b": "instead of, replaces",
    r"\bto none\b": "no ...",
    r"\b(has|have|had|having) (the model|it|them|you|an agent|the running command) (?!\w+ed\b)[a-z]+\b": "verb",  # noqa: E501
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\bnor (has|have|is|are|does|do)\b": "a sentence of its own",
    r"\bhold(s|ing)? (back|good)\b|\bcannot be made good\b": "irreversible, still valid",
    r"\bfolders? (you|that you)\b|\bfolder of (your|the) home\b": "current directory, home directory",
    r"(?<![\w/.-])folders?\b(?![\w/=])": "directory",
    r"\bsettles?\b|\bwhereupon\b|\btherein\b|\bthereof\b": "plain words",
}
STARTS = {  # of a sentence
    r"What (?![^.?!]*\?)": "name the thing",
    r"Whether\b": "name the thing",
}
# (file, part of the text) -> why it stays.
ALLOWED: dict[tuple[str, str], str] = {
    ("transcripts/search/words.py", "about after again all already"): "the words that a search leaves out",
}
_STARTS = {re.compile(rf"(?:^|(?<=[.!?] )){pattern}"): better for pattern, better in STARTS.items()}
_TERMS = {re.compile(pattern, re.IGNORECASE): better for pattern, better in TERMS.items()}
_NAMES = re.compile(r"`[^`]*`|\{[^}]*\}|<[^>]*>|https?://\S+|(?<![\w])[~./][\w./-]+")


class Finding(NamedTuple):
    """Words in a place that should be others; `better` is a hint."""

    file: str
    line: int
    words: str
    better: str
    text: str


def _strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the sentence-like string constants of a module with their lines, docstrings left out."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[int] = set()
    for node in ast.walk(tree):  # each before its parts
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                skipped.add(id(statement.value))
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield from _sentence_like(node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield from _sentence_like(node.lineno, node.value)


def _sentence_like(line: int, text: str) -> Iterator[tuple[int, str]]:
    words = re.findall(r"(?<![\w\\])[A-Za-z][a-z']*(?![\w\\(])", text)
    is_pattern = "(?" in text or r"\b" in text or r"\s" in text
    if len(words) >= MIN_WORDS and " " in text.strip() and not is_pattern:
        yield line, text


def judge(file: str, line: int, text: str) -> Iterator[Finding]:
    """Yield what is wrong with a text."""
    plain = _NAMES.sub("x", " ".join(text.split()))
    for patterns in (_TERMS, _STARTS):
        for pattern, better in patterns.items():
            for found in pattern.finditer(plain):
                if not any(file == where and part in text for where, part in ALLOWED):
                    yield Finding(file, line, found[0], better, plain)
    for sentence in re.split(r"(?<=[.!?;:])\s|\n", text):
        is_table = "|" in sentence or not re.search(
            r"[,:;!?]|\.(\s|$)", sentence
        )  # of figures, or a list of names
        if len(sentence.split()) > MAX_SENTENCE_WORDS and not is_table:
            yield Finding(
                file, line, sentence[:40], f"at most {MAX_SENTENCE_WORDS} words in a sentence", plain
            )


def findings() -> Iterator[Finding]:
    """Yield what is found in the strings of the program and in README and docs."""
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for line, text in _strings(path):
                yield from judge(path.relative_to(ROOT).as_posix(), line, text)
    pages = [ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    for page in (*pages, *sorted((ROOT / "docs").rglob("*.md"))):
        prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for paragraph in re.split(r"\n\s*\n|\n(?=\s*[-*|])", prose):
            yield from judge(page.relative_to(ROOT).as_posix(), 0, paragraph)


def test_strings_and_pages_keep_to_plain_words() -> None:
    found = [f"{each.file}:{each.line}: {each.words!r} -> {each.better}" for each in findings()]
    assert found == []


def test_each_exception_is_needed() -> None:
    texts = {(file, text) for file in {file for file, _ in ALLOWED} for _, text in _strings(ROOT / file)}
    unused = [key for key in ALLOWED if not any(file == key[0] and key[1] in text for file, text in texts)]
    assert unused == []


if __name__ == "__main__":
    wanted = tuple(sys.argv[1:])
    for each in findings():
        if not wanted or each.file.startswith(wanted):
            sys.stdout.write(f"{each.file}:{each.line}: {each.words!r} -> {each.better}: {each.text[:160]}\n")

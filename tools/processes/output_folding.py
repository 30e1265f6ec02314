"""Fold repetitive lines in a command's output: equal lines, progress, passed tests.

Each run of such lines becomes one line with their number. Lines of progress are equal except for a share, a
time or a speed: `Downloading layer 7%`. A line that reports a failure or a measurement is never folded, and
neither are the rows of a table. The output of commands that show files or changes is not folded, since it may
be needed verbatim for an edit.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from transcripts.patterns import lazy_pattern

MIN_EQUAL_LINES = 4  # consecutive lines to fold
MIN_PROGRESS_LINES = 4
MIN_PASSED_TESTS = 4
MIN_SAVED_CHARS = 400  # by which folding has to shorten an output
_SHOWS_FILES = lazy_pattern(  # at the beginning of a pipeline; after a pipe they filter other output
    r"(?:^|[;&(\n]|\|\||\b(?:xargs|sudo|exec|env|time)\s(?:-\S+\s)*)\s*(?:\w+=\S*\s+)*(?:\S*/)?"
    r"(?:cat|bat|sed|awk|head|tail|less|more|nl|tac|grep|egrep|fgrep|rg|ag|diff|colordiff|patch|jq|yq|od|xxd|"
    r"hexdump|strings|cut|sort|paste|column|fold|fmt|tr|find|fd|ls|tree)\b"
    r"|\bgit\b[^|;&]*\b(?:diff|show|log|blame|grep|stash|cat-file|format-patch)\b"
)
_PASSED = lazy_pattern(
    r"^(?:"
    r"(?>\S+?::)[^\s\[]+(?:\[.*\])? PASSED(?:\s+\[\s*\d+%\])?"  # pytest -v, without output (-s)
    r"|\[gw\d+\](?: \[\s*\d+%\])? PASSED \S.*"  # pytest-xdist -v
    r"|test \S.* \.\.\. ok"  # cargo test
    r"|\w+ \(\S+\) ?\.\.\. ok"  # unittest -v
    r"|\s*=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- PASS: .*"  # go test -v
    r"|ok \d+(?!.*(?:#\s*(?i:skip|todo)|\d ?%|/s\b))(?: - .*)?"  # TAP
    r"|ok +\t\S+\t(?:\(cached\)|[\d.]+s)"  # go test: packages that passed; one with coverage is kept
    r"|\s*\[ +(?:RUN|OK) +\] .*"  # googletest
    r")\s*$"
)
_STARTED = lazy_pattern(r"\s*(?:=== (?:RUN|PAUSE|CONT|NAME) |\[ +RUN +\])")
_CHECKED = lazy_pattern(  # jest, mocha, vitest; anything in a line besides a name and a duration is kept
    r"^\s*[✓✔√] (?!.*(?:%|\||://|\b\d[\d.]*+ ?[kKMG]i?B\b|\d\.\d|tests?\)|(?i:skip|retr|warn|error|fail))).*$"
)
_TEST_SUMMARY = lazy_pattern(  # of jest, mocha, vitest, node
    r"(?m)^\s*(?:Tests:? +\d+ \w+|\d+ passing\b|[ℹ#] pass \d+$)"
)
_REPORTS = lazy_pattern(  # failures, ends and measurements, which are never progress
    r"(?i)fail|error|warn|panic|traceback|exception|fatal|abort|exit|denied|refused|timed? ?out|kill|crash|"
    r"cannot|unable|invalid|miss|not found|skip|pass|accura|cover|usage|used|utili|cpu|memory|loss|score|"
    r"rate\b|recall|precision|hits?\b|took|latency|duration|average|mean|median"
)
_BAR = r"\[[=#>\-. ]{6,}\]|[█▉▊▋▌▍▎▏━╸╺]{3,}|(?:\.{10} ){2,}"
_NUMBER = r"(?<![\w.,])\d[\d.,]*+"
_SIZE = r"(?: ?(?:[kKMGT]i?B?|B|bytes))?"
_SHARE = rf"{_NUMBER} ?%|{_NUMBER}{_SIZE}(?: ?/ ?| (?:out )?of )\d[\d.,]*+{_SIZE}(?![\w/])"
_TIME = r"(?<![\w.])(?:\d+(?:\.\d+)?(?:ms|min|sec|[smh])){1,3}(?!\w)|(?<![\w:])\d+(?::\d\d){1,2}(?![\w:])"
_SPEED = rf"{_NUMBER} ?(?:[kKMGT]i?)(?:B?/s|B)?(?!\w)"
_HAS_BAR = lazy_pattern(_BAR)
_FIRST_SHARE = lazy_pattern(_SHARE)
_MOVING_BESIDE_BAR = lazy_pattern(f"{_BAR}|{_SHARE}|{_TIME}|{_SPEED}")
_MOVING_BESIDE_SHARE = lazy_pattern(rf"{_NUMBER} ?(?:[kKMGT]i?)?B?/s(?!\w)|(?i:\beta:? )(?:{_TIME})")
_MOVING_IN_WAIT = lazy_pattern(_TIME)
_ACTIVITY = lazy_pattern(
    r"(?i)\b(?:download|upload|transfer|receiv|send|fetch|pull|push|cop[iy]|mov|writ|read|load|sav|sync|extract|"
    r"unpack|compress|decompress|resolv|count|install|updat|build|compil|link|index|scan|process|check|verify|"
    r"convert|encod|generat|prepar|wait|complet|progress|clon|import|export|delet|remov)(?:ing|ed|y|e)?\b"
)
_WAIT = lazy_pattern(r"(?i)\bstill\b|\bwaiting (?:for|on|until)\b")


class _Step(NamedTuple):
    """A line of progress: its text without what moves, and the share that is done, if it shows one."""

    text: str
    share: float | None


def fold_output(text: str, command: str) -> str:
    """Return the output of a command line with such lines folded, unchanged if that would save little."""
    if len(text) < MIN_SAVED_CHARS or _SHOWS_FILES.search(command):
        return text
    made = "\n".join(_folded(text.split("\n"), are_tests=bool(_TEST_SUMMARY.search(text))))
    return made if len(made) <= len(text) - MIN_SAVED_CHARS else text


def _folded(lines: Sequence[str], *, are_tests: bool) -> Iterator[str]:
    """Yield the lines with runs folded. `are_tests`: lines with a check mark are tests that passed."""
    at = 0
    while at < len(lines):
        line = lines[at]
        count = 1
        if line.strip() and (equal := _run(lines, at, line.__eq__)) >= MIN_EQUAL_LINES:
            yield from (line, f"[the same line {equal - 1} more times]")
            count = equal
        elif (passed := _passed_run(lines, at)) >= MIN_PASSED_TESTS:
            yield f"[{passed} lines of passed tests]"
            count = passed
        elif are_tests and (checked := _run(lines, at, _CHECKED.match)) >= MIN_PASSED_TESTS:
            yield f"[{checked} lines marked {line.lstrip()[0]}]"
            count = checked
        elif (moving := _progress_run(lines, at)) >= MIN_PROGRESS_LINES:
            yield from (line, f"[{moving - 2} lines of progress]", lines[at + moving - 1])
            count = moving
        else:
            yield line
        at += count


def _passed_run(lines: Sequence[str], at: int) -> int:
    """Return the length of a run of passed tests; one that only started at its end may not have passed."""
    count = _run(lines, at, _PASSED.match)
    while count and _STARTED.match(lines[at + count - 1]):
        count -= 1
    return count


def _progress_run(lines: Sequence[str], at: int) -> int:
    """Return the length of the run of lines that are equal except for a share that does not decrease."""
    first = _progress_step(lines[at])
    if first is None:
        return 0
    end = at + 1
    share = first.share
    while end < len(lines) and (step := _progress_step(lines[end])) and step.text == first.text:
        if step.share is not None and share is not None and step.share < share:
            break
        share = step.share
        end += 1
    return end - at


def _progress_step(line: str) -> _Step | None:
    """Return the step that a line of progress shows; None for every other line.

    `Downloading 3 of 9` is a step. So is a line with a bar, or one that says how long a wait has
    lasted. A percentage alone is not: tables and measurements have them too. Neither is a line without a bar
    that has a size or a time beside the share, such as `Scanning bucket 3 of 8: 12 GB`.
    """
    if len(line) > 300 or _REPORTS.search(line):
        return None
    share = _FIRST_SHARE.search(line)
    if _HAS_BAR.search(line):
        text = _MOVING_BESIDE_BAR.sub(" # ", line)
    elif share is None:
        text = _MOVING_IN_WAIT.sub(" # ", line)
        if text == line or not _WAIT.search(text):
            return None
    else:
        text = _MOVING_BESIDE_SHARE.sub(" # ", _FIRST_SHARE.sub(" # ", line, count=1))
        if not _ACTIVITY.search(text):
            return None
    number = re.match(r"\d+(?:\.\d+)?", share[0]) if share else None
    return _Step(" ".join(text.split()), float(number[0]) if number else None)


def _run(lines: Sequence[str], at: int, fits: Callable[[str], object]) -> int:
    """Return the length of the run of matching lines that begins at `at`."""
    end = at
    while end < len(lines) and fits(lines[end]):
        end += 1
    return end - at

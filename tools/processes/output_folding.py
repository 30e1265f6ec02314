"""Fold repetitive lines in a command's output: equal lines, progress, passed tests.

Each run of such lines becomes one line with their number. The output of commands that show files or changes
is not folded, since it may be needed verbatim for an edit.
"""

import re
from collections.abc import Callable, Iterator, Sequence

MIN_EQUAL_LINES = 4  # consecutive lines to fold
MIN_PROGRESS_LINES = 4
MIN_PASSED_TESTS = 4
MIN_SAVED_CHARS = 400  # by which folding has to shorten an output
_SHOWS_FILES = re.compile(  # at the beginning of a pipeline; after a pipe they filter other output
    r"(?:^|[;&(\n]|\|\||\b(?:xargs|sudo|exec|env|time)\s(?:-\S+\s)*)\s*(?:\w+=\S*\s+)*(?:\S*/)?"
    r"(?:cat|bat|sed|awk|head|tail|less|more|nl|tac|grep|egrep|fgrep|rg|ag|diff|colordiff|patch|jq|yq|od|xxd|"
    r"hexdump|strings|cut|sort|paste|column|fold|fmt|tr|find|fd|ls|tree)\b"
    r"|\bgit\b[^|;&]*\b(?:diff|show|log|blame|grep|stash|cat-file|format-patch)\b"
)
_PASSED = re.compile(
    r"^(?:"
    r"(?>\S+?::)\S.* PASSED(?:\s+\[\s*\d+%\])?"  # pytest -v
    r"|\[gw\d+\](?: \[\s*\d+%\])? PASSED \S.*"  # pytest-xdist -v
    r"|test \S.* \.\.\. ok"  # cargo test
    r"|\w+ \(\S+\) ?(?:\n.*)?\.\.\. ok"  # unittest -v
    r"|\s*=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- PASS: .*"  # go test -v
    r"|ok \d+(?: - .*)?"  # TAP
    r"|(?:ok|\?) +\t\S+\t.*"  # go test: packages that passed, or have no tests
    r"|\s*[✓✔√] .*"  # jest, mocha, vitest
    r"|\s*\[ +(?:RUN|OK) +\] .*"  # googletest
    r")\s*$"
)
_PROGRESS = re.compile(
    r"\b\d{1,3}(?:\.\d+)? ?%|\[[=#>\-. ]{6,}\]|[█▉▊▋▌▍▎▏━]{3,}"
    r"|^\s*(?:Downloading|Compiling|Checking|Fetching|Get:\d+|Unpacking|Preparing to unpack|Setting up|"
    r"Selecting previously|Receiving objects|Resolving deltas|Collecting|Requirement already satisfied|"
    r"npm http fetch)\b"
)


def fold_output(text: str, command: str) -> str:
    """Return the output of a command line with such lines folded, unchanged if that would save little."""
    if len(text) < MIN_SAVED_CHARS or _SHOWS_FILES.search(command):
        return text
    made = "\n".join(_folded(text.split("\n")))
    return made if len(made) <= len(text) - MIN_SAVED_CHARS else text


def _folded(lines: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        count = 1
        if line.strip() and (equal := _run(lines, at, line.__eq__)) >= MIN_EQUAL_LINES:
            yield from (line, f"[the same line {equal - 1} more times]")
            count = equal
        elif (passed := _run(lines, at, _is_passed)) >= MIN_PASSED_TESTS:
            yield f"[{passed} lines of passed tests]"
            count = passed
        elif (moving := _run(lines, at, _is_progress)) >= MIN_PROGRESS_LINES:
            yield from (line, f"[{moving - 2} lines of progress]", lines[at + moving - 1])
            count = moving
        else:
            yield line
        at += count


def _is_passed(line: str) -> bool:
    return _PASSED.match(line) is not None


def _is_progress(line: str) -> bool:
    return _PROGRESS.search(line) is not None and not _is_passed(line)


def _run(lines: Sequence[str], at: int, fits: Callable[[str], bool]) -> int:
    """Return the length of the run of matching lines that begins at `at`."""
    end = at
    while end < len(lines) and fits(lines[end]):
        end += 1
    return end - at

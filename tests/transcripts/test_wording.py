"""Counts, long texts and errors in words."""

import errno
import os

from tests.tables import each_row
from transcripts.wording import cause_of, pluralize, shorten


@each_row(
    ("given", "words"),
    [
        (pluralize(0, "line"), "0 lines"),
        (pluralize(1, "entry", "entries"), "1 entry"),
        (pluralize(2_000, "entry", "entries"), "2,000 entries"),
        (shorten("abcd", 4), "abcd"),
        (shorten("abcde", 4), "abc…"),
        (cause_of(OSError(errno.EACCES, os.strerror(errno.EACCES), "/etc/shadow")), "Permission denied"),
        (cause_of(OSError("too many connections")), "too many connections"),
        (cause_of(ValueError("no number")), "no number"),
        (cause_of(TimeoutError()), "TimeoutError"),
    ],
)
def test_counts_long_texts_and_errors_read_alike_everywhere(given: str, words: str) -> None:
    assert given == words

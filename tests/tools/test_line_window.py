"""A window of lines is the same however a file is read, and never larger than allowed."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.tables import each_row
from tools import line_window
from tools.line_window import LineWindow, cut_text, number_lines, scan_file
from tools.text.encoding import TextForm, unify_newlines

WIDTH, BYTES = 5, 40  # in these tests, so that small texts reach them


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_window, "MAX_WIDTH_CHARS", WIDTH)
        patch.setattr(line_window, "_SCAN_CHARS", 7)
        PLACE[:] = [tmp_path_factory.mktemp("windows") / "file"]
        yield PLACE[0]


PLACE: list[Path] = []


def scanned(data: bytes, offset: int, limit: int, *, abandoned: bool = False) -> LineWindow | None:
    """Return the window that is cut out of a file too large for memory."""
    PLACE[0].write_bytes(data)
    descriptor, event = os.open(PLACE[0], os.O_RDONLY), threading.Event()
    if abandoned:
        event.set()
    try:
        return scan_file(descriptor, len(data), (offset, limit), event, BYTES)
    finally:
        os.close(descriptor)


def expected(text: str, offset: int, limit: int) -> tuple[int, list[str], int]:
    """Return first line, shown lines, number of lines, by an independent walk."""
    lines = unify_newlines(text).split("\n")
    if not lines[-1]:
        lines.pop()
    first = max(1, len(lines) + offset + 1) if offset < 0 else offset
    shown: list[str] = []
    size = 0
    for line in lines[first - 1 :][:limit]:
        size += len(line[:WIDTH].encode()) + 1
        if size > BYTES and shown:  # one line is shown whatever its size
            break
        shown.append(line if len(line) <= WIDTH else f"{line[:WIDTH]}…[+{len(line) - WIDTH} chars]")
    return first, shown, len(lines)


TEXTS = st.text(alphabet=st.sampled_from("abcde\n\n\r é\u2028"), min_size=1, max_size=80)


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(-12, 14).filter(bool), st.integers(1, 12))
@example("abcdef", 1, 5)
@example("abcde", 1, 5)
@example("abcde\nabcdef\n", 1, 5)
@example("0123456789\n" * 3, 2, 2)
@example("aaaaa\n" * 6 + "\u2028\u2028\u2028\u2028\n", 1, 9)
@example("\u2028" * 5, 1, 9)
def test_both_ways_of_reading_cut_out_the_same_lines(text: str, offset: int, limit: int):
    first, lines, total = expected(text, offset, limit)
    more = first + len(lines) <= total
    data = text.encode()
    cut = cut_text(text, TextForm(), (offset, limit), max_bytes=BYTES)
    assert (cut.first, cut.lines, cut.total, cut.more) == (first, lines, total, more)
    scan = scanned(data, offset, limit)
    assert scan is not None
    assert (scan.first, scan.lines, scan.total, scan.more) == (first, lines, total, more)
    assert (scan.sha256, scan.stopped) == (hashlib.sha256(data).hexdigest(), False)
    numbers = [f"{first + index}\t{line}" for index, line in enumerate(lines)]
    assert number_lines(scan) == "\n".join(numbers)
    assert cut.last == first + len(lines) - 1


@each_row("codec", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_is_hashed_and_not_shown(codec: str):
    data = "één\nzwei\n".encode(codec)
    scan = scanned(data, 1, 5)
    assert scan is not None
    assert scan.lines == ["één", "zwei"] and scan.sha256 == hashlib.sha256(data).hexdigest()


def test_half_a_unit_at_the_end_of_utf_16_is_shown_as_no_text():
    scan = scanned("ab\ncd".encode("utf-16") + b"\x41", 1, 5)
    assert scan is not None
    assert scan.lines == ["ab", "cd\ufffd"]


@each_row("shift", range(3))
def test_a_character_across_the_end_of_the_sample_makes_no_other_encoding(shift: int):
    scan = scanned(b"x" * shift + "\u20ac".encode() * 30_000 + b"\n", 1, 1)
    assert scan is not None
    assert (scan.form.codec, scan.form.strays) == ("utf-8", 0)


def test_a_binary_file_has_no_lines():
    assert scanned(b"a\n\0b", 1, 5) is None


def test_a_search_that_is_abandoned_or_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch):
    scan = scanned(b"a\nb\n", 1, 5, abandoned=True)
    assert scan is not None
    assert (scan.stopped, scan.total, scan.sha256, scan.more) == (True, None, None, True)
    monkeypatch.setattr(line_window, "_SCAN_LIMIT_S", -1.0)
    scan = scanned(b"a\nb\n", 1, 5)
    assert scan is not None and scan.stopped


def test_a_huge_file_is_read_no_further_than_needed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line_window, "MAX_WHOLE_BYTES", 1_000)
    monkeypatch.setattr(line_window, "_BUFFER_BYTES", 64)
    data = b"".join(b"%03d\n" % n for n in range(100_000))
    scan = scanned(data, 3, 2)
    assert scan is not None
    assert (scan.first, scan.lines) == (3, ["002", "003"])
    assert (scan.total, scan.sha256, scan.more, scan.stopped) == (None, None, True, False)


def test_the_last_lines_of_a_huge_file_are_counted_from_its_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(line_window, "MAX_WHOLE_BYTES", 10)
    monkeypatch.setattr(line_window, "_END_BYTES", 18)
    data = b"".join(b"%03d\n" % n for n in range(100))
    scan = scanned(data, -3, 2)
    assert scan is not None
    assert (scan.first, scan.lines, scan.total, scan.more) == (-3, ["097", "098"], None, True)
    scan = scanned(data, -50, 50)
    assert scan is not None
    assert (scan.first, scan.lines, scan.more) == (-4, ["096", "097", "098", "099"], False)
    scan = scanned(b"\xff\xfe" + "0\n12\n3456\nab\n".encode("utf-16-le"), -2, 5)
    assert scan is not None
    assert (scan.first, scan.lines) == (-2, ["3456", "ab"])

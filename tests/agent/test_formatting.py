import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from agent.formatting import format_bytes
from tests.tables import each_row
from transcripts.render_text import format_age

NOW = datetime(2026, 11, 21, 14, 30)


@pytest.fixture(params=["Asia/Tokyo", "America/New_York", "UTC0"], autouse=True)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@each_row(
    ("then", "words"),
    [
        (datetime(2026, 11, 21, 14, 29, 30), "just now"),
        (datetime(2026, 11, 21, 14, 25), "5 min ago"),
        (datetime(2026, 11, 21, 11, 20), "3 h ago"),
        (datetime(2026, 11, 21, 0, 1), "14 h ago"),
        (datetime(2026, 11, 20, 23, 59), "yesterday 23:59"),
        (datetime(2026, 11, 20, 14, 2), "yesterday 14:02"),
        (datetime(2026, 11, 16, 9, 5), "Mon 09:05"),
        (datetime(2026, 11, 12, 14, 2), "12 Nov 14:02"),
        (datetime(2025, 12, 31, 14, 2), "2025-12-31"),
        (datetime(2026, 11, 21, 15, 0), "21 Nov 15:00"),
    ],
)
def test_moments_are_reported_in_local_time(then: datetime, words: str) -> None:
    assert format_age(then.timestamp(), NOW.timestamp()) == words
    assert len(words) <= 15


@each_row("at", [1e300, -1e300, float("inf"), float("nan")])
def test_a_moment_that_no_calendar_has_is_not_an_error(at: float) -> None:
    assert format_age(at, NOW.timestamp()) == "no date"


@each_row(
    ("size", "words"),
    [
        (0, "0 B"),
        (40, "40 B"),
        (999, "999 B"),
        (1_000, "1.0 kB"),
        (26_700, "26.7 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (40_000_000, "40.0 MB"),
        (999_500_000, "1.0 GB"),
        (12_340_000_000, "12.3 GB"),
    ],
)
def test_a_size_has_the_unit_that_shows_it(size: int, words: str) -> None:
    assert format_bytes(size) == words

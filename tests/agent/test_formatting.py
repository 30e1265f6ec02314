import time
from collections.abc import Iterator
from datetime import datetime

import pytest

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

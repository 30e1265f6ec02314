"""Durations, numbers and dates as people read them."""

from __future__ import annotations

from datetime import datetime

NO_DATE = "no date"


def format_duration(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min 5 s`, `2 h 3 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def shorten(text: str, max_chars: int) -> str:
    """The text, or its start and `…` in `max_chars` characters."""
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def format_count(number: int) -> str:
    """`950`, `1.2k`, `48k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 999_500:
        return f"{number / 1000:.1f}k" if number < 9_950 else f"{number / 1000:.0f}k"
    return f"{number / 1_000_000:.1f}M"


def format_age(at: float, now: float) -> str:
    """`5 min ago`, `3 h ago` (today), `yesterday 14:02`, `Mon 14:02`, `12 Nov 14:02`, `2025-11-12`.

    Both in seconds since the epoch, shown in local time; at most 15 characters. `no date` for a moment
    that no calendar has.
    """
    try:
        then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    except (OverflowError, OSError, ValueError):
        return NO_DATE
    spent, days = now - at, (today.date() - then.date()).days
    if 0 <= spent < 60:
        return "just now"
    if 0 <= spent < 3600:
        return f"{int(spent // 60)} min ago"
    if days == 0 and spent > 0:
        return f"{int(spent // 3600)} h ago"
    if days == 1:
        return f"yesterday {then:%H:%M}"
    if 1 < days < 7:
        return f"{then:%a %H:%M}"
    return f"{then:%d %b %H:%M}" if then.year == today.year else f"{then:%Y-%m-%d}"


def format_timestamp(at: float) -> str:
    """`2026-11-21 07:00` in local time, or `no date` padded to the same 16 characters."""
    try:
        return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
    except (OverflowError, OSError, ValueError):
        return f"{NO_DATE:<16}"

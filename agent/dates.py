"""When something was, for a person: near moments as how long ago, later ones as a local date and time."""

from __future__ import annotations

from datetime import datetime

UNKNOWN = "no date"


def when(at: float, now: float) -> str:
    """`5 min ago`, `3 h ago` (today), `yesterday 14:02`, `Mon 14:02`, `12 Nov 14:02`, `2025-11-12`.

    Both in seconds since the epoch; at most 15 characters. A moment that no calendar has is `no date`.
    """
    try:
        then, today = datetime.fromtimestamp(at), datetime.fromtimestamp(now)
    except (OverflowError, OSError, ValueError):
        return UNKNOWN
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


def stamp(at: float) -> str:
    """`2026-11-21 07:00`, in the person's time zone; 16 characters, or `no date`."""
    try:
        return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
    except (OverflowError, OSError, ValueError):
        return f"{UNKNOWN:<16}"

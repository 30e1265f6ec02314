"""When to try again: a pure schedule. Visible and cancellable, because the turn does the waiting.

Ten tries; 0.5 s doubled each time up to 60 s, with up to 25 % taken off at random so that many clients
do not come back together. What the server asks for with Retry-After is kept to, up to ten minutes;
beyond that waiting is pointless and the error is shown at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from agent.errors import ModelError, TransientError

TRIES = 10
FIRST, LONGEST = 0.5, 60.0
PATIENCE = 600.0  # seconds of Retry-After that we wait out


def wait_before(error: ModelError, attempt: int, jitter: float) -> float | None:
    """Seconds until the next try, or None when there is none.

    `attempt` is the number of tries made (1 after the first); `jitter` is in 0..1.
    """
    if not isinstance(error, TransientError) or attempt >= (error.tries or TRIES):
        return None
    asked = error.retry_after
    if asked is not None and asked > PATIENCE:
        return None
    backoff = min(LONGEST, FIRST * 2.0 ** (attempt - 1)) * (1 - 0.25 * jitter)
    return max(backoff, asked or 0.0)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that an answer asks us to wait: retry-after-ms, or retry-after as a number or an HTTP date.

    A date is compared with the server's own clock where the answer tells it: ours may be off by days.
    Absurd values count as absent.
    """
    if (seconds := _number(headers.get("retry-after-ms"))) is not None:
        seconds /= 1000
    else:
        header = headers.get("retry-after")
        seconds = _number(header)
        if seconds is None and (until := _date(header)) is not None:
            seconds = max(0.0, until - (_date(headers.get("date")) or now))
    return seconds if seconds is not None and 0 <= seconds < 1e9 else None


def _number(header: str | None) -> float | None:
    try:
        return float(header or "")
    except ValueError:
        return None


def _date(header: str | None) -> float | None:
    try:
        return parsedate_to_datetime(header or "").timestamp()
    except (ValueError, OverflowError):
        return None

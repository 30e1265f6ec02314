"""The schedule of retries. Pure: the caller waits, so that waiting can be shown and cancelled.

There are ten attempts. The wait is 0.5 s, doubled each time up to 60 s, and reduced by up to 25 % at random
so that many clients do not return at the same moment. Retry-After is respected up to ten minutes; after a
longer one the error is shown immediately.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from agent.errors import ModelError, TransientError

MAX_TRIES = 10
UNREADABLE_TRIES = 3  # for an invalid response, which more attempts will hardly change
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
MAX_RETRY_AFTER_S = 600.0
MAX_HEADER_CHARS = 100  # of a header with a number or a date
MAX_JITTER = 0.25  # share by which a wait may be reduced


def wait_before(error: ModelError, attempt: int, jitter: float, most: int = MAX_TRIES) -> float | None:
    """Return the seconds until the next attempt, or None if there is none.

    `attempt` is the number of attempts made (1 after the first), `jitter` is in 0..1, and `most` limits the
    attempts after an error without a limit of its own.
    """
    if not isinstance(error, TransientError) or attempt >= (error.tries or most):
        return None
    asked = error.retry_after
    if asked is not None and asked > MAX_RETRY_AFTER_S:
        return None
    backoff = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** (attempt - 1)) * (1 - MAX_JITTER * jitter)
    return max(backoff, asked or 0.0)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds to wait by retry-after-ms, or by retry-after as a number or an HTTP date.

    A date is compared with the server's clock if the response contains it, since ours may be wrong by days.
    Implausible values count as missing.
    """
    if (seconds := _number(headers.get("retry-after-ms"))) is not None:
        seconds /= 1000
    else:
        header = (headers.get("retry-after") or "")[:MAX_HEADER_CHARS]
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
        return parsedate_to_datetime((header or "")[:MAX_HEADER_CHARS]).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError, OSError):
        return None

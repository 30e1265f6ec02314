"""When to try again: a pure schedule. Visible and cancellable, because the turn does the waiting.

Ten tries; 0.5 s doubled each time up to 60 s, with up to 25 % taken off at random so that many clients
do not come back together. What the server asks for with Retry-After is kept to, up to ten minutes;
beyond that waiting is pointless and the error is shown at once.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from .errors import ModelError, Transient

TRIES = 10
FIRST, LONGEST = 0.5, 60.0
PATIENCE = 600.0  # seconds of Retry-After that we wait out


def wait_before(error: ModelError, attempt: int, jitter: float) -> float | None:
    """Seconds until the next try, or None when there is none.

    `attempt` is the number of tries made (1 after the first); `jitter` is in 0..1.
    """
    if not isinstance(error, Transient) or attempt >= (error.tries or TRIES):
        return None
    asked = error.retry_after
    if asked is not None and asked > PATIENCE:
        return None
    backoff = min(LONGEST, FIRST * 2.0 ** (attempt - 1)) * (1 - 0.25 * jitter)
    return max(backoff, asked or 0.0)


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header: a number or an HTTP date. Absurd values count as absent."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        seconds = _until(header, now)
    return seconds if 0 <= seconds < 1e9 else None


def _until(header: str, now: float) -> float:
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except ValueError:
        return -1.0

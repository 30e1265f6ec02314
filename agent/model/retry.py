"""The schedule of retries. Pure: the caller waits, so that waiting can be shown and cancelled.

Each cause of failures has ten attempts, so that a server that stops, starts and is overloaded for a while is
not given up on because the failures add up. The wait is 0.5 s, doubled at each failure of a cause up to 60 s,
and reduced by up to 25 % at random so that many clients do not return at the same moment. Retry-After is
respected up to ten minutes; after a longer one the error is shown immediately. An error with a limit of its
own, such as an invalid response, counts only if it is repeated in the same words: damage in transit is never
the same twice.

For a server on this machine that refuses connections, time counts instead of attempts: it is asked every two
seconds for a minute.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from msgspec import Struct, field

from agent.errors import FailureCause, TransientError

MAX_TRIES = 10
UNREADABLE_TRIES = 3  # for an invalid response, which more attempts will hardly change
FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
MAX_PATIENT_WAIT_S = 2.0  # so that a server that has restarted is soon found
MAX_RETRY_AFTER_S = 600.0
MAX_HEADER_CHARS = 100  # of a header with a number or a date


class Retry(Struct, frozen=True):
    """The next attempt, `attempt` of `tries`, in `seconds`.

    left_s  seconds after which there are no more attempts, if time counts instead of their number
    """

    seconds: float
    attempt: int
    tries: int
    left_s: float | None = None


class Failures(Struct):
    """The failed attempts of one request so far.

    most       limits the attempts that end with failures of one cause
    patient    where an error says so, time counts instead of attempts
    _by_cause  failures of each cause
    _by_words  errors with a limit of their own, by their text
    _newest    the cause of all failures since the monotonic time `_since`
    """

    most: int = MAX_TRIES
    patient: bool = True
    _by_cause: Counter[FailureCause] = field(default_factory=Counter)
    _by_words: Counter[str] = field(default_factory=Counter)
    _newest: FailureCause | None = None
    _since: float = 0.0

    def retry(self, error: TransientError, *, now: float, jitter: float) -> Retry | None:
        """Count a failure, and return the next attempt, or None if there is none.

        `now` is a monotonic time in seconds, and `jitter` is in 0..1.
        """
        if self._newest != error.cause:
            self._newest = error.cause
            self._since = now
        self._by_cause[error.cause] += 1
        failed = self._by_cause[error.cause]
        asked = error.retry_after or 0.0
        if asked > MAX_RETRY_AFTER_S:
            return None
        # Jitter shortens a wait by up to a quarter.
        backoff = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** (failed - 1)) * (1 - 0.25 * jitter)
        if error.patience_s is not None and self.patient:
            return _patient_retry(failed, backoff, self._since + error.patience_s - now)
        tries = self.most
        if error.tries is not None and error.tries < tries:
            self._by_words[str(error)] += 1
            if self._by_words[str(error)] >= error.tries:
                return None
            failed = self._by_words[str(error)]
            tries = error.tries
        if self._by_cause[error.cause] >= self.most:
            return None
        return Retry(max(backoff, asked), attempt=failed + 1, tries=tries)


def _patient_retry(failed: int, backoff: float, left_s: float) -> Retry | None:
    seconds = min(backoff, MAX_PATIENT_WAIT_S)
    if left_s < seconds:
        return None
    more = math.floor(left_s / MAX_PATIENT_WAIT_S)
    return Retry(seconds, attempt=failed + 1, tries=failed + max(1, more), left_s=left_s)


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

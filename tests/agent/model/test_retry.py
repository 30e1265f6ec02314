"""Decisions about retries, and their pauses."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from agent.errors import TransientError
from agent.model.error_mapping import LOCAL_RESTART_S, ended_early, invalid_response
from agent.model.retry import (
    FIRST_WAIT_S,
    MAX_PATIENT_WAIT_S,
    MAX_RETRY_AFTER_S,
    MAX_TRIES,
    MAX_WAIT_S,
    UNREADABLE_TRIES,
    Failures,
    Retry,
)

BUSY = TransientError("busy")
REFUSED = TransientError("nothing listens", cause="refused", patience_s=LOCAL_RESTART_S)


def retries(
    *errors: TransientError, failures: Failures | None = None, jitter: float = 0.5
) -> Iterator[Retry]:
    """Yield the retries after the errors until there are none left; only the waits take time."""
    failures = failures or Failures()
    now = 100.0
    for error in errors:
        retry = failures.retry(error, now=now, jitter=jitter)
        if retry is None:
            return
        now += retry.seconds
        yield retry


@given(st.floats(0, 1))
def test_waits_grow_and_stay_bounded(jitter: float) -> None:
    waits = [retry.seconds for retry in retries(*[BUSY] * 20, jitter=jitter)]
    assert waits == sorted(waits)
    assert waits[0] >= 0.3 and waits[-1] <= MAX_WAIT_S


def test_after_ten_attempts_there_is_no_other() -> None:
    found = [*retries(*[BUSY] * 20)]
    assert [(retry.attempt, retry.tries) for retry in found] == [(at, 10) for at in range(2, 11)]


def test_each_cause_has_its_own_attempts_and_waits() -> None:
    found = [*retries(*[BUSY, ended_early()] * 20)]
    assert len(found) == 2 * (MAX_TRIES - 1)
    assert [retry.attempt for retry in found] == [at for at in range(2, 11) for _ in range(2)]
    assert [retry.seconds for retry in found[:2]] == [FIRST_WAIT_S * 0.875] * 2


def test_an_invalid_response_is_given_up_soon_only_where_it_is_the_same() -> None:
    same = [*retries(*[invalid_response("x")] * 20)]
    assert [(retry.attempt, retry.tries) for retry in same] == [(2, UNREADABLE_TRIES), (3, UNREADABLE_TRIES)]
    assert len([*retries(*(invalid_response(f"x{at}") for at in range(20)))]) == MAX_TRIES - 1


def test_where_as_few_attempts_are_allowed_different_invalid_responses_share_them() -> None:
    different = (invalid_response(f"x{at}") for at in range(20))
    found = [*retries(*different, failures=Failures(most=UNREADABLE_TRIES))]
    assert [(retry.attempt, retry.tries) for retry in found] == [(2, 3), (3, 3)]


def test_a_server_that_refuses_connections_is_asked_often_for_a_minute() -> None:
    found = [*retries(*[REFUSED] * 99)]
    assert 50 < sum(retry.seconds for retry in found) <= LOCAL_RESTART_S
    assert max(retry.seconds for retry in found) == MAX_PATIENT_WAIT_S
    left = [retry.left_s or 0.0 for retry in found]
    assert left[0] == LOCAL_RESTART_S and left == sorted(left, reverse=True)
    assert all(retry.tries >= retry.attempt for retry in found)
    assert found[0].tries == 1 + LOCAL_RESTART_S / MAX_PATIENT_WAIT_S
    assert found[-1].tries == found[-1].attempt == len(found) + 1, "no other one follows"


def test_the_minute_begins_again_once_the_server_was_there() -> None:
    halves = [REFUSED] * 20
    assert len([*retries(*halves, ended_early(), *halves)]) == 41


def test_attempts_that_the_user_has_limited_are_as_many_with_a_server_that_refuses_connections() -> None:
    assert len([*retries(*[REFUSED] * 99, failures=Failures(most=3, patient=False))]) == 2


def test_the_wait_that_the_server_asks_for_is_respected_up_to_ten_minutes() -> None:
    def asked(seconds: float) -> list[float]:
        return [retry.seconds for retry in retries(TransientError("busy", seconds))]

    assert asked(120) == [120]
    assert asked(0.1) == [FIRST_WAIT_S * 0.875]
    assert asked(MAX_RETRY_AFTER_S) == [MAX_RETRY_AFTER_S]
    assert asked(MAX_RETRY_AFTER_S + 1) == []

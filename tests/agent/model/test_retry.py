"""Decisions about retries, and their pauses."""

from hypothesis import given
from hypothesis import strategies as st

from agent.errors import RequestRejected, TransientError
from agent.model.retry import MAX_RETRY_AFTER_S, MAX_TRIES, MAX_WAIT_S, wait_before


@given(st.integers(1, MAX_TRIES - 1), st.floats(0, 1))
def test_waits_grow_and_stay_bounded(attempt: int, jitter: float) -> None:
    wait = wait_before(TransientError("x"), attempt, jitter)
    assert wait is not None
    assert 0.3 <= wait <= MAX_WAIT_S
    later = wait_before(TransientError("x"), attempt + 1, jitter)
    assert later is None or later >= wait


def test_after_ten_tries_there_is_no_other() -> None:
    assert wait_before(TransientError("x"), MAX_TRIES, 0.5) is None


def test_only_what_may_pass_is_tried_again() -> None:
    assert wait_before(RequestRejected("x"), 1, 0.5) is None


def test_what_the_server_asks_for_is_waited_out_up_to_ten_minutes() -> None:
    assert wait_before(TransientError("x", 120), 1, 0.5) == 120
    assert wait_before(TransientError("x", MAX_RETRY_AFTER_S), 1, 0.5) == MAX_RETRY_AFTER_S
    assert wait_before(TransientError("x", MAX_RETRY_AFTER_S + 1), 1, 0.5) is None

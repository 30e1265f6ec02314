"""Copies of sessions: what a fork takes from its original."""

from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.session.repository import SessionRepository
from transcripts.facts import User
from transcripts.messages import TextBlock, Usage


def test_a_copy_is_charged_for_rewound_requests_too_even_if_they_cost_the_same(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session = repository.new()
    for words in ("first", "second"):
        at = session.folded.last_seq
        session.user((TextBlock(words),))
        session.charge(Usage(100, 10), "m")
        if words == "first":
            session.rewound(at, {})
    assert [charge.usage for charge in session.folded.charges] == [Usage(100, 10)] * 2
    copy = repository.copy(session)
    assert copy.folded.charges == session.folded.charges
    assert [type(fact).__name__ for fact in copy.folded.facts].count("User") == 1
    session.close("left")
    copy.close("left")


def test_a_fork_at_a_fact_that_the_session_lacks_names_its_last_one(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session = repository.new()
    session.user((TextBlock("first"),))
    path = repository.records.path_of(session.sid)
    last = session.folded.last_seq
    session.close("left")
    with pytest.raises(UsageError, match=r"has no r99, its last id is r\d+; search ids"):
        repository.fork(path, at=99)
    copy = repository.fork(path, at=last)
    assert [fact.seq for fact in copy.folded.facts if isinstance(fact, User)] == [last]
    copy.close("left")

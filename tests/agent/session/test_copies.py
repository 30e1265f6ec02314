"""Copies of sessions: what a fork takes from its original."""

from pathlib import Path

import pytest

from agent.session.repository import SessionRepository
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

"""A session of another agent that two processes continued is adopted as two sessions."""

from __future__ import annotations

from pathlib import Path

from agent.session import SessionRepository
from tests.transcripts.test_importers import two_writers
from transcripts import read_transcript


def test_two_writers_of_a_claude_code_file_become_two_sessions(tmp_path: Path) -> None:
    (tmp_path / "recording.jsonl").write_bytes(two_writers())
    told: list[str] = []
    repository = SessionRepository(tmp_path, keep=True, tell=told.append)
    session = repository.adopt(tmp_path / "recording.jsonl")
    session.close()
    listed = {each.sid: each for each in repository.records.continuable()}
    (other,) = listed.keys() - {session.sid}
    assert listed[other].fork_of == session.sid
    facts = read_transcript(listed[other].path).facts
    assert "second writer" in str(facts) and "first writer" not in str(facts)
    assert "second writer" not in str(session.folded.facts)
    assert told == [
        "skipped in recording.jsonl: progress lines (1)",
        "two processes continued this session from r3: it continues with the one that wrote last,"
        f" and the other is now session {other}",
    ]
    repository.close()

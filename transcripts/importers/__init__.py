"""Imports recordings of this and other agents as facts: which formats there are, detecting one, reading it.

Pure: bytes in, facts out. Each format is a module with `recognizes(file)` and `read_session(file, session)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transcripts.facts import Reply

from . import api_messages, claude_code, makeroom_record, pi, swe_agent
from .recording import Count, ImportedSession, ParsedFile, UnreadableRecording, parse_file

__all__ = ["IMPORT_FORMATS", "UnreadableRecording", "detect_format", "import_session"]


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """A format of recordings: its name, what it is, how to recognize and how to read it."""

    name: str
    what: str
    recognizes: Callable[[ParsedFile], bool]
    read_session: Callable[[ParsedFile, ImportedSession], None]


IMPORT_FORMATS = tuple(  # in the order in which they are tried
    ImportFormat(name, what, module.recognizes, module.read_session)
    for name, what, module in (
        ("makeroom", "our own transcripts (.transcripts/*.jsonl)", makeroom_record),
        ("swe-agent", "SWE-agent trajectories (*.traj)", swe_agent),
        ("claude-code", "Claude Code sessions (~/.claude/projects/*/*.jsonl)", claude_code),
        ("pi", "pi sessions (~/.pi/agent/sessions/*/*.jsonl)", pi),
        ("messages", "plain Messages API messages, one a line", api_messages),
    )
)


def detect_format(raw: bytes) -> tuple[ImportFormat, ParsedFile]:
    """The format of a file's bytes, and the file parsed.

    Raises UnreadableRecording where it is empty, or of no known format: the message lists those.
    """
    file = parse_file(raw)
    for known in IMPORT_FORMATS:
        if known.recognizes(file):
            return known, file
    names = "; ".join(known.what for known in IMPORT_FORMATS)
    raise UnreadableRecording(f"no known format. Give one of: {names}")


def import_session(raw: bytes, count: Count) -> ImportedSession:
    """The facts of a recording, their tokens counted by `count`.

    Raises UnreadableRecording where it is empty, of no known format, or without any reply of a model.
    """
    known, file = detect_format(raw)
    session = ImportedSession(known.name, count, damaged=file.damaged)
    known.read_session(file, session)
    if not any(isinstance(fact, Reply) for fact in session.facts):
        raise UnreadableRecording(f"a {known.name} recording without any reply of a model: nothing to replay")
    return session

"""Recordings of other agents, and our own, as facts: which formats there are, which one it is, reading it.

Pure: bytes in, facts out; who opens the file is somebody else's business. Every format is a file of its own
with `matches(sample)` and `load(text, count)`; IMPORT_FORMATS lists
them in the order in which they are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import claude_code, ours, pi, swe_agent
from . import message_lines as plain
from .assembly import Count, ImportedSession, UnreadableRecording
from .lines import Sample, sample

__all__ = [
    "IMPORT_FORMATS",
    "Count",
    "ImportFormat",
    "ImportedSession",
    "UnreadableRecording",
    "detect",
    "load",
]


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """A kind of recording: its name, what it is, how to know it, how to read it."""

    name: str
    what: str
    matches: Callable[[Sample], bool]
    load: Callable[[str, Count], ImportedSession]


IMPORT_FORMATS = (
    ImportFormat("makeroom", "our own transcripts (.transcripts/*.jsonl)", ours.matches, ours.load),
    ImportFormat("swe-agent", "SWE-agent trajectories (*.traj)", swe_agent.matches, swe_agent.load),
    ImportFormat(
        "claude-code",
        "Claude Code sessions (~/.claude/projects/*/*.jsonl)",
        claude_code.matches,
        claude_code.load,
    ),
    ImportFormat("pi", "pi sessions (~/.pi/agent/sessions/*/*.jsonl)", pi.matches, pi.load),
    ImportFormat("messages", "plain Messages API messages, one a line", plain.matches, plain.load),
)


def detect(raw: bytes) -> ImportFormat:
    """The format that a file's bytes are in.

    Raises:
        Unreadable: empty, or no format that we know; the message lists those that we do.
    """
    text = _text(raw)
    seen = sample(text)
    for known in IMPORT_FORMATS:
        if known.matches(seen):
            return known
    names = "; ".join(known.what for known in IMPORT_FORMATS)
    raise UnreadableRecording(f"no known format. Give one of: {names}")


def load(raw: bytes, count: Count) -> ImportedSession:
    """The facts of a recording, each block counted by `count`.

    Raises:
        Unreadable: empty, of no known format, or without one reply of a model.
    """
    known = detect(raw)
    imported = known.load(_text(raw), count)
    if not imported.calls:
        raise UnreadableRecording(f"a {known.name} recording without any reply of a model: nothing to replay")
    return imported


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if not text.strip():
        raise UnreadableRecording("the file is empty. Give a recorded session")
    return text

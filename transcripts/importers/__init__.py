"""Recordings of other agents, and our own, as facts: which formats there are, which one it is, reading it.

Pure: bytes in, facts out; who opens the file is somebody else's business. Every format is a file of its own
with `matches(sample)` and `load(text, count)`; FORMATS names them in the order in which they are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import claude_code, ours, pi, swe_agent
from . import message_lines as plain
from .assembly import Count, Imported, Unreadable
from .lines import Sample, sample

__all__ = ["FORMATS", "Count", "Format", "Imported", "Unreadable", "detect", "load"]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of recording: its name, what it is, how to know it, how to read it."""

    name: str
    what: str
    matches: Callable[[Sample], bool]
    load: Callable[[str, Count], Imported]


FORMATS = (
    Format("makeroom", "our own transcripts (.transcripts/*.jsonl)", ours.matches, ours.load),
    Format("swe-agent", "SWE-agent trajectories (*.traj)", swe_agent.matches, swe_agent.load),
    Format(
        "claude-code",
        "Claude Code sessions (~/.claude/projects/*/*.jsonl)",
        claude_code.matches,
        claude_code.load,
    ),
    Format("pi", "pi sessions (~/.pi/agent/sessions/*/*.jsonl)", pi.matches, pi.load),
    Format("messages", "plain Messages API messages, one a line", plain.matches, plain.load),
)


def detect(raw: bytes) -> Format:
    """The format that a file's bytes are in.

    Raises:
        Unreadable: empty, or no format that we know; the message lists those that we do.
    """
    text = _text(raw)
    seen = sample(text)
    for known in FORMATS:
        if known.matches(seen):
            return known
    names = "; ".join(known.what for known in FORMATS)
    raise Unreadable(f"no known format. Give one of: {names}")


def load(raw: bytes, count: Count) -> Imported:
    """The facts of a recording, each block counted by `count`.

    Raises:
        Unreadable: empty, of no known format, or without one reply of a model.
    """
    known = detect(raw)
    imported = known.load(_text(raw), count)
    if not imported.calls:
        raise Unreadable(f"a {known.name} recording without any reply of a model: nothing to replay")
    return imported


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    if not text.strip():
        raise Unreadable("the file is empty. Give a recorded session")
    return text

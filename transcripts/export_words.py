"""What all exports of a session share: its title, moments, and long texts without their middle."""

from __future__ import annotations

from datetime import UTC, datetime

from .facts import Metadata
from .fold import Folded

LONG = 20_000  # characters of one output in a page for people


def shortened(text: str) -> str:
    """The text without its middle where it is long."""
    if len(text) <= LONG:
        return text
    half = LONG // 2
    gap = f"[... {len(text) - 2 * half:,} characters: whole in the JSONL export ...]"
    return f"{text[:half]}\n{gap}\n{text[-half:]}"


def title(folded: Folded, sid: str) -> str:
    """The session's name, else its id."""
    names = [note for note in folded.notes if isinstance(note, Metadata) and note.topic == "name"]
    return str(names[-1].about.get("name") or sid) if names else f"Session {sid}"


def moment(ts: float) -> str:
    return f"{datetime.fromtimestamp(ts, UTC):%Y-%m-%d %H:%M:%S} UTC"

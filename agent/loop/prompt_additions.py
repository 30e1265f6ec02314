"""The additions to a prompt: the files that it mentions, and the instructions of a command that it calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.events import TurnFinished
from agent.session import Session
from tools.base import ToolContext
from transcripts import Block

# The topic of metadata about attached files: {"prompt": seq, "files": the facts about each file}.
ATTACHED_TOPIC = "attached"


class PromptAdditions(Struct, frozen=True):
    """The additions to a prompt.

    blocks  the files that it mentions, placed before it
    files   the facts to record about these files
    after   the instructions of the command or skill that it calls, placed after it
    ended   the end of the turn, if the prompt does not begin one
    """

    blocks: tuple[Block, ...] = ()
    files: tuple[Mapping[str, Any], ...] = ()
    after: tuple[Block, ...] = ()
    ended: TurnFinished | None = None


NO_ADDITIONS = PromptAdditions()


def note_files(
    session: Session, context: ToolContext, prompt: int, files: Sequence[Mapping[str, Any]]
) -> None:
    """Record that the prompt with this seq shows files: they count as read, also in a resumed session."""
    session.add_metadata(ATTACHED_TOPIC, {"prompt": prompt, "files": [dict(about) for about in files]})
    note_attached(files, context, prompt)


def note_attached(files: Sequence[Mapping[str, Any]], context: ToolContext, prompt: int) -> None:
    """Mark files as read by the prompt with this seq."""
    for about in files:
        context.restore_seen(about, prompt, attached=True)


def attached_files(about: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the files listed in metadata of ATTACHED_TOPIC."""
    files = about.get("files")
    return [each for each in files if isinstance(each, Mapping)] if isinstance(files, list | tuple) else []

"""Nested sessions (agents) as the tools see them: the request to run one, and its result."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from transcripts.wording import pluralize


class CallPlace(NamedTuple):
    """The place of a call: the seq of the reply that requested it, 0 if none did, and the block's index."""

    reply: int = 0
    block: int = 0


class SpawnRequest(Struct, frozen=True):
    """A nested session to run: its first prompt, and what it may use."""

    prompt: str
    tools: tuple[str, ...] | None = None  # names of the tools it is offered; None: those of its definition
    system: str = ""  # added to the system prompt
    max_turns: int | None = None  # limits its requests to the model; None: as for the calling session
    agent: str = ""  # the name of its definition; "": it works as the calling session does
    task: str = ""  # the task in a few words, for the user
    call: str = ""  # the `ident` of the call that starts it
    place: CallPlace = CallPlace()  # of that call
    background: bool = False  # whether the call returns at once, and the report goes to the inbox


class SpawnResult(Struct, frozen=True):
    """The end of a nested session: its last reply, its id, the number of requests it sent."""

    text: str  # shortened if it is long; the full text has the recall id `recall`
    session: str
    turns: int
    error: str = ""  # why it ended early, on one line; `text` is then the last text it wrote, if any
    label: str = ""  # its name for the user: "explore #2"
    recall: str = ""  # of the full text; "" if `text` is all of it
    dollars: float = 0.0
    tokens: int = 0  # of its conversation at the end
    stops: bool = False  # the user wants the calling turn to end too
    whole: str = ""  # the full text, for the user
    place: str = ""  # where its changes are, if not in the project, and what they are
    left: str = ""  # one line about the commands that it left running
    remarks: tuple[tuple[str, str], ...] = ()  # by the user about its calls: (which one, words)

    def figures(self) -> str:
        """Return the figures of a run in a few words."""
        if not self.session:
            return f"{self.label} runs in the background"
        cost = f", ${self.dollars:.4f}" if self.dollars else ""
        return f"{self.label}: {pluralize(self.turns, 'request')}, {self.tokens:,} tokens{cost}"

    def report(self) -> str:
        """Return the report of an agent for the model: shortened, with the id of the full text."""
        notes = [f"[{self.label} ended early: {self.error}]"] if self.error else []
        if self.place:
            notes.append(f"[{self.place}]")
        if self.left:
            notes.append(f"[{self.left}]")
        if self.recall:
            notes.append(f"[{self.figures()}; truncated: recall {self.recall} for the full report]")
        elif self.session:
            notes.append(f"[{self.figures()}; its session is {self.session}]")
        return "\n".join(filter(None, (self.text, *notes)))

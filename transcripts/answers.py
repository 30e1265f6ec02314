"""The answers of the model: the texts of its replies, with the pieces of one that was cut off joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .facts import Fact, Reply, Result, User


class Answer(NamedTuple):
    """An answer; `seqs` are the replies that contain its pieces."""

    seqs: tuple[int, ...]
    text: str


def answers_of(facts: Iterable[Fact], since: int = 0) -> list[Answer]:
    """Return the answers after fact `since`, in order.

    An unfinished reply belongs to an answer only if no later attempt replaced it.
    """
    found = list[dict[int, str]]()
    continues = False
    unfinished = 0  # the seq of the last reply if its stream broke off
    for fact in facts:
        if fact.seq <= since:
            continue
        if isinstance(fact, Result) or (isinstance(fact, User) and fact.source == "user"):
            continues = False
            unfinished = 0
        elif isinstance(fact, Reply):
            if unfinished:
                found[-1].pop(unfinished)
            if text := fact.text if fact.text.strip() else "":
                if not continues:
                    found.append({})
                found[-1][fact.seq] = text
                continues = fact.is_cut or not fact.complete
            unfinished = fact.seq if text and not fact.complete else 0
    return [Answer(tuple(pieces), joined_pieces(pieces.values())) for pieces in found if pieces]


def newest_answer(facts: Iterable[Fact], since: int = 0) -> Answer:
    """Return the newest answer after fact `since`; an empty one if there is none."""
    return next(reversed(answers_of(facts, since)), Answer((), ""))


def joined_pieces(pieces: Iterable[str]) -> str:
    """Return the pieces of one answer as one text, without the words that a piece repeats of the last one.

    A repetition has 24 to 400 characters; shorter ones occur by chance.
    """
    joined = last = ""
    for piece in pieces:
        if piece == last:
            continue
        last = piece
        longest = min(len(joined), len(piece), 400)
        sizes = (size for size in range(longest, 23, -1) if joined.endswith(piece[:size]))
        joined += piece[next(sizes, 0) :]
    return joined

"""A turn as the agent records it, for the tests of the store."""

from transcripts.facts import Fact, Reply, Result, Started, User
from transcripts.messages import TextBlock, ToolUseBlock
from transcripts.store import Store

SID = "20261121-093012-4f2a"


def turn(seq: int = 1) -> list[tuple[Fact, bool]]:
    """The facts of a turn from `seq` on, and whether each must be durable."""
    return [
        (User(seq, 0.5, (TextBlock("list the files"),)), True),
        (Reply(seq + 1, 1.5, (ToolUseBlock(f"t{seq}", "bash", {"command": "ls"}),)), True),
        (Started(seq + 2, 2.5, seq + 1, 0), True),
        (Result(seq + 3, 3.5, seq + 1, 0, (TextBlock("a.py\n" * 40),), (90,)), False),
        (Reply(seq + 4, 4.5, (TextBlock("there is one"),)), True),
    ]


TURN = [fact for fact, _ in turn()]


class ToldLines(list[str]):
    """A list of the lines that the user was shown."""

    def __call__(self, line: str) -> None:
        self.append(line)


def append_all(store: Store, facts: list[tuple[Fact, bool]]) -> None:
    for fact, durable in facts:
        store.append(fact, durable)

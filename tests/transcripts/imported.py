"""The facts of an imported recording, by their kinds."""

from transcripts.facts import Fact, Reply, Result
from transcripts.importers.recording import ImportedSession
from transcripts.messages import Block, ToolUseBlock


def count(blocks: tuple[Block, ...]) -> tuple[int, ...]:
    return tuple(1 for _ in blocks)


def kinds(facts: list[Fact]) -> list[str]:
    return [type(fact).__name__ for fact in facts]


def uses(made: ImportedSession) -> list[ToolUseBlock]:
    replies = (fact for fact in made.facts if isinstance(fact, Reply))
    return [block for reply in replies for block in reply.blocks if isinstance(block, ToolUseBlock)]


def results(made: ImportedSession) -> list[Result]:
    return [fact for fact in made.facts if isinstance(fact, Result)]

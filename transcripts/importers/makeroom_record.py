"""Read makeroom's transcripts: prompts, replies, results and metadata, without compactions and rewound facts.

The facts are folded first, which removes rewound ones. Compactions, requests and failures are omitted, since
a replay produces its own.
"""

from msgspec.structs import replace

from ..codec import BadLine, decode_line
from ..facts import Metadata, Reply, Result, User
from ..folding import Folded
from .recording import ImportedSession, ParsedFile


def recognizes(file: ParsedFile) -> bool:
    """Return whether the lines are numbered facts with a checksum."""
    return any({"v", "seq", "sid", "kind", "crc"} <= raw.keys() for raw in file.objects)


def read_session(file: ParsedFile, session: ImportedSession) -> None:
    """Add prompts, complete replies, their results and the metadata (pins), with new numbers."""
    folded = Folded()
    damaged = 0
    for line in filter(str.strip, file.text.split("\n")):
        try:
            folded.apply(decode_line(line.encode())[0])
        except BadLine:
            damaged += 1
    session.damaged = damaged + folded.conversation.orphans
    facts = session.facts
    count = session.count
    numbers: dict[int, int] = {}
    for fact in folded.facts:
        seq = numbers[fact.seq] = len(facts) + 1
        match fact:
            case User():
                facts.append(replace(fact, seq=seq, tokens=count(fact.blocks)))
            case Reply(complete=True):
                facts.append(replace(fact, seq=seq, tokens=count(fact.blocks), asked=None))
            case Result() if fact.of in numbers:
                facts.append(replace(fact, seq=seq, of=numbers[fact.of], tokens=count(fact.content)))
            case Metadata() if fact.topic != Metadata.NEWS:
                facts.append(replace(fact, seq=seq))
            case _:
                del numbers[fact.seq]

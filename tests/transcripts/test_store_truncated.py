"""A record cut off anywhere: it loads, it folds, and no whole line is lost."""

from pathlib import Path
from random import Random

import pytest

from tests.sampling import sampled
from transcripts.codec import encode_fact
from transcripts.facts import Closed, Compacted, Fact, Fold, Reply, Result, Started, User
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.messages import TextBlock, ThinkingBlock, ToolUseBlock
from transcripts.store import Store

from .api_rules import as_sent, violations
from .random_histories import history


def session() -> list[Fact]:
    """Twelve turns with tools, a compaction, and an end."""
    facts: list[Fact] = []

    def seq() -> int:
        return len(facts) + 1

    for turn in range(12):
        facts.append(User(seq(), 0.0, (TextBlock(f"do {turn} ü😀"),), (4,)))
        uses = (
            ToolUseBlock(f"a{turn}", "bash", {"command": "ls"}),
            ToolUseBlock(f"b{turn}", "read", {"path": "x"}),
        )
        facts.append(
            Reply(seq(), 0.0, (ThinkingBlock("hm", "sig"), TextBlock("looking"), *uses), (1, 2, 9, 9))
        )
        of = facts[-1].seq
        facts.append(Started(seq(), 0.0, of, 2))
        for block in (3, 2):
            facts.append(Result(seq(), 0.0, of, block, (TextBlock("out\n\u2028" * 60),), (99,)))
        facts.append(Reply(seq(), 0.0, (ThinkingBlock("so", "sig"), TextBlock("done"))))
        if turn == 8:
            edits = (Fold(1, facts[-7].seq, (TextBlock("earlier: much was done"),), 9),)
            facts.append(Compacted(seq(), 0.0, "summary", "auto", edits))
    facts.append(Closed(seq(), 0.0, "left"))
    return facts


FACTS = session()
LINES = [encode_fact(fact, "s") for fact in FACTS]
DATA = b"".join(LINES)


def ends() -> list[int]:
    """The offsets behind each line's last character, its newline not counted."""
    found, at = [], 0
    for line in LINES:
        at += len(line)
        found.append(at - 1)
    return found


ENDS = ends()


def check_cut(path: Path, at: int) -> None:
    path.write_bytes(DATA[:at])
    whole = sum(end <= at for end in ENDS)
    loaded = read_transcript(path)
    assert loaded.facts == FACTS[:whole]
    assert loaded.damaged == () and loaded.whole_size + loaded.torn_size == at
    word = User(whole + 1, 0.0, (TextBlock("continue"),))
    assert violations([as_sent(message) for message in fold([*loaded.facts, word]).view]) == []


def check_resumed(path: Path, at: int) -> None:
    """Cut the file off and resume: everything that was whole is there, and the new prompt."""
    path.write_bytes(DATA[:at])
    whole = sum(end <= at for end in ENDS)
    store, _ = Store.resume(path, pytest.fail)
    store.append(word := User(whole + 1, 0.0, (TextBlock("continue"),)), True)
    store.close()
    assert read_transcript(path).facts == [*FACTS[:whole], word]
    assert read_transcript(path).damaged == ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / ".transcripts").mkdir(mode=0o700)
    return tmp_path / ".transcripts" / "s.jsonl"


def test_a_session_cut_at_every_third_byte_of_its_last_records_loads_whole(path: Path) -> None:
    for at in range(len(DATA) - sum(map(len, LINES[-3:])), len(DATA) + 1, 3):
        check_cut(path, at)


def test_a_session_cut_anywhere_loads_whole(path: Path) -> None:
    random = Random(1)
    for _ in range(300):
        check_cut(path, random.randrange(len(DATA) + 1))


def test_a_session_cut_anywhere_is_resumed(path: Path) -> None:
    random = Random(2)
    for _ in range(40):
        check_resumed(path, random.randrange(len(DATA) + 1))


@pytest.mark.sweep
def test_a_session_cut_at_3000_places_loads_whole_and_is_resumed(path: Path) -> None:
    random = Random(3)
    for _ in range(3000):
        check_cut(path, at := random.randrange(len(DATA) + 1))
        check_resumed(path, at)


@pytest.mark.sweep
def test_a_session_cut_at_every_byte_of_its_last_five_records_is_resumed(path: Path) -> None:
    for at in range(len(DATA) - sum(map(len, LINES[-5:])), len(DATA) + 1):
        check_cut(path, at)
        check_resumed(path, at)


@pytest.mark.parametrize("seed", sampled(range(200), 12))
def test_a_file_damaged_at_random_still_loads_folds_and_is_resumed(path: Path, seed: int) -> None:
    """Lines are cut, doubled, moved, or preceded by zeros or other bytes; whole ones are found."""
    random = Random(seed)
    facts = history(seed, 25, size=20)
    lines = [encode_fact(fact, "s") for fact in facts]
    whole = set(range(len(lines)))
    for _ in range(4):
        at = random.randrange(len(lines))
        match random.randrange(5):
            case 0:
                lines[at] = lines[at][: random.randrange(len(lines[at]))] + b"\n"
                whole.discard(at)
            case 1:
                lines[at] = b"\0" * random.randrange(1, 600) + lines[at]
            case 2:
                lines[at] = b"null\n" + lines[at]
            case 3:
                lines[at] = b"\xff\xfe\xed\xa0\x80\n" + lines[at]
            case 4:
                lines[at] = lines[at] * 2
    order = list(range(len(lines)))
    if seed % 3 == 0:
        random.shuffle(order)
    path.write_bytes(b"".join(lines[i] for i in order))
    loaded = read_transcript(path)
    assert {facts[i].seq for i in whole} <= {fact.seq for fact in loaded.facts}
    word = User(loaded.facts[-1].seq + 1 if loaded.facts else 1, 0.0, (TextBlock("continue"),))
    assert violations([as_sent(message) for message in fold([*loaded.facts, word]).view]) == []
    store, _ = Store.resume(path, pytest.fail)
    store.append(word, True)
    store.close()
    assert read_transcript(path).facts == [*loaded.facts, word]
    assert read_transcript(path).damaged == loaded.damaged

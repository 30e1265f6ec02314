import hashlib
from pathlib import Path

import pytest

from transcripts.codec import encode_fact
from transcripts.facts import Clear, Compacted, Fact, Fold, Reply, Result, Rewound, StoredOutput, User
from transcripts.fold import fold
from transcripts.load import read_record
from transcripts.messages import ImageBlock, TextBlock, ToolUseBlock
from transcripts.originals import MAX_FACT_CHARS, Originals

LONG = "needle\n" + "hay\n" * 3000
FACTS: list[Fact] = [
    User(1, 0.0, (TextBlock("find the needle"), ImageBlock("image/png", "AAAA"))),
    Reply(2, 0.0, (TextBlock("looking"), ToolUseBlock("t", "bash", {"command": "grep needle"}))),
    Result(3, 0.0, 2, 1, (TextBlock(LONG),), (3000,)),
    Reply(4, 0.0, (TextBlock("found the Needle, the NEEDLE"),)),
    Compacted(5, 0.0, "micro", "auto", (Clear(3, 0, "content", "[cleared: recall r3]"),)),
    Compacted(6, 0.0, "summary", "auto", (Fold(1, 4, (TextBlock("a needle was found"),)),)),
    User(7, 0.0, (TextBlock("thanks"),)),
]


@pytest.fixture(params=[False, True], ids=["whole", "deferred"])
def recall(request: pytest.FixtureRequest, tmp_path: Path) -> Originals:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"".join(encode_fact(fact, "s") for fact in FACTS))
    loaded = read_record(path, defer=request.param)
    assert (3 in loaded.lazy_results) == request.param
    return Originals(fold(loaded.facts), tmp_path / "outputs", loaded.lazy_results)


def test_a_fact_a_block_and_a_stretch_can_be_recalled(recall: Originals) -> None:
    assert recall.original("r3") == recall.original("r3.0") == recall.original(" r3 ") == LONG
    assert recall.original("r2.1") == 'bash {\n  "command": "grep needle"\n}'
    assert recall.original("r1") == "find the needle\n\n[image, image/png, 3 bytes]"
    assert recall.original("r4-r7") == "[r4 assistant]\nfound the Needle, the NEEDLE\n\n[r7 user]\nthanks"


def test_what_a_compaction_left_out_can_be_recalled(recall: Originals) -> None:
    assert recall.original("c5").startswith("[r3 result]\nneedle\nhay")
    text = recall.original("c6")
    assert [line for line in text.splitlines() if line.startswith("[r")] == [
        "[r1 user]",
        "[r2 assistant]",
        "[r3 result]",
        "[r4 assistant]",
    ]
    assert f"{len(LONG) - MAX_FACT_CHARS:,} more characters: recall r3" in text
    assert recall.original("r6") == text


@pytest.mark.parametrize("id", ["r9", "r3.7", "c4", "x", "", "r", "r1.x", "r-1", "r" + "9" * 40])
def test_an_unknown_recall_id_is_refused_with_known_ones(recall: Originals, id: str) -> None:
    with pytest.raises(KeyError) as caught:
        recall.original(id)
    assert any(word in str(caught.value) for word in ("near", "blocks", "newest", "r12"))


def test_words_are_found_in_all_facts_the_most_hits_first(recall: Originals) -> None:
    found = recall.find("NEEDLE")
    assert found[0][0] == "r4"
    assert {id for id, _ in found} == {"r1", "r2", "r3", "r4"}
    assert recall.find("needle hay")[0] == ("r3", "needle " + "hay " * 38 + "h…")
    assert recall.find("nowhere") == recall.find(" ") == []


def test_rewound_facts_are_not_found(tmp_path: Path) -> None:
    recall = Originals(fold([*FACTS, Rewound(8, 0.0, 4)]), tmp_path)
    assert [id for id, _ in recall.find("NEEDLE")] == ["r3", "r2", "r1"] or len(recall.find("NEEDLE")) == 3
    with pytest.raises(KeyError):
        recall.original("r4")


def stored(folder: Path, content: bytes, sha: str | None = None) -> Originals:
    folder.mkdir()
    (folder / "s-3.txt").write_bytes(content)
    kept = StoredOutput(
        ".task_outputs/tool-results/s-3.txt", sha or hashlib.sha256(content).hexdigest(), len(content)
    )
    return Originals(fold([*FACTS[:2], Result(3, 0.0, 2, 1, (TextBlock("preview"),), stored=kept)]), folder)


def test_a_stored_output_is_recalled_whole(tmp_path: Path) -> None:
    assert stored(tmp_path / "out", b"all of it \xff").original("r3") == "all of it \ufffd"


def test_a_stored_output_that_was_changed_or_removed_is_reported(tmp_path: Path) -> None:
    recall = stored(tmp_path / "out", b"changed", hashlib.sha256(b"as it was").hexdigest())
    assert recall.original("r3").startswith("preview\n\n[the whole output, 7 bytes, is not in")
    (tmp_path / "out" / "s-3.txt").unlink()
    (tmp_path / "out" / "s-3.txt").symlink_to("/etc/passwd")
    assert "root" not in recall.original("r3")


def test_words_are_found_in_a_stored_output_with_their_offset(tmp_path: Path) -> None:
    recall = stored(tmp_path / "out", b"hay\n" * 10_000 + b"a needle here\n" + b"hay\n" * 10_000)
    [(id, excerpt)] = recall.find("NEEDLE here")
    assert id == "r3" and "a needle here" in excerpt
    offset = int(excerpt.removeprefix("[offset ").partition("]")[0])
    assert 0 <= recall.original(id).find("a needle") - offset < 160

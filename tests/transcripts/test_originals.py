import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.narrowing import narrow
from transcripts.codec import encode_fact
from transcripts.data_tags import injected
from transcripts.facts import (
    Clear,
    Compacted,
    Fact,
    Fold,
    Reply,
    RequestSent,
    Result,
    Rewound,
    Started,
    StoredOutput,
    User,
)
from transcripts.folding import Folded, fold
from transcripts.listing import ProjectRecords
from transcripts.load import read_transcript
from transcripts.messages import ImageBlock, TextBlock, ToolUseBlock
from transcripts.search import filling
from transcripts.search.originals import MAX_FACT_CHARS, Originals
from transcripts.session_lock import path_of

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


def write(project: Path, sid: str, facts: list[Fact]) -> Path:
    path = path_of(project, sid)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(encode_fact(fact, sid) for fact in facts))
    return path


@pytest.fixture(params=[False, True], ids=["whole", "deferred"])
def recall(request: pytest.FixtureRequest, tmp_path: Path) -> Originals:
    loaded = read_transcript(write(tmp_path, "s", FACTS), defer=request.param)
    assert (3 in loaded.lazy_results) == request.param
    return Originals(fold(loaded.facts), tmp_path / "outputs", loaded.lazy_results, sid="s", home=tmp_path)


def test_a_fact_a_block_and_a_stretch_can_be_recalled(recall: Originals) -> None:
    assert recall.original("r3") == recall.original("r3.0") == recall.original(" r3 ") == LONG
    assert recall.original("r2.1") == 'bash {\n  "command": "grep needle"\n}'
    assert recall.original("r1") == "find the needle\n\n[image, image/png, 3 bytes]"
    assert recall.original("r4-r7") == "[r4 assistant]\nfound the Needle, the NEEDLE\n\n[r7 user]\nthanks"


def test_a_long_stretch_ends_with_where_it_goes_on(tmp_path: Path) -> None:
    facts = [User(seq, 0.0, (TextBlock("x" * MAX_FACT_CHARS),)) for seq in range(1, 110)]
    text = Originals(fold(facts), tmp_path).original("r1-r109")
    assert text.endswith("x\n\n[... more follows: recall the range after r101]")
    assert len(text) < 410_000


def test_two_blocks_of_a_result_come_back_byte_for_byte(tmp_path: Path) -> None:
    two = Result(3, 0.0, 2, 1, (TextBlock("a\n"), TextBlock("b")), (1, 1))
    assert Originals(fold([*FACTS[:2], two]), tmp_path).original("r3") == "a\nb"


def test_a_fact_without_text_is_described(tmp_path: Path) -> None:
    reply = Reply(3, 0.0, narrow(FACTS[1], Reply).blocks)
    record = Originals(fold([FACTS[0], RequestSent(2, 0.0, "turn"), reply, Started(4, 0.0, 3, 1)]), tmp_path)
    assert record.original("r2") == "(r2 is a transcript entry of kind 'asked', without text)"
    assert record.original("r4") == "(r4 is a transcript entry of kind 'started', without text)"


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
    assert any(word in str(caught.value) for word in ("Closest", "1 block", "Latest", "r12"))


def test_words_are_found_in_all_facts(recall: Originals) -> None:
    assert {hit.id for hit in recall.find("NEEDLE").hits} == {"r1", "r2", "r3", "r4"}
    best = recall.find("needle hay").hits[0]
    assert (best.id, best.kind, best.excerpt) == ("r3", "result of bash grep needle", ("needle", "hay"))
    assert recall.find("nowhere").hits == recall.find(" ").hits == ()


def test_a_search_says_what_is_not_indexed_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "then", FACTS)
    recall = Originals(fold([]), tmp_path / "outputs", sid="now", home=tmp_path, project=tmp_path)
    assert recall.find("needle", "project").note == ""
    monkeypatch.setattr(filling.IndexFiller, "update", lambda *_: 2_500_000)
    told = "2.5 MB of transcripts are not indexed yet: search again later"
    assert recall.find("needle", "project").note == recall.find("zebra", "project").note == told


def test_sessions_that_were_recorded_earlier_are_found_and_recalled(tmp_path: Path) -> None:
    older: list[Fact] = [User(1, 0.0, (TextBlock("an older needle"),))]
    for sid, facts in (("now", FACTS), ("then", older)):
        write(tmp_path, sid, facts)
    recall = Originals(fold(FACTS), tmp_path / "outputs", sid="now", home=tmp_path, project=tmp_path)
    assert {"r1", "r2", "r3", "r4"} <= {hit.id for hit in recall.find("needle").hits}
    assert recall.find("older needle", "project").hits[0].id == "then/r1"
    assert recall.original("then/r1") == "an older needle"
    assert recall.original("now/r4") == recall.original("r4")
    for wrong in ("then/r9", "gone/r1", "../then/r1", "then/x"):
        with pytest.raises(KeyError):
            recall.original(wrong)


def test_a_session_is_known_by_the_beginning_of_its_id_and_users_see_what_was_typed(tmp_path: Path) -> None:
    sid = "e584d48f-3799-446f-938b-f923caf5e5d6"
    added = (injected("branch: main"), "<hook>\nremember the zebra\n</hook>")
    prompt = User(1, 1.0, (*map(TextBlock, added), TextBlock("paint it green")))
    write(tmp_path, sid, [prompt])
    here = Originals(Folded(), tmp_path, sid="e5", home=tmp_path, project=tmp_path)
    for name in ("e584d48f", sid):
        assert here.original(f"{name}/r1") == "\n\n".join((*added, "paint it green"))
        people = replace(here, typed=True)
        assert people.original(f"{name}/r1") == "paint it green"
        assert people.original(f"{name}/r1-r9") == "[r1 user]\npaint it green"
        assert "zebra" in people.original(f"{name}/r1.1")
    with pytest.raises(KeyError, match="no session 'f58'"):
        here.original("f58/r1")
    assert here.find("zebra", "project").hits == ()
    (hit,) = here.find("green", "project").hits
    assert hit.id == f"{sid}/r1"
    assert hit.lines(61.0) == ['e584d48f/r1  1 min ago  user  in "paint it green"', "    paint it green"]


def test_earlier_sessions_are_found_before_this_one_is_recorded(tmp_path: Path) -> None:
    write(tmp_path, "then", [User(1, 0.0, (TextBlock("an older needle"),))])
    recall = Originals(fold([]), tmp_path / "outputs", sid="now", home=tmp_path, project=tmp_path)
    assert [hit.id for hit in recall.find("needle", "project").hits] == ["then/r1"]
    assert recall.find("needle").hits == ()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("as it was", ", file unchanged"),
        ("other", ", file changed since"),
        (None, ", file changed since"),
    ],
)
def test_a_hit_reports_whether_its_file_has_changed(tmp_path: Path, content: str | None, told: str) -> None:
    about = {"path": "a.txt", "sha256": hashlib.sha256(b"as it was").hexdigest()}
    if content is not None:
        (tmp_path / "a.txt").write_text(content)
    facts = [*FACTS[:2], Result(3, 0.0, 2, 1, (TextBlock("a porcupine"),), about=about)]
    write(tmp_path, "s", facts)
    recall = Originals(fold(facts), tmp_path, sid="s", home=tmp_path, project=tmp_path)
    (hit,) = recall.find("porcupine").hits
    assert hit.lines(60.0)[0].endswith(told)
    assert hit.to_json(60.0)["changed"] == (content != "as it was")


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("project/src/a.txt", False),
        ("elsewhere.txt", None),
        ("project/../elsewhere.txt", None),
        ("project/link.txt", None),
    ],
)
def test_a_hit_reports_nothing_about_a_file_outside_the_project(
    tmp_path: Path, path: str, changed: bool | None
) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    for outside in (project / "src" / "a.txt", tmp_path / "elsewhere.txt"):
        outside.write_text("as it was")
    (project / "link.txt").symlink_to(tmp_path / "elsewhere.txt")
    about = {"path": str(tmp_path / path), "sha256": hashlib.sha256(b"as it was").hexdigest()}
    call = ToolUseBlock("t", "read", {"file_path": str(project / "src" / "a.txt")})
    facts: list[Fact] = [
        Reply(1, 0.0, (TextBlock("looking"), call)),
        Result(2, 0.0, 1, 1, (TextBlock("a porcupine"),), about=about),
    ]
    write(project, "s", facts)
    recall = Originals(fold(facts), project / "outputs", sid="s", home=project, project=project)
    (hit,) = recall.find("porcupine").hits
    assert (hit.kind, hit.changed) == ("result of read src/a.txt", changed)


def test_without_the_transcript_rewound_facts_are_not_recalled(tmp_path: Path) -> None:
    recall = Originals(fold([*FACTS, Rewound(8, 0.0, 4)]), tmp_path)
    assert recall.find("NEEDLE").hits == ()
    with pytest.raises(KeyError):
        recall.original("r4")


def stored(project: Path, content: bytes, sha: str | None = None) -> Originals:
    folder = ProjectRecords(project).outputs
    folder.mkdir(parents=True)
    (folder / "s-3.txt").write_bytes(content)
    kept = StoredOutput(
        ".task_outputs/tool-results/s-3.txt", sha or hashlib.sha256(content).hexdigest(), len(content)
    )
    facts = [*FACTS[:2], Result(3, 0.0, 2, 1, (TextBlock("preview"),), stored=kept)]
    write(project, "s", facts)
    return Originals(fold(facts), folder, sid="s", home=project)


def test_a_stored_output_is_recalled_whole(tmp_path: Path) -> None:
    assert stored(tmp_path, b"all of it \xff").original("r3") == "all of it \ufffd"


def test_a_stored_output_that_was_changed_or_removed_is_reported(tmp_path: Path) -> None:
    recall = stored(tmp_path, b"changed", hashlib.sha256(b"as it was").hexdigest())
    assert recall.original("r3").startswith("preview\n\n[the full output (7 bytes) is lost: ")
    (recall.outputs / "s-3.txt").unlink()
    (recall.outputs / "s-3.txt").symlink_to("/etc/passwd")
    assert "root" not in recall.original("r3")


def test_words_are_found_in_a_stored_output_with_their_offset(tmp_path: Path) -> None:
    recall = stored(tmp_path, b"hay\n" * 10_000 + b"a needle here\n" + b"hay\n" * 10_000)
    (hit,) = (one for one in recall.find("NEEDLE here").hits if one.id == "r3")
    assert hit.excerpt[0] == "a needle here"
    assert recall.original(hit.id)[hit.offset :].startswith("needle here")
    assert hit.lines(0.0)[0].endswith(", from character 40,002")

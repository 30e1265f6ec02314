"""Search over real records on disk: what is found, and that the index is never more than a cache."""

import fcntl
import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from msgspec.structs import replace

from transcripts.codec import encode_fact, seal
from transcripts.facts import Fact, Reply, Result, Rewound, StoredOutput, User
from transcripts.file_states import SEARCH_FOLDER, RecordFiles
from transcripts.folding import fold
from transcripts.listing import ProjectRecords
from transcripts.messages import TextBlock, ToolUseBlock
from transcripts.search import ProjectSearch, filling, ranking, update_index
from transcripts.search import index_file as database_file
from transcripts.search.hits import Hit
from transcripts.search.index_file import INDEX_VERSION, use_index
from transcripts.search.originals import Originals
from transcripts.search.ranking import SearchResult, search_records
from transcripts.session_lock import RECORDS_FOLDER
from transcripts.stored_outputs import OUTPUTS_FOLDER

ROOT = Path(__file__).resolve().parents[2]
NOON = 1.79e9
CALL = ToolUseBlock("t1", "read", {"file_path": "src/retry.py"})
FIRST: list[Fact] = [
    User(
        1, NOON, (TextBlock("<surroundings>\nbranch: zebra\n</surroundings>"), TextBlock("How do we retry?"))
    ),
    Reply(2, NOON, (TextBlock("I look at the backoff."), CALL)),
    Result(
        3, NOON, 2, 1, (TextBlock("MAX_TRIES = 7\nthe jitter is random\n"),), about={"path": "src/retry.py"}
    ),
    Reply(4, NOON, (TextBlock("Seven tries, and then it gives up."),)),
    User(5, NOON, (TextBlock("Paint the bikeshed green."),)),
]
SECOND: list[Fact] = [
    User(1, NOON + 60, (TextBlock("Which colour did the bikeshed get?"),)),
    Reply(2, NOON + 60, (TextBlock("It is green."),)),
]


def write(project: Path, sid: str, *facts: Fact, mode: str = "ab") -> Path:
    path = project / RECORDS_FOLDER / f"{sid}.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open(mode) as file:
        file.writelines(encode_fact(fact, sid) for fact in facts)
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, "a", *FIRST)
    write(tmp_path, "b", *SECOND)
    return tmp_path


def found(project: Path, query: str, *sids: str, limit: int = 5) -> list[str]:
    result = search_records(project, query, sids or ProjectRecords(project).sids(), limit, 60)
    assert "not indexed" not in result.note
    return [f"{one.sid}{one.fact.seq}" for one in result.found]


def hits_in(project: Path, sid: str, query: str) -> tuple[Hit, ...]:
    return ProjectSearch(project, project).find(query, [sid], 5, here=sid).hits


def index_file(project: Path) -> Path:
    return project / SEARCH_FOLDER / "index.db"


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("how often do we retry, and what is the jitter?", "a3"),
        ("maxTries", "a3"),
        ("src/retry.py", "a2"),
        ("backof*", "a2"),
        ("giving up", "a4"),  # by its stem
        ("bikeshed colour", "b1"),
        ("colourful", "b1"),
        ("maxtries", "a3"),  # nothing contains it: two words that it may consist of
        ("bikesh", "b1"),  # nothing contains it: words that begin so
    ],
)
def test_what_fits_best_comes_first(project: Path, query: str, best: str) -> None:
    assert found(project, query)[0] == best


SAID = (
    "我们决定使用Redis缓存层，而不是Memcached服务器。函数größeBerechnen misst 表orders的大小。数据库连接池",
    "AbstractSingletonProxyFactoryBeanConfiguration calls parseHttpRequest in der Straße",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
)
WANTED = [
    *((0, query) for query in ("Redis", "memcached", "缓存层", "服务器", "orders", "表", "使用", "数")),
    *((0, query) for query in ("größe", "Berechnen", "größeBerechnen", "größeberechnen", "GRÖSSE")),
    *((1, query) for query in ("AbstractSingletonProxyFactoryBeanConfiguration", "SingletonProxy")),
    *((1, query) for query in ("AbstractSingletonPro", "parsehttp", "parsehttp*", "parseHttpReq", "strasse")),
    *((2, query) for query in (SAID[2], SAID[2][:8], SAID[2][:20].upper(), SAID[2][:40])),
]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("asked", ["NFC", "NFD"])
def test_accents_are_found_however_they_are_written(
    tmp_path: Path, form: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"]
) -> None:
    text = "Der Zähler in übersicht.py zählt jeden Besuch, e-mail an Céline"
    write(tmp_path, "s", User(1, NOON, (TextBlock(normalize(form, text)),)))
    write(tmp_path, "s", User(2, NOON, (TextBlock("Ein anderer Satz: hler, ubersicht, ce, line."),)))
    for word in ("Zähler", "übersicht", "Céline"):
        hit = search_records(tmp_path, normalize(asked, word), ["s"], 1, 60).found[0]
        assert hit.fact.seq == 1
        assert hit.text[hit.start :].startswith(word)


@pytest.mark.parametrize(("place", "query"), WANTED)
def test_words_of_any_script_spelling_and_length_are_found(tmp_path: Path, place: int, query: str) -> None:
    others = (User(n, NOON, (TextBlock(f"so war es {n}"),)) for n in range(1, 6))
    said = (User(10 * n, NOON, (TextBlock(text),)) for n, text in enumerate(SAID, 1))
    write(tmp_path, "c", *others, *said)
    (best, *_) = search_records(tmp_path, query, ["c"], 5, 60).found
    assert best.fact.seq == 10 * (place + 1)


def test_a_long_text_that_has_all_words_comes_before_what_is_beside_it(project: Path) -> None:
    path = "C:\\Users\\ana\\AppData"
    output = "\n".join(f"error {n} of step {n * 7919} at line {n}" for n in range(300))
    write(
        project,
        "c",
        Reply(1, NOON, (TextBlock("look"), CALL)),
        Result(2, NOON, 1, 1, (TextBlock(f"{output}\n{path}\\Local\\x.log"),)),
        Reply(3, NOON, (TextBlock("Done."),)),
        *(User(n, NOON, (TextBlock("what about C++ and C#?"),)) for n in range(4, 16)),
    )
    assert found(project, path, "c")[0] == "c2"


def test_an_excerpt_of_a_text_without_spaces_begins_where_it_fits(project: Path) -> None:
    write(project, "c", User(1, NOON, (TextBlock("所有金额以瑞士法郎显示。" * 9 + "\n数据库连接池很小"),)))
    for query in ("连接池", "很小 Redis", "接"):
        (best, *_) = search_records(project, query, ["c"], 5, 60).found
        assert best.text[best.start :][:1] == query[0]


def test_a_place_is_right_behind_letters_that_are_several_when_folded(project: Path) -> None:
    write(project, "c", User(1, NOON, (TextBlock("Straße İ " * 90 + "a porcupine in der STRASSE"),)))
    for query, place in (("porcupine", "porcupine"), ("strasse", "Straße")):
        (best, *_) = search_records(project, query, ["c"], 5, 60).found
        assert best.text[best.start :].startswith(place)


def test_no_index_is_made_for_common_words_or_without_sessions(project: Path) -> None:
    assert "too common" in search_records(project, "what is it", ("one",), 5).note
    assert search_records(project, "parser", (), 5) == SearchResult()
    assert not index_file(project).exists()


def test_a_word_that_is_like_no_other_finds_nothing(project: Path) -> None:
    write(project, "c", User(1, NOON, (TextBlock("The web server does not post."),)))
    words = ("kubernetes", "xq", "zzzzzz", "webpack", "postgres")
    assert [found(project, word) for word in words] == [[]] * len(words)


def test_many_sessions_are_indexed_in_one_transaction(project: Path) -> None:
    for number in range(20):
        write(project, f"20260103-{number:06d}-aaaaaaaa", *SECOND)
    statements: list[str] = []

    def update(database: sqlite3.Connection) -> int:
        database.set_trace_callback(statements.append)
        return filling.IndexFiller(project, database).update(ProjectRecords(project).sids(), math.inf)

    assert use_index(project, update) == 0
    assert statements.count("BEGIN") == statements.count("COMMIT") == 1


def test_what_is_not_indexed_when_the_time_is_over_is_not_found_yet_and_told(project: Path) -> None:
    rest = write(project, "c", User(1, NOON, (TextBlock("walrus " * 50_000),))).stat().st_size
    assert found(project, "bikeshed", "a", "b")
    result = search_records(project, "walrus bikeshed", ProjectRecords(project).sids(), 5, update_s=-1.0)
    assert {one.sid for one in result.found} == {"a", "b"}
    assert result.note == f"{rest / 1e6:.1f} MB of transcripts are not indexed yet: search again later"


def test_a_record_that_cannot_be_read_does_not_keep_the_others_from_the_index(project: Path) -> None:
    (project / RECORDS_FOLDER / "unreadable.jsonl").mkdir()
    shutil.copy(project / RECORDS_FOLDER / "a.jsonl", project / RECORDS_FOLDER / "a (copy).jsonl")
    assert {one[0] for one in found(project, "bikeshed", "a (copy)", "unreadable", "a", "b")} == {"a", "b"}


def test_a_very_common_word_is_found_if_it_is_the_only_one(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "MAX_SCORED", 20)
    monkeypatch.setattr(ranking, "MIN_SAMPLED", 1)
    write(project, "c", *(User(seq, NOON, (TextBlock(f"walrus number{seq}"),)) for seq in range(1, 101)))
    assert len(found(project, "walrus", "c", limit=200)) == 100
    assert found(project, "walrus number77", "c")[0] == "c77"


def test_common_words_count_too(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MIN_RANKED", 60)
    said = [
        "A crane and a walrus, as told by the man who counts the boats of this old port.",
        *["The harbour sleeps."] * 50,
        "The harbour has a walrus.",
        *["The walrus sleeps.", "The crane sleeps."] * 100,
    ]
    write(project, "c", *(User(seq, NOON, (TextBlock(text),)) for seq, text in enumerate(said, 1)))
    assert found(project, "harbour walrus", "c", limit=1) == ["c52"]
    assert found(project, "crane walrus", "c", limit=1) == ["c1"], "both are common"


def test_hits_with_little_of_the_query_in_and_around_them_are_called_weak(project: Path) -> None:
    asked = "What does the harbour of the island cost in spring?"
    write(project, "c", User(1, NOON, (TextBlock(asked),)), Reply(2, NOON, (TextBlock("Twenty crowns."),)))
    other = "The island and the spring cost nothing, say the birds that live there all year."
    write(project, "d", User(1, NOON, (TextBlock(other),)), User(2, NOON, (TextBlock("In spring."),)))
    write(project, "e", *(User(n, NOON, (TextBlock(f"Row {n} of the table."),)) for n in range(1, 41)))

    def marked(query: str) -> list[tuple[str, bool]]:
        hits = ProjectSearch(project, project).find(query, ["c", "d", "e"], 5).hits
        return [(hit.id, hit.weak) for hit in hits]

    answered = [("c/r1", False), ("d/r1", False), ("c/r2", False), ("d/r2", True)]
    assert marked("harbour island cost spring crowns") == answered
    assert marked("spring kubernetes deployment postgres") == [("d/r2", True), ("d/r1", True), ("c/r1", True)]


def test_a_search_keeps_to_its_sessions(project: Path) -> None:
    assert found(project, "bikeshed", "a")[0] == "a5"
    assert {one[0] for one in found(project, "bikeshed green", "b")} == {"b"}
    assert found(project, "bikeshed", "none") == found(project, "zebra") == found(project, "...") == []


@pytest.mark.parametrize("sids", ["abcdefgh", "hgfedcba"])
def test_what_copies_of_a_session_share_is_found_once_in_the_first_that_is_named(project, sids) -> None:
    for sid in "cdefgh":
        write(project, sid, *FIRST, User(6, NOON + 90, (TextBlock(f"The backoff of {sid} is random."),)))
    found = search_records(project, "random backoff jitter", list(sids), 12).found
    assert len({(one.fact.seq, one.fact.ts, one.text) for one in found}) == len(found) == 8
    first = next(sid for sid in sids if sid != "b")
    assert {one.sid for one in found if one.fact.seq in (2, 3)} == {first}


def test_the_words_of_the_facts_around_one_count_for_it(project: Path) -> None:
    for sid, question in (("c", "What does the harbour cost?"), ("d", "What does it cost?")):
        answer = Reply(2, NOON + ord(sid), (TextBlock("Twenty crowns a night."),))
        write(project, sid, User(1, NOON, (TextBlock(question),)), answer)
    assert found(project, "harbour crowns") == ["c1", "c2", "d2"]


def test_of_equal_facts_that_of_the_shorter_session_comes_first(tmp_path: Path) -> None:
    """In the longer one, which is newer, one more fact matches."""
    for sid, age, matching, others in (("short", 60, 3, 0), ("long", 0, 4, 400)):
        said = [
            *(f"The lizard {at} eats crickets." for at in range(matching)),
            *(f"Row {at}." for at in range(others)),
        ]
        facts = [Reply(seq, NOON - age, (TextBlock(text),)) for seq, text in enumerate(said, 1)]
        write(tmp_path, sid, *facts)
    assert found(tmp_path, "lizard crickets")[0].startswith("short")


def test_of_equal_facts_that_of_the_session_about_the_subject_comes_first(project: Path) -> None:
    """The other session's is newer, which would decide between them."""
    for sid, subject in (("c", "harbour"), ("d", "garden")):
        texts = [f"The {subject} is full."] * 4 + ["The weather is fine."] * 3 + ["The harbour costs crowns."]
        facts = [User(at, NOON + at + ord(sid), (TextBlock(text),)) for at, text in enumerate(texts, 1)]
        write(project, sid, *facts)
    assert found(project, "harbour crowns", limit=2) == ["c8", "d8"]


def test_a_fact_with_all_words_comes_before_one_of_a_session_with_many_other_matches(tmp_path: Path) -> None:
    other = [f"The weather of day {at} is fine." for at in range(40)]
    answer = "The sluice of the harbour lock was painted by Ona."
    for sid, texts in (
        ("c", [*other, answer, *other]),
        ("d", [*other, *["The harbour lock is old, says Ona."] * 6, "The sluice, the harbour and the lock."]),
    ):
        said = (User(at, NOON + ord(sid), (TextBlock(text),)) for at, text in enumerate(texts, 1))
        write(tmp_path, sid, *said)
    assert found(tmp_path, "who painted the sluice of the harbour lock", limit=1) == ["c41"]


def test_a_prompt_is_ranked_above_output_with_the_same_words(project: Path) -> None:
    text = (TextBlock("The walrus sleeps on the beach."),)
    written = [
        fact
        for seq in range(1, 40, 2)
        for fact in (Reply(seq, NOON, (CALL,)), Result(seq + 1, NOON, seq, 0, text))
    ]
    write(
        project,
        "c",
        *written[:20],
        User(50, NOON, text),
        *(replace(fact, seq=fact.seq + 60) for fact in written[20:]),
    )
    assert found(project, "walrus beach", limit=1) == ["c50"]


def test_a_fact_that_contains_the_name_that_was_asked_for_comes_before_all_with_its_parts(
    project: Path,
) -> None:
    parts = (TextBlock("the plumbing has a hash, and the hash of the plumbing"),)
    whole = (TextBlock("row of a table\n" * 400 + "\treturn plumbing.Hash(x)\n"),)
    facts = [User(seq, NOON + seq, parts) for seq in range(1, 40)]
    write(project, "c", *facts[:20], replace(facts[0], seq=30, blocks=whole), *facts[30:])
    (best, *_) = search_records(project, "plumbing.Hash", ["c"], 3, 60).found
    assert best.fact.seq == 30 and best.text[best.start :].startswith("plumbing.Hash(x)")
    assert found(project, "`plumbing.Hash`", "c", limit=1) == ["c30"]
    assert found(project, "hash of the plumbing", "c", limit=1) != ["c30"]  # no name


def test_a_fact_with_quoted_words_comes_before_all_that_contain_them_apart(project: Path) -> None:
    apart = (TextBlock("not a walrus: a repository of tides, not a tide"),)
    whole = (TextBlock("row of a table\n" * 400 + "fatal: not a tide repository\n"),)
    facts = [User(seq, NOON + seq, apart) for seq in range(1, 40)]
    write(project, "c", *facts[:20], replace(facts[0], seq=30, blocks=whole), *facts[30:])
    assert found(project, '"not a tide repository"', "c", limit=1) == ["c30"]
    assert found(project, "not a tide repository", "c", limit=1) != ["c30"]


def test_a_result_that_shows_a_name_comes_before_what_mentions_it(project: Path) -> None:
    shown = (TextBlock("package lodge\n" * 200 + "func hashPlumbing() {}\n"),)
    mentions = [User(seq, NOON + seq, (TextBlock("Is hashPlumbing right?"),)) for seq in range(3, 9)]
    facts = (Reply(1, NOON, (CALL,)), Result(2, NOON, 1, 0, shown), *mentions)
    write(project, "c", *facts)
    assert found(project, "hashPlumbing", "c", limit=1) == ["c2"]


def test_the_values_of_a_call_are_found_by_whole_words_and_not_by_its_keys(project: Path) -> None:
    call = ToolUseBlock("t1", "edit", {"file_path": "a.go", "new_string": "x\nporcupine\n\twalrus()"})
    write(project, "c", Reply(1, NOON, (call,)))
    assert found(project, "porcupine") == found(project, "walrus") == ["c1"]
    assert "c1" not in found(project, "new_string")


def test_a_result_knows_its_call_and_where_the_words_stand(project: Path) -> None:
    (best, *_) = search_records(project, "random jitter", ["a"], 3, 60).found
    assert best.call == CALL
    assert best.text[best.start :].startswith("jitter")


@pytest.mark.parametrize("query", ["calls hour geo service", "the geo lookups cost"])
def test_the_excerpt_of_a_pasted_log_shows_the_line_that_has_all_words(project: Path, query: str) -> None:
    flushed = "".join(f"[10:16:57.{n}] DEBUG gateway.geo: flush conn={n}\n" for n in range(40))
    near = "geo: 3 calls, see below\n" + "the service upstream was slow for an hour, again and again\n" * 2
    rule = "the geo lookups cost us real money, so no more than 20 calls an hour to that service\n"
    write(project, "c", User(1, NOON, (TextBlock(near + flushed + rule + flushed),)))
    assert rule.strip() in hits_in(project, "c", query)[0].excerpt


def test_the_excerpt_of_a_long_paste_shows_the_line_that_has_all_words(project: Path) -> None:
    lines = "".join(f"pasted line {number}\n" for number in range(400))
    write(project, "c", User(1, NOON, (TextBlock(lines),)))
    assert "pasted line 399" in hits_in(project, "c", "pasted line 399")[0].excerpt


def test_an_excerpt_shows_no_bare_tags_nor_what_was_added_to_a_result(project: Path) -> None:
    ran = "<command-of-the-user>\n$ make walrus\n</command-of-the-user>"
    news = TextBlock("<surroundings>\nplan of the walrus is over\n</surroundings>")
    write(
        project,
        "c",
        User(1, NOON, (TextBlock(ran), TextBlock("and now the walrus"))),
        Reply(2, NOON, (TextBlock("I look."), CALL)),
        Result(3, NOON, 2, 1, (TextBlock("not approved"), news)),
    )
    hits = hits_in(project, "c", "walrus")
    assert [(hit.id, hit.excerpt) for hit in hits] == [("r1", ("$ make walrus", "and now the walrus"))]


def test_an_excerpt_shows_a_repeated_line_once(project: Path) -> None:
    said = TextBlock("I will read the walrus.")
    write(project, "c", Reply(1, NOON, (said, said, TextBlock("It has tusks."))))
    (hit,) = hits_in(project, "c", "walrus")
    assert hit.excerpt == ("I will read the walrus.", "It has tusks.")


def test_a_fact_is_found_and_not_the_to_do_list_that_repeats_it(project: Path) -> None:
    todo = ToolUseBlock("t9", "TodoWrite", {"todos": [{"content": "import the walrus", "status": "pending"}]})
    write(project, "c", Reply(1, NOON, (TextBlock("First I import the walrus into the zoo."),)))
    write(project, "c", *(Reply(seq, NOON, (todo,)) for seq in range(2, 5)))
    assert found(project, "import the walrus", "c") == ["c1"]


def test_earlier_searches_are_not_found(project: Path) -> None:
    asked = ToolUseBlock("t9", "recall", {"query": "the green bikeshed"})
    recalled = (TextBlock("r5  just now  user\n    Paint the bikeshed green."),)
    facts = [Reply(6, NOON, (TextBlock("I look for it."), asked)), Result(7, NOON, 6, 1, recalled)]
    write(project, "a", facts[0], replace(facts[1], about={"recalled": True}))
    places = found(project, "the green bikeshed", "a")
    assert places[0] == "a5" and "a7" not in places
    assert found(project, "I look for it", limit=1) == ["a6"]


def test_a_stored_output_is_searched_whole(project: Path) -> None:
    text = "line\n" * 3_000 + "the porcupine\n"
    folder = project / OUTPUTS_FOLDER
    folder.mkdir(parents=True)
    (folder / "x").write_text(text)
    stored = StoredOutput("x", sha256(text.encode()).hexdigest(), len(text))
    write(project, "a", Result(6, NOON, 2, 1, (TextBlock("line"),), stored=stored))
    (best, *_) = search_records(project, "porcupine", ["a"], 1, 60).found
    assert (best.fact.seq, best.text[best.start :]) == (6, "porcupine\n")


def test_what_is_appended_is_found_at_once_and_a_torn_line_when_it_is_whole(project: Path) -> None:
    assert found(project, "walrus") == []
    line = encode_fact(User(6, NOON, (TextBlock("a walrus"),)), "a")
    path = project / RECORDS_FOLDER / "a.jsonl"
    with path.open("ab") as file:
        file.write(line[:20])
    assert found(project, "walrus") == []
    with path.open("ab") as file:
        file.write(line[20:])
    assert found(project, "walrus")[0] == "a6"


def test_a_record_whose_first_line_was_torn_is_found_when_it_is_whole(project: Path) -> None:
    line = encode_fact(User(1, NOON, (TextBlock("a walrus"),)), "c")
    path = project / RECORDS_FOLDER / "c.jsonl"
    path.write_bytes(line[:20])
    assert found(project, "walrus") == []
    path.write_bytes(line)
    assert found(project, "walrus") == ["c1"]


def test_records_that_are_gone_are_not_found(project: Path) -> None:
    assert set(found(project, "bikeshed")[:2]) == {"a5", "b1"}
    (project / RECORDS_FOLDER / "a.jsonl").unlink()
    assert found(project, "bikeshed") == ["b1"]


def test_what_was_rewound_is_found_last_and_says_so(project: Path) -> None:
    write(project, "a", Rewound(6, NOON, 5), User(7, NOON, (TextBlock("Paint the bikeshed red."),)))
    hits = hits_in(project, "a", "paint the bikeshed")
    assert [(hit.id, hit.rewound) for hit in hits[:2]] == [("r7", False), ("r5", True)]
    assert ", rewound" in hits[1].lines(NOON)[0] and ", rewound" not in hits[0].lines(NOON)[0]
    assert hits[1].to_json(NOON)["rewound"] is True


def test_hits_of_other_sessions_name_their_session(project: Path) -> None:
    def hits(scope: Literal["session", "project"]) -> list[str]:
        here = Originals(fold(SECOND), project / OUTPUTS_FOLDER, sid="b", home=project, project=project)
        return [hit.lines(NOON)[0] for hit in here.find("bikeshed", scope).hits]

    assert any(line.startswith("a/r5") and 'in "How do we retry?"' in line for line in hits("project"))
    assert not any(' in "' in line for line in hits("session"))


def test_a_record_that_was_replaced_is_read_again(project: Path) -> None:
    assert found(project, "jitter", "a")
    write(project, "a", *(User(n, NOON, (TextBlock(f"walrus {n}"),)) for n in range(1, 40)), mode="wb")
    assert found(project, "jitter", "a") == []
    assert found(project, "walrus 17", "a")[0] == "a17"


def spoil_header(path: Path) -> None:
    path.write_bytes(b"not a database" * 1_000)


def spoil_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4_096:] = b"\xa5" * (len(data) - 4_096)
    path.write_bytes(data)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def age(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def be_a_link(path: Path) -> None:
    other = path.parents[2] / "someone's file"
    other.write_text("precious")
    path.unlink()
    path.symlink_to(other)


@pytest.mark.parametrize("spoil", [Path.unlink, spoil_header, spoil_middle, cut, age, be_a_link])
def test_an_index_that_is_missing_damaged_or_older_is_created_again(
    project: Path, spoil: Callable[[Path], None]
) -> None:
    before = found(project, "bikeshed colour")
    spoil(index_file(project))
    assert found(project, "bikeshed colour") == before
    with closing(sqlite3.connect(index_file(project))) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (INDEX_VERSION,)
    if spoil is be_a_link:
        assert (project / "someone's file").read_text() == "precious"


@pytest.mark.parametrize("spoil", [spoil_middle, cut])
def test_an_index_that_is_found_damaged_is_updated_at_once(
    project: Path, spoil: Callable[[Path], None]
) -> None:
    update_index(project, lambda: False)
    spoil(index_file(project))
    assert update_index(project, lambda: False)


def test_records_behind_a_link_are_not_a_place_for_an_index(project: Path) -> None:
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (project / SEARCH_FOLDER).symlink_to(elsewhere)
    assert "contains a symbolic link" in search_records(project, "bikeshed", ["a"], 5).note
    assert list(elsewhere.iterdir()) == []


def test_a_search_says_which_file_keeps_it_from_its_index(project: Path) -> None:
    index_file(project).mkdir(parents=True)
    told = f"transcripts cannot be searched: Is a directory: {index_file(project)}"
    assert search_records(project, "bikeshed", ["a"], 5).note == told


def test_a_project_that_was_moved_away_is_not_created_again(project: Path) -> None:
    away = project.rename(project.with_name("away"))
    assert found(project, "bikeshed") == []
    assert not update_index(project, lambda: False) and not project.exists()
    assert found(away, "bikeshed")


def test_a_search_does_not_wait_for_ever_for_another_process(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(project, "bikeshed")
    monkeypatch.setattr(database_file, "INDEX_WAIT_S", 0.0)
    with (project / SEARCH_FOLDER / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = "transcripts cannot be searched: another process uses the search index"
        assert search_records(project, "bikeshed", ["a"], 5).note == told


def test_a_search_does_not_wait_for_a_database_that_something_else_holds(project: Path) -> None:
    found(project, "bikeshed")
    with closing(sqlite3.connect(index_file(project), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        assert not update_index(project, lambda: False)
        told = "transcripts cannot be searched: database is locked"
        assert search_records(project, "bikeshed", ["a"], 5).note == told
        assert time.monotonic() - began < 5  # by default SQLite waits so long for each of the two


def test_several_processes_fill_one_index(project: Path) -> None:
    for n in range(30):
        write(project, f"s{n}", *(User(m, NOON, (TextBlock(f"word{m} of walrus{n}"),)) for m in range(1, 30)))
    code = (
        "import sys; from pathlib import Path; from transcripts.search import *; "
        "update_index(Path(sys.argv[1]), lambda: False)"
    )
    command = [sys.executable, "-c", code, str(project)]
    fillers = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
    assert [filler.wait() for filler in fillers] == [0, 0]
    assert len(found(project, "walrus*", limit=1_000)) == 30 * 29
    assert found(project, "word7 walrus11")[0] == "s117"


def test_the_index_holds_no_text_no_whole_key_and_is_private(project: Path) -> None:
    secret = "sk-ant-api03-" + "Zq7" * 30
    write(project, "a", User(6, NOON, (TextBlock(f"my key is {secret} bikeshed"),)))
    assert found(project, "bikeshed")
    data = index_file(project).read_bytes()
    assert b"zq7zq7zq7zq7z" not in data.lower()  # only the first characters
    assert b"Paint the bikeshed" not in data
    assert index_file(project).stat().st_mode & 0o777 == 0o600
    assert (project / SEARCH_FOLDER).stat().st_mode & 0o777 == 0o700


def test_the_guard_of_the_records_keeps_no_copy_of_the_index(project: Path) -> None:
    found(project, "bikeshed")
    assert not any(SEARCH_FOLDER in folder for folder in RecordFiles(project).scan(()))


def test_to_index_does_not_mark_a_record_as_read(project: Path) -> None:
    path = project / RECORDS_FOLDER / "a.jsonl"
    os.utime(path, ns=(1_000_000_000, path.stat().st_mtime_ns))
    update_index(project, lambda: False)
    assert path.stat().st_atime_ns == 1_000_000_000


def test_an_index_of_records_that_are_mostly_gone_begins_again(project: Path) -> None:
    update_index(project, lambda: False)
    (project / RECORDS_FOLDER / "a.jsonl").unlink()
    update_index(project, lambda: False)
    with closing(sqlite3.connect(index_file(project))) as database:
        assert database.execute("SELECT rowid FROM words WHERE words MATCH 'jitter'").fetchall() == []
    assert found(project, "bikeshed") == ["b1"]


def test_a_search_without_fts5_says_why_it_finds_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "SCHEMA", "CREATE VIRTUAL TABLE words USING fts9(text);")
    hits = ProjectSearch(project, project).find("jitter", ["a"], 3)
    assert (hits.hits, hits.note) == ((), "transcripts cannot be searched: no such module: fts9")
    assert not any((project / SEARCH_FOLDER).glob("*.db-journal"))


HOSTILE_INDEX = """
    CREATE VIEW files AS WITH RECURSIVE endless(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM endless)
        SELECT n AS id, 'a' AS sid, 0 AS size, x'' AS mark, 0 AS facts, 0 AS opened
        FROM endless WHERE n < 0;
    CREATE TABLE facts (id INTEGER PRIMARY KEY, seq INTEGER, at INTEGER, opened INTEGER, rewound INTEGER);
    CREATE VIRTUAL TABLE words USING fts5(text, content='');
"""


@pytest.mark.parametrize("beside", ["index.db-journal", "index.db-wal"])
def test_an_index_that_a_repository_contains_is_never_opened(project: Path, beside: str) -> None:
    index_file(project).parent.mkdir()
    with closing(sqlite3.connect(index_file(project))) as database:
        database.executescript(f"{HOSTILE_INDEX} PRAGMA user_version = {INDEX_VERSION};")
    index_file(project).with_name(beside).write_bytes(b"hostile")
    assert update_index(project, lambda: False)  # which would never return
    assert set(found(project, "bikeshed colour")) == {"b1", "a5"}


def test_an_index_stays_when_the_project_is_moved_and_is_made_again_in_a_copy(project: Path) -> None:
    before = found(project, "bikeshed colour")
    made = index_file(project).stat().st_ino
    moved = project.rename(project.with_name("moved"))
    assert found(moved, "bikeshed colour") == before and index_file(moved).stat().st_ino == made
    copy = moved.with_name("copy")
    shutil.copytree(moved, copy)
    assert found(copy, "bikeshed colour") == before


@pytest.mark.parametrize(
    "line",
    [
        b'{"v":1,"seq":9223372036854775808,"ts":"2026-09-20T00:00:00Z","sid":"a","kind":"user"}',
        b'{"v":1,"seq":1e300,"ts":"2026-09-20T00:00:00Z","sid":"a","kind":"rewound","to":1}',
        b'{"v":1,"seq":9,"ts":"2026-09-20T00:00:00Z","sid":"a","kind":"rewound","to":9223372036854775808}',
        b'{"v":1,"seq":9,"ts":"2026-09-20T00:00:00Z","sid":"a","kind":"result","of":9223372036854775808,'
        b'"block":0,"content":[{"type":"text","text":"a bikeshed"}]}',
    ],
)
def test_numbers_that_no_session_reaches_do_not_stop_the_index(project: Path, line: bytes) -> None:
    raw = json.loads(line)
    write(project, "0")
    (project / RECORDS_FOLDER / "0.jsonl").write_bytes(seal({**raw, "sid": "0"}))
    assert update_index(project, lambda: False)
    assert {"a5", "b1"} <= set(found(project, "bikeshed"))

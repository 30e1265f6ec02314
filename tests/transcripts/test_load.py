import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from transcripts import Display
from transcripts.codec import decode_line, encode_fact, seal
from transcripts.errors import NoSuchSession, Unreadable
from transcripts.facts import Clear, Compacted, Fact, Fold, Metadata, Reply, Result, Rewound, Undone, User
from transcripts.folding import Folded, fold
from transcripts.load import MIN_LAZY_LINE_BYTES, read_transcript
from transcripts.messages import TextBlock, ToolUseBlock

from .api_rules import bytes_sent
from .random_histories import histories, history, seeds

quick = settings(max_examples=25, deadline=None)


def lines_of(facts: list[Fact]) -> list[bytes]:
    return [encode_fact(fact, "s") for fact in facts]


def as_recorded(facts: list[Fact]) -> list[Fact]:
    return [decode_line(line)[0] for line in lines_of(facts)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


FACTS = as_recorded(history(7, 12))


def test_a_whole_file_gives_every_fact(path: Path) -> None:
    path.write_bytes(b"".join(lines_of(FACTS)))
    loaded = read_transcript(path)
    assert loaded.facts == FACTS
    assert (loaded.torn_size, loaded.damaged, loaded.ends_with_newline, loaded.sid) == (0, (), True, "s")


@pytest.mark.parametrize(
    "changed",
    [
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\n\n"),
        lambda data: data[:-1],
        lambda data: b"\n \n" + data,
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no newline at the end", "blank lines before"],
)
def test_the_changes_that_editors_make_to_a_file_lose_nothing(path: Path, changed: object) -> None:
    path.write_bytes(changed(b"".join(lines_of(FACTS))))  # type: ignore[operator]
    loaded = read_transcript(path)
    assert loaded.facts == FACTS
    assert loaded.torn_size == 0 and loaded.damaged == ()


@pytest.mark.parametrize(
    "tail",
    [
        b'{"v":1,"seq":13,"ts":"2026',
        b"\0" * 4096,
        b"\0" * 4096 + b"\n",
        b"null\n",
        b"\xff\xfe\n",
        b"{}",
        b"\n{",
    ],
)
def test_what_follows_the_last_good_line_is_torn(path: Path, tail: bytes) -> None:
    good = b"".join(lines_of(FACTS))
    path.write_bytes(good + tail)
    loaded = read_transcript(path)
    assert loaded.facts == FACTS
    assert loaded.whole_size + loaded.torn_size == len(good) + len(tail)
    assert loaded.whole_size in (len(good), len(good) + 1)
    assert loaded.damaged == ()


def test_a_damaged_line_in_the_middle_is_skipped_counted_and_left_in_place(path: Path) -> None:
    lines = lines_of(FACTS)
    lines[4] = lines[4].replace(b'"seq":5', b'"seq":6')
    path.write_bytes(b"".join(lines))
    loaded = read_transcript(path)
    assert loaded.facts == FACTS[:4] + FACTS[5:]
    assert [(bad.line, bad.offset) for bad in loaded.damaged] == [(5, len(b"".join(lines[:4])))]
    assert loaded.torn_size == 0
    assert path.read_bytes() == b"".join(lines)


@pytest.mark.parametrize(
    "before", [b"\0" * 512, b'{"v":1,"seq":5,"ts":"2026-', b"\xef\xbb\xbf\xef\xbb\xbf", b"garbage"]
)
def test_a_record_that_was_appended_to_a_torn_one_is_found(path: Path, before: bytes) -> None:
    lines = lines_of(FACTS)
    path.write_bytes(b"".join(lines[:4]) + before + b"".join(lines[4:]))
    loaded = read_transcript(path)
    assert loaded.facts == FACTS
    assert len(loaded.damaged) == 1


def test_a_flipped_bit_costs_one_record_at_most(path: Path) -> None:
    data = b"".join(lines_of(FACTS))
    random = Random(5)
    for _ in range(200):
        at = random.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :])
        kept = {fact.seq for fact in read_transcript(path).facts}
        assert len(kept) >= len(FACTS) - (2 if data[at : at + 1] == b"\n" else 1)


@given(seeds)
@quick
def test_lines_in_any_order_and_any_number_give_the_same_facts(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = tmp_path_factory.mktemp("order") / "s.jsonl"
    lines = lines_of(FACTS)
    mixed = lines + Random(seed).choices(lines, k=5)
    Random(seed).shuffle(mixed)
    path.write_bytes(b"".join(mixed))
    loaded = read_transcript(path)
    assert loaded.facts == FACTS
    assert loaded.damaged == () and loaded.torn_size == 0


def test_a_newer_version_is_reported(path: Path) -> None:
    raw = {"v": 2, "seq": 13, "ts": "2026-11-21T09:30:00Z", "sid": "s", "kind": "user", "words": "x"}
    path.write_bytes(b"".join([*lines_of(FACTS), seal(raw)]))
    assert read_transcript(path).version == 2


def test_nothing_but_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "real.jsonl").write_bytes(b"".join(lines_of(FACTS)))
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "real.jsonl")
    for name in ("fifo", "folder", "link"):
        with pytest.raises(Unreadable):
            read_transcript(tmp_path / f"{name}.jsonl")
    with pytest.raises(NoSuchSession):
        read_transcript(tmp_path / "none.jsonl")


def test_an_empty_file_is_an_empty_session(path: Path) -> None:
    path.write_bytes(b"")
    assert read_transcript(path).facts == [] and read_transcript(path).torn_size == 0


def shown(folded: Folded) -> list[object]:
    return [
        (
            bytes_sent(message),
            message.first,
            message.last,
            [(p.seq, p.index, p.kind, p.tokens) for p in message.parts],
        )
        for message in folded.view
    ]


def same_state(one: Folded, other: Folded) -> None:
    assert shown(one) == shown(other)
    assert [fact.seq for fact in one.facts] == [fact.seq for fact in other.facts]
    assert [type(fact) for fact in one.facts] == [type(fact) for fact in other.facts]
    assert (one.last_reply_seq, one.last_seq, one.gaps, one.conversation.orphans) == (
        other.last_reply_seq,
        other.last_seq,
        other.gaps,
        other.conversation.orphans,
    )
    assert one.compactions == other.compactions and one.undone == other.undone
    assert one.sizes.requests == other.sizes.requests


# Texts repeated up to 3,000 times make lines that are long enough to be left in the file.
long_histories = st.builds(lambda seed, length: history(seed, length, size=3000), seeds, st.integers(0, 30))


@given(long_histories)
@quick
def test_a_session_with_deferred_results_shows_what_the_whole_one_shows(
    tmp_path_factory: pytest.TempPathFactory, facts: list[Fact]
) -> None:
    path = tmp_path_factory.mktemp("deferred") / "s.jsonl"
    path.write_bytes(b"".join(lines_of(facts)))
    full, deferred = read_transcript(path), read_transcript(path, defer=True)
    same_state(fold(deferred.facts), fold(full.facts))
    same_state(deferred.lazy_results.complete(fold(deferred.facts)), fold(full.facts))
    assert deferred.lazy_results.complete(fold(deferred.facts)).facts == fold(full.facts).facts
    by_seq = {fact.seq: fact for fact in full.facts}
    for seq in deferred.lazy_results:
        assert next(deferred.lazy_results.fetch(seq)) == by_seq[seq]


@given(long_histories, histories)
@quick
def test_it_shows_the_same_until_a_fact_is_undone_or_rewound(
    tmp_path_factory: pytest.TempPathFactory, facts: list[Fact], later: list[Fact]
) -> None:
    path = tmp_path_factory.mktemp("deferred") / "s.jsonl"
    path.write_bytes(b"".join(lines_of(facts)))
    loaded = read_transcript(path, defer=True)
    one, other = fold(loaded.facts), fold(as_recorded(facts))
    shift = one.last_seq
    for fact in as_recorded(later):
        if loaded.lazy_results and isinstance(fact, Undone | Rewound):
            break
        fact = replace(fact, seq=fact.seq + shift)
        one.apply(fact)
        other.apply(fact)
        same_state(one, other)


def long_session(results: int, size: int = MIN_LAZY_LINE_BYTES * 4) -> list[Fact]:
    facts: list[Fact] = [User(1, 0.0, (TextBlock("go"),))]
    for _ in range(results):
        seq = facts[-1].seq
        facts.append(Reply(seq + 1, 0.0, (ToolUseBlock(f"t{seq}", "bash", {"command": "x"}),)))
        facts.append(
            Result(seq + 2, 0.0, seq + 1, 0, (TextBlock("y" * size),), (size // 4,), human=Display(text="z"))
        )
    return facts


def test_results_under_a_fold_or_a_clear_stay_in_the_file_and_no_other(path: Path) -> None:
    facts = long_session(6)
    facts.append(Compacted(20, 0.0, "summary", "auto", (Fold(1, 5, (TextBlock("so far"),)),)))
    facts.append(Compacted(21, 0.0, "micro", "auto", (Clear(7, 0, "content", "[cleared]"),)))
    path.write_bytes(b"".join(lines_of(facts)))
    loaded = read_transcript(path, defer=True)
    assert sorted(loaded.lazy_results) == [3, 5, 7]
    shown = {fact.seq: fact.human for fact in loaded.facts if isinstance(fact, Result)}
    assert (shown[7], shown[9]) == (Display(), Display(text="z"))


def test_results_are_whole_again_when_their_compaction_was_undone(path: Path) -> None:
    facts = [*long_session(3), Compacted(20, 0.0, "summary", "auto", (Fold(1, 5, (TextBlock("so far"),)),))]
    facts.append(Undone(21, 0.0, "c20"))
    path.write_bytes(b"".join(lines_of(facts)))
    assert len(read_transcript(path, defer=True).lazy_results) == 0


def test_damage_in_a_deferred_line_is_noticed(path: Path) -> None:
    facts = [*long_session(3), Compacted(20, 0.0, "summary", "auto", (Fold(1, 5, (TextBlock("so far"),)),))]
    data = bytearray(b"".join(lines_of(facts)))
    at = data.index(b"yyyy", data.index(b'"seq":3'))
    data[at] = ord("n")
    path.write_bytes(bytes(data))
    loaded = read_transcript(path, defer=True)
    assert len(loaded.damaged) == 1 and 3 not in {fact.seq for fact in loaded.facts}


def test_lines_in_reverse_order_are_sorted(path: Path) -> None:
    facts = long_session(2)
    path.write_bytes(b"".join(reversed(lines_of(facts))))
    assert read_transcript(path, defer=True).facts == as_recorded(facts)


def test_results_are_whole_when_their_compaction_was_rewound_away(path: Path) -> None:
    facts = [*long_session(3), Compacted(20, 0.0, "summary", "auto", (Fold(1, 5, (TextBlock("so far"),)),))]
    facts += [User(21, 0.0, (TextBlock("hm"),)), Rewound(22, 0.0, 20)]
    path.write_bytes(b"".join(lines_of(facts)))
    loaded = read_transcript(path, defer=True)
    assert len(loaded.lazy_results) == 0
    same_state(fold(loaded.facts), fold(as_recorded(facts)))


def test_results_that_were_rewound_away_stay_in_the_file(path: Path) -> None:
    facts = [*long_session(3), Rewound(8, 0.0, 4)]
    path.write_bytes(b"".join(lines_of(facts)))
    loaded = read_transcript(path, defer=True)
    assert sorted(loaded.lazy_results) == [5, 7]
    same_state(fold(loaded.facts), fold(as_recorded(facts)))


def another(fact: Fact) -> Fact:
    return replace(fact, ts=fact.ts + 1)


def test_a_second_continuation_is_kept_apart(path: Path) -> None:
    """Its facts are not mixed with those of the first, even where only it has their numbers."""
    longer = [*map(another, FACTS[-3:]), User(FACTS[-1].seq + 1, 9.0, (TextBlock("more"),), (1,))]
    for facts in (FACTS[-4:-3], []):  # it may repeat what both have
        path.write_bytes(b"".join(lines_of([*FACTS, *facts, *longer])))
        loaded = read_transcript(path)
        (tail,) = loaded.second_tails
        assert (loaded.facts, loaded.damaged, tail.line) == (FACTS, (), len(FACTS) + 1)
        assert list(tail.facts) == longer and tail.end == path.stat().st_size == loaded.whole_size
    note = Metadata(FACTS[-1].seq + 1, 10.0, Metadata.TAIL, {"start": tail.start, "end": tail.end})
    path.write_bytes(path.read_bytes() + b"".join(lines_of([note])))
    loaded = read_transcript(path)
    assert (loaded.facts, loaded.second_tails, loaded.damaged) == ([*FACTS, note], (), ())


def test_several_second_continuations_are_kept_apart(path: Path) -> None:
    tails = [list(map(another, FACTS[-3:])), list(map(another, map(another, FACTS[-2:])))]
    path.write_bytes(b"".join(lines_of([*FACTS, *tails[0], *tails[1]])))
    loaded = read_transcript(path)
    assert [list(tail.facts) for tail in loaded.second_tails] == tails and loaded.facts == FACTS
    assert loaded.second_tails[0].end == loaded.second_tails[1].start

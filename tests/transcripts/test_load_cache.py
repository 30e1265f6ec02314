"""A transcript is loaded alike with pieces of it in the cache, without, and with pieces that do not fit."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest

from compact.block_tracker import BlockTracker, tracker_of
from transcripts import load_cache
from transcripts.codec import encode_fact
from transcripts.facts import Fact, Reply, Result, UnknownFact, User
from transcripts.folding import Folded, fold
from transcripts.load import KnownStart, LoadedTranscript, read_transcript
from transcripts.load_cache import read_known_start, write_pieces
from transcripts.messages import TextBlock, ToolUseBlock, Usage
from transcripts.session_key import SessionKey

from .random_histories import history

KEY = SessionKey(b"k" * 32)
PIECE_BYTES = 6_000
MORE = [pytest.param(seed, marks=pytest.mark.sweep) for seed in (2, 4)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_cache, "PIECE_BYTES", PIECE_BYTES)


def pieces(path: Path) -> list[Path]:
    """Return the files of the cache in the order of their lines."""
    found = (path.parent / "cache").glob(f"{path.stem}.*")
    return sorted(found, key=lambda piece: int(piece.suffix[1:]))


def spelled(value: object) -> str:
    """Return a value with the types of its parts; the shared empty mapping counts as an empty one."""
    return repr(value).replace("mappingproxy({})", "{}")


def folded_state(loaded: LoadedTranscript) -> object:
    """Return everything that a resumed session consists of, its requests byte for byte included."""
    folded = fold(loaded.facts)
    tracker = tracker_of(folded)
    fields = [name for name in Folded.__struct_fields__ if name not in ("_memos", "_view")]
    blocks = [[getattr(block, name) for name in block.__struct_fields__] for block in tracker.blocks]
    counts = [getattr(tracker, name) for name in BlockTracker.__struct_fields__ if name in ("calls", "seen")]
    return (
        [spelled(getattr(folded, name)) for name in fields],
        spelled(list(folded.view)),
        (blocks, counts, repr(tracker.put_back), sorted(tracker._known)),
    )


def loaded_state(path: Path, start: KnownStart | None) -> object:
    loaded = read_transcript(path, defer=True, start=start)
    kept = (loaded.sid, loaded.whole_size, loaded.size, loaded.ends_with_newline, loaded.version)
    lazy = dict(loaded.lazy_results)
    return kept, repr(loaded.damaged), repr(loaded.second_tails), lazy, folded_state(loaded)


def is_alike(path: Path) -> bool:
    """Return whether the cache has pieces that are used, after it was checked that they change nothing."""
    start = read_known_start(path, KEY)
    assert loaded_state(path, start) == loaded_state(path, None)
    return start is not None


def write(path: Path, facts: list[Fact]) -> list[int]:
    """Write a transcript; return the offsets of its lines and its end."""
    lines = [KEY.sign(encode_fact(fact, "s")) for fact in facts]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(lines))
    ends = [0]
    for line in lines:
        ends.append(ends[-1] + len(line))
    return ends


def facts_of(seed: int) -> list[Fact]:
    """Return a random session with large results; every third has facts that this version does not know."""
    facts = history(seed, 90, lossy=seed % 2 == 0, size=400)
    return facts if seed % 3 == 0 else [fact for fact in facts if not isinstance(fact, UnknownFact)]


@pytest.mark.parametrize("seed", range(6))
def test_a_session_is_resumed_alike_with_and_without_the_cache(tmp_path: Path, seed: int) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    write(path, facts_of(seed))
    write_pieces(path, KEY)
    assert is_alike(path) == bool(pieces(path))
    assert pieces(path) or seed % 3 == 0


@pytest.mark.parametrize("seed", [1, *MORE])
def test_a_session_that_was_cut_anywhere_is_resumed_alike(tmp_path: Path, seed: int) -> None:
    """The cache is that of the whole session; it is cut at the end of each line, and within some."""
    path = tmp_path / ".transcripts" / "s.jsonl"
    ends = write(path, facts_of(seed))
    write_pieces(path, KEY)
    whole = path.read_bytes()
    used = 0
    tried = ends[::3] if seed == 1 else ends
    for end in tried:
        path.write_bytes(whole[:end])
        used += is_alike(path)
    for cut in Random(seed).sample(range(len(whole)), 8):
        path.write_bytes(whole[:cut])
        is_alike(path)
    assert used > len(tried) // 4


@pytest.mark.parametrize("seed", [1, *MORE])
def test_a_session_that_went_on_after_any_fact_is_resumed_alike(tmp_path: Path, seed: int) -> None:
    """The cache is that of a beginning of the session."""
    facts = facts_of(seed)
    path = tmp_path / ".transcripts" / "s.jsonl"
    ends = write(path, facts)
    whole = path.read_bytes()
    used = 0
    for end in ends[::4]:
        for piece in pieces(path):
            piece.unlink()
        path.write_bytes(whole[:end])
        write_pieces(path, KEY)
        path.write_bytes(whole)
        used += is_alike(path)
    assert used > len(ends) // 16


@pytest.mark.parametrize("seed", [1, *MORE])
def test_a_damaged_cache_changes_nothing(tmp_path: Path, seed: int) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    write(path, facts_of(seed))
    write_pieces(path, KEY)
    dice = Random(seed)
    sound = {piece: piece.read_bytes() for piece in pieces(path)}
    tried = list(sound)[::3] if seed == 1 else list(sound)
    for piece in tried:
        data = sound[piece]
        at = dice.randrange(len(data))
        other = sound[dice.choice(list(sound))]
        for damage in (b"", data[:at], data[:at] + b"?" + data[at + 1 :], data + b"x", other):
            piece.write_bytes(damage)
            is_alike(path)
        piece.unlink()
        is_alike(path)
        piece.write_bytes(data)
    assert is_alike(path)


@pytest.mark.parametrize("seed", [1, *MORE])
def test_a_cache_of_other_lines_changes_nothing(tmp_path: Path, seed: int) -> None:
    """A line of the session is damaged, missing or unsigned, or the session is another one."""
    path = tmp_path / ".transcripts" / "s.jsonl"
    ends = write(path, facts_of(seed))
    write_pieces(path, KEY)
    whole = path.read_bytes()
    dice = Random(seed)
    for _ in range(5):
        at = dice.randrange(len(ends) - 1)
        start = ends[at]
        end = ends[at + 1]
        middle = dice.randrange(start, end)
        for line in (b"", b"\n", whole[start:middle] + b"?" + whole[middle + 1 : end], whole[start:end] * 2):
            path.write_bytes(whole[:start] + line + whole[end:])
            is_alike(path)
    write(path, facts_of(seed + 6))
    assert not is_alike(path)


def test_a_cache_of_another_version_or_machine_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    write(path, facts_of(1))
    write_pieces(path, KEY)
    assert read_known_start(path, SessionKey(b"other")) is None
    assert read_known_start(path, SessionKey(KEY.key, {"s.jsonl": (1, 2)})) is None
    monkeypatch.setattr(load_cache, "_form", lambda: 7)
    assert read_known_start(path, KEY) is None


def test_lines_from_elsewhere_are_never_in_the_cache(tmp_path: Path) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    ends = write(path, facts_of(1))
    whole = path.read_bytes()
    foreign = SessionKey(b"foreign").sign(encode_fact(facts_of(1)[len(ends) // 2], "s"))
    at = ends[len(ends) // 2]
    path.write_bytes(whole[:at] + foreign + whole[at:])
    write_pieces(path, KEY)
    start = read_known_start(path, KEY)
    assert start is not None and start.size <= at and not KEY.is_from_elsewhere(path, at + len(foreign))
    assert KEY.is_from_elsewhere(path, start.size)


@pytest.mark.parametrize(("old", "odd"), [(b"777", b"1" * 30), (b"777", b"true"), (b"begins", rb"\ud800")])
def test_lines_that_the_cache_cannot_hold_are_read_from_the_transcript(
    tmp_path: Path, old: bytes, odd: bytes
) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    prompt = User(1, 1.5, (TextBlock("begins " + "words " * 2_000),), (777,))
    line = encode_fact(prompt, "s")[: -len(',"crc":"01234567"}\n')].replace(old, odd)
    path.parent.mkdir()
    path.write_bytes(KEY.sign(b'%b,"crc":"01234567"}\n' % line))
    write_pieces(path, KEY)
    assert read_transcript(path).facts and not is_alike(path)


def test_only_what_is_new_is_written_and_what_belongs_to_no_session_is_removed(tmp_path: Path) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    facts = facts_of(1)
    ends = write(path, facts)
    whole = path.read_bytes()
    path.write_bytes(whole[: ends[len(ends) // 2]])
    write_pieces(path, KEY)
    orphan = path.parent / "cache" / "gone.0"
    orphan.write_bytes(b"")
    before = {piece: piece.stat().st_ino for piece in pieces(path)}
    path.write_bytes(whole)
    write_pieces(path, KEY)
    after = {piece: piece.stat().st_ino for piece in pieces(path)}
    assert after.items() > before.items() and before and not orphan.exists()


def test_pieces_are_written_and_read_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_cache, "PIECE_BYTES", 200_000)
    path = tmp_path / ".transcripts" / "s.jsonl"
    facts = list[Fact]()
    for seq in range(1, 1_200, 2):
        call = ToolUseBlock(f"toolu_{seq}", "read", {"file_path": f"file_{seq}", "offset": seq})
        facts.append(Reply(seq, 1.5, (call,), (9,), Usage(1, 2, 3), "tool_use", True, "model", 0))
        about = {"path": f"file_{seq}", "sha256": f"{seq:064}"}
        facts.append(Result(seq + 1, 1.5, seq, 0, (TextBlock(f"line {seq}"),), (3,), about=about))
    write(path, facts)
    write_pieces(path, KEY)  # the decoders are made
    start = read_known_start(path, KEY)
    assert start is not None
    replies = [fact for fact in start.facts if isinstance(fact, Reply)]
    assert len({id(fact.model) for fact in replies}) == len({id(fact.stop) for fact in replies}) == 1
    pieces(path)[0].unlink()
    tracemalloc.start()
    write_pieces(path, KEY)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pieces(path) and peak < 3 * load_cache.PIECE_BYTES


def test_a_small_session_has_no_cache(tmp_path: Path) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    write(path, facts_of(1)[:1])
    write_pieces(path, KEY)
    assert not (path.parent / "cache").exists()


def test_a_cache_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / ".transcripts" / "s.jsonl"
    write(path, facts_of(1))
    write_pieces(path, KEY)
    (path.parent / "cache").rename(tmp_path / "elsewhere")
    (path.parent / "cache").symlink_to(tmp_path / "elsewhere")
    assert read_known_start(path, KEY) is None

"""Which transcripts were written on this machine: the hash of each line, and the adoption of older ones."""

import json
import os
import stat
from pathlib import Path

import pytest

from transcripts.codec import decode_line, encode_fact
from transcripts.facts import Fact, Opened, Result, UnknownFact, User
from transcripts.load import read_transcript
from transcripts.messages import TextBlock
from transcripts.session_key import SessionKey
from transcripts.session_lock import RECORDS_FOLDER
from transcripts.store import Store

KEY = SessionKey(b"k" * 32)


def user(seq: int, text: str = "hello") -> User:
    return User(seq, 1_700_000_000.0, (TextBlock(text),), (5,))


def record(project: Path, key: SessionKey | None, *facts: Fact) -> Path:
    store = Store.create(project, "one", pytest.fail, key=key)
    for fact in facts:
        store.append(fact, durable=True)
    store.close()
    return store.path


def test_a_signed_line_is_the_same_fact() -> None:
    line = KEY.sign(encode_fact(user(1), "one"))
    assert KEY.signed(line) and decode_line(line) == (user(1), "one")
    assert json.loads(line)["mac"] and not SessionKey.new().signed(line)
    assert not KEY.signed(encode_fact(user(1), "one")) and not KEY.signed(b"") and not KEY.signed(b"{}\n")


def test_a_changed_fact_or_another_session_has_no_valid_hash(tmp_path: Path) -> None:
    line = KEY.sign(encode_fact(user(1), "one"))
    mac = json.loads(line)["mac"].encode()
    for text, sid in (("forged", "one"), ("hello", "two")):
        other = KEY.sign(encode_fact(user(1, text), sid))
        forged = other.replace(json.loads(other)["mac"].encode(), mac)
        assert not KEY.signed(forged)


def test_a_transcript_with_a_fact_from_elsewhere_is_from_elsewhere(tmp_path: Path) -> None:
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2))
    assert not KEY.is_from_elsewhere(path) and SessionKey.new().is_from_elsewhere(path)
    with path.open("ab") as file:
        file.write(encode_fact(user(3, "forged"), "one"))
    assert KEY.is_from_elsewhere(path)


def test_damage_makes_no_transcript_foreign(tmp_path: Path) -> None:
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2), user(3))
    first, second, third = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + b"\n" + second[:20] + b"\0\0" + third + b"torn {")
    assert not KEY.is_from_elsewhere(path)
    path.write_bytes(first + second[:20] + encode_fact(user(3, "forged"), "one"))
    assert KEY.is_from_elsewhere(path)


@pytest.mark.parametrize("has_links", [True, False])
def test_a_transcript_whose_lines_are_not_those_that_were_written_is_from_elsewhere(
    tmp_path: Path, has_links: bool
) -> None:
    """Lines of earlier versions have no links, and are believed in any order."""
    path = record(tmp_path, KEY, Opened(1, 1.0), *map(user, range(2, 6)))
    one, two, three, four, five = lines = path.read_bytes().splitlines(keepends=True)
    if not has_links:
        facts = (decode_line(line)[0] for line in lines)
        one, two, three, four, five = (KEY.sign(encode_fact(fact, "one")) for fact in facts)
    for count in range(6):
        path.write_bytes(b"".join((one, two, three, four, five)[:count]))
        assert not KEY.is_from_elsewhere(path), f"{count} lines"
    changed = {
        "first": (two, three, four, five),
        "dropped": (one, two, four, five),
        "moved": (one, two, four, three, five),
        "repeated": (one, two, three, three, four, five),
        "repeated later": (one, two, three, four, five, two),
        "first later": (one, two, one),
    }
    for name, kept in changed.items():
        path.write_bytes(b"".join(kept))
        assert KEY.is_from_elsewhere(path) == has_links, name
    path.write_bytes(one + two + b"{damaged}\n" + four + five)
    assert not KEY.is_from_elsewhere(path), "the user is told of the damaged line"
    path.write_bytes(one + b"{damaged}\n" + four + three + five)
    assert KEY.is_from_elsewhere(path) == has_links


def test_lines_of_another_session_do_not_continue_this_one(tmp_path: Path) -> None:
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2), user(3))
    (tmp_path / "other").mkdir()
    other = record(tmp_path / "other", KEY, Opened(1, 1.0), user(2, "other"), user(3))
    one, two, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(one + two + other.read_bytes().splitlines(keepends=True)[2])
    assert KEY.is_from_elsewhere(path)


def test_every_line_continues_the_one_before_whatever_happened_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transcripts.store.gettempdir", lambda: str(tmp_path))
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2), user(3))
    with path.open("ab") as file:
        file.write(b'\n  \n{"v":1,"seq":4')  # torn
    (tmp_path / "makeroom-one-x.jsonl").write_bytes(KEY.sign(encode_fact(user(4), "one"), b"f" * 16))
    told: list[str] = []
    store, loaded = Store.resume(path, told.append, key=KEY)
    store.append(user(5), durable=True)
    store.close()
    assert len(loaded.facts) == 4 and not KEY.is_from_elsewhere(path)
    store, _ = Store.resume(path, told.append, key=KEY)
    os.truncate(path, 0)
    store.append(user(6), durable=True)
    store.append(user(7), durable=True)
    store.close()
    assert "restored from memory" in told[-1] and not KEY.is_from_elsewhere(path)
    whole = path.read_bytes()
    copy = Store.create(tmp_path, "two", pytest.fail, key=KEY)
    copy.begin_with(path, len(whole), user(8))
    copy.append(user(9), durable=True)
    nested = Store.create(tmp_path, "three", pytest.fail, key=KEY)
    nested.begin_as(Opened(1, 2.0, parent="two"), copy.path, copy.path.stat().st_size, user(10))
    nested.append(user(11), durable=True)
    for made, count in ((copy, 9), (nested, 11)):
        made.close()
        assert not KEY.is_from_elsewhere(made.path) and len(read_transcript(made.path).facts) == count
        assert made.path.read_bytes().count(b'"prev":"') == count
    lines = nested.path.read_bytes().splitlines(keepends=True)
    nested.path.write_bytes(b"".join(lines[:1] + lines[2:]))
    assert KEY.is_from_elsewhere(nested.path)


def test_two_continuations_in_one_file_are_both_ours(tmp_path: Path) -> None:
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2))
    start = path.read_bytes()
    tails = []
    for text in ("first", "second"):
        path.write_bytes(start)
        store, _ = Store.resume(path, pytest.fail, key=KEY)
        store.append(user(3, text))
        store.append(user(4, text), durable=True)
        store.close()
        tails.append(path.read_bytes().removeprefix(start))
    path.write_bytes(start + b"".join(tails))
    assert not KEY.is_from_elsewhere(path) and not KEY.is_from_elsewhere(path, len(start + tails[0]))


def test_large_results_stay_lazy_and_unknown_facts_are_signed_again(tmp_path: Path) -> None:
    result = Result(3, 1.0, of=2, block=0, content=(TextBlock("x" * 5_000),), tokens=(900,))
    raw = {"v": 9, "seq": 4, "ts": "2026-01-01T00:00:00Z", "sid": "one", "kind": "new", "mac": "0" * 32}
    unknown, _ = decode_line(encode_fact(UnknownFact(4, 1.0, "new", raw), "one"))
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2), result, unknown)
    assert not KEY.is_from_elsewhere(path) and path.read_bytes().count(b'"mac"') == 4
    lazy = {3}
    assert set(read_transcript(path, defer=True).lazy_results) <= lazy
    assert read_transcript(path).facts[2] == result


def test_lines_saved_elsewhere_by_an_earlier_version_are_signed_when_they_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = record(tmp_path, KEY, Opened(1, 1.0), user(2))
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp" / "makeroom-one-x.jsonl").write_bytes(encode_fact(user(3), "one"))
    monkeypatch.setattr("transcripts.store.gettempdir", lambda: str(tmp_path / "tmp"))
    told: list[str] = []
    store, loaded = Store.resume(path, told.append, key=KEY)
    store.close()
    assert len(loaded.facts) == 3 and "added 1 entry" in told[0] and not KEY.is_from_elsewhere(path)


def test_the_key_is_private_and_stays(tmp_path: Path) -> None:
    state = tmp_path / "state" / "makeroom"
    key = SessionKey.load(state, tmp_path)
    assert SessionKey.load(state, tmp_path / "other").key == key.key
    assert SessionKey.load(tmp_path / "state2", tmp_path).key != key.key
    assert stat.S_IMODE((state / "session_key.json").stat().st_mode) == 0o600
    assert sorted(path.name for path in state.iterdir()) == ["adopted", "session_key.json"]
    (state / "session_key.json").write_text("{}")
    with pytest.raises(ValueError, match="key"):
        SessionKey.load(state, tmp_path)


def let_time_pass(folder: Path) -> None:
    """Return when the clock of the file system, which may tick every few milliseconds, has advanced."""
    probe = folder / "probe"
    probe.write_bytes(b"")
    began = now = probe.stat().st_ctime_ns
    while now == began:
        probe.write_bytes(b"")
        now = probe.stat().st_ctime_ns


def test_sessions_of_an_earlier_version_are_adopted_and_those_that_arrive_later_are_not(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.mkdir()  # makeroom was used here
    path = record(tmp_path, None, Opened(1, 1.0), user(2))
    let_time_pass(tmp_path)
    key = SessionKey.load(state, tmp_path)
    let_time_pass(tmp_path)
    assert not key.is_from_elsewhere(path)
    store, _ = Store.resume(path, pytest.fail, key=key)
    store.append(user(3), durable=True)
    store.close()
    assert not SessionKey.load(state, tmp_path).is_from_elsewhere(path)
    later = tmp_path / "later"
    later.mkdir()
    late = record(later, None, Opened(1, 1.0), user(2))
    assert SessionKey.load(state, later).is_from_elsewhere(late)
    content = path.read_bytes()
    path.unlink()
    (tmp_path / RECORDS_FOLDER / "holds-the-inode").write_bytes(b"")
    path.write_bytes(content.replace(b"hello", b"olleh"))
    with path.open("ab") as file:
        file.write(encode_fact(user(4, "forged"), "one"))
    assert SessionKey.load(state, tmp_path).is_from_elsewhere(path)


def test_nothing_is_adopted_where_makeroom_was_never_used(tmp_path: Path) -> None:
    path = record(tmp_path, None, Opened(1, 1.0), user(2))
    assert SessionKey.load(tmp_path / "state", tmp_path).is_from_elsewhere(path)

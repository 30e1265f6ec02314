"""What machines and people do to a record, each built for real, and that the session goes on behind it."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from transcripts.codec import encode_fact, seal
from transcripts.disk import Disk
from transcripts.facts import Compacted, Fact, Fold, Result, UnknownFact, User
from transcripts.listing import recorded_sessions
from transcripts.load import read_record
from transcripts.messages import TextBlock
from transcripts.record_errors import StoreError
from transcripts.session_lock import path_of
from transcripts.store import Store, create_store, resume_store

from .failing_disk import Plan, crashing, failing, in_a_child
from .test_store import ERRORS, SID, TURN, Told, record, turn

LINES = [encode_fact(fact, SID) for fact in TURN]
WHOLE = b"".join(LINES)
TORN = b'{"v":1,"seq":6,"ts":"2026-11'
LATER = [fact for fact, _ in turn(6)]


def laid(folder: Path, data: bytes) -> Path:
    """A record with these bytes in it."""
    path = path_of(folder, SID)
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(data)
    return path


def goes_on(path: Path) -> list[Fact]:
    """Go on with a session: what was there stays as it was, what is said is there. Returns what was there."""
    store, loaded = resume_store(path, told := Told())
    before = path.read_bytes()[: loaded.whole_size]
    word = User(max((fact.seq for fact in loaded.facts), default=0) + 1, 9.5, (TextBlock("go on"),))
    store.append(word, True)
    store.close()
    again = read_record(path)
    assert told == [] and again.torn_size == 0
    assert again.facts == [*loaded.facts, word] and again.damaged == loaded.damaged
    assert path.read_bytes().startswith(before)
    return loaded.facts


@pytest.mark.parametrize("line", range(len(LINES)))
def test_a_bit_flipped_in_any_line_costs_that_line_and_the_session_goes_on(tmp_path: Path, line: int) -> None:
    start = len(b"".join(LINES[:line]))
    places = [*range(0, len(LINES[line]), 37), len(LINES[line]) - 5, len(LINES[line]) - 1]
    for place in places:
        data = bytearray(WHOLE)
        data[start + place] ^= 1 << place % 8
        kept = goes_on(laid(tmp_path / str(place), bytes(data)))
        joined = place == len(LINES[line]) - 1  # the newline went: the next line begins in this one
        missing = [fact for fact in TURN if fact not in kept]
        assert missing in ([], [TURN[line]]) or (joined and missing == TURN[line : line + 2])


@pytest.mark.parametrize(
    "changed",
    [
        WHOLE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + WHOLE,
        WHOLE[:-1],
        WHOLE.replace(b"\n", b"\n\n"),
        WHOLE + bytes(4096),
        WHOLE + TORN + bytes(4096),
        WHOLE + b"\n" * 3,
    ],
    ids=["CRLF", "byte order mark", "no last newline", "blank lines", "NUL tail", "torn and NUL", "newlines"],
)
def test_a_file_that_was_changed_around_its_records_is_gone_on_with(tmp_path: Path, changed: bytes) -> None:
    assert goes_on(laid(tmp_path, changed)) == TURN


def test_zeros_where_a_record_was_and_a_record_behind_them(tmp_path: Path) -> None:
    hole = b"".join([*LINES[:2], bytes(len(LINES[2])), *LINES[3:]])
    assert goes_on(laid(tmp_path, hole)) == [*TURN[:2], *TURN[3:]]


def test_an_older_format_is_read_and_its_lines_stay_as_they_are(tmp_path: Path) -> None:
    old = {"v": 0, "seq": 1, "ts": "2026-11-21T09:30:00Z", "sid": SID, "kind": "user"}
    data = seal({**old, "blocks": [{"type": "text", "text": "long ago"}]})
    (fact,) = goes_on(laid(tmp_path, data))
    assert isinstance(fact, User) and fact.blocks == (TextBlock("long ago"),)


def test_records_of_a_kind_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    odd = {"v": 1, "seq": 6, "ts": "2026-11-21T09:30:00Z", "sid": SID, "kind": "dreamt", "of": ["sheep"]}
    facts = goes_on(laid(tmp_path, WHOLE + seal(odd)))
    assert isinstance(facts[-1], UnknownFact) and facts[-1].raw["of"] == ["sheep"]


def test_a_clock_that_runs_backwards_changes_no_order(tmp_path: Path) -> None:
    path = laid(tmp_path, WHOLE)
    store, _ = resume_store(path, Told())
    early = [
        User(6, -3600.0, (TextBlock("before the beginning of time"),)),
        User(7, 0.25, (TextBlock("later"),)),
    ]
    for fact in early:
        store.append(fact, True)
    store.close()
    assert read_record(path).facts == [*TURN, *early]
    assert recorded_sessions(tmp_path)[0].first_prompt == "list the files"
    assert goes_on(path) == [*TURN, *early]


LARGE = Result(3, 3.5, 2, 0, (TextBlock("x" * (50 << 20)),), (9,))


def test_a_record_of_50_mb_is_written_read_left_in_the_file_and_torn(tmp_path: Path) -> None:
    store = create_store(tmp_path, SID, told := Told())
    record(store, [*turn()[:2], (LARGE, True)])
    cut = store.path.stat().st_size - 10
    store.append(Compacted(4, 4.5, "summary", "auto", (Fold(1, 3, (TextBlock("much"),)),)), True)
    store.close()
    assert read_record(store.path).facts[2] == LARGE
    shelved = read_record(store.path, defer=True)
    assert shelved.lazy_results.fetch(3) == LARGE and told == []
    os.truncate(store.path, cut)
    again, loaded = resume_store(store.path, told)
    again.append(User(3, 5.5, (TextBlock("go on"),)), True)
    again.close()
    assert loaded.facts == TURN[:2] and told == []
    assert store.path.with_suffix(".torn").stat().st_size == loaded.torn_size > 50 << 20
    assert [fact.seq for fact in read_record(store.path).facts] == [1, 2, 3]


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_a_million_lines_are_read_and_gone_on_with(tmp_path: Path) -> None:
    path = laid(tmp_path, b"")
    with path.open("wb") as file:
        for at in range(200_000):
            file.writelines(encode_fact(fact, SID) for fact, _ in turn(1 + 5 * at))
    assert len(goes_on(path)) == 1_000_000


def behind_a_torn_record(folder: Path, disk: Disk) -> Store:
    return resume_store(path_of(folder, SID), lambda line: None, disk)[0]


def after_a_failed_sync(folder: Path, disk: Disk) -> Store:
    """The file is built anew, since nobody knows what the failed sync dropped."""
    due = [errno.EIO]

    def sync(fd: int) -> None:
        if due:
            raise OSError(due.pop(), "input/output error")
        disk.sync(fd)

    return resume_store(path_of(folder, SID), lambda line: None, replace(disk, sync=sync))[0]


@pytest.mark.parametrize("begin", [behind_a_torn_record, after_a_failed_sync])
@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_a_call_that_fails_once_while_a_session_is_mended_loses_nothing(
    tmp_path: Path, error: int, begin: Callable[[Path, Disk], Store]
) -> None:
    at, plan = 0, Plan(0, error)
    while plan.count >= at:
        at += 1
        path, plan = laid(tmp_path / str(at), WHOLE + TORN), Plan(at, error)
        try:
            store = begin(tmp_path / str(at), failing(plan))
        except StoreError:
            assert path.read_bytes() == WHOLE + TORN
            store, _ = resume_store(path, Told())
        record(store, turn(6))
        store.close()
        loaded = read_record(path)
        assert loaded.facts == [*TURN, *LATER] and (loaded.damaged, loaded.torn_size) == ((), 0), plan.log[
            at - 1
        ]
        assert TORN in path.with_suffix(".torn").read_bytes()
    assert at > 15


def crash(folder: Path, begin: Callable[[Path, Disk], Store], at: int, keep: float) -> tuple[int, int]:
    """Go on in a child that ends at call `at` of its disk: (its exit code, the last number acknowledged)."""

    def work(tell: Callable[[int], object]) -> None:
        store = begin(folder, crashing(at, keep))
        for fact, durable in turn(6):
            store.append(fact, durable)
            if durable and not store.pending and not store.journal.sync_failed:
                tell(fact.seq)
        store.close()

    code, last = in_a_child(work)
    return code, last or 5


@pytest.mark.parametrize("begin", [behind_a_torn_record, after_a_failed_sync])
@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_a_crash_at_any_call_while_a_session_is_mended_loses_nothing(
    tmp_path: Path, begin: Callable[[Path, Disk], Store], keep: float
) -> None:
    at, code = 0, 66
    while code == 66:
        at += 1
        path = laid(tmp_path / str(at), WHOLE + TORN)
        code, acknowledged = crash(tmp_path / str(at), begin, at, keep)
        kept = goes_on(path)
        assert kept == [*TURN, *LATER][: len(kept)] and len(kept) >= acknowledged, at
        assert TORN in path.with_suffix(".torn").read_bytes()
    assert code == 0 and at > 15


SMALL_DISK = """
import json, subprocess, sys
from pathlib import Path
from tests.transcripts.test_store import SID, Told, record, turn
from transcripts.load import read_record
from transcripts.session_lock import path_of
from transcripts.store import create_store

folder, how = Path(sys.argv[1]), sys.argv[2]
told, ballast = Told(), folder / "ballast"
if how == "full":
    store = create_store(folder, SID, told)
    record(store, turn())
    try:
        ballast.write_bytes(bytes(1 << 20))
    except OSError:
        pass
    for at in range(6, 1000, 5):
        record(store, turn(at))
        if told:
            break
    ballast.unlink()
else:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    store, at = create_store(folder, SID, told), 1
    record(store, turn())
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
record(store, turn(at + 5))
store.close()
loaded = read_record(path_of(folder, SID))
assert [fact.seq for fact in loaded.facts] == list(range(1, at + 10))
assert (loaded.damaged, loaded.torn_size) == ((), 0)
print(json.dumps(told))
"""
MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=128k none "$0" && "$@"']


@pytest.mark.parametrize(
    ("how", "why", "advice"),
    [("full", "space left", "Make room"), ("read-only", "Read-only file system", "cannot be written to")],
)
def test_a_real_disk_that_takes_nothing_for_a_while_loses_nothing(
    tmp_path: Path, how: str, why: str, advice: str
) -> None:
    """A small file system in memory, in a namespace of its own: really full, and really read-only."""
    if subprocess.run([*MOUNT, str(tmp_path), "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    argv = [*MOUNT, str(tmp_path), sys.executable, "-c", SMALL_DISK, str(tmp_path), how]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2], timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout)
    assert why in first and advice in first and "saved again" in last

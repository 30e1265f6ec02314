"""Damage to a record by machines, editors and users, each made for real; the session is resumed behind it."""

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.sampling import sampled, sampled_rows
from tests.tables import each_row
from transcripts.codec import encode_fact, seal
from transcripts.errors import StoreError
from transcripts.facts import Compacted, Fact, Fold, Result, UnknownFact, User
from transcripts.listing import ProjectRecords
from transcripts.load import read_transcript
from transcripts.messages import TextBlock
from transcripts.session_lock import path_of
from transcripts.storage.disk import Disk
from transcripts.store import Store

from .failing_disk import FailurePlan, crashing_disk, failing_disk, run_in_child
from .sample_turn import SID, TURN, ToldLines, append_all, turn
from .test_store import ERRORS

LINES = [encode_fact(fact, SID) for fact in TURN]
WHOLE = b"".join(LINES)
TORN = b'{"v":1,"seq":6,"ts":"2026-11'
LATER = [fact for fact, _ in turn(6)]


def record_with(folder: Path, data: bytes) -> Path:
    """The file of a record that holds these bytes."""
    path = path_of(folder, SID)
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(data)
    return path


def resume_and_check(path: Path) -> list[Fact]:
    """Resume a session and add a prompt; what was there is not changed. Returns the facts that were there."""
    store, loaded = Store.resume(path, told := ToldLines())
    before = path.read_bytes()[: loaded.whole_size]
    prompt = User(max((fact.seq for fact in loaded.facts), default=0) + 1, 9.5, (TextBlock("go on"),))
    store.append(prompt, True)
    store.close()
    again = read_transcript(path)
    assert told == [] and again.torn_size == 0
    assert again.facts == [*loaded.facts, prompt] and again.damaged == loaded.damaged
    assert path.read_bytes().startswith(before)
    return loaded.facts


@each_row("line", range(len(LINES)))
def test_a_bit_flipped_in_any_line_costs_that_line_and_the_session_is_resumed(
    tmp_path: Path, line: int
) -> None:
    start = len(b"".join(LINES[:line]))
    places = [*range(0, len(LINES[line]), 37), len(LINES[line]) - 5, len(LINES[line]) - 1]
    for place in places:
        data = bytearray(WHOLE)
        data[start + place] ^= 1 << place % 8
        kept = resume_and_check(record_with(tmp_path / str(place), bytes(data)))
        joined = place == len(LINES[line]) - 1  # without its newline the next line is joined to this one
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
def test_a_file_changed_around_its_records_is_resumed(tmp_path: Path, changed: bytes) -> None:
    assert resume_and_check(record_with(tmp_path, changed)) == TURN


def test_zeros_instead_of_a_record_cost_that_record(tmp_path: Path) -> None:
    hole = b"".join([*LINES[:2], bytes(len(LINES[2])), *LINES[3:]])
    assert resume_and_check(record_with(tmp_path, hole)) == [*TURN[:2], *TURN[3:]]


def test_an_older_format_is_read_and_its_lines_are_not_changed(tmp_path: Path) -> None:
    old = {"v": 0, "seq": 1, "ts": "2026-11-21T09:30:00Z", "sid": SID, "kind": "user"}
    data = seal({**old, "blocks": [{"type": "text", "text": "long ago"}]})
    (fact,) = resume_and_check(record_with(tmp_path, data))
    assert isinstance(fact, User) and fact.blocks == (TextBlock("long ago"),)


def test_records_of_an_unknown_kind_are_kept(tmp_path: Path) -> None:
    odd = {"v": 1, "seq": 6, "ts": "2026-11-21T09:30:00Z", "sid": SID, "kind": "dreamt", "of": ["sheep"]}
    facts = resume_and_check(record_with(tmp_path, WHOLE + seal(odd)))
    assert isinstance(facts[-1], UnknownFact) and facts[-1].raw["of"] == ["sheep"]


def test_a_clock_that_runs_backwards_changes_no_order(tmp_path: Path) -> None:
    path = record_with(tmp_path, WHOLE)
    store, _ = Store.resume(path, ToldLines())
    early = [
        User(6, -3600.0, (TextBlock("before the beginning of time"),)),
        User(7, 0.25, (TextBlock("later"),)),
    ]
    for fact in early:
        store.append(fact, True)
    store.close()
    assert read_transcript(path).facts == [*TURN, *early]
    assert ProjectRecords(tmp_path).sessions()[0].first_prompt == "list the files"
    assert resume_and_check(path) == [*TURN, *early]


def test_a_record_of_50_mb_can_be_written_read_deferred_and_torn(tmp_path: Path) -> None:
    large = Result(3, 3.5, 2, 0, (TextBlock("x" * (50 << 20)),), (9,))
    store = Store.create(tmp_path, SID, told := ToldLines())
    append_all(store, [*turn()[:2], (large, True)])
    cut = store.path.stat().st_size - 10
    store.append(Compacted(4, 4.5, "summary", "auto", (Fold(1, 3, (TextBlock("much"),)),)), True)
    store.close()
    assert read_transcript(store.path).facts[2] == large
    deferred = read_transcript(store.path, defer=True)
    assert next(deferred.lazy_results.fetch(3)) == large and told == []
    os.truncate(store.path, cut)
    again, loaded = Store.resume(store.path, told)
    again.append(User(3, 5.5, (TextBlock("go on"),)), True)
    again.close()
    assert loaded.facts == TURN[:2] and told == []
    assert store.path.with_suffix(".torn").stat().st_size == loaded.torn_size > 50 << 20
    assert [fact.seq for fact in read_transcript(store.path).facts] == [1, 2, 3]


@pytest.mark.sweep
@pytest.mark.timeout(900)
def test_a_million_lines_are_read_and_resumed(tmp_path: Path) -> None:
    path = record_with(tmp_path, b"")
    with path.open("wb") as file:
        for at in range(200_000):
            file.writelines(encode_fact(fact, SID) for fact, _ in turn(1 + 5 * at))
    assert len(resume_and_check(path)) == 1_000_000


def resume_behind_a_torn_record(folder: Path, disk: Disk) -> Store:
    return Store.resume(path_of(folder, SID), lambda line: None, disk)[0]


def resume_after_a_failed_sync(folder: Path, disk: Disk) -> Store:
    """The file is rebuilt, since the failed sync may have dropped anything."""
    due = [errno.EIO]

    def sync(fd: int) -> None:
        if due:
            raise OSError(due.pop(), "input/output error")
        disk.sync(fd)

    return Store.resume(path_of(folder, SID), lambda line: None, replace(disk, sync=sync))[0]


@pytest.mark.parametrize("resume_on", [resume_behind_a_torn_record, resume_after_a_failed_sync])
@pytest.mark.parametrize("error", sampled(ERRORS, 3), ids=errno.errorcode.get)
def test_a_call_that_fails_once_during_repair_loses_nothing(
    tmp_path: Path, error: int, resume_on: Callable[[Path, Disk], Store]
) -> None:
    at, plan = 0, FailurePlan(0, error)
    while plan.count >= at:
        at += 1
        path, plan = record_with(tmp_path / str(at), WHOLE + TORN), FailurePlan(at, error)
        try:
            store = resume_on(tmp_path / str(at), failing_disk(plan))
        except StoreError:
            assert path.read_bytes() == WHOLE + TORN
            store, _ = Store.resume(path, ToldLines())
        append_all(store, turn(6))
        store.close()
        loaded = read_transcript(path)
        assert loaded.facts == [*TURN, *LATER] and (loaded.damaged, loaded.torn_size) == ((), 0), plan.log[
            at - 1
        ]
        assert TORN in path.with_suffix(".torn").read_bytes()
    assert at > 15


def crash(folder: Path, resume_on: Callable[[Path, Disk], Store], at: int, keep: float) -> tuple[int, int]:
    """Resume in a child that ends at call `at` of its disk. Returns its exit code, the last durable seq."""

    def work(tell: Callable[[int], object]) -> None:
        store = resume_on(folder, crashing_disk(at, keep))
        for fact, durable in turn(6):
            store.append(fact, durable)
            if durable and not store.pending and not store.journal.sync_failed:
                tell(fact.seq)
        store.close()

    code, last = run_in_child(work)
    return code, last or 5


@pytest.mark.parametrize("resume_on", [resume_behind_a_torn_record, resume_after_a_failed_sync])
@pytest.mark.parametrize(("keep", "every"), sampled_rows([(0.5, 4), (0.5, 1), (0.0, 1), (1.0, 1)], 4))
def test_a_crash_at_any_call_during_repair_loses_nothing(
    tmp_path: Path, resume_on: Callable[[Path, Disk], Store], keep: float, every: int
) -> None:
    at, code = 0, 66
    while code == 66:
        at += every
        path = record_with(tmp_path / str(at), WHOLE + TORN)
        code, acknowledged = crash(tmp_path / str(at), resume_on, at, keep)
        kept = resume_and_check(path)
        assert kept == [*TURN, *LATER][: len(kept)] and len(kept) >= acknowledged, at
        assert TORN in path.with_suffix(".torn").read_bytes()
    assert code == 0 and at > (15 if keep == 0.5 else 4)


SMALL_DISK = """
import json, subprocess, sys
from pathlib import Path
from tests.transcripts.sample_turn import SID, ToldLines, append_all, turn
from transcripts.load import read_transcript
from transcripts.session_lock import path_of
from transcripts.store import Store

folder, how = Path(sys.argv[1]), sys.argv[2]
told, ballast = ToldLines(), folder / "ballast"
if how == "full":
    store = Store.create(folder, SID, told)
    append_all(store, turn())
    try:
        ballast.write_bytes(bytes(1 << 20))
    except OSError:
        pass
    for at in range(6, 1000, 5):
        append_all(store, turn(at))
        if told:
            break
    ballast.unlink()
else:
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    store, at = Store.create(folder, SID, told), 1
    append_all(store, turn())
    subprocess.run(["mount", "-o", "remount,rw", folder], check=True)
append_all(store, turn(at + 5))
store.close()
loaded = read_transcript(path_of(folder, SID))
assert [fact.seq for fact in loaded.facts] == list(range(1, at + 10))
assert (loaded.damaged, loaded.torn_size) == ((), 0)
print(json.dumps(told))
"""
MOUNT = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o size=128k none "$0" && "$@"']


@pytest.mark.parametrize(
    ("how", "why", "advice"),
    [("full", "space left", "Free disk space"), ("read-only", "Read-only file system", "writable")],
)
def test_a_real_file_system_that_is_full_or_read_only_for_a_while_loses_nothing(
    tmp_path: Path, how: str, why: str, advice: str
) -> None:
    """A small file system in memory, mounted in a namespace of its own."""
    if subprocess.run([*MOUNT, str(tmp_path), "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    argv = [*MOUNT, str(tmp_path), sys.executable, "-c", SMALL_DISK, str(tmp_path), how]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2], timeout=60
    )
    assert done.returncode == 0, done.stderr
    first, last = json.loads(done.stdout)
    assert why in first and advice in first and "saved again" in last

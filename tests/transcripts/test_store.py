import errno
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest
from msgspec.structs import replace

from tests.open_files import open_files
from tests.sampling import sampled_rows
from tests.tables import each_row
from transcripts.codec import encode_fact, seal
from transcripts.errors import NoSuchSession, SessionInUse, TranscriptTooNew, Unreadable
from transcripts.facts import Closed, Instructed, Metadata, Opened, User
from transcripts.load import read_transcript
from transcripts.messages import TextBlock
from transcripts.secrets.masking import SecretMasks
from transcripts.session_lock import RECORDS_FOLDER, lock_holder, new_sid, path_of
from transcripts.storage.disk import Disk
from transcripts.store import Store

from .failing_disk import FailurePlan, crashing_disk, failing_disk, run_in_child, short_writing_disk
from .sample_turn import SID, TURN, ToldLines, append_all, turn

ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EINTR)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_appended_is_read_back(tmp_path: Path) -> None:
    told = ToldLines()
    store = Store.create(tmp_path, SID, told)
    append_all(store, turn())
    store.close()
    loaded = read_transcript(path_of(tmp_path, SID))
    assert loaded.facts == TURN
    assert loaded.sid == SID and loaded.torn_size == 0 and told == []


def test_the_size_of_a_record_is_known_while_its_lines_are_the_facts_in_memory(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, turn())
    assert store.written_size == store.path.stat().st_size > 0
    store.hide(SecretMasks(("hush-hush",)))
    store.append(User(90, 0.0, (TextBlock("it is hush-hush"),)))
    store.append(User(91, 0.0, (TextBlock("more"),)), durable=True)
    assert store.written_size == 0
    store.close()


def test_the_digest_of_a_request_is_of_its_bytes_unless_they_contain_a_masked_value(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    masks = SecretMasks(("hush-hush",))
    store.hide(masks)
    body = '{"a":  "it is hush-hush"}'
    masked = json.dumps({"a": masks.text("it is hush-hush")}, separators=(",", ":"))
    assert store.digest(body.encode()) == hashlib.sha256(masked.encode()).hexdigest()
    other = b'{"a":  1}'
    assert store.digest(other) == hashlib.sha256(other).hexdigest()
    store.close()


def test_the_id_of_a_session_is_a_random_uuid() -> None:
    assert str(uuid.UUID(new_sid())) != new_sid()


def test_directory_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = Store.create(tmp_path, SID, ToldLines())
        append_all(store, turn())
    finally:
        os.umask(before)
    assert mode(tmp_path / RECORDS_FOLDER) == 0o700
    assert mode(store.path) == 0o600
    assert (tmp_path / RECORDS_FOLDER / ".gitignore").read_bytes() == b"*\n"
    store.close()


def test_a_directory_with_loose_permissions_is_made_private_again(tmp_path: Path) -> None:
    (tmp_path / RECORDS_FOLDER).mkdir(mode=0o755)
    Store.create(tmp_path, SID, ToldLines()).close()
    assert mode(tmp_path / RECORDS_FOLDER) == 0o700


def test_a_session_without_a_prompt_leaves_no_file(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, told := ToldLines())
    store.append(Opened(1, 0.0, (), (), "m", 1, str(tmp_path)), True)
    store.append(Instructed(2, 0.0, ("s",), ()), True)
    store.append(Metadata(3, 0.0, "mode", {}))
    store.append(Closed(4, 0.0, "left"), True)
    store.close()
    assert not any((tmp_path / RECORDS_FOLDER).glob("*.jsonl"))
    assert told == []


def test_facts_before_the_first_prompt_are_written_with_it(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    opened = Opened(1, 0.0, (), (), "m", 1, str(tmp_path))
    store.append(opened, True)
    store.append(User(2, 0.0, (TextBlock("hi"),)), True)
    assert [fact.seq for fact in read_transcript(store.path).facts] == [1, 2]
    store.close()


def test_a_linked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / RECORDS_FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unreadable, match="is a symbolic link"):
        Store.create(tmp_path, SID, ToldLines())
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / RECORDS_FOLDER).mkdir()
    os.chown(tmp_path / RECORDS_FOLDER, 12345, 12345)
    with pytest.raises(Unreadable, match=r"another user \(uid 12345\); change its owner, or move it away$"):
        Store.create(tmp_path, SID, ToldLines())


def test_a_file_instead_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / RECORDS_FOLDER).write_text("x")
    with pytest.raises(Unreadable, match="not a directory"):
        Store.create(tmp_path, SID, ToldLines())


@each_row("sid", ["../x", "a/b", "", ".hidden", "a\nb", "x" * 200])
def test_a_session_id_that_names_a_file_elsewhere_is_refused(tmp_path: Path, sid: str) -> None:
    with pytest.raises(Unreadable):
        Store.create(tmp_path, sid, ToldLines())


def test_a_session_id_that_is_taken_is_refused(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    with pytest.raises(Unreadable, match="exists; choose another id"):
        Store.create(tmp_path, SID, ToldLines())


def test_a_session_id_whose_file_is_a_broken_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / RECORDS_FOLDER).mkdir()
    path_of(tmp_path, SID).symlink_to(tmp_path / "nowhere")
    with pytest.raises(Unreadable, match="exists; choose another id"):
        Store.create(tmp_path, SID, ToldLines())


def test_an_empty_record_that_is_resumed_stays_empty_until_there_is_a_prompt(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    store.path.write_bytes(b"")
    again, _ = Store.resume(store.path, ToldLines())
    again.append(Opened(1, 0.0, (), (), "m", 1, str(tmp_path)), True)
    assert store.path.read_bytes() == b"" and len(again.pending) == 1
    again.append(User(2, 0.0, (TextBlock("hi"),)), True)
    again.close()
    assert [fact.seq for fact in read_transcript(store.path).facts] == [1, 2]


def test_a_renamed_record_keeps_the_session_id_that_is_in_it(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    renamed = store.path.rename(store.path.with_name("renamed.jsonl"))
    again, loaded = Store.resume(renamed, ToldLines())
    append_all(again, turn(6))
    again.close()
    assert loaded.sid == again.sid == SID
    assert renamed.read_bytes().count(b'"sid":"%b"' % SID.encode()) == 10


def test_a_directory_that_cannot_be_made_is_reported_at_once_and_the_session_begins_all_the_same(
    tmp_path: Path,
) -> None:
    def mkdir(path: str, mode: int) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    told: list[str] = []
    store = Store.create(tmp_path, "s", told.append, replace(Disk(), mkdir=mkdir))
    assert len(told) == 1 and "cannot save the session: Read-only file system" in told[0]
    store.close()


def test_a_session_in_use_names_the_process(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, turn())
    script = (
        "import sys; from pathlib import Path; from transcripts.store import Store\n"
        "from transcripts.errors import SessionInUse\n"
        "try: Store.resume(Path(sys.argv[1]), print)\nexcept SessionInUse as e: print(e.pid, e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(store.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"{os.getpid()} session {SID} is in use by pid {os.getpid()}")
    assert lock_holder(store.path) == os.getpid()
    with pytest.raises(SessionInUse):
        Store.resume(store.path, ToldLines())
    store.close()
    assert lock_holder(store.path) is None
    Store.resume(store.path, ToldLines())[0].close()
    assert list((tmp_path / RECORDS_FOLDER).glob("*.lock")) == []


def test_the_lock_of_a_dead_process_keeps_no_one_out(tmp_path: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from transcripts.store import Store\n"
        "from transcripts.facts import User\n"
        "store = Store.create(Path(sys.argv[1]), sys.argv[2], print)\n"
        "store.append(User(1, 0.0, ()), True); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path), SID], check=True)
    assert (tmp_path / RECORDS_FOLDER / f"{SID}.lock").exists()
    store, loaded = Store.resume(path_of(tmp_path, SID), ToldLines())
    assert len(loaded.facts) == 1
    store.close()


def test_a_child_process_does_not_inherit_the_lock(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, turn())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        store.close()
        Store.resume(path_of(tmp_path, SID), ToldLines())[0].close()
        child.communicate(b"\n")


def test_a_newer_version_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / RECORDS_FOLDER).mkdir()
    path = path_of(tmp_path, SID)
    raw = {"v": 2, "seq": 1, "ts": "2026-11-21T09:30:00Z", "sid": SID, "kind": "user", "words": "x"}
    path.write_bytes(seal(raw))
    with pytest.raises(TranscriptTooNew, match="format 2"):
        Store.resume(path, ToldLines())
    assert path.read_bytes() == seal(raw)
    assert lock_holder(path) is None


def test_a_session_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NoSuchSession):
        Store.resume(path_of(tmp_path, SID), ToldLines())
    assert list((tmp_path / RECORDS_FOLDER).glob("*.jsonl")) == []


@each_row("torn", [b'{"v":1,"seq":6,"ts":"20', b"\0" * 4096, b"\0" * 300 + b"\n", b"x"])
def test_a_torn_tail_is_set_aside_and_never_appended_to(tmp_path: Path, torn: bytes) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    whole = store.path.read_bytes()
    store.path.write_bytes(whole + torn)
    again, loaded = Store.resume(store.path, ToldLines())
    assert loaded.torn_size == len(torn) and loaded.facts == TURN
    assert store.path.read_bytes() == whole + torn, "reading alone changes nothing"
    append_all(again, turn(6))
    again.close()
    assert store.path.with_suffix(".torn").read_bytes() == torn
    assert read_transcript(store.path).facts == TURN + [fact for fact, _ in turn(6)]
    assert read_transcript(store.path).damaged == ()


def test_torn_tails_of_several_crashes_are_all_kept(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    for number in (1, 2):
        with store.path.open("ab") as file:
            file.write(b"torn %d" % number)
        again, _ = Store.resume(store.path, ToldLines())
        append_all(again, turn(1 + 5 * number))
        again.close()
    assert store.path.with_suffix(".torn").read_bytes() == b"torn 1torn 2"


def test_a_session_whose_last_newline_is_missing_is_resumed_on_a_new_line(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    store.path.write_bytes(store.path.read_bytes()[:-1])
    again, _ = Store.resume(store.path, ToldLines())
    append_all(again, turn(6))
    again.close()
    loaded = read_transcript(store.path)
    assert len(loaded.facts) == 10 and loaded.damaged == () and loaded.torn_size == 0


def attempt(folder: Path, plan: FailurePlan, disk: Disk) -> tuple[Store | None, ToldLines]:
    told = ToldLines()
    try:
        store = Store.create(folder, SID, told, disk)
    except Unreadable:
        return None, told
    append_all(store, turn())
    return store, told


def calls_of_a_turn(folder: Path) -> int:
    plan = FailurePlan(10**9, 0)
    store, told = attempt(folder, plan, failing_disk(plan))
    assert store is not None and told == []
    store.close()
    return plan.count


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_a_call_that_fails_once_loses_nothing(tmp_path: Path, error: int) -> None:
    for at in range(1, calls_of_a_turn(tmp_path / _made(tmp_path, "count")) + 1):
        folder = tmp_path / _made(tmp_path, f"at{at}")
        plan = FailurePlan(at, error)
        store, told = attempt(folder, plan, failing_disk(plan))
        assert store is not None
        store.close()
        assert read_transcript(path_of(folder, SID)).facts == TURN, (at, plan.log[at - 1])
        assert read_transcript(path_of(folder, SID)).damaged == ()
        assert len(told) in (0, 2), "told once when it failed and once when it worked again"


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.get)
def test_a_disk_that_keeps_failing_is_reported_once_and_everything_stays_in_memory(
    tmp_path: Path, error: int
) -> None:
    for at in range(1, calls_of_a_turn(tmp_path / _made(tmp_path, "count")) + 1):
        folder = tmp_path / _made(tmp_path, f"at{at}")
        plan = FailurePlan(at, error, forever=True)
        store, told = attempt(folder, plan, failing_disk(plan))
        assert store is not None
        assert len(told) == (1 if store.pending or store.journal.sync_failed else len(told))
        plan.at, plan.forever = 10**9, False  # the disk works again
        append_all(store, turn(6))
        store.close()
        loaded = read_transcript(path_of(folder, SID))
        assert loaded.facts == TURN + [fact for fact, _ in turn(6)], (at, plan.log[at - 1])
        assert loaded.damaged == () and loaded.torn_size == 0


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.99])
@pytest.mark.parametrize("forever", [False, True])
def test_a_short_write_leaves_no_half_record(tmp_path: Path, keep: float, forever: bool) -> None:
    for at in range(3, 9):
        folder = tmp_path / _made(tmp_path, f"at{at}")
        plan = FailurePlan(at, 0, ("write",), forever)
        store, _ = attempt(folder, plan, short_writing_disk(plan, keep))
        assert store is not None
        if store.path.exists():
            assert read_transcript(store.path).torn_size == 0
        plan.at, plan.forever = 10**9, False
        store.sync()
        store.close()
        assert read_transcript(path_of(folder, SID)).facts == TURN
        assert read_transcript(path_of(folder, SID)).damaged == ()


def _made(parent: Path, name: str) -> str:
    (parent / name).mkdir(exist_ok=True)
    return name


def test_records_that_the_disk_never_took_are_saved_elsewhere_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "project").mkdir()
    plan = FailurePlan(5, errno.EROFS, ("write", "open", "mkdir"), forever=True)
    store, told = attempt(tmp_path / "project", plan, failing_disk(plan))
    assert store is not None
    missing, synced = b"".join(store.pending), list[bytes]()
    monkeypatch.setattr("os.fsync", lambda fd: synced.append(os.pread(fd, 100_000, 0)))
    store.close()
    assert synced == [missing]
    (spilled,) = tmp_path.glob("makeroom-*.jsonl")
    assert spilled.read_bytes() == missing != b""
    assert str(spilled) in told[-1]


@pytest.mark.parametrize(("count", "entries", "them"), [(1, "1 entry", "it"), (2, "2 entries", "them")])
def test_records_that_were_never_synced_are_saved_elsewhere_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, entries: str, them: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plan = FailurePlan(10**9, errno.EIO, ("sync",))
    store = Store.create(tmp_path, SID, told := ToldLines(), failing_disk(plan))
    append_all(store, turn())
    plan.at, plan.forever = plan.count + 1, True
    append_all(store, turn(6)[:count])
    store.close()
    (saved,) = tmp_path.glob("makeroom-*.jsonl")
    assert saved.read_bytes() == b"".join(encode_fact(fact, SID) for fact, _ in turn(6)[:count])
    said = (
        f"cannot save the last {entries} in {store.path}; saved {them} in {saved} instead. To add {them}, run"
    )
    assert len(told) == 2 and told[-1].startswith(said)


def test_what_was_saved_elsewhere_joins_the_session_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without space even then. Appended by hand as well, it does no harm."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plan = FailurePlan(10**9, errno.ENOSPC, ("write",))
    store = Store.create(tmp_path, SID, ToldLines(), failing_disk(plan))
    append_all(store, [(fact, False) for fact in TURN[:2]])
    plan.at, plan.forever = plan.count + 1, True
    append_all(store, [(fact, False) for fact in TURN[2:4]])
    store.close()
    (saved,) = tmp_path.glob("makeroom-*.jsonl")
    again, loaded = Store.resume(store.path, ToldLines(), failing_disk(plan))
    assert loaded.facts == TURN[:4] and saved.exists(), "there is still no room"
    append_all(again, [(fact, False) for fact in TURN[4:]])
    again.close()
    with store.path.open("ab") as file:
        file.write(saved.read_bytes())
    third, loaded = Store.resume(store.path, told := ToldLines())
    third.close()
    assert len(TURN) - 4 == 1 and "added 1 entry of an earlier run" in told[-1]
    assert loaded.facts == read_transcript(store.path).facts == TURN
    assert read_transcript(store.path).damaged == () and list(tmp_path.glob("makeroom-*")) == []


def test_what_was_saved_elsewhere_stays_until_the_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, [(fact, True) for fact in TURN[:3]])
    store.close()
    saved = tmp_path / f"makeroom-{SID}-x.jsonl"
    lines = b"".join(encode_fact(fact, SID) for fact in TURN[3:])
    saved.write_bytes(lines)
    plan = FailurePlan(1, errno.EIO, ("sync",), forever=True)
    again, loaded = Store.resume(store.path, ToldLines(), failing_disk(plan))
    assert loaded.facts == TURN and again.failure and saved.read_bytes() == lines
    plan.at, plan.forever = 10**9, False
    again.close()
    assert read_transcript(store.path).facts == TURN


def test_only_regular_files_of_this_user_join_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, [(fact, True) for fact in TURN[:3]])
    store.close()
    target = tmp_path / "elsewhere"
    target.write_bytes(b"".join(encode_fact(fact, SID) for fact in TURN[3:]))
    (temporary / f"makeroom-{SID}-link.jsonl").symlink_to(target)
    if os.geteuid() == 0:  # only root can make a file of another user
        foreign = temporary / f"makeroom-{SID}-foreign.jsonl"
        foreign.write_bytes(target.read_bytes())
        os.chown(foreign, 12_345, 12_345)
    again, loaded = Store.resume(store.path, told := ToldLines())
    again.close()
    assert loaded.facts == TURN[:3] and told == [] and len([*temporary.iterdir()]) == 1 + (os.geteuid() == 0)


@each_row(
    ("error", "advice"),
    [
        (errno.ENOSPC, "Free disk space"),
        (errno.EDQUOT, "Free disk space"),
        (errno.EFBIG, "Raise the limit on the size of files (ulimit -f)"),
        (errno.EACCES, "Make {} writable, or /export the session to another directory"),
        (errno.EPERM, "Make {} writable, or /export the session to another directory"),
        (errno.EROFS, "Make {} writable, or /export the session to another directory"),
        (errno.EIO, "Check {}"),
    ],
)
def test_a_disk_that_fails_is_reported_with_its_remedy_and_again_once_it_works(
    tmp_path: Path, error: int, advice: str
) -> None:
    plan = FailurePlan(1, error, ("write",), forever=True)
    store = Store.create(tmp_path, SID, told := ToldLines(), failing_disk(plan))
    append_all(store, turn())
    plan.at, plan.forever = 10**9, False
    append_all(store, turn(6))
    store.close()
    assert told == [
        f"cannot save the session: {os.strerror(error)}. It continues in memory, and makeroom keeps trying to"
        f" save it. {advice.format(store.path.parent)}",
        f"the session is saved again; {store.path} is complete",
    ]


def test_what_was_saved_elsewhere_and_does_not_fit_any_more_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, turn())
    store.close()
    changed = b"".join(encode_fact(replace(fact, ts=fact.ts + 1), SID) for fact in TURN[3:])
    (tmp_path / f"makeroom-{SID}-x.jsonl").write_bytes(changed)
    again, loaded = Store.resume(store.path, told := ToldLines())
    again.close()
    assert loaded.facts == TURN and read_transcript(store.path).facts == TURN
    (apart,) = tmp_path.glob("makeroom-*")
    assert "the session continued without them" in told[-1] and told[-1].endswith(str(apart))
    assert apart.read_bytes() == changed
    with store.path.open("ab") as file:
        file.write(changed)
    assert [tail.line for tail in read_transcript(store.path).second_tails] == [len(TURN) + 1]


@pytest.mark.parametrize("in_the_way", ["file", "link"])
def test_where_the_directory_is_replaced_the_whole_session_is_saved_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_the_way: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = Store.create(tmp_path, SID, told := ToldLines())
    append_all(store, [(fact, False) for fact in TURN[:3]])
    folder = tmp_path / RECORDS_FOLDER
    shutil.rmtree(folder)
    folder.touch() if in_the_way == "file" else folder.symlink_to(tmp_path)
    append_all(store, [(fact, False) for fact in TURN[3:]])
    store.close()
    (saved,) = tmp_path.glob("makeroom-*.jsonl")
    assert read_transcript(saved).facts == TURN and f"continue it with makeroom --resume {saved}" in told[-1]


def test_only_records_that_are_not_in_the_file_are_saved_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    plan = FailurePlan(10**9, errno.ENOSPC, ("write",))
    store = Store.create(tmp_path, SID, ToldLines(), failing_disk(plan))
    append_all(store, [(fact, False) for fact in TURN[:3]])
    plan.at, plan.forever = plan.count + 1, True
    append_all(store, [(fact, False) for fact in TURN[3:]])
    store.close()
    (saved,) = tmp_path.glob("makeroom-*.jsonl")
    assert saved.read_bytes() == b"".join(encode_fact(fact, SID) for fact in TURN[3:])
    assert read_transcript(store.path).facts == TURN[:3]


def test_a_store_knows_that_the_disk_fails_as_long_as_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = ToldLines()
    plan = FailurePlan(10**9, errno.ENOSPC, ("write",))
    store = Store.create(tmp_path, SID, told, failing_disk(plan))
    plan.at, plan.forever = plan.count + 1, True
    append_all(store, [(fact, False) for fact in TURN[:2]])
    assert store.failure == os.strerror(errno.ENOSPC)
    plan.forever, plan.at = False, 10**9
    store.append(TURN[2])
    assert store.failure == ""
    plan.at, plan.forever = plan.count + 1, True
    store.append(TURN[3])
    store.close()
    other = Store.create(tmp_path, "20261122-000000-none", told, failing_disk(plan))
    append_all(other, [(fact, False) for fact in TURN])
    other.close()
    (name,) = {path.name for path in tmp_path.glob("makeroom-*none*.jsonl")}
    assert str(told).count("continue it with makeroom --resume") == 1 and name in str(told)


def test_a_record_that_need_not_be_durable_is_not_synced(tmp_path: Path) -> None:
    plan = FailurePlan(10**9, 0, ("sync",))
    store = Store.create(tmp_path, SID, ToldLines(), failing_disk(plan))
    store.append(TURN[0], True)
    before = plan.count
    store.append(TURN[1])
    assert plan.count == before and read_transcript(store.path).facts == TURN[:2]
    store.sync()
    store.sync()
    assert plan.count == before + 1
    store.close()


def test_facts_are_appended_while_a_sync_runs_in_a_thread_and_synced_with_the_next(
    tmp_path: Path,
) -> None:
    real = Disk()
    may_end = Event()
    synced: list[int] = []

    def sync(fd: int) -> None:
        if held[0]:
            assert may_end.wait(30)
        real.sync(fd)
        synced.append(os.fstat(fd).st_size)

    held = [False]
    store = Store.create(tmp_path, SID, ToldLines(), replace(real, sync=sync))
    store.append(TURN[0], True)
    store.append(TURN[1])
    synced.clear()
    held[0] = True
    running = store.begin_sync()
    assert running is not None and store.begin_sync() is running
    store.append(TURN[2])
    journal = store.journal
    assert read_transcript(store.path).facts == TURN[:3] and len(journal.unsynced) == 2
    may_end.set()
    store.sync()
    assert running.done() and len(synced) == 2
    assert (journal.unsynced, journal.synced_size) == ([], store.path.stat().st_size)
    assert store.begin_sync() is None, "nothing is left to sync"
    store.close()


def test_no_session_waits_for_the_sync_of_another(tmp_path: Path) -> None:
    real = Disk()
    may_end = Event()
    may_end.set()
    for name in ("slow", "quick"):
        (tmp_path / name).mkdir()

    def held(fd: int) -> None:
        assert may_end.wait(30)
        real.sync(fd)

    slow = Store.create(tmp_path / "slow", SID, ToldLines(), replace(real, sync=held))
    quick = Store.create(tmp_path / "quick", SID, ToldLines())
    for store in (slow, quick):
        store.append(TURN[0], True)
        store.append(TURN[1])
    may_end.clear()
    waiting, running = slow.begin_sync(), quick.begin_sync()
    assert waiting is not None and running is not None
    running.result(30)
    assert not waiting.done()
    may_end.set()
    for store in (slow, quick):
        store.close()


@pytest.mark.parametrize("then", ["append", "sync", "close"])
def test_a_sync_that_fails_in_a_thread_is_told_and_loses_nothing(tmp_path: Path, then: str) -> None:
    plan = FailurePlan(0, errno.EIO, ("sync",))
    store = Store.create(tmp_path, SID, told := ToldLines(), failing_disk(plan))
    store.append(TURN[0], True)
    store.append(TURN[1])
    plan.at = plan.count + 1
    running = store.begin_sync()
    assert running is not None and isinstance(running.exception(30), OSError)
    before = store.path.stat().st_ino
    if then == "append":
        store.append(TURN[2])
    elif then == "sync":
        store.sync()
    store.close()
    assert read_transcript(store.path).facts == TURN[: 3 if then == "append" else 2]
    assert store.path.stat().st_ino != before, "the file was rebuilt"
    assert ["cannot save the session" in line for line in told] == [True, False]


def test_lines_that_a_thread_synced_survive_a_later_sync_that_fails(tmp_path: Path) -> None:
    plan = FailurePlan(10**9, errno.EIO, ("sync",))
    store = Store.create(tmp_path, SID, told := ToldLines(), failing_disk(plan))
    append_all(store, [(fact, False) for fact in TURN[:3]])
    running = store.begin_sync()
    assert running is not None
    running.result()
    store.append(TURN[3])
    plan.at = plan.count + 1
    store.append(TURN[4], durable=True)
    store.close()
    assert read_transcript(store.path).facts == TURN and read_transcript(store.path).damaged == ()
    assert len(told) == 2 and told[1].startswith("the session is saved again")


def test_a_file_that_is_replaced_during_a_sync_is_rebuilt_from_what_was_synced(tmp_path: Path) -> None:
    plan = FailurePlan(0, errno.EIO, ("sync",))
    store = Store.create(tmp_path, SID, ToldLines(), failing_disk(plan))
    store.append(TURN[0], True)
    store.append(TURN[1])
    assert store.begin_sync() is not None
    store.path.rename(tmp_path / "aside")
    store.append(TURN[2])
    assert read_transcript(store.path).facts == TURN[:3]
    store.close()


def test_after_each_failed_sync_the_file_is_rebuilt_at_once_and_whole(tmp_path: Path) -> None:
    real, calls = Disk(), [0]

    def sync(fd: int) -> None:  # of each rebuilding three syncs succeed: of the file and of two directories
        calls[0] += 1
        if calls[0] % 4 == 0:
            raise OSError(errno.EIO, "input/output error")
        real.sync(fd)

    store = Store.create(tmp_path, SID, told := ToldLines(), replace(real, sync=sync))
    store.append(TURN[0], True)
    assert calls == [3], "two folders and the file"
    for number, fact in enumerate(TURN[1:], 2):
        store.append(fact, True)
        assert not store.journal.sync_failed and len(told) == 2 * (number - 1)
        assert (
            read_transcript(store.path).facts == TURN[:number] and read_transcript(store.path).damaged == ()
        )
    store.close()


def test_a_missing_last_newline_is_written_once_also_when_the_first_sync_fails(tmp_path: Path) -> None:
    for at in (10**9, 1):
        folder = tmp_path / _made(tmp_path, f"at{at}")
        append_all(store := Store.create(folder, SID, ToldLines()), turn())
        store.close()
        whole = store.path.read_bytes()
        store.path.write_bytes(whole[:-1])
        plan = FailurePlan(at, errno.EIO, ("sync",))
        again, _ = Store.resume(store.path, ToldLines(), failing_disk(plan))
        append_all(again, turn(6))
        again.close()
        later = b"".join(encode_fact(fact, SID) for fact, _ in turn(6))
        assert store.path.read_bytes() == whole + later


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors are listed in /proc")
def test_rebuilding_a_removed_session_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = open_files()
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    shutil.rmtree(tmp_path / RECORDS_FOLDER)
    append_all(store, turn(6))
    store.close()
    assert open_files() <= before  # the garbage of other tests may hold some that are closed meanwhile


def test_closing_saves_and_syncs_the_last_records_whatever_they_are(tmp_path: Path) -> None:
    plan = FailurePlan(10**9, 0, ("sync",))
    store = Store.create(tmp_path, SID, told := ToldLines(), failing_disk(plan))
    append_all(store, [*turn(), (Metadata(6, 0.0, "mode"), False)])
    assert len(read_transcript(store.path).facts) == 6
    before = plan.count
    store.close()
    assert plan.count == before + 1 and store.journal.unsynced == [] and told == []
    store.close()


def test_records_behind_a_failed_sync_are_written_again_to_a_new_file(tmp_path: Path) -> None:
    """The kernel may drop the pages of a failed sync: here the file loses them indeed."""
    lost = []
    real = Disk()

    def sync(fd: int) -> None:
        if stat.S_ISREG(os.fstat(fd).st_mode) and len(synced) == 2:
            synced.append(0)
            os.pwrite(fd, b"\0" * 40, os.fstat(fd).st_size - 40)
            lost.append(os.fstat(fd).st_ino)
            raise OSError(errno.EIO, "input/output error")
        real.sync(fd)
        if stat.S_ISREG(os.fstat(fd).st_mode):
            synced.append(os.fstat(fd).st_size)

    synced: list[int] = []
    told = ToldLines()
    store = Store.create(tmp_path, SID, told, replace(real, sync=sync))
    append_all(store, turn())
    store.close()
    assert lost and store.path.stat().st_ino != lost[0]
    assert read_transcript(store.path).facts == TURN and read_transcript(store.path).damaged == ()
    assert (len(told) == 2 and "Input/output" in told[0]) or "input/output" in told[0]


def test_a_file_removed_while_open_is_restored_whole(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    append_all(store, turn())
    store.path.unlink()
    append_all(store, turn(6))
    store.close()
    assert len(read_transcript(store.path).facts) == 10


def test_a_directory_removed_while_open_is_restored_with_the_whole_session(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, told := ToldLines())
    append_all(store, turn())
    for path in sorted((tmp_path / RECORDS_FOLDER).iterdir()):
        path.unlink()
    (tmp_path / RECORDS_FOLDER).rmdir()
    append_all(store, turn(6))
    with pytest.raises(SessionInUse):
        Store.resume(store.path, ToldLines())
    store.close()
    assert len(read_transcript(store.path).facts) == 10
    assert told == []


def test_records_of_another_process_without_a_lock_are_not_cut_off(tmp_path: Path) -> None:
    """Two resume one session while no lock can be made; the lines of one are not torn for the other."""
    append_all(first := Store.create(tmp_path, SID, ToldLines()), turn())
    first.close()
    plan = FailurePlan(1, errno.ENOSPC, ("open",))
    late, _ = Store.resume(first.path, told := ToldLines(), failing_disk(plan))
    again, _ = Store.resume(first.path, ToldLines())
    append_all(again, [(User(6, 0.5, (TextBlock("what the other one said"),)), True)])
    again.close()
    kept = first.path.read_bytes()
    append_all(late, turn(6))
    assert first.path.read_bytes() == kept
    assert len(late.pending) == 5 and len(told) == 1
    assert list((tmp_path / RECORDS_FOLDER).glob("*.torn")) == []


def test_a_file_removed_before_the_first_append_is_not_begun_in_its_middle(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    again, _ = Store.resume(store.path, told := ToldLines())
    store.path.unlink()
    append_all(again, turn(6))
    assert not store.path.exists()
    assert len(again.pending) == 5 and "No such file" in told[0]


def test_foreign_bytes_in_an_open_record_are_not_cut_off(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, told := ToldLines())
    append_all(store, turn())
    with store.path.open("ab") as file:
        file.write(foreign := b"a note in the margin\n")
    kept = store.path.read_bytes()
    append_all(store, turn(6))
    assert store.path.read_bytes() == kept and kept.endswith(foreign)
    assert len(store.pending) == 5 and len(told) == 1 and "another process is writing" in told[0]


@pytest.mark.parametrize("kept_bytes", [0, 300, None])
def test_a_record_that_another_process_truncated_is_written_again(
    tmp_path: Path, kept_bytes: int | None
) -> None:
    """None: the other process wrote something else in its place."""
    store = Store.create(tmp_path, SID, told := ToldLines())
    append_all(store, turn())
    os.truncate(store.path, kept_bytes or 0)
    if kept_bytes is None:
        store.path.write_bytes(b"theirs\n")
    append_all(store, turn(6))
    assert [fact.seq for fact in read_transcript(store.path).facts] == list(range(1, 11))
    assert len(told) == 1 and "restored from memory" in told[0] and not store.pending
    torn = store.path.with_suffix(".torn")
    assert torn.exists() == (kept_bytes is None) and (
        kept_bytes is not None or torn.read_bytes() == b"theirs\n"
    )
    store.close()
    again, loaded = Store.resume(store.path, told)
    assert [fact.seq for fact in loaded.facts] == list(range(1, 11))
    os.truncate(store.path, 10)  # which is noticed in the run after it as well
    append_all(again, turn(11))
    again.close()
    assert len(read_transcript(store.path).facts) == 15 and not store.path.with_suffix(".apart").exists()


def test_an_emptied_record_with_unknown_facts_is_not_continued_in_its_middle(tmp_path: Path) -> None:
    append_all(first := Store.create(tmp_path, SID, ToldLines()), turn())
    size = first.path.stat().st_size
    store = Store.create(tmp_path, None, told := ToldLines())
    store.begin_with(first.path, size, next(fact for fact, _ in turn(6)))
    os.truncate(store.path, 0)
    append_all(store, list(turn(6))[1:])
    assert store.path.read_bytes() == b"" and store.pending and len(told) == 1


def test_without_file_locks_sessions_are_kept_and_the_second_writer_is_informed(tmp_path: Path) -> None:
    plan = FailurePlan(1, errno.ENOLCK, ("lock",), forever=True)
    append_all(first := Store.create(tmp_path, SID, ToldLines(), failing_disk(plan)), turn())
    second, _ = Store.resume(first.path, told := ToldLines(), failing_disk(plan))
    append_all(first, turn(6))
    append_all(second, [(User(6, 0.5, (TextBlock("at the same time"),)), True)])
    assert len(second.pending) == 1 and len(told) == 1
    append_all(first, turn(11))
    first.close()
    assert [fact.seq for fact in read_transcript(first.path).facts] == list(range(1, 16))


RACE = (
    "import sys; from pathlib import Path; from transcripts.store import Store\n"
    "from transcripts.errors import SessionInUse\n"
    "input()\n"
    "try: store, _ = Store.resume(Path(sys.argv[1]), print); print('in', flush=True)\n"
    "except SessionInUse: print('out', flush=True)\n"
    "input()"
)


def test_of_several_processes_that_resume_at_the_same_moment_one_succeeds(tmp_path: Path) -> None:
    append_all(store := Store.create(tmp_path, SID, ToldLines()), turn())
    store.close()
    argv = [sys.executable, "-c", RACE, str(store.path)]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, bufsize=1) for _ in range(4)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
    said = [racer.stdout.readline() for racer in racers if racer.stdout is not None]
    for racer in racers:
        racer.communicate("leave\n", timeout=30)
    assert sorted(said) == ["in\n", "out\n", "out\n", "out\n"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_in_a_read_only_directory_the_session_stays_in_memory(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    store = Store.create(tmp_path, SID, told := ToldLines())
    append_all(store, turn())
    tmp_path.chmod(0o700)
    assert len(told) == 1 and len(store.pending) == 5
    store.sync()
    store.close()
    assert read_transcript(store.path).facts == TURN


def crash(folder: Path, at: int, keep: float) -> tuple[int, int]:
    """Append a turn in a child that ends at call `at` of its disk: (its exit code, the last durable seq)."""

    def work(tell: Callable[[int], object]) -> None:
        store = Store.create(folder, SID, lambda line: None, crashing_disk(at, keep))
        for fact, durable in turn():
            store.append(fact, durable)
            if durable:
                tell(fact.seq)
        store.close()

    return run_in_child(work)


@pytest.mark.parametrize(("keep", "every"), sampled_rows([(0.5, 3), (0.5, 1), (0.0, 1), (1.0, 1)], 4))
def test_a_crash_at_any_call_loses_nothing_that_was_acknowledged(
    tmp_path: Path, keep: float, every: int
) -> None:
    at = 0
    while True:
        at += every
        folder = tmp_path / _made(tmp_path, f"at{at}")
        code, acknowledged = crash(folder, at, keep)
        if code == 0:
            break
        assert code == 66
        path = path_of(folder, SID)
        if not path.exists():
            assert acknowledged == 0
            continue
        store, loaded = Store.resume(path, ToldLines())
        assert loaded.facts == TURN[: len(loaded.facts)]
        assert len(loaded.facts) >= acknowledged, at
        rest = turn()[len(loaded.facts) :]
        append_all(store, rest or turn(6))
        store.close()
        assert read_transcript(path).facts[:5] == TURN
        assert read_transcript(path).damaged == () and read_transcript(path).torn_size == 0
    assert at > (20 if keep == 0.5 else 5)


def test_two_sessions_of_one_project_do_not_disturb_each_other(tmp_path: Path) -> None:
    stores = [Store.create(tmp_path, f"{SID}{n}", ToldLines()) for n in range(2)]
    for number in range(20):
        for store in stores:
            append_all(store, turn(1 + 5 * number))
    for store in stores:
        store.close()
        assert [fact.seq for fact in read_transcript(store.path).facts] == list(range(1, 101))


def test_one_record_is_one_write(tmp_path: Path) -> None:
    plan = FailurePlan(10**9, 0, ("write",))
    store = Store.create(tmp_path, SID, ToldLines(), failing_disk(plan))
    before = plan.count
    append_all(store, turn())
    assert plan.count - before == 5
    assert store.path.read_bytes() == b"".join(encode_fact(fact, SID) for fact in TURN)
    store.close()


def test_nothing_is_appended_behind_a_half_record_that_could_not_be_cut_off(tmp_path: Path) -> None:
    """After a short write the half record cannot be cut off either; later the disk works again."""
    troubled = [False]
    real = Disk()

    def write(fd: int, piece: bytes) -> int:
        return real.write(fd, piece[: len(piece) // 2] if troubled[0] else piece)

    def truncate(fd: int, size: int) -> None:
        if troubled[0]:
            raise OSError(errno.EIO, "input/output error")
        real.truncate(fd, size)

    store = Store.create(tmp_path, SID, ToldLines(), replace(real, write=write, truncate=truncate))
    append_all(store, turn()[:2])
    troubled[0] = True
    append_all(store, turn()[2:4])
    assert read_transcript(store.path).torn_size > 0
    troubled[0] = False
    append_all(store, turn()[4:])
    store.close()
    assert read_transcript(store.path).facts == TURN and read_transcript(store.path).damaged == ()


def test_no_line_holds_a_value_that_is_to_be_hidden(tmp_path):
    store = Store.create(tmp_path, SID, ToldLines())
    store.hide(SecretMasks(("hidden-value-1", "hidden-value-2")))
    store.append(User(1, 1.0, (TextBlock("it is hidden-value-2"),), (1,)))
    store.close()
    assert b"it is ****" in store.path.read_bytes() and b"hidden" not in store.path.read_bytes()


def test_what_identifies_a_line_is_never_masked(tmp_path: Path) -> None:
    store = Store.create(tmp_path, SID, ToldLines())
    store.hide(SecretMasks((SID,)))
    store.append(User(1, 1.0, (TextBlock(f"as the user said in {SID}"),), (1,)))
    store.close()
    loaded = read_transcript(store.path)
    assert loaded.sid == SID and loaded.damaged == ()
    assert loaded.facts == [User(1, 1.0, (TextBlock("as the user said in ****"),), (1,))]

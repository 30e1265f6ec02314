"""Stored contents: private, checked when they are read, and pruned when they take too much room."""

import hashlib
import os
import stat
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from agent.checkpoints.change_log import read_changes
from agent.checkpoints.content_store import ContentStore
from agent.checkpoints.file_restore import plan_restore, restore
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import SnapshotLimits
from agent.checkpoints.store_folder import FRESH_CONTENT_S, RECENT_LOG_S, prune
from tools.files import closing
from transcripts.storage import replace_file

from .project import Seq, run, write


def test_a_full_store_is_reported_and_loses_only_what_is_new(root: Path, seq: Seq) -> None:
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_store_bytes=60))
    (root / "a").write_text("a")
    (root / "b").write_bytes(Random(1).randbytes(100))
    run(checkpoints, lambda: [(root / name).write_text("!") for name in "ab"])
    assert {step.path: step.action for step in plan_restore(checkpoints, 1)} == {"a": "restore", "b": "lost"}
    assert any("store or its disk is full" in line for line in checkpoints.uncovered())


def age(path: Path, seconds: float) -> None:
    moment = time.time() - seconds
    os.utime(path, (moment, moment))


def test_a_store_that_fills_up_prunes_what_no_recent_session_changed(root: Path, seq: Seq) -> None:
    def session(sid: str, total: int) -> Checkpoints:
        return Checkpoints(root, sid, seq, SnapshotLimits(max_store_bytes=total))

    old, recent = session("old", 1 << 20), session("recent", 1 << 20)
    for name in ("changed", "untouched", "ancient"):
        (root / name).write_bytes(Random(name).randbytes(10_000))
    for each, name in ((old, "ancient"), (recent, "changed")):
        each.begin()
        (root / name).write_bytes(b"new " + name.encode())
        each.finish()
    home = root / ".transcripts" / "checkpoints"
    for path in home.rglob("*"):
        age(path, 2 * FRESH_CONTENT_S)
    age(home / "old.jsonl", 2 * RECENT_LOG_S)
    fresh = session("fresh", 50_000)
    fresh.begin()
    (root / "more").write_bytes(Random(1).randbytes(15_000))
    fresh.finish()
    assert fresh.uncovered() == []
    assert [step.action for step in plan_restore(recent, 0)] == ["restore"]
    assert [step.action for step in plan_restore(old, 0)] == ["lost"]
    assert recent.scanner.store.get(recent.log.changes[0].before.value) == Random("changed").randbytes(10_000)


def test_fresh_contents_and_those_of_a_pending_snapshot_are_never_pruned(root: Path, seq: Seq) -> None:
    names = ("a", "b")
    for name in names:
        (root / name).write_bytes(Random(name).randbytes(10_000))
    running = Checkpoints(root, "running", seq)
    running.begin()
    objects = root / ".transcripts" / "checkpoints" / "objects"
    there = sorted(path for path in objects.rglob("*") if path.is_file())
    assert len(there) == 2 and prune(objects, 0) == sum(path.stat().st_size for path in there)
    for path in there:
        age(path, 2 * FRESH_CONTENT_S)
    assert prune(objects, 0) > 0 and all(path.exists() for path in there)
    running.finish()
    for path in there:
        age(path, 2 * FRESH_CONTENT_S)
    assert prune(objects, 0) == 0 and not any(path.exists() for path in there)


def test_damaged_contents_are_never_written_back(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("old")
    write(checkpoints, root / "a", "agent")
    for kept in (root / ".transcripts" / "checkpoints" / "objects").rglob("*"):
        if kept.is_file():
            kept.write_bytes(b"damaged")
    plan = plan_restore(checkpoints, 1)
    assert [step.action for step in plan] == ["lost"]
    restore(checkpoints, plan, True)
    assert (root / "a").read_text() == "agent"


def test_everything_stored_is_private(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("secret")
    write(checkpoints, root / "a", "agent")
    for path in (root / ".transcripts").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) in (0o600, 0o700), path


def store(root: Path, max_bytes: int = 1 << 20) -> ContentStore:
    return ContentStore(root / ".transcripts" / "checkpoints" / "objects", max_bytes)


def stored_files(root: Path) -> list[Path]:
    return sorted(path for path in store(root).folder.rglob("*") if path.is_file())


def test_contents_are_stored_once_until_the_store_is_full(root: Path) -> None:
    contents = store(root, 160)
    first = contents.put(b"first")
    assert contents.put(b"first") == first and contents.get(first) == b"first" and first in contents
    digests = [contents.put(Random(number).randbytes(60)) for number in range(5)]
    assert [bool(digest) for digest in digests] == [True, True, False, False, False] and contents.full
    assert contents.put(b"first") == first and len(stored_files(root)) == 3


def test_contents_that_are_not_those_of_their_hash_are_not_given_out(root: Path) -> None:
    contents = store(root)
    mine, other = contents.put(b"mine"), contents.put(b"other")
    paths = {digest: contents.folder / digest[:2] / digest[2:] for digest in (mine, other)}
    paths[mine].write_bytes(paths[other].read_bytes())
    assert contents.get(mine) is None and contents.get("0" * 64) is None


def plant_other_contents(path: Path, digest: str) -> None:
    path.write_bytes(zlib.compress(b"planted", 1))


def plant_a_bomb(path: Path, digest: str) -> None:
    packing = zlib.compressobj(9)
    path.write_bytes(b"".join(packing.compress(bytes(1 << 20)) for _ in range(40)) + packing.flush())


def plant_a_link(path: Path, digest: str) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def plant_a_pipe(path: Path, digest: str) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [plant_other_contents, plant_a_bomb, plant_a_link, plant_a_pipe])
def test_a_store_that_a_checkout_contains_does_not_stand_for_contents(
    root: Path, plant: Callable[[Path, str], None]
) -> None:
    digest = store(root).put(b"mine")
    path = store(root).folder / digest[:2] / digest[2:]
    plant(path, digest)
    assert store(root).get(digest) is None
    assert store(root).put(b"mine") == digest and store(root).get(digest) == b"mine"


def test_a_large_file_is_stored_although_the_store_has_other_contents_of_its_name(root: Path) -> None:
    (root / "large").write_bytes(b"mine" * 1_000)
    large = store(root).large
    with closing(os.open(root / "large", os.O_RDONLY)) as fd:
        digest = large.put(fd, 4_000, lambda: False)
        large.path(digest).write_bytes(b"other" * 800)
        assert large.put(fd, 4_000, lambda: False) == digest
    assert large.read(digest) == b"mine" * 1_000


def test_nothing_is_stored_behind_a_link_in_the_store(root: Path, tmp_path: Path) -> None:
    digest = hashlib.sha256(b"mine").hexdigest()
    contents = store(root)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    contents.folder.mkdir(parents=True)
    (contents.folder / digest[:2]).symlink_to(elsewhere)
    assert contents.put(b"mine") == digest and list(elsewhere.iterdir()) == []


def test_logs_of_a_checkout_that_never_end_are_not_read(root: Path) -> None:
    contents = store(root)
    contents.put(b"old")
    (contents.folder.parent / "odd.jsonl").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="not a regular file"):
        prune(contents.folder, 0)


@pytest.mark.parametrize("line", ['[Infinity, "a", ["none",0,"",""], null]', "[" * 100_000])
def test_lines_of_a_log_that_makeroom_did_not_write_are_skipped(root: Path, line: str) -> None:
    path = root / "log.jsonl"
    path.write_text(f'{line}\n[1, "a", ["none",0,"",""], null]\n')
    assert [change.path for change in read_changes(path).files] == ["a"]


def test_a_disk_that_takes_nothing_makes_the_store_full(root: Path) -> None:
    contents = store(root)
    contents.put(b"a")
    digest = hashlib.sha256(b"b").hexdigest()
    (contents.folder / digest[:2]).write_text("a file where a folder has to be")
    assert contents.put(b"b") == "" and contents.full


def test_only_old_contents_that_nothing_needs_are_pruned_and_only_when_there_is_too_much(root: Path) -> None:
    contents = store(root)
    for content in (b"old", b"used again", b"fresh"):
        contents.put(content)
    for path in stored_files(root):
        if zlib.decompress(path.read_bytes()) != b"fresh":
            age(path, 2 * FRESH_CONTENT_S)
    contents.put(b"used again")
    size = sum(path.stat().st_size for path in stored_files(root))
    assert prune(contents.folder, size) == size and len(stored_files(root)) == 3
    left = prune(contents.folder, size - 1)
    kept = {zlib.decompress(path.read_bytes()) for path in stored_files(root)}
    assert kept == {b"used again", b"fresh"} and left == size - len(zlib.compress(b"old", 1))


def test_a_log_that_disappears_while_contents_are_pruned_needs_none_of_them(root: Path) -> None:
    contents = store(root)
    contents.put(b"old")
    (contents.folder.parent / "gone.jsonl").symlink_to("nowhere")
    (old,) = stored_files(root)
    age(old, 2 * FRESH_CONTENT_S)
    assert prune(contents.folder, 0) == 0 and not old.exists()


def test_a_log_that_cannot_be_read_stops_the_pruning_and_the_storing(root: Path) -> None:
    store(root).put(b"old")
    (store(root).folder.parent / "odd.jsonl").mkdir()
    full = store(root, 1)
    assert full.put(b"new") == "" and full.get(hashlib.sha256(b"old").hexdigest()) == b"old"


def test_nothing_is_written_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("theirs")
    (root / f"a.{os.getpid()}.tmp").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        replace_file(root / "a", b"ours", durable=False)
    assert (tmp_path / "victim").read_text() == "theirs" and not (root / "a").exists()

"""Changes of a session as unified diffs: each path before its first change against its current state."""

import asyncio
import os
from pathlib import Path

import pytest

from agent.checkpoints import comparison as module
from agent.checkpoints.change_log import FileChange, changed_files_since
from agent.checkpoints.comparison import FileDifference, differences
from agent.checkpoints.recorder import Checkpoints
from agent.checkpoints.snapshot import NOTHING, PathState, SnapshotLimits
from agent.loop.changed_files import checkpointed

from .project import Seq, run, write


def found(checkpoints: Checkpoints) -> dict[str, tuple[str, str]]:
    """(how, why or the figures) by path."""
    shown = differences(checkpoints)
    return {one.path: (one.how, one.why or f"+{one.added} -{one.removed}") for one in shown}


def test_each_path_is_compared_with_what_it_was_before_its_first_change(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("one\ntwo\n")
    (root / "gone").write_text("x\n")
    for text in ("one\n", "one\n2\n"):
        write(checkpoints, root / "a", text)
    write(checkpoints, root / "new" / "b", "y\n")
    run(checkpoints, (root / "gone").unlink)
    assert found(checkpoints) == {
        "a": ("changed", "+1 -1"),
        "gone": ("deleted", "+0 -1"),
        "new/b": ("new", "+1 -0"),
    }
    assert "-two\n+2\n" in differences(checkpoints)[0].text


def test_what_is_unchanged_is_left_out(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("one\n")
    write(checkpoints, root / "a", "two\n")
    write(checkpoints, root / "b", "made\n")
    (root / "a").write_text("one\n")
    (root / "b").unlink()
    assert differences(checkpoints) == []


def test_changes_by_others_meanwhile_are_distinguished(root: Path, checkpoints: Checkpoints) -> None:
    place = root / "a"
    place.write_text("1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    write(checkpoints, place, place.read_text().replace("1\n", "own 1\n"))
    place.write_text(place.read_text().replace("5\n", "their 5\n"))
    run(checkpoints, lambda: place.write_text(place.read_text().replace("9\n", "own 9\n")))
    assert found(checkpoints) == {"a": ("theirs", "+1 -1")}
    own, theirs = differences(checkpoints)
    assert (own.how, own.added, own.removed) == ("changed", 2, 2)
    assert "+own 1\n" in own.text and "+own 9\n" in own.text and "+their 5\n" not in own.text
    assert "+their 5\n" in theirs.text and "+own" not in theirs.text
    place.write_text(place.read_text() + "later\n")
    own, theirs = differences(checkpoints)
    assert own.added == 2 and theirs.added == 2 and "+later\n" in theirs.text


def test_a_file_whose_change_comes_in_pieces_is_named_once(root: Path, checkpoints: Checkpoints) -> None:
    place = root / "a"
    place.write_text("".join(f"{number}\n" for number in range(20)))
    for number in (1, 10, 18):
        write(checkpoints, place, place.read_text().replace(f"\n{number}\n", f"\nown {number}\n"))
        place.write_text(place.read_text().replace(f"\n{number - 1}\n", f"\ntheir {number - 1}\n"))
    own, theirs = differences(checkpoints)
    assert (own.added, own.removed, theirs.how, theirs.added) == (3, 3, "theirs", 2)
    for one in (own, theirs):
        assert one.text.startswith("--- a/a\n+++ b/a\n@@ ") and one.text.count("a/a") == 1
        assert one.text.count("\n@@ ") == one.added and one.text.endswith("\n")


def test_a_crashed_command_is_not_blamed_for_what_was_changed_after_it(
    root: Path, seq: Seq, checkpoints: Checkpoints
) -> None:
    place = root / "a"
    place.write_text("a\nb\nc\nd\ne\nf\n")
    checkpoints.begin()
    (root / "made").touch()
    later = Checkpoints(root, "s1", seq)
    seq.value = 2

    async def call() -> None:
        async with checkpointed(later, lambda event: None, None):
            later.announce(place)
            place.write_text(place.read_text().replace("b\n", "B\n"))

    asyncio.run(call())
    place.write_text(place.read_text().replace("f\n", "their f\n"))
    run(later, lambda: None)
    own, theirs, made = differences(later)
    assert (made.path, own.how, theirs.how) == ("made", "changed", "theirs")
    assert own.text.splitlines()[3:] == [" a", "-b", "+B", " c", " d", " e"]
    assert theirs.text.splitlines()[3:] == [" c", " d", " e", "-f", "+their f"]


def test_a_file_that_others_created_again_was_removed_by_the_session(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("one\n")
    run(checkpoints, (root / "a").unlink)
    (root / "a").write_text("two\n")
    assert [(one.how, one.added, one.removed) for one in differences(checkpoints)] == [
        ("deleted", 0, 1),
        ("theirs", 1, 0),
    ]


def test_what_the_session_took_back_itself_is_not_shown_for_what_others_added(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("one\n")
    write(checkpoints, root / "a", "two\n")
    write(checkpoints, root / "a", "one\n")
    (root / "a").write_text("one\nmore\n")
    assert differences(checkpoints) == []


def test_an_empty_file_is_called_so(root: Path, checkpoints: Checkpoints) -> None:
    (root / "gone").touch()
    (root / "link").symlink_to("to")

    def command() -> None:
        (root / "gone").unlink()
        (root / "link").unlink()
        (root / "link").write_text("to")
        (root / "new").touch()

    run(checkpoints, command)
    assert [(one.path, one.how, one.why) for one in differences(checkpoints)] == [
        ("gone", "deleted", "an empty file"),
        ("link", "changed", "link -> file"),
        ("new", "new", "an empty file"),
    ]


def test_directories_show_in_their_files_only(root: Path, checkpoints: Checkpoints) -> None:
    (root / "d").mkdir()

    def command() -> None:
        (root / "d").rmdir()
        (root / "e").mkdir()

    run(checkpoints, command)
    assert differences(checkpoints) == []


def test_what_took_the_place_of_something_else_is_shown(root: Path, checkpoints: Checkpoints) -> None:
    (root / "a").write_text("x\n")
    for name in ("d1", "d2"):
        (root / name).mkdir()
        (root / name / "b").write_text("y\n")

    def command() -> None:
        (root / "a").unlink()
        (root / "a").mkdir()
        for name in ("d1", "d2"):
            (root / name / "b").unlink()
            (root / name).rmdir()
        (root / "d1").write_text("z\n")
        (root / "d2").symlink_to("/etc")
        os.mkfifo(root / "pipe")

    run(checkpoints, command)
    assert found(checkpoints) == {
        "a": ("changed", "file -> directory"),
        "d1": ("changed", "directory -> file"),
        "d1/b": ("deleted", "+0 -1"),
        "d2": ("changed", "directory -> link"),
        "d2/b": ("deleted", "+0 -1"),
        "pipe": ("new", "pipe, socket or device"),
    }
    texts = {one.path: one.text for one in differences(checkpoints)}
    assert "-x\n" in texts["a"] and "+z\n" in texts["d1"] and "+/etc\n" in texts["d2"]


def test_a_link_is_compared_by_its_target_and_never_followed(root: Path, checkpoints: Checkpoints) -> None:
    (root / "to-file").write_text("nowhere")
    (root / "link").symlink_to("a")

    def command() -> None:
        (root / "to-file").unlink()
        (root / "to-file").symlink_to("nowhere")
        (root / "link").unlink()
        (root / "link").symlink_to("b")

    run(checkpoints, command)
    assert found(checkpoints) == {"link": ("changed", "+1 -1"), "to-file": ("changed", "file -> link")}


def test_the_reason_for_a_missing_diff_is_shown(
    root: Path, seq: Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_COMPARED_FILE_BYTES", 20)
    checkpoints = Checkpoints(root, "s1", seq, SnapshotLimits(max_file_bytes=30, max_large_file_bytes=30))
    before = {"binary": b"b", "no-more": b"\0a", "ends": b"a\r\n", "grown": b"a\n", "unkept": b"x" * 31}
    after = {"binary": b"b\0", "no-more": b"a\n", "ends": b"a\n", "grown": b"b" * 21, "unkept": b"y\n"}
    for name, content in before.items():
        (root / name).write_bytes(content)
    run(checkpoints, lambda: [(root / name).write_bytes(content) for name, content in after.items()])
    too_large = ("changed", "too large to compare, or not kept")
    assert found(checkpoints) == {
        "binary": ("changed", "binary, 1 -> 2 bytes"),
        "no-more": ("changed", "binary, 2 -> 2 bytes"),
        "ends": ("changed", "line endings only"),
        "grown": too_large,
        "unkept": too_large,
    }


def test_the_diff_shows_each_text_in_the_encoding_of_the_file(root: Path, checkpoints: Checkpoints) -> None:
    before = "déjà vu à l'été, ça\nend\n"
    after = before.replace("été", "âge")
    wide, latin, nul = "utf-16-le", "cp1252", b"line\n" * 2_000 + b"\0\n"
    states = {
        "wide": (before.encode(wide), after.encode(wide)),
        "latin": (before.encode(latin), after.encode(latin)),
        "nul": (nul + b"end\n", nul + b"END\n"),
        "bytes": ("é \n".encode() + b"\xff\n", "é \n".encode() + b"\xfe\n"),
        "marked": (before.encode(), before.encode("utf-8-sig")),
    }
    for name, (old, _) in states.items():
        (root / name).write_bytes(old)
    run(checkpoints, lambda: [(root / name).write_bytes(now) for name, (_, now) in states.items()])
    by_path = {each.path: each for each in differences(checkpoints)}
    for name in ("wide", "latin"):
        assert by_path[name].text.endswith("-déjà vu à l'été, ça\n+déjà vu à l'âge, ça\n end\n")
    assert by_path["nul"].text.endswith(" \ufffd\n-end\n+END\n")
    assert by_path["bytes"].text.endswith("-\ufffd\n+\ufffd\n")
    assert by_path["marked"].why == "encoding only"


def test_a_pipe_instead_of_a_file_is_not_read_and_looking_stores_nothing(
    root: Path, checkpoints: Checkpoints
) -> None:
    (root / "a").write_text("x\n")
    (root / "b").write_text("x\n")

    def command() -> None:
        (root / "a").unlink()
        os.mkfifo(root / "a")
        (root / "b").write_text("y\n")

    run(checkpoints, command)
    stored = sorted((root / ".transcripts").rglob("*"))
    (root / "b").write_text("z\n")
    assert differences(checkpoints)[0] == FileDifference("a", "changed", why="file -> pipe, socket or device")
    assert sorted((root / ".transcripts").rglob("*")) == stored


def test_changed_files_are_counted_from_each_seq_on_without_directories() -> None:
    one, two, folder = PathState("file", 0, "1"), PathState("file", 0, "2"), PathState("dir", 0o755)
    changes = [
        FileChange(5, "a", one, two),
        FileChange(3, "a", one, two),
        FileChange(3, "same", one, one),
        FileChange(3, "made", NOTHING, folder),
        FileChange(3, "left", folder, NOTHING),
        FileChange(7, "b", one),
    ]
    assert changed_files_since(changes, [1, 3, 4, 5, 6, 7, 8]) == {8: 0, 7: 1, 6: 1, 5: 2, 4: 2, 3: 2, 1: 2}


def test_a_file_that_came_and_went_is_counted_only_from_between_on() -> None:
    one = PathState("file", 0, "1")
    changes = [FileChange(2, "a", NOTHING, one), FileChange(4, "a", one, NOTHING)]
    assert changed_files_since(changes, [1, 3, 5]) == {5: 0, 3: 1, 1: 0}

import os
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest
from msgspec.structs import replace

from agent.menus import session_line
from tests.tables import each_row
from transcripts import listing
from transcripts.codec import encode_fact
from transcripts.data_tags import quoted
from transcripts.errors import AmbiguousSession, NoSuchSession
from transcripts.facts import Closed, Fact, Metadata, Opened, Reply, User
from transcripts.listing import MAX_END_BYTES, ProjectRecords
from transcripts.messages import Block, ImageBlock, TextBlock
from transcripts.render_text import session_title
from transcripts.secrets.masking import SecretMasks
from transcripts.session_lock import RECORDS_FOLDER


def keep(project: Path, sid: str, *facts: Fact) -> Path:
    (project / RECORDS_FOLDER).mkdir(exist_ok=True)
    path = project / RECORDS_FOLDER / f"{sid}.jsonl"
    path.write_bytes(b"".join(encode_fact(fact, sid) for fact in facts))
    return path


def opened(project: Path, at: float = 1000.0) -> Opened:
    return Opened(1, at, ("system " * 3000,), (), "m", 9, str(project))


def prompt(seq: int, words: str, at: float = 1000.0, source: str = "user") -> User:
    return User(seq, at, (TextBlock("<surroundings>\nx\n</surroundings>"), TextBlock(words)), source=source)


def test_a_session_is_summarized_in_a_list(tmp_path: Path) -> None:
    path = keep(
        tmp_path,
        "s1",
        opened(tmp_path),
        prompt(2, "<div> is\n broken"),
        Reply(3, 1001.0, (TextBlock("yes"),)),
        Metadata(4, 1002.0, "name", {"name": "first"}),
        prompt(5, "ours", 1003.0, "harness"),
        Metadata(6, 1004.0, "name", {"name": "div"}),
        prompt(7, "thanks", 1005.0),
        Reply(8, 1006.0, (TextBlock("bye"),)),
    )
    (one,) = ProjectRecords(tmp_path).sessions()
    assert (one.sid, one.name, one.first_prompt, one.last_active, one.prompts) == (
        "s1",
        "div",
        "<div> is broken",
        1006.0,
        2,
    )
    assert (one.folder, one.size, one.path) == (str(tmp_path), path.stat().st_size, path)


def test_what_hooks_and_own_commands_added_does_not_name_a_session(tmp_path: Path) -> None:
    own = TextBlock("<command-of-the-user>\n$ ls\na.py\n</command-of-the-user>")
    blocks = (own, TextBlock("<hook>\nuse tabs\n</hook>"), TextBlock("mend the parser"))
    keep(tmp_path, "s1", opened(tmp_path), User(2, 1000.0, blocks))
    assert [one.first_prompt for one in ProjectRecords(tmp_path).sessions()] == ["mend the parser"]
    assert session_title([User(2, 1000.0, blocks)], "s1") == "mend the parser"


@each_row(
    ("blocks", "title"),
    [
        ((TextBlock("<command-of-the-user>\n$ ls -l\na.py\n</command-of-the-user>"),), "$ ls -l"),
        (
            (TextBlock("see"), TextBlock(f"{quoted('a </pasted>', 'pasted', ' id=1')} now")),
            "see [paste 1: 12 characters] now",
        ),
        ((TextBlock(quoted("a </pasted>", "pasted", " id=1")),), "a </pasted>"),
        ((ImageBlock("image/png", "AAAA"),), "[image, image/png, 3 bytes]"),
    ],
)
def test_a_session_has_the_same_title_in_a_list_and_by_itself(
    tmp_path: Path, blocks: tuple[Block, ...], title: str
) -> None:
    keep(tmp_path, "s1", opened(tmp_path), User(2, 1000.0, blocks))
    assert [one.first_prompt for one in ProjectRecords(tmp_path).sessions()] == [title]
    assert session_title([User(2, 1000.0, blocks)], "s1") == title


def test_sessions_are_listed_by_their_last_fact_and_not_by_file_times(tmp_path: Path) -> None:
    for number, at in (("a", 3000.0), ("b", 1000.0), ("c", 2000.0)):
        os.utime(keep(tmp_path, number, opened(tmp_path), prompt(2, "x", at)), (1, 1))
    assert [one.sid for one in ProjectRecords(tmp_path).sessions()] == ["a", "c", "b"]


def test_a_directory_without_sessions_has_none(tmp_path: Path) -> None:
    assert ProjectRecords(tmp_path).sessions() == [] and ProjectRecords(tmp_path).continuable() == []


def test_what_is_not_a_session_file_is_left_out(tmp_path: Path) -> None:
    keep(tmp_path, "s1", opened(tmp_path), prompt(2, "x"))
    folder = tmp_path / RECORDS_FOLDER
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "dir.jsonl").mkdir()
    (folder / "link.jsonl").symlink_to(folder / "s1.jsonl")
    (folder / "s1.torn").write_text("x")
    assert [one.sid for one in ProjectRecords(tmp_path).sessions()] == ["s1"]


@each_row("raw", [b"", b"\0" * 5000, b"not json\n", b"\xff\xfe\n{}\n", b"{" * 100_000])
def test_a_broken_file_is_listed_not_hidden(tmp_path: Path, raw: bytes) -> None:
    path = keep(tmp_path, "s1")
    path.write_bytes(raw)
    (one,) = ProjectRecords(tmp_path).sessions()
    assert (one.prompts, one.first_prompt) == (0, "")


def test_a_torn_tail_does_not_hide_the_session(tmp_path: Path) -> None:
    path = keep(tmp_path, "s1", opened(tmp_path), prompt(2, "hello", 1234.0))
    path.write_bytes(path.read_bytes() + b'{"v":1,"seq":3')
    (one,) = ProjectRecords(tmp_path).sessions()
    assert (one.first_prompt, one.last_active, one.prompts) == ("hello", 1234.0, 1)


def test_a_file_too_large_to_read_whole_is_summarized_from_its_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transcripts.listing.MAX_LISTING_BYTES", 1000)
    facts: list[Fact] = [opened(tmp_path), prompt(2, "the beginning")]
    facts += [Reply(seq, 1500.0, (TextBlock("x" * MAX_END_BYTES),)) for seq in range(3, 9)]
    facts += [Metadata(9, 1600.0, "name", {"name": "large"}), Reply(10, 2000.0, (TextBlock("the end"),))]
    keep(tmp_path, "s1", *facts)
    (one,) = ProjectRecords(tmp_path).sessions()
    assert (one.first_prompt, one.name, one.last_active, one.prompts) == ("the beginning", "large", 2000.0, 1)


def test_the_newest_session_is_found_without_reading_large_ones_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (TextBlock("x" * 3 * MAX_END_BYTES),)
    for sid, at in (("s1", 2000.0), ("s2", 3000.0), ("s3", 1000.0)):
        facts: list[Fact] = [opened(tmp_path), prompt(2, "hello", 900.0), Reply(3, 900.0, text * 5)]
        keep(tmp_path, sid, *facts, Reply(4, at, text), Reply(5, at, text))
    none = keep(tmp_path, "s4", opened(tmp_path), Reply(2, 4000.0, text))
    late = [Metadata(seq, 1.0, "mode") for seq in range(2, 30)]
    keep(
        tmp_path,
        "s5",
        opened(tmp_path),
        *late,
        prompt(30, "late", 1.0),
        Reply(31, 1.0, text * 3),
        Closed(32, 2500.0, ""),
    )
    read = list[int]()
    decoded = listing._decoded_end

    def counted(file: BinaryIO, size: int, most: int) -> list[Fact]:
        read.append(most)
        return decoded(file, size, most)

    monkeypatch.setattr(listing, "_decoded_end", counted)
    newest = ProjectRecords(tmp_path).newest(scripted=False)
    assert newest is not None and (newest.sid, newest.last_active) == ("s2", 3000.0)
    assert sorted(read)[-2:] == sorted([none.stat().st_size, none.with_name("s5.jsonl").stat().st_size])
    assert sorted(read)[:-2] == [MAX_END_BYTES] * 5
    for sid in ("s1", "s2", "s3"):
        none.with_name(f"{sid}.jsonl").unlink()
    newest = ProjectRecords(tmp_path).newest(scripted=False)
    assert newest is not None and newest.sid == "s5"


def test_a_user_does_not_continue_the_session_of_a_script(tmp_path: Path) -> None:
    def sent(seq: int, at: float, scripted: bool) -> User:
        return User(seq, at, (TextBlock("go"),), scripted=scripted)

    records = ProjectRecords(tmp_path)
    keep(tmp_path, "s1", opened(tmp_path), sent(2, 3100.0, True))
    for found in (records.newest(scripted=False), records.last_written(), records.newest(scripted=True)):
        assert found is not None and (found.sid, found.scripted) == ("s1", True)  # there is no other
    both = keep(tmp_path, "s2", opened(tmp_path), sent(2, 3200.0, False), sent(3, 3300.0, True))
    newer = keep(tmp_path, "s3", opened(tmp_path), sent(2, 3400.0, True))
    os.utime(both, (300.0, 300.0))
    os.utime(newer, (400.0, 400.0))
    for found in (records.newest(scripted=False), records.last_written()):
        assert found is not None and found.sid == "s2"
    found = records.newest(scripted=True)
    assert found is not None and found.sid == "s3"


def test_a_long_first_prompt_is_read_whole(tmp_path: Path) -> None:
    keep(tmp_path, "s1", opened(tmp_path), prompt(2, "word " * 60_000))
    assert len(ProjectRecords(tmp_path).sessions()[0].first_prompt) == 299_999


def project(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).mkdir()
    return tmp_path / name


def test_the_newest_session_with_a_prompt_is_continued_also_where_the_project_was_moved(
    tmp_path: Path,
) -> None:
    here, was = project(tmp_path, "new name"), tmp_path / "old name"
    keep(here, "s1", opened(here), prompt(2, "mine", 1000.0))
    wanted = keep(here, "s2", opened(was), prompt(2, "from before the move", 2000.0))
    keep(here, "s3", opened(here, 3000.0), Metadata(2, 3000.0, "mode"))
    keep(here, "s4", opened(here), prompt(2, "ours only", 4000.0, "harness"))
    assert ProjectRecords(here).continuable()[0].path == wanted
    (tmp_path / "link").symlink_to(here)
    link = tmp_path / "link"
    assert ProjectRecords(link).continuable()[0].path == link / RECORDS_FOLDER / "s2.jsonl"


@pytest.mark.skipif(sys.platform == "darwin", reason="names of files are UTF-8 there")
def test_a_session_is_continued_in_a_directory_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    here = tmp_path / os.fsdecode(b"caf\xe9")
    here.mkdir()
    wanted = keep(
        here, "s1", opened(Path(str(here).encode("utf-8", "replace").decode())), prompt(2, "mine", 1.0)
    )
    assert ProjectRecords(here).continuable()[0].path == wanted


def test_a_session_is_found_by_id_beginning_or_name(tmp_path: Path) -> None:
    first = keep(tmp_path, "20261121-093012-4f2a", opened(tmp_path), prompt(2, "x"))
    second = keep(
        tmp_path, "20261121-093012", opened(tmp_path), Metadata(2, 0.0, "name", {"name": "Fix CSS"})
    )
    assert ProjectRecords(tmp_path).find("20261121-093012-4f2a") == first
    assert ProjectRecords(tmp_path).find("20261121-093012-") == first
    assert ProjectRecords(tmp_path).find("20261121-093012") == second, "a whole id is no beginning"
    assert ProjectRecords(tmp_path).find("Fix CSS") == ProjectRecords(tmp_path).find("fix css") == second


def test_a_session_is_found_by_its_id_without_reading_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, _ = (keep(tmp_path, sid, opened(tmp_path), prompt(2, "x")) for sid in ("s1", "s2"))
    monkeypatch.setattr("transcripts.listing._summary", lambda *values: pytest.fail("a session was read"))
    assert ProjectRecords(tmp_path).find("s1") == wanted


def test_several_fitting_sessions_are_named(tmp_path: Path) -> None:
    for sid in ("20261121-1", "20261121-2"):
        keep(tmp_path, sid, opened(tmp_path), prompt(2, "x"))
    with pytest.raises(AmbiguousSession, match="2 sessions: 20261121-1, 20261121-2"):
        ProjectRecords(tmp_path).find("2026")


@each_row("wanted", ["nope", "", "../s1", "/etc/passwd"])
def test_an_unknown_session_is_refused(tmp_path: Path, wanted: str) -> None:
    keep(tmp_path, "s1", opened(tmp_path), prompt(2, "x"))
    with pytest.raises(NoSuchSession, match="the most recent one is s1"):
        ProjectRecords(tmp_path).find(wanted)


def test_an_agent_in_a_copy_of_a_session_does_not_have_its_name(tmp_path: Path) -> None:
    named = Metadata(2, 0.0, "name", {"name": "parser work"})
    wanted = keep(tmp_path, "s1", opened(tmp_path), named, prompt(3, "go", 2000.0))
    about = {"agent": "general", "number": 1}
    copy = replace(opened(tmp_path), parent="s1", about=about)
    keep(tmp_path, "s2", copy, named, prompt(3, "go"))
    assert (
        ProjectRecords(tmp_path).find("parser work") == ProjectRecords(tmp_path).find("Parser Work") == wanted
    )
    line = session_line(ProjectRecords(tmp_path).sessions()[1], 0.0, SecretMasks(()), 1)
    assert "  └ [general #1] go" in line
    assert session_title([copy, named, prompt(3, "go")], "s2") == "[general #1] go"
    with_task = replace(copy, about={**about, "task": "look\nat tests"})
    keep(tmp_path, "s3", with_task, prompt(3, "go"))
    lines = [session_line(one, 0.0, SecretMasks(()), 1) for one in ProjectRecords(tmp_path).sessions()]
    assert sum("  └ [general #1] look at tests" in line for line in lines) == 1
    assert session_title([with_task, prompt(3, "go")], "s3") == "[general #1] look at tests"


def test_a_name_of_an_old_record_is_shown_on_one_line(tmp_path: Path) -> None:
    keep(tmp_path, "s1", opened(tmp_path), Metadata(2, 0.0, "name", {"name": "two\n lines"}))
    assert ProjectRecords(tmp_path).sessions()[0].name == "two lines"
    assert ProjectRecords(tmp_path).find("two lines").stem == "s1"
    assert session_title([Metadata(2, 0.0, "name", {"name": "two\n lines"})], "s1") == "two lines"


def test_the_session_that_a_start_names_has_its_name_though_much_was_said_since(tmp_path: Path) -> None:
    named = Metadata(3, 0.0, "name", {"name": "big one"})
    said = [Reply(seq, 2000.0, (TextBlock("x" * MAX_END_BYTES),)) for seq in (4, 5, 6)]
    keep(tmp_path, "s1", opened(tmp_path), prompt(2, "go"), named, *said)
    found = ProjectRecords(tmp_path).last_written()
    assert found is not None and found.name == "big one"


@pytest.mark.parametrize("file_too", [False, True])
def test_a_session_of_a_clock_that_was_ahead_is_not_the_newest_for_ever(
    tmp_path: Path, file_too: bool
) -> None:
    now = time.time()
    ahead = keep(tmp_path, "s1", opened(tmp_path), prompt(2, "of 2039", now + 4e8))
    later = keep(tmp_path, "s2", opened(tmp_path), prompt(2, "of now", now - 60))
    os.utime(ahead, (now + 4e8 if file_too else now - 600,) * 2)
    assert ProjectRecords(tmp_path).continuable()[0].path == later
    assert [one.sid for one in ProjectRecords(tmp_path).sessions()] == ["s2", "s1"]
    found = ProjectRecords(tmp_path).last_written()
    assert found is not None and found.sid == "s2"
    os.utime(ahead)  # it was continued
    assert ProjectRecords(tmp_path).continuable()[0].path == ahead

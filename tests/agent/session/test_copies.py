"""Copies of sessions: what a fork takes from its original."""

import asyncio
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.model_port import IncomingReply, PendingBlock
from agent.session.deferred_results import load_deferred
from agent.session.environment import own_words_sent
from agent.session.repository import SessionRepository, _charged
from agent.session.session import Session
from compact import PriceList, Prices, Spending, block_texts
from compact.tokens import TokenCounter
from transcripts.codec import CHECKSUM, seal
from transcripts.errors import TranscriptTooNew
from transcripts.facts import Clear, Metadata, Reply, Result, User
from transcripts.folding import Folded
from transcripts.messages import ChannelBlock, TextBlock, ToolUseBlock, Usage
from transcripts.secrets import SecretMasks
from transcripts.session_files import SessionFiles
from transcripts.session_key import SessionKey
from transcripts.store import Store


def signing_repository(folder: Path, tell: Callable[[str], None] = pytest.fail) -> SessionRepository:
    return SessionRepository(folder, keep=True, tell=tell, files=SessionFiles(SessionKey.new()))


def test_a_copy_is_charged_for_rewound_requests_too_even_if_they_cost_the_same(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session = repository.new()
    for words in ("first", "second"):
        at = session.folded.last_seq
        session.user((TextBlock(words),))
        session.charge(Usage(100, 10), "m")
        if words == "first":
            session.rewound(at, {})
    assert [charge.usage for charge in session.folded.charges] == [Usage(100, 10)] * 2
    copy = repository.copy(session)
    assert copy.folded.charges == session.folded.charges
    assert [type(fact).__name__ for fact in copy.folded.facts].count("User") == 1
    session.close()
    copy.close()


def test_a_fork_at_a_fact_that_the_session_lacks_names_its_last_one(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session = repository.new()
    session.user((TextBlock("first"),))
    path = repository.records.path_of(session.sid)
    last = session.folded.last_seq
    session.close()
    with pytest.raises(UsageError, match=r"has no r99, its last id is r\d+; search ids"):
        repository.fork(path, at=99)
    copy = repository.fork(path, at=last)
    assert [fact.seq for fact in copy.folded.facts if isinstance(fact, User)] == [last]
    forks = [note.about for note in copy.folded.metadata if note.topic == Metadata.FORK]
    assert forks == [{"of": session.sid, "at": last}]
    whole = repository.fork(path)
    forks = [note.about for note in whole.folded.metadata if note.topic == Metadata.FORK]
    assert forks == [{"of": session.sid}]


def recorded(repository: SessionRepository) -> tuple[Session, Path]:
    """Return a session in use with a large result, and its file."""
    session = repository.new()
    exchange(session)
    session.sync()
    return session, repository.records.path_of(session.sid)


def exchange(session: Session) -> None:
    """Add a prompt and a call with a large result, which is then cleared."""
    session.user((TextBlock("look"),))
    asked = session.request_sent("turn", b"")
    reply = IncomingReply(
        blocks=[ToolUseBlock("t1", "bash", {"command": "ls"})], stop="tool_use", complete=True
    )
    called = session.reply(reply, asked.seq)
    result = session.result(called.seq, 0, (TextBlock("line\n" * 5_000),))
    session.compacted("clear", "auto", (Clear(result.seq, 0, "content", "[cleared]", 5),), {})


def test_a_copy_begins_with_the_lines_of_its_original_and_needs_it_no_more(tmp_path: Path) -> None:
    repository = signing_repository(tmp_path)
    session, original = recorded(repository)
    copies = [repository.copy(session), repository.fork(original)]
    copies.append(repository.fork(repository.records.path_of(copies[0].sid)))
    before = original.read_bytes()
    assert session.folded.last_seq + 1 == copies[0].folded.last_seq
    session.close()
    original.unlink()
    for copy in copies:
        assert list(copy.folded.view) == list(session.folded.view) and len(session.folded.view) == 3
        copy.user((TextBlock("more"),))
        copy.close()
        path = repository.records.path_of(copy.sid)
        assert path.read_bytes().startswith(before)
        repository.files.require_own(path)
        again = repository.reopen(path)
        assert again.sid == copy.sid
        load_deferred(again)
        load_deferred(copy)
        (large,) = [fact.content for fact in copy.folded.facts if isinstance(fact, Result)]
        assert large == (TextBlock("line\n" * 5_000),)
        assert list(again.folded.view) == list(copy.folded.view)
        again.close()
    assert {each.sid for each in repository.records.continuable()} == {each.sid for each in copies}


def test_a_copy_sends_what_its_original_sent_although_the_file_masks_it(tmp_path: Path) -> None:
    masks = SecretMasks(("hush-hush-1234567",))
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail, masks=masks)
    session = repository.new()
    session.user((TextBlock("use hush-hush-1234567"),))
    copy = repository.copy(session)
    assert list(copy.folded.view) == list(session.folded.view)
    assert b"hush-hush" not in repository.records.path_of(copy.sid).read_bytes()
    session.close()
    copy.close()


def test_a_copy_of_an_agents_session_is_one_of_the_user(tmp_path: Path) -> None:
    repository = signing_repository(tmp_path)
    session = repository.new()
    session.open(("system",), ())
    session.user((TextBlock("look"),))
    nested = repository.copy_for_agent(session, {})
    copies = [
        repository.copy(session),
        repository.copy(nested),
        repository.fork(repository.records.path_of(nested.sid)),
    ]
    assert nested.folded.opened is not None and nested.folded.opened.parent == session.sid
    for copy in copies:
        assert copy.folded.opened is not None and copy.folded.opened.parent is None
        copy.close()
    assert {each.sid for each in repository.records.continuable()} == {
        session.sid,
        *(each.sid for each in copies),
    }
    nested.close()
    session.close()


def test_an_agents_copy_has_the_lines_of_its_original_behind_its_own_opening(tmp_path: Path) -> None:
    repository = signing_repository(tmp_path)
    session = repository.new()
    session.open(("system",), ())
    exchange(session)
    session.close()
    original = repository.records.path_of(session.sid)
    session = repository.reopen(original)
    assert session.deferred
    nested = repository.copy_for_agent(session, {"task": "look"})
    assert session.deferred and nested.deferred
    assert repr(nested.folded.view) == repr(session.folded.view)
    opening, _, lines = original.read_bytes().partition(b"\n")
    path = repository.records.path_of(nested.sid)
    assert lines in path.read_bytes() and opening not in path.read_bytes()
    nested.user((TextBlock("more"),))
    nested.close()
    again = repository.reopen(path)
    assert again.sid == nested.sid
    for copy in (nested, again):
        assert copy.folded.opened is not None and copy.folded.opened.parent == session.sid
        assert repr(copy.folded.view) == repr(nested.folded.view)
        load_deferred(copy)
    load_deferred(session)
    assert nested.folded.facts[1 : len(session.folded.facts)] == session.folded.facts[1:]
    again.close()
    session.close()


def test_an_agents_copy_masks_secrets_as_its_original_does(tmp_path: Path) -> None:
    repository = signing_repository(tmp_path)
    repository.masks = SecretMasks(("hush-hush-1234567",))
    session = repository.new()
    session.open(("system",), ())
    exchange(session)
    nested = repository.copy_for_agent(session, {})
    nested.user((TextBlock("use hush-hush-1234567"),))
    nested.close()
    session.close()
    assert b"hush-hush" not in repository.records.path_of(nested.sid).read_bytes()


def test_an_agents_copy_of_a_session_that_was_rewound_lacks_what_was_rewound(tmp_path: Path) -> None:
    repository = signing_repository(tmp_path)
    session = repository.new()
    session.open(("system",), ())
    session.rewound(session.user((TextBlock("forget this"),)).seq, {})
    nested = repository.copy_for_agent(session, {})
    assert b"forget this" not in repository.records.path_of(nested.sid).read_bytes()
    nested.close()
    session.close()


def test_a_copy_gets_the_id_that_was_asked_for(tmp_path: Path) -> None:
    repository = signing_repository(tmp_path)
    session, original = recorded(repository)
    repository.first_sid = "mine"
    copy = repository.fork(original)
    assert copy.sid == "mine"
    copy.close()
    again = repository.reopen(repository.records.path_of("mine"))
    assert again.sid == "mine"
    again.close()
    session.close()


def test_a_copy_of_a_damaged_transcript_is_whole(tmp_path: Path) -> None:
    told = list[str]()
    repository = signing_repository(tmp_path, told.append)
    session, original = recorded(repository)
    session.close()
    lines = original.read_bytes().splitlines(keepends=True)
    original.write_bytes(b"".join([lines[0], b"damaged\n", *lines[1:]]))
    copy = repository.fork(original)
    copy.close()
    assert b"damaged" not in repository.records.path_of(copy.sid).read_bytes()


def test_where_the_lines_cannot_be_copied_the_facts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    repository = signing_repository(tmp_path)
    session = repository.new()
    session.open(("system",), ())
    exchange(session)
    monkeypatch.setattr(Store, "begin_with", full)
    monkeypatch.setattr(Store, "begin_as", full)
    makers = (lambda: repository.copy(session), lambda: repository.copy_for_agent(session, {}))
    for sid, made in zip(("mine", "nested"), makers, strict=True):
        repository.first_sid = sid
        copy = made()
        assert copy.sid == sid and list(copy.folded.view) == list(session.folded.view)
        copy.close()
    session.close()


@pytest.mark.skipif(not hasattr(os, "copy_file_range"), reason="the system has no such call")
def test_a_copy_is_complete_on_file_systems_that_copy_nothing_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = signing_repository(tmp_path)
    session, original = recorded(repository)
    copy_some = os.copy_file_range
    copied = list[int]()

    def copy_a_part(source: int, target: int, count: int, offset: int) -> int:
        if copied:
            raise OSError(errno.EXDEV, "another file system")
        copied.append(copy_some(source, target, 100, offset))
        return copied[0]

    monkeypatch.setattr(os, "copy_file_range", copy_a_part)
    copy = repository.copy(session)
    before = original.read_bytes()
    assert copied == [100] and repository.records.path_of(copy.sid).read_bytes().startswith(before)
    session.close()
    copy.close()


def test_a_session_is_found_by_its_name_in_any_letter_case_and_a_copy_gets_a_free_one(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    with pytest.raises(UsageError, match="no session to continue in this directory"):
        repository.newest(scripted=True)
    session = repository.new()
    session.user((TextBlock("go"),))
    session.add_metadata("name", {"name": "Paint"})
    sid = session.sid
    copy = repository.copy(session)
    assert copy.folded.name == "Paint (copy)"
    session.close()
    copy.close()
    assert repository.holder_of("PAINT", but="") == sid == repository.holder_of(sid, but=copy.sid)
    assert repository.holder_of("paint", but=sid) is None
    assert repository.copy_name("paint (copy)") == "paint (copy 2)" == repository.copy_name("paint (copy 7)")
    assert repository.copy_name("draw") == "draw (copy)"
    path = repository.records.path_of(sid)
    assert repository.named("paint") == repository.named(sid) == repository.named(str(path)) == path
    with pytest.raises(UsageError):
        repository.named("nothing")
    assert {each.sid for each in repository.records.continuable()} == {sid, copy.sid}


def test_a_file_is_a_recording_unless_it_is_a_session_of_this_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session = repository.new()
    session.user((TextBlock("go"),))
    session.close()
    own = repository.records.path_of(session.sid)
    other = tmp_path / "other.jsonl"
    other.write_bytes(own.read_bytes())
    link = tmp_path / "link" / own.name
    link.parent.mkdir()
    link.symlink_to(own)
    twin = tmp_path / own.name
    twin.write_bytes(own.read_bytes())
    plain = tmp_path / "plain"
    plain.touch()
    for path, is_recording in (
        (own, False),
        (link, False),
        (other, True),
        (twin, True),
        (plain, True),
        (tmp_path, False),
        (tmp_path / "none.jsonl", False),
        (Path("none"), False),
    ):
        assert repository.is_recording(str(path)) is is_recording, path
    monkeypatch.chdir(tmp_path)
    names = ["other.jsonl", "other.json", "other.traj", "./plain"]
    for name in names:
        Path(name).touch()
    assert [name for name in ("plain", *names) if repository.is_recording(name)] == names
    for name in ("plain", "none.json"):
        with pytest.raises(UsageError, match="cannot continue"):
            repository.adopt(tmp_path / name)


def test_a_directory_that_keeps_nothing_has_no_checkpoints_and_is_removed(tmp_path: Path) -> None:
    kept = SessionRepository(tmp_path, keep=True, tell=pytest.fail, state_dir=tmp_path / "state")
    session = kept.new()
    checkpoints = kept.checkpoints(session)
    assert checkpoints is not None and kept.home == tmp_path
    assert checkpoints.excluded == "state", "our own files in the project are not recorded"
    kept.close()
    assert tmp_path.is_dir()
    passing = SessionRepository(tmp_path, keep=False, tell=pytest.fail)
    assert passing.checkpoints(passing.new()) is None
    assert passing.home.is_dir() and passing.home != tmp_path
    passing.close()
    assert not passing.home.exists()


def test_the_id_of_the_first_session_must_be_free(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail, first_sid="mine")
    session = repository.new()
    session.user((TextBlock("go"),))
    session.close()
    assert session.sid == "mine" and repository.new().sid != "mine"
    repository.first_sid = "mine"
    with pytest.raises(UsageError, match="session mine already exists; continue it with --resume mine"):
        repository.new()


def test_lines_about_a_session_that_a_thread_opens_are_shown_when_it_is_open(tmp_path: Path) -> None:
    told: list[str] = []
    repository = SessionRepository(tmp_path, keep=True, tell=told.append)
    session = repository.new()
    session.user((TextBlock("go"),))
    session.close()
    path = repository.records.path_of(session.sid)
    path.write_bytes(path.read_bytes() + b'{"torn')

    def reopened() -> Session:
        found = repository.reopen(path)
        assert told == []
        return found

    again = asyncio.run(repository.in_thread(reopened))
    assert [fact for fact in again.folded.facts if isinstance(fact, User)]
    assert told == [f"moved an incomplete last line of the transcript (6 bytes) to {session.sid}.torn"]
    again.close()


def test_a_copy_of_facts_alone_is_charged_for_what_they_lack(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session = repository.new()
    at = session.folded.last_seq
    for usage in (Usage(100, 10), Usage(100, 10), Usage(7, 1)):
        session.charge(usage, "m")
    session.rewound(at, {})
    session.charge(Usage(100, 10), "m")
    charges = session.folded.charges
    copy = _charged(repository._copy(session.sid, session.folded.facts), of=session)
    assert sorted(map(repr, copy.folded.charges)) == sorted(map(repr, charges)) and len(charges) == 4
    again = _charged(copy, of=session)
    assert len(again.folded.charges) == 4
    session.close()
    copy.close()


class NotedRecord:
    """A record that notes what it is asked to make durable."""

    failure = ""
    written_size = 0

    def __init__(self) -> None:
        self.calls: list[str] = []

    def append(self, fact: object, durable: bool = False) -> None:
        self.calls.append(f"append{' durable' * durable}")

    def digest(self, body: bytes) -> str:
        return ""

    def sync(self) -> None:
        self.calls.append("sync")

    def begin_sync(self) -> None:
        self.calls.append("begin")

    def close(self) -> None: ...


def test_only_facts_that_are_not_on_the_disk_are_synced() -> None:
    record = NotedRecord()
    session = Session("s", record, Folded(), TokenCounter(None), lambda: 1.0)
    session.failed("hook", "go")
    session.begin_sync()
    session.sync()
    session.sync()
    session.begin_sync()
    assert record.calls == ["append", "begin", "sync"]
    record.calls.clear()
    session.compacted("micro", "auto", (), {})
    session.begin_sync()
    session.sync()
    asyncio.run(session.synced())
    assert record.calls == ["append durable"]
    session.failed("hook", "on")
    asyncio.run(session.synced())
    assert record.calls == ["append durable", "append", "begin", "sync"]
    record.calls.clear()
    session.rewound(1, {})
    session.undone("c1", ())
    session.user(())
    session.open(("system",), ())
    session.close()
    session.sync()
    assert record.calls == ["append durable"] * 6
    record.calls.clear()
    Session("s", record, Folded(), TokenCounter(None), lambda: 1.0).close()
    assert record.calls == [], "a session without facts gets no file"


def test_a_reply_that_was_cut_off_costs_at_least_what_arrived() -> None:
    session = Session("s", NotedRecord(), Folded(), TokenCounter(None), lambda: 1.0)
    cut = {1: PendingBlock("text", ["and more"]), 2: PendingBlock("tool input", ['{"a\ud800'])}
    for output, complete in ((2, False), (5_000, False), (2, True)):
        reply = IncomingReply([TextBlock("word " * 100)], {} if complete else cut, complete=complete)
        reply.usage = Usage(input=9, output=output)
        fact = session.reply(reply, 0)
        assert fact.usage == (reply.usage if complete or output == 5_000 else session.used_at_least(reply))
        assert fact.usage.input == 9 and (fact.usage.output > 90) is (not complete)
        assert fact.partial == ("" if complete else 'and more{"a?')
        assert [block.text for block in fact.blocks if isinstance(block, TextBlock)][1:] == (
            [] if complete else ["and more"]
        )


def test_charges_outside_the_conversation_cost_the_prices_in_use() -> None:
    session = Session("s", NotedRecord(), Folded(), TokenCounter(None), lambda: 1.0)
    session.charge(Usage(input=1_000_000), "own", asked=3)
    session.charge(Usage())
    assert session.unpriced == ["own"] and session.spent == Usage(input=1_000_000)
    session.use_prices(PriceList({"own": Prices(2.0, 10.0)}))
    assert (session.cost, session.unpriced) == (2.0, [])
    assert [note.about["asked"] for note in session.folded.metadata] == [3]
    session.charge_nested("s2", "own", Spending(Usage(output=7), 3.0))
    session.charge_nested("s3", "odd", Spending(Usage(output=8), unpriced=True))
    nested = [(each["session"], each["model"], each["dollars"]) for each in session.nested_charges]
    assert nested == [("s2", "own", 3.0), ("s3", "odd", None)]
    assert session.cost == 5.0 and session.unpriced == ["odd"]
    assert session.spent == Usage(input=1_000_000, output=15)


def test_what_is_adopted_from_a_transcript_has_no_words_of_makeroom(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session, path = recorded(repository)
    session.user((ChannelBlock("# Plan mode"), TextBlock("go")))
    of, at = next((fact.seq, 0) for fact in session.folded.facts if isinstance(fact, Reply))
    session.result(of, at, (ChannelBlock("# Current directory"),))
    session.close()
    adopted = repository.adopt(path)
    assert own_words_sent(session.folded) and not own_words_sent(adopted.folded)
    texts = [text for entry in adopted.folded.entries for text in block_texts(entry.fact.blocks)]
    assert "# Plan mode" in texts, "they are data"
    adopted.close()


def test_a_transcript_of_a_newer_version_is_not_copied(tmp_path: Path) -> None:
    repository = SessionRepository(tmp_path, keep=True, tell=pytest.fail)
    session, path = recorded(repository)
    session.close()
    lines = map(json.loads, path.read_bytes().splitlines())
    path.write_bytes(b"".join(seal({**line, "v": 99}) for line in lines if line.pop(CHECKSUM)))
    for at in (None, 2):
        with pytest.raises(TranscriptTooNew):
            repository.fork(path, at=at)
    assert list(path.parent.glob("*.jsonl")) == [path]

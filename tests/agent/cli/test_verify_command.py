"""A transcript reproduces what was sent, byte for byte; every difference is found and named."""

import hashlib
import json
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent.__main__ import SUBCOMMANDS
from agent.cli.verify_command import Difference, run_verify, verify_transcript
from tests.agent.commands.controller_run import READ_ALL, ControllerRun, files, run_controller
from tests.transcripts.sample_turn import SID, TURN
from transcripts.codec import decode_line, encode_fact, seal
from transcripts.facts import Clear, Compacted, Fact, Fold, Opened, RequestSent, Result, User
from transcripts.listing import ProjectRecords
from transcripts.messages import ImageBlock, TextBlock
from transcripts.render_text import fact_text
from transcripts.search import Originals
from transcripts.session_lock import path_of

SECRET = "correct-horse-battery"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A project with a session that was compacted, undone, rewound and continued; hashes of what was sent."""
    project = tmp_path_factory.mktemp("project").resolve()
    files(project, 6)
    (project / "key.txt").write_text(f"the key is {SECRET}")

    async def work(run: ControllerRun) -> None:
        await run.do(READ_ALL, "/compact", "read key.txt", "/uncompact", READ_ALL)

    server = run_controller(project, work, environ={"MY_API_KEY": SECRET}, context_window=60_000)
    bodies = [json.dumps(body, ensure_ascii=False, separators=(",", ":")) for body in server.requests]
    return project, [hashlib.sha256(body.encode()).hexdigest() for body in bodies]


def facts_of(project: Path, sid: str) -> list[Fact]:
    return [decode_line(line)[0] for line in path_of(project, sid).read_bytes().splitlines()]


def test_every_request_is_made_again_and_every_removed_text_fetched(recorded: tuple[Path, list[str]]) -> None:
    project, sent = recorded
    (sid,) = ProjectRecords(project).sids()
    verified = verify_transcript(path_of(project, sid), project)
    asked = [fact for fact in facts_of(project, sid) if isinstance(fact, RequestSent)]
    assert verified.requests == len(asked) == len(sent) >= 8 and verified.unhashed == 0
    assert [fact.trigger for fact in asked].count("summary") >= 1
    assert verified.removed >= 3 and verified.prefixes > 20
    hashes = [fact.sha256 for fact in asked]
    without_secret = [sha256 for sha256 in hashes if sha256 in sent]
    assert len(without_secret) >= 4, "the hashes are those of the bodies that the server got"
    first, second = path_of(project, sid).read_bytes().splitlines()[:2]
    assert len(first) < 400 and b'"kind":"instructed"' in second, "system and tools do not begin the record"
    assert SECRET.encode() not in path_of(project, sid).read_bytes()


def test_what_several_summaries_covered_is_compared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [User(seq, 0.0, (TextBlock(f"prompt {seq}"),), (2,)) for seq in range(2, 42)]
    folds = [
        Compacted(seq, 0.0, "ledger", "auto", (Fold(2, seq - 40, (TextBlock("all"),)),))
        for seq in (52, 62, 72)
    ]
    facts = [Opened(1, 0.0, model="m"), *prompts, *folds]
    path = path_of(tmp_path, SID)
    path.parent.mkdir()
    path.write_bytes(b"".join(encode_fact(fact, SID) for fact in facts))
    made = list[Fact]()

    def text_of(fact: Fact) -> str:
        made.append(fact)
        return fact_text(fact)

    monkeypatch.setattr("agent.cli.verify_command.fact_text", text_of)
    assert verify_transcript(path, tmp_path).removed == 31
    assert made == prompts[:31]


def test_it_is_one_line_and_exit_code_0(
    recorded: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run_verify([], recorded[0])
        == run_verify([ProjectRecords(recorded[0]).sids()[0][:8]], recorded[0])
        == 0
    )
    line, again = capsys.readouterr().out.splitlines()
    assert line == again and re.search(
        r": ok: \d+ requests identical, \d+ removed texts recalled, \d+ valid prefixes$", line
    )
    assert pkgutil.resolve_name(SUBCOMMANDS["verify"]) is run_verify


def change_a_result(facts: list[Fact]) -> list[bytes]:
    """As someone would who can compute checksums."""
    lines, seen = [], 0
    for fact in facts:
        line = encode_fact(fact, "s")
        if isinstance(fact, Result) and b"value 7" in line:
            seen += 1
            if seen == 1:
                raw = json.loads(line.replace(b"value 7'", b"value 8'", 1))
                del raw["crc"]
                line = seal(raw)
        lines.append(line)
    assert seen
    return lines


def leave_out_a_prompt(facts: list[Fact]) -> list[bytes]:
    return [encode_fact(fact, "s") for fact in facts if fact.seq != 3]


def leave_out_a_request(facts: list[Fact]) -> list[bytes]:
    """The last of a reply: of those before it nothing is missing."""
    last = max(fact.seq for fact in facts if isinstance(fact, RequestSent))
    return [encode_fact(fact, "s") for fact in facts if fact.seq != last]


def leave_out_all_requests(facts: list[Fact]) -> list[bytes]:
    return [encode_fact(fact, "s") for fact in facts if not isinstance(fact, RequestSent)]


def damage(facts: list[Fact]) -> list[bytes]:
    lines = [encode_fact(fact, "s") for fact in facts]
    lines[5] = lines[5].replace(b'"ts"', b'"tz"')
    return lines


def empty(facts: list[Fact]) -> list[bytes]:
    return []


def damage_all(facts: list[Fact]) -> list[bytes]:
    return [encode_fact(fact, "s").replace(b'"ts"', b'"tz"') for fact in facts]


def say_a_line_twice(facts: list[Fact]) -> list[bytes]:
    lines = [encode_fact(fact, "s") for fact in facts]
    again = replace(facts[5], ts=facts[5].ts + 1)
    return [*lines[:6], encode_fact(again, "s"), *lines[5:]]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (empty, r"s: the transcript is empty$"),
        (damage_all, r"s: no line of the transcript is valid$"),
        (say_a_line_twice, r"s: line 7 is damaged: fact 6 occurs again with different content"),
        (change_a_result, r"s: r\d+: a request of \d+ messages differs: \w{12} was sent, \w{12} was rebuilt"),
        (leave_out_a_prompt, r"s: r\d+: a request of \d+ message"),
        (leave_out_a_request, r"s: r\d+: its request r\d+ is not in the transcript"),
        (leave_out_all_requests, r"s: r\d+: its request r\d+ is not in the transcript"),
        (damage, r"s: line 6 is damaged"),
    ],
)
def test_the_first_difference_is_named(
    recorded: tuple[Path, list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[list[Fact]], list[bytes]],
    told: str,
) -> None:
    (sid,) = ProjectRecords(recorded[0]).sids()
    target = path_of(tmp_path, "s")
    target.parent.mkdir()
    target.write_bytes(b"".join(spoil(facts_of(recorded[0], sid))))
    assert run_verify(["-C", str(tmp_path)]) == 1
    assert re.match(told, capsys.readouterr().out)


def test_a_last_line_that_was_cut_off_is_reported(tmp_path: Path) -> None:
    path_of(tmp_path, SID).parent.mkdir()
    path_of(tmp_path, SID).write_bytes(b"".join(encode_fact(fact, SID) for fact in TURN)[:-40])
    assert re.search(
        r"^ok: .*; the last line is incomplete \(\d+ bytes\)$",
        verify_transcript(path_of(tmp_path, SID), tmp_path).line(),
    )


def test_a_result_of_several_blocks_is_unchanged_and_a_wrong_recall_of_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user, reply, started, result, end = TURN
    assert isinstance(result, Result)
    blocks = (*result.content, TextBlock("[put back: a.py]"), ImageBlock("image/png", "iVBORw0KGgo="))
    parted = replace(result, content=blocks, tokens=(90, 5, 5))
    cleared = Compacted(9, 9.0, "micro", "auto", (Clear(result.seq, 0, "content", "[cleared]"),))
    facts = (user, reply, started, parted, end, cleared)
    path_of(tmp_path, SID).parent.mkdir()
    path_of(tmp_path, SID).write_bytes(b"".join(encode_fact(fact, SID) for fact in facts))
    assert verify_transcript(path_of(tmp_path, SID), tmp_path).removed == 1
    monkeypatch.setattr(Originals, "original", lambda self, id: "another text")
    with pytest.raises(Difference, match=f"r{result.seq}: the recalled text differs from the removed text"):
        verify_transcript(path_of(tmp_path, SID), tmp_path)


@pytest.mark.parametrize("words", [["verify"], ["recall", "value"]])
def test_a_reader_that_has_seen_enough_is_not_an_error(
    words: list[str], recorded: tuple[Path, list[str]]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    called = [sys.executable, "-m", "agent", "-C", str(recorded[0]), *words]
    ended = subprocess.run(called, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("words", [["nope"], []])
def test_a_session_that_is_not_there_is_exit_2(words: list[str], tmp_path: Path) -> None:
    assert run_verify(words, tmp_path) == 2


def test_a_transcript_is_verified_by_its_path(
    recorded: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, _ = recorded
    (sid,) = ProjectRecords(project).sids()
    path = path_of(project, sid)
    assert run_verify([str(path)], tmp_path) == 0
    assert capsys.readouterr().out.startswith(f"{sid}: ok: ")
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(b"".join(change_a_result(facts_of(project, sid))))
    assert run_verify([str(copy)], project) == 1
    assert run_verify([str(tmp_path / "lost.jsonl")], project) == 2
    assert "no such file" in capsys.readouterr().err

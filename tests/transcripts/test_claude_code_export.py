"""Sessions written as those of Claude Code are what its readers expect, and are read back as they were."""

import json
import os
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from tests.sampling import scaled
from tests.tables import each_row
from tests.transcripts.random_histories import history
from tests.transcripts.test_codex_importer import ROLLOUT
from tests.transcripts.test_trajectory_importers import ATIF, ENTIRE, MINI, read, read_lines
from transcripts.export import claude_code_lines, claude_code_path, mask_session
from transcripts.export.claude_code import session_uuid
from transcripts.facts import Fact, Metadata, Opened, Reply, Result, User
from transcripts.folding import fold
from transcripts.importers import UnreadableRecording, import_session
from transcripts.importers.recording import ImportedSession
from transcripts.messages import (
    ChannelBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from transcripts.secrets import SecretMasks

from .imported import count

SID = "20261121-093012-aaaa"
RECORDINGS = os.environ.get("MAKEROOM_RECORDINGS", "")


def exported(
    facts: list[Fact], sid: str = SID, project: Path = Path("/w"), secrets: tuple[str, ...] = ()
) -> str:
    return "".join(claude_code_lines(mask_session(fold(facts), sid, SecretMasks(secrets)), project))


def reread(facts: list[Fact]) -> ImportedSession:
    return import_session(exported(facts).encode(), count)


def lines(facts: list[Fact]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported(facts).splitlines()]


FACTS: list[Fact] = [
    Opened(1, 100.0, ("s",), (), "claude-x", 1000, "/w"),
    User(2, 100.25, (ChannelBlock("Date: today"), TextBlock("fix it")), (1, 1)),
    Reply(
        3,
        101.001,
        (ThinkingBlock("hm", "sig"), TextBlock("Looking."), ToolUseBlock("a", "bash", {"command": "ls"})),
        (1, 1, 1),
        usage=Usage(input=3, output=4, cache_read=5, cache_written=6),
        stop="tool_use",
        model="claude-x",
    ),
    Result(4, 102.5, 3, 2, (TextBlock("x"), ImageBlock("image/png", "aGk=")), (1, 1), error=True),
    User(5, 102.5, (TextBlock("and hurry"), ImageBlock("image/png", "aGk=")), (1, 1), joined=True),
    User(6, 103.0, (TextBlock("continue"),), (1,), source="harness"),
    Reply(7, 104.0, (TextBlock("Done"),), (1,), complete=False, partial="and th", model="claude-y"),
    Metadata(8, 104.0, "name", {"name": "the fix"}),
]


def test_each_block_of_a_reply_is_a_line_and_each_line_follows_the_one_before() -> None:
    made = lines(FACTS)
    *chain, title = made
    assert title == {"type": "custom-title", "customTitle": "the fix", "sessionId": str(session_uuid(SID))}
    assert [line["parentUuid"] for line in chain] == [None, *(line["uuid"] for line in chain[:-1])]
    assert len({UUID(line["uuid"]) for line in chain}) == len(chain)
    shown = [(line["type"], line.get("isMeta", False), line["message"]["content"]) for line in chain]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    text = {"type": "text", "text": "x"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [text, image], "is_error": True}
    assert shown == [
        ("user", True, "Date: today"),
        ("user", False, "fix it"),
        ("assistant", False, [{"type": "thinking", "thinking": "hm", "signature": "sig"}]),
        ("assistant", False, [{"type": "text", "text": "Looking."}]),
        ("assistant", False, [{"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}}]),
        ("user", False, [result]),
        ("user", False, [{"type": "text", "text": "and hurry"}, image]),
        ("user", True, "continue"),
        ("assistant", False, [{"type": "text", "text": "Done"}]),
        ("assistant", False, [{"type": "text", "text": "and th"}]),
    ]
    assert len({line["message"]["id"] for line in chain[2:5]}) == 1 != chain[8]["message"]["id"]
    assert chain[2]["message"]["usage"] == {
        "input_tokens": 3,
        "cache_creation_input_tokens": 6,
        "cache_read_input_tokens": 5,
        "output_tokens": 4,
    }
    assert chain[2]["timestamp"] == "1970-01-01T00:01:41.001Z"
    assert all(line["cwd"] == "/w" and line["sessionId"] == title["sessionId"] for line in chain)


def test_what_was_written_is_read_back_without_what_makeroom_added() -> None:
    made = reread(FACTS)
    prompt, reply, result, joined, last = made.facts
    assert isinstance(prompt, User) and prompt.blocks == (TextBlock("fix it"),)
    assert isinstance(reply, Reply) and isinstance(FACTS[2], Reply)
    assert (reply.blocks, reply.ts, reply.model) == (FACTS[2].blocks, FACTS[2].ts, "claude-x")
    assert isinstance(result, Result) and isinstance(FACTS[3], Result)
    assert (result.content, result.error, result.ts) == (FACTS[3].content, True, 102.5)
    assert isinstance(joined, User) and len(joined.blocks) == 2
    assert isinstance(last, Reply) and last.blocks == (TextBlock("Done"), TextBlock("and th"))
    assert made.skipped == {"messages that Claude Code added": 2, "custom-title lines": 1}
    assert made.damaged == 0


@each_row(
    "made",
    [
        read_lines(*ROLLOUT),
        read_lines(*ENTIRE),
        read(ATIF),
        read({"trajectory_format": "mini-swe-agent-1.1", "messages": MINI}),
    ],
)
def test_an_imported_session_is_equal_after_a_round_trip(made: ImportedSession) -> None:
    back = reread(made.facts)
    assert back.facts == made.facts and back.skipped == {}


def test_odd_blocks_survive_a_round_trip() -> None:
    odd: list[Fact] = [
        User(1, 0.0, (TextBlock("  \n"), UnknownBlock({"type": "document", "title": "é\u2028"})), (1, 1)),
        Reply(2, 0.0, (ToolUseBlock("a", "x", {"INVALID_JSON": "{"}),), (1,), stop="tool_use", model="m"),
        Result(3, 0.0, 2, 0, ()),
        Reply(4, 0.0, (ToolUseBlock("", "x", {}),), (1,), stop="tool_use", model="m"),
        Result(5, 0.0, 4, 0, (TextBlock("of a call without an id"),), (1,)),
        Reply(6, 0.0, (TextBlock("", {"citations": []}),), (1,), stop="end_turn", model="m"),
    ]
    assert reread(odd).facts == odd
    assert "timestamp" not in exported(odd), "an unknown time is not made up"


@pytest.mark.parametrize("seeds", scaled((*range(5), 35, 59), range(5, 150)))
def test_a_random_history_keeps_its_replies_and_is_equal_after_a_second_round_trip(
    seeds: Iterable[int],
) -> None:
    for seed in seeds:
        check_random_history(seed)


def check_random_history(seed: int) -> None:
    facts = fold(history(seed, 60)).facts
    made = lines(facts)
    replies = {line["message"]["id"] for line in made if line["type"] == "assistant"}
    assert len(replies) == sum(
        isinstance(each, Reply) and bool(each.blocks or each.partial) for each in facts
    )
    if not replies:
        with pytest.raises(UnreadableRecording, match="no reply from a model"):
            reread(facts)
        return
    back = reread(facts)
    assert reread(back.facts).facts == back.facts


def test_secrets_are_masked() -> None:
    key = "sk-" + "ant-api03-" + "Ab1_" * 20
    facts = [replace(FACTS[1], blocks=(TextBlock(f"the key is {key} or hunter2hunter2"),)), *FACTS[2:]]
    text = exported([FACTS[0], *facts], secrets=("hunter2hunter2",))
    assert key not in text and "hunter2" not in text and "the key is" in text


def test_ids_are_uuids_and_stay_the_same() -> None:
    own = "0b9fca9c-54f6-4a0c-9d52-3f2d7d4a9c11"
    assert str(session_uuid(own)) == own
    assert session_uuid(SID) == session_uuid(SID) != session_uuid("20261121-093012-aaab")


def test_the_directory_is_named_after_the_project_and_a_long_one_is_found_again(tmp_path: Path) -> None:
    assert claude_code_path(tmp_path, SID, Path("/no/such.dir/p_1")).parent.name == "-no-such-dir-p-1"
    deep = Path("/no", *["directory"] * 30)
    path = claude_code_path(tmp_path, SID, deep)
    start = str(deep).replace("/", "-")[:200]
    assert path.parent.name == f"{start}-makeroom"
    (tmp_path / f"{start}-1x2y3z").mkdir()
    assert claude_code_path(tmp_path, SID, deep).parent.name == f"{start}-1x2y3z"


@pytest.mark.skipif(find_spec("claude_agent_sdk") is None, reason="the SDK is not installed")
@pytest.mark.filterwarnings("ignore")  # warnings of the SDK are not ours
def test_the_sdk_lists_an_exported_session_and_reads_its_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import claude_agent_sdk as sdk

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    project = tmp_path / "pro ject"
    project.mkdir()
    for named, facts in ((True, FACTS), (False, FACTS[:-1])):
        sid = f"{SID}-{named}"
        path = claude_code_path(tmp_path / "config" / "projects", sid, project)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(exported(facts, sid, project))
        (listed,) = (one for one in sdk.list_sessions(str(project)) if one.session_id == path.stem)
        assert listed.summary == ("the fix" if named else "fix it")
        assert (listed.first_prompt, listed.cwd) == ("fix it", str(project))
        assert listed.created_at == 100_250
        messages = sdk.get_session_messages(path.stem, str(project))
        assert [one.type for one in messages] == [
            "user",
            *["assistant"] * 3,
            "user",
            "user",
            *["assistant"] * 2,
        ]
    assert len(sdk.list_sessions(str(project))) == 2


@pytest.mark.bench
@pytest.mark.skipif(not RECORDINGS, reason="MAKEROOM_RECORDINGS names no folder of recordings")
def test_recorded_sessions_are_equal_after_a_round_trip() -> None:
    differing = []
    paths = [
        path for path in sorted(Path(RECORDINGS).iterdir()) if path.suffix in (".jsonl", ".json", ".traj")
    ]
    for path in paths:
        made = import_session(path.read_bytes(), count)
        masked = mask_session(fold(made.facts), SID, SecretMasks())
        if reread(made.facts).facts != list(masked.folded.facts):
            differing.append(path.name)
    print(f"{len(paths)} recordings, {len(differing)} differ")
    assert paths and differing == []

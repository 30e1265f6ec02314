"""A transcript in which a value has another type: another program wrote it, or a version with a defect."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from agent.cli.verify_command import Difference, verify_transcript
from agent.session.repository import SessionRepository
from transcripts.codec import seal
from transcripts.folding import fold
from transcripts.load import read_transcript
from transcripts.session_lock import path_of

from .sample_turn import SID

EVERY_KIND = Path(__file__).with_name("data") / "every_kind.jsonl"
OTHERS: Sequence[Any] = (None, True, 7, 2.5, "text", [], ["x"], {}, {"a": 1})
Place = tuple[str | int, ...]


def parsed_lines() -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in EVERY_KIND.read_bytes().splitlines()]
    return [{**line, "sid": SID} for line in lines if line.pop("crc") and line["v"] == 1]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Every place in a JSON value, without the value itself."""
    if at:
        yield at
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*at, key))


def put(value: Any, at: Place, other: Any) -> Any:
    if not at:
        return other
    copy = value.copy()
    copy[at[0]] = put(value[at[0]], at[1:], other)
    return copy


def value_at(value: Any, at: Place) -> Any:
    for key in at:
        value = value[key]
    return value


def changed_records(lines: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Place, Any]]:
    """The number of a line, a place in it, and each value of another type for that place."""
    for number, line in enumerate(lines):
        for at in places(line):
            old = value_at(line, at)
            yield from ((number, at, other) for other in OTHERS if type(other) is not type(old))


def check(folder: Path, lines: Sequence[dict[str, Any]], number: int, at: Place, other: Any) -> None:
    """Load, fold, verify and resume a transcript in which one value is another one."""
    path = path_of(folder, SID)
    sealed = [seal(put(line, at, other) if index == number else line) for index, line in enumerate(lines)]
    path.write_bytes(b"".join(sealed))
    for defer in (False, True):
        assert len(fold(read_transcript(path, defer=defer).facts).view) > 0
    try:
        verify_transcript(path_of(folder, SID), folder)
    except Difference as difference:
        assert str(difference)
    told: list[str] = []
    SessionRepository(folder, keep=True, tell=told.append).reopen(path).close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path_of(tmp_path, SID).parent.mkdir(mode=0o700)
    return tmp_path.resolve()


def test_a_value_of_another_type_anywhere_stops_nothing(folder: Path) -> None:
    lines = parsed_lines()
    for case in Random(3).sample(list(changed_records(lines)), 40):
        check(folder, lines, *case)


def test_a_session_is_reopened_although_its_last_line_has_no_valid_id(folder: Path) -> None:
    lines = parsed_lines()
    check(folder, lines, len(lines) - 1, ("sid",), [])


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_every_value_of_another_type_stops_nothing(folder: Path) -> None:
    lines = parsed_lines()
    for case in changed_records(lines):
        check(folder, lines, *case)


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("user", "tokens", "many"),
        ("user", "tokens", [1, "2"]),
        ("result", "tokens", 2.5),
        ("started", "of", {}),
        ("noted", "about", None),
        ("opened", "system", [1]),
        ("compacted", "edits", [{"edit": "clear", "seq": [], "block": 0, "field": "content", "text": ""}]),
        ("compacted", "edits", [{"edit": "unthink", "first": None, "last": 2}]),
    ],
)
def test_a_line_with_a_field_of_another_type_is_skipped_and_reported(
    folder: Path, kind: str, field: str, value: object
) -> None:
    lines = parsed_lines()
    number = next(index for index, line in enumerate(lines) if line["kind"] == kind)
    lines[number][field] = value
    path = path_of(folder, SID)
    path.write_bytes(b"".join(map(seal, lines)))
    loaded = read_transcript(path)
    assert [(each.line, each.why) for each in loaded.damaged] == [
        (number + 1, f"the fields of {kind} {lines[number]['seq']} cannot be read")
    ]
    with pytest.raises(Difference, match=f"line {number + 1} is damaged: the fields of {kind}"):
        verify_transcript(path_of(folder, SID), folder)
    assert path.read_bytes() == b"".join(map(seal, lines))
    assert len(fold(loaded.facts).view) > 0

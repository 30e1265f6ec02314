"""The files that a command changed, as they are listed for the user and the model."""

from __future__ import annotations

from agent.checkpoints.change_log import FileChange
from agent.checkpoints.snapshot import THEIRS, PathState
from agent.loop.changed_files import with_changed_files
from tests.tables import each_row
from tools.base import ToolResult, text_result
from transcripts import Display
from transcripts.messages import (
    TextBlock,
)

STATES = {"file": PathState("file"), "none": PathState("none"), "dir": PathState("dir"), "theirs": THEIRS}


def changed(path: str, before: str = "file", after: str = "file") -> FileChange:
    return FileChange(1, path, STATES[before], STATES.get(after))


EIGHT = " ".join(f"{number}.txt" for number in range(8))
MANY = [changed(f"{number}.txt") for number in range(9)]


@each_row(
    "changes, note, line",
    [
        ([changed("a")], "changed a", "changed a"),
        (
            [changed("a", "none"), changed("b", after="none"), changed("c")],
            "changed c; new a; deleted b",
            None,
        ),
        ([changed("a", after="theirs"), changed("b")], "changed b, by another session too a", None),
        ([changed("a", after="")], "changed a", "changed a"),
        ([changed("d", "dir", "none"), changed("e", "none", "dir")], "", ""),
        (MANY[:3], "changed 0.txt 1.txt 2.txt", None),
        (MANY[:4], "changed 0.txt 1.txt and 2 more files", "changed 0.txt 1.txt 2.txt 3.txt"),
        (
            MANY[:8],
            "changed 0.txt 1.txt and 6 more files",
            f"changed {EIGHT}",
        ),
        (MANY, "changed 0.txt 1.txt and 7 more files", ""),
        ([changed("a\nb")], "changed 'a\\nb'", None),
    ],
)
def test_changed_files_are_listed_for_the_user_and_if_few_for_the_model(
    changes: list[FileChange], note: str, line: str | None
) -> None:
    result = text_result("done")
    told = with_changed_files(result, changes, told=True)
    note = note.replace("; ", ", ")
    assert told.human.note == note
    line = note.replace(", ", "; ") if line is None else line
    added = [block.text for block in told.content if isinstance(block, TextBlock)][1:]
    assert added == ([f"[files: {line}]"] if line else [])
    untold = with_changed_files(result, changes, told=False)
    assert untold.content == result.content and untold.human == result.human
    assert untold.about == told.about


def test_a_note_stays_and_files_of_other_sessions_are_not_recorded() -> None:
    result = ToolResult((TextBlock("done"),), human=Display(note="exit 1"), about={"exit": 1})
    found = with_changed_files(result, [changed("a"), changed("b", after="theirs")], told=True)
    assert found.human.note == "exit 1; changed a, by another session too b"
    assert found.about == {"exit": 1, "changed": {"a": "changed"}}
    many = with_changed_files(result, [changed(str(number)) for number in range(101)], told=False)
    assert len(many.about["changed"]) == 100

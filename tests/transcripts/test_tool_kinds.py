"""The kind of a tool is declared in the record, else known by its name."""

from tests.tables import each_row
from transcripts.facts import Opened
from transcripts.folding import fold
from transcripts.tool_kinds import TOOL_KINDS, tool_kind


@each_row(
    ("name", "kind"),
    [
        ("Read", "reads"),
        ("Grep", "searches"),
        ("MultiEdit", "writes"),
        ("bash", "runs"),
        ("recall", "recalls"),
        ("TodoWrite", "plans"),
        ("Task", "other"),
    ],
)
def test_a_tool_that_declares_no_kind_is_known_by_its_name(name: str, kind: str) -> None:
    assert tool_kind(name) == kind


def test_the_newest_declaration_of_a_tool_counts() -> None:
    first = Opened(1, 0.0, (), ({"name": "read", "kind": "asks"},), "m", 1, "/")
    second = Opened(2, 0.0, (), ({"name": "read", "kind": "writes"}, {"name": "x"}), "m", 1, "/")
    assert fold([first]).kind_of("read") == "asks"
    assert fold([first, second]).kind_of("read") == "writes"
    assert fold([first, second]).kind_of("x") == "other"


def test_a_kind_of_a_later_version_is_ignored() -> None:
    assert tool_kind("read", ({"name": "read", "kind": "dreams"},)) == "reads"
    assert "dreams" not in TOOL_KINDS

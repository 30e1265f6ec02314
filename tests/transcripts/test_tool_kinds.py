"""A record tells what kind of work each tool does; undeclared ones are known by their names."""

import pytest

from transcripts.facts import Opened
from transcripts.fold import fold
from transcripts.tool_kinds import TOOL_KINDS, tool_kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Read", "reads"), ("MultiEdit", "writes"), ("bash", "runs"), ("recall", "recalls"), ("Task", "other")],
)
def test_a_tool_that_declares_nothing_is_known_by_its_name(name: str, kind: str) -> None:
    assert tool_kind(name) == kind


def test_what_the_session_declared_counts_and_the_newest_declaration_wins() -> None:
    first = Opened(1, 0.0, (), ({"name": "read", "kind": "asks"},), "m", 1, "/")
    second = Opened(2, 0.0, (), ({"name": "read", "kind": "writes"}, {"name": "x"}), "m", 1, "/")
    assert fold([first]).kind_of("read") == "asks"
    assert fold([first, second]).kind_of("read") == "writes"
    assert fold([first, second]).kind_of("x") == "other"


def test_a_kind_of_a_later_version_is_passed_over() -> None:
    assert tool_kind("read", ({"name": "read", "kind": "dreams"},)) == "reads"
    assert "dreams" not in TOOL_KINDS

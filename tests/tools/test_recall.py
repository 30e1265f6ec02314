"""Recall gives back the original byte for byte; compact asks for room; input is read forgivingly."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.arguments import parse
from tools.base import Access, ToolCall, ToolContext, ToolError, ToolResult
from tools.compact import COMPACT
from tools.edit import EDIT
from tools.read import READ
from tools.recall import PAGE, RECALL

from .desk import text


class Shelf:
    def __init__(self, **originals: str) -> None:
        self.originals = originals

    def original(self, id: str) -> str:
        if id not in self.originals:
            raise KeyError(*self.originals)
        return self.originals[id]

    def find(self, words: str) -> list[tuple[str, str]]:
        return [(id, whole[:40]) for id, whole in self.originals.items() if words in whole]


def recall(shelf: Shelf | None, **given: Any) -> ToolResult:
    place = ToolContext(Path("/"), Path("/"), Path("/none"), Path("/none"), library=shelf)
    return asyncio.run(RECALL.run(parse(RECALL, given), ToolCall(place)))


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.integers(1, 50))
def test_the_pages_of_an_original_are_the_original(whole: str, limit: int):
    place = ToolContext(Path("/"), Path("/"), Path("/none"), Path("/none"), library=Shelf(r57=whole))
    pages = ""
    while len(pages) < len(whole):
        arguments = parse(RECALL, {"id": "r57", "offset": len(pages), "limit": limit})
        pages += asyncio.run(RECALL.run(arguments, ToolCall(place))).content[0].text
    assert pages == whole


def test_a_long_original_says_where_to_continue():
    whole = "x" * (PAGE + 10)
    first = recall(Shelf(r5=whole), id="r5")
    assert first.content[0].text == "x" * PAGE
    assert first.content[1].text == f"[characters 0-{PAGE} of {PAGE + 10} of r5; continue with offset={PAGE}]"
    assert recall(Shelf(r5=whole), id="[r5]", offset=PAGE, limit=10**6).content[0].text == "x" * 10
    assert "past the end" in text(recall(Shelf(r5=whole), id="r5", offset=PAGE + 10))
    assert text(recall(Shelf(r5=""), id="r5")) == "[r5 is empty]"


def test_words_are_looked_for():
    shelf = Shelf(**{f"r{n}": f"apple {n}" for n in range(25)})
    found = text(recall(shelf, query="apple"))
    assert found.startswith("r0: apple 0\n") and "[10 of 25 shown; continue with offset=10]" in found
    assert text(recall(shelf, query="apple", offset=20)).count("\n") == 4
    assert text(recall(shelf, query="pear")) == "Nothing in this session holds: pear"


@pytest.mark.parametrize(
    ("shelf", "given", "told"),
    [
        (Shelf(r5="x", r7="y"), {"id": "r6"}, "near it: r5, r7"),
        (Shelf(), {"id": "r6"}, "Look for it"),
        (Shelf(), {}, "Neither"),
        (Shelf(), {"id": " ", "query": ""}, "Neither"),
        (None, {"id": "r6"}, "no record"),
    ],
)
def test_what_cannot_be_recalled_is_told(shelf: Shelf | None, given: dict[str, str], told: str):
    with pytest.raises(ToolError, match=told):
        recall(shelf, **given)


def test_compact_asks_for_room_and_answers_at_once():
    asked: list[str] = []
    place = ToolContext(Path("/"), Path("/"), Path("/none"), Path("/none"), compact=asked.append)
    arguments = parse(COMPACT, {"focus": " the parser "})
    outcome = asyncio.run(COMPACT.run(arguments, ToolCall(place)))
    assert asked == ["the parser"]
    assert "before the next request" in text(outcome)
    assert COMPACT.touches(arguments, place) == (Access("none"),)
    assert RECALL.touches(parse(RECALL, {"id": "r1"}), place) == (Access("none"),)
    assert COMPACT.title(parse(COMPACT, {})) == "make room"


def test_harmless_forms_of_input_are_understood():
    assert parse(READ, {"file_path": "f", "offset": "5", "limit": 7.0}).model_dump() == {
        "file_path": "f",
        "offset": 5,
        "limit": 7,
    }
    assert parse(
        EDIT, {"file_path": "f", "old_string": "a", "new_string": "b", "replace_all": "true"}
    ).replace_all
    assert parse(READ, {"file_path": "f", "offset": '"5"'}).offset == 5
    assert parse(READ, {"file_path": "f", "offset": "null"}).offset is None
    assert parse(EDIT, {"file_path": "f", "old_string": "5", "new_string": "[1]"}).old_string == "5"


def test_wrong_input_is_named_with_what_is_possible():
    with pytest.raises(ToolError) as caught:
        parse(READ, {"path": "f", "offset": "x", "colour": 1})
    told = str(caught.value)
    assert "The required parameter `file_path` is missing." in told
    assert "An unexpected parameter `path` was provided. Did you mean `file_path`?" in told
    assert "An unexpected parameter `colour` was provided.\n" in told
    assert "`offset` is 'x'" in told
    assert "Its parameters are: file_path (required), offset, limit." in told
    with pytest.raises(ToolError, match="content"):
        parse(EDIT, {"file_path": "f", "old_string": "a", "new_string": {"content": 1}})

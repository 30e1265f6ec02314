"""Recall gives back the original byte for byte, page by page; compact asks for a compaction."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import transcripts.search.originals
from tests.narrowing import block_text
from tests.sampling import UNICODE
from tests.tables import each_row
from tools import compact, recall
from tools.base import Access, ToolCall, ToolContext, ToolError, ToolResult
from tools.recall import MAX_PAGE_CHARS
from tools.spawning import CallPlace
from transcripts import Display
from transcripts.facts import Clear, Fold, Result, User
from transcripts.folding import fold
from transcripts.messages import TextBlock
from transcripts.search import SearchHits
from transcripts.search.hits import Hit

from .file_session import text
from .tool_run import run_tool

NOWHERE = Path("/none")


class Originals:
    """A record that holds these texts."""

    folded = fold([User(98, 0.0, (TextBlock("which pear?"),), (3,))])

    note = ""

    def __init__(self, **originals: str) -> None:
        self.originals = originals

    def original(self, id: str) -> str:
        if id not in self.originals:
            raise KeyError(f"unknown recall id {id}. Closest ids: {', '.join(self.originals)}")
        return self.originals[id]

    def find(self, words: str, scope: str, limit: int) -> SearchHits:
        found = [(id, whole) for id, whole in self.originals.items() if words in whole][:limit]
        hits = [Hit(id, "s", 0.0, f"{scope} hit", (whole[:40],), 1.0) for id, whole in found]
        return SearchHits(tuple(hits), "too common" if words == "the" else self.note)

    def prompt_in_view(self) -> str:
        return transcripts.search.originals.Originals(self.folded, outputs=NOWHERE).prompt_in_view()


async def asked(originals: Originals | None, page_bytes: int = MAX_PAGE_CHARS, **given: Any) -> ToolResult:
    lookup: Any = None if originals is None else lambda: originals
    context = ToolContext(Path("/"), Path("/"), NOWHERE, NOWHERE, lookup=lookup)
    context.page_bytes = lambda: page_bytes
    return await run_tool(recall.TOOL, recall.TOOL.parse(given), ToolCall(context, place=CallPlace(99)))


def ask(originals: Originals | None, **given: Any) -> ToolResult:
    return asyncio.run(asked(originals, **given))


def test_a_search_says_what_is_not_indexed_yet():
    note = "[2.5 MB of transcripts are not indexed yet: search again later]"
    originals = Originals(r7="a pear")
    assert "indexed" not in text(ask(originals, query="pear"))
    originals.note = "2.5 MB of transcripts are not indexed yet: search again later"
    for query in ("pear", "plum"):
        assert text(ask(originals, query=query)).splitlines()[-1] == note


def test_pages_are_as_small_as_the_window_wants_them():
    page = ask(Originals(r57="abcdefgh"), page_bytes=3, id="r57")
    assert text(page).startswith("abc\n") and "offset=3" in text(page)


@given(st.text(UNICODE, max_size=200), st.integers(1, 50))
def test_the_pages_of_an_original_are_the_original(whole: str, limit: int):
    async def all_pages() -> str:
        pages = ""
        while len(pages) < len(whole):
            page = await asked(Originals(r57=whole), id="r57", offset=len(pages), limit=limit)
            pages += block_text(page.content[0])
        return pages

    assert asyncio.run(all_pages()) == whole


def test_a_long_original_says_where_to_continue():
    page = MAX_PAGE_CHARS
    long = Originals(r5="x" * (page + 10))
    first = ask(long, id="r5")
    assert block_text(first.content[0]) == "x" * page
    note = f"[characters 0-{page} of {page + 10} of r5; continue with offset={page}]"
    assert block_text(first.content[1]) == note
    last = ask(long, id="[r5]", offset=page, limit=10**6)
    assert block_text(last.content[0]) == "x" * 10
    assert "past the end" in text(ask(long, id="r5", offset=page + 10))
    assert text(ask(Originals(r5=""), id="r5")) == "[r5 is empty]"


def test_words_are_looked_for():
    originals = Originals(**{f"r{n}": f"apple {n}" for n in range(25)})
    found = text(ask(originals, query="apple"))
    assert found.startswith("r0  1970-01-01  session hit\n    apple 0\nr1")
    assert found.endswith("[8 shown, more available; continue with offset=8]")
    assert text(ask(originals, query="apple", offset=20)).count("apple") == 5
    assert "project hit" in text(ask(originals, query="apple", scope="project"))
    assert ask(originals, query="apple").about == ask(originals, id="r7").about == {Result.RECALLED: True}
    assert ask(originals, query="apple").human == Display(note="8 found, more available")
    assert ask(originals, query="apple", offset=20).human == Display(note="5 found")
    assert text(ask(originals, query="apple", offset=25)) == "[offset 25 is past the end: 25 found]"
    many = Originals(**{f"r{n}": "apple" for n in range(200)})
    assert text(ask(many, query="apple", offset=96)).endswith(
        "[100 shown, more available; search for other words]"
    )
    twice = Originals(**{"r5": "a pear", "r98": "which pear?", "r99": '{"query": "pear"}', "r99.0": "pear"})
    assert text(ask(twice, query="pear")).splitlines()[1:] == ["    a pear"]  # not what is in view
    assert text(ask(originals, query="pear")).startswith("No matches in this session: pear; scope")
    assert text(ask(originals, query="pear", scope="project")) == "No matches in this project: pear"
    assert text(ask(originals, query="the")) == "No matches in this session: the\n[too common]"


@pytest.mark.parametrize(
    "edit", [Fold(98, 98, (TextBlock("record"),), 1), Clear(98, 0, "text", "[cleared]", 2)]
)
def test_a_prompt_that_is_not_shown_whole_is_found(edit: Fold | Clear):
    pear = Originals(r98="which pear?")
    assert text(ask(pear, query="pear")).startswith("No matches")
    pear.folded = pear.folded.with_edits((edit,))
    assert text(ask(pear, query="pear")).endswith("which pear?")


@each_row(
    ("originals", "given", "told"),
    [
        (Originals(r5="x", r7="y"), {"id": "r6"}, r"^Unknown recall id r6\. Closest ids: r5, r7\.\n"),
        (Originals(), {"id": "r6"}, "search with `query`"),
        (Originals(), {}, "Neither"),
        (Originals(), {"id": " ", "query": ""}, "Neither"),
        (None, {"id": "r6"}, "no transcript"),
    ],
)
def test_what_cannot_be_recalled_is_reported(originals: Originals | None, given: dict[str, str], told: str):
    with pytest.raises(ToolError, match=told):
        ask(originals, **given)


def test_compact_answers_with_what_will_happen():
    async def ask_to_compact(focus: str) -> str:
        return f"kept: {focus}"

    context = ToolContext(Path("/"), Path("/"), NOWHERE, NOWHERE, compact=ask_to_compact)
    arguments = compact.TOOL.parse({"focus": " the parser "})
    result = asyncio.run(run_tool(compact.TOOL, arguments, ToolCall(context)))
    assert text(result) == "kept: the parser"
    assert compact.TOOL.title(compact.TOOL.parse({})) == "free context"
    alone = ToolContext(Path("/"), Path("/"), NOWHERE, NOWHERE)
    result = asyncio.run(run_tool(compact.TOOL, arguments, ToolCall(alone)))
    assert text(result) == "This session is not compacted."


def test_neither_needs_permission():
    context = ToolContext(Path("/"), Path("/"), NOWHERE, NOWHERE)
    for tool in (compact.TOOL, recall.TOOL):
        assert tool.access(tool.parse({}), context) == (Access("none"),)

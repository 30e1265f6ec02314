"""Streamed markdown is cut where nothing to come can change what is already there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.ui.markdown_stream import SLICE, MarkdownStream


def blocks(text, step=1):
    flow = MarkdownStream()
    found = []
    for at in range(0, len(text), step):
        found += flow.feed(text[at : at + step])
    return [chunk.text for chunk in [*found, *flow.end()]]


def finished(text):
    """What is finished before the end is known, and what is still the tail."""
    flow = MarkdownStream()
    return [chunk.text for chunk in flow.feed(text)], flow.tail


def test_a_paragraph_is_finished_by_what_follows_its_blank_line():
    assert finished("one\ntwo\n\n") == ([], "one\ntwo")
    assert finished("one\ntwo\n\nth") == (["one\ntwo"], "th")


def test_an_indented_line_after_a_blank_one_still_belongs_to_the_list():
    assert finished("- a\n\n  more of a\n") == ([], "- a\n\n  more of a")


def test_a_heading_is_finished_at_once_and_ends_a_paragraph():
    assert finished("words\n# Title\n") == (["words", "# Title"], "")


def test_a_fence_is_finished_by_its_closing_and_keeps_blank_lines():
    assert finished("```py\na\n\n\nb\n")[0] == []
    assert finished("```py\na\n\n\nb\n```\n") == (["```py\na\n\n\nb\n```"], "")


@pytest.mark.parametrize("inner", ["~~~", "``", "```` not closed"])
def test_a_fence_is_not_closed_by_another_mark(inner):
    text = f"````\n{inner}\nx\n````\n" if inner.startswith("~") else f"~~~\n{inner}\nx\n~~~\n"
    assert blocks(text) == [text.strip("\n")]


def test_a_fence_within_a_list_item_does_not_end_the_list():
    text = "- item\n  ```\n  code\n  ```\n- next"
    assert blocks(text) == [text]


def test_a_long_fence_is_cut_into_slices_that_are_fences_themselves():
    code = [f"line {number}" for number in range(3 * SLICE)]
    found = blocks("```py\n" + "\n".join(code) + "\n```\n")
    assert len(found) > 2
    assert all(piece.startswith("```py\n") and piece.endswith("\n```") for piece in found)
    assert [line for piece in found for line in piece.split("\n")[1:-1]] == code


def test_a_long_tight_list_is_cut_at_items():
    items = [f"- item {number}" for number in range(200)]
    found = blocks("\n".join(items))
    assert len(found) > 2
    assert "\n".join(found).split("\n") == items


def test_an_inline_pair_of_backticks_opens_no_fence():
    assert blocks("```code``` in a line\n\nnext") == ["```code``` in a line", "next"]


def test_a_new_text_after_the_end_starts_clean():
    flow = MarkdownStream()
    flow.feed("```\nopen")
    flow.end()
    assert [chunk.text for chunk in flow.feed("para\n\nnext")] == ["para"]


PIECES = st.sampled_from(
    [
        "word",
        "\n",
        "\n\n",
        "# h\n",
        "- i\n",
        "  x\n",
        "```\n",
        "~~~\n",
        "1. n\n",
        "| a | b |\n",
        "> q\n",
        " ",
        "\r\n",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=30), st.integers(1, 9))
def test_however_it_is_cut_into_deltas_the_blocks_are_the_same_and_no_word_is_lost(pieces, step):
    text = "".join(pieces)
    assert blocks(text, step) == blocks(text, max(len(text), 1))
    kept = "\n".join(blocks(text))
    for word in ("word", "# h", "- i", "1. n", "> q"):
        assert kept.count(word) == text.replace("\r\n", "\n").count(word)

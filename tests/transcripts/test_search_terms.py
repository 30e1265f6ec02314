import pytest

from transcripts.search_terms import MAX_QUERY_TERMS, document_terms, query_terms


def texts(query: str) -> set[str]:
    return {term.text for term in query_terms(query)}


@pytest.mark.parametrize("name", ["max_tokens", "maxTokens", "max-tokens", "max.tokens"])
def test_a_name_is_found_in_any_spelling_by_its_parts_and_as_a_whole(name: str) -> None:
    assert set(document_terms(f"({name})")) == {"max", "tokens", "max_tokens"} == texts(name)


def test_a_path_is_found_by_its_folders_its_file_and_as_a_whole() -> None:
    terms = set(document_terms("see agent/loop/turn_state.py:12"))
    assert {"agent", "loop", "turn", "state", "py", "agent_loop_turn_state_py_12"} <= terms
    assert "turn_state_py" in document_terms("agent/loop/turn_state.py")
    assert "turn_state_py" in texts("turn_state.py")


def test_acronyms_and_digits_end_a_part() -> None:
    assert {"http", "server", "sha", "256"} <= set(document_terms("HTTPServer sha256"))


def test_text_without_spaces_is_found_by_pairs() -> None:
    assert {"検索", "索引"} <= set(document_terms("検索索引を作る")) & (texts("検索索引") | {"索引"})


def test_line_numbers_hashes_and_blobs_are_left_out() -> None:
    assert document_terms("     7\tword\n  1234→other") in (["word", "other"], ["other", "word"])
    assert document_terms("A" * 500_000) == document_terms("a_" * 250_000 + "b")[4:] == []


def test_a_question_is_asked_by_its_telling_words() -> None:
    assert texts("Where did we put the retry limit?") == {"put", "retry", "limit"}
    assert texts("what is it") == {"what", "is", "it"}  # better than nothing
    assert query_terms("?!") == ()


def test_a_star_asks_for_words_that_begin_so() -> None:
    (term,) = query_terms("compac*")
    assert (term.text, term.is_prefix) == ("compac", True)


def test_of_a_long_query_the_most_telling_terms_are_kept() -> None:
    terms = query_terms(" ".join(f"word{'x' * (n % 9)}{n}" for n in range(500)) + " some_long_compound_name")
    assert len(terms) == MAX_QUERY_TERMS
    assert terms[0].text == "some_long_compound_name"

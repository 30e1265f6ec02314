"""The canned summary has the shape and size of a model's, and contains nothing from results."""

from agent.replay.canned_summary import CANNED_SUMMARY_TOKENS, SUMMARY_SECTIONS, canned_summary
from compact import names
from tests.narrowing import block_text
from transcripts.facts import Result
from transcripts.folding import fold

from .sessions import count_text, session


def test_a_long_session_gives_a_summary_of_a_usual_size():
    text = canned_summary(fold(session(200)), count_text)
    assert 1_500 <= count_text(text) <= CANNED_SUMMARY_TOKENS + 50


def test_it_has_an_analysis_and_nine_sections_in_order():
    text = canned_summary(fold(session(5)), count_text)
    assert text.startswith("<analysis>") and text.endswith("</summary>")
    places = [text.index(f"{number}. {heading}") for number, heading in enumerate(SUMMARY_SECTIONS, 1)]
    assert len(places) == 9 and places == sorted(places)


def test_names_that_only_results_had_are_not_in_it():
    facts = session(6)
    text = canned_summary(fold(facts), count_text)
    newest = next(fact for fact in reversed(facts) if isinstance(fact, Result))
    assert names(block_text(newest.content[0])) == {"name_5_x"}
    assert "name_5_x" not in text
    assert "src/part_5.py" in text and "never push" in text


def test_the_same_session_gives_the_same_text():
    assert canned_summary(fold(session(9)), count_text) == canned_summary(fold(session(9)), count_text)

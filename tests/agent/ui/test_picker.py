"""A menu takes the place of the input: keys move in it, search it, and never touch the draft."""

import pytest

from .person import Person

CHOICES = (
    ("\r", "apple"),
    ("\x1b[B\r", "banana"),
    ("\x1b[B\x1b[B\x1b[A\r", "banana"),
    ("\x0e\x10\x0e\r", "banana"),
    ("\x1b[F\x1b[A\r", "grape"),
    ("\x1b[F\x1b[H\r", "apple"),
    ("AN\r", "banana"),
    ("zzz\x15gr\r", "grape"),
    ("zzz\x7f\x7f\x7f\r", "apple"),
    ("no. 4\r", "elder"),
    ("\x1b[200~che\x1b[201~\r", "cherry"),
    ("日本\r", "日本の梨"),
    ("\x1b", "nothing"),
    ("\x03", "nothing"),
    ("\x04", "nothing"),
    ("zzz\r\x03", "nothing"),
)


@pytest.fixture
def person(tmp_path):
    with Person(tmp_path) as someone:
        yield someone.ready()


def pick(person, what, title):
    return person.type(f"pick {what}\r").sees(title, "Esc cancels")


def test_keys_choose_or_cancel_without_a_trace(person):
    for count, (keys, expected) in enumerate(CHOICES, 1):
        pick(person, "fruits", "Which fruit?").type(keys)
        person.until(lambda count=count: person.log.count("picked") == count, repr(keys))
        assert person.log.rstrip().rpartition("picked ")[2].startswith(f"'{expected}"), keys
        person.misses("Which fruit?")
    assert "interrupted" not in person.log and "Interrupted" not in person.everything
    assert b"\x1b[31m\r" not in person.raw and "␛[31m" in person.raw.decode()


def test_pages_move_by_what_is_shown(person):
    pick(person, "many", "Which number?").type("\x1b[6~").misses("❯ number 0")
    shown = person.text
    person.type("\x1b[5~").sees("❯ number 0").type("\x1b[6~\r").logged("picked")
    assert f"❯ number {person.log.rpartition('picked ')[2].strip()[1:-1]}\n" in shown


def test_a_draft_stays_as_it_was_and_words_go_into_the_search(person):
    person.type("wait gate;say ready\r").sees("Ctrl-C to interrupt").type("pick fruits\r").sees("1 queued")
    person.type("draft ").sees("❯ draft").open().sees("Which fruit?")
    person.type("one fig\x17\x0b\x01 \x1b[200~a\nb\x1b[201~").sees("search: one a b").type("\x1b")
    person.logged("picked 'nothing'").type("goes on").sees("❯ draft goes on")


def test_a_question_is_answered_by_its_digit_but_not_by_a_key_meant_for_something_else(person):
    pick(person, "question", "Sure?").again("2", lambda: "picked 'no'" in person.log).misses("Sure?")
    person.type("\x15pick question\r\r").sees("Sure?").again("\r", lambda: "picked 'yes'" in person.log)


def test_any_screen_shows_the_marked_row_also_after_a_resize(person):
    pick(person, "fruits", "Which fruit?")
    for size in ((30, 12), (40, 24), (120, 30), (80, 5)):
        person.resize(*size).type("\x1b[B").sees("❯ banana").type("\x1b[A").sees("❯ apple")


def test_a_prompt_that_was_taken_back_is_in_the_input_before_the_draft(person):
    person.type("wait gate\r").sees("Ctrl-C to interrupt").type("back\r").sees("1 queued").type("draft")
    person.open().sees("❯ taken back\n  draft")


def test_line_by_line_a_number_chooses(tmp_path):
    with Person(tmp_path, WORDS="--plain") as person:
        person.sees(">").type("pick fruits\r").sees("Which fruit?", "  2  no. 1  banana", "Which? (")
        person.type("x\r").until(lambda: person.text.count("Which? (") == 2)
        person.type("2\r").logged("picked 'banana'").type("pick question\r").sees("Sure?")
        person.type("\r").logged("picked 'nothing'")

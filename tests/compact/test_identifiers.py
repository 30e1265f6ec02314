"""Paths and identifiers are found in a text, ordinary words are not, and no text takes long."""

import pytest

from compact.identifiers import names, strings, whole_name_counts
from tests.tables import each_row


@each_row(
    ("text", "found"),
    [
        ("see src/app.py, not it", {"src/app.py"}),
        ("~/.config/x.toml and /etc/hosts", {"~/.config/x.toml", "/etc/hosts"}),
        ("1/2 3/4 a/b 12/34/56", set()),
        ("a/b/cd", {"a/b/cd"}),
        ("in src/app.py/, a/b/cd/. or my_module/", {"src/app.py", "a/b/cd", "my_module"}),
        ("README.md v1.2 3.14 e.g. it.x", {"README.md", "e.g", "it.x"}),
        ("--out.py", {"out.py"}),
        ("some_name someName SomeName some-name ordinary words", {"some_name", "someName", "SomeName"}),
        ("_private trailing_", set()),
        ("ab12cd9 1234567 abcdefa 12ab " + "a1" * 20 + " " + "a1" * 21, {"ab12cd9", "a1" * 20}),
        ("pkg.module.Class pkg.module.aMethod", {"pkg.module.Class", "aMethod"}),
        ("pkg.mod.Klass", {"pkg.mod.Klass"}),
    ],
)
def test_names_are_paths_and_identifiers(text, found):
    assert names(text) == found


def test_names_are_counted():
    assert whole_name_counts("some_name, other_name and some_name") == {"some_name": 2, "other_name": 1}


@pytest.mark.timeout(20)  # a pattern that goes back takes minutes
@pytest.mark.parametrize("piece", ["0001", "x1-", "1.", "a--", ".", "-", "a/", "ab+/", "./", "../", "~/."])
def test_a_long_unbroken_text_takes_no_longer_than_another(piece):
    text = piece * (60_000 // len(piece))
    assert len(names(f"{text} some_name")) <= 2 and "some_name" in names(f"{text} some_name")


def test_every_string_of_a_value_is_found():
    assert list(strings({"a": ["b", {"c": ("d", 5)}], "e": None})) == ["b", "d"]


def test_names_are_the_same_however_often_and_in_whatever_texts_they_are_looked_for():
    long = f"some_name{'x' * 300}"
    text = f"state.AgentType AgentType data-testid {long} word ab 1/2 src/a.py"
    found = {"state.AgentType": 1, "AgentType": 1, "data-testid": 1, long: 1, "src/a.py": 1}
    for _ in range(2):
        assert whole_name_counts(text) == found
        assert whole_name_counts(f"{text} {text} state.AgentType") == {
            name: 3 if name == "state.AgentType" else 2 for name in found
        }

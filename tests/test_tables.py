"""A table is one test, whose failure lists every row that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from .tables import each_row


def test_the_failure_lists_every_wrong_row_and_why() -> None:
    @each_row("number, name", [(1, "one"), (2, "two"), pytest.param(3, "three"), (4, "four")])
    def check(number: int, name: str) -> None:
        assert len(name) == 3, f"{name} is long"
        if number == 2:
            raise ValueError("even")

    with pytest.raises(AssertionError, match="3 of 4 rows fail") as failed:
        check()
    text = str(failed.value)
    for row, reason in (
        ("number=2, name='two'", "ValueError: even"),
        ("number=3, name='three'", "three is long"),
        ("number=4, name='four'", "four is long"),
    ):
        assert row in text and reason in text.partition(row)[2], row
    assert "'one'" not in text
    assert isinstance(failed.value.__cause__, ValueError)


def test_an_expected_error_that_does_not_come_is_a_failure() -> None:
    @each_row("text", ["1", "x"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(AssertionError, match="1 of 2 rows fail:\n- text='1'"):
        check()


def test_the_rows_behind_one_that_is_skipped_are_checked() -> None:
    @each_row("number", [1, 2, 3])
    def check(number: int) -> None:
        if number != 2:
            pytest.skip("not here")
        raise ValueError(number)

    with pytest.raises(AssertionError, match="1 of 3 rows fail:\n- number=2"):
        check()


def test_a_table_whose_right_rows_include_a_skipped_one_is_skipped() -> None:
    seen = []

    @each_row("number", [1, 2])
    def check(number: int) -> None:
        seen.append(number)
        if number == 1:
            pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception, match="not here"):
        check()
    assert seen == [1, 2]


def test_a_mark_of_a_row_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="marks of its own"):
        each_row("text", [pytest.param("a", marks=pytest.mark.sweep)])


def test_a_table_without_a_row_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="without a row"):
        each_row("text", [])


def test_each_combination_of_two_tables_has_a_directory_of_its_own(tmp_path: Path) -> None:
    seen = set()

    @each_row("first", ["a", "b"])
    @each_row("second", ["c", "d"])
    def check(tmp_path: Path, first: str, second: str) -> None:
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "used").touch()
        seen.add((tmp_path, first, second))

    check(tmp_path=tmp_path)
    assert len({path for path, _, _ in seen}) == 4
    assert {(first, second) for _, first, second in seen} == {(a, b) for a in "ab" for b in "cd"}

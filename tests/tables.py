"""Check all the rows of a table in one test, whose failure lists every row that is wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import pytest

MOST_OF_A_ROW = 300  # characters
MOST_OF_A_REASON = 600


def each_row(
    names: str | Sequence[str], rows: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with each row of a table, as `parametrize` does, but within one test.

    All rows share the fixtures of the test, except that each has a directory of its own below `tmp_path`. So
    rows may change nothing else. Collecting, setting up and reporting a test takes longer than most rows. A
    row that is skipped does not end the test, which is skipped after all rows if none fails.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [values_of(row, len(columns)) for row in rows]
    assert table, "a table without a row would pass whatever happens"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def check_all(**fixtures: Any) -> None:
            failures = []
            skipped: BaseException | None = None
            for number, row in enumerate(table):
                values = dict(zip(columns, row, strict=True))
                failure = failure_of(test, {**values, **fixtures_of_row(fixtures, number)})
                if isinstance(failure, pytest.skip.Exception):
                    skipped = failure
                elif failure is not None:
                    failures.append((row, failure))
            if failures:
                described = "\n".join(describe(columns, row, failure) for row, failure in failures)
                raise AssertionError(
                    f"{len(failures)} of {len(table)} rows fail:\n{described}"
                ) from failures[0][1]
            if skipped is not None:
                raise skipped

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        check_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return check_all

    return decorate


def values_of(row: Any, columns: int) -> tuple[Any, ...]:
    """Return the values of a row of `parametrize`: a value, several, or `pytest.param` without marks."""
    if isinstance(row, type(pytest.param())):
        assert not row.marks, f"a row of a table cannot have marks of its own: {row}"
        return tuple(row.values)
    return (row,) if columns == 1 else tuple(row)


def fixtures_of_row(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    """Return the fixtures of the test, with a directory of its own for this row."""
    if "tmp_path" not in fixtures:
        return fixtures
    folder = fixtures["tmp_path"] / str(number)
    folder.mkdir()
    return {**fixtures, "tmp_path": folder}


def failure_of(test: Callable[..., None], arguments: dict[str, Any]) -> BaseException | None:
    """Return what one row raised: an error, or what `pytest.raises` and `pytest.skip` raise."""
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as raised:  # noqa: BLE001  raised later
        return raised
    return None


def describe(columns: list[str], row: tuple[Any, ...], failure: BaseException) -> str:
    """Return one wrong row, and the beginning of the reason."""
    values = ", ".join(f"{name}={value!r}"[:MOST_OF_A_ROW] for name, value in zip(columns, row, strict=True))
    reason = f"{type(failure).__name__}: {failure}"[:MOST_OF_A_REASON]
    return f"- {values}\n    " + reason.replace("\n", "\n    ")

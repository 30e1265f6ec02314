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

    All rows share the fixtures of the test, except that each has a directory of its own below `tmp_path`: it
    is for rows that change nothing else. To collect, set up and report a test takes longer than such a row.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [values_of(row, len(columns)) for row in rows]
    assert table, "a table without a row would pass whatever happens"

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def check_all(**fixtures: Any) -> None:
            failures = []
            for number, row in enumerate(table):
                values = dict(zip(columns, row, strict=True))
                failure = failure_of(test, {**values, **fixtures_of_row(fixtures, number)})
                if failure is not None:
                    failures.append((row, failure))
            if failures:
                described = "\n".join(describe(columns, row, failure) for row, failure in failures)
                raise AssertionError(
                    f"{len(failures)} of {len(table)} rows fail:\n{described}"
                ) from failures[0][1]

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in columns]
        check_all.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return check_all

    return decorate


def values_of(row: Any, columns: int) -> tuple[Any, ...]:
    """The values of a row of `parametrize`: a value, several, or `pytest.param`."""
    if isinstance(row, type(pytest.param())):
        return tuple(row.values)
    return (row,) if columns == 1 else tuple(row)


def fixtures_of_row(fixtures: dict[str, Any], number: int) -> dict[str, Any]:
    """The fixtures of the test, with a directory of its own for this row."""
    if "tmp_path" not in fixtures:
        return fixtures
    folder = fixtures["tmp_path"] / str(number)
    folder.mkdir()
    return {**fixtures, "tmp_path": folder}


def failure_of(test: Callable[..., None], arguments: dict[str, Any]) -> BaseException | None:
    """What is wrong with one row: an error, or a failure of `pytest.raises`, which is no Exception."""
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001  raised again when all rows are done
        return failure
    return None


def describe(columns: list[str], row: tuple[Any, ...], failure: BaseException) -> str:
    """One row that is wrong, and the beginning of the reason."""
    values = ", ".join(f"{name}={value!r}"[:MOST_OF_A_ROW] for name, value in zip(columns, row, strict=True))
    reason = f"{type(failure).__name__}: {failure}"[:MOST_OF_A_REASON]
    return f"- {values}\n    " + reason.replace("\n", "\n    ")

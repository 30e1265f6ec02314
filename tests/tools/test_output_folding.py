"""Repeated lines of a command's output are counted; text that may have to be edited is never changed."""

import pytest

from tools.processes.output_folding import fold_output

from .bash_session import BashSession, text

FAILED = "FAILED tests/test_a.py::test_9 - assert 1 == 2"
PYTEST = [f"tests/test_a.py::test_{number} PASSED   [ {number:2d}%]" for number in range(40)]


@pytest.mark.parametrize(
    "lines",
    [
        PYTEST,
        [f"test parser::case_{number} ... ok" for number in range(40)],
        [f"{word}TestCase/number_{number}" for number in range(20) for word in ("=== RUN   ", "--- PASS: ")],
        [f"ok  \texample.org/project/package_{number}\t0.{number}s" for number in range(40)],
        [f"ok {number} - it keeps what it is given" for number in range(40)],
        [f"  ✓ keeps what it is given, case {number} (3 ms)" for number in range(40)],
    ],
)
def test_tests_that_passed_are_counted_and_what_failed_stays(lines: list[str]) -> None:
    output = "\n".join(["collected 41", *lines[:30], FAILED, *lines[30:], "1 failed"])
    told = [
        "collected 41",
        "[30 lines of passed tests]",
        FAILED,
        "[10 lines of passed tests]",
        "1 failed",
    ]
    assert fold_output(output, "make test 2>&1 | tail -50").split("\n") == told


def test_equal_lines_and_progress_are_counted() -> None:
    waits, moves = ["waiting for the port"] * 50, [f"Downloading layer {number}%" for number in range(50)]
    folded = fold_output("\n".join(["begin", *waits, *moves, "done"]), "./up.sh").split("\n")
    assert folded == [
        "begin",
        "waiting for the port",
        "[the same line 49 more times]",
        "Downloading layer 0%",
        "[48 lines of progress]",
        "Downloading layer 49%",
        "done",
    ]


@pytest.mark.parametrize(
    "command",
    [
        "cat tests.log",
        "cd x && cat tests.log",
        "git diff",
        "git -C x show HEAD:a",
        "sudo sed -n 1,50p f",
        "find . | xargs cat",
        "FOO=1 grep -rn x .",
    ],
)
def test_what_shows_files_or_changes_stays_unchanged(command: str) -> None:
    output = "\n".join(PYTEST + ["x"] * 300)
    assert fold_output(output, command) == output


def test_few_and_differing_lines_stay_unchanged() -> None:
    output = "\n".join(
        f"{number}: something that differs, and that is long enough to count" for number in range(40)
    )
    assert fold_output(output, "make") == output
    assert fold_output("\n".join(["x"] * 20), "make") == "\n".join(["x"] * 20)


def test_the_whole_output_is_kept_and_its_place_is_reported(shell: BashSession) -> None:
    result = shell.run("for i in $(seq 200); do echo waiting for the port; done; echo up")
    said = text(result)
    assert said.startswith(
        "waiting for the port\n[the same line 199 more times]\nup\n[repeated lines are counted"
    )
    assert result.stored is not None and result.stored.path in said
    whole = (shell.folder / result.stored.path).read_text()
    assert whole == "waiting for the port\n" * 200 + "up\n"

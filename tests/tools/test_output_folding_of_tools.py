"""The outputs of real tools keep every failure and figure; what is folded is listed here.

`command_outputs` contains outputs of test runners, linters, builds, package managers and cloud tools. The
first line of each file is the command. Lines of passed tests and of progress may be folded, and nothing else.
"""

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.tables import each_row
from tools.processes import output_folding
from tools.processes.output_folding import fold_output
from tools.text.display import printable

OUTPUTS = sorted(Path(__file__).with_name("command_outputs").glob("*.txt"))
FOLDED: dict[str, tuple[int, list[str]]] = {
    "aws_s3_sync": (3, ["[3 lines of progress]"]),
    "cargo_test": (13, ["[13 lines of passed tests]"]),
    "go_test_v": (8, ["[8 lines of passed tests]"]),
    "jest_v": (21, ["[5 lines marked ✓]", "[8 lines marked ✓]"]),
    "kubectl_rollout": (5, ["[5 lines of progress]"]),
    "mocha": (11, ["[5 lines marked ✔]", "[6 lines marked ✔]"]),
    "pytest_durations": (8, ["[8 lines of passed tests]"]),
    "pytest_v": (
        66,
        [
            "[5 lines of passed tests]",
            "[6 lines of passed tests]",
            "[8 lines of passed tests]",
            "[9 lines of passed tests]",
        ],
    ),
    "terraform_apply": (3, ["[3 lines of progress]"]),
    "vitest": (21, ["[5 lines marked ✓]", "[8 lines marked ✓]"]),
    "vitest_default": (5, ["[5 lines marked ✓]"]),
    "wget": (87, ["[87 lines of progress]"]),
}


def folded_pair(path: Path) -> tuple[list[str], list[str]]:
    """Return the lines of an output before and after folding."""
    with path.open(encoding="utf-8", newline="") as file:
        output = printable(file.read().partition("\n")[2])
    return output.split("\n"), fold_output(output, "make").split("\n")


@pytest.fixture(autouse=True)
def short_outputs_are_folded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_folding, "MIN_SAVED_CHARS", 1)


@each_row("path", OUTPUTS)
def test_an_output_of_a_tool_loses_only_what_is_listed(path: Path) -> None:
    before, after = folded_pair(path)
    lost = Counter(before) - Counter(after)
    notes = Counter(after) - Counter(before)
    assert not [line for line in lost if re.search(r"FAIL|ERROR|[Ee]rror\b|[✗×✕]", line)]
    assert (sum(lost.values()), sorted(notes)) == FOLDED.get(path.stem, (0, []))

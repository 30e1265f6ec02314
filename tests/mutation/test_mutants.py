"""The mutation tool: which faults it makes, and (as a sweep) that the tests of the core notice nearly all."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.mutants import mutants_of, sample
from tests.mutation.survivors import known_survivors
from tests.mutation.targets import TARGETS, chosen

ROOT = Path(__file__).resolve().parents[2]


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(source)]


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("x = a <= b", ["a <= b -> a < b"]),
        ("x = a is b", ["a is b -> a is not b"]),
        ("x = a and b", ["a and b -> a or b"]),
        ("x = not a", ["not a -> a"]),
        ("x = a + b", ["a + b -> a - b"]),
        ("x = 7", ["7 -> 8"]),
        ("x = True", ["True -> False"]),
        ("x = 'tool_use'", ["'tool_use' -> 'tool_use_other'"]),
        ("x = b'z'", ["b'z' -> b'z_other'"]),
        ("x = a if b else c", ["a if b else c -> c if b else a"]),
        ("x = min(a)", ["min -> max"]),
        ("x = f(a, b, c)", ["f(a, b, c) -> f(b, a, c)"]),
        ("x.a = b", ["x.a = b -> deleted"]),
        ("x += b", ["x += b -> deleted"]),
        ("f()", ["f() -> deleted"]),
        ("raise E('what')", ["raise E('what') -> deleted"]),
        ("if a:\n    pass", ["if a: -> deleted"]),
        ("def f():\n    return x", ["return x -> return None"]),
        ("x = word_set('a b')", ["a -> deleted", "b -> deleted"]),
        ("x = 'a|b|c|d|e|f'", [f"{word} -> deleted" for word in "abcdef"]),
    ],
)
def test_each_kind_of_fault_is_made(source: str, made: list[str]) -> None:
    assert changes(source) == made


@pytest.mark.parametrize(
    "source",
    [
        "'''A docstring of 1 word.'''",
        "import a",
        "x: Literal['a']",
        "def f(a: 'b') -> 'c': ...",
        "def __repr__(self):\n    return 'a' + 'b'",
        "log.debug('a', 1)",
        "x = 'a text for people'",
        "x = f'{1}'",
        "@dataclass(frozen=True)\nclass A: ...",
        "def f():\n    return None",
        "assert a == b",
    ],
)
def test_what_is_no_behaviour_is_left_alone(source: str) -> None:
    assert changes(source) == []


def test_a_mutant_says_where_it_is_and_is_the_whole_module_with_one_fault() -> None:
    source = "class A:\n    def f(self):\n        x = 1\n        return min(\n            x, 0)  # why\n"
    first, *_, last = mutants_of(source)
    assert (first.line, first.place, first.code, first.change) == (3, "A.f", "x = 1", "1 -> 2")
    assert first.text == "class A:\n\n    def f(self):\n        x = 2\n        return min(x, 0)\n"
    assert (last.line, last.code, last.change) == (4, "return min(", "0 -> 1")


def test_a_sample_is_even_and_the_same_each_time() -> None:
    mutants = list(mutants_of("".join(f"x = {n}\n" for n in range(10))))
    assert [mutant.before for mutant in sample(mutants, 4)] == ["0", "2", "5", "7"]
    assert sample(mutants, 10) == mutants


def test_each_target_and_its_tests_are_there_and_a_wrong_name_is_refused() -> None:
    for target in TARGETS:
        assert (ROOT / target.module).is_file()
        assert all((ROOT / each).is_file() for each in target.tests)
    assert [target.module for target in chosen(["transcripts/folding.py", "edits"])] == [
        "transcripts/folding.py",
        "transcripts/edits.py",
    ]
    with pytest.raises(ValueError, match="names no target"):
        chosen(["fold", "frobnicate"])


def test_each_known_survivor_has_a_reason() -> None:
    assert all(survivor.reason for target in TARGETS for survivor in known_survivors(target.module))


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("module", [target.module for target in TARGETS])
def test_the_tests_of_the_core_notice_nearly_every_fault(module: str) -> None:
    command = [sys.executable, "-m", "tests.mutation", module]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr

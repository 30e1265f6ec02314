"""The mutation tool: the faults that it makes, and (as a sweep) the share that each room's tests notice."""

import gc
import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutation.__main__ import Report
from tests.mutation.mutants import mutants_of, sample
from tests.mutation.reach import Reach, TestRun, bits, body_lines
from tests.mutation.runner import Job
from tests.mutation.survivors import PATH
from tests.mutation.swap import CannotSwap, Functions
from tests.mutation.targets import ROOMS, ROOT, chosen
from tests.mutation.tracer import Tracer, with_tracing
from tests.mutation.typed import TypeChecker
from tests.sampling import sampled_rows
from tests.tables import each_row


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(source)]


@each_row(
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


@each_row(
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
        "class A(Struct, frozen=True): ...",
        "def f():\n    return None",
        "with suppress(A, B): ...",
        "assert a == b",
    ],
)
def test_what_is_not_a_behaviour_is_left_alone(source: str) -> None:
    assert changes(source) == []


@each_row(
    ("source", "kinds"),
    [
        ("X = word_set('a b c d e f')", {"table"}),
        ("X = word_set('a b')", {"behaviour"}),
        ("X = {'a', 'b', 'c', 'd', 'e', 'f'}", {"table"}),
        ("def f():\n    x = {'a', 'b', 'c', 'd', 'e', 'f'}", {"behaviour"}),
        ("X = lazy('a|b|c|d|e|f')", {"table"}),
        ("X = {'a': 1, 'b': 1}", {"behaviour"}),
        ("X = 200", {"tuning"}),
        ("X = 9", {"behaviour"}),
        ("x = f(0o600)", {"behaviour"}),
        ("x[:200]", {"tuning", "behaviour"}),  # the statement can be deleted
        ("x = shorten(y, limit=200)", {"behaviour"}),
        ("if x == 429: pass", {"behaviour"}),
        ("def f():\n    x = 200", {"behaviour"}),
    ],
)
def test_forgotten_words_of_tables_and_moved_limits_are_set_apart(source: str, kinds: set[str]) -> None:
    assert {mutant.kind for mutant in mutants_of(source)} == kinds


def test_the_share_counts_behaviour_and_each_kind_has_a_share_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report(ROOMS[0], 3)
    sources = {"killed": "x = a and b", "survived": "X = 200", "not reached": "X = 'a|b|c|d|e|f'"}
    for outcome, source in sources.items():
        report.add(Job("agent/loop/turn.py", next(mutants_of(source))), outcome)  # type: ignore[arg-type]
    assert report.percent() == 100.0
    tuning, table, behaviour = report.lines()
    assert tuning == "agent/loop, tuning (not counted): 0.0 % found: 1 survived"
    assert table == "agent/loop, table (not counted): 0.0 % found: 1 not reached"
    assert behaviour.startswith("agent/loop: 100.0 % found: 1 killed; 3 mutants of 3, ")
    printed = capsys.readouterr().out
    assert "  survived (tuning): agent/loop/turn.py:1 : X = 200\n      200 -> 201\n" in printed


@pytest.mark.sweep  # starting mypy takes more than a second
def test_mypy_rejects_a_mutant_with_another_type_and_leaves_the_module_alone(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    source = "x: int = 'a'  # type: ignore[assignment]\n\ndef f(a: int) -> str:\n    return str(a)\n"
    (tree / "module.py").write_text(source)
    (tree / "mypy.ini").write_text("[mypy]\nstrict = true\n")
    types = TypeChecker(tree, ROOT / "no cache")
    rejected = [each.change for each in mutants_of(source) if types.rejects("module.py", each.text)]
    assert rejected == ["return str(a) -> return None"]
    assert (tree / "module.py").read_text() == source


def test_a_mutant_says_where_it_is_and_is_the_whole_module_with_one_fault() -> None:
    source = "class A:\n    def f(self):\n        x = 1\n        return min(\n            x, 0)  # why\n"
    first, *_, last = mutants_of(source)
    assert (first.line, first.place, first.code, first.change) == (3, "A.f", "x = 1", "1 -> 2")
    assert first.text == "class A:\n\n    def f(self):\n        x = 2\n        return min(x, 0)\n"
    assert (last.line, last.code, last.change) == (4, "return min(", "0 -> 1")


def test_a_mutant_spans_the_head_of_its_statement() -> None:
    source = "if (\n    a\n    < b\n):\n    x = f(\n        1,\n    )\n"
    assert {(mutant.line, mutant.last_line) for mutant in mutants_of(source)} == {(1, 4), (5, 7)}


def test_a_sample_is_in_order_and_the_same_for_the_same_seed() -> None:
    numbers = list(range(100))
    drawn = sample(numbers, 10, "1")
    assert len(drawn) == 10
    assert drawn == sorted(drawn) == sample(numbers, 10, "1")
    assert drawn != sample(numbers, 10, "2")
    assert sample(numbers, 100, "1") == numbers


def test_each_room_has_modules_and_tests_and_a_wrong_name_is_refused() -> None:
    for room in ROOMS:
        assert all((ROOT / each).is_file() for each in room.paths())
        packages = (room.package, *room.beside)
        assert all(each.startswith(tuple(f"tests/{name}/" for name in packages)) for each in room.tests())
        assert room.tests() and not {*room.tests()} & {*room.tests_of_users()}
    loop = ROOMS[0].tests_of_users()
    assert {"tests/agent/test_power.py", "tests/agent/ui/test_approval.py"} <= {*loop}
    chosen_modules = [
        module
        for modules in chosen(["transcripts/folding.py", "transcripts/edits"]).values()
        for module in modules
    ]
    assert chosen_modules == ["transcripts/edits.py", "transcripts/folding.py"]
    with pytest.raises(ValueError, match="part of a module's path"):
        chosen(["fold", "frobnicate"])


def test_each_known_survivor_has_a_reason_and_a_line_in_its_module() -> None:
    modules = {module for modules in chosen([]).values() for module in modules}
    survivors = tomllib.loads(PATH.read_text("utf-8"))["survivor"]
    assert {each["module"] for each in survivors} <= modules
    assert all(each["reason"] for each in survivors)
    lines = {module: {line.strip() for line in (ROOT / module).read_text().split("\n")} for module in modules}
    assert [each for each in survivors if each["code"] not in lines[each["module"]]] == []


MODULE = """
LIMIT = 3

def size(text):
    if len(text) > 5:
        return LIMIT
    def doubled():
        return len(text) * 2
    return doubled()

class Shape:
    sides = 4

    @property
    def corners(self):
        return self.sides + 0
"""


def imported(path: Path) -> ModuleType:
    path.write_text(MODULE)
    specification = importlib.util.spec_from_file_location("swapped", path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("before", "after"),
    sampled_rows(
        [("len(text) * 2", "len(text) * 3"), ("self.sides + 0", "self.sides + 2"), ("> 5", "> 1")], 3
    ),
)
def test_a_mutant_is_put_into_the_functions_that_are_imported(
    tmp_path: Path, before: str, after: str
) -> None:
    path = tmp_path / "swapped.py"
    module = imported(path)
    size = module.size
    had = (size("ab"), module.Shape().corners)
    Functions().swap(str(path), MODULE, MODULE.replace(before, after))
    assert (size("ab"), module.Shape().corners) != had == (4, 4)


def test_functions_that_were_frozen_are_swapped_and_a_module_that_is_not_imported_is_an_error(
    tmp_path: Path,
) -> None:
    path = tmp_path / "swapped.py"
    module = imported(path)
    gc.freeze()
    functions = Functions()
    functions.swap(str(path), MODULE, MODULE.replace("* 2", "* 3"))
    assert module.size("ab") == 6
    with pytest.raises(CannotSwap, match="no function"):
        functions.swap(str(tmp_path / "other.py"), MODULE, MODULE.replace("* 2", "* 3"))


def test_a_mutant_without_a_function_that_is_there_cannot_be_swapped(tmp_path: Path) -> None:
    path = tmp_path / "swapped.py"
    imported(path)
    with pytest.raises(CannotSwap):
        Functions().swap(str(path), MODULE, MODULE.partition("class")[0])


def test_the_lines_of_each_test_choose_the_tests_of_a_mutant(tmp_path: Path) -> None:
    path = tmp_path / "swapped.py"
    module = imported(path)
    tracer = Tracer.with_notes([str(path)], tmp_path / "notes")
    reach = Reach({})
    for name, text in (("short", "ab"), ("long", "abcdef")):
        tracer.start()
        try:
            module.size(text)
        finally:
            reach.tests[name] = TestRun(tracer.stop(), seconds=len(text))
    line = {text: number for number, text in enumerate(MODULE.split("\n"), start=1)}

    def running(text: str) -> list[str]:
        return reach.running({str(path): bits(line[text], line[text])})

    assert running("        return LIMIT") == ["long"]
    assert running("    return doubled()") == running("        return len(text) * 2") == ["short"]
    assert running("    if len(text) > 5:") == ["short", "long"]
    assert running("        return self.sides + 0") == []
    reach.tests["long"].has_passed = False
    assert running("        return LIMIT") == []
    assert reach.failing() == ["long"]


def test_a_default_is_judged_by_the_tests_that_run_the_body_of_its_function() -> None:
    source = "@cache\ndef size(text, *,\n         least=0):\n    n = len(text)\n    return n or least"
    assert body_lines(source, 2) == bits(4, 5)
    assert body_lines(source, 1) == body_lines(source, 4) == 0


def test_the_lines_that_forks_and_other_programs_run_are_lines_of_the_test(tmp_path: Path) -> None:
    path = tmp_path / "swapped.py"
    module = imported(path)
    notes = tmp_path / "notes"
    tracer = Tracer.with_notes([str(path)], notes)
    tracer.start()
    child = os.fork()
    if not child:
        os.closerange(3, 4_096)
        module.size("abcdef")
        os._exit(0)
    os.waitpid(child, 0)
    lines = tracer.stop()
    path.write_text(with_tracing(MODULE + 'if __name__ == "__main__":\n    size("ab")\n', notes))
    subprocess.run([sys.executable, "-I", "-S", path], cwd=tmp_path, check=True)
    line = {text: bits(number, number) for number, text in enumerate(MODULE.split("\n"), start=1)}
    assert lines == {str(path): line["    if len(text) > 5:"] | line["        return LIMIT"]}
    in_a_program = tracer.stop()[str(path)]
    assert (
        in_a_program & line["        return len(text) * 2"]
        and not in_a_program & line["        return LIMIT"]
    )
    assert tracer.stop() == {}


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("package", [room.package for room in ROOMS])
def test_the_tests_of_a_room_notice_most_faults(package: str) -> None:
    command = [sys.executable, "-m", "tests.mutation", f"{package}/"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr

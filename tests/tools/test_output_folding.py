"""Repeated lines of a command's output are counted; text that may have to be edited is never changed."""

import pytest

from tests.tables import each_row
from tools.processes import output_folding
from tools.processes.output_folding import fold_output

from .bash_session import BashSession, text

FAILED = "FAILED tests/test_a.py::test_9 - assert 1 == 2"
PYTEST = [f"tests/test_a.py::test_{number} PASSED   [ {number:2d}%]" for number in range(40)]


@each_row(
    "lines",
    [
        PYTEST,
        [f"test parser::case_{number} ... ok" for number in range(40)],
        [f"{word}TestCase/number_{number}" for number in range(20) for word in ("=== RUN   ", "--- PASS: ")],
        [f"ok  \texample.org/project/package_{number}\t0.{number}s" for number in range(40)],
        [f"ok {number} - it keeps what it is given" for number in range(40)],
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


def test_check_marks_are_counted_as_what_they_are() -> None:
    marked = "\n".join(f"  ✓ keeps what it is given, case {number} (3 ms)" for number in range(40))
    assert fold_output(f"{marked}\nTests:  40 passed", "make") == "[40 lines marked ✓]\nTests:  40 passed"


def test_a_test_that_started_last_is_not_counted_as_passed() -> None:
    passed = [f"{word}Test{number}" for number in range(20) for word in ("=== RUN   ", "--- PASS: ")]
    output = "\n".join([*passed, "=== RUN   TestLast", "panic: out of range"])
    assert fold_output(output, "go test -v").split("\n") == [
        "[40 lines of passed tests]",
        "=== RUN   TestLast",
        "panic: out of range",
    ]


PERCENTAGES = (3, 9, 17, 30, 41, 55, 68, 80, 92, 99)
NOT_PROGRESS = {
    "linter": "ERROR src/mod_{n}.py: duplicated by {p}%",
    "warnings": "warning: branch {n} covered by {p}%",
    "pytest without a summary": "tests/test_{n}.py::test_a FAILED                 [ {p}%]",
    "xdist": "[gw1] [ {p}%] FAILED tests/test_a.py::test_{n}",
    "coverage": "shop/module_{n}.py      120     {n}    {p}%",
    "go tool cover": "example.org/shop/f.go:{n}:\tTotal{n}\t{p}.0%",
    "go test -cover": "ok  \texample.org/shop/p{n}\t0.0{n}s\tcoverage: {p}.1% of statements",
    "go test without tests": "ok  \texample.org/shop/p{n}\t0.0{n}s [no tests to run]",
    "perf": "    {p}.20%  shop  libc.so.6  [.] symbol_{n}",
    "benchstat": "Total/{n}-8   92.41n ± 1%   80.12n ± 2%  +{p}.30% (p=0.000 n=10)",
    "kubectl top": "node-{n}   {p}50m   {p}%   1200Mi   30%",
    "df": "/dev/sda{n}   100G   {p}G   40G   {p}% /mnt/{n}",
    "bundle sizes": "dist/chunk-{n}.js   {p}.12 kB │ gzip: {n}.20 kB │ {p}%",
    "checks": "Checking package_{n} ... FAIL",
    "checks that end differently": "Checking package_{n} ... {p}% of the licenses unknown",
    "compilations": "Compiling module_{n} v0.{p}.1",
    "requirements": "Requirement already satisfied: package{n} in ./lib (1.{p}.0)",
    "packages": "Setting up package-{n} (1.{p}-2) ...",
    "exit codes": "Running step 3: {p}% exit code {n}",
    "measurements of one name": "training accuracy: {p}%",
    "epochs": "Training epoch 3: {p}% loss=0.{n}4",
    "tracebacks": "Running traceback of worker {p}%",
    "panics": "Running {p}% thread panicked",
    "percentages alone": "{p}%",
    "timings": "sorting 1000 items: {p} ms",
    "skipped tests": "ok {n} - parses the input # SKIP needs {p}% more memory",
    "build steps": "[ {p}%] Building CXX object src/part_{n}.o",
    "check marks with sizes": "  ✓ dist/chunk-{n}.js {p} kB",
    "falling shares": "Sampling host at {r}%",
    "timings of a loop": "elapsed: 1.{p}s",
    "waits that are measured": "Connection waiting: 1{p}ms",
    "free space": "Space remaining: {p}.3G",
    "counted benchmarks": "Benchmarking case {n}/10: {p}ms",
    "sizes of counted parts": "Scanning bucket {n} of 10: {p} GB",
    "sorted shares": "String similarity: {p}%",
    "check marks without a summary of tests": "  ✓ build in {n}m2s (ID 178{p})",
    "output of a test": "tests/test_a.py::test_{n} found {p} rows PASSED  [ {p}%]",
    "failures in a count": "Checking link {n} of 10: failed",
    "long lines": f"Downloading {'x' * 300} {{p}}%",
    "throughput in TAP": "ok {n} - parses {p} rows/s",
}


@pytest.mark.parametrize("kind", NOT_PROGRESS)
def test_failures_tables_and_measurements_are_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_folding, "MIN_SAVED_CHARS", 1)
    pattern = NOT_PROGRESS[kind]
    output = "\n".join(pattern.format(n=n, p=p, r=100 - p) for n, p in enumerate(PERCENTAGES))
    assert fold_output(output, "make") == output


PROGRESS = {
    "percentage": "Downloading layer {p}%",
    "bar": "model.bin [{bar:<10}] {p}% 3.{n} MB/s eta 0:0{r}",
    "block bar": "pulling ████████ {p}% ▕███▏ {n}.1 MB",
    "counter": "Waiting for the rollout: {n} out of 10 replicas are updated",
    "sizes": "Uploading {n}.5 MB/12.0 MB ({p}.1 MB/s)",
    "wait": "aws_instance.web: Still creating... [{n}m0s elapsed]",
    "dots of wget": " {n}50K .......... .......... .......... .......... .......... {p}% 1.68M {r}s",
}


@pytest.mark.parametrize("kind", PROGRESS)
def test_progress_is_equal_but_for_its_share_time_and_speed(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_folding, "MIN_SAVED_CHARS", 1)
    lines = [
        PROGRESS[kind].format(n=n, p=p, r=9 - n, bar="=" * n + ">" + " " * (9 - n))
        for n, p in enumerate(PERCENTAGES)
    ]
    assert fold_output("\n".join(lines), "make").split("\n") == [
        lines[0],
        "[8 lines of progress]",
        lines[-1],
    ]


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


@each_row(
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
        "waiting for the port\n[the same line 199 more times]\nup\n[repeated lines are collapsed"
    )
    assert result.stored is not None and result.stored.path in said
    whole = (shell.folder / result.stored.path).read_text()
    assert whole == "waiting for the port\n" * 200 + "up\n"

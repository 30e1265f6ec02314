"""Mutation testing: `python -m tests.mutation [TARGET ...]`, a target by any part of its module's path.

For each room it runs a sample of the mutants of its modules with the tests of the room. Those that survive
are checked by mypy ("mistyped"), which the gate runs as well, and then with the tests of the room's users. It
prints the line and the change of each one that survives, and how many were found. It exits with 1 where fewer
than the wanted share were found.

The share counts mutants of behaviour. Mutants of tables and of tuning (see `mutants.py`) are sampled, judged
and printed as well, at most a tenth as many of each, with a share of their own. Mutants that survivors.toml
explains are counted apart. `--own` omits the tests of users, and `--tests` all but some files; the shares
are lower bounds then. A mutant that makes the tests hang counts as killed. A fault in a line that no test
runs counts as "not reached".
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from .mutants import Kind, mutants_of, sample
from .runner import Baseline, CannotJudge, Job, Outcome, copied_tree, judge
from .survivors import known_survivors
from .targets import Room, chosen
from .typed import TypeChecker

WANTED_PERCENT = 85.0
SURVIVING: tuple[Outcome, ...] = ("survived", "not reached")


@dataclass(slots=True)
class Report:
    """The outcomes of a room's sample; "known" are survivors that are listed with a reason."""

    room: Room
    made: int
    outcomes: dict[Kind, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    by_module: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    started: float = field(default_factory=time.monotonic)

    def add(self, job: Job, outcome: Outcome) -> None:
        """Count a mutant, and print it where it survives for no known reason."""
        known = any(each.is_made_by(job.mutant) for each in known_survivors(job.module))
        counted = "known" if known and outcome in SURVIVING else outcome
        kind = job.mutant.kind
        self.outcomes[kind][counted] += 1
        if kind == "behaviour":
            self.by_module[job.module][counted] += 1
        where = f"{job.module}:{job.mutant.line} {job.mutant.place}"
        if counted in SURVIVING:
            of_kind = "" if kind == "behaviour" else f" ({kind})"
            print(f"  {counted}{of_kind}: {where}: {job.mutant.code}\n      {job.mutant.change}", flush=True)
        elif known:
            print(f"  listed in survivors.toml, is killed now: {where}: {job.mutant.change}", flush=True)

    def show_baseline(self, baseline: Baseline) -> None:
        print(f"{self.room.package}: traced {baseline.tests} tests in {baseline.seconds:.0f} s", flush=True)
        for name in baseline.failing:
            print(f"  left out, fails without a mutant: {name}", flush=True)

    def percent(self) -> float:
        return percent(self.outcomes["behaviour"])

    def lines(self) -> list[str]:
        """Return a line for each module of which a mutant survived, and a line for each kind of mutant."""
        rows = [
            f"    {percent(counts):5.1f} %  {module} ({counts.total()})"
            for module, counts in sorted(self.by_module.items())
            if percent(counts) < 100.0
        ]
        for kind, outcomes in sorted(self.outcomes.items(), reverse=True):
            of_kind = "" if kind == "behaviour" else f", {kind} (not counted)"
            counts = ", ".join(f"{number} {name}" for name, number in sorted(outcomes.items()))
            rows.append(f"{self.room.package}{of_kind}: {percent(outcomes):.1f} % found: {counts}")
        seconds = time.monotonic() - self.started
        run = sum(outcomes.total() for outcomes in self.outcomes.values())
        return [*rows[:-1], f"{rows[-1]}; {run} mutants of {self.made}, {seconds:.0f} s"]


@dataclass(frozen=True, slots=True)
class Tests:
    """The tests that judge: some files only, or those of the room and perhaps of its users."""

    only: list[str]
    of_users: bool


def percent(outcomes: Counter[str]) -> float:
    """Return the share of the mutants that were found, without those that are known to survive."""
    judged = outcomes.total() - outcomes["known"]
    missed = sum(outcomes[each] for each in SURVIVING)
    return 100.0 * (judged - missed) / judged if judged else 100.0


def drawn(jobs: list[Job], most: int, seed: str) -> list[Job]:
    """Return a sample of the mutants of behaviour, and a smaller one of each other kind."""
    kinds: tuple[tuple[Kind, int], ...] = (
        ("behaviour", most),
        ("table", most // 10),
        ("tuning", most // 10),
    )
    return [
        job
        for kind, number in kinds
        for job in sample([each for each in jobs if each.mutant.kind == kind], number, seed)
    ]


def run_room(
    tree: Path, room: Room, modules: list[str], *, most: int, seed: str, tests: Tests, types: TypeChecker
) -> Report:
    """Judge a sample of the mutants of a room's modules. Raises CannotJudge."""
    jobs = [Job(name, each) for name in modules for each in mutants_of((tree / name).read_text("utf-8"))]
    report = Report(room, len(jobs))
    left: list[Job] = []

    def note(job: Job, outcome: Outcome) -> None:
        if outcome in SURVIVING and types.rejects(job.module, job.mutant.text):
            outcome = "mistyped"
        if outcome in SURVIVING and tests.of_users:
            left.append(job)
        else:
            report.add(job, outcome)

    def run(jobs: list[Job], tests: list[str], done: Callable[[Job, Outcome], None]) -> None:
        judge(tree, jobs, modules=room.paths(), tests=tests, told=report.show_baseline, done=done)

    run(drawn(jobs, most, f"{seed} {room.package}"), tests.only or room.tests(), note)
    if left:
        run(left, room.tests_of_users(), report.add)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("target", nargs="*", help="part of a module's path; all modules without")
    parser.add_argument(
        "--most", type=int, default=150, help="size of the sample of each room (default: 150)"
    )
    parser.add_argument("--seed", default="1", help="another seed draws another sample (default: 1)")
    parser.add_argument("--all", action="store_true", help="every mutant instead of a sample")
    parser.add_argument("--own", action="store_true", help="omit the tests of other rooms: quicker")
    parser.add_argument("--tests", nargs="+", default=[], help="test files to run instead of the room's")
    given = parser.parse_args()
    tests = Tests(given.tests, of_users=not (given.own or given.tests))
    most = sys.maxsize if given.all else given.most
    lowest = 100.0
    try:
        with copied_tree() as tree, copied_tree() as without_faults:
            types = TypeChecker(without_faults)
            for room, modules in chosen(given.target).items():
                report = run_room(tree, room, modules, most=most, seed=given.seed, tests=tests, types=types)
                print("\n".join(report.lines()), flush=True)
                lowest = min(lowest, report.percent())
    except (CannotJudge, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if lowest >= WANTED_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())

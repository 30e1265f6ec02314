"""Mutation testing: `python -m tests.mutation [TARGET ...]`, a target by any part of its module's path.

For each room it runs a sample of the mutants of its modules. It prints the line and the change of each one
that survives, and how many were killed. Mutants that survivors.toml explains are counted apart. It exits
with 1 where fewer than the wanted share were killed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .mutants import mutants_of, sample
from .runner import Baseline, CannotJudge, Job, Outcome, copied_tree, judge
from .survivors import known_survivors
from .targets import ROOT, Room, chosen

WANTED_PERCENT = 85.0


@dataclass(slots=True)
class Report:
    """The outcomes of a room's sample: killed, hung, survived, not reached, or known (to survive)."""

    room: Room
    made: int
    outcomes: Counter[str] = field(default_factory=Counter)
    by_module: dict[str, Counter[str]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def add(self, job: Job, outcome: Outcome) -> None:
        """Count a mutant, and print it where it survives for no known reason."""
        known = any(each.is_made_by(job.mutant) for each in known_survivors(job.module))
        counted = "known" if known and outcome in ("survived", "not reached") else outcome
        self.outcomes[counted] += 1
        self.by_module.setdefault(job.module, Counter())[counted] += 1
        where = f"{job.module}:{job.mutant.line} {job.mutant.place}"
        if counted in ("survived", "not reached"):
            print(f"  {counted}: {where}: {job.mutant.code}\n      {job.mutant.change}", flush=True)
        elif known:
            print(f"  listed in survivors.toml, is killed now: {where}: {job.mutant.change}", flush=True)

    def show_baseline(self, baseline: Baseline) -> None:
        print(f"{self.room.package}: traced {baseline.tests} tests in {baseline.seconds:.0f} s", flush=True)
        for name in baseline.failing:
            print(f"  left out, fails without a mutant: {name}", flush=True)

    def lines(self) -> list[str]:
        """Return a line for each module of which a mutant survived, and the line of the room."""
        rows = [
            f"    {percent(counts):5.1f} %  {module} ({counts.total()})"
            for module, counts in sorted(self.by_module.items())
            if percent(counts) < 100.0
        ]
        counts = ", ".join(f"{number} {name}" for name, number in sorted(self.outcomes.items()))
        run = f"{self.outcomes.total()} mutants of {self.made}"
        seconds = time.monotonic() - self.started
        total = (
            f"{self.room.package}: {percent(self.outcomes):.1f} % killed: {run}, {counts}, {seconds:.0f} s"
        )
        return [*rows, total]


def percent(outcomes: Counter[str]) -> float:
    """Return the share of the mutants that were killed, without those that are known to survive."""
    judged = outcomes.total() - outcomes["known"]
    return 100.0 * (outcomes["killed"] + outcomes["hung"]) / judged if judged else 100.0


def run_room(tree: Path, room: Room, modules: list[str], *, most: int, seed: str) -> Report:
    """Judge a sample of the mutants of a room's modules. Raises CannotJudge."""
    jobs = [Job(name, each) for name in modules for each in mutants_of((ROOT / name).read_text("utf-8"))]
    report = Report(room, len(jobs))
    judge(
        tree,
        sample(jobs, most, f"{seed} {room.package}"),
        modules=room.paths(),
        tests=room.tests(),
        told=report.show_baseline,
        done=report.add,
    )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("target", nargs="*", help="part of a module's path; all modules without")
    parser.add_argument(
        "--most", type=int, default=150, help="size of the sample of each room (default: 150)"
    )
    parser.add_argument("--seed", default="1", help="another seed draws another sample (default: 1)")
    parser.add_argument("--all", action="store_true", help="every mutant instead of a sample")
    given = parser.parse_args()
    most = sys.maxsize if given.all else given.most
    lowest = 100.0
    try:
        with copied_tree() as tree:
            for room, modules in chosen(given.target).items():
                report = run_room(tree, room, modules, most=most, seed=given.seed)
                print("\n".join(report.lines()), flush=True)
                lowest = min(lowest, percent(report.outcomes))
    except (CannotJudge, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if lowest >= WANTED_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())

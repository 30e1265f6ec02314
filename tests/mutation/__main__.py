"""Mutation testing: `python -m tests.mutation [TARGET ...]`, a target by any part of its module's path.

For each target it prints how many mutants its tests killed, and the line and change of each that survived.
Those that survivors.toml explains are counted apart. It exits with 1 where any other mutant survived below
the wanted share.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from .mutants import Mutant
from .runner import CannotJudge, Report, copied_tree, run_target
from .survivors import Survivor, known_survivors
from .targets import MAX_MUTANTS, Target, chosen

WANTED_PERCENT = 85.0


def summary(report: Report, known: list[Survivor]) -> tuple[str, float]:
    """What came of a target in one line, and the percentage of its mutants that were killed.

    Mutants that are known to survive count neither as killed nor as mutants.
    """
    excused = sum(any(each.is_made_by(mutant) for each in known) for mutant in report.survived)
    killed, judged = len(report.run) - len(report.survived), len(report.run) - excused
    percent = 100.0 * killed / judged if judged else 100.0
    made = f"{len(report.run)} mutants" + (f" of {report.made}" if len(report.run) < report.made else "")
    counts = f"{killed} killed, {judged - killed} survived, {excused} known to survive"
    return f"{report.target.module}: {made}, {counts}: {percent:.1f} % in {report.seconds:.0f} s", percent


def outdated(report: Report, known: list[Survivor]) -> Iterator[str]:
    """A line for each known survivor that did not survive."""
    for each in known:
        if not any(each.is_made_by(mutant) for mutant in report.survived):
            was_run = any(each.is_made_by(mutant) for mutant in report.run)
            state = "is killed now" if was_run else "was not made, or is not in the sample"
            yield f"  listed in survivors.toml, {state}: {each.place}: {each.code}: {each.change}"


def run_targets(targets: list[Target], most: int) -> float:
    """Run them, at most so many mutants of each, and print what comes of it. Returns the lowest percentage.

    Raises CannotJudge.
    """
    lowest = 100.0
    with copied_tree() as tree:
        for target in targets:
            known = known_survivors(target.module)

            def tell(mutant: Mutant, module: str = target.module, known: list[Survivor] = known) -> None:
                if not any(each.is_made_by(mutant) for each in known):
                    where = f"{module}:{mutant.line} {mutant.place}"
                    print(f"  survived: {where}: {mutant.code}\n      {mutant.change}", flush=True)

            print(target.module, flush=True)
            report = run_target(tree, target, min(most, target.most) if most != sys.maxsize else most, tell)
            line, percent = summary(report, known)
            print("\n".join([*outdated(report, known), line]), flush=True)
            lowest = min(lowest, percent)
    return lowest


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("target", nargs="*", help="part of a module's path; all targets without")
    parser.add_argument(
        "--all", action="store_true", help=f"not only a sample of {MAX_MUTANTS} of each target"
    )
    given = parser.parse_args()
    try:
        lowest = run_targets(chosen(given.target), sys.maxsize if given.all else MAX_MUTANTS)
        return 0 if lowest >= WANTED_PERCENT else 1
    except (CannotJudge, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

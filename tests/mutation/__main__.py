"""Mutation testing: `python -m tests.mutation [TARGET ...]`, a target by any part of its module's path.

For each target it prints how many mutants its tests killed, and the line and change of each that survived.
Those that survivors.toml explains are counted apart. It exits with 1 where any other mutant survived below
the wanted share.
"""

from __future__ import annotations

import argparse
import sys

from .runner import CannotJudge, Report, copied_tree, run_target
from .survivors import known_survivors
from .targets import MAX_MUTANTS, Target, chosen

WANTED_PERCENT = 90.0


def described(report: Report) -> tuple[str, float]:
    """What to print of a target, and the percentage of its mutants that were killed.

    Mutants that are known to survive count neither as killed nor as mutants.
    """
    target = report.target
    known = known_survivors(target.module)
    excused = [m for m in report.survived if any(k.is_made_by(m) for k in known)]
    missed = [m for m in report.survived if m not in excused]
    judged = len(report.run) - len(excused)
    percent = 100.0 * (judged - len(missed)) / judged if judged else 100.0
    made = f"{len(report.run)} mutants" + (f" of {report.made}" if len(report.run) < report.made else "")
    counts = f"{len(report.run) - len(report.survived)} killed, {len(missed)} survived"
    lines = [
        f"{target.module}: {made}, {counts}, {len(excused)} known to survive: "
        f"{percent:.1f} % in {report.seconds:.0f} s"
    ]
    lines += [f"  {target.module}:{m.line} {m.place}: {m.code}\n      {m.change}" for m in missed]
    for each in known:
        if not any(each.is_made_by(mutant) for mutant in report.survived):
            was_run = any(each.is_made_by(mutant) for mutant in report.run)
            state = "is killed now" if was_run else "was not made or not in the sample"
            where = f"{each.place}: {each.code}\n      {each.change}"
            lines.append(f"  listed in survivors.toml, {state}: {where}")
    return "\n".join(lines), percent


def run_targets(targets: list[Target], most: int) -> float:
    """Run them, at most so many mutants of each, and print what came of it. Returns the lowest percentage.

    Raises CannotJudge.
    """
    lowest = 100.0
    with copied_tree() as tree:
        for target in targets:
            text, percent = described(run_target(tree, target, most))
            print(text, flush=True)
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

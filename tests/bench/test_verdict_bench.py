"""Cost of a verdict on everyday, adversarial and huge lines. Run with `pytest -m bench -n 0 -s`."""

import time
from random import Random

import pytest

from agent.permissions import PermissionRules, judge_call, parse_rules
from agent.shell import irreversible_effect, read_line
from tests.agent.shell.command_grammar import Grammar
from tools.base import Access

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]
RULES = PermissionRules(
    "manual", (), parse_rules("bash(zap), bash(vcs push), bash(curl), bash(rm -rf)"), "/w", "/h"
)
HUGE = [
    "((", "(", "$(", "${", "`", "{", "[", "'", '"', "\\", "a;", "a|", "[[ ", "$((1+", "x=$(y);", "a=$b ",
    "sudo ", "f(){ ", "{a,b}", "~", "<<E\n", "#\n", "*", "case x in ", "if a; then ", "bash <<E\nls\nE\n",
    "a[", "x=(", "timeout 1 ",
]  # fmt: skip


def milliseconds(line: str) -> float:
    """The time that a fresh verdict on the line takes, of our process alone; the best of three."""
    best = float("inf")
    for _ in range(3):
        read_line.cache_clear()
        irreversible_effect.cache_clear()
        start = time.process_time()
        judge_call("bash", [Access("run", line)], RULES)
        best = min(best, (time.process_time() - start) * 1_000)
    return best


def test_a_verdict_takes_milliseconds_whatever_the_line_says() -> None:
    grammar = Grammar(Random(1), "/w/s")
    spent = sorted(milliseconds(grammar.line()) for _ in range(1_000))
    huge = {unit: milliseconds((unit * 100_000)[:100_000]) for unit in HUGE}
    worst = max(huge, key=huge.__getitem__)
    print(
        f"\nadversarial lines: median {spent[500]:.2f} ms, p99 {spent[990]:.2f} ms, worst {spent[-1]:.2f} ms"
    )
    print(f"100 kB of one thing: worst {huge[worst]:.1f} ms ({worst!r}); of '((': {huge['((']:.1f} ms")
    for unit in HUGE:
        tenth = milliseconds((unit * 10_000)[:10_000])
        assert huge[unit] < 15 * tenth + spent[-1], unit

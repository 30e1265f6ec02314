"""How far the estimate of the next prompt is from what the strict server counts by a rule of its own."""

import statistics
from pathlib import Path

import pytest

from tests.agent.test_long_session import run_and_check
from transcripts.facts import Reply, RequestSent
from transcripts.load import read_transcript

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]
CALIBRATED = 5  # replies after which the fit is taken to be calibrated


@pytest.mark.parametrize("policy", ["thrifty", "classic"])
def test_the_estimate_is_within_three_percent_of_the_usage(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], policy: str
) -> None:
    path, _ = run_and_check(tmp_path, capfd, policy, files=60, window=60_000, believed=60_000)
    facts = {fact.seq: fact for fact in read_transcript(path).facts}
    errors = []
    for reply in facts.values():
        asked = facts.get(reply.asked or 0) if isinstance(reply, Reply) else None
        if isinstance(reply, Reply) and isinstance(asked, RequestSent) and reply.usage.prompt:
            errors.append(abs(asked.tokens - reply.usage.prompt) / reply.usage.prompt)
    late = errors[CALIBRATED:]
    mean, worst = 100 * statistics.mean(late), 100 * max(late)
    print(f"\n{policy}: mean error {mean:.2f} %, worst {worst:.1f} %, {len(late)} requests")
    assert statistics.mean(late) <= 0.03

